"""A table of users as the model sees it, (M14) and (M15): intervals for the Gaussian view, codes
for the nominal one."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def missing_cells(low: Array, high: Array) -> NDArray[np.bool_]:
    """Which cells (U, D) are missing."""
    return np.asarray(np.isneginf(low) & np.isposinf(high))


def drawn_cells(low: Array, high: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Users and columns of the cells that are not exact, in the order of their draws: by user,
    missing ones first."""
    users, columns = np.nonzero(low < high)
    order = np.lexsort((columns, ~missing_cells(low, high)[users, columns], users))
    return users[order], columns[order]


def inside(low: Array, high: Array) -> Array:
    """A number inside each cell's interval: its middle; near its only end; NaN where it is
    missing."""
    missing = missing_cells(low, high)
    below = np.where(np.isneginf(low), high - 1.0, low)
    above = np.where(np.isposinf(high), low + 1.0, high)
    with np.errstate(invalid="ignore"):
        return np.where(low == high, low, np.where(missing, np.nan, 0.5 * below + 0.5 * above))


def level_shares(codes: NDArray[np.int64], n_levels: int) -> Array:
    """Shares of levels (L,) among users with codes (n,), those without a level left out."""
    seen = codes[codes >= 0]
    return np.asarray(np.bincount(seen, minlength=n_levels) / max(len(seen), 1))


@dataclass(frozen=True)
class Cells:
    """Cells of U users in D Gaussian columns, low ≤ x ≤ high, and in J nominal columns.

    low, high (U, D) are on the scale of the Gaussian view (``Column.scale``). An exact cell has low
    == high, a missing one (−∞, ∞). codes (U, J) are numbers of levels, −1 where missing.
    """

    low: Array
    high: Array
    codes: NDArray[np.int64]

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.low)

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Which Gaussian cells (U, D) are known exactly."""
        return np.asarray(self.low == self.high)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which Gaussian cells (U, D) are missing."""
        return missing_cells(self.low, self.high)

    @property
    def is_exact(self) -> bool:
        """Whether the table is a matrix of numbers: no interval, no missing cell, no nominal
        column."""
        return self.codes.shape[1] == 0 and bool(self.exact.all())

    @property
    def drawn(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Users and columns of the Gaussian cells that are not exact, as :func:`drawn_cells`."""
        return drawn_cells(self.low, self.high)

    @property
    def without_information(self) -> NDArray[np.bool_]:
        """Which users (U,) have no cell observed in any column."""
        return np.asarray(self.missing.all(axis=1) & (self.codes < 0).all(axis=1))

    def equals(self, other: "Cells") -> bool:
        """Whether two tables are the same."""
        return all(
            np.array_equal(one, two) for one, two in zip(self._parts, other._parts, strict=True)
        )

    @property
    def _parts(self) -> tuple[NDArray[Any], ...]:
        return self.low, self.high, self.codes

    @property
    def data(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, as a posterior keeps them."""
        return {"low": self.low, "high": self.high, "codes": self.codes}

    def take(self, users: NDArray[np.int64] | NDArray[np.bool_] | slice) -> "Cells":
        """The cells of some users."""
        return Cells(self.low[users], self.high[users], self.codes[users])

    def joined(self, other: "Cells") -> "Cells":
        """These users and then others."""
        parts = (np.concatenate(pair) for pair in zip(self._parts, other._parts, strict=True))
        return Cells(*parts)
