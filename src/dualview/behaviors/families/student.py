"""The Student family: numbers with Student-t noise about their locations.

Given weights λ_i ~ Gamma(ν/2, ν/2), y_i ~ N(η_i, 1/(s λ_i)). The λ_i are drawn before each sweep
and forgotten after it. s and ν are drawn with the λ_i integrated out, by slices: given them both
would hardly move.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainccinv, gammaincinv, gammaln, ndtr

from dualview.behaviors.families.base import (
    Array,
    Family,
    Given,
    Mixture,
    Outcome,
    Params,
    Parts,
    Rows,
    Users,
)
from dualview.behaviors.families.gaussian import GaussianFamily, NormalMixture
from dualview.behaviors.families.noise import LEARNED_TAILS, SharedNoise, Tails
from dualview.checks import draws_generator

_NODES = 128  # of integrals over a weight λ; right to seven digits from one degree of freedom on
_LEAST_SHARE = 1e-13  # of the weights above the nodes
_STRATA, _LEAST_COMPONENTS = (
    8,
    4000,
)  # of quantiles: weights for each component, and components in all at least
_GOLDEN = 0.5 * (5**0.5 - 1.0)


def log_student(x: Array, scale: Any, dof: Any) -> Array:
    """Log density of scale · t_ν at x; shapes broadcast."""
    half = 0.5 * np.asarray(dof, dtype=float)
    height = gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(2.0 * np.pi * half) - np.log(scale)
    return np.asarray(height - (half + 0.5) * np.log1p((x / scale) ** 2 / (2.0 * half)))


def weight_nodes(dof: Array, n_nodes: int = _NODES) -> tuple[Array, Array]:
    """Weights λ ~ Gamma(ν/2, ν/2) on a grid of ln λ, and the logarithms of their shares, each (…,
    K) for ν (…)."""
    half = 0.5 * np.asarray(dof, dtype=float)[..., None]
    low = -np.maximum(
        30.0 / half, np.minimum(9.0, 60.0 / np.sqrt(half))
    )  # outcomes some hundred scales away rest on these
    high = np.log(gammainccinv(half, _LEAST_SHARE) / half)
    places = low + (high - low) * (np.arange(n_nodes) + 0.5) / n_nodes
    log_shares = half * (places - np.exp(places))
    log_shares -= log_shares.max(axis=-1, keepdims=True)
    return np.exp(places), log_shares - np.log(np.exp(log_shares).sum(axis=-1, keepdims=True))


def log_smeared_student(x: Array, sds: Any, scales: Any, dof: Any) -> Array:
    """Log density at x of N(0, sd²) + scale · t_ν; shapes broadcast."""
    if not np.any(sds):
        return log_student(x, scales, dof)
    weights, log_shares = weight_nodes(np.asarray(dof, dtype=float))
    total = np.full(
        np.broadcast_shapes(np.shape(x), np.shape(sds), np.shape(scales), np.shape(dof)), -np.inf
    )
    for k in range(_NODES):
        variance = np.square(sds) + np.square(scales) / weights[..., k]
        total = np.logaddexp(
            total, log_shares[..., k] - 0.5 * (np.log(2.0 * np.pi * variance) + x**2 / variance)
        )
    with np.errstate(divide="ignore", invalid="ignore"):  # a normal component has a scale of 0
        exact = log_student(x, scales, dof)
    return np.where(np.asarray(sds) > 0.0, total, exact)


def weight_law(residual: Array, precision: Any, dof: float) -> tuple[float, Array]:
    """λ_i | rest: the shape of a gamma distribution, and its rates (n,)."""
    return 0.5 * (dof + 1.0), 0.5 * (dof + precision * residual**2)


def draw_weights(rng: np.random.Generator, residual: Array, precision: Any, dof: float) -> Array:
    """The λ_i, (n,)."""
    shape, rates = weight_law(residual, precision, dof)
    return np.asarray(rng.standard_gamma(shape, len(rates)) / rates)


class StudentOutcome(Outcome):
    """Numbers with Student-t noise about their locations: scales (S,) and degrees of freedom (S,)
    in S draws.

    roots (n,) or (S, n): by what the scales of observations are divided; None for 1.
    """

    def __init__(self, scales: Array, dof: Array, roots: Array | None = None) -> None:
        self.scales, self.dof, self.roots = (
            np.asarray(scales, dtype=float),
            np.asarray(dof, dtype=float),
            roots,
        )

    def scale(self, cases: slice) -> Array:
        """Of the noise of some observations, (S, cases) or (S, 1)."""
        scales = self.scales[:, None]
        return scales if self.roots is None else scales / self.roots[..., cases]

    def of_draws(self, draws: NDArray[np.intp]) -> "StudentOutcome":
        return StudentOutcome(self.scales[draws], self.dof[draws], self.roots)

    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:
        """Log density of values given their locations, (S, cases)."""
        return log_student(values - locations, self.scale(cases), self.dof[:, None])

    def augment(
        self, rng: np.random.Generator, values: Array, locations: Array
    ) -> tuple[Array, Array]:
        """By weights λ of the scale mixture."""
        residual, dof = values - locations, float(self.dof[0])
        precision = np.broadcast_to(self.scale(slice(0, len(residual)))[0] ** -2.0, residual.shape)
        return residual, precision * draw_weights(rng, residual, precision, dof)

    def draw(self, rng: np.random.Generator, locations: Array, cases: slice) -> Array:
        """Locations with noise, (S, cases)."""
        return np.asarray(
            locations + self.scale(cases) * rng.standard_t(self.dof[:, None], locations.shape)
        )

    def predictive(
        self, n: int, n_components: int, parts: Callable[[slice], Parts]
    ) -> "StudentMixture":
        """A mixture of Student-t distributions, smeared where locations are not sure."""
        return StudentMixture(n, n_components, parts, self)


class StudentMixture(Mixture):
    """Σ_s w_s [N(location_s, sd_s²) + scale_s · t_{ν_s}] for each of n cases.

    Quantiles are those of the same mixture with t distributions as mixtures of several normal ones
    in each component.
    """

    def __init__(
        self, n: int, n_components: int, parts: Callable[[slice], Parts], outcome: StudentOutcome
    ) -> None:
        super().__init__(n, n_components, parts)
        self._outcome = outcome
        self._strata = max(_STRATA, -(-_LEAST_COMPONENTS // n_components))

    def joined(self, others: Sequence[Mixture], weights: Array) -> Mixture:
        """As for every mixture; others may be mixtures of normal distributions, too."""
        return super().joined(
            [_as_student(own) if type(own) is NormalMixture else own for own in others], weights
        )

    def _besides(self, sources: Sequence[Mixture]) -> tuple[Any, ...]:
        outcomes = [own._outcome for own in sources if isinstance(own, StudentMixture)]
        scales = np.concatenate([own.scales for own in outcomes])
        dof = np.concatenate([own.dof for own in outcomes])
        roots = self._outcome.roots
        if not all(np.array_equal(own.roots, roots) for own in outcomes):  # type: ignore[arg-type]
            shapes = [(len(own.scales), self._n) for own in outcomes]
            given = [1.0 if own.roots is None else own.roots for own in outcomes]
            roots = np.concatenate([*map(np.broadcast_to, given, shapes)])
        return (StudentOutcome(scales, dof, roots),)

    @cached_property
    def _weights(self) -> Array:
        """Weights λ of each component, (S, strata), at levels that differ between components."""
        half = 0.5 * self._outcome.dof[:, None]
        shift = (0.5 + _GOLDEN * np.arange(len(half))[:, None]) % 1.0
        return np.asarray(
            gammaincinv(half, (np.arange(self._strata) + shift) / self._strata) / half
        )

    @cached_property
    def _normal(self) -> NormalMixture:
        def parts(cases: slice) -> Parts:
            log_weights, locations, sds = self._parts(cases)
            shape = (self._n_components, self._strata, locations.shape[1])
            variances = (
                np.square(sds)[:, None]
                + np.square(self._outcome.scale(cases))[:, None] / self._weights[..., None]
            )
            log_weights = np.broadcast_to(log_weights[:, None] - np.log(self._strata), shape)
            rows = (self._n_components * self._strata, -1)
            wide = (
                np.broadcast_to(values, shape).reshape(rows)
                for values in (locations[:, None], np.sqrt(variances))
            )
            return Parts(log_weights.reshape(rows), *wide)

        return NormalMixture(self._n, self._n_components * self._strata, parts)

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        mean, variance, dof = np.empty(self._n), np.empty(self._n), self._outcome.dof[:, None]
        with np.errstate(divide="ignore"):
            spread = np.where(dof > 2.0, dof / np.maximum(dof - 2.0, 0.0), np.inf)
        for cases, (log_weights, locations, sds) in self._batches():
            weights = np.exp(log_weights)
            mean[cases] = (weights * locations).sum(axis=0)
            noise = np.square(self._outcome.scale(cases)) * spread
            parts = (locations - mean[cases]) ** 2 + np.square(sds) + noise
            variance[cases] = np.where(
                weights > 0.0, weights * np.where(weights > 0.0, parts, 0.0), 0.0
            ).sum(axis=0)
        return mean, variance

    @property
    def mean(self) -> Array:
        """Expected value of each case."""
        return self._moments[0]

    @property
    def std(self) -> Array:
        """Standard deviation of each case; infinite where some draw has two degrees of freedom or
        fewer."""
        return np.asarray(np.sqrt(self._moments[1]))

    def cdf(self, y: ArrayLike) -> Array:
        """Probability of an outcome up to y (n,), the inverse of ``quantile``."""
        return self._normal.cdf(y)

    def _tails(self, y: ArrayLike) -> tuple[Array, Array]:
        values, (below, above) = self._values(y), np.zeros((2, self._n))
        nodes, log_shares = weight_nodes(self._outcome.dof)
        for cases, (log_weights, locations, sds) in self._batches():
            for k in range(_NODES):
                noise = np.square(self._outcome.scale(cases)) / nodes[:, [k]]
                away = (values[cases] - locations) / np.sqrt(np.square(sds) + noise)
                shares = np.exp(log_weights + log_shares[:, [k]])
                below[cases] += (shares * ndtr(away)).sum(axis=0)
                above[cases] += (shares * ndtr(-away)).sum(axis=0)
        return below, above

    def quantile(self, probability: float) -> Array:
        """Quantile of each case."""
        return self._normal.quantile(probability)

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent draws of each case, (n, cases)."""
        rng = draws_generator(n, seed, self._n)
        result = np.empty((n, self._n))
        for cases, (log_weights, locations, sds) in self._batches():
            weights = np.broadcast_to(np.exp(log_weights), locations.shape)
            scales, sds = (
                np.broadcast_to(part, locations.shape) for part in (self._outcome.scale(cases), sds)
            )
            for i in range(locations.shape[1]):
                chosen = rng.choice(len(weights), n, p=weights[:, i] / weights[:, i].sum())
                noise = scales[chosen, i] * rng.standard_t(self._outcome.dof[chosen])
                result[:, cases.start + i] = (
                    locations[chosen, i] + sds[chosen, i] * rng.standard_normal(n) + noise
                )
        return result

    def log_density(self, y: ArrayLike) -> Array:
        """Log of the mean density at y (n,)."""
        values, result = self._values(y), np.empty(self._n)
        for cases, (log_weights, locations, sds) in self._batches():
            away = values[cases] - locations
            own = log_weights + log_smeared_student(
                away, sds, self._outcome.scale(cases), self._outcome.dof[:, None]
            )
            result[cases] = np.logaddexp.reduce(own, axis=0)
        return result


@dataclass(frozen=True)
class StudentFamily(GaussianFamily):
    """Numbers with Student-t noise that all rows share: y_i = η_i + s^{−1/2} t_ν."""

    noise: SharedNoise
    tails: Tails = LEARNED_TAILS

    is_conjugate = False

    def outcome(self, phi: Params, rows: Rows) -> Outcome:  # noqa: ARG002
        noise, dof = float(phi["noise_precision"]), self.tails.of(phi)
        return StudentOutcome(np.array([noise**-0.5]), np.array([dof]))

    def start(self, rng: np.random.Generator, rows: Rows) -> Params:
        return super().start(rng, rows) | self.tails.start()

    def augment(self, rng: np.random.Generator, rows: Rows, phi: Params) -> tuple[Array, Array]:
        residual, noise = rows.y - rows.eta, phi["noise_precision"]
        return residual, noise * draw_weights(rng, residual, noise, self.tails.of(phi))

    def redraw(self, rng: np.random.Generator, given: Given) -> Params:
        """The noise, then the degrees of freedom where they are learned; the weights are integrated
        out of both."""
        residual, phi = given.rows.y - given.rows.eta, given.phi
        noise = self.noise.prior.redraw(
            rng, self.noise_likelihood(residual, phi), float(phi["noise_precision"]), len(residual)
        )
        tails = self.tails.redraw(rng, self.tails_likelihood(residual, noise), phi)
        return {"noise_precision": noise} | tails

    def noise_likelihood(self, residual: Array, phi: Params) -> Callable[[float], float]:
        """Log likelihood of s given residuals (n,) and ν."""
        dof = self.tails.of(phi)
        return lambda noise: float(log_student(residual, noise**-0.5, dof).sum())

    @staticmethod
    def tails_likelihood(residual: Array, noise: float) -> Callable[[float], float]:
        """Log likelihood of ν given residuals (n,) and s."""
        return lambda dof: float(log_student(residual, noise**-0.5, dof).sum())

    def log_likelihood(self, rows: Rows, phi: Params) -> float:
        """The weights are integrated out."""
        return Family.log_likelihood(self, rows, phi)

    def log_prior(self, phi: Params) -> float:
        return super().log_prior(phi) + self.tails.log_prior(phi)

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:
        return super().log_priors(reported, z) | self.tails.log_priors(reported)

    def draw_prior(self, rng: np.random.Generator, z: Users) -> Params:
        return super().draw_prior(rng, z) | self.tails.draw_prior(rng)

    def expect(self, y: Any) -> None:
        """There is none."""


def _as_student(normal: NormalMixture) -> StudentMixture:
    """A mixture of normal distributions as one whose noise has a scale of 0; any degrees of freedom
    above 2 will do."""
    n = normal._n_components
    outcome = StudentOutcome(np.zeros(n), np.full(n, 3.0))
    return StudentMixture(len(normal), n, normal._parts, outcome)
