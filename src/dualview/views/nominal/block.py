"""Categories of users in the draws of a fit, (M15): shares of levels, θ integrated out in fresh
clusters. Cells are codes (J, columns), −1 where they are missing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.columns import Column, level_shares
from dualview.numerics.streams import stream_of
from dualview.views.features import (
    Array,
    BlockRows,
    ClusterRows,
    FeatureBlock,
    Fitted,
    Places,
)
from dualview.views.nominal.conditionals import draw_shares
from dualview.views.nominal.state import draw_levels, level_indicators
from dualview.views.nominal.view import NominalView


class NominalBlock(FeatureBlock):
    """Nominal columns of one table; own: among those of all."""

    view, variable, dim, has_shares = "categories", "codes", "category", True

    def __init__(
        self, draws: Fitted, columns: Sequence[Column], table: int = 0, own: slice = slice(None)
    ) -> None:
        super().__init__(columns[own], table)
        self._own = own
        starts = np.cumsum([0, *(len(column.levels) for column in columns)])
        numbers = np.arange(len(columns))[own]
        first = starts[numbers[0]]
        self.starts = starts[numbers[0] : numbers[-1] + 2] - first
        self.shares = tuple(column.shares for column in self.columns)
        self.log_shares = draws.components["categories.log_shares"][:, first:][:, : self.starts[-1]]
        self.concentrations = np.ascontiguousarray(
            draws.flat("categories.concentrations")[:, own], dtype=np.float64
        )

    def cells(self, data: Mapping[str, NDArray[Any]]) -> Places:
        return data["codes"][:, self._own]

    def values(self, x: Places) -> Places:
        return x

    def recorded(self, vectors: Array) -> Places:
        return vectors[..., self._own].astype(np.int64)

    def rows(self, rng: np.random.Generator, rows: ClusterRows) -> "NominalRows":  # noqa: ARG002
        return NominalRows(self, rows)

    def log_density(self, x: Places, rows: Places) -> Array:
        found = np.zeros(rows.shape)
        for start, codes in zip(self.starts, x.T, strict=False):
            seen = codes >= 0
            found[:, seen] += self.log_shares[rows[:, seen], start + codes[seen]]
        return found

    def replicates(self, rng: np.random.Generator, rows: Places) -> Places:
        parts = [self._shares(column, rows) for column in range(len(self.columns))]
        return np.stack([draw_levels(rng, shares) for shares in parts], axis=-1)

    def _shares(self, column: int, rows: Places) -> Array:
        """θ of a column in rows (…) of the table of components, (…, L)."""
        levels = slice(self.starts[column], self.starts[column + 1])
        return np.asarray(np.exp(self.log_shares[:, levels])[rows])

    def unknown(self, x: Places) -> tuple[Places, Places]:
        users, columns = np.nonzero(x < 0)
        return users, columns

    def fill(
        self, rng: np.random.Generator, x: Places, cells: tuple[Places, Places], rows: Places
    ) -> tuple[Places, list[Array]]:
        """Levels by their shares in the users' clusters."""
        del x
        shares = [self._shares(column, rows[:, user]) for user, column in zip(*cells, strict=True)]
        codes = np.empty((len(rows), len(shares)), dtype=np.int64)
        for i, own in enumerate(shares):
            codes[:, i] = draw_levels(rng, own)
        return codes, [own.mean(axis=0) for own in shares]

    def design(self, x: Places, values: Array | None = None) -> Array:  # noqa: ARG002
        """A column for every level, 0 where the level is missing."""
        return level_indicators(x, self.shares)

    def scalar_text(self, name: str, number: int) -> str | None:
        """Whose concentration it is."""
        place = number - (self._own.start or 0)
        if name != "concentrations" or not 0 <= place < len(self.columns):
            return None
        return f"similarity of {self.columns[place].name} between roles"

    def profile(self, x: Places) -> dict[str, dict[str, Any]]:
        """Shares of levels."""
        found = {}
        for column, codes in zip(self.columns, x.T, strict=True):
            shares = level_shares(codes, len(column.levels)).tolist()
            found[column.name] = dict(zip(column.levels, shares, strict=True))
        return {"level_shares": found}


class NominalRows(BlockRows):
    """Nominal columns of a table in every row: ln θ, and in fresh clusters ln g."""

    def __init__(self, block: NominalBlock, rows: ClusterRows) -> None:
        self._block, self._component, self._draw = block, rows.component, rows.draw
        self._flat = NominalView(block.shares).flat
        self._table = np.vstack([block.log_shares, np.log(self._flat)])  # the last one is fresh

    def log_density(self, x: Places, log_weights: Array) -> Array:  # noqa: ARG002
        found = np.array([self._log_of_levels(self._table, own) for own in x])
        return np.asarray(found.reshape(len(x), len(self._table))[:, self._component])

    def _log_of_levels(self, log_shares: Array, codes: Places) -> Array:
        """ln p(levels of one user | ln θ of n clusters), (n,)."""
        seen = codes >= 0
        return np.asarray(log_shares[:, self._block.starts[:-1][seen] + codes[seen]].sum(axis=1))

    def fill(
        self, rng: np.random.Generator, rows: Places, weights: Array, x: Places, columns: Places
    ) -> tuple[Places, list[Array]]:
        """Levels by their shares in the rows, and what these are on average."""
        del x
        codes, averages = np.empty((len(rows), len(columns)), dtype=np.int64), []
        for i, column in enumerate(columns):
            levels = slice(self._block.starts[column], self._block.starts[column + 1])
            shares = np.exp(self._table[:, levels])[self._component]
            codes[:, i] = draw_levels(rng, shares[rows])
            averages.append(weights @ shares)
        return codes, averages

    def opened(
        self,
        rng: np.random.Generator,
        rows: Places,
        x: Places,
        values: Array | None = None,  # noqa: ARG002
    ) -> Array:
        """ln θ (rows, Σ L_j), (C17)."""
        counts, seen, starts = np.zeros(len(self._flat)), x[0] >= 0, self._block.starts
        counts[starts[:-1][seen] + x[0][seen]] = 1.0
        found, stream = np.empty((len(rows), len(counts))), stream_of(rng)
        for concentrations, log_shares in zip(
            self._block.concentrations[self._draw[rows]], found, strict=True
        ):
            draw_shares(stream, counts, starts, self._flat, concentrations, log_shares)
        return found

    def log_opened(self, x: Places, rows: Places, opened: Array) -> Array:  # noqa: ARG002
        return self._log_of_levels(opened, x[0])
