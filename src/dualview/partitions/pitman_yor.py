"""The Pitman–Yor process: a cluster of n users weighs n − d, and a new one beside K others α + d K,
with a discount 0 ≤ d < 1.

p(partition | α) = Π_{i<K} (α + i d) · Π_k Γ(n_k − d)/Γ(1 − d) · Γ(α)/Γ(α + U). With d = 0 it is the
Dirichlet process; with d > 0 there are more small clusters, and their number grows like U^d (Pitman
and Yor 1997).
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.checks import number_in
from dualview.numerics.compiling import compiled
from dualview.numerics.kinds import register
from dualview.numerics.slice_sampling import sampler
from dualview.numerics.special import log_gamma, log_rising
from dualview.partitions.alpha import PAPER, Concentration
from dualview.partitions.concentration import AlphaPrior, log_alpha_prior
from dualview.partitions.priors import PartitionPrior
from dualview.partitions.soft import SoftSticks


class PitmanYorRecord(NamedTuple):
    """The prior as compiled code sees it; prior: that of α."""

    alpha: float
    discount: float
    prior: AlphaPrior


@compiled
def opens(partition):  # noqa: ARG001
    return True


@compiled
def weight(n, partition):
    return n - partition.discount


@compiled
def new_weight(n_clusters, partition):
    return partition.alpha + partition.discount * n_clusters


@compiled
def log_cluster(n, partition):
    return log_gamma(n - partition.discount) - log_gamma(1.0 - partition.discount)


@compiled
def log_another(n_clusters, partition):
    return math.log(new_weight(n_clusters, partition))


@compiled
def log_density(counts, partition):
    total, n_users = log_alpha_prior(partition.alpha, partition.prior), 0.0
    for k in range(counts.shape[0]):
        total += log_another(k, partition) + log_cluster(counts[k], partition)
        n_users += counts[k]
    return total - log_rising(partition.alpha, n_users)


@compiled
def log_alpha_density(log_alpha, parameters):
    """Log density of y = ln α given K and U; parameters: K, U, d, the prior. 0 beyond the range of
    numbers."""
    if abs(log_alpha) > 700.0:
        return -math.inf
    n_clusters, n_users, discount, prior = parameters
    alpha = math.exp(log_alpha)
    density = (
        prior.power * log_alpha
        - prior.inverse_rate / alpha
        - prior.rate * alpha
        - log_rising(alpha, n_users)
    )
    for k in range(n_clusters):
        density += math.log(alpha + discount * k)
    return density


_sample_log_alpha = sampler(log_alpha_density)


@compiled
def redraw(rng, counts, partition):
    if not partition.prior.learned:
        return partition
    n_users = 0.0
    for k in range(counts.shape[0]):
        n_users += counts[k]
    parameters = (counts.shape[0], n_users, partition.discount, partition.prior)
    alpha = math.exp(_sample_log_alpha(rng, parameters, math.log(partition.alpha), 2.0))
    return PitmanYorRecord(alpha, partition.discount, partition.prior)


@compiled
def concentration(partition):
    return partition.alpha


register(
    PitmanYorRecord,
    opens=opens,
    weight=weight,
    new_weight=new_weight,
    log_cluster=log_cluster,
    log_another=log_another,
    log_density=log_density,
    redraw=redraw,
    concentration=concentration,
)


@dataclass(frozen=True)
class PitmanYor(PartitionPrior):
    """The number of clusters is inferred, with more small clusters than under a Dirichlet process.

    Parameters
    ----------
    discount : float
        From 0, which is the Dirichlet process, to less than 1. The larger, the more small clusters:
        a cluster of n users weighs n − discount, and a new cluster α + discount times the number of
        clusters.

    Examples
    --------
    >>> PitmanYor(discount=0.25)
    PitmanYor(discount=0.25)
    """

    discount: float
    concentration: Concentration = field(default=PAPER, repr=False)
    n_components: None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "discount", number_in(self.discount, "PitmanYor: discount", 0.0, 1.0)
        )

    def record(self, alpha: float) -> PitmanYorRecord:
        return PitmanYorRecord(alpha, self.discount, self.alpha_prior)

    def approximate(self, counts: NDArray[np.float64]) -> SoftSticks:
        return SoftSticks(counts, self.grid, self.discount)

    def offset(self, alpha: Any) -> Any:
        return -self.discount + 0.0 * alpha

    def new_weight(self, alpha: Any, n_clusters: Any) -> Any:
        return alpha + self.discount * n_clusters
