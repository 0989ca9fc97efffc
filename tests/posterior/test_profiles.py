"""Profiles of clusters, against plain loops."""

import numpy as np
import pytest

from dualview.posterior.partition.profiles import (
    mean_latent,
    profiles,
    ranks_of,
    separation,
    standings,
    typical_first,
)

RNG = np.random.default_rng(0)
LABELS = np.repeat([0, 1, 2], [20, 15, 5])
FEATURES = np.column_stack(
    [LABELS + 0.1 * RNG.normal(size=40), RNG.normal(size=40), np.ones(40), RNG.integers(0, 3, 40)]
)


def test_quartiles_and_standing() -> None:
    users = np.flatnonzero(LABELS == 1)
    (found,) = profiles([users], FEATURES)
    for j in range(4):
        values = sorted(FEATURES[users, j])
        assert found.quartiles[1, j] == values[7]
        below = sum(v < values[7] for v in FEATURES[:, j]) + 0.5 * sum(
            v == values[7] for v in FEATURES[:, j]
        )
        assert found.standing[j] == pytest.approx(below / 40)
    assert found.standing[2] == 0.5
    assert found.users.tolist() == users.tolist()
    assert profiles([users], None)[0].quartiles is None


def test_missing_cells_say_nothing() -> None:
    values = np.array([1.0, np.nan, 2.0, 3.0, np.nan])
    groups = [np.array([0, 1]), np.array([2, 3]), np.array([4])]
    np.testing.assert_allclose(standings(values, groups), [1 / 6, 2 / 3, 0.5])
    np.testing.assert_allclose(ranks_of(values[:, None])[:, 0], [1 / 6, 0.5, 0.5, 5 / 6, 0.5])


def test_standing_and_order_do_not_depend_on_the_scale() -> None:
    users, membership = np.flatnonzero(LABELS == 0)[:-1], RNG.random(40)
    (plain,), (scaled,) = (profiles([users], x) for x in (FEATURES, np.exp(FEATURES)))
    np.testing.assert_array_equal(
        *(typical_first(users, membership, ranks_of(x)) for x in (FEATURES, np.exp(FEATURES)))
    )
    np.testing.assert_allclose(plain.standing, scaled.standing)
    np.testing.assert_allclose(np.exp(plain.quartiles[1]), scaled.quartiles[1])


def test_typical_users_are_sure_and_near_the_middle() -> None:
    x = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])
    membership = np.array([0.9, 0.9, 0.2, 0.9, 0.9])
    found = typical_first(np.arange(5), membership, ranks_of(x))
    assert set(found[:2]) == {1, 3}
    assert found[-1] == 2
    assert typical_first(np.arange(5), membership, None).tolist() == [0, 1, 3, 4, 2]


def test_separation_is_a_share_of_variance() -> None:
    ranks = ranks_of(FEATURES)
    found = separation(ranks, LABELS)
    for j in (0, 1, 3):
        own = [ranks[np.equal(LABELS, k), j] for k in range(3)]
        inside = sum(((values - values.mean()) ** 2).sum() for values in own)
        assert found[j] == pytest.approx(
            1 - inside / ((ranks[:, j] - ranks[:, j].mean()) ** 2).sum()
        )
    assert found[2] == 0
    assert found[0] > 0.8 > 0.3 > found[1]


def test_mean_latent() -> None:
    draws = RNG.normal(size=(400, 6)) + np.arange(6)
    users = np.array([4, 5])
    found = mean_latent(draws, users, 0.8)
    own = draws[:, users].mean(axis=1)
    assert found.median == pytest.approx(np.median(own))
    assert (found.low, found.high) == (
        pytest.approx(np.quantile(own, 0.1)),
        pytest.approx(np.quantile(own, 0.9)),
    )
    assert found.above == np.mean(own > draws.mean(axis=1))
