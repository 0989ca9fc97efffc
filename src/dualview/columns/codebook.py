"""The codebook of a fit: the kinds of its columns, and how new tables are read by it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.columns.cells import Cells
from dualview.columns.column import Column
from dualview.columns.kinds import IGNORE, Wish, column_kinds, kind_of, kind_words
from dualview.columns.numbers import are_whole
from dualview.columns.table import Source, Table, leave_out, no_value
from dualview.errors import InputError

_SHOWN = 5
_LEVELS_SHOWN = 6
_MANY = 10  # users beyond whom a value of its own for each is that of an id
_NAMED_ID = re.compile(r"(?i:(^|[\W_])(id|uuid|guid)$)|[a-z]I[dD]$")


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
        codebook = cls(found, table.is_named)
        if all(column.kind == IGNORE for column in found):
            doubts = codebook.doubts()
            raise InputError(
                f"All columns are ignored{doubts and f' ({doubts})'}. Pass X=None to cluster by "
                "behavior alone."
            )
        return codebook

    def of(self, view: str) -> tuple[Column, ...]:
        """The columns that a view sees, by its name, in order."""
        words = next(kind.words for kind in column_kinds() if kind.view == view)
        return tuple(column for column in self.columns if column.kind in words)

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
        table, found = self._matched(Table.of(X)), dict[str, NDArray[Any]]()
        for kind in column_kinds():
            columns = self.of(kind.view)
            if columns or kind.is_basic:
                found |= kind.cells(columns, table, unknown)
        return Cells(found)

    def doubts(self) -> str:
        """Which kinds may be wrong, and what to write then, for a warning; "" for none."""
        told = [
            doubt_text(column.name, column.kind, column.doubt)
            for column in self.columns
            if column.doubt
        ]
        more = [f"and {len(told) - _SHOWN} more columns (describe_columns)"] * (len(told) > _SHOWN)
        return ". ".join([*told[:_SHOWN], *more])

    def without_information(self, cells: Cells) -> NDArray[np.bool_]:
        """Which users (U,) have no cell observed in any column."""
        missing = [kind.missing(cells) for kind in column_kinds() if self.of(kind.view)]
        return np.asarray(np.hstack(missing).all(axis=1))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of lists, numbers and texts."""
        return {"is_named": self.is_named, "columns": [column.to_json() for column in self.columns]}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Columns":
        """The codebook of a dictionary that ``to_json`` made."""
        columns = tuple(Column.from_json(column) for column in record["columns"])
        strange = [column for column in columns if column.kind not in kind_words()]
        if strange:
            raise InputError(
                f"Column {strange[0].name!r} is of the kind {strange[0].kind!r}, which is not "
                f"among {', '.join(kind_words())}. Import what registers it first."
            )
        return cls(columns, bool(record["is_named"]))

    def _matched(self, table: Table) -> Table:
        """The table with the codebook's names; raises where columns are missing or unknown."""
        needed = [
            name
            for column in self.columns
            if column.kind != IGNORE
            for name in _source_names(column)
        ]
        ignored = [column.name for column in self.columns if column.kind == IGNORE]
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
    """Codebook of a table, to read before a fit: column, kind, why, levels, share of missing cells,
    doubt.

    The kind of a column is detected from its values, unless ``columns`` sets it:

    ===========================================  ===================================================
    the column holds                             kind
    ===========================================  ===================================================
    numbers of a NumPy array                     continuous
    flags; two different values                  nominal
    whole numbers, none below 0                  count; on the scale of log1p if skewness is above 1
    other whole numbers                          rounded to 1
    numbers that are multiples of one step       rounded to the largest such step
    apart, at least 10 % of them shared
    other numbers; 10 % of them, and five, are    limited: censored there, as shares are at 0 and 1
    the lowest, or the highest
    other numbers                                continuous
    ordered categories, three or more            ordinal
    other categories, text                       nominal
    pandas intervals                             censored
    ===========================================  ===================================================

    Whole numbers may be stored as floats, as pandas does if cells are missing. NaN, None, NA and
    NaT are missing cells. Some columns are refused: dates, time spans, lists, columns with one
    value or none, and text with more than ten levels and more than half as many levels as users.
    The table shows them as "refused", with the reason; a fit raises an error. Ids are left out
    ("ignore"): text, and whole numbers in a row or in a column called id, user_id or the like, of
    which each of more than ten users has one of its own. ``doubt`` says where a kind may be wrong,
    and what to write then: codes such as a field of study from 1 to 18 look like counts. A fit
    warns of such columns, and of ids, until ``columns`` names their kinds.

    Parameters
    ----------
    X : table or array
        One row per user: pandas, polars, Arrow or NumPy.
    columns : dict, optional
        By name of a column, its kind ("continuous", "rounded", "count", "ordinal", "nominal",
        "limited", "ignore"), a dictionary with more ({"kind": "ordinal", "levels": [...]}, {"kind":
        "rounded", "step": 0.5}, {"kind": "count", "scale": "log1p"}, {"kind": "limited", "limits":
        [0, 1]}), or ``Censored(low, high)`` with the
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
    rows, doubts = [], []
    for name, column in choices(table, columns).items():
        if isinstance(column, InputError):
            missing = (
                float(table.frame[name].isna().mean()) if name in table.names else float("nan")
            )
            rows.append((name, "refused", str(column), "", missing))
            doubts.append("")
        else:
            doubts.append(column.doubt)
            rows.append(
                (name, column.kind, column.why, _levels_text(column.levels), column.missing)
            )
    found = pd.DataFrame(rows, columns=["column", "kind", "why", "levels", "missing"])
    return found.assign(doubt=doubts)


def doubt_text(name: str, kind: str, doubt: str) -> str:
    """A column whose kind may be wrong, in words."""
    taken = "left out" if kind == IGNORE else f"taken for a {kind}"
    return f"{name!r} is {taken}; {doubt}"


def choices(table: Table, columns: Mapping[str, Any] | None) -> dict[str, Column | InputError]:
    """The columns of the codebook by name, or what is wrong with them. Raises where ``columns``
    itself is wrong."""
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError(
            f'columns must be a dictionary such as {{"town": "nominal"}}; got {columns!r:.60}.'
        )
    wishes = {str(name): Wish.of(str(name), wish) for name, wish in (columns or {}).items()}
    found: dict[str, Column | InputError] = {}
    for name in _names(table, wishes):
        try:
            found[name] = _column(name, table, wishes.get(name))
        except InputError as error:
            found[name] = error
    return found


def _names(table: Table, wishes: Mapping[str, Wish]) -> list[str]:
    """Names of the codebook's columns: those of the table, with a censored column in the place of
    its first end."""
    censored = {name: wish.ends for name, wish in wishes.items() if wish.ends is not None}
    ends = [
        (end, name)
        for name, own in censored.items()
        for end in (own.low, own.high)
        if end is not None
    ]
    homes = dict(ends)
    absent = [
        name for name in (*homes, *wishes) if name not in table.names and name not in censored
    ]
    if absent:
        shown = ", ".join(table.names[:_SHOWN]) + (", …" if len(table.names) > _SHOWN else "")
        raise InputError(
            f"columns names {', '.join(map(repr, absent))}, which X does not have; it has {shown}."
        )
    twice = [name for name in wishes if homes.get(name, name) != name]
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


def _column(name: str, table: Table, wish: Wish | None) -> Column:
    if wish is None and not table.is_named:
        wish = Wish("continuous")
    if wish is not None and wish.kind == IGNORE:
        return Column(name, IGNORE, "left out as asked")
    if (wish is None or wish.ends is None) and table.source(name).holds == "nothing":
        raise InputError(no_value(name))
    if wish is None:
        found = _recognized(table.source(name))
    else:
        found = kind_of(wish.kind).column(name, table, wish)
    if found.sources:
        return found
    return replace(found, missing=float(table.frame[name].isna().mean()))


def _recognized(source: Source) -> Column:
    """The column by its values; raises InputError with advice where there is no use for it. Kinds
    that were registered last are asked first."""
    if (kind_of_id := _kind_if_id(source)) is not None:
        why = "a value of its own for each user, as ids have"
        use = f"columns={{{source.name!r}: {kind_of_id!r}}}"
        return Column(source.name, IGNORE, why, doubt=f"it has {why}. To use it, write {use}")
    for kind in reversed(column_kinds()):
        found = kind.recognize(source)
        if found is not None:
            return found
    advice = {
        "dates or time spans": "Turn them into numbers, such as days since the first",
        "lists or records": "Spread them over columns of one value each",
        "mixed numbers and text": "Write numbers or text throughout, or take all of it for "
        "levels: "
        f"columns={{{source.name!r}: 'nominal'}}",
    }.get(source.holds, "Turn them into numbers or text")
    raise InputError(
        f"Column {source.name!r} holds {source.holds}, which no kind of column is for. {advice}, "
        "or leave it out: "
        f"{leave_out(source.name)}."
    )


def _kind_if_id(source: Source) -> str | None:
    """What a column would be that tells users apart, as ids do, which says nothing about clusters;
    None for any other."""
    is_named = _NAMED_ID.search(source.name) is not None
    if source.is_numeric:
        values = source.known()
        in_a_row = values.max() - values.min() == len(values) - 1
        is_id = (is_named or in_a_row) and are_whole(values)
        kind = "count" if values.min() >= 0 else "rounded"
    elif source.holds == "text":
        values = source.cells.dropna().to_numpy()
        # Where most read as numbers, a column of numbers has typing errors.
        is_id = is_named or 2 * sum(map(_reads_as_number, values)) <= len(values)
        kind = "nominal"
    else:
        return None
    return kind if is_id and len(set(values)) == len(values) > _MANY else None


def _reads_as_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _source_names(column: Column) -> list[str]:
    return [name for name in column.sources if name is not None] or [column.name]


def _levels_text(levels: tuple[str, ...]) -> str:
    more = f", … ({len(levels)})" if len(levels) > _LEVELS_SHOWN else ""
    return ", ".join(levels[:_LEVELS_SHOWN]) + more
