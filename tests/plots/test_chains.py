"""Traces show the scalars that diagnostics look at, chain by chain, with their autocorrelations."""

import numpy as np
import pytest

import dualview as dv
from dualview import plots
from dualview.errors import InputError
from dualview.plots import canvas
from plots.artists import colliding_texts, legend_texts

pytestmark = pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning")


def wandering(posterior_from, n_chains, n_draws=60, **scalars):
    """A posterior of chains whose partitions and log joint wander."""
    rng = np.random.default_rng(n_chains)
    z = rng.integers(0, 4, (n_chains, n_draws, 10))
    return posterior_from(
        z, log_joint=rng.standard_normal((n_chains, n_draws)).cumsum(axis=1), **scalars
    )


def correlations(chain, n_lags):
    """By definition."""
    centred = chain - chain.mean()
    return [
        np.sum(centred[: len(chain) - lag] * centred[lag:]) / np.sum(centred**2)
        for lag in range(n_lags + 1)
    ]


def test_default_rows(inferred, features_only):
    rows = plots.traces(inferred)
    shown = ["log alpha", "n_clusters", "log noise_precision", "log_joint", "mean latent"]
    assert rows.shape == (5, 2)
    assert [trace.get_ylabel().replace("\n", " ") for trace, _ in rows] == shown
    rows = plots.traces(features_only)
    assert {trace.get_ylabel() for trace, _ in rows} <= {"log alpha", "n_clusters", "log_joint"}


def test_lines_are_the_draws_of_each_chain(inferred):
    scalars = inferred.posterior_.scalars()
    names = list(scalars)[:4]
    for name, (trace, _) in zip(names, plots.traces(inferred, names), strict=True):
        np.testing.assert_allclose([line.get_ydata() for line in trace.lines], scalars[name])


def test_autocorrelations_are_those_of_each_chain(inferred):
    values = inferred.posterior_["log_joint"]
    (_, correlation), *_ = plots.traces(inferred, "log_joint")
    drawn = [line.get_ydata() for line in correlation.lines if len(line.get_ydata()) > 2]
    np.testing.assert_allclose(drawn, [correlations(chain, 20) for chain in values], atol=1e-12)
    band = correlation.patches[0].get_extents().transformed(correlation.transData.inverted())
    np.testing.assert_allclose([band.y0, band.y1], [-1.96 / np.sqrt(40), 1.96 / np.sqrt(40)])


def test_lags_end_at_a_hundred(posterior_from):
    (_, correlation), *_ = plots.traces(wandering(posterior_from, 1, 400), "log_joint")
    assert len(correlation.lines[-1].get_xdata()) == 101


def test_a_chain_that_never_changes_has_no_autocorrelations(posterior_from):
    moving = np.random.default_rng(0).standard_normal(50)
    post = posterior_from(
        np.zeros((2, 50, 3), dtype=int), noise=np.stack([np.full(50, 0.3), moving])
    )
    (trace, correlation), *_ = plots.traces(post, "noise")
    assert len(trace.lines) == 2
    still, other = correlation.lines[-2:]
    assert np.isnan(still.get_ydata()).all()
    assert other.get_ydata()[0] == 1.0


def test_labels_and_legends(inferred):
    rows = plots.traces(inferred)
    assert [ax.get_xlabel() for ax in rows[-1]] == ["draw after warm-up", "lag (draws)"]
    assert {ax.get_ylabel() for ax in rows[:, 1]} == {"autocorrelation"}
    assert legend_texts(rows[0, 0]) == ["chain 0", "1"]
    assert legend_texts(rows[0, 1]) == ["95 % of independent draws"]


def test_chains_differ_in_grey():
    styles = [canvas.chain_style(chain, 100) for chain in range(8)]
    assert len({style["marker"] for style in styles}) == 8
    from matplotlib.colors import to_rgb

    lightness = [np.dot(to_rgb(style["color"]), [0.299, 0.587, 0.114]) for style in styles[:4]]
    assert np.diff(lightness).min() > 0.1
    assert len({style["markevery"][0] for style in styles}) == 8


@pytest.mark.parametrize("n_chains", [1, 2, 8, 11])
def test_texts_do_not_collide(posterior_from, n_chains):
    rows = plots.traces(wandering(posterior_from, n_chains))
    assert len(rows[0, 0].lines) == n_chains
    assert colliding_texts(rows[0, 0].figure) == []


def test_texts_of_all_rows_do_not_collide(inferred):
    assert colliding_texts(plots.traces(inferred)[0, 0].figure) == []
    assert colliding_texts(plots.traces(inferred, "log_joint")[0, 0].figure) == []


@pytest.mark.parametrize("n_draws", [1, 2, 3])
def test_a_few_draws_are_drawn(posterior_from, n_draws):
    post = wandering(posterior_from, 2, n_draws)
    plots.traces(post, ["log_joint", "n_clusters"])[0, 0].figure.canvas.draw()


def test_anything_with_one_number_a_draw_can_be_shown(model):
    rows = plots.traces(model.posterior_, ["noise_precision", "n_clusters"])
    np.testing.assert_array_equal(
        rows[0, 0].lines[1].get_ydata(), model.posterior_["noise_precision"][1]
    )
    np.testing.assert_array_equal(
        rows[1, 0].lines[0].get_ydata(), model.posterior_["n_clusters"][0]
    )


def test_traces_draw_where_they_are_told(model):
    from matplotlib import pyplot

    given = pyplot.subplots(2, 2)[1]
    assert (plots.traces(model, ["log_joint", "mean latent"], given) == given).all()
    one = pyplot.subplots(1, 2)[1]
    assert (plots.traces(model, "log_joint", one) == one[None]).all()
    assert len(pyplot.get_fignums()) == 2
    with pytest.raises(InputError, match=r"of shape \(2, 2\); got shape \(2,\)"):
        plots.traces(model, ["log_joint", "mean latent"], one)


@pytest.mark.parametrize("names", ["z", ["log_joint", "nothing"], ["latent"]])
def test_what_is_no_scalar_is_refused(model, names):
    from matplotlib import pyplot

    with pytest.raises(InputError, match=r"no scalar '(z|nothing|latent)'; there are .*log_joint"):
        plots.traces(model, names)
    assert pyplot.get_fignums() == []


def test_no_names_are_refused(model):
    with pytest.raises(InputError, match="at least one name"):
        plots.traces(model, [])


@pytest.mark.parametrize(
    ("source", "message"),
    [(dv.DualViewMixture(), "not fitted"), ({"alpha": 1}, "or a Posterior; got dict")],
)
def test_only_fits_have_traces(source, message):
    with pytest.raises(InputError, match=message):
        plots.traces(source)
