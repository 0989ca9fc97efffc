"""Tables of users and threads written as shards, in one pass and with bounded memory.

Besides one piece of a table and one shard, memory holds 24 bytes for each user, by which rows of
threads find their users, and 8 bytes for each thread, by which one that comes twice is noticed.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from dualview.behaviors.ids import Rows, id_text
from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.checks import check_range, column_names, listed, numbers, whole_number
from dualview.errors import InputError
from dualview.inputs.features import counts_from, row_ids
from dualview.inputs.table_files import pieces_of
from dualview.inputs.tables import numeric
from dualview.settings import Columns
from dualview.shards import Shards
from dualview.shards.writing import ShardWriter

Array = NDArray[np.float64]
Hashes = NDArray[np.uint64]

USERS_PER_SHARD, THREADS_PER_SHARD = 131_072, 262_144
_KEYS = "0123456789abcdef", "fedcba9876543210"  # of two hashes, 128 bits together


def write_shards(
    folder: str | os.PathLike[str],
    users: Any,
    threads: Any = None,
    *,
    names: Columns = Columns(),
    users_per_shard: int = USERS_PER_SHARD,
    threads_per_shard: int = THREADS_PER_SHARD,
    drop_unknown: bool = False,
) -> Shards:
    """Write users and threads as a folder of shards, for fits to data that are larger than memory.

    Tables are read once, in pieces. The folder appears when it is complete.

    Parameters
    ----------
    folder : path
        Folder to write. It must not exist, or be empty.
    users : array (U, D), table, path, or a series of these
        Features of the users, all of them numbers and none missing. Tables are of pandas, polars or
        Arrow. Ids are in the column ``user``, or in the index of a pandas table. A path is a CSV,
        TSV or Parquet file. A series (a list, a generator) has one piece of the table after the
        other.
    threads : SharedOutcome, table, path, or a series of these, optional
        Who took part in which thread. Tables have a row for each thread and participant: thread,
        user, outcome, and if there is one, weight. The rows of a thread follow each other. A
        ``SharedOutcome`` may have neither covariates nor groups.
    names : Columns
        What the columns of the tables are called.
    users_per_shard, threads_per_shard : int
        Size of a shard. Each process of a fit needs room for a few of them.
    drop_unknown : bool
        Leave out rows of users who are not in the table of users; by default they are an error.

    Returns
    -------
    Shards

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import dualview as dv
    >>> users = pd.DataFrame({"user": ["ann", "bob", "cem"], "age": [31.0, 44.0, 28.0]})
    >>> threads = pd.DataFrame(
    ...     {"thread": [1, 1, 2], "user": ["ann", "cem", "bob"], "outcome": [3.0, 3.0, 5.0]}
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dv.write_shards(f"{folder}/small", users, threads)
    Shards(3 users in 1 shard, 2 threads in 1 shard, 1 feature)
    """
    return shard_tables(
        Path(folder), users, threads, names, (users_per_shard, threads_per_shard), drop_unknown
    )[0]


def shard_tables(
    folder: Path,
    users: Any,
    threads: Any,
    names: Columns,
    sizes: tuple[int, int],
    drop_unknown: bool,
) -> tuple[Shards, list[str]]:
    """The shards, and notes on what was left out."""
    for what, given in (("users", users), ("threads", threads)):
        if isinstance(given, Mapping):
            raise InputError(
                f"{what} is a dict of {listed(list(map(str, given)))}. Shards hold one table of "
                "users and one behavior: join tables into one, or fit several in memory."
            )
    each = (
        whole_number(sizes[0], "users_per_shard", 1),
        whole_number(sizes[1], "threads_per_shard", 1),
    )
    parts = _pieces_of_users(users, names)
    first = next(parts, None)
    if first is None:
        raise InputError("users must have a row per user; the table is empty.")
    with ShardWriter(folder, first.feature_names, first.ids is not None, *each) as writer:
        places = _Places()
        places.add(first, writer)
        for part in parts:
            first.check_alike(part)
            places.add(part, writer)
        notes = (
            [] if threads is None else _Threads(writer, places, names, drop_unknown).write(threads)
        )
    return Shards(folder), notes


@dataclass(frozen=True)
class _Users:
    """A piece of the users: features (n, D) by name, and ids."""

    feature_names: list[str]
    features: Array
    ids: NDArray[np.str_] | None

    def check_alike(self, other: "_Users") -> None:
        if other.feature_names != self.feature_names:
            raise InputError(
                "All pieces of users must have the columns of the first, "
                f"{', '.join(self.feature_names)}; one has {', '.join(other.feature_names)}."
            )
        if (other.ids is None) != (self.ids is None):
            raise InputError(
                "Either all pieces of users have ids or none has: some do, and some do not."
            )


def _pieces_of_users(users: Any, names: Columns) -> Iterator[_Users]:
    n = 0
    for piece in pieces_of(users, [names.user]):
        found = _users_of(piece, names, n)
        n += len(found.features)
        yield found


def _users_of(piece: Any, names: Columns, n_before: int) -> _Users:
    ids = None
    if isinstance(piece, pd.DataFrame):
        if names.user in piece.columns:
            ids = _full(piece, names.user, "users")
            piece = piece.drop(columns=names.user)
        else:
            ids = None if counts_from(piece, n_before) else row_ids(piece)
    found = column_names(piece)
    features = numbers(piece, "users", n_dims=2)
    if features.shape[1] == 0:
        raise InputError("users must have columns with features; there are none besides the ids.")
    feature_names = found or [f"x{j}" for j in range(features.shape[1])]
    check_range(np.abs(features).max(axis=0), "users", feature_names)
    return _Users(feature_names, features, None if ids is None else np.array(ids, dtype=np.str_))


def _full(piece: pd.DataFrame, column: str, what: str) -> list[str]:
    """Ids of a column as text; an error where cells are empty."""
    n_empty = int((piece[column].isna() | (piece[column] == "")).sum())
    if n_empty:
        raise InputError(f"{what}: column {column!r} is empty in {n_empty} row(s).")
    return [id_text(value) for value in piece[column]]


@dataclass
class _Places:
    """Where users are among all, by 128 bits of their ids."""

    _parts: list[tuple[Hashes, Hashes]] = field(default_factory=list)
    _sorted: tuple[Hashes, Hashes, NDArray[np.int64]] | None = None

    def add(self, users: _Users, writer: ShardWriter) -> None:
        if users.ids is not None:
            self._parts.append(_hashed(users.ids))
        writer.add_users(users.features, users.ids)

    @property
    def has_ids(self) -> bool:
        return len(self._parts) > 0

    def _table(self) -> tuple[Hashes, Hashes, NDArray[np.int64]]:
        if self._sorted is None:
            one, other = (np.concatenate([part[i] for part in self._parts]) for i in (0, 1))
            self._parts = self._parts[:1]
            order = np.lexsort((other, one))
            one, other = one[order], other[order]
            same = np.flatnonzero((one[1:] == one[:-1]) & (other[1:] == other[:-1]))
            if len(same):
                rows = sorted(int(row) for row in order[[same[0], same[0] + 1]])
                raise InputError(
                    f"users must be listed once; {len(same)} id(s) come again, the first in rows "
                    f"{rows[0]} and {rows[1]} (counting from 0)."
                )
            self._sorted = one, other, order.astype(np.int64)
        return self._sorted

    def check(self) -> None:
        """Raise where an id comes twice."""
        if self.has_ids:
            self._table()

    def find(self, ids: Any) -> NDArray[np.int64]:
        """Positions of users; −1 for those who are none."""
        one, other, order = self._table()
        wanted = _hashed(np.asarray(ids))
        first = np.searchsorted(one, wanted[0])
        places = np.full(len(first), -1)
        # Two may share 64 bits.
        for place in (np.minimum(first, len(one) - 1), np.minimum(first + 1, len(one) - 1)):
            found = (one[place] == wanted[0]) & (other[place] == wanted[1])
            places[found] = order[place[found]]
        return places


def _hashed(ids: NDArray[Any]) -> tuple[Hashes, Hashes]:
    values = ids.astype(object)
    first, second = (pd.util.hash_array(values, hash_key=key) for key in _KEYS)
    return first, second


@dataclass
class _Threads:
    """Writes the threads of tables and behaviors."""

    writer: ShardWriter
    places: _Places
    names: Columns
    drop_unknown: bool
    _seen: list[Hashes] = field(default_factory=list)
    _n_unknown: int = 0
    _n_empty: int = 0

    def write(self, threads: Any) -> list[str]:
        self.places.check()
        rest: pd.DataFrame | None = None
        for piece in pieces_of(threads, [self.names.user, self.names.thread]):
            if isinstance(piece, SharedOutcome):
                self._behavior(piece)
            else:
                rest = self._table(self._checked(piece), rest)
        if rest is not None and len(rest):
            self._long(rest)
        self._check_repeats()
        if not self.writer.n_threads:
            raise InputError(
                "threads has no thread with a known user. Give it a row per thread and participant."
            )
        if self.writer.n_threads < 2:
            raise InputError(f"A fit needs at least two threads; got {self.writer.n_threads}.")
        notes = [f"{self._n_unknown:,} rows of unknown users left out"] if self._n_unknown else []
        return notes + (
            [f"{self._n_empty:,} threads without a known user left out"] if self._n_empty else []
        )

    def _behavior(self, behavior: SharedOutcome) -> None:
        if behavior.coefficient_names or not behavior.effects.none:
            raise InputError(
                "Shards hold participation and outcomes; this SharedOutcome has an intercept, "
                "covariates or groups as well. Leave them out, or fit in memory."
            )
        ids = behavior.ids if behavior.has_ids and self.places.has_ids else None
        behavior = behavior if ids is not None else behavior.matched(Rows(self.writer.n_users))
        matrix = sparse.csr_array(behavior.participation)
        if ids is not None:
            places = self.places.find(np.array(ids, dtype=np.str_))
            self._check_known(places, ids)
            entries = sparse.coo_array(matrix)
            kept = places[entries.col] >= 0
            self._n_unknown += int((~kept).sum())
            shape = (matrix.shape[0], self.writer.n_users)
            placed = (entries.data[kept], (entries.row[kept], places[entries.col[kept]]))
            matrix = sparse.csr_array(placed, shape=shape)
        elif matrix.shape[1] != self.writer.n_users:
            raise InputError(
                f"participation must have a column for each of the {self.writer.n_users} users; "
                f"it has {matrix.shape[1]}."
            )
        self._add(matrix, behavior.observed)

    def _checked(self, piece: Any) -> pd.DataFrame:
        names = self.names
        if not isinstance(piece, pd.DataFrame):
            raise InputError(
                "threads must be a SharedOutcome, a table, a path or a series of these; got "
                f"{type(piece).__name__}."
            )
        missing = [
            name for name in (names.thread, names.user, names.outcome) if name not in piece.columns
        ]
        if missing:
            found = ", ".join(map(str, piece.columns))
            raise InputError(
                f"threads must have the columns {', '.join(missing)}; it has {found}. Say what "
                "they are called."
            )
        if not self.places.has_ids:
            raise InputError(
                "threads names users by ids, and users have none: give users a column "
                f"{names.user!r}."
            )
        table = pd.DataFrame({"outcome": numeric(piece[names.outcome])})
        table["thread"] = _full(piece, names.thread, "threads")
        users = _full(piece, names.user, "threads")
        table["user"] = self.places.find(np.array(users, dtype=np.str_))
        self._check_known(table["user"].to_numpy(), users)
        table["weight"] = numeric(piece[names.weight]) if names.weight in piece.columns else 1.0
        for name in ("outcome", "weight"):
            bad = ~np.isfinite(table[name].to_numpy())
            if bad.any():
                threads = listed(list(dict.fromkeys(table["thread"][bad])))
                raise InputError(
                    f"threads: {getattr(names, name)!r} must be a number; it is not in thread(s) "
                    f"{threads}."
                )
        return table

    def _check_known(self, places: NDArray[np.int64], ids: list[str]) -> None:
        if self.drop_unknown or (places >= 0).all():
            return
        unknown = listed(list(dict.fromkeys(ids[i] for i in np.flatnonzero(places < 0))))
        raise InputError(
            f"threads has users who are not in the table of users: {unknown}. Add them there, or "
            "leave their rows out with drop_unknown."
        )

    def _table(self, table: pd.DataFrame, rest: pd.DataFrame | None) -> pd.DataFrame:
        """Writes all threads but the last, which may continue in the next piece and is returned."""
        if rest is not None:
            table = pd.concat([rest, table], ignore_index=True)
        if not len(table):
            return table
        last = table["thread"].to_numpy() == table["thread"].iloc[-1]
        begin = len(last) - int(np.argmin(last[::-1])) if not last.all() else 0
        if begin:
            self._long(table.iloc[:begin])
        return table.iloc[begin:].reset_index(drop=True)

    def _long(self, table: pd.DataFrame) -> None:
        """Writes whole threads, whose rows follow each other."""
        ids, outcome = table["thread"].to_numpy(), table["outcome"].to_numpy()
        begins = np.concatenate([[True], ids[1:] != ids[:-1]])
        rows, first = np.cumsum(begins) - 1, np.flatnonzero(begins)
        differs = outcome != outcome[first][rows]
        if differs.any():
            where = listed(list(dict.fromkeys(ids[differs])))
            raise InputError(
                f"threads: {self.names.outcome!r} must be the same in all rows of a thread; not "
                f"so in {where}."
            )
        self._seen.append(pd.util.hash_array(ids[first].astype(object), hash_key=_KEYS[0]))
        users, weights = table["user"].to_numpy(), table["weight"].to_numpy()
        known = users >= 0
        self._n_unknown += int((~known).sum())
        shape = (len(first), self.writer.n_users)
        self._add(
            sparse.csr_array((weights[known], (rows[known], users[known])), shape=shape),
            outcome[first],
        )

    def _add(self, matrix: Any, outcome: Array) -> None:
        matrix.sum_duplicates()
        counts = np.diff(matrix.indptr).astype(np.int64)
        kept = counts > 0
        self._n_empty += int((~kept).sum())
        check_range(float(np.abs(outcome).max(initial=0.0)), "outcome")
        check_range(float(np.abs(matrix.data).max(initial=0.0)), "weight")
        self.writer.add_threads(
            counts[kept],
            matrix.indices.astype(np.int64),
            np.asarray(matrix.data, float),
            outcome[kept],
        )

    def _check_repeats(self) -> None:
        hashes = np.concatenate(self._seen) if self._seen else np.empty(0, dtype=np.uint64)
        n_again = len(hashes) - len(np.unique(hashes))
        if n_again:
            raise InputError(
                f"The rows of a thread must follow each other; {n_again} thread(s) come again "
                f"after others. Sort the table by its column {self.names.thread!r}."
            )
