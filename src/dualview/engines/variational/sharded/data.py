"""The data of a fit in shards, as the process that leads it sees them: passes over shards, and the
sums of what comes back."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.engines.variational.sharded import work
from dualview.engines.variational.sharded.loaded import Source, ThreadUnits
from dualview.engines.variational.sharded.pools import Pool
from dualview.engines.variational.sharded.work import Moments, Task
from dualview.shards import Shards
from dualview.units import Whitening

Array = NDArray[np.float64]
Function = Callable[[Any, int, Any], Any]

MOST_LOOKED_AT = 20_000  # users by which starts, splits and overlaps are worked out


@dataclass(frozen=True)
class ShardedData:
    """Shards, who works on them, and the units they work in."""

    shards: Shards
    pool: Pool
    source: Source

    @property
    def n_users(self) -> int:
        return self.shards.n_users

    def in_units(self, features: Whitening, threads: ThreadUnits) -> "ShardedData":
        """The same in working units."""
        source = replace(
            self.source, key=f"{self.source.key}, working", features=features, threads=threads
        )
        return replace(self, source=source)

    def over_users(
        self, function: Function, argument: Callable[[int, slice], Any]
    ) -> Iterator[Any]:
        """What a function returns for each shard of users; argument: given its number, and where
        its users are."""
        tasks = (
            Task(function, number, argument(number, entry.users))
            for number, entry in enumerate(self.shards.users)
        )
        return self.pool.run(self.source, tasks)

    def over_threads(
        self, function: Function, argument: Callable[[NDArray[Any]], Any]
    ) -> Iterator[tuple[NDArray[Any], Any]]:
        """What a function returns for each shard of threads, with their users; argument: given
        these."""
        tasks = (
            Task(function, number, argument(self.shards.members(number)))
            for number in range(len(self.shards.threads))
        )
        for number, result in enumerate(self.pool.run(self.source, tasks)):
            yield self.shards.members(number), result

    def feature_moments(self) -> Moments:
        """Means and scatter of the features."""
        first, *others = self.over_users(work.feature_moments, lambda _number, _users: None)
        for other in others:
            first = first.plus(other)
        found: Moments = first
        return found

    @cached_property
    def looked_at(self) -> NDArray[np.int64]:
        """Users, spread evenly, of whom the leading process sees features and q(z): all, where they
        are not too many."""
        return np.arange(0, self.n_users, -(-self.n_users // MOST_LOOKED_AT))

    def looked_at_in(self, users: slice) -> NDArray[np.int64]:
        """Those of a shard, by their places in it."""
        found = self.looked_at
        inside = (found >= users.start) & (found < users.stop)
        return np.asarray(found[inside] - users.start, dtype=np.int64)

    @cached_property
    def features(self) -> Array:
        """Features of the users who are looked at, (n, D)."""
        return np.vstack(
            list(
                self.over_users(work.some_features, lambda _number, users: self.looked_at_in(users))
            )
        )
