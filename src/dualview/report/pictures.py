"""Pictures of a report: markers, lines of chains, and the plots of dualview.plots as PNG."""

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview import plots
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.mixture import DualViewMixture
from dualview.plots.canvas import chain_style, cluster_style, png_of
from dualview.plots.checks import draw_levels

Array = NDArray[np.float64]

_DPI = 170
_MARKER_RADIUS = 6.0
_LINE_POINTS = 160  # of a chain's line
_LINE_SIZE = (200, 36)


def png(draw: Callable[[Any], Any], size: tuple[float, float]) -> dict[str, Any]:
    """What a function draws on axes of this size in inches: an address with the whole picture in
    it, and its size in pixels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(figure.subplots())
    return _encoded(figure, size)


def _encoded(figure: Any, size: tuple[float, float]) -> dict[str, Any]:
    address = f"data:image/png;base64,{base64.b64encode(png_of(figure, _DPI)).decode()}"
    return {"address": address, "width": round(_DPI * size[0]), "height": round(_DPI * size[1])}


def similarity(model: DualViewMixture) -> dict[str, Any]:
    def draw(ax: Any) -> None:
        plots.similarity(model, ax).set(xlabel="users, by role", ylabel="users, by role")
        ax.figure.axes[-1].set_ylabel("probability of being in the same role")

    return png(draw, (5.4, 4.4))


def predictions(prediction: NormalMixture, y: Array) -> dict[str, Any]:
    return png(lambda ax: plots.predictions(prediction, y, ax), (6.2, 4.2))


def calibration(prediction: NormalMixture, y: Array) -> dict[str, Any]:
    return png(lambda ax: plots.calibration(prediction, y, ax), (4.4, 4.4))


def levels(found: dict[str, Array]) -> dict[str, Any]:
    """Histograms of levels that are uniform if the model is right."""
    from matplotlib.figure import Figure

    size = (3.4 * len(found), 3.0)
    figure = Figure(figsize=size, layout="constrained")
    draw_levels(found, figure.subplots(1, len(found), squeeze=False))
    return _encoded(figure, size)


def cluster_look(cluster: int) -> dict[str, str]:
    """Color and marker of a cluster as in all pictures; the marker as an SVG path around the
    origin."""
    style = cluster_style(cluster, 1)
    return {"color": style["color"], "path": _marker_path(style["marker"])}


def _marker_path(marker: str) -> str:
    """matplotlib's marker as the data of an SVG path."""
    from matplotlib.markers import MarkerStyle
    from matplotlib.path import Path

    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    scale = _MARKER_RADIUS / max(0.5, float(np.abs(path.vertices).max()))
    letters = {
        Path.MOVETO: "M",
        Path.LINETO: "L",
        Path.CURVE3: "Q",
        Path.CURVE4: "C",
        Path.CLOSEPOLY: "Z",
    }
    parts = []
    for vertices, code in path.iter_segments(simplify=False):
        numbers = np.asarray(vertices) * np.tile([scale, -scale], len(vertices) // 2)
        parts.append(
            letters[code]
            + ("" if code == Path.CLOSEPOLY else " ".join(f"{v:.2f}" for v in numbers))
        )
    return "".join(parts)


def chain_lines(values: Array) -> dict[str, Any]:
    """A line per chain of a scalar (chain, draw), in a box: evenly spaced draws, all chains on one
    scale."""
    n_draws = values.shape[1]
    places = np.unique(np.linspace(0, n_draws - 1, min(n_draws, _LINE_POINTS)).astype(int))
    shown = values[:, places]
    low, high = float(shown.min()), float(shown.max())
    width, height = _LINE_SIZE
    x = 1 + (width - 2) * places / max(1, n_draws - 1)
    y = 2 + (height - 4) * (1 - (shown - low) / (high - low if high > low else 1.0))
    lines = [
        {
            "color": chain_style(chain, 1)["color"],
            "points": " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, line, strict=True)),
        }
        for chain, line in enumerate(y)
    ]
    return {"width": width, "height": height, "lines": lines}


class Band(NamedTuple):
    """Lower end, median and upper end of a curve at points along an axis."""

    low: Array
    median: Array
    high: Array


class Curves(NamedTuple):
    """Curves of several roles over the same points."""

    name: str
    at: Array
    bands: list[Band]


def curves(panels: list[Curves], label: str, colors: list[str]) -> dict[str, Any]:
    """A panel for each column, a line with its band for each role."""
    from matplotlib.figure import Figure

    n_across = min(len(panels), 3)
    n_down = -(-len(panels) // n_across)
    size = (3.4 * n_across, 2.8 * n_down)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(n_down, n_across, squeeze=False, sharey=True)
    for ax in axes.flat[len(panels) :]:
        ax.remove()
    for panel, ax in zip(panels, axes.flat, strict=False):
        for role, band in enumerate(panel.bands):
            ax.fill_between(
                panel.at, band.low, band.high, color=colors[role], alpha=0.2, linewidth=0
            )
            ax.plot(panel.at, band.median, color=colors[role], label=f"role {role}")
        ax.set_xlabel(panel.name)
    for row in axes:
        row[0].set_ylabel(label)
    axes[0, 0].legend(frameon=False, fontsize="small")
    return _encoded(figure, size)


class Axis:
    """Places of numbers along a line, in percent of its length."""

    def __init__(self, low: float, high: float) -> None:
        margin = 0.03 * (high - low) or 1.0
        self.low, self.high = low - margin, high + margin

    def place(self, value: float) -> float:
        return round(100 * (float(value) - self.low) / (self.high - self.low), 2)

    @property
    def ticks(self) -> list[float]:
        """Up to five round numbers."""
        from matplotlib.ticker import MaxNLocator

        values = MaxNLocator(nbins=4, steps=[1, 2, 5, 10]).tick_values(self.low, self.high)
        return [float(value) for value in values if self.low <= value <= self.high]
