"""Priors over partitions of users: what a cluster weighs, and the prior of the concentration α.

counts (K,) are the users per component. A prior's compiled side is its record, see ``verbs``.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.partitions import verbs
from dualview.partitions.alpha import PAPER, Concentration, Known
from dualview.partitions.concentration import AlphaPrior
from dualview.partitions.dirichlet import Dirichlet
from dualview.partitions.soft import AlphaGrid, OneWeight, SoftDirichlet, SoftSticks, SoftWeights

Counts = NDArray[np.int64]


class PartitionPrior(ABC):
    """What the rest of the package asks of a partition prior; most of it follows from the record
    and from the prior of the concentration.

    n_components: components, empty ones included; None when their number varies. has_alpha: whether
    there is a concentration. discount_prior: that of a discount that is learned.
    """

    concentration: Concentration
    n_components: int | None
    has_alpha: bool = True

    @property
    def start_alpha(self) -> float:
        """α of a first state."""
        return self.concentration.start

    @property
    def discount_prior(self) -> Any:
        """The prior of the discount, where one is learned; else None."""
        return None

    @property
    def start_discount(self) -> float:
        """The discount of a first state; 0 where there is none."""
        return 0.0

    @cached_property
    def alpha_prior(self) -> AlphaPrior:
        """The prior of α as numbers, for compiled code."""
        return self.concentration.record

    @cached_property
    def grid(self) -> AlphaGrid:
        """Values of α that an approximation looks at."""
        return AlphaGrid.of(self.alpha_prior, self.start_alpha)

    @abstractmethod
    def record(self, alpha: float, discount: float | None = None) -> Any:
        """The prior with this α, and this discount where one is learned, for compiled code: a
        record that ``verbs`` know."""

    @abstractmethod
    def approximate(self, counts: NDArray[np.float64]) -> SoftWeights:
        """The best q of α and the components' weights for soft counts (K,)."""

    def offset(self, alpha: Any) -> Any:
        """What a component weighs beyond its users, for one α or an array of them."""
        return np.zeros_like(alpha)

    def given(self, discount: Any) -> "PartitionPrior":  # noqa: ARG002
        """The prior with this discount, where it is learned: one, or one for each α of an array."""
        return self

    def new_weight(self, alpha: Any, n_clusters: Any, n_users: Any) -> Any:  # noqa: ARG002
        """What a new cluster weighs beside n_clusters others that have n_users users, for one α or
        arrays; 0 when none can be opened."""
        return np.zeros_like(alpha)

    def log_density(self, counts: Counts, alpha: float, discount: float | None = None) -> float:
        """ln p(partition | α) + ln p(α), and of a discount that is learned its ln p too."""
        return float(verbs.log_density(counts, self.record(alpha, discount)))

    def draw_alpha(self, rng: np.random.Generator) -> float:
        """α from its prior."""
        return self.concentration.draw(rng)

    def draw_discount(self, rng: np.random.Generator) -> float:  # noqa: ARG002
        """The discount from its prior; 0 where there is none."""
        return 0.0

    def draw(self, rng: np.random.Generator, n_users: int, alpha: float) -> NDArray[np.int64]:
        """A partition from the prior, user after user, by the weights."""
        z, weights = (
            np.zeros(n_users, dtype=np.int64),
            [float(self.offset(alpha))] * (self.n_components or 0),
        )
        for u in range(n_users):
            cumulative = np.cumsum([*weights, self.new_weight(alpha, len(weights), u)])
            z[u] = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
            if z[u] == len(weights):
                weights.append(float(self.offset(alpha)))
            weights[z[u]] += 1.0
        return z


@dataclass(frozen=True)
class ChineseRestaurant(PartitionPrior):
    """The Dirichlet process: the number of clusters is inferred. α by (C9)."""

    concentration: Concentration = PAPER
    n_components: None = field(default=None, init=False)

    def record(self, alpha: float, discount: float | None = None) -> Dirichlet:  # noqa: ARG002
        return Dirichlet(alpha, 0.0, 0, self.alpha_prior)

    def approximate(self, counts: NDArray[np.float64]) -> SoftWeights:
        return SoftSticks(counts, self.grid)

    def new_weight(self, alpha: Any, n_clusters: Any, n_users: Any) -> Any:  # noqa: ARG002
        return alpha


@dataclass(frozen=True)
class FiniteDirichlet(PartitionPrior):
    """K clusters, some of which may be empty. α by the table counts of (C10)."""

    n_components: int
    concentration: Concentration = PAPER

    def record(self, alpha: float, discount: float | None = None) -> Dirichlet:  # noqa: ARG002
        return Dirichlet(alpha, self.offset(alpha), self.n_components, self.alpha_prior)

    def approximate(self, counts: NDArray[np.float64]) -> SoftWeights:
        return SoftDirichlet.of_number(counts, self.grid, self.n_components)

    def offset(self, alpha: Any) -> Any:
        return alpha / self.n_components


@dataclass(frozen=True)
class OneCluster(PartitionPrior):
    """Everybody in one cluster; no α."""

    n_components: int = 1
    has_alpha: bool = False
    concentration: Concentration = field(default_factory=lambda: Known(1.0))

    def record(self, alpha: float, discount: float | None = None) -> Dirichlet:  # noqa: ARG002
        return Dirichlet(alpha, 1.0, 1, self.alpha_prior)

    def approximate(self, counts: NDArray[np.float64]) -> SoftWeights:
        return OneWeight(counts, self.grid)

    def offset(self, alpha: Any) -> Any:
        return np.ones_like(alpha)
