"""Features that come as several tables of the same users, {"profile": X1, "activity": X2}, as one
table.

Its columns are called profile.age, activity.posts and so on. A layout says which belong to which
table.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from dualview.behaviors.base import Behavior
from dualview.behaviors.ids import counted
from dualview.checks import listed
from dualview.columns import Columns
from dualview.columns.layout import Layout
from dualview.columns.table import Table
from dualview.errors import InputError
from dualview.inputs.features import row_ids
from dualview.views.features import feature_kinds


def comes_as_tables(X: Any) -> bool:
    """Whether features come as several tables by name."""
    return isinstance(X, Mapping)


def joined_tables(
    X: Mapping[str, Any], wanted: Sequence[str] | None = None
) -> tuple[pd.DataFrame, dict[str, str]]:
    """One table of them all, and the kinds of columns that are known because they came as arrays:
    continuous.

    wanted: names of the tables of the fit, for new users. Rows are matched by the users' ids where
    tables have some.
    """
    _check_names(X, wanted)
    frames: dict[str, pd.DataFrame] = {}
    kinds: dict[str, str] = {}
    owners: dict[str, list[str] | None] = {}
    for name in X if wanted is None else wanted:
        frames[name], table, owners[name] = _frame(name, X[name])
        if not table.is_named:
            kinds |= dict.fromkeys(frames[name].columns, "continuous")
    ids = next((own for own in owners.values() if own is not None), None)
    if ids is not None:
        for name, frame in frames.items():
            own = owners[name] or _counted_ids(X[name], ids)
            if own is not None:
                frames[name] = _in_order(frame, own, ids, name)
    sizes = {name: len(frame) for name, frame in frames.items()}
    if len(set(sizes.values())) > 1:
        counts = ", ".join(f"{name} has {n}" for name, n in sizes.items())
        raise InputError(f"All tables of X must be of the same users, a row for each: {counts}.")
    joined = pd.concat(list(frames.values()), axis=1)
    return joined if ids is None else joined.set_axis(ids, axis=0), kinds


def _check_names(X: Mapping[str, Any], wanted: Sequence[str] | None) -> None:
    reserved = ["features", "behavior", *(kind.view for kind in feature_kinds()[1:])]
    odd = [
        name
        for name in X
        if not isinstance(name, str) or not name or "." in name or name in reserved
    ]
    if odd:
        raise InputError(
            f"Tables of X are called by texts without a dot, other than {', '.join(reserved)}; "
            f"got {odd[0]!r}. Rename it, for "
            'example {"profile": X1, "activity": X2}.'
        )
    if wanted is None:
        if not X:
            raise InputError("X has no tables. Pass X=None to cluster by behavior alone.")
        return
    missing = [name for name in wanted if name not in X]
    unknown = [name for name in X if name not in wanted]
    if missing or unknown:
        wrong = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(unknown)} besides"
        raise InputError(f"X must have the tables of the fit, {', '.join(wanted)}; it {wrong}.")


def _frame(name: str, X: Any) -> tuple[pd.DataFrame, Table, list[str] | None]:
    """A table with its columns called by the table's name too, as it came, and its users' ids."""
    if X is None or isinstance(X, Behavior | Mapping):
        raise InputError(
            f"Table {name!r} of X must be a table or an array of features; got {type(X).__name__}."
        )
    try:
        table, ids = Table.of(X), row_ids(X)
    except InputError as error:
        raise InputError(f"Table {name!r}: {error}") from error
    frame = table.frame.copy(deep=False)
    frame.columns = [f"{name}.{column}" for column in table.names]
    return frame, table, ids


def _counted_ids(X: Any, ids: list[str]) -> list[str] | None:
    """Numbers by which pandas counts rows, where they are the ids of the other tables too; None
    otherwise."""
    numbers = counted(len(X))
    return numbers if isinstance(X, pd.DataFrame) and set(numbers) == set(ids) else None


def _in_order(frame: pd.DataFrame, own: list[str], ids: list[str], name: str) -> pd.DataFrame:
    """The rows in the order of the first table's users."""
    places, wanted = {user: row for row, user in enumerate(own)}, set(ids)
    missing = [user for user in ids if user not in places]
    unknown = [user for user in own if user not in wanted]
    if missing or unknown:
        raise InputError(
            f"All tables of X must be of the same users; {name} "
            f"{'lacks' if missing else 'has besides'} {listed(missing or unknown)}. Give a user "
            "whose row is not known a row of missing cells."
        )
    return frame.iloc[[places[user] for user in ids]].reset_index(drop=True)


def layout_of(
    tables: Sequence[str], codebook: Columns, names: Sequence[str], n_dims: Sequence[int]
) -> Layout:
    """Which table every column belongs to, by its name. n_dims: of the tables' numbers in working
    units."""
    counts = {
        kind.view: _counts(tables, [column.name for column in codebook.of(kind.view)])
        for kind in feature_kinds()
        if kind.view != "features"
    }
    empty = [
        name for name, *own in zip(tables, n_dims, *counts.values(), strict=True) if not any(own)
    ]
    if empty:
        used = sorted({table_of(column.name) for column in codebook.columns} - set(empty))
        raise InputError(
            f"Table {empty[0]!r} of X has no column left that varies; {', '.join(used)} has. "
            "Leave it out."
        )
    return Layout(tuple(tables), _counts(tables, names), tuple(int(n) for n in n_dims), counts)


def _counts(tables: Sequence[str], names: Sequence[str]) -> tuple[int, ...]:
    """How many of these columns each table has."""
    return tuple(sum(table_of(name) == table for name in names) for table in tables)


def table_of(column: str) -> str:
    """The name of the table that a column belongs to."""
    return column.split(".", 1)[0]


def columns_of(tables: Sequence[str], names: Sequence[str]) -> list[slice]:
    """Where each table's columns are among columns of these names, which come table by table."""
    owners = np.array([table_of(name) for name in names], dtype=object)
    ends = np.cumsum([0, *((owners == table).sum() for table in tables)])
    return [slice(int(first), int(end)) for first, end in pairwise(ends)]
