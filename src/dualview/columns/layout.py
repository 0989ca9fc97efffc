"""Which columns belong to which table, where the users' features come as several."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Layout(NamedTuple):
    """Tables by name, in order. Of each: its columns of numbers, and their dimensions in working
    units. others: by the name of a view, the columns that each table has of another kind."""

    names: tuple[str, ...]
    n_columns: tuple[int, ...]
    n_dims: tuple[int, ...]
    others: Mapping[str, tuple[int, ...]] = {}

    @property
    def of_numbers(self) -> list[tuple[int, slice]]:
        """The tables that have numbers, each with the dimensions that are its own."""
        return _blocks(self.n_dims)

    @property
    def columns(self) -> list[slice]:
        """The columns of each table's numbers, for the tables of :attr:`of_numbers`."""
        return [own for _, own in _blocks(self.n_columns)]

    def places(self, view: str) -> list[tuple[int, slice]]:
        """The tables that have columns of another kind, by the name of its view, each with those
        that are its own."""
        return _blocks(self.others[view])

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        found = {name: list(value) for name, value in self._asdict().items() if name != "others"}
        return found | {"others": {view: list(counts) for view, counts in self.others.items()}}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Layout":
        """What :meth:`to_json` gave, in this version or one that knew numbers and categories
        only."""
        others = values.get("others", {"categories": values.get("n_categories", ())})
        names, n_columns, n_dims = (
            tuple(values[name]) for name in ("names", "n_columns", "n_dims")
        )
        own = {view: tuple(counts) for view, counts in others.items()}
        return cls(names, n_columns, n_dims, own)


def _blocks(sizes: Sequence[int]) -> list[tuple[int, slice]]:
    found, first = [], 0
    for table, size in enumerate(sizes):
        if size:
            found.append((table, slice(first, first + size)))
        first += size
    return found
