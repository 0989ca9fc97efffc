"""q of the latent vectors of per-user regressions, (V3) and (V4), for any number of users: (f, μ)
together, and the noise."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.soft import LatentDraws, SoftPrior
from dualview.behaviors.likelihoods.soft_joint import JointVectors, inverses
from dualview.behaviors.likelihoods.soft_threads import expected_log_noise
from dualview.distributions import G

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PanelEquations:
    """Per-user regressions: Σ x xᵀ (U, q, q) and Σ x y (U, q) of every user, the likelihood, and
    the prior of its noise."""

    likelihood: Any
    squares: Array
    weighted: Array
    noise_prior: G

    @property
    def n_observations(self) -> int:
        return len(self.likelihood.panel.outcome)


@dataclass(frozen=True)
class SoftPanel(JointVectors):
    """q(f, μ) q(s)."""

    equations: PanelEquations
    noise: G

    @classmethod
    def start(cls, equations: PanelEquations) -> "SoftPanel":
        """Under a prior N(0, I) and a noise precision of 1; there are no components yet."""
        n_users, n_dims = equations.weighted.shape
        conditionals = inverses(np.eye(n_dims) + equations.squares)
        offsets = np.einsum("uij,uj->ui", conditionals, equations.weighted)
        nothing = np.zeros((n_users, n_dims, 0))
        first = cls(
            offsets,
            nothing,
            conditionals,
            np.zeros(0),
            np.zeros((0, 0)),
            equations,
            equations.noise_prior,
        )
        return first.with_params()

    def with_latent(self, prior: SoftPrior) -> "SoftPanel":
        """q(f, μ), (V3)."""
        noise = self.noise.mean
        return self.solved(prior, noise * self.equations.squares, noise * self.equations.weighted)

    @cached_property
    def misfit(self) -> float:
        """E Σ_i (y_i − x_iᵀ f)²."""
        residual = self.equations.likelihood.residual(self.means)
        return float(residual @ residual) + float(np.sum(self.equations.squares * self.covariances))

    def with_params(self) -> "SoftPanel":
        """q(s), (V4)."""
        prior = self.equations.noise_prior
        return replace(
            self,
            noise=G(prior.dof + self.equations.n_observations, prior.inverse_scale + self.misfit),
        )

    def bound(self) -> float:
        """E ln p(y, s | f) + the entropy of q(f, μ) q(s)."""
        noise_prior = self.equations.noise_prior
        return self.entropy + expected_log_noise(
            self.noise, self.equations.n_observations, self.misfit, noise_prior
        )

    def numbers(self) -> Array:
        """ln of the inverse scale of q(s)."""
        return np.log([self.noise.inverse_scale])

    def with_numbers(self, numbers: Array) -> "SoftPanel":
        return replace(self, noise=G(self.noise.dof, float(np.exp(numbers[0]))))

    def draws(self, rng: np.random.Generator, n: int) -> LatentDraws:
        """Means of components, then vectors given them; the noise."""
        latent, means = self.drawn_vectors(rng, n)
        return LatentDraws(
            latent, means, [{"noise_precision": self.noise.draw(rng)} for _ in range(n)]
        )

    def log_ratios(self, draws: LatentDraws) -> Array:
        """ln p(y, s | f) − ln q(f, μ) q(s), up to a constant."""
        assert draws.means is not None
        found = np.empty(len(draws.params))
        for i, params in enumerate(draws.params):
            own = self.noise.log_density(params["noise_precision"]) + self.log_density(
                draws.latent[i], draws.means[i]
            )
            found[i] = self.equations.likelihood.log_density(draws.latent[i], params) - own
        return found
