"""q of the latent vectors of yes-or-no observations, (V3) with the Pólya–Gamma bound (Jaakkola and
Jordan 2000).

An observation i of user u has the log odds ψ_i = x_iᵀ f_u + c_i. Given ω_i it is normal in ψ_i. The
best q(ω_i) is PG(1, ξ_i), and with it

    E ln p(y_i | f_u) ≥ (y_i − ½) E ψ_i − w(ξ_i) (E ψ_i² − ξ_i²)/2 − ξ_i/2 + ln σ(ξ_i),    w(ξ) = E
    ω = tanh(ξ/2)/(2ξ),

which is highest at ξ_i² = E ψ_i². So ω stands in a factor of its own, and the bound of all data
rises with every update.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from dualview.behaviors.likelihoods.soft import LatentDraws, SoftPrior
from dualview.behaviors.likelihoods.soft_joint import JointVectors, inverses
from dualview.behaviors.records import Params

Array = NDArray[np.float64]

_SMALL = 1e-4  # log odds below which w is that of a series
_LARGEST = 50.0  # ln ξ that an extrapolation goes to


@dataclass(frozen=True)
class SoftLogit(JointVectors):
    """q(f, μ) Π_i q(ω_i). tilts (n,): ξ of every observation, in the order of the likelihood's
    panel."""

    likelihood: Any
    tilts: Array

    @classmethod
    def start(cls, likelihood: Any) -> "SoftLogit":
        """Under a prior N(0, I), with ω at its mean at even odds; there are no components yet."""
        panel = likelihood.panel
        n_users, n_dims = len(panel.counts), likelihood.n_dims
        nothing = np.zeros((n_users, n_dims, 0))
        zero, unit = np.zeros((n_users, n_dims)), np.tile(np.eye(n_dims), (n_users, 1, 1))
        first = cls(
            zero,
            nothing,
            unit,
            np.zeros(0),
            np.zeros((0, 0)),
            likelihood,
            np.zeros(len(panel.outcome)),
        )
        squares, weighted = first._terms
        conditionals = inverses(np.eye(n_dims) + squares)
        offsets = np.einsum("uij,uj->ui", conditionals, weighted)
        return replace(first, offsets=offsets, conditionals=conditionals).with_params()

    @property
    def _terms(self) -> tuple[Array, Array]:
        """What observations say of the users' vectors given q(ω): (U, q, q) and (U, q)."""
        panel, weights = self.likelihood.panel, expected_weights(self.tilts)
        rows = panel._replace(design=panel.design * np.sqrt(weights)[:, None])
        pulls = panel._replace(outcome=panel.outcome - 0.5 - weights * self.likelihood.constant)
        return rows.squares, pulls.weighted

    def with_latent(self, prior: SoftPrior) -> "SoftLogit":
        """q(f, μ), (V3)."""
        return self.solved(prior, *self._terms)

    @cached_property
    def _odds(self) -> tuple[Array, Array]:
        """E ψ_i and E ψ_i², (n,)."""
        panel = self.likelihood.panel
        expected = panel.expected(self.means) + self.likelihood.constant
        spread = np.einsum("ni,nij,nj->n", panel.design, self.covariances[panel.user], panel.design)
        return expected, expected**2 + spread

    def with_params(self) -> "SoftLogit":
        """q(ω)."""
        return replace(self, tilts=np.sqrt(self._odds[1]))

    def bound(self) -> float:
        """E ln p(y, ω | f) + the entropy of q(f, μ) q(ω)."""
        expected, squares = self._odds
        own = (
            (self.likelihood.panel.outcome - 0.5) * expected
            - 0.5 * self.tilts
            + log_expit(self.tilts)
        )
        own -= 0.5 * expected_weights(self.tilts) * (squares - self.tilts**2)
        return self.entropy + float(own.sum())

    def numbers(self) -> Array:
        """ln ξ."""
        return np.log(np.maximum(self.tilts, _SMALL))

    def with_numbers(self, numbers: Array) -> "SoftLogit":
        return replace(self, tilts=np.exp(np.minimum(numbers, _LARGEST)))

    def draws(self, rng: np.random.Generator, n: int) -> LatentDraws:
        """Means of components, then vectors given them."""
        latent, means = self.drawn_vectors(rng, n)
        return LatentDraws(latent, means, [self._params for _ in range(n)])

    @property
    def _params(self) -> Params:
        return {"coefficients": np.empty(0)}

    def log_ratios(self, draws: LatentDraws) -> Array:
        """ln p(y | f) − ln q(f, μ), up to a constant; ω is integrated out of p."""
        assert draws.means is not None
        return np.array(
            [
                self.likelihood.log_density(latent, self._params) - self.log_density(latent, means)
                for latent, means in zip(draws.latent, draws.means, strict=True)
            ]
        )


def expected_weights(tilts: Array) -> Array:
    """E ω of PG(1, ξ): tanh(ξ/2)/(2ξ), 1/4 at 0."""
    safe = np.maximum(tilts, _SMALL)
    return np.asarray(
        np.where(tilts < _SMALL, 0.25 - tilts**2 / 48.0, np.tanh(0.5 * safe) / (2.0 * safe))
    )
