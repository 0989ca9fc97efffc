"""Writes a folder of shards in one pass: users first, then threads, in pieces of any size.

Memory holds one shard and what is waiting for the next. Files are written into a folder of another
name beside the place, which is renamed at the end: there is a whole folder or none.
"""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dualview.errors import FileError, InputError
from dualview.files.writing import check_folder_place, make_folder
from dualview.shards.blocks import ThreadBlock, UserBlock, to_bytes
from dualview.shards.folder import MANIFEST, Manifest, ThreadEntry, UserEntry

Array = NDArray[np.float64]

_MOST_USERS = 2**32  # positions of users are 32-bit numbers


class ShardWriter:
    """Takes users, then threads, and writes a shard whenever there is enough for one. A context:
    leaving it makes the folder.

    An error inside the context leaves nothing behind.
    """

    def __init__(
        self,
        folder: Path,
        feature_names: list[str],
        has_ids: bool,
        users_each: int,
        threads_each: int,
    ) -> None:
        check_folder_place(folder)
        # A link stays, and its target becomes the folder.
        self.folder = Path(os.path.realpath(folder))
        self.feature_names = tuple(feature_names)
        self.has_ids = has_ids
        self.users_each, self.threads_each = users_each, threads_each
        self.n_users = self.n_threads = 0
        self._users = _Waiting()
        self._threads = _Waiting()
        self._written_users: list[UserEntry] = []
        self._written_threads: list[ThreadEntry] = []
        self._part = self.folder.parent / f".{self.folder.name}.{secrets.token_hex(4)}.part"

    def __enter__(self) -> Self:
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise FileError(
                f"{self.folder} exists already. Name another folder, or delete this one."
            )
        make_folder(self._part)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            shutil.rmtree(self._part, ignore_errors=True)

    def add_users(self, features: Array, ids: NDArray[np.str_] | None) -> None:
        """More users, behind those before: features (n, D) and, where users have ids, those."""
        if self.n_users + len(features) >= _MOST_USERS:
            raise InputError(f"A folder of shards has fewer than {_MOST_USERS:,} users.")
        parts = {"features": np.ascontiguousarray(features)}
        self._users.add(len(features), parts if ids is None else parts | {"ids": ids})
        self.n_users += len(features)
        while self._users.n >= self.users_each:
            self._write_users(self.users_each)

    def add_threads(
        self, counts: NDArray[np.int64], columns: NDArray[np.int64], weights: Array, outcome: Array
    ) -> None:
        """More threads: participants of each (n,), then of all of them in order their positions and
        weights; outcomes (n,)."""
        if self._users.n:
            self._write_users(self._users.n)
        ends = np.cumsum(counts)
        # So that one piece is no more than a shard.
        for first in range(0, len(counts), self.threads_each):
            rows = slice(first, first + self.threads_each)
            begin, end = (int(ends[first - 1]) if first else 0), int(ends[rows][-1])
            own = {"counts": counts[rows], "outcome": outcome[rows]}
            self._threads.add(
                len(counts[rows]),
                own,
                {"columns": columns[begin:end], "weights": weights[begin:end]},
            )
            self.n_threads += len(counts[rows])
            while self._threads.n >= self.threads_each:
                self._write_threads(self.threads_each)

    def _write_users(self, n: int) -> None:
        parts = self._users.take(n)
        file = f"users-{len(self._written_users):05d}.npz"
        size = self._write(file, to_bytes(UserBlock(parts["features"], parts.get("ids"))))
        first = self._written_users[-1].stop if self._written_users else 0
        self._written_users.append(UserEntry(file, first, n, size))

    def _write_threads(self, n: int) -> None:
        parts = self._threads.take(n, "counts")
        members, columns = np.unique(parts["columns"], return_inverse=True)
        starts = np.concatenate([[0], np.cumsum(parts["counts"])]).astype(np.int64)
        block = ThreadBlock(starts, columns.astype(np.uint32), parts["weights"], parts["outcome"])
        file = f"threads-{len(self._written_threads):05d}.npz"
        first = self._written_threads[-1].stop if self._written_threads else 0
        entry = ThreadEntry(
            file, first, n, len(members), len(columns), self._write(file, to_bytes(block))
        )
        with _named(self._part / entry.members_file):
            np.save(self._part / entry.members_file, members.astype(np.uint32), allow_pickle=False)
        self._written_threads.append(entry)

    def _write(self, file: str, content: bytes) -> int:
        with _named(self._part / file):
            (self._part / file).write_bytes(content)
        return len(content)

    def _finish(self) -> None:
        """What is waiting, the manifest, and the folder's name."""
        if self._users.n:
            self._write_users(self._users.n)
        if self._threads.n:
            self._write_threads(self._threads.n)
        if self.n_users < 2:
            raise InputError(f"A mixture needs at least two users; got {self.n_users}.")
        users, threads = tuple(self._written_users), tuple(self._written_threads)
        manifest = Manifest(self.feature_names, self.has_ids, users, threads)
        self._write(MANIFEST, manifest.to_json().encode())
        with _named(self.folder):
            if self.folder.exists():
                self.folder.rmdir()  # it is empty
            os.replace(self._part, self.folder)


class _Waiting:
    """Rows that wait to be written: arrays of n rows by name, and arrays of entries, some to each
    row."""

    def __init__(self) -> None:
        self.n = 0
        self._rows: dict[str, list[Any]] = {}
        self._entries: dict[str, list[Any]] = {}

    def add(self, n: int, rows: dict[str, Any], entries: dict[str, Any] | None = None) -> None:
        self.n += n
        for kept, more in ((self._rows, rows), (self._entries, entries or {})):
            for name, values in more.items():
                kept.setdefault(name, []).append(values)

    def take(self, n: int, counts: str | None = None) -> dict[str, Any]:
        """The first n rows; counts: the name of the array that says how many entries each row
        has."""
        rows = {name: np.concatenate(parts) for name, parts in self._rows.items()}
        n_entries = 0 if counts is None else int(rows[counts][:n].sum())
        entries = {name: np.concatenate(parts) for name, parts in self._entries.items()}
        self._rows = {name: [values[n:].copy()] for name, values in rows.items()}
        self._entries = {name: [values[n_entries:].copy()] for name, values in entries.items()}
        self.n -= n
        taken = {name: values[:n] for name, values in rows.items()}
        return taken | {name: values[:n_entries] for name, values in entries.items()}


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of the system name the file."""
    try:
        yield
    except OSError as error:
        raise FileError(
            f"{path} could not be written: {error.strerror or error}. Nothing was left behind."
        ) from error
