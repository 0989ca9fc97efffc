"""Priors over partitions of users: what a cluster weighs, and how the concentration α is redrawn.

counts (K,) are the users per component, one taken out when weights are asked for. All three classes have the same methods.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dualview.partitions.alpha import PAPER, Concentration, Known
from dualview.partitions.concentration import (
    AlphaPrior,
    draw_alpha,
    draw_table_counts,
    log_alpha_prior,
    log_finite,
    log_process,
)

Counts = NDArray[np.int64]
Random = np.random.Generator | NDArray[np.uint64]  # a Generator, or a stream of ``numerics.streams``


class PartitionPrior(Protocol):
    """What the sampler asks of a partition prior."""

    @property
    def n_components(self) -> int | None:
        """The number of components, empty ones included; None when it varies."""

    @property
    def has_alpha(self) -> bool:
        """Whether there is a concentration."""

    @property
    def start_alpha(self) -> float:
        """α of a first state."""

    @property
    def alpha_prior(self) -> AlphaPrior:
        """The prior of α as numbers, for compiled code."""

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


class _WithAlpha:
    """What both priors with a concentration do with the prior of it."""

    concentration: Concentration
    has_alpha = True

    @property
    def start_alpha(self) -> float:
        return self.concentration.start

    @cached_property
    def alpha_prior(self) -> AlphaPrior:
        return self.concentration.record

    def draw_alpha(self, rng: np.random.Generator) -> float:
        return self.concentration.draw(rng)


@dataclass(frozen=True)
class ChineseRestaurant(_WithAlpha):
    """The Dirichlet process: the number of clusters is inferred. α by (C9)."""

    concentration: Concentration = PAPER
    n_components: None = field(default=None, init=False)

    def spread(self, alpha: float) -> float:  # noqa: ARG002
        return 0.0

    def new_weight(self, alpha: float) -> float:
        return alpha

    def redraw_alpha(self, rng: Random, counts: Counts, alpha: float) -> float:
        return float(draw_alpha(rng, len(counts), int(counts.sum()), alpha, self.alpha_prior))

    def log_density(self, counts: Counts, alpha: float) -> float:
        return float(log_process(counts, alpha) + log_alpha_prior(alpha, self.alpha_prior))

    def draw(self, rng: np.random.Generator, n_users: int, alpha: float) -> NDArray[np.int64]:
        return _draw_sequentially(rng, n_users, 0.0, alpha, 0)


@dataclass(frozen=True)
class FiniteDirichlet(_WithAlpha):
    """K clusters, some of which may be empty. α by the table counts of (C10)."""

    n_components: int
    concentration: Concentration = PAPER

    def spread(self, alpha: float) -> float:
        return alpha / self.n_components

    def new_weight(self, alpha: float) -> float:  # noqa: ARG002
        return 0.0

    def redraw_alpha(self, rng: Random, counts: Counts, alpha: float) -> float:
        tables = draw_table_counts(rng, counts, self.spread(alpha))
        return float(draw_alpha(rng, tables, int(counts.sum()), alpha, self.alpha_prior))

    def log_density(self, counts: Counts, alpha: float) -> float:
        return float(log_finite(counts, alpha) + log_alpha_prior(alpha, self.alpha_prior))

    def draw(self, rng: np.random.Generator, n_users: int, alpha: float) -> NDArray[np.int64]:
        return _draw_sequentially(rng, n_users, self.spread(alpha), 0.0, self.n_components)


@dataclass(frozen=True)
class OneCluster:
    """Everybody in one cluster; no α."""

    n_components: int = 1
    has_alpha: bool = False
    start_alpha: float = 1.0
    alpha_prior: AlphaPrior = Known(1.0).record

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


def partition_prior(n_clusters: int | None, concentration: Concentration = PAPER) -> PartitionPrior:
    """The prior for an inferred (None) or fixed number of clusters; α has the paper's prior unless another is given."""
    if n_clusters is None:
        return ChineseRestaurant(concentration)
    return OneCluster() if n_clusters == 1 else FiniteDirichlet(n_clusters, concentration)
