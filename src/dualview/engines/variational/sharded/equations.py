"""The regression of shared outcomes whose threads are in shards: products go out to them, and sums
come back.

A shard is sent the numbers of its own users only, and returns as many. Vectors of all users are in
the leading process. Random numbers belong to positions among all users or threads, however these
are cut into shards.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.approximation.many_threads import N_PROBES, N_SIGNS, Equations
from dualview.behaviors.records import Params
from dualview.distributions import G
from dualview.engines.variational.sharded.users import Moments, ShardedUsers
from dualview.engines.variational.sharded.worker import Regression

Array = NDArray[np.float64]
Kind = Literal["users", "threads", "signs"]

_AT_ONCE = 2**24  # numbers of the probes that are solved for together
_BLOCK = 65_536  # positions whose numbers are drawn together
_NUMBERS: dict[Kind, int] = {"users": 0, "threads": 1, "signs": 2}


class ThreadTotals(NamedTuple):
    """Of threads: moments of their outcomes, the sum of absolute weights, Pᵀy and the diagonal of
    PᵀP over their users."""

    outcome: Moments
    weight: float
    weighted: Array
    squares: Array


def _thread_totals(shard: Regression, argument: None) -> ThreadTotals:  # noqa: ARG001
    weight = float(np.abs(shard.entries[2]).sum())
    weighted = shard.rows.transposed_times(np.ascontiguousarray(shard.outcome))
    return ThreadTotals(Moments.of(shard.outcome[:, None]), weight, weighted, shard.rows.squares)


def gram(shard: Regression, vectors: Array) -> Array:
    """PᵀP vectors, of one (H,) or several (H, M) over the shard's own users."""
    rows = shard.rows
    return rows.gram_times(vectors) if vectors.ndim == 1 else rows.gram_times_many(vectors)


def _residual_squares(shard: Regression, mean: Array) -> float:
    """|y − P mean|²."""
    residual = shard.outcome - shard.expected(mean)
    return float(residual @ residual)


def _gram_noise(shard: Regression, argument: tuple[slice, int]) -> Array:
    """Pᵀ times standard normal numbers of the threads, (H, M)."""
    columns, seed = argument
    drawn = normals("threads", columns, shard.first, shard.first + len(shard.outcome), seed)
    return np.stack(
        [shard.rows.transposed_times(np.ascontiguousarray(column)) for column in drawn.T], axis=1
    )


def totals_of(users: ShardedUsers) -> ThreadTotals:
    """Those of all threads, (U,) over all users."""
    weighted, squares, weight = np.zeros(users.n_users), np.zeros(users.n_users), 0.0
    outcome: Moments | None = None
    for members, found in users.over_threads(_thread_totals, lambda _members: None):
        weighted[members] += found.weighted
        squares[members] += found.squares
        weight += found.weight
        outcome = found.outcome if outcome is None else outcome.plus(found.outcome)
    assert outcome is not None
    return ThreadTotals(outcome, weight, weighted, squares)


@dataclass(frozen=True)
class ShardedEquations(Equations):
    """The regression in working units."""

    users: ShardedUsers
    weighted: Array
    squares: Array
    groups: tuple[slice, ...] = field(default=())

    @classmethod
    def of(cls, users: ShardedUsers) -> "ShardedEquations":
        totals = totals_of(users)
        each = int(np.clip(_AT_ONCE // users.n_users, 1, N_PROBES))
        groups = tuple(
            slice(first, min(first + each, N_PROBES)) for first in range(0, N_PROBES, each)
        )
        return cls(users, totals.weighted, totals.squares, groups)

    @property
    def n_users(self) -> int:  # type: ignore[override]
        return self.users.n_users

    @property
    def n_threads(self) -> int:  # type: ignore[override]
        return self.users.shards.n_threads

    def gram_times(self, vectors: Array) -> Array:
        total = np.zeros_like(vectors)
        for members, part in self.users.over_threads(gram, lambda members: vectors[members]):
            total[members] += part
        return total

    def residual_squares(self, mean: Array) -> float:
        parts = self.users.over_threads(_residual_squares, lambda members: mean[members])
        return float(sum(part for _, part in parts))

    def noise_of_probes(self, probes: slice) -> tuple[Array, Array]:
        return self._noise(probes, 0)

    def fresh_noise(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        return self._noise(slice(0, n), int(rng.integers(1, 2**63)))

    def _noise(self, columns: slice, seed: int) -> tuple[Array, Array]:
        gram_noise = np.zeros((self.n_users, columns.stop - columns.start))
        for members, part in self.users.over_threads(_gram_noise, lambda _: (columns, seed)):
            gram_noise[members] += part
        return normals("users", columns, 0, self.n_users, seed), gram_noise

    def signs(self) -> Array:
        return np.stack([signs(column, 0, self.n_users) for column in range(N_SIGNS)], axis=1)

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(y, s_y | latent) up to a constant, (M8) and (M9)."""
        precision = float(params["noise_precision"])
        squares = self.residual_squares(np.ascontiguousarray(latent[:, 0]))
        likelihood = 0.5 * self.n_threads * np.log(precision) - 0.5 * precision * squares
        return float(likelihood + G(1.0, 1.0).log_density(precision))


def normals(kind: Kind, columns: slice, first: int, stop: int, seed: int = 0) -> Array:
    """Standard normal numbers of the positions from first to stop, (stop − first, M)."""
    return np.stack(
        [
            _of_positions(kind, column, first, stop, seed, _draw_normals)
            for column in range(columns.start, columns.stop)
        ],
        axis=1,
    )


def signs(column: int, first: int, stop: int) -> Array:
    """Numbers −1 and 1 of the positions from first to stop, (stop − first,)."""
    return _of_positions("signs", column, first, stop, 0, _draw_signs)


def _draw_normals(rng: np.random.Generator) -> Array:
    return rng.standard_normal(_BLOCK)


def _draw_signs(rng: np.random.Generator) -> Array:
    return np.asarray(rng.integers(0, 2, _BLOCK) * 2.0 - 1.0)


def _of_positions(
    kind: Kind,
    column: int,
    first: int,
    stop: int,
    seed: int,
    draw: Callable[[np.random.Generator], Array],
) -> Array:
    found = np.empty(stop - first)
    for block in range(first // _BLOCK, -(-stop // _BLOCK)):
        begin = block * _BLOCK
        own = slice(max(first, begin), min(stop, begin + _BLOCK))
        drawn = draw(np.random.default_rng([seed, _NUMBERS[kind], column, block]))
        found[own.start - first : own.stop - first] = drawn[own.start - begin : own.stop - begin]
    return found
