"""The likelihood of shared outcomes in working units, (M8) and (M9), and its draws, (C7) and (C8).

design (T, U) dense or sparse, outcome (T,), latent (U, 1).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dualview.behaviors.base import Params
from dualview.behaviors.regression import CoefficientDraw, coefficient_draw
from dualview.distributions import G
from dualview.units import Whitening

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ThreadRegression:
    """The regression of (M8) in working units: outcome = design g + coefficient_design e + noise, e ~ N(0, I), s ~ G(1, 1).

    Parameters are a dict: noise_precision (float) and coefficients (C,).
    """

    design: Any
    coefficient_design: Array
    outcome: Array
    noise_variance: float
    coefficient_units: Whitening
    n_dims: int = 1

    @cached_property
    def _draw(self) -> CoefficientDraw:
        if not self.n_coefficients:
            return coefficient_draw(self.design, self.outcome)
        if sparse.issparse(self.design):
            joint: Any = sparse.hstack([self.design, sparse.csr_array(self.coefficient_design)], format="csr")
        else:
            joint = np.hstack([self.design, self.coefficient_design])
        return coefficient_draw(joint, self.outcome)

    @property
    def n_coefficients(self) -> int:
        return int(self.coefficient_design.shape[1])

    @property
    def n_users(self) -> int:
        return int(self.design.shape[1])

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """From the prior's centre."""
        params = {"noise_precision": 1.0, "coefficients": np.zeros(self.n_coefficients)}
        ones = np.ones((self.n_users, 1, 1))
        return self.redraw(rng, params, np.zeros((self.n_users, 1)), ones)

    def redraw(
        self, rng: np.random.Generator, params: Params, prior_means: Array, prior_factors: Array
    ) -> tuple[Array, Params]:
        """Latent coefficients and coefficients of covariates together, (C7); then the noise, (C8)."""
        mean = np.concatenate([prior_means[:, 0], np.zeros(self.n_coefficients)])
        precision = np.concatenate([prior_factors[:, 0, 0] ** 2, np.ones(self.n_coefficients)])
        joint = self._draw.draw(rng, params["noise_precision"], mean, precision)
        latent, coefficients = joint[: self.n_users, None], joint[self.n_users :]
        noise_precision = self.noise_law(latent, coefficients).draw(rng)
        return latent, {"noise_precision": noise_precision, "coefficients": coefficients}

    def expected(self, latent: Array, coefficients: Array) -> Array:
        """Expected outcomes (T,)."""
        return np.asarray(self.design @ latent[:, 0] + self.coefficient_design @ coefficients)

    def noise_law(self, latent: Array, coefficients: Array) -> G:
        """s_y | rest, (C8)."""
        residual = self.outcome - self.expected(latent, coefficients)
        return G(1.0 + len(residual), 1.0 + float(residual @ residual))

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(outcome, s_y, coefficients | latent) up to a constant, (M8) and (M9)."""
        precision, coefficients = params["noise_precision"], params["coefficients"]
        residual = self.outcome - self.expected(latent, coefficients)
        likelihood = 0.5 * len(residual) * np.log(precision) - 0.5 * precision * float(residual @ residual)
        return float(likelihood - 0.5 * coefficients @ coefficients) + G(1.0, 1.0).log_density(precision)

    def draw_prior(self, rng: np.random.Generator) -> Params:
        """s_y from (M9), coefficients from their prior."""
        return {
            "noise_precision": G(1.0, 1.0).draw(rng),
            "coefficients": rng.standard_normal(self.n_coefficients),
        }

    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> "ThreadRegression":
        """New outcomes from (M8)."""
        noise = rng.standard_normal(len(self.outcome)) / np.sqrt(params["noise_precision"])
        return replace(self, outcome=self.expected(latent, params["coefficients"]) + noise)

    def reported(self, params: Params) -> Params:
        """noise_precision and coefficients in the user's units."""
        result: Params = {"noise_precision": np.asarray(params["noise_precision"]) / self.noise_variance}
        if self.n_coefficients:
            result["coefficients"] = self.coefficient_units.vectors(np.asarray(params["coefficients"]))
        return result
