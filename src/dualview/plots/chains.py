"""Chains: traces of scalars that do not depend on how clusters are numbered, and their
autocorrelations."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from arviz_stats.base import array_stats  # type: ignore[attr-defined]

from dualview.errors import InputError
from dualview.mixture import DualViewMixture
from dualview.plots.canvas import BAND, MUTED, Array, Panels, chain_style, panels, posterior_of
from dualview.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_USUAL = ("log alpha", "discount", "n_clusters", "log noise_precision", "log_joint", "mean latent")
_MOST_LAGS = 100


def traces(
    model: DualViewMixture | Posterior, names: str | Sequence[str] | None = None, axes: Any = None
) -> Panels:
    """Traces of scalars, a row each and a line per chain, beside their autocorrelations.

    Chains that have converged look alike and cover the same range. Autocorrelations should fall
    into the band, which contains 95 % of those of independent draws. A chain in which the scalar
    never changes has no autocorrelations.

    Parameters
    ----------
    model : fitted DualViewMixture or Posterior
    names : str or sequence of str, optional
        Names in ``posterior.scalars()``, or of anything else with one number per draw. By default
        the concentration, the number of clusters, the noise, the log joint density and the mean of
        each latent coefficient, if the model has them.
    axes : array (rows, 2) of matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    array (rows, 2) of matplotlib Axes

    Examples
    --------
    >>> import dualview as dv
    >>> from dualview import plots
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
    >>> model = model.fit(forum.features)
    >>> [trace.get_ylabel() for trace, _ in plots.traces(model, ["log alpha", "log_joint"])]
    ['log alpha', 'log_joint']
    """
    post = posterior_of(model)
    chosen = _chosen(post, names)
    rows = panels(
        axes, len(chosen), 2, (10, 0.8 + 1.5 * len(chosen)), sharex="col", width_ratios=(2, 1)
    )
    for (trace, correlation), (name, values) in zip(rows, chosen.items(), strict=True):
        _draw_trace(trace, values)
        _draw_autocorrelations(correlation, values)
        trace.set_ylabel(textwrap.fill(name, 18))
        correlation.set_ylabel("autocorrelation")
    rows[-1, 0].set_xlabel("draw after warm-up")
    rows[-1, 1].set_xlabel("lag (draws)")
    _legend_of_chains(rows[0, 0], rows[0, 1], post.n_chains)
    return rows


def _chosen(post: Posterior, names: str | Sequence[str] | None) -> dict[str, Array]:
    scalars = post.scalars()
    if names is None:
        return {
            name: values
            for usual in _USUAL
            for name, values in scalars.items()
            if name.split("[")[0] == usual
        }
    chosen = {}
    for name in [names] if isinstance(names, str) else names:
        if name in scalars:
            chosen[name] = scalars[name]
        elif name in post and post[name].ndim == 2:
            chosen[name] = post[name].astype(float)
        else:
            raise InputError(f"There is no scalar {name!r}; there are {', '.join(scalars)}.")
    if not chosen:
        raise InputError(f"names must hold at least one name; there are {', '.join(scalars)}.")
    return chosen


def _draw_trace(ax: "Axes", values: Array) -> None:
    for chain, draws in enumerate(values):
        ax.plot(draws, linewidth=0.9, **chain_style(chain, len(draws)))
    ax.margins(x=0.01)


def _draw_autocorrelations(ax: "Axes", values: Array) -> None:
    n_draws = values.shape[1]
    reach = 1.96 / np.sqrt(n_draws)
    ax.axhspan(-reach, reach, color=BAND, linewidth=0, zorder=0)
    ax.axhline(0.0, color=MUTED, linewidth=0.8, zorder=1)
    for chain, correlations in enumerate(_autocorrelations(values, min(_MOST_LAGS, n_draws // 2))):
        ax.plot(correlations, linewidth=1.3, **chain_style(chain, len(correlations)))
    ax.set_ylim(top=1.05)
    ax.margins(x=0.01)


def _autocorrelations(values: Array, n_lags: int) -> Array:
    """Of each chain at lags 0..n_lags, (chain, lag); NaN for a chain that never changes."""
    found = array_stats.autocorr(values, axis=1)[:, : n_lags + 1]  # type: ignore[no-untyped-call]
    return np.where(np.ptp(values, axis=1, keepdims=True) > 0, found, np.nan)


def _legend_of_chains(trace: "Axes", correlation: "Axes", n_chains: int) -> None:
    """Above the first row, where it hides nothing."""
    names = [f"chain {chain}" if chain == 0 else str(chain) for chain in range(n_chains)]
    above: dict[str, Any] = {
        "loc": "lower left",
        "bbox_to_anchor": (0.0, 1.0),
        "borderaxespad": 0.2,
        "frameon": False,
    }
    trace.legend(
        trace.lines[-n_chains:],
        names,
        ncols=8,
        columnspacing=1.2,
        handlelength=1.5,
        handletextpad=0.5,
        **above,
    )
    correlation.legend(correlation.patches[-1:], ["95 % of independent draws"], **above)
