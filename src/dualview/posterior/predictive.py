"""Predictive distributions that are mixtures of normals, one component per draw."""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr

from dualview.checks import numbers
from dualview.errors import InputError

Array = NDArray[np.float64]

_CELLS = 4_000_000  # draws × cases held at once


class NormalMixture:
    """Σ_i w_i N(y; location_i, sd_i²) for each of n cases, i over the draws of the posterior.

    ``locations(cases)`` gives the locations (S, cases) of a slice of the cases, so that only a batch is ever held.
    """

    def __init__(self, n: int, locations: Callable[[slice], Array], sd: Array, log_weights: Array | None = None) -> None:
        self._n = n
        self._locations = locations
        self._sd = np.asarray(sd, dtype=float)
        n_draws = len(self._sd)
        self._log_weights = np.full(n_draws, -np.log(n_draws)) if log_weights is None else log_weights

    def __len__(self) -> int:
        return self._n

    def _batches(self) -> Iterator[tuple[slice, Array]]:
        size = max(1, _CELLS // len(self._sd))
        for first in range(0, self._n, size):
            cases = slice(first, min(first + size, self._n))
            yield cases, self._locations(cases)

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        weights = np.exp(self._log_weights)
        mean, variance = np.empty(self._n), np.empty(self._n)
        for cases, locations in self._batches():
            mean[cases] = weights @ locations
            variance[cases] = weights @ ((locations - mean[cases]) ** 2 + self._sd[:, None] ** 2)
        return mean, variance

    @property
    def mean(self) -> Array:
        """Expected value of each case."""
        return self._moments[0]

    @property
    def std(self) -> Array:
        """Standard deviation of each case."""
        return np.sqrt(self._moments[1])

    def log_density(self, y: ArrayLike) -> Array:
        """Log of the mean density at y (n,)."""
        values = numbers(y, "y", n_dims=1)
        if len(values) != self._n:
            raise InputError(f"y must have one value per case, {self._n}; got {len(values)}.")
        result = np.empty(self._n)
        constant = (self._log_weights - np.log(self._sd) - 0.5 * np.log(2 * np.pi))[:, None]
        for cases, locations in self._batches():
            standard = (values[cases] - locations) / self._sd[:, None]
            result[cases] = logsumexp(constant - 0.5 * standard**2, axis=0)
        return result

    def nll(self, y: ArrayLike) -> float:
        """Negative log-likelihood per case."""
        return -float(self.log_density(y).mean())

    def quantile(self, probability: float) -> Array:
        """Quantile of each case, by bisection of the mixture's distribution function."""
        if not 0 < probability < 1:
            raise InputError(f"A probability between 0 and 1 is wanted; got {probability!r}.")
        weights = np.exp(self._log_weights)
        result = np.empty(self._n)
        for cases, locations in self._batches():
            reach = 40.0 * self._sd[:, None]
            low, high = (locations - reach).min(axis=0), (locations + reach).max(axis=0)
            for _ in range(100):
                middle = 0.5 * (low + high)
                below = weights @ ndtr((middle - locations) / self._sd[:, None])
                low, high = (
                    np.where(below < probability, middle, low),
                    np.where(below < probability, high, middle),
                )
                if np.all(high - low <= 1e-10 * (np.abs(low) + np.abs(high)) + 1e-300):
                    break
            result[cases] = 0.5 * (low + high)
        return result

    def interval(self, probability: float = 0.95) -> Array:
        """Central interval of each case, (n, 2)."""
        if not 0 < probability < 1:
            raise InputError(f"An interval's probability lies between 0 and 1; got {probability!r}.")
        tail = 0.5 * (1 - probability)
        return np.column_stack([self.quantile(tail), self.quantile(1 - tail)])

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n draws of each case, (n, cases); a case's draws share the posterior's draws with the other cases'."""
        rng = np.random.default_rng(seed)
        weights = np.exp(self._log_weights)
        chosen = rng.choice(len(weights), size=n, p=weights / weights.sum())
        result = np.empty((n, self._n))
        for cases, locations in self._batches():
            noise = rng.standard_normal((n, locations.shape[1]))
            result[:, cases] = locations[chosen] + noise * self._sd[chosen, None]
        return result
