"""The regression of shared outcomes whose threads are in shards: products go out to them, and sums
come back.

A shard is sent the numbers of its own users only, and returns as many. Vectors of all users are in
the leading process.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.soft_many_threads import N_PROBES, N_SIGNS, Equations
from dualview.behaviors.records import Params
from dualview.distributions import G
from dualview.engines.variational.sharded import noise, work
from dualview.engines.variational.sharded.data import ShardedData
from dualview.engines.variational.sharded.work import Moments

Array = NDArray[np.float64]

_AT_ONCE = 2**24  # numbers of the probes that are solved for together


@dataclass(frozen=True)
class Totals:
    """Sums over all threads: moments of outcomes, absolute weights, Pᵀy and the diagonal of PᵀP,
    (U,) each."""

    outcome: Moments
    weight: float
    weighted: Array
    squares: Array

    @classmethod
    def of(cls, data: ShardedData) -> "Totals":
        weighted, squares, weight = np.zeros(data.n_users), np.zeros(data.n_users), 0.0
        outcome: Moments | None = None
        for users, found in data.over_threads(work.thread_totals, lambda _users: None):
            weighted[users] += found.weighted
            squares[users] += found.squares
            weight += found.weight
            outcome = found.outcome if outcome is None else outcome.plus(found.outcome)
        assert outcome is not None
        return cls(outcome, weight, weighted, squares)


@dataclass(frozen=True)
class ShardedEquations(Equations):
    """The regression in working units."""

    data: ShardedData
    weighted: Array
    squares: Array
    groups: tuple[slice, ...] = field(default=())

    @classmethod
    def of(cls, data: ShardedData) -> "ShardedEquations":
        totals = Totals.of(data)
        each = int(np.clip(_AT_ONCE // data.n_users, 1, N_PROBES))
        groups = tuple(
            slice(first, min(first + each, N_PROBES)) for first in range(0, N_PROBES, each)
        )
        return cls(data, totals.weighted, totals.squares, groups)

    @property
    def n_users(self) -> int:  # type: ignore[override]
        return self.data.n_users

    @property
    def n_threads(self) -> int:  # type: ignore[override]
        return self.data.shards.n_threads

    def gram_times(self, vectors: Array) -> Array:
        total = np.zeros_like(vectors)
        for users, part in self.data.over_threads(work.gram, lambda users: vectors[users]):
            total[users] += part
        return total

    def residual_squares(self, mean: Array) -> float:
        return float(
            sum(
                part
                for _, part in self.data.over_threads(
                    work.residual_squares, lambda users: mean[users]
                )
            )
        )

    def noise_of_probes(self, probes: slice) -> tuple[Array, Array]:
        return self._noise(probes, 0)

    def fresh_noise(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        return self._noise(slice(0, n), int(rng.integers(1, 2**63)))

    def _noise(self, columns: slice, seed: int) -> tuple[Array, Array]:
        gram_noise = np.zeros((self.n_users, columns.stop - columns.start))
        for users, part in self.data.over_threads(work.gram_noise, lambda _users: (columns, seed)):
            gram_noise[users] += part
        return noise.normals("users", columns, 0, self.n_users, seed), gram_noise

    def signs(self) -> Array:
        return np.stack([noise.signs(column, 0, self.n_users) for column in range(N_SIGNS)], axis=1)

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(y, s_y | latent) up to a constant, (M8) and (M9)."""
        precision = float(params["noise_precision"])
        squares = self.residual_squares(np.ascontiguousarray(latent[:, 0]))
        likelihood = 0.5 * self.n_threads * np.log(precision) - 0.5 * precision * squares
        return float(likelihood + G(1.0, 1.0).log_density(precision))
