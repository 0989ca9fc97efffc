"""The predictive distribution of a family whose expectation over a normal location has no closed
form: by quadrature, once for all such families."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dualview.behaviors.families.base import Array, Mixture, Outcome, Parts
from dualview.checks import checked_probability, draws_generator

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(30)  # about the peak of an integrand
_GRID = np.linspace(-8.0, 8.0, 161)  # of a normal distribution, in standard deviations
_SHARES = np.exp(-0.5 * _GRID**2) / np.exp(-0.5 * _GRID**2).sum()
_STEPS = 30  # of Newton's method, and of doublings of a bound


class CountingOutcome(Outcome):
    """The distribution of whole numbers from 0 given their locations. A subclass adds
    ``log_density``, ``derivatives``, ``draw`` and what is here."""

    @abstractmethod
    def moments(self, locations: Array) -> tuple[Array, Array]:
        """Expectation and variance of each observation."""

    @abstractmethod
    def below(self, values: Array, locations: Array) -> Array:
        """Probability of an observation up to each value."""

    def predictive(
        self, n: int, n_components: int, parts: Callable[[slice], Parts]
    ) -> "QuadratureMixture":
        return QuadratureMixture(n, n_components, parts, self)


class QuadratureMixture(Mixture):
    """Σ_s w_s E p(y | N(location_s, sd_s²)) of whole numbers in each of n cases."""

    has_gaps = True

    def __init__(
        self,
        n: int,
        n_components: int,
        parts: Callable[[slice], Parts],
        outcome: CountingOutcome,
    ) -> None:
        super().__init__(n, n_components, parts)
        self._outcome = outcome

    def _besides(self, sources: Sequence[Mixture]) -> tuple[Any, ...]:  # noqa: ARG002
        return (self._outcome,)

    def _components(self) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Some cases with their weights, locations and standard deviations, each (S, cases)."""
        for cases, (log_weights, locations, sds) in self._batches():
            weights = np.broadcast_to(np.exp(log_weights), locations.shape)
            sds = np.broadcast_to(sds, locations.shape)
            yield cases, weights / weights.sum(axis=0), locations, sds

    @staticmethod
    def _nodes(locations: Array, sds: Array) -> Iterator[tuple[Array, float]]:
        """Locations of a grid, and the share of each; one where nothing is unsure."""
        if not sds.any():
            yield locations, 1.0
            return
        for place, share in zip(_GRID, _SHARES, strict=True):
            yield locations + place * sds, float(share)

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        first, second = np.zeros((2, self._n))
        for cases, weights, locations, sds in self._components():
            for place, share in self._nodes(locations, sds):
                mean, variance = self._outcome.moments(place)
                first[cases] += share * (weights * mean).sum(axis=0)
                second[cases] += share * (weights * (variance + mean**2)).sum(axis=0)
        return first, np.sqrt(np.maximum(second - first**2, 0.0))

    @property
    def mean(self) -> Array:
        """Expected value of each case."""
        return self._moments[0]

    @property
    def std(self) -> Array:
        """Standard deviation of each case."""
        return self._moments[1]

    def _below(self, values: Array) -> Array:
        """Probabilities of up to values (n,)."""
        found = np.zeros(self._n)
        for cases, weights, locations, sds in self._components():
            for place, share in self._nodes(locations, sds):
                own = self._outcome.below(values[cases], place)
                found[cases] += share * (weights * own).sum(axis=0)
        return np.minimum(found, 1.0)

    def _tails(self, y: ArrayLike) -> tuple[Array, Array]:
        values = self._values(y)
        less = np.where(values > 0.0, self._below(np.maximum(values - 1.0, 0.0)), 0.0)
        return less, 1.0 - self._below(values)

    def quantile(self, probability: float) -> Array:
        """The number that has this probability at or below it, by bisection."""
        probability = checked_probability(probability, "A quantile's")
        low, high = np.full(self._n, -1.0), np.maximum(np.ceil(2.0 * self.mean), 1.0)
        for _ in range(_STEPS):
            short = self._below(high) < probability
            if not short.any():
                break
            low, high = np.where(short, high, low), np.where(short, 2.0 * high, high)
        while (high - low > 1.0).any():
            middle = np.floor(0.5 * (low + high))
            short = self._below(np.maximum(middle, 0.0)) < probability
            inside = high - low > 1.0
            low, high = (
                np.where(inside & short, middle, low),
                np.where(inside & ~short, middle, high),
            )
        return high

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent draws of each case, (n, cases)."""
        rng = draws_generator(n, seed, self._n)
        result = np.empty((n, self._n))
        for cases, weights, locations, sds in self._components():
            for i in range(locations.shape[1]):
                chosen = rng.choice(len(weights), n, p=weights[:, i])
                place = locations[chosen, i] + sds[chosen, i] * rng.standard_normal(n)
                own = self._outcome.of_draws(chosen)
                result[:, cases.start + i] = own.draw(rng, place[:, None], slice(0, 1))[:, 0]
        return result

    def log_density(self, y: ArrayLike) -> Array:
        """Log probability of the numbers y (n,): Gauss–Hermite nodes about the peak of each
        integrand."""
        values, result = self._values(y), np.empty(self._n)
        for cases, weights, locations, sds in self._components():
            with np.errstate(divide="ignore"):
                own = np.log(weights) + self._log_expected(values[cases], locations, sds, cases)
            result[cases] = np.logaddexp.reduce(own, axis=0)
        return result

    def _log_expected(self, values: Array, locations: Array, sds: Array, cases: slice) -> Array:
        """ln E p(y | N(location, sd²)) of each component, (S, cases)."""
        if not sds.any():
            return self._outcome.log_density(values, locations, cases)
        wide = np.where(sds > 0.0, sds, 1.0)
        peak, scale = self._peak(values, locations, wide)
        total = np.full(locations.shape, -np.inf)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            place = peak + scale * node
            log_integrand = self._outcome.log_density(values, place, cases)
            log_integrand = log_integrand - 0.5 * ((place - locations) / wide) ** 2
            total = np.logaddexp(total, np.log(weight) + 0.5 * node**2 + log_integrand)
        total += np.log(scale / wide) - 0.5 * np.log(2.0 * np.pi)
        exact = self._outcome.log_density(values, locations, cases)
        return np.where(sds > 0.0, total, exact)

    def _peak(self, values: Array, locations: Array, sds: Array) -> tuple[Array, Array]:
        """Where each integrand is highest, and its width there, by Newton steps of at most 2."""
        peak = np.array(locations)
        for _ in range(_STEPS):
            slope, bend = self._outcome.derivatives(values, peak)
            step = (slope - (peak - locations) / sds**2) / (bend + sds**-2.0)
            peak = peak + np.clip(step, -2.0, 2.0)
            if np.abs(step).max(initial=0.0) < 1e-8:
                break
        return peak, (self._outcome.derivatives(values, peak)[1] + sds**-2.0) ** -0.5
