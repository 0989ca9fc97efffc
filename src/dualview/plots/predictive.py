"""Predictions against outcomes. y (n,) holds the outcomes of the n cases of a prediction."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from dualview.behaviors.families.gaussian import NormalMixture
from dualview.checks import numbers
from dualview.errors import InputError
from dualview.plots.canvas import ALERT, BAND, MAIN, MUTED, Array, one_panel, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_SHOWN = 2000
_MARKED = (0.5, 0.8, 0.95)
_INTERVAL = "0.78"


def predictions(
    prediction: NormalMixture, y: ArrayLike, ax: "Axes | None" = None, probability: float = 0.95
) -> "Axes":
    """Predictive medians and central intervals beside the outcomes, from the smallest outcome to
    the largest.

    Crosses are outcomes outside their interval. The title counts those inside, over all cases. Of
    more than 2000 cases, 2000 evenly spaced ones are drawn.

    Parameters
    ----------
    prediction : what ``model.predict_outcome(new)`` gives
    y : array (n,)
        The outcomes that came.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    probability : float
        Of the intervals.

    Examples
    --------
    >>> import dualview as dv
    >>> from dualview import plots
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    >>> model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
    >>> model = model.fit(forum.features, behavior)
    >>> ax = plots.predictions(model.predict_outcome(forum.test.participation), forum.test.outcome)
    >>> ax.get_ylabel()
    'outcome'
    """
    values = _outcomes(prediction, y)
    low, high = prediction.interval(probability).T
    inside = (low <= values) & (values <= high)
    order = np.argsort(values, kind="stable")
    places = _evenly(len(values), _MOST_SHOWN)
    cases = order[places]
    ax = one_panel(ax, (8, 4.4))
    _draw_cases(
        ax,
        places + 1,
        values[cases],
        prediction.median[cases],
        low[cases],
        high[cases],
        inside[cases],
    )
    ax.set_title(
        f"{inside.sum():,} of {len(values):,} inside the {percent(probability)} interval",
        loc="left",
    )
    ax.set_xlabel(
        "cases, sorted by outcome"
        + ("" if len(cases) == len(values) else f" ({len(cases):,} are drawn)")
    )
    ax.set_ylabel("outcome")
    _legend_of_cases(ax, probability)
    return ax


def calibration(prediction: NormalMixture, y: ArrayLike, ax: "Axes | None" = None) -> "Axes":
    """Calibration plot: share of outcomes inside central intervals, against their probability.

    The line follows the diagonal if predictions are calibrated, is above it if intervals are too
    wide, and below it if they are too narrow. At each probability, the band contains 95 % of the
    shares that calibrated predictions of independent cases give.

    Parameters
    ----------
    prediction : what ``model.predict_outcome(new)`` gives
    y : array (n,)
        The outcomes that came.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Examples
    --------
    >>> import dualview as dv
    >>> from dualview import plots
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    >>> model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
    >>> model = model.fit(forum.features, behavior)
    >>> ax = plots.calibration(model.predict_outcome(forum.test.participation), forum.test.outcome)
    >>> ax.get_xlabel()
    'probability of the central interval'
    """
    values = _outcomes(prediction, y)
    held_from = np.sort(np.abs(2 * prediction.cdf(values) - 1))
    levels = np.linspace(0.0, 1.0, 401)
    low, high = binom.ppf([[0.025], [0.975]], len(values), levels) / len(values)
    ax = one_panel(ax, (4.8, 4.8))
    ax.fill_between(levels, low, high, color=BAND, linewidth=0, label="calibrated: 95 % band")
    ax.plot([0, 1], [0, 1], color=MUTED, linestyle="--", linewidth=1)
    shares = _shares(held_from, levels)
    ax.plot(levels, shares, color=MAIN, linewidth=1.8, label=f"predictions, n = {len(values):,}")
    marked = np.array(_MARKED)
    ax.plot(
        marked,
        _shares(held_from, marked),
        "o",
        color=MAIN,
        markeredgecolor="0.15",
        markersize=6,
        clip_on=False,
    )
    _label_calibration(ax, above=bool(shares.mean() > levels.mean()))
    return ax


def _outcomes(prediction: NormalMixture, y: ArrayLike) -> Array:
    if not isinstance(prediction, NormalMixture):
        raise InputError(
            "prediction must be what model.predict_outcome(new) gives; got "
            f"{type(prediction).__name__}."
        )
    values = numbers(y, "y", n_dims=1)
    if len(values) != len(prediction):
        raise InputError(
            f"y must have one value per case of the prediction, {len(prediction)}; got "
            f"{len(values)}."
        )
    if len(values) == 0:
        raise InputError("There is nothing to draw: the prediction has no cases.")
    return values


def _evenly(n: int, most: int) -> NDArray[np.intp]:
    """Positions among n, all of them or as many as allowed."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.intp)


def _draw_cases(
    ax: "Axes",
    places: NDArray[np.intp],
    y: Array,
    median: Array,
    low: Array,
    high: Array,
    inside: NDArray[np.bool_],
) -> None:
    from matplotlib.ticker import MaxNLocator

    width = float(np.clip(400 / len(y), 0.5, 3))
    size = float(np.clip(3000 / len(y), 3, 24))
    colors = np.where(inside, _INTERVAL, ALERT)
    ax.vlines(places, low, high, colors=colors.tolist(), linewidth=width, zorder=1)
    ax.scatter(places, median, marker="_", color=MAIN, s=2 * size, linewidths=1.2, zorder=2)
    ax.scatter(places[inside], y[inside], marker="o", color="black", s=size, linewidths=0, zorder=3)
    ax.scatter(
        places[~inside],
        y[~inside],
        marker="X",
        color=ALERT,
        s=2.5 * size + 10,
        edgecolors="0.15",
        linewidths=0.6,
        zorder=4,
    )
    margin = max(0.6, 0.02 * places[-1])
    ax.set_xlim(1 - margin, places[-1] + margin)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))


def _legend_of_cases(ax: "Axes", probability: float) -> None:
    """Above all cases."""
    from matplotlib.lines import Line2D

    marks: dict[str, dict[str, Any]] = {
        "predictive median": {"color": MAIN, "marker": "_"},
        "outcome inside": {"color": "black", "marker": "o", "markersize": 5},
        "outcome outside": {
            "color": ALERT,
            "marker": "X",
            "markersize": 8,
            "markeredgecolor": "0.15",
        },
    }
    band = f"{percent(probability)} predictive interval"
    handles = [Line2D([], [], color=_INTERVAL, linewidth=3, label=band)]
    handles += [
        Line2D([], [], linestyle="none", label=name, **style) for name, style in marks.items()
    ]
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.2 * (high - low))
    ax.legend(handles=handles, loc="upper left", ncols=2, frameon=False)


def _shares(sorted_values: Array, levels: Array) -> Array:
    """The share of values up to each level."""
    return np.searchsorted(sorted_values, levels, side="right") / len(sorted_values)


def _label_calibration(ax: "Axes", above: bool) -> None:
    """With the legend on the side of the diagonal where the line is not."""
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_aspect("equal")
    ax.set_xlabel("probability of the central interval")
    ax.set_ylabel("share of outcomes inside")
    handles, names = ax.get_legend_handles_labels()
    note = "above the diagonal: intervals too wide,\nbelow it: too narrow"
    ax.legend(
        handles[::-1],
        names[::-1],
        title=note,
        loc="lower right" if above else "upper left",
        frameon=False,
        alignment="left",
        fontsize="small",
        title_fontsize="small",
    )
