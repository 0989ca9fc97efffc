"""Cells of a fit's table as the views of its model see them, and the complete vectors that draws
make of them."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dualview.columns import Cells, Column, Columns
from dualview.columns.layout import Layout
from dualview.model import Observed
from dualview.units import Whitening
from dualview.views import BlockedView, Intervals, NominalView, View

if TYPE_CHECKING:
    from dualview.posterior.posterior import Posterior

Array = NDArray[np.float64]


def intervals_of(cells: Cells, codebook: Columns, units: Whitening) -> Intervals:
    """The intervals of the Gaussian columns as the view sees them."""

    def coarsen(values: Array) -> tuple[Array, Array]:
        parts = [_observed(column, values[:, d]) for d, column in enumerate(codebook.gaussian)]
        low, high = (np.column_stack(side) for side in zip(*parts, strict=True))
        return low, high

    return Intervals(cells.low, cells.high, units.mean, units.factor, units.inverse, coarsen)


def _observed(column: Column, x: Array) -> tuple[Array, Array]:
    """What numbers on the Gaussian view's scale would be observed as."""
    if column.kind in ("continuous", "censored"):
        return x, x
    low, high = column.intervals(column.values(x))
    return low, high


def categories_of(
    cells: Cells, codebook: Columns, layout: Layout | None = None
) -> dict[str, Observed]:
    """The nominal columns as a view; empty where there are none. layout: of several tables."""
    if not codebook.nominal:
        return {}
    shares = tuple(column.shares for column in codebook.nominal)
    view: View = (
        NominalView(shares) if layout is None else BlockedView.of_categories(layout, shares)
    )
    return {"categories": Observed(view, cells.codes.astype(np.float64))}


def complete_features(post: "Posterior", draws: NDArray[np.intp]) -> Array | None:
    """Features of all users in some draws, (U, D) or (S, U, D) where cells were drawn; None without
    Gaussian columns."""
    cells = post.cells
    if cells is None or not cells.low.shape[1]:
        return post.features
    if "features.cells" not in post:
        return cells.low
    table = np.repeat(cells.low[None], len(draws), axis=0)
    users, columns = cells.drawn
    table[:, users, columns] = post.flat("features.cells")[draws]
    return table
