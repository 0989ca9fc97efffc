"""The users and threads of a fit that are in a folder of shards, as the process that leads it sees
them: passes over shards, and the sums of what comes back."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.engines.variational import clock
from dualview.engines.variational.responsibilities import Recipe, Vectors
from dualview.engines.variational.sharded.worker import LoadedUsers, Source, Task, ThreadUnits
from dualview.engines.variational.sharded.workers import Workers
from dualview.engines.variational.users import Users, added
from dualview.shards import Shards
from dualview.units import Whitening
from dualview.views import verbs
from dualview.views.approximation import Approximation
from dualview.views.soft_vectors import SoftVectors

Array = NDArray[np.float64]

MOST_LOOKED_AT = 20_000  # users by which starts, splits and overlaps are worked out


class Moments(NamedTuple):
    """Number, means (D,), sums of squared deviations (D, D) and largest sizes (D,) of some
    vectors."""

    n: int
    mean: Array
    scatter: Array
    largest: Array

    @classmethod
    def of(cls, x: Array) -> "Moments":
        mean = x.mean(axis=0)
        away = x - mean
        return cls(len(x), mean, away.T @ away, np.abs(x).max(axis=0))

    def plus(self, other: "Moments") -> "Moments":
        """Those of both together."""
        n, away = self.n + other.n, other.mean - self.mean
        mean = self.mean + away * (other.n / n)
        scatter = self.scatter + other.scatter + np.outer(away, away) * (self.n * other.n / n)
        return Moments(n, mean, scatter, np.maximum(self.largest, other.largest))


def feature_moments(shard: LoadedUsers, argument: None) -> Moments:  # noqa: ARG001
    """Moments of the features of a shard's users."""
    return Moments.of(shard.observed["features"].means)


def _counts_and_totals(shard: LoadedUsers, asked: tuple[Recipe, Array | None]) -> Array:
    """Σ_u q(z_u = k) of 1 and of x_u, (K, 1 + D), of features or of the vectors given."""
    recipe, x = asked
    rows, _ = shard.rows(recipe)
    return np.column_stack([rows.sum(axis=1), rows @ _vectors(shard, x).means])


def _scatter_about(shard: LoadedUsers, asked: tuple[Recipe, Array | None, Array]) -> Array:
    """Σ_u s_u s_uᵀ of s_u = x_u − Σ_k q(z_u = k) mean_k, (D, D)."""
    recipe, x, means = asked
    away = _vectors(shard, x).means - shard.rows(recipe)[0].T @ means
    return np.asarray(away.T @ away)


def _sums_about(shard: LoadedUsers, asked: tuple[Recipe, Array | None, Any]) -> Any:
    """The sums of a view about its factors."""
    recipe, x, factors = asked
    return verbs.absorb(shard.rows(recipe)[0], _vectors(shard, x), factors)


def _vectors(shard: LoadedUsers, x: Array | None) -> SoftVectors:
    return shard.observed["features"] if x is None else SoftVectors(x)


def _some_features(shard: LoadedUsers, users: NDArray[np.int64]) -> Array:
    """Features of some users of a shard, by their places in it."""
    return np.asarray(shard.observed["features"].means[users])


@dataclass(frozen=True)
class ShardedUsers(Users):
    """Shards, who works on them, and the units they work in."""

    shards: Shards
    workers: Workers
    source: Source

    @property
    def n_users(self) -> int:  # type: ignore[override]
        return self.shards.n_users

    def in_units(self, features: Whitening, threads: ThreadUnits) -> "ShardedUsers":
        """The same in working units."""
        source = replace(
            self.source, key=f"{self.source.key}, working", features=features, threads=threads
        )
        return replace(self, source=source)

    def over(self, function: Callable[..., Any], argument: Callable[[slice], Any]) -> Iterator[Any]:
        tasks = (
            Task(function, "users", number, argument(entry.users))
            for number, entry in enumerate(self.shards.users)
        )
        for result in self.workers.run(self.source, tasks):
            yield result
            clock.check()

    def over_threads(
        self, function: Callable[..., Any], argument: Callable[[NDArray[Any]], Any]
    ) -> Iterator[tuple[NDArray[Any], Any]]:
        """What a function returns for each shard of threads, with their users; argument: given
        these."""
        tasks = (
            Task(function, "threads", number, argument(self.shards.members(number)))
            for number in range(len(self.shards.threads))
        )
        for number, result in enumerate(self.workers.run(self.source, tasks)):
            yield self.shards.members(number), result
            clock.check()

    def approximate(
        self, view: Any, vectors: str | Array, recipe: Recipe, joint: bool
    ) -> Approximation:
        """By three passes: averages, scatter about them, and the sums of the view."""
        assert not joint

        def ask(function: Callable[..., Any], *arguments: Any) -> Any:
            def asked(users: slice) -> Any:
                x = None if isinstance(vectors, str) else vectors[users]
                return recipe.of_users(users), x, *arguments

            return added(self.over(function, asked))

        first = ask(_counts_and_totals)
        means = first[:, 1:] / np.maximum(first[:, :1], 1.0)
        spread, sums = ask(_scatter_about, means), ask(_sums_about, view.centres_at(means))
        found: Approximation = view.approximate_sums(self.n_users, spread, sums)
        return found

    def feature_moments(self) -> Moments:
        """Means and scatter of the features."""
        found: Moments = added(self.over(feature_moments, lambda _users: None))
        return found

    @cached_property
    def looked_at(self) -> NDArray[np.int64]:  # type: ignore[override]
        """Users who are spread evenly."""
        return np.arange(0, self.n_users, -(-self.n_users // MOST_LOOKED_AT))

    def looked_at_in(self, users: slice) -> NDArray[np.int64]:
        found = self.looked_at
        inside = (found >= users.start) & (found < users.stop)
        return np.asarray(found[inside] - users.start, dtype=np.int64)

    @cached_property
    def observed(self) -> Vectors:  # type: ignore[override]
        parts = self.over(_some_features, self.looked_at_in)
        return {"features": SoftVectors(np.vstack(list(parts)))}
