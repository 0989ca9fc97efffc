"""A table some cells of which are hidden, as methods see it.

Numbers are on the scale that the codebook chose, log(1 + count) for skewed counts.
"""

from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.cells.scores import LEVELS, Normals, Prediction
from benchmarks.cells.tables import Mask, Table
from dualview.columns import Column

Array = NDArray[np.float64]
Places = NDArray[np.int64]
Predictions = dict[str, Prediction]


class Problem:
    """A table some cells (U, columns) of which are hidden."""

    def __init__(self, table: Table, hidden: Mask, seed: int) -> None:
        self.table, self.hidden, self.seed = table, hidden, seed
        self.frame = table.frame.mask(hidden)

    @cached_property
    def numbers(self) -> list[Column]:
        """The columns of numbers."""
        return [column for column in self.table.codebook.columns if column.kind not in LEVELS]

    @cached_property
    def levels(self) -> list[Column]:
        """The columns with levels, ordered ones too."""
        return [column for column in self.table.codebook.columns if column.kind in LEVELS]

    def rows(self, column: Column) -> Places:
        """Users whose cell of a column is hidden."""
        return np.flatnonzero(self.hidden[:, self.frame.columns.get_loc(column.name)])

    def truth(self, column: Column, rows: Places) -> Array:
        """The values of cells, of levels their numbers."""
        return values(self.table.frame, column)[rows]

    @cached_property
    def known_numbers(self) -> Array:
        """What is known of the numbers (U, numbers), on their scales; NaN where it is not."""
        raw = [(column, values(self.frame, column)) for column in self.numbers]
        return np.column_stack(
            [np.where(np.isnan(x), np.nan, column.scaled(x)) for column, x in raw]
        )

    @cached_property
    def known_levels(self) -> Array:
        """What is known of the levels (U, levels), as their numbers; NaN where it is not."""
        return np.column_stack([values(self.frame, column) for column in self.levels])

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Means and standard deviations of the numbers that are known."""
        return np.nanmean(self.known_numbers, axis=0), np.nanstd(self.known_numbers, axis=0)

    @cached_property
    def standard_numbers(self) -> Array:
        """The numbers in standard deviations from their means."""
        return (self.known_numbers - self.moments[0]) / self.moments[1]

    def spread_numbers(self) -> Array:
        """The same with rounded numbers and counts drawn from all that round to them, so that no
        two users need be equal."""
        rng, parts = np.random.default_rng(self.seed), []
        for column in self.numbers:
            width = {"rounded": column.step or 0.0, "count": 1.0}.get(column.kind, 0.0)
            x = values(self.frame, column)
            parts.append(
                np.where(
                    np.isnan(x), np.nan, column.scaled(x + width * rng.uniform(-0.5, 0.5, len(x)))
                )
            )
        return (np.column_stack(parts) - self.moments[0]) / self.moments[1]

    def normals(self, place: int, means: Array, sds: Array, weights: Array) -> Normals:
        """Mixtures for a column of numbers, from standard units."""
        mean, sd = self.moments[0][place], self.moments[1][place]
        return Normals(mean + sd * means, sd * sds, weights)


def values(frame: pd.DataFrame, column: Column) -> Array:
    """A column's values (U,) in its own units, of levels their numbers; NaN where missing."""
    cells = frame[column.name]
    if column.kind not in LEVELS:
        return cells.to_numpy(dtype=float)
    codes = pd.Categorical(cells, categories=list(column.levels)).codes.astype(float)
    return np.where(codes < 0, np.nan, codes)


def equal_weights(n: int) -> Array:
    """Weights (1, n) of mixtures."""
    return np.full((1, n), 1.0 / n)
