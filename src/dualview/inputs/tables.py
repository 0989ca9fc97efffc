"""Tables of users and threads from files, with their ids.

users: a row per user, an id column and features. threads: a long table with a row per thread and
participant, or a Matrix Market file of participation; outcomes in the same table or in one of their
own, with a row per thread.
"""

import difflib
import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from dualview.behaviors import SharedOutcome
from dualview.behaviors.ids import id_text
from dualview.checks import listed
from dualview.columns.table import to_pandas
from dualview.errors import FileError, InputError, MissingExtraError
from dualview.files.matrix_market import read_matrix
from dualview.files.reading import first_lines, input_file, probe, unpacked
from dualview.files.spreadsheets import match_names
from dualview.settings import Columns

ROWS = 200_000  # of a piece
_MOST_COLUMNS = 10_000  # a draw has two matrices of columns × columns, 1.6 GB then
_ABSENT = (  # what pandas takes for nothing; in a column of ids it is a name like any other
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)


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
        """Rows in words: lines of a file; of a table in memory rows from 0."""
        first, word = (2, "line(s)") if self.is_file else (0, "row(s)")
        return f"{word} {listed([str(int(row) + first) for row in rows])}"

    def require(self, column: str, option: str, filled: bool = True) -> pd.Series:
        """A column; raises where it is not there or, unless they say something, has empty cells.
        option: what names it."""
        if column not in self.frame.columns:
            names = [str(name) for name in self.frame.columns]
            near = difflib.get_close_matches(column, names, 3) if len(names) > 1 else []
            meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise InputError(
                f"{self.path} must have a column {column!r}; it has "
                f"{', '.join(names) or 'none'}.{meant} {_advice(self.frame, option)}"
            )
        values = self.frame[column]
        missing = np.flatnonzero(values.isna() | (values == ""))
        if len(missing) and filled:
            rows = self.in_rows(values.index[missing])
            raise InputError(f"{self.path}: column {column!r} is empty in {rows}.")
        return values

    def ids(self, column: str, option: str) -> list[str]:
        """Ids of a column as text. Files of results cannot hold NUL characters, so they are refused
        before the work."""
        ids = [id_text(value) for value in self.require(column, option)]
        bad = [row for row, name in enumerate(ids) if "\0" in name]
        if bad:
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


def read_table(path: Path, ids: Sequence[str] = (), name: Path | None = None) -> pd.DataFrame:
    """A CSV, TSV or Parquet file, compressed or not; columns of ids stay as they are written, such
    as 007 and NA.

    name: what messages call it, where it is a copy of something else.
    """
    with _as_file_errors(path if name is None else name), input_file(path) as file:
        return _parquet(file) if ".parquet" in _endings(file) else _csv(file, ids)


def _endings(file: Path) -> list[str]:
    return [suffix.lower() for suffix in file.suffixes]


@contextmanager
def _as_file_errors(name: Path) -> Iterator[None]:
    """Inside, whatever goes wrong says that this file cannot be read."""
    try:
        yield
    except FileError:
        raise
    except ImportError as error:
        raise MissingExtraError(
            f"{name}: reading it needs another package ({error}): pip install 'dualview[tables]'."
        ) from error
    except MemoryError as error:
        raise FileError(f"{name} does not fit into memory.") from error
    except Exception as error:  # decompressors and parsers raise anything at a damaged file
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise FileError(f"{name} cannot be read as a table: {reason[:300]}.") from error


def pieces_of(table: Any, ids: Sequence[str], n_rows: int = ROWS) -> Iterator[Any]:
    """The pieces of a table that may be larger than memory, in order: of a CSV, TSV or Parquet
    file, of a list or another series of tables, or the one; tables come as pandas'. Columns of ids
    stay as they are written."""
    if isinstance(table, str | Path):
        with input_file(Path(table)) as file:
            rows = _parquet_pieces if ".parquet" in _endings(file) else partial(_csv_pieces, ids)
            reader = rows(file, n_rows)
            while True:
                with _as_file_errors(Path(table)):
                    piece = next(reader, None)
                if piece is None:
                    return
                yield piece
    elif isinstance(table, Iterable) and not hasattr(table, "shape"):
        for part in table:
            yield from pieces_of(part, ids, n_rows)
    else:
        yield to_pandas(table) if hasattr(table, "to_pandas") else table


def _check_names(names: Sequence[str]) -> None:
    """Columns must have names that differ, and not be very many."""
    repeated = pd.Series(names)[pd.Series(names).duplicated()].unique().tolist()
    if repeated:
        raise ValueError(f"it must name each column once; more than once: {listed(repeated)}")
    if any("\0" in name for name in names):
        raise ValueError("a NUL character is in the name of a column; rename it")
    if len(names) > _MOST_COLUMNS:
        raise ValueError(
            f"it has {len(names):,} columns, where at most {_MOST_COLUMNS:,} can be used. Give it "
            "a row per user or participant, if it is transposed; else leave columns out"
        )


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | tuple | dict | set | np.ndarray)


def _parquet(path: Path) -> pd.DataFrame:
    table = pd.read_parquet(path)
    _check_names([str(name) for name in table.columns])
    nested = [
        name
        for name, column in table.items()
        if column.dtype.kind == "O" and column.map(_is_nested).any()
    ]
    if nested:
        raise ValueError(
            f"it must hold one value in each cell, and column(s) {listed(nested)} have lists or "
            "records. Spread them over columns, or drop them"
        )
    return table


def _parquet_pieces(path: Path, n_rows: int) -> Iterator[pd.DataFrame]:
    from pyarrow import parquet  # type: ignore[import-untyped]

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=n_rows):
            yield batch.to_pandas()


def _csv_options(path: Path, ids: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The names of the columns of a CSV or TSV file, checked, those without a name as pandas calls
    them; and how pandas reads it: in columns of ids nothing stands for nothing."""
    probe(path)
    separator = "\t" if ".tsv" in _endings(path) else ","
    lines = first_lines(path)
    if not lines.strip():
        raise ValueError("it is empty, and its first line must name columns")
    begin = io.BytesIO(lines)
    first = pd.read_csv(
        begin, sep=separator, nrows=1, header=None, dtype=str, keep_default_na=False
    )
    head = first.iloc[0].tolist()
    _check_names([name for name in head if name])  # before pandas renames those that are twice
    names = [name or f"Unnamed: {place}" for place, name in enumerate(head)]
    return names, {
        "sep": separator,
        "dtype": dict.fromkeys(ids, str),
        "keep_default_na": False,
        "na_values": {name: _ABSENT for name in names if name not in ids},
    }


def _csv(path: Path, ids: Sequence[str]) -> pd.DataFrame:
    names, options = _csv_options(path, ids)
    with unpacked(path) as file:
        table = pd.read_csv(file, **options)
    if not isinstance(table.index, pd.RangeIndex):
        raise ValueError(
            f"its rows have more fields than its header, which names {len(names)} columns. "
            f"{_on_separators(names)}"
        )
    return table


def _csv_pieces(ids: Sequence[str], path: Path, n_rows: int) -> Iterator[pd.DataFrame]:
    options = _csv_options(path, ids)[1]
    with unpacked(path) as file, pd.read_csv(file, chunksize=n_rows, **options) as reader:
        yield from reader


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
    """A column as numbers, NaN where there is none; dates, time spans and complex numbers are
    none."""
    read = values if values.dtype.kind in "mM" else pd.to_numeric(values, errors="coerce")
    if read.dtype.kind in "mMc":
        return np.full(len(values), np.nan)
    return np.asarray(read.to_numpy(dtype=float, na_value=np.nan))


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
            "them there, or leave their rows out with --drop-unknown."
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
    return _on_separators(table.columns) or f"Name it with {option}."


def _on_separators(names: Sequence[Any]) -> str:
    """What to do where the one name of a header looks like several; nothing otherwise."""
    if len(names) == 1 and any(separator in str(names[0]) for separator in ";,\t"):
        return (
            "Its fields must be separated by commas, or by tabs in a file called .tsv, and its "
            "numbers written with points."
        )
    return ""


def read_users(path: Path, columns: Columns) -> Users:
    """Users and their features: every other column."""
    table = GivenTable.read(path, [columns.user])
    ids = table.ids(columns.user, "--user-column")
    if not ids:
        raise InputError(f"{path} has no users: it names columns, and has no row below them.")
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
    found = [columns.outcome] if columns.outcome in table.frame else []
    chosen = list(dict.fromkeys([*needed, *found]))
    for column in chosen:
        asked = "--outcome-column" if column == columns.outcome else "--covariates"
        table.require(column, asked)
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
