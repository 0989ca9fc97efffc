"""The likelihood of per-user regressions in working units, and its noise: y_i ~ N(x_iᵀ f_{u(i)}, 1/s), s ~ G(1, 1).

The panel's design and outcome are in working units; latent (U, q).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.base import Array, Params, Prior, Terms
from dualview.behaviors.panel import Panel, Users, posterior_means
from dualview.distributions import G


@dataclass(frozen=True)
class PanelRegression:
    """Normal observations of one user each. Given the clusters, users are independent, so the sweep draws them exactly."""

    panel: Panel
    noise_variance: float

    @property
    def n_dims(self) -> int:
        return int(self.panel.design.shape[1])

    @cached_property
    def _loads(self) -> tuple[Users, NDArray[np.uint32], Array, Array]:
        return self.panel.starts, self.panel.rows, self.panel.design, self.panel.squares

    def residual(self, latent: Array) -> Array:
        """Outcomes minus what was expected, (n,)."""
        return self.panel.outcome - self.panel.expected(latent)

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """From the posterior under the prior's centre and noise."""
        latent = posterior_means(self.panel.squares, self.panel.weighted, 1.0)
        return latent, {"noise_precision": self.noise_law(self.residual(latent)).draw(rng)}

    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:  # noqa: ARG002
        """They share the noise."""
        return Terms(*self._loads, self.residual(latent), np.array([params["noise_precision"]]))

    def redraw(
        self,
        rng: np.random.Generator,
        latent: Array,
        params: Params,  # noqa: ARG002
        terms: Terms,
        prior: Prior,  # noqa: ARG002
    ) -> tuple[Array, Params]:
        """The noise."""
        return latent, {"noise_precision": self.noise_law(terms.residual).draw(rng)}

    def noise_law(self, residual: Array) -> G:
        """s | rest, as (C8)."""
        return G(1.0 + len(residual), 1.0 + float(residual @ residual))

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(outcome, s | latent) up to a constant."""
        precision, residual = params["noise_precision"], self.residual(latent)
        likelihood = 0.5 * len(residual) * math.log(precision) - 0.5 * precision * float(residual @ residual)
        return float(likelihood + G(1.0, 1.0).log_density(precision))

    def draw_prior(self, rng: np.random.Generator) -> Params:
        return {"noise_precision": G(1.0, 1.0).draw(rng)}

    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> "PanelRegression":
        """New outcomes."""
        noise = rng.standard_normal(len(self.panel.outcome)) / math.sqrt(params["noise_precision"])
        return replace(self, panel=self.panel._replace(outcome=self.panel.expected(latent) + noise))

    def reported(self, params: Params) -> Params:
        return {"noise_precision": np.asarray(params["noise_precision"]) / self.noise_variance}
