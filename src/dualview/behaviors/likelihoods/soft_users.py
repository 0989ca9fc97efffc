"""q of latent vectors and of the components' means, (V3), where every observation is of one user;
for any number of users.

All users' vectors and all components' means are one normal vector. Its precision couples users
through the means only: a block A_u = Σ_k q(z_u = k) E S_k + H_u for each user, where H_u is what
observations add, and B_u = −q(z_u = k) E S_k between user and means. So users are eliminated one by
one, which leaves a system M of the size of the means, and everything takes time in proportion to
the users.

latent vectors (U, q); the means of components end to end, (K q,).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from dualview.behaviors.likelihoods.soft import (
    LatentApproximation,
    LatentDraws,
    LearnedNoise,
    SoftPrior,
    expected_log_noise,
)
from dualview.behaviors.records import Params
from dualview.distributions import G

Array = NDArray[np.float64]

_LOG_2PI = math.log(2.0 * math.pi)
_SMALL = 1e-4  # log odds below which w is that of a series
_LARGEST = 50.0  # ln ξ that an extrapolation goes to


def inverses(matrices: Array) -> Array:
    """Inverses of symmetric positive definite matrices (…, n, n), symmetric to the last bit."""
    found = np.linalg.solve(matrices, np.broadcast_to(np.eye(matrices.shape[-1]), matrices.shape))
    return np.asarray(0.5 * (found + np.swapaxes(found, -1, -2)), dtype=float)


@dataclass(frozen=True)
class JointVectors(LatentApproximation):
    """q(f, μ): f_u | μ ~ N(offsets_u + gains_u μ, conditionals_u), μ ~ N(mean, M⁻¹).

    offsets (U, q), gains (U, q, K q), conditionals (U, q, q), mean (K q,), system: M.
    """

    offsets: Array
    gains: Array
    conditionals: Array
    mean: Array
    system: Array

    joint = True

    @staticmethod
    def begin(squares: Array, weighted: Array) -> tuple[Array, Array, Array, Array, Array]:
        """q under a prior N(0, I), given what observations say; there are no components yet."""
        n_users, n_dims = weighted.shape
        conditionals = inverses(np.eye(n_dims) + squares)
        offsets = np.einsum("uij,uj->ui", conditionals, weighted)
        nothing = np.zeros((n_users, n_dims, 0))
        return offsets, nothing, conditionals, np.zeros(0), np.zeros((0, 0))

    @property
    def _n_dims(self) -> int:
        return int(self.offsets.shape[1])

    @cached_property
    def _covariance(self) -> Array:
        """Cov μ, (K q, K q)."""
        return inverses(self.system) if len(self.system) else self.system

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

    def solved(self, prior: SoftPrior, squares: Array, weighted: Array) -> Self:
        """The best q(f, μ) where observations say exp(f_uᵀ weighted_u − f_uᵀ squares_u f_u/2): (U,
        q) and (U, q, q)."""
        n_users, n_dims = self.offsets.shape
        n_components = len(prior.precisions)
        pulls = np.einsum("ku,kij->uikj", prior.responsibilities, prior.precisions).reshape(
            n_users, n_dims, -1
        )
        own = np.einsum("ku,kij->uij", prior.responsibilities, prior.precisions) + squares
        conditionals = inverses(own)
        gains, offsets = conditionals @ pulls, np.einsum("uij,uj->ui", conditionals, weighted)
        system = -np.einsum("uia,uib->ab", pulls, gains)
        counts = prior.responsibilities.sum(axis=1)
        for k in range(n_components):
            place = slice(k * n_dims, (k + 1) * n_dims)
            system[place, place] += counts[k] * prior.precisions[k] + prior.base_precision
        right = np.tile(prior.base_precision @ prior.base_mean, n_components) + np.einsum(
            "uia,ui->a", pulls, offsets
        )
        system = 0.5 * (system + system.T)
        mean = np.linalg.solve(system, right)
        return replace(
            self, offsets=offsets, gains=gains, conditionals=conditionals, mean=mean, system=system
        )

    @property
    def entropy(self) -> float:
        """That of q(f, μ)."""
        log_determinant = float(
            np.linalg.slogdet(self.conditionals)[1].sum() - np.linalg.slogdet(self.system)[1]
        )
        return 0.5 * ((self.offsets.size + len(self.mean)) * (1.0 + _LOG_2PI) + log_determinant)

    def drawn_vectors(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """Latent vectors (n, U, q) and means (n, K, q): means, then vectors given them."""
        factor = np.linalg.cholesky(self._covariance)
        means = self.mean + rng.standard_normal((n, len(self.mean))) @ factor.T
        noise = rng.standard_normal((n, *self.offsets.shape))
        latent = self.offsets + np.einsum("uia,na->nui", self.gains, means)
        latent += np.einsum("uij,nuj->nui", np.linalg.cholesky(self.conditionals), noise)
        return latent, means.reshape(n, len(self.mean) // self._n_dims, self._n_dims)

    def log_density(self, latent: Array, means: Array) -> float:
        """ln q(f, μ) up to a constant, of vectors (U, q) and means (K, q)."""
        flat = means.ravel()
        away = latent - self.offsets - self.gains @ flat
        standard = np.linalg.solve(np.linalg.cholesky(self.conditionals), away[..., None])
        return -0.5 * (
            float(np.sum(standard**2))
            + float((flat - self.mean) @ self.system @ (flat - self.mean))
        )


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
class SoftPanel(JointVectors, LearnedNoise):
    """q(f, μ) q(s); where the noise is known, s = 1 and has no factor."""

    equations: PanelEquations
    noise: G

    @classmethod
    def start(cls, equations: PanelEquations) -> "SoftPanel":
        """Under a prior N(0, I) and a noise precision of 1; there are no components yet."""
        begun = cls.begin(equations.squares, equations.weighted)
        first = cls(*begun, equations, G(1.0, 1.0))
        return first.with_params()

    @property
    def _is_known(self) -> bool:
        return bool(self.equations.likelihood.known_noise)

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
        if self._is_known:
            return self
        prior = self.equations.noise_prior
        return replace(
            self,
            noise=G(prior.dof + self.equations.n_observations, prior.inverse_scale + self.misfit),
        )

    def bound(self) -> float:
        """E ln p(y, s | f) + the entropy of q(f, μ) q(s)."""
        n, noise_prior = self.equations.n_observations, self.equations.noise_prior
        if self._is_known:
            return self.entropy - 0.5 * (n * _LOG_2PI + self.misfit)
        return self.entropy + expected_log_noise(self.noise, n, self.misfit, noise_prior)

    def numbers(self) -> Array:
        return np.empty(0) if self._is_known else super().numbers()

    def with_numbers(self, numbers: Array) -> "SoftPanel":
        return self if self._is_known else super().with_numbers(numbers)

    def draws(self, rng: np.random.Generator, n: int) -> LatentDraws:
        """Means of components, then vectors given them; the noise."""
        latent, means = self.drawn_vectors(rng, n)
        params: list[Params] = [
            {} if self._is_known else {"noise_precision": self.noise.draw(rng)} for _ in range(n)
        ]
        return LatentDraws(latent, means, params)

    def log_ratios(self, draws: LatentDraws) -> Array:
        """ln p(y, s | f) − ln q(f, μ) q(s), up to a constant."""
        assert draws.means is not None
        found = np.empty(len(draws.params))
        for i, params in enumerate(draws.params):
            own = self.log_density(draws.latent[i], draws.means[i])
            own += sum(self.noise.log_density(value) for value in params.values())
            found[i] = self.equations.likelihood.log_density(draws.latent[i], params) - own
        return found


@dataclass(frozen=True)
class SoftLogit(JointVectors):
    """q(f, μ) Π_i q(ω_i) of yes-or-no observations, (V3) with the Pólya–Gamma bound (Jaakkola and
    Jordan 2000).

    tilts (n,): ξ of every observation, in the order of the likelihood's panel. An observation i of
    user u has the log odds ψ_i = x_iᵀ f_u + c_i. Given ω_i it is normal in ψ_i. The best q(ω_i) is
    PG(1, ξ_i), and with it

        E ln p(y_i | f_u) ≥ (y_i − ½) E ψ_i − w(ξ_i) (E ψ_i² − ξ_i²)/2 − ξ_i/2 + ln σ(ξ_i),
        w(ξ) = E ω = tanh(ξ/2)/(2ξ),

    which is highest at ξ_i² = E ψ_i². So ω stands in a factor of its own, and the bound of all data
    rises with every update.
    """

    likelihood: Any
    tilts: Array

    @classmethod
    def start(cls, likelihood: Any) -> "SoftLogit":
        """Under a prior N(0, I), with ω at its mean at even odds; there are no components yet."""
        panel = likelihood.panel
        zero = np.zeros((len(panel.counts), likelihood.n_dims))
        unit = cls.begin(np.zeros((*zero.shape, zero.shape[1])), zero)
        first = cls(*unit, likelihood, np.zeros(len(panel.outcome)))
        return cls(*cls.begin(*first._terms), likelihood, first.tilts).with_params()

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
