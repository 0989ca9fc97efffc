"""A table of users as the model sees it: numbers between two ends, (M14), and what other kinds of
columns make of their cells."""

from collections.abc import Mapping
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


@dataclass(frozen=True)
class Cells:
    """Cells of U users: arrays (U, …) by name, as a posterior keeps them.

    Numbers are between ``low`` and ``high`` (U, D), on the scale of the Gaussian view
    (``Column.scale``): an exact cell has low == high, a missing one (−∞, ∞). Each other kind of
    column has arrays of its own, such as ``codes`` (U, J) of nominal columns.
    """

    data: Mapping[str, NDArray[Any]]

    @classmethod
    def of_numbers(cls, numbers: Array) -> "Cells":
        """Numbers (U, D) only, NaN where they are missing."""
        missing = np.isnan(numbers)
        low, high = np.where(missing, -np.inf, numbers), np.where(missing, np.inf, numbers)
        return cls({"low": low, "high": high})

    @property
    def low(self) -> Array:
        """Lower ends of the numbers."""
        return self.data["low"]

    @property
    def high(self) -> Array:
        """Upper ends of the numbers."""
        return self.data["high"]

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.low)

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Which numbers (U, D) are known exactly."""
        return np.asarray(self.low == self.high)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which numbers (U, D) are missing."""
        return missing_cells(self.low, self.high)

    @property
    def is_exact(self) -> bool:
        """Whether the table is a matrix of numbers: no interval, no missing cell, no column of
        another kind."""
        others = (part for name, part in self.data.items() if name not in ("low", "high"))
        return not any(part.size for part in others) and bool(self.exact.all())

    @property
    def drawn(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Users and columns of the numbers that are not exact, as :func:`drawn_cells`."""
        return drawn_cells(self.low, self.high)

    def equals(self, other: "Cells") -> bool:
        """Whether two tables are the same."""
        return self.data.keys() == other.data.keys() and all(
            np.array_equal(part, other.data[name], equal_nan=part.dtype.kind == "f")
            for name, part in self.data.items()
        )

    def take(self, users: Any) -> "Cells":
        """The cells of some users."""
        return Cells({name: part[users] for name, part in self.data.items()})

    def joined(self, other: "Cells") -> "Cells":
        """These users and then others; arrays that these lack have no columns."""
        found = {}
        for name, part in other.data.items():
            own = self.data.get(name, np.empty((self.n_users, 0), dtype=part.dtype))
            found[name] = np.concatenate([own, part])
        return Cells(found)
