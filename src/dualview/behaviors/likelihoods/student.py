"""The likelihood of per-user regressions with Student-t noise, in working units: y_i = x_iᵀ f_{u(i)} + s^{−1/2} t_ν.

It is a scale mixture: given weights λ_i ~ Gamma(ν/2, ν/2), y_i ~ N(x_iᵀ f_u, 1/(s λ_i)). The λ_i are drawn before each sweep
and forgotten after it. The noise s ~ G(ν_0, 1/ν_0) and the degrees of freedom ν are drawn with the λ_i integrated out, by
slices: given them both would hardly move. A priori ν has the density ∝ ν e^{−ν/10} above 1, so that means exist. latent (U, q).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.augmented import MOST_LOG, AugmentedRegression
from dualview.behaviors.records import Array, Params, Prior
from dualview.numerics.messages import Terms
from dualview.numerics.python_slices import slice_sample
from dualview.outcomes.student import log_student

LEAST_DOF = 1.0
_RATE = 0.1  # of the prior of the degrees of freedom


def log_dof_prior(dof: Any) -> Any:
    """ln p(ν) up to a constant, −inf up to 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(dof) > LEAST_DOF, np.log(dof) - _RATE * np.asarray(dof), -np.inf)


@dataclass(frozen=True)
class StudentRegression(AugmentedRegression):
    """Observations of one user each with Student-t noise, shared by all.

    dof: the degrees of freedom where they are known, else they are a parameter.
    """

    dof: float | None = None

    def dof_of(self, params: Params) -> float:
        """The degrees of freedom as they stand."""
        return float(params["degrees_of_freedom"]) if self.dof is None else self.dof

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """As of a regression, with degrees of freedom 10 where they are learnt."""
        latent, params = super().start(rng)
        return latent, params | ({"degrees_of_freedom": 10.0} if self.dof is None else {})

    def weight_law(self, latent: Array, params: Params) -> tuple[float, Array]:
        """λ_i | rest: the shape of a gamma distribution, and its rates (n,)."""
        dof = self.dof_of(params)
        return 0.5 * (dof + 1.0), 0.5 * (dof + params["noise_precision"] * self.residual(latent) ** 2)

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
        """The noise, then the degrees of freedom where they are learnt; the weights are integrated out of both."""
        residual, dof = self.residual(latent), self.dof_of(params)
        noise = self.next_noise(rng, self.noise_density(residual, dof), float(params["noise_precision"]), len(residual))
        if self.dof is not None:
            return latent, {"noise_precision": noise}
        log_dof = slice_sample(rng, self.dof_density(residual, noise), math.log(dof), 1.0)
        return latent, {"noise_precision": noise, "degrees_of_freedom": math.exp(log_dof)}

    def noise_density(self, residual: Array, dof: float) -> Callable[[float], float]:
        """Log density of ln s given residuals (n,) and ν, up to a constant."""
        return self.log_noise_density(lambda noise: float(log_student(residual, noise**-0.5, dof).sum()))

    def dof_density(self, residual: Array, noise: float) -> Callable[[float], float]:
        """Log density of ln ν given residuals (n,) and s, up to a constant."""

        def log_density(log_dof: float) -> float:
            if not math.log(LEAST_DOF) < log_dof < MOST_LOG:
                return -math.inf
            dof = math.exp(log_dof)
            return float(log_student(residual, noise**-0.5, dof).sum() + log_dof_prior(dof)) + log_dof

        return log_density

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(outcome, s, ν | latent) up to a constant; the weights are integrated out."""
        noise, dof = float(params["noise_precision"]), self.dof_of(params)
        likelihood = float(log_student(self.residual(latent), noise**-0.5, dof).sum())
        prior = self._working_prior.log_density(noise)
        return likelihood + prior + (float(log_dof_prior(dof)) if self.dof is None else 0.0)

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:
        """Of the noise, and of the degrees of freedom where they are learnt."""
        found = super().log_priors(reported, z)
        return found | ({"degrees_of_freedom": log_dof_prior(reported["degrees_of_freedom"])} if self.dof is None else {})

    def draw_prior(self, rng: np.random.Generator, z: NDArray[np.int64]) -> Params:
        params = super().draw_prior(rng, z)
        if self.dof is not None:
            return params
        dof = 0.0
        while dof <= LEAST_DOF:
            dof = float(rng.standard_gamma(2.0)) / _RATE
        return params | {"degrees_of_freedom": dof}

    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> Self:
        """New outcomes."""
        noise = rng.standard_t(self.dof_of(params), len(self.panel.outcome)) / math.sqrt(params["noise_precision"])
        return self._with_outcome(self._expected(latent) + noise)

    def _with_outcome(self, outcome: Array) -> Self:
        return replace(self, panel=self.panel._replace(outcome=outcome))

    def reported(self, params: Params) -> Params:
        """The noise's scale⁻² in the user's units; degrees of freedom have none."""
        found = super().reported({"noise_precision": params["noise_precision"]})
        return found | {name: np.asarray(value) for name, value in params.items() if name == "degrees_of_freedom"}
