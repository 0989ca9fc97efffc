"""The likelihood of per-user regressions in which each user has a noise of its own, in working
units.

y_i ~ N(x_iᵀ f_u, 1/(s λ_u)) for the observations i of user u, with λ_u ~ Gamma(ν/2, ν/2): s is a
typical precision, and the fewer degrees of freedom ν, the more users differ. s and ν are drawn with
the λ_u integrated out, by slices, under which a user's residuals have a multivariate t
distribution; then the λ_u given both. Both have the priors of Student-t noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dualview.behaviors.likelihoods.tails import TailedRegression
from dualview.behaviors.records import Array, Params, Prior
from dualview.numerics.messages import Terms
from dualview.numerics.python_slices import slice_sample

TYPICAL = "typical_noise_precision"


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
    """Observations of one user each, whose noise is the user's own."""

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
        return self._with_outcome(self._expected(latent) + errors)

    def reported(self, params: Params) -> Params:
        """Precisions in the user's units; degrees of freedom have none."""
        found = super().reported(params)
        return found | {TYPICAL: np.asarray(params[TYPICAL]) / self.noise_prior.variance}
