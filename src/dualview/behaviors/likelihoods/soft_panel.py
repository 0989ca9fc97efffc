"""q of the latent vectors of per-user regressions, (V3) and (V4), for any number of users.

All users' vectors and all components' means are one normal vector. Its precision couples users through the means only: a block
A_u = Σ_k q(z_u = k) E S_k + E s Σ_i x_i x_iᵀ for each user, B_u = −q(z_u = k) E S_k between user and means. So users are
eliminated one by one, which leaves a system M of the size of the means, and everything takes time in proportion to the users.

latent vectors (U, q); the means of components end to end, (K q,).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.soft import LatentApproximation, LatentDraws, SoftPrior
from dualview.behaviors.likelihoods.soft_threads import expected_log_noise
from dualview.distributions import G

Array = NDArray[np.float64]

_LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class PanelEquations:
    """Per-user regressions: Σ x xᵀ (U, q, q) and Σ x y (U, q) of every user, the likelihood, and the prior of its noise."""

    likelihood: Any
    squares: Array
    weighted: Array
    noise_prior: G

    @property
    def n_observations(self) -> int:
        return len(self.likelihood.panel.outcome)


@dataclass(frozen=True)
class SoftPanel(LatentApproximation):
    """q(f, μ) q(s): f_u | μ ~ N(offsets_u + gains_u μ, conditionals_u), μ ~ N(mean, M⁻¹).

    offsets (U, q), gains (U, q, K q), conditionals (U, q, q), mean (K q,), system: M.
    """

    equations: PanelEquations
    offsets: Array
    gains: Array
    conditionals: Array
    mean: Array
    system: Array
    noise: G

    joint = True

    @classmethod
    def start(cls, equations: PanelEquations) -> "SoftPanel":
        """Under a prior N(0, I) and a noise precision of 1; there are no components yet."""
        n_users, n_dims = equations.weighted.shape
        conditionals = _inverses(np.eye(n_dims) + equations.squares)
        offsets = np.einsum("uij,uj->ui", conditionals, equations.weighted)
        nothing = np.zeros((n_users, n_dims, 0))
        first = cls(equations, offsets, nothing, conditionals, np.zeros(0), np.zeros((0, 0)), equations.noise_prior)
        return first.with_params()

    @property
    def _n_dims(self) -> int:
        return int(self.offsets.shape[1])

    @cached_property
    def _covariance(self) -> Array:
        """Cov μ, (K q, K q)."""
        return _inverses(self.system) if len(self.system) else self.system

    @cached_property
    def means(self) -> Array:  # type: ignore[override]
        return np.asarray(self.offsets + self.gains @ self.mean)

    @cached_property
    def _with_means(self) -> Array:
        """Cov(f_u, μ), (U, q, K q)."""
        return np.asarray(self.gains @ self._covariance)

    @cached_property
    def covariances(self) -> Array:  # type: ignore[override]
        return np.asarray(self.conditionals + self._with_means @ np.swapaxes(self.gains, 1, 2))

    @cached_property
    def crosses(self) -> Array:  # type: ignore[override]
        n_users, n_dims = self.offsets.shape
        by_component = self._with_means.reshape(n_users, n_dims, -1, n_dims)
        return np.ascontiguousarray(by_component.transpose(2, 0, 1, 3))

    @property
    def component_means(self) -> Array:  # type: ignore[override]
        return self.mean.reshape(-1, self._n_dims)

    @property
    def component_covariances(self) -> Array:  # type: ignore[override]
        n = len(self.mean) // self._n_dims
        blocks = self._covariance.reshape(n, self._n_dims, n, self._n_dims)
        return np.ascontiguousarray(np.einsum("kikj->kij", blocks))

    def with_latent(self, prior: SoftPrior) -> "SoftPanel":
        """q(f, μ), (V3)."""
        n_users, n_dims = self.offsets.shape
        n_components, noise = len(prior.precisions), self.noise.mean
        pulls = np.einsum("ku,kij->uikj", prior.responsibilities, prior.precisions).reshape(n_users, n_dims, -1)
        own = np.einsum("ku,kij->uij", prior.responsibilities, prior.precisions) + noise * self.equations.squares
        conditionals = _inverses(own)
        gains, offsets = conditionals @ pulls, np.einsum("uij,uj->ui", conditionals, noise * self.equations.weighted)
        system = -np.einsum("uia,uib->ab", pulls, gains)
        counts = prior.responsibilities.sum(axis=1)
        for k in range(n_components):
            place = slice(k * n_dims, (k + 1) * n_dims)
            system[place, place] += counts[k] * prior.precisions[k] + prior.base_precision
        right = np.tile(prior.base_precision @ prior.base_mean, n_components) + np.einsum("uia,ui->a", pulls, offsets)
        system = 0.5 * (system + system.T)
        mean = np.linalg.solve(system, right)
        return replace(self, offsets=offsets, gains=gains, conditionals=conditionals, mean=mean, system=system)

    @cached_property
    def misfit(self) -> float:
        """E Σ_i (y_i − x_iᵀ f)²."""
        residual = self.equations.likelihood.residual(self.means)
        return float(residual @ residual) + float(np.sum(self.equations.squares * self.covariances))

    def with_params(self) -> "SoftPanel":
        """q(s), (V4)."""
        prior = self.equations.noise_prior
        return replace(self, noise=G(prior.dof + self.equations.n_observations, prior.inverse_scale + self.misfit))

    def bound(self) -> float:
        """E ln p(y, s | f) + the entropy of q(f, μ) q(s)."""
        log_determinant = float(np.linalg.slogdet(self.conditionals)[1].sum() - np.linalg.slogdet(self.system)[1])
        entropy = 0.5 * ((self.offsets.size + len(self.mean)) * (1.0 + _LOG_2PI) + log_determinant)
        return entropy + expected_log_noise(self.noise, self.equations.n_observations, self.misfit, self.equations.noise_prior)

    def numbers(self) -> Array:
        """ln of the inverse scale of q(s)."""
        return np.log([self.noise.inverse_scale])

    def with_numbers(self, numbers: Array) -> "SoftPanel":
        return replace(self, noise=G(self.noise.dof, float(np.exp(numbers[0]))))

    def draws(self, rng: np.random.Generator, n: int) -> LatentDraws:
        """Means of components, then vectors given them."""
        factor = np.linalg.cholesky(self._covariance)
        means = self.mean + rng.standard_normal((n, len(self.mean))) @ factor.T
        noise = rng.standard_normal((n, *self.offsets.shape))
        latent = self.offsets + np.einsum("uia,na->nui", self.gains, means)
        latent += np.einsum("uij,nuj->nui", np.linalg.cholesky(self.conditionals), noise)
        params = [{"noise_precision": self.noise.draw(rng)} for _ in range(n)]
        return LatentDraws(latent, means.reshape(n, -1, self._n_dims), params)

    def log_ratios(self, draws: LatentDraws) -> Array:
        """ln p(y, s | f) − ln q(f, μ) q(s), up to a constant."""
        assert draws.means is not None
        found, lower = np.empty(len(draws.params)), np.linalg.cholesky(self.conditionals)
        for i, params in enumerate(draws.params):
            means = draws.means[i].ravel()
            away = draws.latent[i] - self.offsets - self.gains @ means
            standard = np.linalg.solve(lower, away[..., None])
            square = float(np.sum(standard**2)) + float((means - self.mean) @ self.system @ (means - self.mean))
            own = self.noise.log_density(params["noise_precision"]) - 0.5 * square
            found[i] = self.equations.likelihood.log_density(draws.latent[i], params) - own
        return found


def _inverses(matrices: Array) -> Array:
    """Inverses of symmetric positive definite matrices (…, n, n), symmetric to the last bit."""
    found = np.linalg.solve(matrices, np.broadcast_to(np.eye(matrices.shape[-1]), matrices.shape))
    return np.asarray(0.5 * (found + np.swapaxes(found, -1, -2)), dtype=float)
