"""Predictive distributions that are mixtures of normals, over the draws of a posterior and what each draw leaves open."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr

from dualview.checks import numbers
from dualview.errors import InputError

Array = NDArray[np.float64]

_CELLS = 2_000_000  # components × cases held at once


class Parts(NamedTuple):
    """Components of some cases: log weights, locations and standard deviations, each (S, cases) or (S, 1)."""

    log_weights: Array
    locations: Array
    sds: Array


class NormalMixture:
    """Σ_s w_s N(y; location_s, sd_s²) for each of n cases.

    ``parts(cases)`` gives the S components of a slice of the cases, so that only a batch of cases is ever held. Weights of a
    case sum to one.
    """

    def __init__(self, n: int, n_components: int, parts: Callable[[slice], Parts]) -> None:
        self._n = n
        self._n_components = n_components
        self._parts = parts

    @classmethod
    def over_draws(cls, n: int, locations: Callable[[slice], Array], sds: Array) -> "NormalMixture":
        """One component per draw, all alike in weight: locations (S, cases) of a slice of the cases, sds (S,)."""
        log_weights = np.full((len(sds), 1), -np.log(len(sds)))
        return cls(n, len(sds), lambda cases: Parts(log_weights, locations(cases), sds[:, None]))

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        return f"NormalMixture({self._n} cases, {self._n_components} components each)"

    def _batches(self) -> Iterator[tuple[slice, Parts]]:
        size = max(1, _CELLS // self._n_components)
        for first in range(0, self._n, size):
            cases = slice(first, min(first + size, self._n))
            yield cases, self._parts(cases)

    def _values(self, y: ArrayLike) -> Array:
        values = numbers(y, "y", n_dims=1)
        if len(values) != self._n:
            raise InputError(f"y must have one value per case, {self._n}; got {len(values)}.")
        return values

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        mean, variance = np.empty(self._n), np.empty(self._n)
        for cases, (log_weights, locations, sds) in self._batches():
            weights = np.exp(log_weights)
            mean[cases] = (weights * locations).sum(axis=0)
            variance[cases] = (weights * ((locations - mean[cases]) ** 2 + sds**2)).sum(axis=0)
        return mean, variance

    @property
    def mean(self) -> Array:
        """Expected value of each case."""
        return self._moments[0]

    @property
    def std(self) -> Array:
        """Standard deviation of each case.

        For users new to the fit it may be any large number when the number of clusters is inferred: the variance of a cluster
        that nobody is in has no expectation. ``interval`` is always meaningful.
        """
        return np.asarray(np.sqrt(self._moments[1]))

    def log_density(self, y: ArrayLike) -> Array:
        """Log of the mean density at y (n,); there is none where a component is a single value (standard deviation 0)."""
        values = self._values(y)
        result = np.empty(self._n)
        for cases, (log_weights, locations, sds) in self._batches():
            if not np.all(sds > 0):
                raise InputError(
                    "There is no density here: some of the draws have a single value, as the latent behaviour of a cluster "
                    "does when its users share one. cdf, quantile, interval and draws are there."
                )
            standard = (values[cases] - locations) / sds
            result[cases] = logsumexp(log_weights - np.log(sds) - 0.5 * standard**2, axis=0)
        return np.asarray(result - 0.5 * np.log(2 * np.pi))

    def nll(self, y: ArrayLike) -> float:
        """Negative log-likelihood per case: minus the mean of ``log_density``."""
        return -float(self.log_density(y).mean())

    def cdf(self, y: ArrayLike) -> Array:
        """Probability of an outcome up to y (n,)."""
        values = self._values(y)
        result = np.empty(self._n)
        for cases, parts in self._batches():
            result[cases] = _cdf(parts, values[cases])
        return result

    def quantile(self, probability: float) -> Array:
        """Quantile of each case, by bisection of the mixture's distribution function."""
        if not 0 < probability < 1:
            raise InputError(f"A quantile's probability lies between 0 and 1; got {probability!r}.")
        result = np.empty(self._n)
        for cases, parts in self._batches():
            low, high = _reach(parts)
            while np.any(high - low > 1e-9 * (np.abs(low) + np.abs(high)) + 1e-300):
                middle = 0.5 * (low + high)
                below = _cdf(parts, middle) < probability
                low, high = np.where(below, middle, low), np.where(below, high, middle)
            result[cases] = 0.5 * (low + high)
        return result

    def interval(self, probability: float = 0.95) -> Array:
        """Central interval of each case, (n, 2): quantiles of the mixture, not a normal approximation of it."""
        if not 0 < probability < 1:
            raise InputError(f"An interval's probability lies between 0 and 1; got {probability!r}.")
        tail = 0.5 * (1 - probability)
        return np.column_stack([self.quantile(tail), self.quantile(1 - tail)])

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent draws of each case, (n, cases)."""
        rng = np.random.default_rng(seed)
        result = np.empty((n, self._n))
        for cases, (log_weights, locations, sds) in self._batches():
            size = locations.shape[1]
            cumulative = np.cumsum(np.broadcast_to(np.exp(log_weights), locations.shape), axis=0)
            for i in range(size):
                uniforms = rng.random(n) * cumulative[-1, i]
                chosen = np.searchsorted(cumulative[:, i], uniforms, side="right")
                spread = np.broadcast_to(sds, locations.shape)[chosen, i]
                result[:, cases.start + i] = locations[chosen, i] + spread * rng.standard_normal(n)
        return result


def _cdf(parts: Parts, values: Array) -> Array:
    away, spread = values - parts.locations, parts.sds > 0
    below = ndtr(away / np.where(spread, parts.sds, 1.0))
    if not spread.all():
        below = np.where(spread, below, away >= 0)
    return np.asarray((np.exp(parts.log_weights) * below).sum(axis=0))


def _reach(parts: Parts) -> tuple[Array, Array]:
    """Bounds with practically no probability outside."""
    return (parts.locations - 40.0 * parts.sds).min(axis=0), (parts.locations + 40.0 * parts.sds).max(axis=0)
