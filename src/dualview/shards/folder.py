"""A folder of shards: its manifest, and its blocks one at a time.

``shards.json`` says how many users and threads there are, and which file holds which of them. A
file of users is ``users-00000.npz``; one of threads is ``threads-00000.npz``, and
``threads-00000.users.npy`` lists who takes part in them.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.checks import file_path, positive_number
from dualview.errors import FileError, InputError
from dualview.shards.blocks import ThreadBlock, UserBlock, read_members, read_threads, read_users

MANIFEST = "shards.json"
FORMAT, VERSION = "dualview shards", 1


class UserEntry(NamedTuple):
    """A file of users: where they begin among all users, how many they are, and the bytes of the
    file."""

    file: str
    first: int
    n_users: int
    n_bytes: int

    @property
    def stop(self) -> int:
        return self.first + self.n_users

    @property
    def users(self) -> slice:
        """Where they are among all users."""
        return slice(self.first, self.stop)


class ThreadEntry(NamedTuple):
    """A file of threads: where they begin among all, how many they are, their users, entries, and
    the bytes of the file."""

    file: str
    first: int
    n_threads: int
    n_users: int
    n_entries: int
    n_bytes: int

    @property
    def stop(self) -> int:
        return self.first + self.n_threads

    @property
    def members_file(self) -> str:
        """The file that lists their users."""
        return f"{Path(self.file).stem}.users.npy"


class Manifest(NamedTuple):
    """What a folder holds, its files in the order of their users and threads."""

    feature_names: tuple[str, ...]
    has_ids: bool
    users: tuple[UserEntry, ...]
    threads: tuple[ThreadEntry, ...]

    @property
    def n_users(self) -> int:
        return sum(entry.n_users for entry in self.users)

    @property
    def n_threads(self) -> int:
        return sum(entry.n_threads for entry in self.threads)

    def to_json(self) -> str:
        content = {
            "format": FORMAT,
            "version": VERSION,
            "n_users": self.n_users,
            "n_threads": self.n_threads,
            "features": list(self.feature_names),
            "has_ids": self.has_ids,
            "users": [entry._asdict() for entry in self.users],
            "threads": [entry._asdict() for entry in self.threads],
        }
        return json.dumps(content, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """Raises ValueError, KeyError or TypeError where it is none."""
        content = json.loads(text)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f'it does not say "format": "{FORMAT}"')
        if content.get("version") != VERSION:
            raise ValueError(
                f"it has version {content.get('version')!r}, and this dualview reads version "
                f"{VERSION}"
            )
        users = _entries(UserEntry, content["users"])
        threads = _entries(ThreadEntry, content["threads"])
        names = content["features"]
        if not (isinstance(names, list) and names and all(isinstance(name, str) for name in names)):
            raise ValueError("features must be a list of names")
        found = cls(tuple(names), bool(content["has_ids"]), users, threads)
        _check_order(users, "users", int(content["n_users"]))
        _check_order(threads, "threads", int(content["n_threads"]))
        return found


def _entries(kind: Any, rows: Any) -> tuple[Any, ...]:
    """Files in the order of what they hold, however the manifest lists them."""
    entries = []
    for row in rows:
        if not isinstance(row, Mapping) or set(row) != set(kind._fields):
            raise ValueError(f"each file must have {', '.join(kind._fields)}")
        if Path(row["file"]).name != row["file"] or not row["file"].endswith(".npz"):
            raise ValueError(f"{row['file']!r} is no name of a shard")
        numbers = [value for name, value in row.items() if name != "file"]
        if not all(
            isinstance(value, int) and not isinstance(value, bool) and value >= 0
            for value in numbers
        ):
            raise ValueError(f"{row['file']} must have whole numbers")
        entries.append(kind(**row))
    return tuple(sorted(entries, key=lambda entry: entry.first))


def _check_order(entries: tuple[Any, ...], what: str, total: int) -> None:
    position = 0
    for entry in entries:
        if entry.first != position:
            raise ValueError(
                f"{entry.file} begins at {entry.first} of the {what}, where {position} was due"
            )
        position = entry.stop
    if position != total:
        raise ValueError(f"its files have {position} {what}, where {total} were due")


class Shards:
    """Data of a fit in a folder of shards, which need not fit into memory together.

    ``write_shards`` and ``dualview shard`` write such folders.
    ``DualViewMixture(engine="variational").fit(Shards(folder))`` fits them.

    Parameters
    ----------
    folder : path
        The folder. All workers of a fit must see it under this path.
    cache : float, optional
        Bytes of shards that each process of a fit keeps in memory; those beyond are read again when
        they are needed. By default a quarter of the memory that the process may use.

    Examples
    --------
    >>> import tempfile
    >>> import dualview as dv
    >>> forum = dv.datasets.agreement(n_users=40, n_threads=60, seed=0)
    >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shards = dv.write_shards(f"{folder}/all", forum.features, behavior, users_per_shard=20)
    ...     shards, len(shards.users)
    (Shards(40 users in 2 shards, 60 threads in 1 shard, 2 features), 2)
    """

    def __init__(self, folder: str | os.PathLike[str], *, cache: float | None = None) -> None:
        self.folder = file_path(folder, "folder").absolute()
        self.cache = None if cache is None else positive_number(cache, "cache")
        self.manifest = self._manifest()
        self._check_files()

    def _manifest(self) -> Manifest:
        path = self.folder / MANIFEST
        if not self.folder.is_dir():
            raise FileError(
                f"{self.folder}: there is no such folder. Write one with dv.write_shards or "
                "dualview shard."
            )
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            raise FileError(
                f"{self.folder} is no folder of shards: {MANIFEST} cannot be read ({reason})."
            ) from error
        try:
            return Manifest.from_json(text)
        except (ValueError, KeyError, TypeError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise FileError(
                f"{path} is no manifest of shards: {reason}. Write the shards again."
            ) from error

    def _check_files(self) -> None:
        """All files are there with the sizes they were written with."""
        sizes: dict[str, int | None] = {entry.file: entry.n_bytes for entry in self.users}
        for entry in self.threads:
            sizes |= {entry.file: entry.n_bytes, entry.members_file: None}
        for file, due in sizes.items():
            path = self.folder / file
            if not path.is_file():
                raise FileError(
                    f"{self.folder} lacks {file}, which {MANIFEST} lists. Write the shards again."
                )
            if due is not None and path.stat().st_size != due:
                found = path.stat().st_size
                raise FileError(
                    f"{path} has {found:,} bytes, where {due:,} were written. Write the shards "
                    "again."
                )

    @property
    def users(self) -> tuple[UserEntry, ...]:
        """The files of users."""
        return self.manifest.users

    @property
    def threads(self) -> tuple[ThreadEntry, ...]:
        """The files of threads."""
        return self.manifest.threads

    @property
    def n_users(self) -> int:
        return self.manifest.n_users

    @property
    def n_threads(self) -> int:
        return self.manifest.n_threads

    @property
    def feature_names(self) -> list[str]:
        return list(self.manifest.feature_names)

    def __len__(self) -> int:
        return self.n_users

    def __repr__(self) -> str:
        users = f"{self.n_users:,} users in {_counted(len(self.users), 'shard')}"
        threads = f"{self.n_threads:,} threads in {_counted(len(self.threads), 'shard')}"
        return f"Shards({users}, {threads}, {_counted(len(self.feature_names), 'feature')})"

    def read_users(self, number: int) -> UserBlock:
        """The users of a file."""
        entry = self.users[number]
        return read_users(
            self.folder / entry.file, entry.n_users, len(self.feature_names), self.manifest.has_ids
        )

    def read_threads(self, number: int) -> ThreadBlock:
        """The threads of a file."""
        entry = self.threads[number]
        return read_threads(self.folder / entry.file, entry.n_threads, entry.n_users)

    def members(self, number: int) -> NDArray[np.uint32]:
        """Positions among all users of those who take part in the threads of a file, in order;
        mapped, not read."""
        entry = self.threads[number]
        return read_members(self.folder / entry.members_file, entry.n_users, self.n_users)

    def ids(self) -> list[str] | None:
        """The ids of all users, where they have some."""
        if not self.manifest.has_ids:
            return None
        found: list[str] = []
        for number in range(len(self.users)):
            found += [str(name) for name in self.read_users(number).ids]  # type: ignore[union-attr]
        return found


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def check_shards(X: Any, y: Any) -> Shards:
    """The shards that ``fit`` is given in the place of X."""
    if not isinstance(X, Shards):
        raise InputError(f"Shards were expected; got {type(X).__name__}.")
    if y is not None:
        raise InputError("Shards hold features and threads: call fit(shards) without a behavior.")
    return X
