"""The likelihood of per-user regressions with Student-t noise, in working units: y_i = x_iᵀ
f_{u(i)} + s^{−1/2} t_ν.

It is a scale mixture: given weights λ_i ~ Gamma(ν/2, ν/2), y_i ~ N(x_iᵀ f_u, 1/(s λ_i)). The λ_i
are drawn before each sweep and forgotten after it. The noise s ~ G(ν_0, 1/ν_0) and the degrees of
freedom ν are drawn with the λ_i integrated out, by slices: given them both would hardly move.
latent (U, q).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from dualview.behaviors.likelihoods.tails import TailedRegression
from dualview.behaviors.records import Array, Params, Prior
from dualview.numerics.messages import Terms
from dualview.numerics.python_slices import slice_sample
from dualview.outcomes.student import log_student


@dataclass(frozen=True)
class StudentRegression(TailedRegression):
    """Observations of one user each with Student-t noise, shared by all."""

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
        return self._with_outcome(self._expected(latent) + noise)
