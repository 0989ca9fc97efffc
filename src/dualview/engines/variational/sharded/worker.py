"""What one process does with shards: it keeps as many as its memory has room for, in working units,
and answers questions about them.

A task is a function of a shard and of an argument, which holds parameters and vectors of the
shard's own users. What is returned is a sum over the shard, or vectors of its own users, so that
nobody can tell who did what.

Shards are gone through in the same order again and again, so that those that were read first stay,
and the others are read each time. Throwing out the one that was not used for the longest would
throw out each just before it is needed.
"""

import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dualview.behaviors.likelihoods.systems import SparseRows
from dualview.engines.variational.responsibilities import Recipe, Vectors
from dualview.shards import Shards
from dualview.units import Whitening
from dualview.views.soft_vectors import SoftVectors

Array = NDArray[np.float64]

_SHARE = 0.25  # of a process's memory, for shards
_MOST_FITS = 2  # whose shards a process keeps


class ThreadUnits(NamedTuple):
    """Working units of threads: of weights, by a scale; of outcomes, y − (total weight of the
    thread) × mean, over sd."""

    scale: float = 1.0
    mean: float = 0.0
    sd: float = 1.0


_AS_GIVEN = ThreadUnits()


@dataclass(frozen=True)
class Source:
    """Where a fit's data are, and their units. key: a name of these, by which processes tell fits
    apart."""

    key: str
    folder: str
    cache: float | None
    features: Whitening | None = None
    threads: ThreadUnits = _AS_GIVEN


class Task(NamedTuple):
    """A function of a shard, of "users" or of "threads" by its number, and an argument."""

    function: Callable[[Any, Any], Any]
    kind: str
    number: int
    argument: Any = None


class Regression(NamedTuple):
    """The threads of a shard: weights by rows over its own users, outcomes (T,), and where it
    begins among all threads."""

    rows: SparseRows
    entries: tuple[NDArray[np.int64], NDArray[np.uint32], Array]
    outcome: Array
    first: int

    @property
    def size(self) -> int:
        """Bytes."""
        return (
            self.outcome.nbytes
            + 8 * self.rows.n_columns
            + sum(part.nbytes for part in self.entries)
        )

    def expected(self, vector: Array) -> Array:
        """P vector, (T,); every thread has a participant."""
        starts, columns, weights = self.entries
        return np.asarray(np.add.reduceat(weights * vector[columns], starts[:-1]))


@dataclass
class LoadedShards:
    """The shards of one fit in one process."""

    source: Source
    room: float
    shards: Shards = field(init=False)
    kept: dict[tuple[str, int], Any] = field(default_factory=dict)
    used: float = 0.0
    _rows: dict[int, tuple[int, Array, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shards = Shards(self.source.folder)

    def shard(self, kind: str, number: int) -> "LoadedUsers | Regression":
        """The shard of users or of threads."""
        return LoadedUsers(self, number) if kind == "users" else self.regression(number)

    def features(self, number: int) -> Array:
        """Features of the users of a shard, in working units, (U, D)."""
        found = self.kept.get(("users", number))
        if found is None:
            found, units = self.shards.read_users(number).features, self.source.features
            if units is not None:
                found = np.ascontiguousarray(units.to_working(found))
            self._keep(("users", number), found, found.nbytes)
        return found

    def regression(self, number: int) -> Regression:
        """The threads of a shard, in working units."""
        found = self.kept.get(("threads", number))
        if found is None:
            found = self._regression(number)
            self._keep(("threads", number), found, found.size)
        return found

    def _regression(self, number: int) -> Regression:
        entry, units = self.shards.threads[number], self.source.threads
        block = self.shards.read_threads(number)
        totals = np.add.reduceat(block.weights, block.starts[:-1])
        matrix = sparse.csr_array(
            (block.weights * units.scale, block.columns, block.starts),
            shape=(entry.n_threads, entry.n_users),
        )
        rows = SparseRows(matrix)
        return Regression(
            rows, rows.entries, (block.outcome - totals * units.mean) / units.sd, entry.first
        )

    def rows(self, number: int, recipe: Recipe) -> tuple[Array, float]:
        """q(z) of the users of a shard, and its entropy; made anew unless it was the last one asked
        for."""
        known = self._rows.get(number)
        if known is not None and known[0] == recipe.number:
            return known[1:]
        rows, entropy = recipe.rows(LoadedUsers(self, number).observed)
        if known is not None:
            del self._rows[number]
            self.used -= known[1].nbytes
        if self.used + rows.nbytes <= self.room:
            self._rows[number] = recipe.number, rows, entropy
            self.used += rows.nbytes
        return rows, entropy

    def _keep(self, name: tuple[str, int], value: Any, size: int) -> None:
        if self.used + size <= self.room:
            self.kept[name] = value
            self.used += size


class LoadedUsers(NamedTuple):
    """A shard of users, as :class:`dualview.engines.variational.users.UserShard`."""

    loaded: LoadedShards
    number: int

    @property
    def observed(self) -> Vectors:
        return {"features": SoftVectors(self.loaded.features(self.number))}

    def rows(self, recipe: Recipe) -> tuple[Array, float]:
        return self.loaded.rows(self.number, recipe)


_loaded: dict[str, LoadedShards] = {}
_lock = threading.Lock()


def run(source: Source, task: Task, n_processes: int = 1, limit: float | None = None) -> Any:
    """What a task returns, one thread of this process at a time. limit: bytes of memory that the
    process may use. Shards of earlier fits make room."""
    with _lock:
        if source.key not in _loaded:
            while len(_loaded) >= _MOST_FITS:
                del _loaded[next(iter(_loaded))]
            room = _room_for_shards(source.cache, n_processes, limit)
            _loaded[source.key] = LoadedShards(source, room)
        return task.function(_loaded[source.key].shard(task.kind, task.number), task.argument)


def forget(source: Source) -> None:
    """Let go of what this process keeps of a fit."""
    _loaded.pop(source.key, None)


def _room_for_shards(cache: float | None, n_processes: int, limit: float | None) -> float:
    """Bytes of shards that a process keeps: what was asked for, or a share of its memory. limit:
    the process's own."""
    if cache is not None:
        return cache
    try:
        there = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / n_processes
    except (AttributeError, OSError, ValueError):  # Windows
        there = math.inf
    return _SHARE * (there if limit is None else min(there, limit))
