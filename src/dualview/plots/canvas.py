"""Common parts of all plots: axes, input, and the style of clusters and chains.

A cluster has the same color and marker in every picture; both differ between clusters, so that
pictures survive gray printing and color blindness. Chains differ in lightness and in marker.
"""

import io
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dualview.checks import require_extra
from dualview.errors import InputError
from dualview.mixture import DualViewMixture
from dualview.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
Users = NDArray[np.intp]
Panels = NDArray[np.object_]

# The Okabe-Ito colors with wine for yellow, which is lost on white, and for black, which is kept
# for the truth. The two lengths have no common factor: 70 clusters before a pair comes again.
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#882255", "#56B4E9", "#D55E00")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "*", ">")
_CHAIN_COLORS = ("#1B1464", "#A3265F", "#3FA7A0", "#F2B84B")  # from dark to light
_CHAIN_MARKS = 6  # along a chain's line
MUTED = "0.4"
BAND = "0.85"
MAIN = "#0072B2"
ALERT = "#D55E00"
TRUTH: dict[str, Any] = {"marker": "_", "color": "black", "s": 36, "linewidths": 1.5, "zorder": 3}
_SIDE = 0.1  # inches beside panels, for labels that move when their ticks change during layout
_MOST_NAMES = 20  # of clusters along an axis


def require_matplotlib() -> None:
    """Raise unless matplotlib can be imported."""
    require_extra("matplotlib", "Plots need", "plots")


def one_panel(ax: "Axes | None", size: tuple[float, float] | None = None) -> "Axes":
    """The given axes, or those of a new figure of this size in inches."""
    if ax is not None:
        return ax
    require_matplotlib()
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def panels(
    axes: Any, n_rows: int, n_columns: int, size: tuple[float, float], **grid: Any
) -> Panels:
    """The given axes as an array (n_rows, n_columns), or those of a new figure of this size in
    inches."""
    if axes is None:
        require_matplotlib()
        from matplotlib import pyplot
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        figure = pyplot.figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=_SIDE))
        return np.asarray(figure.subplots(n_rows, n_columns, squeeze=False, **grid))
    given = np.asarray(axes, dtype=object)
    if given.shape != (n_rows, n_columns) and not (n_rows == 1 and given.shape == (n_columns,)):
        wanted = f"({n_columns},)" if n_rows == 1 else f"({n_rows}, {n_columns})"
        raise InputError(
            f"axes must be an array of matplotlib Axes of shape {wanted}; got shape {given.shape}."
        )
    return given.reshape(n_rows, n_columns)


def png_of(figure: Any, dpi: int, **options: Any) -> bytes:
    """The content of a PNG file with a figure."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=dpi, **options)
    return content.getvalue()


def posterior_of(source: Any) -> Posterior:
    """The posterior of a fitted model; a posterior is its own."""
    if isinstance(source, Posterior):
        return source
    if not isinstance(source, DualViewMixture):
        raise InputError(
            f"Plots need a fitted DualViewMixture or a Posterior; got {type(source).__name__}."
        )
    if not hasattr(source, "posterior_"):
        raise InputError("The model is not fitted yet: call model.fit(X, behavior) first.")
    return source.posterior_


def labels_of(source: DualViewMixture | Posterior) -> NDArray[np.int64]:
    """The partition estimate of a fitted model or of a posterior."""
    return source.partition() if isinstance(source, Posterior) else source.labels_


def groups_of(labels: NDArray[np.int64]) -> list[tuple[int, Users]]:
    """Each cluster of a partition with its users."""
    return [(int(cluster), np.flatnonzero(labels == cluster)) for cluster in np.unique(labels)]


def cluster_style(cluster: int, n_users: int) -> dict[str, Any]:
    """Color and marker of a cluster, smaller where users are many. A dark edge keeps light colors
    visible on white."""
    color, marker = _COLORS[cluster % len(_COLORS)], _MARKERS[cluster % len(_MARKERS)]
    size = float(np.clip(4200 / n_users, 6, 42))
    return {
        "color": color,
        "marker": marker,
        "s": size,
        "edgecolors": "0.15",
        "linewidths": 0.6,
        "zorder": 2,
    }


def chain_style(chain: int, n_points: int) -> dict[str, Any]:
    """Color and marker of a chain's line of n points; a few of them are marked, at other places in
    each chain."""
    step = max(1, n_points // _CHAIN_MARKS)
    return {
        "color": _CHAIN_COLORS[chain % len(_CHAIN_COLORS)],
        "marker": _MARKERS[chain % len(_MARKERS)],
        "markevery": (int((chain * 0.382 % 1) * step), step),
        "markersize": 4.5,
        "markeredgecolor": "0.15",
        "markeredgewidth": 0.6,
    }


def apart(centers: list[tuple[float, str]], width: float) -> tuple[list[float], list[str]]:
    """Places and names of clusters along an axis, without those that would run into the one
    before."""
    shown = centers[:1]
    for center in centers[1:]:
        if center[0] - shown[-1][0] > width / _MOST_NAMES:
            shown.append(center)
    return [place for place, _ in shown], [name for _, name in shown]


def place_of(name: int | str, names: list[str]) -> int:
    """A position or a name among some names as a position; an error of Python's where it is
    none."""
    return names.index(name) if isinstance(name, str) else range(len(names))[operator.index(name)]


def percent(probability: float) -> str:
    return f"{100 * probability:g} %"
