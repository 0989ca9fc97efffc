"""Columns with levels, nominal and ordinal: what share of each cluster's users has each level."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dualview.columns import Column, level_shares
from dualview.errors import InputError
from dualview.mixture import DualViewMixture
from dualview.plots.canvas import MUTED, Panels, groups_of, labels_of, panels, posterior_of
from dualview.posterior import Posterior
from dualview.posterior.prediction.user_features import features_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_LEVELS = 8  # with a color each; the rarest others share one
_LEAST_NAMED = 0.08  # of a bar: a share that is written into it
_PALETTE = "viridis"
# Of a panel: inches, inches for a bar, inches beside the bars.
_WIDTH, _HEIGHT, _TOP = 7.0, 0.34, 1.1


def levels(
    model: DualViewMixture | Posterior, columns: str | Sequence[str] | None = None, axes: Any = None
) -> Panels:
    """Shares of the levels of nominal and ordinal columns, by cluster; a bar for each cluster, the
    last one for all users.

    Users whose cell is missing are left out of its column. Of a column with more than eight levels
    the rarest share a color.

    Parameters
    ----------
    model : fitted DualViewMixture or Posterior
    columns : name or list of names, optional
        Columns to show, one panel each; all that have levels by default.
    axes : array of matplotlib Axes, optional
        Where to draw, one for each column; a new figure by default.

    Returns
    -------
    array of Axes

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> import dualview as dv
    >>> from dualview import plots
    >>> towns = pd.DataFrame({"town": ["x", "y"] * 10, "age": np.linspace(20.1, 59.7, 20)})
    >>> model = dv.DualViewMixture(engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1).fit(towns)
    >>> plots.levels(model)[0].get_title(loc="left")
    'town'
    """
    post = posterior_of(model)
    known = _codes(post)
    chosen = (
        list(known) if columns is None else [columns] if isinstance(columns, str) else list(columns)
    )
    missing = [name for name in chosen if name not in known]
    if missing or not chosen:
        has = ", ".join(known) or "none"
        raise InputError(
            f"levels shows nominal and ordinal columns of a table; the fit has {has}"
            + (f", and not {', '.join(map(str, missing))}." if missing else ".")
        )
    groups = [
        (f"{cluster}  ({len(users)})", users) for cluster, users in groups_of(labels_of(model))
    ]
    groups.append(("all", np.arange(post.n_users)))
    size = (_WIDTH, len(chosen) * (_TOP + _HEIGHT * len(groups)))
    found = panels(axes if axes is None else np.reshape(axes, (-1, 1)), len(chosen), 1, size)[:, 0]
    for ax, name in zip(found, chosen, strict=True):
        column, codes = known[name]
        shares = np.array([level_shares(codes[users], len(column.levels)) for _, users in groups])
        _draw(ax, column, shares, [text for text, _ in groups])
    return found


def _codes(post: Posterior) -> dict[str, tuple[Column, NDArray[np.int64]]]:
    """The columns with levels by name, and the numbers of their levels (U,), −1 where they are
    missing."""
    features, codebook = features_of(post), post.spec.codebook
    if features is None or codebook is None:
        return {}
    found = {}
    for block, x in zip(post.blocks, features.cells, strict=True):
        for column, values in zip(block.columns, block.known(x).T, strict=True):
            if column.levels:
                codes = np.where(np.isnan(values), -1, values).astype(np.int64)
                found[column.name] = column, codes
    return {column.name: found[column.name] for column in codebook.columns if column.name in found}


def _draw(ax: "Axes", column: Column, shares: NDArray[np.float64], texts: list[str]) -> None:
    """Bars of the shares (clusters, levels), one below the other."""
    from matplotlib import colormaps

    names = [str(level) for level in column.levels]
    if len(names) > _MOST_LEVELS and column.kind == "nominal":
        order = np.argsort(-shares[-1], kind="stable")
        kept = np.sort(order[: _MOST_LEVELS - 1])
        rest = shares.sum(axis=1) - shares[:, kept].sum(axis=1)
        names = [names[level] for level in kept] + [f"{len(order) - len(kept)} others"]
        shares = np.column_stack([shares[:, kept], rest])
    palette, places, left = colormaps[_PALETTE], np.arange(len(texts)), np.zeros(len(texts))
    for level, name in enumerate(names):
        shade = level / max(len(names) - 1, 1)
        ax.barh(
            places,
            shares[:, level],
            left=left,
            color=palette(shade),
            edgecolor="white",
            linewidth=0.8,
            label=name,
        )
        for place, share in zip(places, shares[:, level], strict=True):
            if share >= _LEAST_NAMED:
                ink = "black" if shade > 0.5 else "white"
                ax.text(
                    float(left[place] + share / 2),
                    float(place),
                    f"{100 * share:.0f}",
                    ha="center",
                    va="center",
                    color=ink,
                    fontsize=8,
                )
        left = left + shares[:, level]
    ax.axhline(len(texts) - 1.5, color=MUTED, linewidth=0.8)
    ax.set(xlim=(0, 1), xlabel="share of users, %", ylabel="cluster  (users)")
    ax.set_xticks([0, 0.5, 1], ["0", "50", "100"])
    ax.set_yticks(places, texts)
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(column.name, loc="left")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
