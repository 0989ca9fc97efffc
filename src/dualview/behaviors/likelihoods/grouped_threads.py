"""Shared outcomes with groups of threads in working units: each level has an effect b_gl ~ N(0,
τ_g²), (M17) and (M18).

The coefficients are those of covariates, e ~ N(0, I), then the effects of one group after the
other. Everything is drawn together with the users' coefficients, (C7), given all τ_g.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dualview.behaviors.likelihoods.conjugate import Conjugate
from dualview.behaviors.likelihoods.effects import Confounded, GroupSpread, log_half_t
from dualview.behaviors.likelihoods.regression import (
    ByCoefficients,
    ByConjugateGradients,
    CoefficientDraw,
)
from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.behaviors.records import Params, Prior, Recentered
from dualview.distributions import Normal
from dualview.numerics.messages import Terms

Array = NDArray[np.float64]

_MOST_FACTORISED = 1000  # users and effects


@dataclass(frozen=True)
class GroupedThreads(ThreadRegression):
    """The regression of (M8) with groups. coefficient_design: sparse (T, C + L), all columns
    outside the mixture.

    bounds (G + 1,): where the effects of each group begin among its columns. scales (G,): A of
    (M18).
    """

    bounds: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    scales: Array = field(default_factory=lambda: np.empty(0))

    @property
    def n_common(self) -> int:
        """C, the columns before those of groups."""
        return int(self.bounds[0])

    @property
    def can_approximate(self) -> bool:
        """Not yet."""
        return False

    @property
    def _always_together(self) -> bool:
        """The effects of levels and how much they vary are drawn with everything else."""
        return True

    @staticmethod
    def _way(design: Any, outcome: Array) -> CoefficientDraw:
        small = design.shape[1] <= _MOST_FACTORISED
        return ByCoefficients(design, outcome) if small else ByConjugateGradients(design, outcome)

    def prior_precision(self, sds: Array) -> Array:
        """Of each coefficient, (C + L,)."""
        of_groups = np.repeat(np.asarray(sds, dtype=float) ** -2.0, np.diff(self.bounds))
        return np.concatenate([np.ones(self.n_common), of_groups])

    def conjugate(self, params: Params) -> tuple[Terms, Conjugate] | None:  # noqa: ARG002
        """Every step has a draw outside the call."""
        return None

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """From the prior's centre."""
        latent, params = super().start(rng)
        return latent, params | {"group_sd": 0.3 * self.scales}

    def redraw_together(
        self,
        rng: np.random.Generator,
        latent: Array,
        params: Params,
        terms: Terms,  # noqa: ARG002
        prior: Prior,
    ) -> tuple[Array, Params]:
        """All coefficients, (C7), how much the levels of each group vary, then the noise, (C8)."""
        noise, sds = params["noise_precision"], np.array(params["group_sd"], dtype=float)
        latent, coefficients = self._draw_jointly(rng, noise, prior, self.prior_precision(sds))
        residual, weights = self.residual(latent, coefficients), np.full(len(self.outcome), noise)
        for group in range(len(sds)):
            own = slice(int(self.bounds[group]), int(self.bounds[group + 1]))
            by_group = np.asarray(self._columns[:, own] @ coefficients[own])
            spread = GroupSpread(float(sds[group]), float(self.scales[group]))
            growth, sds[group] = spread.redraw(rng, coefficients[own], by_group, weights, residual)
            coefficients[own] *= growth
        params = self.params_of(self.noise_law(residual).draw(rng), coefficients)
        return latent, params | {"group_sd": sds}

    @cached_property
    def _columns(self) -> Any:
        return sparse.csc_array(self.coefficient_design)

    def recenter(
        self, rng: np.random.Generator, params: Params, base_mean: Array
    ) -> Recentered | None:
        """A step between coefficients and those of all users where threads cannot tell them
        apart."""
        law = self.recentering_law(params, base_mean)
        if law is None:
            return None
        step = law.draw(rng)
        moved = {"coefficients": params["coefficients"] - step @ self._confounded.effects}
        return Recentered(step @ self._confounded.vectors, params | moved)

    def recentering_law(self, params: Params, base_mean: Array) -> Normal | None:
        """The distribution of that step, (C21)."""
        return self._confounded.step_law(
            params["coefficients"], self.prior_precision(params["group_sd"]), base_mean
        )

    @cached_property
    def _confounded(self) -> Confounded:
        totals = np.asarray(self.design.sum(axis=1)).reshape(-1, 1)
        return Confounded.of(sparse.csr_array(self.coefficient_design), totals)

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(outcome, parameters | latent) up to a constant."""
        precision, coefficients = self.prior_precision(params["group_sd"]), params["coefficients"]
        inside = super().log_density(latent, params) + 0.5 * float(coefficients @ coefficients)
        prior = 0.5 * float(np.log(precision).sum() - precision @ coefficients**2)
        return inside + prior + float(log_half_t(params["group_sd"], self.scales).sum())

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:  # noqa: ARG002
        """Of the noise, of the coefficients of covariates, and of how much levels vary."""
        noise = np.asarray(reported["noise_precision"])
        found = {"noise_precision": -0.5 * np.log(noise) - 0.5 * self.noise_variance * noise}
        if self.n_common:
            standard = self.coefficient_units.to_working(np.asarray(reported["coefficients"]))
            found["coefficients"] = -0.5 * (standard**2).sum(axis=-1)
        sd = np.sqrt(self.noise_variance)
        return found | {"group_sd": log_half_t(reported["group_sd"] / sd, self.scales).sum(axis=-1)}

    def draw_prior(self, rng: np.random.Generator, z: NDArray[np.int64]) -> Params:
        """(M9), (M17) and (M18)."""
        params, sds = (
            super().draw_prior(rng, z),
            self.scales * np.abs(rng.standard_t(3.0, len(self.scales))),
        )
        return params | {
            "coefficients": params["coefficients"] / np.sqrt(self.prior_precision(sds)),
            "group_sd": sds,
        }

    def reported(self, params: Params) -> Params:
        """Coefficients of covariates, and effects of levels, in the user's units."""
        sd, coefficients = np.sqrt(self.noise_variance), np.asarray(params["coefficients"])
        result: Params = {
            "noise_precision": np.asarray(params["noise_precision"]) / self.noise_variance
        }
        if self.n_common:
            result["coefficients"] = self.coefficient_units.vectors(
                coefficients[..., : self.n_common]
            )
        effects = sd * coefficients[..., self.n_common :]
        return result | {"group_effects": effects, "group_sd": sd * np.asarray(params["group_sd"])}
