"""Plots of the checks of a fit."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binom

from dualview.errors import InputError
from dualview.evaluation.calibration import Calibration
from dualview.plots.canvas import BAND, MAIN, MUTED, Array, Panels, panels
from dualview.posterior.checks.model_checks import Checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLES = {
    "outcomes": "outcomes, predicted from all others",
    "features": "features, from cluster centers",
    "behavior": "behavior, from cluster centers",
}


def checks(found: Checks, axes: Any = None) -> Panels:
    """Histograms of levels (probability integral transforms) of outcomes, features and behavior,
    uniform if the model is right.

    If the model is right, 95 % of the bars end in the band. High in the middle: the model expects
    more spread than there is. High at both ends: less. High at one end: outcomes are skewed, or
    vectors have outliers.

    Parameters
    ----------
    found : Checks
        The result of ``model.check()``.
    axes : array of matplotlib Axes, optional
        As many as there are histograms; a new figure by default.

    Examples
    --------
    >>> import dualview as dv
    >>> from dualview import plots
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    >>> model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
    >>> model = model.fit(forum.features, behavior)
    >>> plots.checks(model.check(refit=False)).shape
    (1, 3)
    """
    if not isinstance(found, Checks):
        raise InputError(f"checks draws what model.check() gives; got {type(found).__name__}.")
    return draw_levels(found.levels(), axes)


def ranks(calibration: Calibration, axes: Any = None) -> Panels:
    """Histograms of the ranks of each quantity, flat if posteriors are calibrated, with a band for
    95 % of the bars.

    High in the middle: posteriors are too wide. High at both ends: too narrow. A slope: they are
    biased.

    Parameters
    ----------
    calibration : Calibration
        The result of ``dv.calibrate``.
    axes : array of matplotlib Axes, optional
        In rows of four, as many as there are quantities; a new figure by default.
    """
    if not isinstance(calibration, Calibration):
        raise InputError(f"ranks draws what dv.calibrate gives; got {type(calibration).__name__}.")
    names = list(calibration.ranks)
    n_columns = min(4, len(names))
    n_rows = -(-len(names) // n_columns)
    places = panels(axes, n_rows, n_columns, (2.8 * n_columns, 2.3 * n_rows))
    for ax, name in zip(places.ravel(), names, strict=False):
        _histogram(
            ax,
            (calibration.ranks[name].to_numpy() + 0.5) / (calibration.n_draws + 1),
            str(name),
            n_bins=5,
        )
    for ax in places.ravel()[len(names) :]:
        ax.set_axis_off()
    return places


def draw_levels(levels: Mapping[str, Array], axes: Any = None) -> Panels:
    """A histogram for each name, with a band."""
    if not levels:
        raise InputError(
            "There is nothing to draw: the fit has neither outcomes nor features that could be "
            "checked."
        )
    places = panels(axes, 1, len(levels), (3.6 * len(levels), 3.2))
    for ax, (name, values) in zip(places[0], levels.items(), strict=True):
        _histogram(ax, np.asarray(values), _TITLES.get(name, name))
    return places


def _histogram(ax: "Axes", levels: Array, title: str, n_bins: int | None = None) -> None:
    n_bins = int(np.clip(len(levels) // 8, 5, 20)) if n_bins is None else n_bins
    counts, edges = np.histogram(levels, n_bins, (0.0, 1.0))
    low, high = binom.ppf([0.025, 0.975], len(levels), 1.0 / n_bins)
    ax.axhspan(low, high, color=BAND, linewidth=0)
    ax.axhline(len(levels) / n_bins, color=MUTED, linestyle="--", linewidth=1)
    ax.bar(
        edges[:-1],
        counts,
        width=np.diff(edges),
        align="edge",
        color=MAIN,
        edgecolor="white",
        alpha=0.85,
    )
    ax.set(title=title, xlabel="level", ylabel="number", xlim=(0.0, 1.0))
