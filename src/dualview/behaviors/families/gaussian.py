"""The Gaussian family: numbers with normal noise about their locations."""

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr

from dualview.behaviors.approximation.latent import expected_log_noise
from dualview.behaviors.families.base import (
    Array,
    Family,
    FamilyFactor,
    Given,
    Mixture,
    Moments,
    Outcome,
    Params,
    Parts,
    Rows,
    Users,
)
from dualview.behaviors.families.noise import KnownNoise, Noise, SharedNoise
from dualview.checks import checked_probability, draws_generator, interval_ends
from dualview.distributions import G
from dualview.errors import InputError
from dualview.numerics.mixtures import quantiles

_FEWEST_COMPONENTS, _LARGE_SHARE = 50, 0.2  # for telling that a mean rests on few components
NO_DENSITY = (
    "There is no density here: some draws have a single value, as the latent behavior of a "
    "cluster does when its users "
    "share one. Use interval and draws."
)


class NormalOutcome(Outcome):
    """Numbers with normal noise about their locations.

    sds: standard deviations of the noise in S draws, (S,); or sds(cases), (S, cases), where
    observations differ.
    """

    def __init__(self, sds: ArrayLike | Callable[[slice], Array]) -> None:
        self._sds: Array | Callable[[slice], Array] = (
            sds if callable(sds) else np.asarray(sds, dtype=float)
        )

    def spread(self, cases: slice) -> Array:
        """Standard deviations of some observations, (S, cases) or (S, 1)."""
        return self._sds(cases) if callable(self._sds) else self._sds[:, None]

    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:
        """ln N(values; locations, sds²), (S, cases)."""
        sds = self.spread(cases)
        if not np.all(sds > 0):
            raise InputError(NO_DENSITY)
        return np.asarray(
            -0.5 * np.log(2 * np.pi) - np.log(sds) - 0.5 * ((values - locations) / sds) ** 2
        )

    def of_draws(self, draws: NDArray[np.intp]) -> "NormalOutcome":
        other, sds = copy(self), self._sds
        other._sds = (lambda cases: sds(cases)[draws]) if callable(sds) else sds[draws]
        return other

    def augment(
        self,
        rng: np.random.Generator,  # noqa: ARG002
        values: Array,
        locations: Array,
    ) -> tuple[Array, Array]:
        """They are normal as they are."""
        precision = self.spread(slice(0, len(locations)))[0] ** -2.0
        return values - locations, np.broadcast_to(precision, locations.shape)

    def draw(self, rng: np.random.Generator, locations: Array, cases: slice) -> Array:
        """Locations with normal noise, (S, cases)."""
        return np.asarray(locations + self.spread(cases) * rng.standard_normal(locations.shape))

    def predictive(self, n: int, n_components: int, parts: Callable[[slice], Parts]) -> Mixture:
        """A mixture of normal distributions."""
        return NormalMixture(n, n_components, parts)


class NormalMixture(Mixture):
    """Σ_s w_s N(y; location_s, sd_s²) for each of n cases.

    Weights of a case sum to one.
    """

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
        """Expected value of each case.

        The mean need not exist: if a user without observations takes part in the outcome, a
        cluster's spread may have such heavy tails that the estimate changes with every seed.
        ``mean_unsure`` marks such cases; ``median`` always exists.
        """
        return self._moments[0]

    @cached_property
    def mean_unsure(self) -> NDArray[np.bool_]:
        """Whether the mean of each case depends on few components, as it does if no mean exists;
        the median does not.

        It does if the largest of at least 50 components contributes a fifth of the expected
        distance from the median.
        """
        result, medians = np.zeros(self._n, dtype=bool), self.median
        if self._n_components < _FEWEST_COMPONENTS:
            return result
        for cases, (log_weights, locations, sds) in self._batches():
            sizes = np.exp(log_weights) * (np.abs(locations - medians[cases]) + sds)
            result[cases] = sizes.max(axis=0) > _LARGE_SHARE * sizes.sum(axis=0)
        return result

    @property
    def std(self) -> Array:
        """Standard deviation of each case.

        It need not exist, see ``mean``, and is then any large number; ``interval`` always exists.
        """
        return np.asarray(np.sqrt(self._moments[1]))

    def log_density(self, y: ArrayLike) -> Array:
        """Log of the mean density at y (n,); there is none where a component is a single value
        (standard deviation 0)."""
        values = self._values(y)
        result = np.empty(self._n)
        for cases, (log_weights, locations, sds) in self._batches():
            if not np.all(sds > 0):
                raise InputError(NO_DENSITY)
            standard = (values[cases] - locations) / sds
            result[cases] = logsumexp(log_weights - np.log(sds) - 0.5 * standard**2, axis=0)
        return np.asarray(result - 0.5 * np.log(2 * np.pi))

    def cdf(self, y: ArrayLike) -> Array:
        """Probability of an outcome up to y (n,)."""
        values = self._values(y)
        return self.beyond(values, values)[0]

    def beyond(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Probabilities up to low (n,) and from high (n,) on."""
        below, above = np.empty((2, self._n))
        for cases, (log_weights, locations, sds) in self._batches():
            weights = np.exp(log_weights)
            below[cases] = _below(weights, locations, sds, low[cases])
            above[cases] = _below(weights, -locations, sds, -high[cases])
        return below, above

    def _tails(self, y: ArrayLike) -> tuple[Array, Array]:
        values = self._values(y)
        return self.beyond(values, values)

    def quantile(self, probability: float) -> Array:
        """Quantile of each case, where the mixture's distribution function has this value."""
        return self._quantiles(checked_probability(probability, "A quantile's"))[:, 0]

    def interval(self, probability: float = 0.95) -> Array:
        """Central interval of each case, (n, 2), between quantiles of the distribution."""
        return self._quantiles(*interval_ends(probability))

    def _quantiles(self, *probabilities: float) -> Array:
        """Several quantiles of each case, (n, P)."""
        result = np.empty((self._n, len(probabilities)))
        for cases, (log_weights, locations, sds) in self._batches():
            components = np.empty((locations.shape[1], 3, self._n_components))
            for i, part in enumerate((np.exp(log_weights), locations, sds)):
                components[:, i] = part.T
            result[cases] = quantiles(np.array(probabilities), components)
        return result

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent draws of each case, (n, cases)."""
        rng = draws_generator(n, seed, self._n)
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


def _below(weights: Array, locations: Array, sds: Array, values: Array) -> Array:
    """Probability up to values (cases,); components without a spread are single values."""
    away, spread = values - locations, sds > 0
    below = ndtr(away / np.where(spread, sds, 1.0))
    if not spread.all():
        below = np.where(spread, below, away >= 0)
    return np.asarray((weights * below).sum(axis=0))


@dataclass(frozen=True)
class GaussianFamily(Family):
    """Normal numbers with a noise."""

    noise: Noise

    @property
    def per_user(self) -> tuple[str, ...]:
        return self.noise.per_user

    @property
    def is_conjugate(self) -> bool:
        return self.noise.is_shared

    def outcome(self, phi: Params, rows: Rows) -> Outcome:
        sds = np.broadcast_to(self.noise.precision(phi, rows.user) ** -0.5, rows.eta.shape)
        return NormalOutcome(lambda cases: sds[None, cases])

    def _numbers(self, y: Any) -> Array:
        """A number for each row."""
        return np.asarray(y)

    def pull(self, y: Any, eta: Array) -> tuple[Array, float]:
        return self._numbers(y) - eta, 1.0

    def start(self, rng: np.random.Generator, rows: Rows) -> Params:
        return self.noise.start(rng, self._numbers(rows.y) - rows.eta, rows.n_users)

    def augment(
        self,
        rng: np.random.Generator,  # noqa: ARG002
        rows: Rows,
        phi: Params,
    ) -> tuple[Array, Array]:
        """They are normal as they are."""
        return rows.y - rows.eta, self.noise.precision(phi, rows.user)

    def for_sweep(self, phi: Params) -> Mapping[str, Any]:
        return self.noise.for_sweep(phi)

    def redraw(self, rng: np.random.Generator, given: Given) -> Params:
        """The noise."""
        return self.noise.redraw(rng, given)

    def log_likelihood(self, rows: Rows, phi: Params) -> float:
        precision = self.noise.precision(phi, rows.user)
        return 0.5 * float((np.log(precision) - precision * (rows.y - rows.eta) ** 2).sum())

    def log_prior(self, phi: Params) -> float:
        return self.noise.log_prior(phi)

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:
        return self.noise.log_priors(reported, z)

    def draw_prior(self, rng: np.random.Generator, z: Users) -> Params:
        return self.noise.draw_prior(rng, z)

    def reported(self, phi: Params) -> Params:
        return self.noise.reported(phi)

    def expect(self, y: Any) -> "NoiseFactor | None":  # noqa: ARG002
        """With one noise for all, learned or known."""
        if isinstance(self.noise, SharedNoise):
            return NoiseFactor(self.noise.prior.working)
        return NoiseFactor(None) if isinstance(self.noise, KnownNoise) else None


_UNIT = G(1.0, 1.0)


@dataclass(frozen=True)
class NoiseFactor(FamilyFactor):
    """q(s) of a noise precision with this prior; where that is None, s = 1 is known and has no
    factor."""

    prior: G | None
    noise: G = _UNIT

    def messages(self, y: Any) -> tuple[Array | float, Array]:
        return self.noise.mean, y

    def _misfit(self, y: Any, moments: Moments) -> float:
        """E Σ_i (y_i − η_i)²."""
        residual = y - moments.mean
        return float(residual @ residual) + moments.total

    def updated(self, y: Any, moments: Moments) -> Self:
        return self._with_noise(y, moments)

    def _with_noise(self, y: Any, moments: Moments) -> Self:
        if self.prior is None:
            return self
        n, misfit = len(moments.mean), self._misfit(y, moments)
        return replace(self, noise=G(self.prior.dof + n, self.prior.inverse_scale + misfit))

    def bound(self, y: Any, moments: Moments) -> float:
        n, misfit = len(moments.mean), self._misfit(y, moments)
        if self.prior is None:
            return -0.5 * (n * math.log(2.0 * math.pi) + misfit)
        return expected_log_noise(self.noise, n, misfit, self.prior)

    def numbers(self) -> Array:
        """ln of the inverse scale of q(s)."""
        return np.log([] if self.prior is None else [self.noise.inverse_scale])

    def with_numbers(self, numbers: Array) -> Self:
        if self.prior is None:
            return self
        return replace(self, noise=G(self.noise.dof, float(np.exp(numbers[0]))))

    def draw(self, rng: np.random.Generator) -> Params:
        return {} if self.prior is None else {"noise_precision": self.noise.draw(rng)}

    def log_density(self, phi: Params) -> float:
        return sum(self.noise.log_density(value) for value in phi.values())
