"""Estimates of the partition: losses against independent code, searches against exhaustive ones."""

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

import naive
from dualview.errors import InputError
from dualview.numerics import partition_search as search
from dualview.posterior import partition


def noisy_draws(seed: int, n_draws: int = 60, n_users: int = 8, noise: float = 0.35) -> np.ndarray:
    """Partitions that scatter around one."""
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 3, n_users)
    return np.array(
        [
            np.where(rng.random(n_users) < noise, rng.integers(0, 4, n_users), base)
            for _ in range(n_draws)
        ]
    )


def entropy(labels: np.ndarray) -> float:
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    return float(-(shares * np.log(shares)).sum())


def variation_of_information(a: np.ndarray, b: np.ndarray) -> float:
    return entropy(a) + entropy(b) - 2 * mutual_info_score(a, b)


def binder(a: np.ndarray, b: np.ndarray) -> float:
    """Share of ordered pairs on which two partitions disagree."""
    disagree = np.equal.outer(a, a) != np.equal.outer(b, b)
    return float(disagree.sum() / (len(a) * (len(a) - 1)))


INDEPENDENT = {"vi": variation_of_information, "binder": binder}


@pytest.mark.parametrize("loss", partition.LOSSES)
def test_distances_equal_independent_losses(loss: str) -> None:
    z = noisy_draws(0)
    labels = np.array([0, 1, 1, 2, 0, 0, 3, 1])
    expected = [INDEPENDENT[loss](labels, draw) for draw in z]
    np.testing.assert_allclose(partition.Draws(z, loss).distances(labels), expected, atol=1e-12)


@pytest.mark.parametrize("loss", partition.LOSSES)
@pytest.mark.parametrize("n_draws", [5, 30])
def test_best_draw_has_the_least_expected_loss_of_all_draws(loss: str, n_draws: int) -> None:
    """With fewer and with more draws than users: two ways to the same scores."""
    z = noisy_draws(1, n_draws)
    draws = partition.Draws(z, loss)
    expected = np.array([np.mean([INDEPENDENT[loss](a, b) for b in z]) for a in z])
    assert expected[int(np.argmin(draws.scores()))] == pytest.approx(expected.min())


@pytest.mark.parametrize("loss", partition.LOSSES)
@pytest.mark.parametrize("seed", range(5))
def test_search_equals_exhaustive_search_for_eight_users(loss: str, seed: int) -> None:
    z = noisy_draws(seed)
    draws = partition.Draws(z, loss)
    least = min(draws.distances(np.array(labels)).mean() for labels in naive.partitions(8))
    assert draws.distances(partition.least_loss(z, loss).labels).mean() == pytest.approx(least)


@pytest.mark.parametrize("loss", partition.LOSSES)
def test_search_is_never_worse_than_the_best_draw(loss: str) -> None:
    for seed in range(5):
        z = noisy_draws(seed, n_draws=40, n_users=30)
        draws = partition.Draws(z, loss)
        best_draw = min(draws.distances(draw.astype(np.int64)).mean() for draw in draws.z)
        assert draws.distances(partition.least_loss(z, loss).labels).mean() <= best_draw + 1e-12


def test_dahl_minimises_squared_error_to_the_similarity() -> None:
    z = noisy_draws(3)
    similarity = naive.similarity(z)
    errors = [((np.equal.outer(draw, draw) - similarity) ** 2).sum() for draw in z]
    assert errors[partition.dahl(z)] == pytest.approx(min(errors))
    np.testing.assert_allclose(partition.similarity(z), similarity)


def test_renaming_clusters_changes_no_estimate() -> None:
    z = noisy_draws(4)
    renamed = np.array([np.random.default_rng(n).permutation(9)[draw] for n, draw in enumerate(z)])
    for loss in partition.LOSSES:
        np.testing.assert_array_equal(
            partition.least_loss(z, loss).labels, partition.least_loss(renamed, loss).labels
        )
    np.testing.assert_array_equal(
        partition.by_size(z[partition.dahl(z)]), partition.by_size(renamed[partition.dahl(renamed)])
    )


def test_labels_go_from_the_largest_cluster_to_the_smallest() -> None:
    np.testing.assert_array_equal(
        partition.by_size(np.array([7, 3, 3, 9, 9, 9, 5])), [2, 1, 1, 0, 0, 0, 3]
    )


def test_membership_is_the_mean_similarity_to_the_other_members() -> None:
    z = noisy_draws(5)
    labels = np.array([0, 0, 0, 1, 1, 2, 1, 0])
    similarity = naive.similarity(z)
    found = partition.Draws(z, "vi").membership(labels)
    for u in range(8):
        others = [v for v in range(8) if v != u and labels[v] == labels[u]]
        alone = np.mean([(draw == draw[u]).sum() == 1 for draw in z])
        assert found[u] == pytest.approx(similarity[u, others].mean() if others else alone)


def test_ball_holds_the_stated_share_of_draws() -> None:
    z = noisy_draws(6, n_draws=200, n_users=20)
    estimate = partition.estimate(z, partition.least_loss(z, "vi"), "vi", 0.9)
    distances = partition.Draws(z, "vi").distances(estimate.labels)
    assert 0.9 <= estimate.inside.mean() <= 1.0
    assert (distances[estimate.inside] <= estimate.radius).all()
    assert (distances[~estimate.inside] > estimate.radius).all()
    assert estimate.expected_loss == pytest.approx(distances.mean())
    assert variation_of_information(estimate.labels, estimate.farthest) == pytest.approx(
        estimate.radius
    )


def test_certain_posterior_gives_its_partition_back() -> None:
    z = np.tile([0, 0, 1, 1, 1, 2], (10, 1))
    for loss in partition.LOSSES:
        estimate = partition.estimate(z, partition.least_loss(z, loss), loss, 0.95)
        np.testing.assert_array_equal(estimate.labels, [1, 1, 0, 0, 0, 2])
        assert estimate.expected_loss == 0
        assert estimate.radius == 0
        np.testing.assert_allclose(estimate.membership, 1.0)


def test_moves_keep_their_tables_right() -> None:
    """After a search the counts are those of the partition it ended in."""
    z = np.ascontiguousarray(noisy_draws(7), dtype=np.int32)
    candidate, counts = z[0].astype(np.int64), np.arange(1.0, 61.0)
    growth = search.growth_of(8, True)
    tables, growths = np.zeros((60, 4, 6), dtype=np.int32), np.zeros((60, 4, 6))
    search.fill(z, counts, candidate, tables, growths, growth)
    sizes = np.bincount(candidate, minlength=6)
    by_user = np.ascontiguousarray(z.T)
    search.improve(np.arange(8), by_user, counts, candidate, tables, growths, sizes, growth)
    fresh, fresh_growths = np.zeros_like(tables), np.zeros_like(growths)
    search.fill(z, counts, candidate, fresh, fresh_growths, growth)
    np.testing.assert_array_equal(tables, fresh)
    np.testing.assert_allclose(growths, fresh_growths)
    np.testing.assert_array_equal(sizes, np.bincount(candidate, minlength=6))


@pytest.mark.parametrize("loss", partition.LOSSES)
def test_draws_that_are_equal_are_counted_as_often_as_they_come(loss: str) -> None:
    """Losses and probabilities of draws in which many are equal are those of naive sums."""
    few = noisy_draws(8, n_draws=12)
    z = few[np.random.default_rng(8).integers(0, 12, 300)]
    draws, labels = partition.Draws(z, loss), few[0].astype(np.int64)
    assert len(draws.z) == 12
    expected = [INDEPENDENT[loss](labels, draw) for draw in z]
    np.testing.assert_allclose(draws.distances(labels), expected, atol=1e-12)
    means = [np.mean([INDEPENDENT[loss](draw, other) for other in z]) for draw in draws.z]
    assert means[int(np.argmin(draws.scores()))] == pytest.approx(min(means))
    together = naive.similarity(z)
    errors = [((np.equal.outer(draw, draw) - together) ** 2).sum() for draw in z]
    assert errors[partition.dahl(z)] == pytest.approx(min(errors))


def thousands_of_draws() -> np.ndarray:
    """More than the starts of a search look at."""
    return noisy_draws(9, n_draws=3000, n_users=25)


def test_search_over_thousands_of_draws_ends_where_no_move_gains() -> None:
    z = thousands_of_draws()
    found, draws = partition.least_loss(z, "vi"), partition.Draws(z, "vi")
    assert found.finished
    least = draws.distances(found.labels).mean()
    for user in range(25):
        for cluster in range(found.labels.max() + 2):
            moved = found.labels.copy()
            moved[user] = cluster
            assert draws.distances(moved).mean() >= least - 1e-9


@pytest.mark.parametrize("limits", [partition.Limits(work=1.0), partition.Limits(seconds=0.0)])
def test_search_cut_short_says_so_and_is_no_worse_than_the_best_draw(
    limits: partition.Limits,
) -> None:
    z = thousands_of_draws()
    found, draws = partition.least_loss(z, "vi", limits), partition.Draws(z, "vi")
    assert not found.finished
    best_draw = partition.best_draw(z, "vi")
    assert draws.distances(found.labels).mean() <= draws.distances(best_draw).mean()


def test_partition_has_no_more_clusters_than_there_can_be() -> None:
    # each pair of draws agrees on two users out of six: the best partition may have more clusters
    z = np.array([[0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 0], [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]])
    sizes = {
        most: partition.least_loss(z, "binder", most=most).labels.max() + 1 for most in (None, 3)
    }
    assert sizes[None] > 3
    assert sizes[3] <= 3


def test_limit_of_work_gives_the_same_partition_again() -> None:
    z, limits = thousands_of_draws(), partition.Limits(work=1e5)
    found, again = (partition.least_loss(z, "vi", limits) for _ in range(2))
    np.testing.assert_array_equal(found.labels, again.labels)


def test_bad_arguments() -> None:
    z = noisy_draws(0)
    with pytest.raises(InputError, match="one of binder, vi; got 'rand'"):
        partition.Draws(z, "rand")
    with pytest.raises(InputError, match=r"between 0 and 1; got 1\.5"):
        partition.estimate(z, partition.Found(z[0], True), "vi", 1.5)
    with pytest.raises(InputError, match="the limit is 5000 users"):
        partition.similarity(np.zeros((1, 5001), dtype=int))
