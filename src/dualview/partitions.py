"""Priors over partitions of users: what a cluster weighs, and how the concentration α is redrawn.

counts (K,) are the users per component, one taken out when weights are asked for. All three classes have the same methods.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dualview.distributions import InverseG
from dualview.kernels.concentration import draw_alpha, draw_table_counts, log_finite, log_process

_ALPHA_PRIOR = InverseG(1.0, 1.0)
Counts = NDArray[np.int64]
Random = np.random.Generator | NDArray[np.uint64]  # a Generator, or a stream of ``kernels.streams``


class PartitionPrior(Protocol):
    """What the sampler asks of a partition prior."""

    @property
    def n_components(self) -> int | None:
        """The number of components, empty ones included; None when it varies."""

    @property
    def has_alpha(self) -> bool:
        """Whether there is a concentration to learn."""

    def spread(self, alpha: float) -> float:
        """What a component weighs beyond its count."""

    def new_weight(self, alpha: float) -> float:
        """What a new cluster weighs; 0 when none can be opened."""

    def redraw_alpha(self, rng: Random, counts: Counts, alpha: float) -> float:
        """α given the partition."""

    def log_density(self, counts: Counts, alpha: float) -> float:
        """ln p(partition | α) + ln p(α)."""

    def draw_alpha(self, rng: np.random.Generator) -> float:
        """α from its prior."""

    def draw(self, rng: np.random.Generator, n_users: int, alpha: float) -> NDArray[np.int64]:
        """A partition from the prior."""


def _draw_sequentially(
    rng: np.random.Generator, n_users: int, spread: float, new_weight: float, n_components: int
) -> NDArray[np.int64]:
    z = np.zeros(n_users, dtype=np.int64)
    weights = [spread] * n_components
    for u in range(n_users):
        choices = np.array([*weights, new_weight])
        cumulative = np.cumsum(choices)
        z[u] = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
        if z[u] == len(weights):
            weights.append(spread)
        weights[z[u]] += 1.0
    return z


@dataclass(frozen=True)
class ChineseRestaurant:
    """The Dirichlet process: the number of clusters is inferred. α by (C9)."""

    n_components: int | None = None
    has_alpha: bool = True

    def spread(self, alpha: float) -> float:  # noqa: ARG002
        return 0.0

    def new_weight(self, alpha: float) -> float:
        return alpha

    def redraw_alpha(self, rng: Random, counts: Counts, alpha: float) -> float:
        return float(draw_alpha(rng, len(counts), int(counts.sum()), alpha))

    def log_density(self, counts: Counts, alpha: float) -> float:
        return float(log_process(counts, alpha)) + _ALPHA_PRIOR.log_density(alpha)

    def draw_alpha(self, rng: np.random.Generator) -> float:
        return _ALPHA_PRIOR.draw(rng)

    def draw(self, rng: np.random.Generator, n_users: int, alpha: float) -> NDArray[np.int64]:
        return _draw_sequentially(rng, n_users, 0.0, alpha, 0)


@dataclass(frozen=True)
class FiniteDirichlet:
    """K clusters, some of which may be empty. α by the table counts of (C10)."""

    n_components: int
    has_alpha: bool = True

    def spread(self, alpha: float) -> float:
        return alpha / self.n_components

    def new_weight(self, alpha: float) -> float:  # noqa: ARG002
        return 0.0

    def redraw_alpha(self, rng: Random, counts: Counts, alpha: float) -> float:
        tables = draw_table_counts(rng, counts, self.spread(alpha))
        return float(draw_alpha(rng, tables, int(counts.sum()), alpha))

    def log_density(self, counts: Counts, alpha: float) -> float:
        return float(log_finite(counts, alpha)) + _ALPHA_PRIOR.log_density(alpha)

    def draw_alpha(self, rng: np.random.Generator) -> float:
        return _ALPHA_PRIOR.draw(rng)

    def draw(self, rng: np.random.Generator, n_users: int, alpha: float) -> NDArray[np.int64]:
        return _draw_sequentially(rng, n_users, self.spread(alpha), 0.0, self.n_components)


@dataclass(frozen=True)
class OneCluster:
    """Everybody in one cluster; no α."""

    n_components: int = 1
    has_alpha: bool = False

    def spread(self, alpha: float) -> float:  # noqa: ARG002
        return 1.0

    def new_weight(self, alpha: float) -> float:  # noqa: ARG002
        return 0.0

    def redraw_alpha(self, rng: Random, counts: Counts, alpha: float) -> float:  # noqa: ARG002
        return alpha

    def log_density(self, counts: Counts, alpha: float) -> float:  # noqa: ARG002
        return 0.0

    def draw_alpha(self, rng: np.random.Generator) -> float:  # noqa: ARG002
        return 1.0

    def draw(self, rng: np.random.Generator, n_users: int, alpha: float) -> NDArray[np.int64]:  # noqa: ARG002
        return np.zeros(n_users, dtype=np.int64)


def partition_prior(n_clusters: int | None) -> PartitionPrior:
    """The prior for an inferred (None) or fixed number of clusters."""
    if n_clusters is None:
        return ChineseRestaurant()
    return OneCluster() if n_clusters == 1 else FiniteDirichlet(n_clusters)
