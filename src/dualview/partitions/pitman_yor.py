"""The Pitman–Yor process: a cluster of n users weighs n − d, and a new one beside K others α + d K,
with a discount 0 ≤ d < 1.

p(partition | α) = Π_{i<K} (α + i d) · Π_k Γ(n_k − d)/Γ(1 − d) · Γ(α)/Γ(α + U). With d = 0 it is the
Dirichlet process; with d > 0 there are more small clusters, and their number grows like U^d (Pitman
and Yor 1997). A discount that is learned has a Beta prior, and is drawn after α, given α and the
partition, by slices of its logit.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.checks import is_learned, number_in
from dualview.errors import InputError
from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.kinds import register
from dualview.numerics.slice_sampling import sampler
from dualview.numerics.special import log_gamma, log_rising
from dualview.partitions.agreement import Beta
from dualview.partitions.alpha import PAPER, Concentration
from dualview.partitions.concentration import AlphaPrior, log_alpha_prior
from dualview.partitions.priors import PartitionPrior
from dualview.partitions.soft import AlphaGrid, SoftSticks

# Of a discount that is learned: with a uniform prior every user is soon alone where data have no
# clusters. See benchmarks/discount.py.
DEFAULT_DISCOUNT = Beta(1.0, 3.0)
_MOST_LOGIT = 34.0  # of a discount: beyond it is 1 to rounding
_LEAST_B = 0.5  # of its Beta prior, which else has mass there


class PitmanYorRecord(NamedTuple):
    """The prior as compiled code sees it; prior: that of α. a, b: of the discount's Beta prior; 0
    where it is known."""

    alpha: float
    discount: float
    prior: AlphaPrior
    a: float
    b: float


@compiled
def opens(partition):  # noqa: ARG001
    return True


@compiled
def weight(n, partition):
    return n - partition.discount


@compiled
def new_weight(n_clusters, n_users, partition):  # noqa: ARG001
    return partition.alpha + partition.discount * n_clusters


@compiled
def log_cluster(n, partition):
    return log_gamma(n - partition.discount) - log_gamma(1.0 - partition.discount)


@compiled
def log_another(n_clusters, n_users, partition):
    return math.log(new_weight(n_clusters, n_users, partition))


@compiled
def log_beta_prior(discount, a, b):
    """ln p(d)."""
    constant = log_gamma(a + b) - log_gamma(a) - log_gamma(b)
    return constant + (a - 1.0) * math.log(discount) + (b - 1.0) * math.log1p(-discount)


@compiled
def log_density(counts, partition):
    total, n_users = log_alpha_prior(partition.alpha, partition.prior), 0.0
    if partition.a > 0.0:
        total += log_beta_prior(partition.discount, partition.a, partition.b)
    for k in range(counts.shape[0]):
        n_users += counts[k]
        total += log_another(k, n_users, partition) + log_cluster(counts[k], partition)
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


@in_place
def log_discount_density(logit, parameters):
    """Log density of x = ln d/(1 − d) given α and the partition; parameters: counts, α, a, b. 0
    beyond the range of numbers."""
    if not -700.0 < logit < _MOST_LOGIT:
        return -math.inf
    counts, alpha, a, b = parameters
    log_rest = -math.log1p(math.exp(-abs(logit))) - max(logit, 0.0)  # ln(1 − d)
    log_discount, rest = logit + log_rest, math.exp(log_rest)
    discount = math.exp(log_discount)
    density = a * log_discount + b * log_rest
    for k in range(counts.shape[0]):
        density += math.log(alpha + discount * k) + log_rising(rest, counts[k] - 1.0)
    return density


_sample_logit = sampler(log_discount_density)


@compiled
def redraw(rng, counts, partition):
    alpha, discount, n_users = partition.alpha, partition.discount, 0.0
    for k in range(counts.shape[0]):
        n_users += counts[k]
    if partition.prior.learned:
        parameters = (counts.shape[0], n_users, discount, partition.prior)
        alpha = math.exp(_sample_log_alpha(rng, parameters, math.log(alpha), 2.0))
    if partition.a > 0.0:
        logit = math.log(discount) - math.log1p(-discount)
        own = (counts, alpha, partition.a, partition.b)
        discount = 1.0 / (1.0 + math.exp(-_sample_logit(rng, own, logit, 2.0)))
    return PitmanYorRecord(alpha, discount, partition.prior, partition.a, partition.b)


@compiled
def concentration(partition):
    return partition.alpha


@compiled
def discount(partition):
    return partition.discount


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
    discount=discount,
)


def _checked(discount: Any) -> Any:
    """A discount: a number, or the prior of one that is learned. Arrays are values of draws."""
    if is_learned(discount, "discount"):
        return DEFAULT_DISCOUNT
    if isinstance(discount, Beta) and discount.b < _LEAST_B:
        raise InputError(
            "PitmanYor: the prior of a discount must be a Beta(a, b) with b of at least "
            f"{_LEAST_B}; got {discount!r}. A smaller b has its mass where all users are alone."
        )
    if isinstance(discount, Beta | np.ndarray):
        return discount
    try:
        return number_in(discount, "PitmanYor: discount", 0.0, 1.0)
    except InputError:
        raise InputError(
            'PitmanYor: discount must be a number from 0 to less than 1, "learned" or a prior, '
            f"dv.Beta(a, b); got {discount!r}."
        ) from None


@dataclass(frozen=True)
class PitmanYor(PartitionPrior):
    """The number of clusters is inferred, with more small clusters than under a Dirichlet process.

    Parameters
    ----------
    discount : float, "learned" or Beta
        From 0, which is the Dirichlet process, to less than 1. The larger, the more small clusters:
        a cluster of n users weighs n − discount, and a new cluster α + discount times the number of
        clusters. "learned": by the data, with the prior Beta(1, 3); ``Beta(a, b)``: with that one.
        The draws of it are then ``posterior_["discount"]``.

    Examples
    --------
    >>> PitmanYor(discount=0.25)
    PitmanYor(discount=0.25)
    >>> PitmanYor("learned")
    PitmanYor(discount=Beta(a=1.0, b=3.0))
    """

    discount: Any
    concentration: Concentration = field(default=PAPER, repr=False)
    n_components: None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "discount", _checked(self.discount))

    @property
    def discount_prior(self) -> Beta | None:
        return self.discount if isinstance(self.discount, Beta) else None

    @property
    def start_discount(self) -> float:
        return float(self.discount if self.discount_prior is None else self.discount_prior.start)

    def draw_discount(self, rng: np.random.Generator) -> float:
        own = self.discount_prior
        return self.start_discount if own is None else own.draw(rng)

    def given(self, discount: Any) -> "PitmanYor":
        return self if self.discount_prior is None else replace(self, discount=discount)

    def record(self, alpha: float, discount: float | None = None) -> PitmanYorRecord:
        own = self.discount_prior
        a, b = (0.0, 0.0) if own is None else (own.a, own.b)
        d = self.start_discount if discount is None or own is None else float(discount)
        return PitmanYorRecord(alpha, d, self.alpha_prior, a, b)

    def approximate(self, counts: NDArray[np.float64]) -> SoftSticks:
        return SoftSticks(counts, self.grid)

    @cached_property
    def grid(self) -> AlphaGrid:
        one = AlphaGrid.of(self.alpha_prior, self.start_alpha)
        own = self.discount_prior
        return one.with_discount(self.discount) if own is None else one.with_beta(own.a, own.b)

    def offset(self, alpha: Any) -> Any:
        return -self.discount + 0.0 * alpha

    def new_weight(self, alpha: Any, n_clusters: Any, n_users: Any) -> Any:  # noqa: ARG002
        return alpha + self.discount * n_clusters

    def __str__(self) -> str:
        return f"pitman-yor({self.discount if self.discount_prior else repr(self.discount)})"
