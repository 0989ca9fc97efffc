"""q(α) q(weights | α): the concentration and the components' weights given soft counts, for a
variational engine.

counts (K,) are sums of q(z_u = k). The weights given α are conjugate, and α is kept on a grid, so
that both together are the best that q can be: p(α) p(weights | α) Π_k weight_k^counts_k over its
integral Z. Components beyond the K have no users, and their q is the prior.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, digamma, expit, gammaln, log_expit, logsumexp

from dualview.distributions import log_gammas
from dualview.partitions.concentration import AlphaPrior

Array = NDArray[np.float64]

_LOG_ALPHA = np.linspace(-40.0, 16.0, 281)
_LOGITS = np.linspace(-8.0, 6.0, 29)  # of discounts
_MORE = 256  # components beyond those of q, where their number has a prior
_NOTHING = np.zeros(1)
_HALF = 0.5  # users, in expectation, that a component has at least where it counts as a cluster


@dataclass(frozen=True)
class AlphaGrid:
    """Values of α (J,), logarithms of their prior probabilities, and discounts (J,)."""

    alpha: Array
    log_prior: Array
    discount: Array = field(default_factory=lambda: np.zeros(1))

    @classmethod
    def of(cls, prior: AlphaPrior, start: float) -> "AlphaGrid":
        """A grid even in ln α; one value where α is known, which is start."""
        if not prior.learned:
            return cls(np.array([start]), _NOTHING)
        alpha = np.exp(_LOG_ALPHA)
        log_density = prior.power * _LOG_ALPHA - prior.rate * alpha - prior.inverse_rate / alpha
        return cls(alpha, log_density - logsumexp(log_density))

    def with_discount(self, discount: float) -> "AlphaGrid":
        """The same with a discount that is known."""
        return replace(self, discount=np.array([discount]))

    def with_beta(self, a: float, b: float) -> "AlphaGrid":
        """Every fourth α with each discount of a grid even in its logit, d ~ Beta(a, b)."""
        log_prior = a * log_expit(_LOGITS) + b * log_expit(-_LOGITS)
        alpha, own = self.alpha[::4], self.log_prior[::4]
        joint = np.add.outer(own - logsumexp(own), log_prior - logsumexp(log_prior))
        n = len(_LOGITS)
        return AlphaGrid(np.repeat(alpha, n), joint.ravel(), np.tile(expit(_LOGITS), len(alpha)))


@dataclass(frozen=True)
class SoftWeights(ABC):
    """q(α) q(weights | α), the best for counts (K,)."""

    counts: Array
    grid: AlphaGrid

    @abstractmethod
    def _log_norms(self) -> Array:
        """ln ∫ p(weights | α) Π_k weight_k^counts_k of every α, (J,)."""

    @abstractmethod
    def _log_means(self) -> Array:
        """E ln weight_k given every α, (J, K)."""

    @abstractmethod
    def _draw(self, rng: np.random.Generator, places: NDArray[np.int64]) -> Array:
        """ln weights (n, K) given α at places (n,) of the grid."""

    @cached_property
    def _log_joint(self) -> Array:
        return np.asarray(self.grid.log_prior + self._log_norms())

    @cached_property
    def shares(self) -> Array:
        """q(α) on the grid, (J,)."""
        return np.asarray(np.exp(self._log_joint - logsumexp(self._log_joint)))

    @cached_property
    def log_weights(self) -> Array:
        """E ln weight_k, (K,)."""
        return np.asarray(self.shares @ self._log_means())

    @cached_property
    def divergence(self) -> float:
        """The Kullback–Leibler divergence of q from the prior."""
        return float(self.counts @ self.log_weights - logsumexp(self._log_joint))

    @property
    @abstractmethod
    def log_orders(self) -> float:
        """ln of the prior of a partition into these components over that of the components in their
        order, (α as q has it).

        A partition does not depend on how its clusters are numbered. q has one numbering, and all
        others are as good: a bound of ln p(data) by partitions is higher by this much, where
        components have users of their own.
        """

    @cached_property
    def _occupied(self) -> Array:
        """Counts of the components with users, of one at least."""
        return np.maximum(self.counts[self.counts >= _HALF], 1.0)

    def draws(self, rng: np.random.Generator, n: int) -> tuple[Array, Array, Array]:
        """α (n,), discounts (n,) and ln weights (n, K)."""
        places = rng.choice(len(self.grid.alpha), n, p=self.shares)
        discount = np.broadcast_to(self.grid.discount, self.grid.alpha.shape)[places]
        return self.grid.alpha[places], discount, self._draw(rng, places)

    def log_ratio(self, log_weights: Array) -> float:
        """ln p − ln q at weights (K,) and any α, up to a constant."""
        return -float(self.counts @ log_weights)


@dataclass(frozen=True)
class SoftSticks(SoftWeights):
    """Weights by breaking sticks: v_k ~ Beta(1 − d, α + k d), weight_k = v_k Π_{l<k} (1 − v_l).

    d, of the grid as α is, is 0 in the Dirichlet process.
    """

    @cached_property
    def _after(self) -> Array:
        """Σ_{l>k} counts_l, (K,)."""
        return np.asarray(self.counts[::-1].cumsum()[::-1] - self.counts)

    def _parameters(self, alpha: Array, discount: Array) -> tuple[Array, Array]:
        """Those of the prior of every stick but for the counts: (…, 1) and (…, K)."""
        numbers = np.arange(1, len(self.counts) + 1)
        return 1.0 - discount[:, None], alpha[:, None] + discount[:, None] * numbers

    def _log_norms(self) -> Array:
        first, second = self._parameters(self.grid.alpha, self.grid.discount)
        return np.asarray(
            (betaln(first + self.counts, second + self._after) - betaln(first, second)).sum(axis=1)
        )

    def _log_means(self) -> Array:
        first, second = self._parameters(self.grid.alpha, self.grid.discount)
        first, second = first + self.counts, second + self._after
        both = digamma(first + second)
        rest = digamma(second) - both
        return np.asarray(digamma(first) - both + np.cumsum(rest, axis=1) - rest)

    @cached_property
    def log_orders(self) -> float:
        counts, alpha, discount = self._occupied, self.grid.alpha, self.grid.discount[:, None]
        opened = np.log(alpha[:, None] + discount * np.arange(len(counts))).sum(axis=1)
        sizes = (gammaln(counts - discount) - gammaln(1.0 - discount)).sum(axis=1)
        partition = opened + gammaln(alpha) - gammaln(alpha + self.counts.sum()) + sizes
        return float(logsumexp(self.grid.log_prior + partition) - logsumexp(self._log_joint))

    def _draw(self, rng: np.random.Generator, places: NDArray[np.int64]) -> Array:
        discount = np.broadcast_to(self.grid.discount, self.grid.alpha.shape)[places]
        first, second = self._parameters(self.grid.alpha[places], discount)
        one = np.log(rng.standard_gamma(np.broadcast_to(first + self.counts, second.shape)))
        other = log_gammas(rng, second + self._after)
        both = np.logaddexp(one, other)
        rest = other - both
        return np.asarray(one - both + np.cumsum(rest, axis=1) - rest)


@dataclass(frozen=True)
class SoftDirichlet(SoftWeights):
    """Weights of n_all (J,) components ~ Dirichlet(own, …, own), of which K have users; own (J,).

    Where the grid has several n_all, they are values of the number of components, with their prior.
    """

    own: Array
    n_all: NDArray[np.int64]

    @classmethod
    def of_number(cls, counts: Array, grid: AlphaGrid, n_all: int) -> "SoftDirichlet":
        """Of as many components, each of which has the weight α/n_all."""
        return cls(counts, grid, grid.alpha / n_all, np.full(len(grid.alpha), n_all))

    @classmethod
    def of_prior(
        cls, counts: Array, grid: AlphaGrid, log_prior: Callable[[NDArray[np.int64]], Array]
    ) -> "SoftDirichlet":
        """Of a number of components with a prior, ln p(numbers), each with the weight α; numbers
        are cut off ``_MORE`` beyond those of q, or a quarter of it where α is learned."""
        alpha, own_prior = grid.alpha, grid.log_prior
        n_more = _MORE
        if len(alpha) > 1:
            alpha, own_prior, n_more = alpha[::4], own_prior[::4], _MORE // 4
        numbers = len(counts) + np.arange(n_more + 1)
        joint = np.add.outer(own_prior - logsumexp(own_prior), log_prior(numbers)).ravel()
        both = AlphaGrid(np.repeat(alpha, len(numbers)), joint)
        return cls(counts, both, both.alpha, np.tile(numbers, len(alpha)))

    def _log_norms(self) -> Array:
        own, total = self.own[:, None], self.own * self.n_all
        norms = gammaln(total) - gammaln(total + self.counts.sum())
        return np.asarray(norms + (gammaln(own + self.counts) - gammaln(own)).sum(axis=1))

    def _log_means(self) -> Array:
        total = (self.own * self.n_all)[:, None]
        return np.asarray(
            digamma(self.own[:, None] + self.counts) - digamma(total + self.counts.sum())
        )

    @cached_property
    def log_orders(self) -> float:
        n_all = self.n_all.astype(np.float64)
        orders = gammaln(n_all + 1.0) - gammaln(n_all - len(self._occupied) + 1.0)
        return float(logsumexp(self._log_joint + orders) - logsumexp(self._log_joint))

    def _draw(self, rng: np.random.Generator, places: NDArray[np.int64]) -> Array:
        own, n_empty = self.own[places], self.n_all[places] - len(self.counts)
        logs = log_gammas(rng, own[:, None] + self.counts)
        some, rest = n_empty > 0, np.full(len(places), -np.inf)
        rest[some] = log_gammas(rng, (n_empty * own)[some])
        return np.asarray(logs - np.logaddexp(np.logaddexp.reduce(logs, axis=1), rest)[:, None])


@dataclass(frozen=True)
class OneWeight(SoftWeights):
    """One component, which weighs 1."""

    def _log_norms(self) -> Array:
        return _NOTHING

    def _log_means(self) -> Array:
        return np.zeros((1, 1))

    @property
    def log_orders(self) -> float:
        return 0.0

    def _draw(self, rng: np.random.Generator, places: NDArray[np.int64]) -> Array:  # noqa: ARG002
        return np.zeros((len(places), 1))
