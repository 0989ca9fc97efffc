"""The likelihoods of per-user regressions whose noise has heavier tails than a normal, in working
units.

Precisions vary by a gamma distribution with ν degrees of freedom, from one observation or one user
to the next. A priori ν has the density ∝ ν e^{−ν/10} above 1, so that means exist, and s ~ G(ν_0,
1/ν_0).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dualview.behaviors.likelihoods.panel import MOST_LOG, AugmentedRegression
from dualview.behaviors.records import Array, Params, Prior
from dualview.numerics.messages import Terms
from dualview.numerics.python_slices import slice_sample
from dualview.outcomes.student import log_student

TYPICAL = "typical_noise_precision"
LEAST_DOF = 1.0
_RATE = 0.1  # of the prior of the degrees of freedom


def log_dof_prior(dof: Any) -> Any:
    """ln p(ν) up to a constant, −inf up to 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(dof) > LEAST_DOF, np.log(dof) - _RATE * np.asarray(dof), -np.inf)


@dataclass(frozen=True)
class TailedRegression(AugmentedRegression):
    """Observations of one user each. dof: the degrees of freedom where they are known, else they
    are a parameter."""

    dof: float | None = None

    def dof_of(self, params: Params) -> float:
        """The degrees of freedom as they stand."""
        return float(params["degrees_of_freedom"]) if self.dof is None else self.dof

    def log_dof_of(self, params: Params) -> float:
        """ln p(ν) up to a constant; 0 where it is known."""
        return float(log_dof_prior(params["degrees_of_freedom"])) if self.dof is None else 0.0

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """As of a regression, with degrees of freedom 10 where they are learnt."""
        latent, params = super().start(rng)
        return latent, params | ({"degrees_of_freedom": 10.0} if self.dof is None else {})

    @staticmethod
    def log_dof_density(log_likelihood: Callable[[float], float]) -> Callable[[float], float]:
        """Log density of ln ν, up to a constant, from the log likelihood of ν."""

        def log_density(log_dof: float) -> float:
            if not math.log(LEAST_DOF) < log_dof < MOST_LOG:
                return -math.inf
            dof = math.exp(log_dof)
            return log_likelihood(dof) + float(log_dof_prior(dof)) + log_dof

        return log_density

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:
        """Of the noise, and of the degrees of freedom where they are learnt."""
        found = super().log_priors(reported, z)
        return found | (
            {"degrees_of_freedom": log_dof_prior(reported["degrees_of_freedom"])}
            if self.dof is None
            else {}
        )

    def draw_prior(self, rng: np.random.Generator, z: NDArray[np.int64]) -> Params:
        params = super().draw_prior(rng, z)
        if self.dof is not None:
            return params
        dof = 0.0
        while dof <= LEAST_DOF:
            dof = float(rng.standard_gamma(2.0)) / _RATE
        return params | {"degrees_of_freedom": dof}

    def reported(self, params: Params) -> Params:
        """The noise's scale⁻² in the user's units; degrees of freedom have none."""
        found = super().reported({"noise_precision": params["noise_precision"]})
        return found | {
            name: np.asarray(value)
            for name, value in params.items()
            if name == "degrees_of_freedom"
        }


@dataclass(frozen=True)
class StudentRegression(TailedRegression):
    """Observations of one user each with Student-t noise, shared by all: y_i = x_iᵀ f_{u(i)} +
    s^{−1/2} t_ν.

    Given weights λ_i ~ Gamma(ν/2, ν/2), y_i ~ N(x_iᵀ f_u, 1/(s λ_i)). The λ_i are drawn before each
    sweep and forgotten after it. s and ν are drawn with the λ_i integrated out, by slices: given
    them both would hardly move.
    """

    def weight_law(self, latent: Array, params: Params) -> tuple[float, Array]:
        """λ_i | rest: the shape of a gamma distribution, and its rates (n,)."""
        dof = self.dof_of(params)
        return 0.5 * (dof + 1.0), 0.5 * (
            dof + params["noise_precision"] * self.residual(latent) ** 2
        )

    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:
        """Each observation with a precision of its own, s λ_i."""
        shape, rates = self.weight_law(latent, params)
        weights = rng.standard_gamma(shape, len(rates)) / rates
        return Terms(*self._loads, self.residual(latent), params["noise_precision"] * weights)

    def redraw(
        self,
        rng: np.random.Generator,
        latent: Array,
        params: Params,
        terms: Terms,  # noqa: ARG002
        prior: Prior,  # noqa: ARG002
    ) -> tuple[Array, Params]:
        """The noise, then the degrees of freedom where they are learnt; the weights are integrated
        out of both."""
        residual, dof = self.residual(latent), self.dof_of(params)
        noise = self.next_noise(
            rng, self.noise_density(residual, dof), float(params["noise_precision"]), len(residual)
        )
        if self.dof is not None:
            return latent, {"noise_precision": noise}
        log_dof = slice_sample(rng, self.dof_density(residual, noise), math.log(dof), 1.0)
        return latent, {"noise_precision": noise, "degrees_of_freedom": math.exp(log_dof)}

    def noise_density(self, residual: Array, dof: float) -> Callable[[float], float]:
        """Log density of ln s given residuals (n,) and ν, up to a constant."""
        return self.log_noise_density(
            lambda noise: float(log_student(residual, noise**-0.5, dof).sum())
        )

    def dof_density(self, residual: Array, noise: float) -> Callable[[float], float]:
        """Log density of ln ν given residuals (n,) and s, up to a constant."""
        return self.log_dof_density(
            lambda dof: float(log_student(residual, noise**-0.5, dof).sum())
        )

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(outcome, s, ν | latent) up to a constant; the weights are integrated out."""
        noise, dof = float(params["noise_precision"]), self.dof_of(params)
        likelihood = float(log_student(self.residual(latent), noise**-0.5, dof).sum())
        return likelihood + self._working_prior.log_density(noise) + self.log_dof_of(params)

    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> Self:
        """New outcomes."""
        noise = rng.standard_t(self.dof_of(params), len(self.panel.outcome)) / math.sqrt(
            params["noise_precision"]
        )
        return self.with_outcome(self.predictor(latent) + noise)


def log_own(squares: Array, counts: NDArray[Any], noise: Any, dof: Any) -> Array:
    """Log density of each user's residuals by their sum of squares and number, both (U,), λ
    integrated out."""
    half = 0.5 * np.asarray(dof, dtype=float)
    height = (
        gammaln(half + 0.5 * counts)
        - gammaln(half)
        + 0.5 * counts * np.log(noise / (2.0 * np.pi * half))
    )
    return np.asarray(height - (half + 0.5 * counts) * np.log1p(noise * squares / (2.0 * half)))


@dataclass(frozen=True)
class OwnNoiseRegression(TailedRegression):
    """Observations of one user each, whose noise is the user's own, s λ_u with λ_u ~ Gamma(ν/2,
    ν/2).

    s is a typical precision, and the fewer degrees of freedom, the more users differ. s and ν are
    drawn with the λ_u integrated out, by slices, under which a user's residuals have a multivariate
    t distribution; then the λ_u given both.
    """

    @property
    def per_user(self) -> tuple[str, ...]:
        return ("noise_precision",)

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """With the same noise for all."""
        latent, params = super().start(rng)
        typical = float(params["noise_precision"])
        return latent, params | {"noise_precision": np.full(len(latent), typical), TYPICAL: typical}

    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:  # noqa: ARG002
        """Each observation with its user's precision."""
        noise = np.asarray(params["noise_precision"])
        return Terms(*self._loads, self.residual(latent), noise[self.panel.user])

    def redraw(
        self,
        rng: np.random.Generator,
        latent: Array,
        params: Params,
        terms: Terms,  # noqa: ARG002
        prior: Prior,  # noqa: ARG002
    ) -> tuple[Array, Params]:
        """s, then ν where it is learnt, with the λ_u integrated out; then these."""
        squares, dof = self.panel.sums(self.residual(latent) ** 2), self.dof_of(params)
        typical = self.next_noise(
            rng, self.typical_density(squares, dof), float(params[TYPICAL]), len(squares)
        )
        found: Params = {TYPICAL: typical}
        if self.dof is None:
            dof = math.exp(
                slice_sample(rng, self.spread_density(squares, typical), math.log(dof), 1.0)
            )
            found["degrees_of_freedom"] = dof
        shapes, rates = self.own_law(squares, typical, dof)
        return latent, found | {"noise_precision": typical * rng.standard_gamma(shapes) / rates}

    def own_law(self, squares: Array, typical: float, dof: float) -> tuple[Array, Array]:
        """λ_u | rest: shapes and rates (U,) of gamma distributions."""
        return np.asarray(0.5 * (dof + self.panel.counts), dtype=float), 0.5 * (
            dof + typical * squares
        )

    def typical_density(self, squares: Array, dof: float) -> Callable[[float], float]:
        """Log density of ln s given the users' sums of squared residuals and ν, up to a
        constant."""
        counts = self.panel.counts
        return self.log_noise_density(
            lambda noise: float(log_own(squares, counts, noise, dof).sum())
        )

    def spread_density(self, squares: Array, typical: float) -> Callable[[float], float]:
        """Log density of ln ν given the users' sums of squared residuals and s, up to a
        constant."""
        return self.log_dof_density(
            lambda dof: float(log_own(squares, self.panel.counts, typical, dof).sum())
        )

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(outcome, s, ν, precisions of users | latent) up to a constant."""
        typical, dof, noise = (
            float(params[TYPICAL]),
            self.dof_of(params),
            np.asarray(params["noise_precision"]),
        )
        half, share = 0.5 * dof, noise / typical
        squares = self.panel.sums(self.residual(latent) ** 2)
        likelihood = 0.5 * float((self.panel.counts * np.log(noise) - noise * squares).sum())
        of_users = (
            half * math.log(half)
            - float(gammaln(half))
            + (half - 1.0) * np.log(share)
            - half * share
        )
        prior = self._working_prior.log_density(typical) + self.log_dof_of(params)
        return likelihood + float(of_users.sum()) - len(share) * math.log(typical) + prior

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:
        """Of the typical noise, and of the degrees of freedom where they are learnt."""
        found = super().log_priors(reported | {"noise_precision": reported[TYPICAL]}, z)
        return {
            TYPICAL if name == "noise_precision" else name: values for name, values in found.items()
        }

    def draw_prior(self, rng: np.random.Generator, z: NDArray[np.int64]) -> Params:
        params = super().draw_prior(rng, z)
        typical, half = float(params["noise_precision"]), 0.5 * self.dof_of(params)
        return params | {
            TYPICAL: typical,
            "noise_precision": typical * rng.standard_gamma(half, len(z)) / half,
        }

    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> Self:
        """New outcomes."""
        precision = np.asarray(params["noise_precision"])[self.panel.user]
        errors = rng.standard_normal(len(precision)) / np.sqrt(precision)
        return self.with_outcome(self.predictor(latent) + errors)

    def reported(self, params: Params) -> Params:
        """Precisions in the user's units; degrees of freedom have none."""
        found = super().reported(params)
        return found | {TYPICAL: np.asarray(params[TYPICAL]) / self.noise_prior.variance}
