"""The partition's pictures show the similarity, the numbers of clusters and their sizes as the
draws have them."""

import numpy as np
import pytest

import dualview as dv
from dualview import plots
from dualview.errors import InputError
from plots.artists import clouds, colliding_texts, legend_texts, segments

pytestmark = pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning")


def many_clusters(n_clusters, seed=0):
    """Partitions (2, 30, U) around n_clusters clusters of uneven size."""
    rng = np.random.default_rng(seed)
    base = np.repeat(np.arange(n_clusters), rng.integers(1, 12, n_clusters))
    z = np.tile(base, (2, 30, 1))
    moved = rng.random(z.shape) < 0.1
    z[moved] = rng.integers(0, n_clusters, moved.sum())
    return z


def test_similarity_is_the_posteriors_by_cluster(inferred, axes):
    assert plots.similarity(inferred, axes) is axes
    shown = np.asarray(axes.images[0].get_array())
    matrix, labels = inferred.posterior_.similarity(), inferred.labels_
    first = 0
    for cluster in range(inferred.n_clusters_):
        users = np.flatnonzero(labels == cluster)
        block = slice(first, first + len(users))
        within = matrix[np.ix_(users, users)].mean(axis=1)
        np.testing.assert_allclose(shown[block, block].mean(axis=1), -np.sort(-within), rtol=1e-6)
        first += len(users)
    np.testing.assert_allclose(np.sort(shown, axis=None), np.sort(matrix, axis=None), rtol=1e-6)
    np.testing.assert_array_equal(shown, shown.T)


def test_similarity_of_a_posterior_is_that_of_its_model(inferred):
    shown = [
        np.asarray(plots.similarity(source).images[0].get_array())
        for source in (inferred, inferred.posterior_)
    ]
    np.testing.assert_array_equal(*shown)


def test_similarity_lines_part_the_clusters(model, axes):
    plots.similarity(model, axes)
    ends = np.cumsum(np.bincount(model.labels_))[:-1] - 0.5
    across = [s[0, 1] for s in segments(axes) if s[0, 1] == s[1, 1]]
    up = [s[0, 0] for s in segments(axes) if s[0, 0] == s[1, 0]]
    np.testing.assert_allclose(across, ends)
    np.testing.assert_allclose(up, ends)
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0", "1", "2"]


def test_similarity_labels_and_colours(model, axes):
    plots.similarity(model, axes)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("users, by cluster", "users, by cluster")
    bar = axes.images[0].colorbar
    assert bar.ax.get_ylabel() == "probability of being in the same cluster"
    assert axes.images[0].get_clim() == (0.0, 1.0)
    light = axes.images[0].to_rgba(np.array([[0.0, 0.5, 1.0]]))[0, :, :3].mean(axis=1)
    assert light[0] > light[1] > light[2]


def test_similarity_of_too_many_users_is_refused(posterior_from):
    from matplotlib import pyplot

    with pytest.raises(InputError, match="20000 users"):
        plots.similarity(posterior_from(np.zeros((1, 1, 20_000), dtype=np.int32)))
    assert pyplot.get_fignums() == []


def test_numbers_of_clusters_are_shares_of_draws(inferred):
    number, _ = plots.clusters(inferred)
    drawn = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in number.patches}
    values, counts = np.unique(inferred.posterior_["n_clusters"], return_counts=True)
    expected = dict.fromkeys(range(values.min(), values.max() + 1), 0.0) | dict(
        zip(values, counts / counts.sum(), strict=True)
    )
    assert drawn == pytest.approx(expected)
    assert (number.get_xlabel(), number.get_ylabel()) == (
        "number of clusters",
        "posterior probability",
    )


def test_bars_carry_their_probabilities_when_few(posterior_from):
    z = np.zeros((1, 200, 4), dtype=np.int32)
    z[0, 1:60, 0] = 1
    z[0, 0] = np.arange(4)
    number, _ = plots.clusters(posterior_from(z))
    assert [t.get_text() for t in number.texts] == ["0.70", "0.29", "0", "<0.01"]
    number, _ = plots.clusters(posterior_from(np.tril(np.tile(np.arange(20), (20, 1)))[None]))
    assert len(number.patches) == 20
    assert len(number.texts) == 0


@pytest.mark.parametrize("probability", [0.9, 0.5])
def test_sizes_by_rank_are_those_of_the_draws(inferred, probability):
    _, size = plots.clusters(inferred, probability=probability)
    draws = inferred.posterior_.flat("z")
    most = inferred.posterior_["n_clusters"].max()
    sizes = np.zeros((len(draws), most))
    for row, draw in zip(sizes, draws, strict=True):
        counts = sorted(np.unique(draw, return_counts=True)[1], reverse=True)
        row[: len(counts)] = counts
    means = next(line for line in size.lines if line.get_label() == "posterior mean")
    np.testing.assert_allclose(means.get_xdata(), np.arange(1, most + 1))
    np.testing.assert_allclose(means.get_ydata(), sizes.mean(axis=0))
    tail = 0.5 * (1 - probability)
    np.testing.assert_allclose(
        [s[:, 1] for s in segments(size)], np.quantile(sizes, [tail, 1 - tail], axis=0).T
    )
    np.testing.assert_array_equal(
        clouds(size)[0].get_offsets()[:, 1], np.bincount(inferred.labels_)
    )
    assert (size.get_xlabel(), size.get_ylabel()) == ("clusters, from the largest", "size (users)")
    assert legend_texts(size) == [
        "partition estimate",
        "posterior mean",
        f"{100 * probability:g} % interval",
    ]


def test_clusters_of_a_posterior(inferred):
    number, _ = plots.clusters(inferred.posterior_)
    assert len(number.patches) > 0


def test_clusters_draws_where_it_is_told(model):
    from matplotlib import pyplot

    given = pyplot.subplots(1, 2)[1]
    assert list(plots.clusters(model, given)) == list(given)
    assert list(plots.clusters(model, list(given))) == list(given)
    assert len(pyplot.get_fignums()) == 1


@pytest.mark.parametrize("n_clusters", [1, 2, 9, 60])
def test_texts_do_not_collide(posterior_from, n_clusters):
    post = posterior_from(many_clusters(n_clusters))
    assert colliding_texts(plots.similarity(post).figure) == []
    assert colliding_texts(plots.clusters(post)[0].figure) == []


def test_everybody_alone(posterior_from):
    post = posterior_from(np.tile(np.arange(12), (1, 5, 1)))
    assert colliding_texts(plots.similarity(post).figure) == []
    number, size = plots.clusters(post)
    assert colliding_texts(number.figure) == []
    np.testing.assert_array_equal(clouds(size)[0].get_offsets()[:, 1], np.ones(12))


@pytest.mark.parametrize("draw", [plots.similarity, plots.clusters])
@pytest.mark.parametrize(
    ("source", "message"),
    [(dv.DualViewMixture(), "not fitted"), (np.zeros((3, 3)), "or a Posterior; got ndarray")],
)
def test_only_fits_have_pictures(draw, source, message):
    with pytest.raises(InputError, match=message):
        draw(source)


def test_clusters_needs_two_axes_and_a_probability(model, axes):
    with pytest.raises(InputError, match=r"of shape \(2,\); got shape \(\)"):
        plots.clusters(model, axes)
    with pytest.raises(InputError, match=r"of shape \(2,\); got shape \(3,\)"):
        plots.clusters(model, [axes, axes, axes])
    with pytest.raises(InputError, match="between 0 and 1"):
        plots.clusters(model, probability=90)
