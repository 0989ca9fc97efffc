"""Cells of users with the columns that they stand in: which are known, and tables with some of them
only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dualview.columns import Cells, Column
from dualview.posterior.posterior import Posterior
from dualview.posterior.prediction.user_features import Features
from dualview.views.features import FeatureBlock, feature_kinds

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# What stands for a missing cell in an array; where it is not listed NaN, or −1 among whole numbers.
_UNKNOWN = {"low": -np.inf, "high": np.inf, "codes": -1}


class Place(NamedTuple):
    """Where a column stands: the number of its block and its place there; the arrays that hold its
    cells, and its place in these."""

    column: Column
    block: int
    position: int
    arrays: tuple[str, ...]
    number: int


def places_of(post: Posterior) -> dict[str, Place]:
    """All columns of a fit by name, in the order of its table."""
    found: dict[str, Place] = {}
    arrays = {kind.view: kind.arrays for kind in feature_kinds()}
    counts = dict.fromkeys(arrays, 0)
    for number, block in enumerate(post.blocks):
        for position, column in enumerate(block.columns):
            at = counts[block.view]
            found[column.name] = Place(column, number, position, arrays[block.view], at)
            counts[block.view] += 1
    codebook = post.spec.codebook
    names = found if codebook is None else [column.name for column in codebook.columns]
    return {name: found[name] for name in names if name in found}


@dataclass(frozen=True)
class CellTable:
    """Cells of users: arrays (U, …) by name, as ``Cells`` has them, and the columns."""

    post: Posterior
    places: Mapping[str, Place]
    data: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, post: Posterior, cells: Cells) -> Self:
        return cls(post, places_of(post), cells.data)

    @classmethod
    def of_fit(cls, post: Posterior) -> Self:
        """That of the fit's users."""
        cells = post.cells
        if cells is None or "low" not in cells.data:
            values = post.data.get("features")
            numbers = {} if values is None else Cells.of_numbers(values).data
            cells = Cells({**numbers, **({} if cells is None else cells.data)})
        return cls.of(post, cells)

    @classmethod
    def of_values(cls, post: Posterior, values: Sequence[NDArray[Any]]) -> Self:
        """Complete values (U, columns) of each block, on the view's scale, as they would be
        recorded."""
        places, n_users = places_of(post), len(values[0])
        found = {name: part.copy() for name, part in cls._nothing(post, places, n_users).items()}
        for place in places.values():
            own = values[place.block][:, place.position]
            is_number = place.arrays == ("low", "high")
            ends = place.column.coarsened(own) if is_number else [own] * len(place.arrays)
            for name, part in zip(place.arrays, ends, strict=True):
                found[name][:, place.number] = part
        return cls(post, places, found)

    @classmethod
    def nothing(cls, post: Posterior, n_users: int = 1) -> Self:
        """Users of whom nothing is known."""
        places = places_of(post)
        return cls(post, places, cls._nothing(post, places, n_users))

    @staticmethod
    def _nothing(
        post: Posterior, places: Mapping[str, Place], n_users: int
    ) -> dict[str, NDArray[Any]]:
        found: dict[str, NDArray[Any]] = {}
        for kind in feature_kinds():
            n_columns = sum(place.arrays == kind.arrays for place in places.values())
            if not n_columns:
                continue
            for name in kind.arrays:
                observed = post.data.get(name)
                is_whole = name == "codes" or (observed is not None and observed.dtype.kind == "i")
                missing = _UNKNOWN.get(name, -1 if is_whole else np.nan)
                kind_of = np.int64 if is_whole else np.float64
                found[name] = np.full((n_users, n_columns), missing, dtype=kind_of)
        return found

    def __len__(self) -> int:
        return len(next(iter(self.data.values())))

    @property
    def names(self) -> list[str]:
        return list(self.places)

    @cached_property
    def features(self) -> Features:
        """As predictions see them."""
        return Features.of(self.post, self.data)

    @cached_property
    def missing(self) -> Mask:
        """Which cells (U, columns) nothing is known of."""
        blank, found = self._nothing(self.post, self.places, 1), []
        for place in self.places.values():
            parts = [
                _equal(self.data[name][:, place.number], blank[name][0, place.number])
                for name in place.arrays
            ]
            found.append(np.logical_and.reduce(parts))
        return np.column_stack(found)

    @property
    def different(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Users no two of whom are equal, and which of them each user equals, (U,)."""
        parts = [part.astype(float).reshape(len(self), -1) for part in self.data.values()]
        rows = np.ascontiguousarray(np.hstack(parts))
        whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]  # NaN is NaN
        _, first, alike = np.unique(whole, return_index=True, return_inverse=True)
        return first, alike

    def block_of(self, name: str) -> tuple[FeatureBlock, Any]:
        """The block that a column stands in, and the cells there."""
        number = self.places[name].block
        return self.post.blocks[number], self.features.cells[number]

    def take(self, users: Any) -> Self:
        """The cells of some users."""
        return replace(self, data={name: part[users] for name, part in self.data.items()})

    def _changed(self, names: Sequence[str], change: Callable[[str, int], Any]) -> Self:
        data = {name: part.copy() for name, part in self.data.items()}
        for name in names:
            place = self.places[name]
            for array in place.arrays:
                data[array][:, place.number] = change(array, place.number)
        return replace(self, data=data)

    def without(self, *names: str) -> Self:
        """With these columns missing."""
        blank = self._nothing(self.post, self.places, 1)
        return self._changed(names, lambda array, number: blank[array][0, number])

    def only(self, *names: str) -> Self:
        """With all other columns missing."""
        return self.without(*(name for name in self.places if name not in names))

    def at(self, name: str, *values: Any) -> Self:
        """With other cells in a column: an array or a value for each array that holds its cells."""
        by_array = dict(zip(self.places[name].arrays, values, strict=True))
        return self._changed([name], lambda array, _: by_array[array])

    def filled(self, other: Self) -> Self:
        """With cells of others in place of those that are missing."""
        missing, data = self.missing, {name: part.copy() for name, part in self.data.items()}
        for column, place in enumerate(self.places.values()):
            for array in place.arrays:
                own = data[array][:, place.number]
                data[array][:, place.number] = np.where(
                    missing[:, column], other.data[array][:, place.number], own
                )
        return replace(self, data=data)


def _equal(values: NDArray[Any], value: Any) -> Mask:
    return np.isnan(values) if value != value else np.asarray(values == value)
