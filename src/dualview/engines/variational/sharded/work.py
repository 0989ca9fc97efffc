"""What a worker does with one shard: functions of the shards that it has loaded, the number of the
shard, and an argument.

An argument holds parameters, and vectors of the shard's own users. What is returned is a sum over
the shard, or vectors of its own users; sums are added up by the process that asked, in the order of
shards, so that nobody can tell who did what.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.engines.variational.mean_field import labels_below
from dualview.engines.variational.sharded import noise
from dualview.engines.variational.sharded.loaded import LoadedShards, Source, room_for_shards
from dualview.engines.variational.sharded.recipes import Latent, Recipe, vectors_of
from dualview.views import verbs

Array = NDArray[np.float64]

_loaded: dict[str, LoadedShards] = {}
_lock = threading.Lock()
_MOST_FITS = 2


class Task(NamedTuple):
    """A function, the number of a shard, and an argument."""

    function: Callable[[LoadedShards, int, Any], Any]
    number: int
    argument: Any = None


def loaded_shards(source: Source, room: float) -> LoadedShards:
    """The shards of a fit that this process has loaded; those of earlier fits make room."""
    if source.key not in _loaded:
        while len(_loaded) >= _MOST_FITS:
            del _loaded[next(iter(_loaded))]
        _loaded[source.key] = LoadedShards(source, room)
    return _loaded[source.key]


def forget(source: Source) -> None:
    """Let go of what this process keeps of a fit."""
    _loaded.pop(source.key, None)


def run(
    source: Source, tasks: Sequence[Task], n_processes: int = 1, limit: float | None = None
) -> list[Any]:
    """What some tasks return, one thread of this process at a time. limit: bytes of memory that the
    process may use."""
    with _lock:
        loaded = loaded_shards(source, room_for_shards(source.cache, n_processes, limit))
        return [task.function(loaded, task.number, task.argument) for task in tasks]


class Moments(NamedTuple):
    """Number, means (D,), sums of squared deviations (D, D) and largest sizes (D,) of some
    vectors."""

    n: int
    mean: Array
    scatter: Array
    largest: Array

    def plus(self, other: "Moments") -> "Moments":
        """Those of both together."""
        n, away = self.n + other.n, other.mean - self.mean
        mean = self.mean + away * (other.n / n)
        scatter = self.scatter + other.scatter + np.outer(away, away) * (self.n * other.n / n)
        return Moments(n, mean, scatter, np.maximum(self.largest, other.largest))


def _moments(x: Array) -> Moments:
    mean = x.mean(axis=0)
    away = x - mean
    return Moments(len(x), mean, away.T @ away, np.abs(x).max(axis=0))


def feature_moments(loaded: LoadedShards, number: int, argument: None) -> Moments:  # noqa: ARG001
    return _moments(loaded.features(number))


def some_features(loaded: LoadedShards, number: int, users: NDArray[np.int64]) -> Array:
    """Features of some users of the shard, by their places in it."""
    return np.asarray(loaded.features(number)[users])


class First(NamedTuple):
    """Σ_u q(z_u = k) of 1, (K,), and of the vectors of each view, (K, D)."""

    counts: Array
    totals: dict[str, Array]

    def plus(self, other: "First") -> "First":
        totals = {name: total + other.totals[name] for name, total in self.totals.items()}
        return First(self.counts + other.counts, totals)


def first_sums(loaded: LoadedShards, number: int, argument: tuple[Recipe, Latent | None]) -> First:
    """Totals, by which a first q of components is made."""
    recipe, latent = argument
    rows, _ = loaded.rows(number, recipe)
    vectors = vectors_of(loaded.features(number), latent)
    return First(rows.sum(axis=1), {name: rows @ own.means for name, own in vectors.items()})


def spreads(
    loaded: LoadedShards, number: int, argument: tuple[Recipe, Latent | None, Mapping[str, Array]]
) -> dict[str, Array]:
    """Σ_u s_u s_uᵀ of each view, s_u = x_u − Σ_k q(z_u = k) mean_k."""
    recipe, latent, means = argument
    rows, _ = loaded.rows(number, recipe)
    found = {}
    for name, own in vectors_of(loaded.features(number), latent).items():
        spread = own.means - rows.T @ means[name]
        found[name] = spread.T @ spread
    return found


class Assessment(NamedTuple):
    """What is asked of q(z): sums of these views about their factors, the pulls on coefficients,
    the rows of some users.

    latent: q of coefficients; None where there is no behavior. pulls (2, K): E S_k and E S_k E μ_k,
    where they are wanted. looked_at: places in the shard.
    """

    recipe: Recipe
    factors: Mapping[str, Any]
    latent: Latent | None
    pulls: Array | None
    looked_at: NDArray[np.int64]


class Assessed(NamedTuple):
    """The entropy of q(z), sums by view, precisions and pulls of every user's coefficient (2, U),
    rows of some users (K, n)."""

    entropy: float
    sums: dict[str, Any]
    pulls: Array | None
    rows: Array


def assess(loaded: LoadedShards, number: int, asked: Assessment) -> Assessed:
    """q(z) of the shard's users, and what others need of it."""
    rows, entropy = loaded.rows(number, asked.recipe)
    vectors = vectors_of(loaded.features(number), asked.latent)
    sums = {
        name: verbs.absorb(rows, vectors[name], factors) for name, factors in asked.factors.items()
    }
    pulls = None if asked.pulls is None else asked.pulls @ rows
    return Assessed(entropy, sums, pulls, rows[:, asked.looked_at])


def draw_labels(
    loaded: LoadedShards, number: int, argument: tuple[Recipe, int]
) -> NDArray[np.int32]:
    """Components of the shard's users drawn from q(z), (U,)."""
    recipe, seed = argument
    cumulative = np.cumsum(loaded.rows(number, recipe)[0], axis=0)
    uniform = np.random.default_rng([seed, loaded.shards.users[number].first]).random(
        cumulative.shape[1]
    )
    return labels_below(uniform * cumulative[-1], cumulative).astype(np.int32)


def log_likelihood(
    loaded: LoadedShards, number: int, argument: tuple[Any, Any, NDArray[np.int64]]
) -> float:
    """ln p(features | components) of a view at a state, of users in clusters z."""
    view, state, z = argument
    x = loaded.features(number)
    return float(view.log_joint(state, x, z) - view.log_joint(state, x[:0], z[:0]))


class ThreadTotals(NamedTuple):
    """Of threads: moments of their outcomes, the sum of absolute weights, Pᵀy and the diagonal of
    PᵀP over their users."""

    outcome: Moments
    weight: float
    weighted: Array
    squares: Array


def thread_totals(loaded: LoadedShards, number: int, argument: None) -> ThreadTotals:  # noqa: ARG001
    own = loaded.regression(number)
    weight = float(np.abs(own.entries[2]).sum())
    weighted = own.rows.transposed_times(np.ascontiguousarray(own.outcome))
    return ThreadTotals(_moments(own.outcome[:, None]), weight, weighted, own.rows.squares)


def gram(loaded: LoadedShards, number: int, vectors: Array) -> Array:
    """PᵀP vectors, of one (H,) or several (H, M) over the shard's own users."""
    rows = loaded.regression(number).rows
    return rows.gram_times(vectors) if vectors.ndim == 1 else rows.gram_times_many(vectors)


def residual_squares(loaded: LoadedShards, number: int, mean: Array) -> float:
    """|y − P mean|²."""
    own = loaded.regression(number)
    residual = own.outcome - own.expected(mean)
    return float(residual @ residual)


def gram_noise(loaded: LoadedShards, number: int, argument: tuple[slice, int]) -> Array:
    """Pᵀ times standard normal numbers of the threads, (H, M)."""
    columns, seed = argument
    own = loaded.regression(number)
    drawn = noise.normals("threads", columns, own.first, own.first + len(own.outcome), seed)
    return np.stack(
        [own.rows.transposed_times(np.ascontiguousarray(column)) for column in drawn.T], axis=1
    )
