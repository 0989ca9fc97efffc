"""q of the coefficients of shared outcomes where they are few enough to factorise their precision,
(V3) and (V4).

The unknowns are one normal vector g = (f, e, μ): the users' coefficients (U,), those of covariates
(C,) and the components' means (K,). Given E s_y, E S_k and q(z) its precision is

    Λ_ff = diag(Σ_k q(z_u = k) E S_k) + E s_y PᵀP,   Λ_fμ = −q(z_u = k) E S_k,   Λ_μμ = diag(n_k E
    S_k + E R_0),

with the covariates' columns beside P and their prior N(0, I). To have μ in it costs little, and
matters: a cluster's mean and its users' coefficients are far better known relative to each other
than alone.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

from dualview.behaviors.approximation.latent import (
    LatentDraws,
    LearnedNoise,
    SoftPrior,
    expected_log_noise,
)
from dualview.distributions import G

Array = NDArray[np.float64]

_LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class ThreadEquations:
    """The regression of shared outcomes: [P X]ᵀ[P X] (N, N), [P X]ᵀ y (N,), and how outcomes are
    made of g = (f, e)."""

    likelihood: Any
    gram: Array
    weighted: Array

    @property
    def n_users(self) -> int:
        return int(self.likelihood.n_users)

    def misfit(self, mean: Array, covariance: Array) -> float:
        """E |y − P f − X e|²."""
        residual = self.likelihood.residual(mean[: self.n_users, None], mean[self.n_users :])
        return float(residual @ residual) + float(np.sum(self.gram * covariance))


@dataclass(frozen=True)
class SoftThreads(LearnedNoise):
    """q(f, e, μ) q(s_y). mean (N + K,), factor: of Λ, lower; noise: q(s_y)."""

    equations: ThreadEquations
    mean: Array
    factor: Array
    noise: G

    joint = True

    @classmethod
    def start(cls, equations: ThreadEquations) -> "SoftThreads":
        """Under a prior N(0, I) and a noise precision of 1; there are no components yet."""
        n = len(equations.weighted)
        factor = np.asarray(np.linalg.cholesky(np.eye(n) + equations.gram), dtype=float)
        return cls(
            equations, cho_solve((factor, True), equations.weighted), factor, G(1.0, 1.0)
        ).with_params()

    @cached_property
    def covariance(self) -> Array:
        """Λ⁻¹."""
        return np.asarray(cho_solve((self.factor, True), np.eye(len(self.factor))))

    @property
    def n_components(self) -> int:
        return len(self.mean) - len(self.equations.weighted)

    @property
    def _users(self) -> slice:
        return slice(0, self.equations.n_users)

    @property
    def _components(self) -> slice:
        return slice(len(self.equations.weighted), None)

    @property
    def means(self) -> Array:  # type: ignore[override]
        return self.mean[self._users, None]

    @property
    def covariances(self) -> Array:  # type: ignore[override]
        return np.diagonal(self.covariance)[self._users, None, None]

    @property
    def crosses(self) -> Array:  # type: ignore[override]
        return np.ascontiguousarray(self.covariance[self._components, self._users])[
            :, :, None, None
        ]

    @property
    def component_means(self) -> Array:  # type: ignore[override]
        return self.mean[self._components, None]

    @property
    def component_covariances(self) -> Array:  # type: ignore[override]
        return np.diagonal(self.covariance)[self._components, None, None]

    def with_latent(self, prior: SoftPrior) -> "SoftThreads":
        """q(f, e, μ), (V3)."""
        gram, weighted = self.equations.gram, self.equations.weighted
        n, n_users, n_components = len(weighted), self.equations.n_users, len(prior.precisions)
        pulls = prior.responsibilities * prior.precisions[:, 0, :1]  # (K, U)
        precision = np.zeros((n + n_components, n + n_components))
        precision[:n, :n] = self.noise.mean * gram
        own = np.ones(n + n_components)
        own[:n_users], own[n:] = pulls.sum(axis=0), pulls.sum(axis=1) + prior.base_precision[0, 0]
        np.fill_diagonal(precision, np.diagonal(precision) + own)
        precision[n:, :n_users], precision[:n_users, n:] = -pulls, -pulls.T
        pull = np.full(n_components, prior.base_precision[0, 0] * prior.base_mean[0])
        factor = np.asarray(np.linalg.cholesky(precision), dtype=float)
        mean = cho_solve((factor, True), np.concatenate([self.noise.mean * weighted, pull]))
        return replace(self, mean=mean, factor=factor)

    @cached_property
    def misfit(self) -> float:
        """E |y − P f − X e|²."""
        n = len(self.equations.weighted)
        return self.equations.misfit(self.mean[:n], self.covariance[:n, :n])

    def with_params(self) -> "SoftThreads":
        """q(s_y), (V4)."""
        n_threads = len(self.equations.likelihood.outcome)
        return replace(self, noise=G(1.0 + n_threads, 1.0 + self.misfit))

    def bound(self) -> float:
        """E ln p(y, e, s_y | f) + the entropy of q(f, e, μ) q(s_y)."""
        n_threads = len(self.equations.likelihood.outcome)
        others = slice(self.equations.n_users, len(self.equations.weighted))
        squares = float(np.sum(self.mean[others] ** 2) + np.diagonal(self.covariance)[others].sum())
        return (
            expected_log_noise(self.noise, n_threads, self.misfit)
            - 0.5 * (squares + (others.stop - others.start) * _LOG_2PI)
            + 0.5 * len(self.mean) * (1.0 + _LOG_2PI)
            - float(np.log(np.diagonal(self.factor)).sum())
        )

    def draws(self, rng: np.random.Generator, n: int) -> LatentDraws:
        """Draws of g and of s_y."""
        noise = rng.standard_normal((len(self.mean), n))
        drawn = (self.mean[:, None] + solve_triangular(self.factor, noise, lower=True, trans="T")).T
        params = [
            {"noise_precision": self.noise.draw(rng), "coefficients": row}
            for row in drawn[:, self.equations.n_users : len(self.equations.weighted)]
        ]
        return LatentDraws(drawn[:, self._users, None], drawn[:, self._components, None], params)

    def log_ratios(self, draws: LatentDraws) -> Array:
        """ln p(y, e, s_y | f) − ln q(f, e, μ) q(s_y)."""
        assert draws.means is not None
        found = np.empty(len(draws.params))
        for i, params in enumerate(draws.params):
            drawn = np.concatenate(
                [draws.latent[i, :, 0], params["coefficients"], draws.means[i, :, 0]]
            )
            standard = self.factor.T @ (drawn - self.mean)
            own = self.noise.log_density(params["noise_precision"]) - 0.5 * float(
                standard @ standard
            )
            found[i] = self.equations.likelihood.log_density(draws.latent[i], params) - own
        return found
