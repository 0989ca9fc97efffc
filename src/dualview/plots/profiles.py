"""Profiles of clusters: averages of their members with intervals, a panel for each column."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dualview.errors import InputError
from dualview.mixture import DualViewMixture
from dualview.plots.canvas import (
    BAND,
    MUTED,
    Panels,
    cluster_style,
    groups_of,
    labels_of,
    panels,
    posterior_of,
)
from dualview.posterior import Posterior
from dualview.posterior.partition.averages import EVERYBODY, profiles_of
from dualview.words.clusters import n_at_length

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_PANELS = 9
_ACROSS = 3  # panels side by side
# Inches: of a panel, of a cluster in it, above and below the clusters.
_WIDTH, _HEIGHT, _TOP = 3.1, 0.27, 0.95
_FEWEST_ROWS = 3  # there is room for: the name of the axis needs it
_TITLE_SIZE = 10
_MOST_LETTERS = 120  # of the name of a column or level


def profiles(
    model: DualViewMixture | Posterior,
    columns: str | Sequence[str] | None = None,
    against: int | str | None = None,
    axes: Any = None,
    probability: float = 0.95,
) -> Panels:
    """Averages of the members of each cluster with central intervals, a panel for each column, as
    ``model.profiles()`` has them.

    Columns that distinguish the users' clusters most come first. Of a column with levels a panel
    shows the probability of one level, of two levels the last; the gray line and band are the
    average of everybody. Of more than twelve clusters the largest are shown, and those of fewer
    than three users are left out.

    Parameters
    ----------
    model : fitted DualViewMixture or Posterior
    columns : name or list of names, optional
        Columns to show, a panel for each or for each of its levels; by default the up to nine
        panels that distinguish most.
    against : int or "everybody", optional
        Show contrasts with this cluster, or with the average of everybody, in place of averages;
        the line is then zero.
    axes : array of matplotlib Axes, optional
        Where to draw, one for each panel; a new figure by default.
    probability : float
        Probability of the intervals.

    Returns
    -------
    array of Axes

    Examples
    --------
    >>> import dualview as dv
    >>> from dualview import plots
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    >>> model = dv.DualViewMixture(2, engine=dv.Gibbs(n_warmup=50), n_draws=50, n_chains=1)
    >>> model = model.fit(forum.features)
    >>> sorted(ax.get_title(loc="left") for ax in plots.profiles(model))
    ['x0', 'x1']
    """
    post, labels = posterior_of(model), labels_of(model)
    sizes = {cluster: len(users) for cluster, users in groups_of(labels)}
    others = [cluster for cluster in sizes if cluster != against]
    shown = others[: n_at_length([sizes[cluster] for cluster in others])]
    asked: list[int | str] = [*shown] if against is not None else [*shown, EVERYBODY]
    table = profiles_of(post, labels, asked, against, probability)
    table["users"] = table["cluster"].map(sizes).fillna(0)
    chosen = _chosen(table, columns)
    n_across = min(_ACROSS, len(chosen))
    n_down = -(-len(chosen) // n_across)
    if axes is None:
        size = (_WIDTH * n_across + 0.5, n_down * (_TOP + _HEIGHT * max(_FEWEST_ROWS, len(shown))))
        made = panels(None, n_down, n_across, size).ravel()
        for ax in made[len(chosen) :]:
            ax.remove()
        found = made[: len(chosen)]
    else:
        found = panels(np.reshape(axes, (-1, 1)), len(chosen), 1, (0, 0))[:, 0]
    texts = [f"{cluster}  ({sizes[cluster]})" for cluster in shown]
    for place, (ax, rows) in enumerate(zip(found, chosen, strict=True)):
        _draw(ax, rows, against)
        ax.set_yticks(np.arange(len(shown)), texts)
        if axes is None and place % n_across:
            ax.set_yticklabels([])
        else:
            ax.set_ylabel("cluster  (users)")
    return np.asarray(found, dtype=object)


def _chosen(table: pd.DataFrame, columns: str | Sequence[str] | None) -> list[pd.DataFrame]:
    """The rows of each panel, those that distinguish the users' clusters most first."""
    wanted = [columns] if isinstance(columns, str) else columns
    known = list(dict.fromkeys(table["column"]))
    unknown = [name for name in wanted or [] if name not in known]
    if unknown or (wanted is not None and not len(wanted)):
        raise InputError(
            f"profiles shows {', '.join(known)}; got {', '.join(map(str, unknown)) or 'no column'}."
        )
    found = []
    for name, rows in table.groupby("column", sort=False):
        levels = list(dict.fromkeys(rows["level"]))
        if wanted is None or name in wanted:
            kept = levels[-1:] if len(levels) == 2 else levels
            found += [rows[rows["level"] == level] for level in kept]
    found.sort(key=lambda rows: -float((rows["users"] * rows["standardized"].abs()).sum()))
    return found if wanted is not None else found[:_MOST_PANELS]


def _draw(ax: "Axes", rows: pd.DataFrame, against: int | str | None) -> None:
    """A marker with its interval for each cluster, from the top down."""
    first, everybody = rows.iloc[0], rows[rows["cluster"] == EVERYBODY]
    own = rows[rows["cluster"] != EVERYBODY]
    scale = 100.0 if first["quantity"] == "probability" else 1.0
    if against is None:
        low, median, high = scale * everybody[["low", "median", "high"]].to_numpy()[0]
        ax.axvspan(low, high, color=BAND, zorder=0)
        ax.axvline(median, color=MUTED, linewidth=0.9, zorder=0)
    else:
        ax.axvline(0.0, color=MUTED, linewidth=0.9, zorder=0)
    for place, (_, row) in enumerate(own.iterrows()):
        style = cluster_style(int(row["cluster"]), 1) | {"s": 30}
        ax.hlines(
            place, scale * row["low"], scale * row["high"], color=style["color"], linewidth=2.2
        )
        ax.scatter(scale * row["median"], place, **style)
    ax.set_ylim(len(own) - 0.4, -0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.08)
    width = 72.0 * ax.get_window_extent().width / ax.figure.dpi
    title = _title(str(first["column"]), str(first["level"]), width)
    ax.set_title(title, loc="left", fontsize=_TITLE_SIZE, parse_math=False)
    ax.set_xlabel(_axis_text(first, against), fontsize=9)
    ax.locator_params(axis="x", nbins=5)


def _title(column: str, level: str, width: float) -> str:
    """Column and level, with an ellipsis in the middle of what does not fit into a width in
    points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font, title = FontProperties(size=_TITLE_SIZE), ""
    parts = [" ".join(part.split()) for part in (column, level) if part]
    for n_letters in range(min(_MOST_LETTERS, max(map(len, parts))), 0, -1):
        title = ": ".join(_shortened(part, n_letters) for part in parts)
        if text_to_path.get_text_width_height_descent(title, font, False)[0] <= width:
            break
    return title


def _shortened(text: str, n_letters: int) -> str:
    """A text of at most so many letters, with its beginning and its end."""
    end = (n_letters - 1) // 3
    cut = f"{text[: n_letters - 1 - end]}…{text[len(text) - end :]}"
    return text if len(text) <= n_letters else cut


def _axis_text(row: pd.Series, against: int | str | None) -> str:
    text = "probability, %" if row["quantity"] == "probability" else str(row["quantity"])
    if row["quantity"] == "latent":
        text = "mean latent coefficient"
    if against is None:
        return text
    return f"{text}, less that of {against if against == EVERYBODY else f'cluster {against}'}"
