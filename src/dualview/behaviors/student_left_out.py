"""Outcomes with Student-t noise of new users, and those left out one at a time, with the latent
vectors integrated out.

In each draw the weights λ of all outcomes are drawn given its latent vectors. Given those of the
others, the location of an outcome is normal, as in a regression, (L1); its own weight is integrated
out. The importance weights of a draw then carry clusters, parameters and the weights of the other
outcomes.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dualview.behaviors.left_out import PanelLeftOut
from dualview.behaviors.panel import Panel, with_field
from dualview.behaviors.records import (
    Array,
    LatentPrior,
    LeftOut,
    LeftOutLaws,
    Params,
    SampledEvidence,
)
from dualview.outcomes.student import log_smeared_student, log_student, weight_nodes

_SEED = 26  # of weights


class StudentLaws(LeftOutLaws):
    """N(location, sd²) + scale · t_ν: locations, sds and scales (n,), one ν."""

    def __init__(self, locations: Array, sds: Array, scales: Array, dof: float) -> None:
        self.locations, self.sds, self.scales, self.dof = locations, sds, scales, dof

    def log_density(self, values: Array) -> Array:
        return log_smeared_student(values - self.locations, self.sds, self.scales, self.dof)

    def standardised(self, rng: np.random.Generator, values: Array) -> Array:  # noqa: ARG002
        weights, log_shares = weight_nodes(np.asarray(self.dof))
        spread = np.sqrt(self.sds[:, None] ** 2 + self.scales[:, None] ** 2 / weights)
        away = np.abs(values - self.locations)
        beyond = (np.exp(log_shares) * ndtr(-away[:, None] / spread)).sum(axis=1)
        return np.asarray(-np.sign(values - self.locations) * ndtri(np.maximum(beyond, 1e-15)))


@dataclass(frozen=True)
class StudentLeftOut(LeftOut):
    """Outcomes of one user each. panel: the same regression with normal noise. dof: of the noise;
    None where it is learnt."""

    panel: PanelLeftOut
    dof: float | None
    _rng: np.random.Generator = field(
        default_factory=lambda: np.random.default_rng(_SEED), compare=False
    )

    def _dof(self, params: Params) -> float:
        return float(params["degrees_of_freedom"]) if self.dof is None else self.dof

    def _weighted(self, weights: Array) -> PanelLeftOut:
        """The regression with noise whose precisions are multiplied by weights (n,)."""
        return with_field(
            self.panel,
            "weights",
            weights if self.panel.weights is None else weights * self.panel.weights,
        )

    def laws(self, prior: LatentPrior, params: Params, latent: Array) -> StudentLaws:
        panel, dof = self.panel, self._dof(params)
        residual = panel.outcome - (panel.design * latent[panel.user]).sum(axis=1)
        if panel.offset is not None:
            residual = residual - panel._offset(params)
        precision = panel._precision(params)
        shape, rates = 0.5 * (dof + 1.0), 0.5 * (dof + precision * residual**2)
        weights = self._rng.standard_gamma(shape, len(rates)) / rates
        found = self._weighted(weights).laws(prior, params, latent)
        variances = np.maximum(found.sds**2 - 1.0 / (precision * weights), 0.0)
        return StudentLaws(found.locations, np.sqrt(variances), 1.0 / np.sqrt(precision), dof)

    def replicate(
        self, rng: np.random.Generator, prior: LatentPrior, params: Params
    ) -> "tuple[StudentLeftOut, Array, Array]":
        half = 0.5 * self._dof(params)
        weights = rng.standard_gamma(half, len(self.panel.user)) / half
        _, outcome, vectors = self._weighted(weights).replicate(rng, prior, params)
        return replace(self, panel=with_field(self.panel, "outcome", outcome)), outcome, vectors


def student_evidence(panel: Panel, offset: Array, scales: Array, dof: Array) -> SampledEvidence:
    """What outcomes of new users with Student-t noise say of each one's vector, rows in the panel's
    order.

    offset (S, n) or (1, n): what acts outside the mixture. scales (S, n) and degrees of freedom
    (S,) of the noise.
    """

    def log_likelihood(j: int, draws: NDArray[np.intp], vectors: Array) -> Array:
        own = slice(panel.starts[j], panel.starts[j + 1])
        locations = (
            vectors @ panel.design[own].T + offset[draws if len(offset) > 1 else 0][..., own]
        )
        return np.asarray(
            log_student(panel.outcome[own] - locations, scales[draws, own], dof[draws, None]).sum(
                axis=1
            )
        )

    return SampledEvidence(log_likelihood)
