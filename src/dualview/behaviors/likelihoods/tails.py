"""Per-user regressions whose noise has heavier tails than a normal: what their kinds share.

Precisions vary by a gamma distribution with ν degrees of freedom, from one observation or one user
to the next. A priori ν has the density ∝ ν e^{−ν/10} above 1, so that means exist.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.augmented import MOST_LOG, AugmentedRegression
from dualview.behaviors.records import Array, Params

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

    def _with_outcome(self, outcome: Array) -> Self:
        return replace(self, panel=self.panel._replace(outcome=outcome))

    def reported(self, params: Params) -> Params:
        """The noise's scale⁻² in the user's units; degrees of freedom have none."""
        found = super().reported({"noise_precision": params["noise_precision"]})
        return found | {
            name: np.asarray(value)
            for name, value in params.items()
            if name == "degrees_of_freedom"
        }
