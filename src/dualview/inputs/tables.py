"""Tables with what messages call them, and those of users and threads with their ids.

users: a row per user, an id column and features. threads: a long table with a row per thread and
participant, or a Matrix Market file of participation; outcomes in the same table or in one of their
own, with a row per thread.
"""

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from dualview.behaviors.ids import id_text
from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.checks import listed
from dualview.errors import InputError
from dualview.files.matrix_market import read_matrix
from dualview.files.reading import input_file
from dualview.files.spreadsheets import match_names
from dualview.inputs.table_files import read_table, separator_advice
from dualview.settings import Columns

TO_PREDICT = " To predict, fill in all cells or leave the column out."


@dataclass(frozen=True)
class GivenTable:
    """A table with what messages call it: the path of its file or, for one in memory, a text."""

    frame: pd.DataFrame
    path: Path | str

    def __len__(self) -> int:
        return len(self.frame)

    @classmethod
    def read(cls, path: Path, ids: Sequence[str] = ()) -> Self:
        """From a file; columns of ids stay as they are written."""
        return cls(read_table(path, ids), path)

    def take(self, rows: Any) -> Self:
        """Some of the rows, by a mask."""
        return replace(self, frame=self.frame[rows])

    @property
    def is_file(self) -> bool:
        return isinstance(self.path, Path)

    def option(self, name: str) -> str:
        """An option as whoever gave the table writes it: --no-intercept of a command, no_intercept=
        of Python."""
        return f"--{name.replace('_', '-')}" if self.is_file else f"{name}="

    def in_rows(self, rows: Iterable[int]) -> str:
        """Rows in words, by their index: lines of a file; of a table in memory rows from 0."""
        first, word = (2, "line(s)") if self.is_file else (0, "row(s)")
        return f"{word} {listed([str(int(row) + first) for row in rows])}"

    def is_blank(self, column: str) -> bool:
        """Whether all cells of a column are empty."""
        return bool(is_empty(self.frame[column]).all())

    def require(self, column: str, option: str, filled: bool = True, advice: str = "") -> pd.Series:
        """A column; raises where it is not there or, unless they say something, has empty cells.
        option: what names it. advice: what to do about empty cells."""
        if column not in self.frame.columns:
            names = [str(name) for name in self.frame.columns]
            near = difflib.get_close_matches(column, names, 3) if len(names) > 1 else []
            meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise InputError(
                f"{self.path} must have a column {column!r}; it has "
                f"{', '.join(names) or 'none'}.{meant} {_advice(self.frame, option)}"
            )
        values = self.frame[column]
        missing = np.flatnonzero(is_empty(values))
        if len(missing) and filled:
            rows = self.in_rows(values.index[missing])
            raise InputError(f"{self.path}: column {column!r} is empty in {rows}.{advice}")
        return values

    def ids(self, column: str, option: str) -> list[str]:
        """Ids of a column as text. Files of results cannot hold NUL characters, so they are refused
        before the work."""
        ids = [id_text(value) for value in self.require(column, option)]
        bad = self.frame.index[["\0" in name for name in ids]]
        if len(bad):
            raise InputError(
                f"{self.path}: column {column!r} has a NUL character in {self.in_rows(bad)}. Write "
                "other ids."
            )
        return ids

    def numbers(self, column: str, what: str = "column") -> NDArray[np.float64]:
        """A column as numbers; raises where a cell holds none."""
        values = numeric(self.frame[column])
        bad = self.frame.index[~np.isfinite(values)]
        if len(bad):
            raise InputError(
                f"{self.path}: {what} {column!r} must hold numbers; it does not in "
                f"{self.in_rows(bad)}."
            )
        return values

    def numbers_or_nothing(self, column: str, wanted: str) -> NDArray[np.float64]:
        """A column as numbers, NaN where a cell is empty."""
        values = numeric(self.frame[column])
        odd = self.frame.index[np.isnan(values) & self.frame[column].notna().to_numpy()]
        if len(odd):
            raise InputError(
                f"{self.path}: {column!r} must hold {wanted} or nothing; it does not in "
                f"{self.in_rows(odd)}."
            )
        return values


@dataclass(frozen=True)
class Users:
    """Ids and features, a row per user."""

    ids: list[str]
    features: pd.DataFrame | None


@dataclass(frozen=True)
class Threads:
    """Thread ids, participation and outcomes; ``notes`` say what was left out or added up."""

    ids: list[str]
    participation: sparse.csr_array
    outcome: NDArray[np.float64] | None
    covariates: pd.DataFrame | None
    notes: list[str] = field(default_factory=list)

    def behavior(
        self,
        intercept: bool,
        users: Sequence[str] | None = None,
        noise_variance: float | str | None = None,
    ) -> SharedOutcome:
        """The threads as a behavior of users with these ids."""
        options: dict[str, Any] = {"users": users, "noise_variance": noise_variance}
        behavior = SharedOutcome(
            self.participation, self.outcome, self.covariates, intercept, **options
        )
        behavior.observation_ids = list(self.ids)
        return behavior


def match_users(ids: pd.Series, known: Collection[str], notes: list[str]) -> pd.Series:
    """Ids of known users, where a table or the other has them from a file of ours that escapes them
    for spreadsheets."""
    if ids.isin(known).all():
        return ids
    matched = pd.Series(match_names(ids, known), index=ids.index)
    changed = ids[matched != ids].unique().tolist()
    if changed:
        notes.append(
            f"{len(changed)} user(s) were found without or with the apostrophe of CSV files "
            f"({listed(changed)})"
        )
    return matched


def numeric(values: pd.Series) -> NDArray[np.float64]:
    """A column as numbers, NaN where there is none; dates, time spans, periods and complex numbers
    are none."""
    if isinstance(values.dtype, pd.PeriodDtype | pd.ArrowDtype):  # months since 1970; decimals
        values = values.astype(object)
    read = values if values.dtype.kind in "mM" else pd.to_numeric(values, errors="coerce")
    if read.dtype.kind in "mMc":
        return np.full(len(values), np.nan)
    return np.asarray(read.to_numpy(dtype=float, na_value=np.nan))


def is_empty(values: pd.Series) -> pd.Series:
    """Whether cells hold nothing, or text without a character; cells may hold arrays."""
    if values.dtype.kind in "biufcmM":
        return values.isna()
    is_empty_text = values.map(lambda value: isinstance(value, str) and not value)
    return values.isna() | is_empty_text.astype(bool)


def known_rows(
    ids: pd.Series, users: Collection[str], path: Path | str, drop_unknown: bool, notes: list[str]
) -> pd.Series:
    """Which rows are of known users; raises where some are not, unless they may be left out, which
    a note then says."""
    known = ids.isin(users)
    unknown = sorted(ids[~known].unique())
    if unknown and not drop_unknown:
        raise InputError(
            f"{path}: {len(unknown)} user(s) are not in the table of users: {listed(unknown)}. Add "
            "them there (to predict, in a table for --users), or leave their rows out with "
            "--drop-unknown."
        )
    if unknown:
        n_rows = int((~known).sum())
        notes.append(f"{n_rows} rows of {len(unknown)} unknown users left out ({listed(unknown)})")
    return known


def refuse_repeated(ids: Sequence[str], path: Path, what: str, hint: str = "") -> None:
    repeated = pd.Series(ids)[pd.Series(ids).duplicated()].unique().tolist()
    if repeated:
        raise InputError(
            f"{path}: {what} must be listed once; listed more than once: {listed(repeated)}.{hint}"
        )


def _advice(table: pd.DataFrame, option: str) -> str:
    """What to do about a column that is not there."""
    return separator_advice(table.columns) or f"Name it with {option}."


def require_users(table: GivenTable) -> None:
    """Raise where a table of users has no rows."""
    if not len(table):
        raise InputError(f"{table.path} has no users: it names columns, and has no row below them.")


def read_users(path: Path, columns: Columns) -> Users:
    """Users and their features: every other column."""
    table = GivenTable.read(path, [columns.user])
    ids = table.ids(columns.user, "--user-column")
    require_users(table)
    swapped = " It looks like the table of threads: users come first."
    refuse_repeated(ids, path, "users", swapped if columns.thread in table.frame else "")
    features = table.frame.drop(columns=columns.user)
    return Users(ids, features if features.shape[1] else None)


def read_threads(
    path: Path,
    users: Sequence[str],
    columns: Columns,
    *,
    outcomes: Path | None = None,
    covariates: Sequence[str] = (),
    drop_unknown: bool = False,
    need_outcome: bool = True,
) -> Threads:
    """Threads of known users. Ids decide who is who, not positions."""
    id_columns = [columns.user, columns.thread]
    if columns.outcome in covariates:
        raise InputError(
            f"--covariates has the outcome, {columns.outcome!r}, which would be predicted from "
            "itself. Leave it out."
        )
    needed = [*covariates, *([columns.outcome] if need_outcome else [])]
    separate = None
    if outcomes is not None:
        separate = _per_thread(GivenTable.read(outcomes, id_columns), columns, needed)
    with input_file(path) as file:
        is_matrix = any(suffix == ".mtx" for suffix in file.suffixes)
        matrix = read_matrix(file, str(path)) if is_matrix else None
        frame = pd.DataFrame() if is_matrix else read_table(file, id_columns, path)
    if matrix is not None:
        ids, matrix, notes = _matrix_market(matrix, path, users)
        if separate is None and needed:
            raise InputError(
                f"{path} only says who took part: give --outcomes a table with a row per thread, "
                f"in the same order, and columns {', '.join([columns.thread, *needed])}."
            )
        if separate is not None and len(separate) != len(ids):
            raise InputError(
                f"{outcomes} must have a row per row of {path}, {len(ids)}; it has {len(separate)}."
            )
        ids = ids if separate is None else list(separate.index)
        per_thread = pd.DataFrame(index=ids) if separate is None else separate
    else:
        table = GivenTable(frame, path)
        ids, matrix, notes = _long(table, users, columns, drop_unknown)
        per_thread = _per_thread(table, columns, needed) if separate is None else separate
        if separate is not None:
            separate.index = pd.Index(match_names(separate.index, set(ids)), name=columns.thread)
            notes += _unmatched(ids, separate)
    if not ids:
        known = "; nobody in it is in the table of users" if drop_unknown else ""
        raise InputError(f"{path} has no threads{known}. Give it a row per thread and participant.")
    outcome = None
    if columns.outcome in per_thread:
        outcome = _outcome(per_thread, ids, columns, outcomes or path)
    chosen = per_thread.loc[ids, list(covariates)].reset_index(drop=True) if covariates else None
    silent = int((np.asarray(abs(matrix).sum(axis=0)).ravel() == 0).sum())
    if silent and need_outcome:
        notes.append(
            f"{silent} of {len(users)} users take part in no thread; they are kept and known by "
            "their features only"
        )
    return Threads(ids, matrix, outcome, chosen, notes)


def _matrix_market(
    matrix: sparse.coo_array, path: Path, users: Sequence[str]
) -> tuple[list[str], sparse.csr_array, list[str]]:
    if matrix.shape[1] != len(users):
        hint = " It looks transposed." if matrix.shape[0] == len(users) else ""
        raise InputError(
            f"{path} must have a column per user, {len(users)}; it is {matrix.shape[0]} by "
            f"{matrix.shape[1]}.{hint}"
        )
    return [str(row) for row in range(matrix.shape[0])], sparse.csr_array(matrix), []


def _long(
    table: GivenTable, users: Sequence[str], columns: Columns, drop_unknown: bool
) -> tuple[list[str], sparse.csr_array, list[str]]:
    """The participation matrix of a long table, threads in order of appearance."""
    notes: list[str] = []
    place = {user: u for u, user in enumerate(users)}
    thread_ids = pd.Series(table.ids(columns.thread, "--thread-column"))
    user_ids = match_users(pd.Series(table.ids(columns.user, "--user-column")), place, notes)
    known = known_rows(user_ids, place, table.path, drop_unknown, notes)
    has_weights = columns.weight in table.frame
    weights = table.numbers(columns.weight) if has_weights else np.ones(len(table))
    ids = thread_ids.drop_duplicates().tolist()
    row_of = {thread: t for t, thread in enumerate(ids)}
    rows = thread_ids[known].map(row_of).to_numpy(dtype=np.int64)
    cells = user_ids[known].map(place).to_numpy(dtype=np.int64)
    repeated = int(pd.Series(list(zip(rows, cells, strict=True))).duplicated().sum())
    if repeated:
        notes.append(
            f"{repeated} repeated rows of the same thread and user: their weights were added up"
        )
    shape = (len(ids), len(users))
    matrix = sparse.csr_array((weights[known.to_numpy()], (rows, cells)), shape=shape)
    empty = np.diff(matrix.indptr) == 0
    if empty.any():
        notes.append(
            f"{int(empty.sum())} threads without a known user left out "
            f"({listed([ids[t] for t in np.flatnonzero(empty)])})"
        )
        kept = np.flatnonzero(~empty)
        ids, matrix = [ids[t] for t in kept], matrix[kept]
    return ids, matrix, notes


def _per_thread(table: GivenTable, columns: Columns, needed: Sequence[str]) -> pd.DataFrame:
    """What is needed, and the outcome where there is one, by thread; different values in the rows
    of a thread are an error."""
    threads = table.ids(columns.thread, "--thread-column")
    outcome = columns.outcome
    found = [outcome] if outcome in table.frame and not table.is_blank(outcome) else []
    chosen = list(dict.fromkeys([*needed, *found]))
    for column in chosen:
        asked = "--outcome-column" if column == outcome else "--covariates"
        table.require(column, asked, advice="" if column in needed else TO_PREDICT)
    narrow = table.frame[chosen].set_axis(pd.Index(threads, name=columns.thread))
    for column in chosen:
        values = narrow.groupby(level=0, sort=False)[column].nunique()
        bad = values.index[values > 1].tolist()
        if bad:
            raise InputError(
                f"{table.path}: {column!r} must be the same in all rows of a thread; it is not in "
                f"{listed(bad)}."
            )
    return narrow[~narrow.index.duplicated()]


def _unmatched(ids: list[str], per_thread: pd.DataFrame) -> list[str]:
    """Notes on threads that nobody known took part in; threads without an outcome are an error."""
    with_users, with_outcome = set(ids), set(per_thread.index)
    missing = [thread for thread in ids if thread not in with_outcome]
    if missing:
        raise InputError(
            f"{len(missing)} thread(s) have participants but no outcome: {listed(missing)}."
        )
    without_users = [thread for thread in per_thread.index if thread not in with_users]
    left_out = f"{len(without_users)} threads without a known user left out"
    return [f"{left_out} ({listed(without_users)})"] if without_users else []


def _outcome(
    per_thread: pd.DataFrame, ids: list[str], columns: Columns, path: Path
) -> NDArray[np.float64]:
    values = numeric(per_thread.loc[ids, columns.outcome])
    bad = [thread for thread, value in zip(ids, values, strict=True) if not np.isfinite(value)]
    if bad:
        raise InputError(
            f"{path}: the outcome must be a number; it is not in thread(s) {listed(bad)}."
        )
    return values
