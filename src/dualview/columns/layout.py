"""Which columns belong to which table, where the users' features come as several."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Layout(NamedTuple):
    """Tables by name, in order. Of each: its columns of numbers, their dimensions in working units,
    its nominal columns."""

    names: tuple[str, ...]
    n_columns: tuple[int, ...]
    n_dims: tuple[int, ...]
    n_categories: tuple[int, ...]

    @property
    def of_numbers(self) -> list[tuple[int, slice]]:
        """The tables that have numbers, each with the dimensions that are its own."""
        return _blocks(self.n_dims)

    @property
    def columns(self) -> list[slice]:
        """The columns of each table's numbers, for the tables of :attr:`of_numbers`."""
        return [own for _, own in _blocks(self.n_columns)]

    @property
    def of_categories(self) -> list[tuple[int, slice]]:
        """The tables that have nominal columns, each with those that are its own."""
        return _blocks(self.n_categories)

    def to_json(self) -> dict[str, list[Any]]:
        """Plain values."""
        return {name: list(value) for name, value in self._asdict().items()}

    @classmethod
    def from_json(cls, values: dict[str, list[Any]]) -> "Layout":
        """What :meth:`to_json` gave."""
        return cls(*(tuple(values[name]) for name in cls._fields))


def _blocks(sizes: Sequence[int]) -> list[tuple[int, slice]]:
    found, first = [], 0
    for table, size in enumerate(sizes):
        if size:
            found.append((table, slice(first, first + size)))
        first += size
    return found
