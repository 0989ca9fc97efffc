"""Predictions against outcomes: intervals and shares are those of the predictive distribution."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from scipy import stats

import dualview as dv
from dualview import plots
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.errors import InputError
from dualview.plots import predictive
from plots.artists import clouds, colliding_texts, legend_texts, segments

pytestmark = pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning")


def standard(n, sd=1.0):
    """A normal prediction of n cases."""
    return NormalMixture.over_draws(
        n, lambda cases: np.zeros((1, len(range(n)[cases]))), np.array([sd])
    )


@pytest.fixture(scope="module")
def prediction(model, forum):
    return model.predict_outcome(forum.test.participation)


@pytest.fixture(scope="module")
def y(forum):
    return forum.test.outcome


def test_predictions_draw_intervals_means_and_outcomes_in_order(prediction, y, axes):
    assert plots.predictions(prediction, y, axes, probability=0.8) is axes
    order = np.argsort(y, kind="stable")
    drawn = np.array(segments(axes))
    np.testing.assert_array_equal(drawn[:, 0, 0], np.arange(1, len(y) + 1))
    np.testing.assert_allclose(drawn[:, :, 1], prediction.interval(0.8)[order])
    np.testing.assert_allclose(clouds(axes)[0].get_offsets()[:, 1], prediction.median[order])
    outcomes = np.concatenate([c.get_offsets() for c in clouds(axes)[1:]])
    np.testing.assert_array_equal(
        outcomes[np.argsort(outcomes[:, 0])], np.column_stack([np.arange(1, len(y) + 1), y[order]])
    )


def test_outcomes_outside_are_marked_and_counted(axes):
    values = np.array([0.1, 3.0, -0.5, -2.5, 1.0, 1.9])
    plots.predictions(standard(6), values, axes)
    _, inside, outside = clouds(axes)
    np.testing.assert_array_equal(inside.get_offsets()[:, 1], [-0.5, 0.1, 1.0, 1.9])
    np.testing.assert_array_equal(outside.get_offsets()[:, 1], [-2.5, 3.0])
    assert axes.get_title(loc="left") == "4 of 6 inside the 95 % interval"
    assert tuple(inside.get_facecolor()[0]) != tuple(outside.get_facecolor()[0])
    assert inside.get_paths()[0].vertices.shape != outside.get_paths()[0].vertices.shape
    lines = axes.collections[0].get_colors()
    assert [tuple(c) == to_rgba(predictive.ALERT) for c in lines] == [
        True,
        False,
        False,
        False,
        False,
        True,
    ]


def test_predictions_labels_and_legend(prediction, y, axes):
    plots.predictions(prediction, y, axes, probability=0.5)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("cases, sorted by outcome", "outcome")
    assert legend_texts(axes) == [
        "50 % predictive interval",
        "predictive median",
        "outcome inside",
        "outcome outside",
    ]


def test_the_legend_stands_above_all_cases(prediction, y):
    ax = plots.predictions(prediction, y)
    ax.figure.canvas.draw()
    bottom = ax.get_legend().get_window_extent().y0
    highest = max(float(np.max(prediction.interval())), float(np.max(y)))
    assert ax.transData.transform((1, highest))[1] <= bottom


def test_of_very_many_cases_some_are_drawn_and_all_are_counted(axes):
    values = np.random.default_rng(0).standard_normal(30_000)
    plots.predictions(standard(30_000), values, axes)
    assert len(segments(axes)) == 2000
    inside = (np.abs(values) <= stats.norm.ppf(0.975)).sum()
    assert axes.get_title(loc="left") == f"{inside:,} of 30,000 inside the 95 % interval"
    assert axes.get_xlabel() == "cases, sorted by outcome (2,000 are drawn)"
    shown = np.sort(np.concatenate([c.get_offsets()[:, 1] for c in clouds(axes)[1:]]))
    assert (shown[0], shown[-1]) == (values.min(), values.max())


def curve(ax):
    return next(line for line in ax.lines if line.get_label().startswith("predictions"))


def test_calibration_is_the_coverage_of_central_intervals(prediction, y, axes):
    assert plots.calibration(prediction, y, axes) is axes
    levels, shares = curve(axes).get_data()
    for probability in (0.2, 0.5, 0.8, 0.95):
        low, high = prediction.interval(probability).T
        at = int(np.argmin(np.abs(levels - probability)))
        np.testing.assert_allclose(levels[at], probability)
        np.testing.assert_allclose(shares[at], np.mean((low <= y) & (y <= high)))
    marked = axes.lines[-1].get_xydata()
    np.testing.assert_allclose(marked[:, 0], [0.5, 0.8, 0.95])
    np.testing.assert_allclose(
        marked[:, 1], np.interp(marked[:, 0], levels, shares), atol=1.01 / len(y)
    )


def test_calibration_has_a_binomial_band_and_the_diagonal(axes):
    plots.calibration(standard(40), np.linspace(-2, 2, 40), axes)
    outline = axes.collections[0].get_paths()[0].vertices
    at_half = np.sort(np.unique(outline[np.isclose(outline[:, 0], 0.5), 1]))
    np.testing.assert_allclose(at_half, stats.binom.ppf([0.025, 0.975], 40, 0.5) / 40)
    diagonal = next(line for line in axes.lines if line.get_linestyle() == "--")
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])


def test_band_holds_calibrated_predictions_pointwise(axes):
    values = np.random.default_rng(3).standard_normal(500)
    plots.calibration(standard(500), values, axes)
    levels, shares = curve(axes).get_data()
    low, high = stats.binom.ppf([[0.025], [0.975]], 500, levels) / 500
    assert np.mean((low <= shares) & (shares <= high)) > 0.8
    np.testing.assert_array_equal(shares[[0, -1]], [0.0, 1.0])


@pytest.mark.parametrize(("sd", "above", "corner"), [(3.0, True, 4), (0.3, False, 2)])
def test_the_legend_avoids_the_line(sd, above, corner):
    values = np.random.default_rng(0).standard_normal(200)
    ax = plots.calibration(standard(200, sd), values)
    levels, shares = curve(ax).get_data()
    assert (shares.mean() > levels.mean()) == above
    assert ax.get_legend()._loc == corner
    ax.figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    assert not any(
        box.contains(*point) for point in ax.transData.transform(np.column_stack([levels, shares]))
    )


def test_calibration_labels(prediction, y, axes):
    plots.calibration(prediction, y, axes)
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "probability of the central interval",
        "share of outcomes inside",
    )
    assert legend_texts(axes) == [f"predictions, n = {len(y)}", "calibrated: 95 % band"]
    assert (
        axes.get_legend()
        .get_title()
        .get_text()
        .startswith("above the diagonal: intervals too wide")
    )


@pytest.mark.parametrize("draw", [plots.predictions, plots.calibration])
@pytest.mark.parametrize("n", [1, 2, 30, 3000])
def test_texts_do_not_collide(draw, n):
    assert (
        colliding_texts(draw(standard(n), np.random.default_rng(1).standard_normal(n)).figure) == []
    )


@pytest.mark.parametrize("draw", [plots.predictions, plots.calibration])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: y[:-1], "one value per case of the prediction"),
        (lambda y: y[:, None], "one-dimensional"),
        (lambda y: np.where(np.arange(len(y)) == 7, np.nan, y), "row 7"),
    ],
)
def test_other_outcomes_are_refused(prediction, y, draw, change, message):
    from matplotlib import pyplot

    with pytest.raises(InputError, match=message):
        draw(prediction, change(y))
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("draw", [plots.predictions, plots.calibration])
def test_a_model_is_no_prediction(model, y, draw):
    with pytest.raises(
        InputError, match=r"what model\.predict_outcome\(new\) gives; got DualViewMixture"
    ):
        draw(model, y)


@pytest.mark.parametrize("draw", [plots.predictions, plots.calibration])
def test_nothing_to_draw(draw):
    with pytest.raises(InputError, match="no cases"):
        draw(standard(0), [])


def test_a_model_without_behavior_predicts_nothing_to_draw(features_only, forum):
    with pytest.raises(InputError, match="without a behavior"):
        plots.predictions(
            features_only.predict_outcome(forum.test.participation), forum.test.outcome
        )


@pytest.mark.parametrize("probability", [0, 1, 95])
def test_interval_needs_a_probability(prediction, y, probability):
    with pytest.raises(InputError, match="between 0 and 1"):
        plots.predictions(prediction, y, probability=probability)


def test_latent_predictions_are_drawn_too(model):
    assert isinstance(model, dv.DualViewMixture)
    draws = model.posterior_.flat("latent")
    known = NormalMixture.over_draws(24, lambda cases: draws[:, cases], np.full(len(draws), 1e-3))
    plots.calibration(known, model.latent_)
