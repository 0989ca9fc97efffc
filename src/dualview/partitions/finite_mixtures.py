"""Mixtures of finite mixtures (Miller and Harrison 2018): K components, K with a prior of its own,
and weights ~ Dirichlet(γ, …, γ).

A component need not have users. With t clusters, those components that have some, and n customers

    p(partition | γ) = V_n(t) Π_c Γ(γ + n_c) / Γ(γ),
    V_n(t) = Σ_{k ≥ t} p(K = k) k! / (k − t)! · Γ(γ k) / Γ(γ k + n),

so that a cluster weighs n_c + γ and a new one γ V_n(t + 1) / V_n(t), n counting whoever chooses.
The concentration α of other priors is γ here. V_n(t) is kept in logarithms, without its factor
1/Γ(n), which all t share.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.kinds import register
from dualview.numerics.slice_sampling import sampler
from dualview.numerics.special import log_gamma, log_rising
from dualview.partitions.alpha import Concentration, Known
from dualview.partitions.components import (
    Components,
    components_prior,
    components_text,
    log_chance,
)
from dualview.partitions.concentration import AlphaPrior, log_alpha_prior
from dualview.partitions.priors import PartitionPrior
from dualview.partitions.soft import SoftDirichlet, SoftWeights

Array = NDArray[np.float64]

_SLOTS = 64  # of the memo
_LEAST = 1e-16  # of a sum is too little to look for
_FEW = 64  # terms are added one by one in any case
_SLOW = 0.01  # change of a term, of which sums are integrals to all digits that matter
# Gauss and Legendre's rule with eight points, the half of it above 0.
NODES = (0.1834346424956498, 0.5255324099163290, 0.7966664774136267, 0.9602898564975363)
WEIGHTS = (0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763)


class FiniteMixturesRecord(NamedTuple):
    """alpha: γ. components: the prior of K. prior: that of γ.

    keys (S, 2), values (S,): a memo of coefficients by clusters and customers. A coefficient is the
    same whether it is kept there or not.
    """

    alpha: float
    components: Components
    prior: AlphaPrior
    keys: NDArray[np.int64]
    values: Array


@compiled
def finite_mixtures(alpha, components, prior):
    """The record with this γ, and nothing in its memo."""
    keys, values = np.full((_SLOTS, 2), -1, dtype=np.int64), np.zeros(_SLOTS)
    return FiniteMixturesRecord(alpha, components, prior, keys, values)


@in_place
def log_beta(x, n):
    """lnΓ(x) + lnΓ(n) − lnΓ(x + n), with its digits where one of them is large."""
    low, high = min(x, n), max(x, n)
    return log_gamma(low) - log_rising(high, low)


@in_place
def log_term(k, n_clusters, n, alpha, components):
    """ln of the part of V_n(t) Γ(n) for K = k, which need not be whole."""
    ways = log_rising(k - n_clusters + 1.0, float(n_clusters))
    return log_chance(k, components) + ways + log_beta(alpha * k, float(n))


@in_place
def log_integral(start, n_clusters, n, alpha, components):
    """ln ∫ of the terms from start to infinity, by Gauss and Legendre's rule on steps of ln k in
    which no term changes by more than a few times."""
    at, width, top, total = math.log(start), 0.1, -math.inf, 0.0
    last = log_term(start, n_clusters, n, alpha, components) + at
    while True:
        ahead = log_term(math.exp(at + width), n_clusters, n, alpha, components) + at + width
        if abs(ahead - last) > 2.0:
            width *= 0.5
            continue
        if max(last, ahead) > top:
            total *= math.exp(top - max(last, ahead))
            top = max(last, ahead)
        for i in range(4):
            for sign in (-0.5, 0.5):
                u = at + width * (0.5 + sign * NODES[i])
                own = log_term(math.exp(u), n_clusters, n, alpha, components) + u
                total += 0.5 * width * WEIGHTS[i] * math.exp(own - top)
        slope = (last - ahead) / width
        if slope > 0.5 and math.exp(ahead - top) < _LEAST * slope * total:
            return top + math.log(total)
        at, last, width = at + width, ahead, min(2.0 * width, 0.5)


@in_place
def log_sum(n_clusters, n, alpha, components):
    """ln V_n(t) + lnΓ(n) for t = n_clusters; n ≥ 1.

    Terms are added from k = t on. Once they change slowly, by less than a hundredth, the rest is an
    integral from halfway before the next one, by the formula of Euler and Maclaurin.
    """
    k = max(n_clusters, 1)
    top, total, last = -math.inf, 0.0, -math.inf
    while True:
        term = log_term(float(k), n_clusters, n, alpha, components)
        if k >= n_clusters + _FEW and abs(term - last) < _SLOW:
            rest = log_integral(k - 0.5, n_clusters, n, alpha, components)
            total += math.exp(last - top) * math.expm1(term - last) / 24.0
            both = max(top, rest)
            return both + math.log(total * math.exp(top - both) + math.exp(rest - both))
        if term > top:
            total = total * math.exp(top - term) + 1.0
            top = term
        else:
            total += math.exp(term - top)
        if term < last and math.exp(term - top) < _LEAST * -math.expm1(term - last) * total:
            return top + math.log(total)
        last = term
        k += 1


@in_place
def log_coefficient(n_clusters, n, partition):
    """ln V_n(t) + lnΓ(n), from the memo where it is there."""
    slot = (n_clusters + 29 * n) % _SLOTS
    keys, values = partition.keys, partition.values
    if keys[slot, 0] != n_clusters or keys[slot, 1] != n:
        values[slot] = log_sum(n_clusters, n, partition.alpha, partition.components)
        keys[slot, 0], keys[slot, 1] = n_clusters, n
    return values[slot]


@compiled
def opens(partition):  # noqa: ARG001
    return True


@compiled
def weight(n, partition):
    return n + partition.alpha


@in_place
def new_weight(n_clusters, n_users, partition):
    return partition.alpha * math.exp(log_another(n_clusters, n_users + 1, partition))


@compiled
def log_cluster(n, partition):
    return log_rising(partition.alpha, float(n))


@in_place
def log_another(n_clusters, n_users, partition):
    more = log_coefficient(n_clusters + 1, n_users, partition)
    return more - log_coefficient(n_clusters, n_users, partition)


@compiled
def log_density(counts, partition):
    total, n = log_alpha_prior(partition.alpha, partition.prior), 0
    for c in range(counts.shape[0]):
        total += log_cluster(counts[c], partition)
        n += counts[c]
    return total + log_coefficient(counts.shape[0], n, partition) - log_gamma(float(n))


@in_place
def log_alpha_density(log_alpha, parameters):
    """Log density of y = ln γ given the partition; parameters: counts, the priors of K and of γ. 0
    beyond the range of numbers."""
    if abs(log_alpha) > 600.0:
        return -math.inf
    counts, components, prior = parameters
    alpha, n = math.exp(log_alpha), 0
    total = log_alpha + log_alpha_prior(alpha, prior)
    for c in range(counts.shape[0]):
        total += log_rising(alpha, float(counts[c]))
        n += counts[c]
    return total + log_sum(counts.shape[0], n, alpha, components)


_sample_log_alpha = sampler(log_alpha_density)


@compiled
def redraw(rng, counts, partition):
    if not partition.prior.learned:
        return partition
    parameters = (counts, partition.components, partition.prior)
    alpha = math.exp(_sample_log_alpha(rng, parameters, math.log(partition.alpha), 2.0))
    return finite_mixtures(alpha, partition.components, partition.prior)


@compiled
def concentration(partition):
    return partition.alpha


@compiled
def discount(partition):  # noqa: ARG001
    return 0.0


register(
    FiniteMixturesRecord,
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


@compiled
def new_weights(alpha, n_clusters, n_users, components, prior):
    """What a new cluster weighs, for arrays (N,) of γ, clusters and customers."""
    found = np.empty(alpha.shape[0])
    partition = finite_mixtures(alpha[0], components, prior)
    for i in range(alpha.shape[0]):
        if alpha[i] != partition.alpha:
            partition = finite_mixtures(alpha[i], components, prior)
        found[i] = new_weight(n_clusters[i], n_users[i], partition)
    return found


@dataclass(frozen=True)
class FiniteMixtures(PartitionPrior):
    """The number of clusters is inferred, under a prior of the number of components of a finite
    mixture (Miller and Harrison 2018).

    Unlike under a Dirichlet process, the number of clusters does not grow without end as users
    come: there are K components, and the more users, the closer the number of clusters is to K. The
    weight γ of a component is what ``alpha`` of the estimator says: 1 by default, which is the
    uniform distribution over the components' weights; a prior, such as ``dv.Gamma``, learns it.

    Parameters
    ----------
    components : str
        The prior of K: ``"poisson(MEAN)"`` of K − 1, ``"geometric(P)"``, or
        ``"beta-negative-binomial(SHAPE, A, B)"`` of K − 1. The default, with parameters 1, 4 and 3,
        has a mean of 2, a probability of 4/7 of one component, and a tail that is heavy enough for
        many: Frühwirth-Schnatter, Malsiner-Walli and Grün (2021) recommend it.

    Examples
    --------
    >>> FiniteMixtures()
    FiniteMixtures(components='beta-negative-binomial(1, 4, 3)')
    >>> FiniteMixtures("geometric(0.1)")
    FiniteMixtures(components='geometric(0.1)')
    """

    components: str = "beta-negative-binomial(1, 4, 3)"
    concentration: Concentration = field(default=Known(1.0), repr=False)
    n_components: None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "components", components_text(self.components))

    @cached_property
    def numbers(self) -> Components:
        """The prior of K as numbers, for compiled code."""
        return components_prior(self.components)

    def log_components(self, numbers: NDArray[np.int64]) -> Array:
        """ln p(K) of some numbers of components."""
        return np.array([log_chance(float(k), self.numbers) for k in numbers])

    def record(
        self,
        alpha: float,
        discount: float | None = None,  # noqa: ARG002
    ) -> FiniteMixturesRecord:
        found: FiniteMixturesRecord = finite_mixtures(float(alpha), self.numbers, self.alpha_prior)
        return found

    def approximate(self, counts: Array) -> SoftWeights:
        return SoftDirichlet.of_prior(counts, self.grid, self.log_components)

    def offset(self, alpha: Any) -> Any:
        return 1.0 * alpha

    def new_weight(self, alpha: Any, n_clusters: Any, n_users: Any) -> Any:
        given = np.broadcast_arrays(alpha, n_clusters, n_users)
        alphas, clusters, users = (np.atleast_1d(part).ravel() for part in given)
        found = new_weights(
            alphas.astype(np.float64),
            clusters.astype(np.int64),
            users.astype(np.int64),
            self.numbers,
            self.alpha_prior,
        ).reshape(given[0].shape)
        return found if found.ndim else float(found)

    def draw(self, rng: np.random.Generator, n_users: int, alpha: float) -> NDArray[np.int64]:
        """A partition from the prior: K, then weights, then labels."""
        k, level = 1, rng.random()
        while level > (chance := math.exp(log_chance(float(k), self.numbers))) > 0.0:
            level -= chance
            k += 1
        z = rng.choice(k, n_users, p=rng.dirichlet(np.full(k, alpha)))
        _, first, labels = np.unique(z, return_index=True, return_inverse=True)
        return np.asarray(np.argsort(np.argsort(first))[labels], dtype=np.int64)

    def __str__(self) -> str:
        return f"finite-mixtures({self.components})"
