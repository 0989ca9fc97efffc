"""q(α) q(weights | α): the concentration and the components' weights given soft counts, for a
variational engine.

counts (K,) are sums of q(z_u = k). The weights given α are conjugate, and α is kept on a grid, so
that both together are the best that q can be: p(α) p(weights | α) Π_k weight_k^counts_k over its
integral Z. Components beyond the K have no users, and their q is the prior.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, digamma, gammaln, logsumexp

from dualview.distributions import log_gammas
from dualview.partitions.concentration import AlphaPrior

Array = NDArray[np.float64]

_LOG_ALPHA = np.linspace(-40.0, 16.0, 281)
_NOTHING = np.zeros(1)
_HALF = 0.5  # users, in expectation, that a component has at least where it counts as a cluster


@dataclass(frozen=True)
class AlphaGrid:
    """Values of α (J,) and logarithms of their prior probabilities."""

    alpha: Array
    log_prior: Array

    @classmethod
    def of(cls, prior: AlphaPrior, start: float) -> "AlphaGrid":
        """A grid even in ln α; one value where α is known, which is start."""
        if not prior.learned:
            return cls(np.array([start]), _NOTHING)
        alpha = np.exp(_LOG_ALPHA)
        log_density = prior.power * _LOG_ALPHA - prior.rate * alpha - prior.inverse_rate / alpha
        return cls(alpha, log_density - logsumexp(log_density))


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
    def _draw(self, rng: np.random.Generator, alpha: Array) -> Array:
        """ln weights (n, K) given α (n,)."""

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

    def draws(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """α (n,) and ln weights (n, K)."""
        alpha = rng.choice(self.grid.alpha, n, p=self.shares)
        return alpha, self._draw(rng, alpha)

    def log_ratio(self, log_weights: Array) -> float:
        """ln p − ln q at weights (K,) and any α, up to a constant."""
        return -float(self.counts @ log_weights)


@dataclass(frozen=True)
class SoftSticks(SoftWeights):
    """Weights by breaking sticks: v_k ~ Beta(1 − d, α + k d), weight_k = v_k Π_{l<k} (1 − v_l).

    d = 0 is the Dirichlet process.
    """

    discount: float = 0.0

    @cached_property
    def _after(self) -> Array:
        """Σ_{l>k} counts_l, (K,)."""
        return np.asarray(self.counts[::-1].cumsum()[::-1] - self.counts)

    def _parameters(self, alpha: Array) -> tuple[Array, Array]:
        """Those of the prior of every stick but for the counts: (1,) and (…, K)."""
        numbers = np.arange(1, len(self.counts) + 1)
        return np.array(1.0 - self.discount), alpha[:, None] + self.discount * numbers

    def _log_norms(self) -> Array:
        first, second = self._parameters(self.grid.alpha)
        return np.asarray(
            (betaln(first + self.counts, second + self._after) - betaln(first, second)).sum(axis=1)
        )

    def _log_means(self) -> Array:
        first, second = self._parameters(self.grid.alpha)
        first, second = first + self.counts, second + self._after
        both = digamma(first + second)
        rest = digamma(second) - both
        return np.asarray(digamma(first) - both + np.cumsum(rest, axis=1) - rest)

    @cached_property
    def log_orders(self) -> float:
        counts, alpha, discount = self._occupied, self.grid.alpha, self.discount
        opened = np.log(alpha[:, None] + discount * np.arange(len(counts))).sum(axis=1)
        sizes = float((gammaln(counts - discount) - gammaln(1.0 - discount)).sum())
        partition = opened + gammaln(alpha) - gammaln(alpha + self.counts.sum()) + sizes
        return float(logsumexp(self.grid.log_prior + partition) - logsumexp(self._log_joint))

    def _draw(self, rng: np.random.Generator, alpha: Array) -> Array:
        first, second = self._parameters(alpha)
        one = np.log(rng.standard_gamma(np.broadcast_to(first + self.counts, second.shape)))
        other = log_gammas(rng, second + self._after)
        both = np.logaddexp(one, other)
        rest = other - both
        return np.asarray(one - both + np.cumsum(rest, axis=1) - rest)


@dataclass(frozen=True)
class SoftDirichlet(SoftWeights):
    """Weights of n_all components ~ Dirichlet(α/n_all, …), of which K have users."""

    n_all: int = field(default=1)

    def _log_norms(self) -> Array:
        alpha = self.grid.alpha
        own = alpha[:, None] / self.n_all
        total = gammaln(alpha) - gammaln(alpha + self.counts.sum())
        return np.asarray(total + (gammaln(own + self.counts) - gammaln(own)).sum(axis=1))

    def _log_means(self) -> Array:
        alpha = self.grid.alpha[:, None]
        return np.asarray(
            digamma(alpha / self.n_all + self.counts) - digamma(alpha + self.counts.sum())
        )

    @property
    def log_orders(self) -> float:
        return float(gammaln(self.n_all + 1.0) - gammaln(self.n_all - len(self._occupied) + 1.0))

    def _draw(self, rng: np.random.Generator, alpha: Array) -> Array:
        own = alpha[:, None] / self.n_all
        logs = log_gammas(rng, own + self.counts)
        n_empty = self.n_all - len(self.counts)
        total = np.logaddexp.reduce(logs, axis=1)
        if n_empty:
            total = np.logaddexp(total, log_gammas(rng, n_empty * own[:, 0]))
        return np.asarray(logs - total[:, None])


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

    def _draw(self, rng: np.random.Generator, alpha: Array) -> Array:  # noqa: ARG002
        return np.zeros((len(alpha), 1))
