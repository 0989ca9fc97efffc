"""The codebook of a fit: the kinds of its columns, and how new tables are read by it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.columns.cells import Cells
from dualview.columns.column import Censored, Column
from dualview.columns.kinds import (
    Wish,
    censored_column,
    censored_ends,
    chosen_column,
    recoded,
    wished_column,
)
from dualview.columns.table import Source, Table
from dualview.errors import InputError

Array = NDArray[np.float64]

_SHOWN = 5
_LEVELS_SHOWN = 6


@dataclass(frozen=True)
class Columns:
    """The codebook of a fit: its columns in the table's order, those that are ignored too.

    is_named is False where it was made from an array, whose columns are called x0, x1, …
    """

    columns: tuple[Column, ...]
    is_named: bool = True

    @classmethod
    def from_table(cls, X: Any, columns: Mapping[str, Any] | None = None) -> "Columns":
        """The codebook of a table, by the rules of ``describe_columns`` and what the user says.

        Raises InputError with the problems of all columns.
        """
        table = Table.of(X)
        chosen = choices(table, columns).values()
        problems = [str(column) for column in chosen if isinstance(column, InputError)]
        if problems:
            more = (
                f" There are {len(problems) - _SHOWN} more such columns."
                if len(problems) > _SHOWN
                else ""
            )
            raise InputError(" ".join(problems[:_SHOWN]) + more)
        found = tuple(column for column in chosen if isinstance(column, Column))
        if all(column.kind == "ignore" for column in found):
            raise InputError("All columns are ignored. Pass X=None to cluster by behavior alone.")
        return cls(found, table.is_named)

    @property
    def gaussian(self) -> tuple[Column, ...]:
        """The D columns of the Gaussian view, in order."""
        return tuple(column for column in self.columns if column.is_gaussian)

    @property
    def nominal(self) -> tuple[Column, ...]:
        """The J nominal columns, in order."""
        return tuple(column for column in self.columns if column.kind == "nominal")

    @property
    def source_names(self) -> list[str]:
        """The columns of the fit's table, in order: a censored column may stand in two."""
        return [name for column in self.columns for name in _source_names(column)]

    def cells(self, X: Any, unknown: Literal["error", "missing"] = "error") -> Cells:
        """A table of users, of the fit or new ones, as the model sees it.

        Parameters
        ----------
        X : table or array
            The columns of the fit, in any order; those that are ignored may be missing. An array
            has them in order.
        unknown : "error" or "missing"
            What a level is that the fit does not know.
        """
        if unknown not in ("error", "missing"):
            raise InputError(f'unknown must be "error" or "missing"; got {unknown!r}.')
        table = self._matched(Table.of(X))
        ends = [_ends(column, table, unknown) for column in self.gaussian]
        codes = [_codes(column, table.source(column.name), unknown) for column in self.nominal]
        n_users = table.n_users
        low = np.column_stack([low for low, _ in ends]) if ends else np.empty((n_users, 0))
        high = np.column_stack([high for _, high in ends]) if ends else np.empty((n_users, 0))
        return Cells(
            low, high, np.column_stack(codes) if codes else np.empty((n_users, 0), dtype=np.int64)
        )

    def observed(self, cells: Cells) -> Array:
        """What is known of cells in the user's units, (U, D): NaN where they are missing; of
        censored ones, the only end."""
        parts = zip(self.gaussian, cells.low.T, cells.high.T, strict=True)
        found = [column.observed(low, high) for column, low, high in parts]
        return np.column_stack(found) if found else np.empty((cells.n_users, 0))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of lists, numbers and texts."""
        return {"is_named": self.is_named, "columns": [column.to_json() for column in self.columns]}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Columns":
        """The codebook of a dictionary that ``to_json`` made."""
        return cls(
            tuple(Column.from_json(column) for column in record["columns"]),
            bool(record["is_named"]),
        )

    def _matched(self, table: Table) -> Table:
        """The table with the codebook's names; raises where columns are missing or unknown."""
        needed = [
            name
            for column in self.columns
            if column.kind != "ignore"
            for name in _source_names(column)
        ]
        ignored = [column.name for column in self.columns if column.kind == "ignore"]
        if table.is_named and self.is_named:
            there, known = set(table.names), {*needed, *ignored}
            absent = [name for name in needed if name not in there]
            strange = [name for name in table.names if name not in known]
            if absent or strange:
                parts = [f"missing: {', '.join(absent[:_SHOWN])}"] if absent else []
                parts += [f"unknown: {', '.join(strange[:_SHOWN])}"] if strange else []
                raise InputError(
                    f"X must have the columns of the fit ({'; '.join(parts)}). Add or drop columns."
                )
            return table
        names = next(
            (names for names in (self.source_names, needed) if len(names) == len(table.names)), None
        )
        if names is None:
            raise InputError(
                f"X must have the {len(needed)} columns of the fit, in order; it has "
                f"{len(table.names)}."
            )
        return Table(table.frame.set_axis(names, axis=1), True, table.users)


def describe_columns(X: Any, columns: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Codebook of a table, to read before a fit: column, kind, why, levels, share of missing cells.

    The kind of a column is detected from its values, unless ``columns`` sets it:

    ==================================================
    ============================================================
    the column holds                                    kind
    ==================================================
    ============================================================
    numbers of a NumPy array                            continuous
    flags; two different values                         nominal
    whole numbers, none below 0                         count, on the scale of log1p if the skewness
    is above 1
    other whole numbers                                 rounded to 1
    numbers that are multiples of one step apart, at    rounded to the largest such step
    least 10 % of them shared with another user
    other numbers                                       continuous
    ordered categories, three or more                   ordinal
    other categories, text                              nominal
    pandas intervals                                    censored
    ==================================================
    ============================================================

    Whole numbers may be stored as floats, as pandas does if cells are missing. NaN, None, NA and
    NaT are missing cells. Some columns are refused: dates, time spans, lists, columns with one
    value or none, and text with a different level for every user, or with more than ten levels and
    more than half as many levels as users. The table shows them as "refused", with the reason; a
    fit raises an error.

    Parameters
    ----------
    X : table or array
        One row per user: pandas, polars, Arrow or NumPy.
    columns : dict, optional
        By name of a column, its kind ("continuous", "rounded", "count", "ordinal", "nominal",
        "ignore"), a dictionary with more ({"kind": "ordinal", "levels": [...]}, {"kind": "rounded",
        "step": 0.5}, {"kind": "count", "scale": "log1p"}), or ``Censored(low, high)`` with the
        names of two columns.

    Returns
    -------
    pandas.DataFrame

    Examples
    --------
    >>> import pandas as pd
    >>> users = pd.DataFrame({"posts": [0, 3, 0, 41], "town": ["Lyon", "Lyon", None, "Metz"]})
    >>> describe_columns(users)[["column", "kind", "levels", "missing"]]
      column     kind      levels  missing
    0  posts    count                 0.00
    1   town  nominal  Lyon, Metz     0.25
    """
    table = Table.of(X)
    rows = []
    for name, column in choices(table, columns).items():
        if isinstance(column, InputError):
            missing = (
                float(table.frame[name].isna().mean()) if name in table.names else float("nan")
            )
            rows.append((name, "refused", str(column), "", missing))
        else:
            rows.append(
                (name, column.kind, column.why, _levels_text(column.levels), column.missing)
            )
    return pd.DataFrame(rows, columns=["column", "kind", "why", "levels", "missing"])


def choices(table: Table, columns: Mapping[str, Any] | None) -> dict[str, Column | InputError]:
    """The columns of the codebook by name, or what is wrong with them. Raises where ``columns``
    itself is wrong."""
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError(
            f'columns must be a dictionary such as {{"town": "nominal"}}; got {columns!r:.60}.'
        )
    given = {str(name): wish for name, wish in (columns or {}).items()}
    for name, wish in given.items():
        if isinstance(wish, Censored) and not wish.is_named:
            raise InputError(
                f"columns[{name!r}] must name the columns of X with the ends, Censored('low', "
                "'high'); got numbers, which are "
                "for the outcomes of a behavior."
            )
    wishes = {
        name: wish if isinstance(wish, Censored) else Wish.of(name, wish)
        for name, wish in given.items()
    }
    found: dict[str, Column | InputError] = {}
    for name in _names(table, given):
        try:
            found[name] = _column(name, table, wishes.get(name))
        except InputError as error:
            found[name] = error
    return found


def _names(table: Table, given: Mapping[str, Any]) -> list[str]:
    """Names of the codebook's columns: those of the table, with a censored column in the place of
    its first end."""
    censored = {name: wish for name, wish in given.items() if isinstance(wish, Censored)}
    ends = [
        (end, name)
        for name, wish in censored.items()
        for end in (wish.low, wish.high)
        if end is not None
    ]
    homes = dict(ends)
    absent = [name for name in (*homes, *given) if name not in table.names and name not in censored]
    if absent:
        shown = ", ".join(table.names[:_SHOWN]) + (", …" if len(table.names) > _SHOWN else "")
        raise InputError(
            f"columns names {', '.join(map(repr, absent))}, which X does not have; it has {shown}."
        )
    twice = [name for name in given if homes.get(name, name) != name]
    if twice or len(homes) < len(ends):
        again = twice or [end for end, _ in ends if [other for other, _ in ends].count(end) > 1]
        raise InputError(
            f"columns uses {again[0]!r} twice, at least once as an end of a censored column. Use "
            "it once."
        )
    taken = [name for name in censored if name in table.names and name not in homes]
    if taken:
        raise InputError(
            f"columns calls a censored column {taken[0]!r}, as another column of X is called. "
            "Choose another name."
        )
    return list(dict.fromkeys(homes.get(name, name) for name in table.names))


def _column(name: str, table: Table, wish: Wish | Censored | None) -> Column:
    if isinstance(wish, Censored):
        return censored_column(name, wish, table)
    if wish is None and not table.is_named:
        wish = Wish("continuous")
    source = table.source(name)
    return chosen_column(source) if wish is None else wished_column(source, wish)


def _source_names(column: Column) -> list[str]:
    return [name for name in column.sources if name is not None] or [column.name]


def _ends(column: Column, table: Table, unknown: str) -> tuple[Array, Array]:
    """Low and high ends (U,) of a Gaussian column."""
    if column.kind == "censored":
        return censored_ends(column.name, column.sources, table)
    source = table.source(column.name)
    if column.kind == "ordinal":
        codes = _codes(column, source, unknown)
        return column.intervals(np.where(codes < 0, np.nan, codes))
    if not source.is_numeric and source.holds != "nothing":
        raise InputError(
            f"Column {column.name!r} is {column.kind} in the fit and must hold numbers; it holds "
            f"{source.holds}."
        )
    values = source.numbers()
    if column.kind == "count":
        wrong = (values < 0) | (np.isfinite(values) & (values != np.round(values)))
        if wrong.any():
            raise InputError(
                f"Column {column.name!r} is a count in the fit: whole numbers from 0; got "
                f"{values[wrong][0]:g}, in "
                f"{table.who(wrong)}."
            )
    return column.intervals(values)


def _codes(column: Column, source: Source, unknown: str) -> NDArray[np.int64]:
    if source.holds == "nothing":
        return np.full(len(source.cells), -1, dtype=np.int64)
    if not source.is_listable:
        raise InputError(
            f"Column {column.name!r} is {column.kind} in the fit; it holds {source.holds}, which "
            "are no levels."
        )
    return recoded(source, source.texts(), column.levels, unknown).codes


def _levels_text(levels: tuple[str, ...]) -> str:
    more = f", … ({len(levels)})" if len(levels) > _LEVELS_SHOWN else ""
    return ", ".join(levels[:_LEVELS_SHOWN]) + more
