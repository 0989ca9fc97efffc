"""Which cells of a table are known to an interval only, and how a complete table would be
observed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from dualview.columns import Cells as Table
from dualview.columns import Columns
from dualview.columns.cells import drawn_cells, missing_cells
from dualview.units import Whitening
from dualview.views.base import Array
from dualview.views.gaussian.cells import Cells, put_in, take_out

Coarsening = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Intervals:
    """Bounds of every cell of a table (U, D): low < high where the cell is not exact, (−∞, ∞) where
    it is missing, (M14).

    Bounds are in the data's units. mean (D,) and factor (D, D): m and the lower factor L of the
    view's Σ. coarsen: what a complete table (U, D) is observed as, for simulations; missing cells
    stay missing, and without it all others are exact.
    """

    low: Array
    high: Array
    mean: Array
    factor: Array
    inverse: Array
    coarsen: Coarsening | None = None

    @cached_property
    def cells(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Users and columns of the cells that are not exact: by user, the missing ones first."""
        return drawn_cells(self.low, self.high)

    @cached_property
    def is_missing(self) -> NDArray[np.bool_]:
        """Missing cells (U, D)."""
        return missing_cells(self.low, self.high)

    @property
    def n_cells(self) -> int:
        """Cells that are not exact."""
        return len(self.cells[0])

    @cached_property
    def start(self) -> Array:
        """A complete table to start from (U, D): the middle of an interval, its bound if it has
        one, m where it is missing."""
        low = np.where(np.isfinite(self.low), self.low, self.high)
        high = np.where(np.isfinite(self.high), self.high, self.low)
        low[self.is_missing] = high[self.is_missing] = 0.0
        return np.where(self.is_missing, self.mean, 0.5 * low + 0.5 * high)

    def values(self, x: Array) -> Array:
        """The values of the cells that are not exact, from complete vectors in working units."""
        return np.asarray((self.mean + x @ self.factor.T)[self.cells])

    def record(self, drawn: Array, x: Array) -> tuple[Cells, Array, Array]:
        """Cells as the sampler sees them, with their values, and complete vectors (U, D) and rows
        (D, U)."""
        users, columns = self.cells
        counts = np.bincount(users, minlength=len(self.low))
        starts = np.concatenate([[0], np.cumsum(counts)])
        low, high = self.low[self.cells], self.high[self.cells]
        missing = np.bincount(users[self.is_missing[self.cells]], minlength=len(self.low))
        inverse = np.ascontiguousarray(self.inverse)  # another layout would be compiled anew
        cells = Cells(starts, columns, low, high, missing, self.start.copy(), self.mean, inverse)
        vectors = x.copy()
        rows = np.ascontiguousarray(vectors.T)
        put_in(drawn, cells, vectors, rows)
        return cells, vectors, rows

    def drawn(self, cells: Cells) -> Array:
        """The cells' values in a record."""
        row = np.empty(self.n_cells)
        take_out(row, 0, cells)
        return row

    def take(self, users: slice) -> "Intervals":
        """Those of some users."""
        return Intervals(
            self.low[users], self.high[users], self.mean, self.factor, self.inverse, self.coarsen
        )

    def columns(self, own: slice) -> "Intervals":
        """Those of some columns, which no others depend on."""
        coarsen = None if self.coarsen is None else partial(self._coarsened, own)
        mean, factor, inverse = self.mean[own], self.factor[own, own], self.inverse[own, own]
        return Intervals(self.low[:, own], self.high[:, own], mean, factor, inverse, coarsen)

    def _coarsened(self, own: slice, values: Array) -> tuple[Array, Array]:
        """What a complete table of some columns is observed as."""
        assert self.coarsen is not None
        whole = np.tile(self.mean, (len(values), 1))
        whole[:, own] = values
        low, high = self.coarsen(whole)
        return low[:, own], high[:, own]

    def held(self, x: Array) -> "Intervals":
        """All cells exact, at the values of complete vectors in working units."""
        values = self.mean + x @ self.factor.T
        return Intervals(values, values, self.mean, self.factor, self.inverse)

    def observe(self, x: Array) -> "Intervals":
        """The intervals of another complete table, in working units: what is missing stays so."""
        values = self.mean + x @ self.factor.T
        low, high = (values, values) if self.coarsen is None else self.coarsen(values)
        low, high = np.where(self.is_missing, -np.inf, low), np.where(self.is_missing, np.inf, high)
        return Intervals(low, high, self.mean, self.factor, self.inverse, self.coarsen)


def intervals_of(table: Table, codebook: Columns, units: Whitening) -> Intervals:
    """The intervals of the Gaussian columns as the view sees them."""

    def coarsen(values: Array) -> tuple[Array, Array]:
        own = enumerate(codebook.of("features"))
        parts = [column.coarsened(values[:, d]) for d, column in own]
        low, high = (np.column_stack(side) for side in zip(*parts, strict=True))
        return low, high

    return Intervals(table.low, table.high, units.mean, units.factor, units.inverse, coarsen)
