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

from dualview.behaviors.approximation.latent import LatentApproximation, LatentDraws, SoftPrior
from dualview.behaviors.families.base import FamilyFactor, Moments

Array = NDArray[np.float64]

_LOG_2PI = math.log(2.0 * math.pi)


def inverses(matrices: Array) -> Array:
    """Inverses of symmetric positive definite matrices (…, n, n), symmetric to the last bit."""
    found = np.linalg.solve(matrices, np.broadcast_to(np.eye(matrices.shape[-1]), matrices.shape))
    return np.asarray(0.5 * (found + np.swapaxes(found, -1, -2)), dtype=float)


@dataclass(frozen=True)
class SoftRows(LatentApproximation):
    """q(f, μ), and the family's factor, of a likelihood of rows of one user each, (V3) and (V4).

    f_u | μ ~ N(offsets_u + gains_u μ, conditionals_u), μ ~ N(mean, M⁻¹): offsets (U, q), gains (U,
    q, K q), conditionals (U, q, q), mean (K q,), system: M.
    """

    offsets: Array
    gains: Array
    conditionals: Array
    mean: Array
    system: Array
    likelihood: Any
    factor: FamilyFactor

    joint = True

    @classmethod
    def start(cls, likelihood: Any, factor: FamilyFactor) -> "SoftRows":
        """Under a prior N(0, I) with the factor as it starts; there are no components yet."""
        squares, weighted = _messages(likelihood, factor)
        n_users, n_dims = weighted.shape
        conditionals = inverses(np.eye(n_dims) + squares)
        offsets = np.einsum("uij,uj->ui", conditionals, weighted)
        nothing = np.zeros((n_users, n_dims, 0)), conditionals, np.zeros(0), np.zeros((0, 0))
        return cls(offsets, *nothing, likelihood, factor).with_params()

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

    def with_latent(self, prior: SoftPrior) -> "SoftRows":
        return self.solved(prior, *_messages(self.likelihood, self.factor))

    @cached_property
    def _moments(self) -> Moments:
        panel, covariances = self.likelihood.panel, self.covariances

        def each() -> Array:
            own = (panel.design, covariances[panel.user], panel.design)
            return np.asarray(np.einsum("ni,nij,nj->n", *own))

        return Moments(
            self.likelihood.predictor(self.means),
            lambda: float(np.sum(panel.squares * covariances)),
            each,
        )

    def with_params(self) -> "SoftRows":
        return replace(self, factor=self.factor.updated(self.likelihood.observed, self._moments))

    def bound(self) -> float:
        return self.entropy + self.factor.bound(self.likelihood.observed, self._moments)

    def numbers(self) -> Array:
        return self.factor.numbers()

    def with_numbers(self, numbers: Array) -> "SoftRows":
        return replace(self, factor=self.factor.with_numbers(numbers))

    def draws(self, rng: np.random.Generator, n: int) -> LatentDraws:
        """Means of components, then vectors given them; the family's parameters."""
        latent, means = self.drawn_vectors(rng, n)
        return LatentDraws(latent, means, [self.factor.draw(rng) for _ in range(n)])

    def log_ratios(self, draws: LatentDraws) -> Array:
        """The augmentation is integrated out of p."""
        assert draws.means is not None
        found = np.empty(len(draws.params))
        for i, phi in enumerate(draws.params):
            own = self.log_density(draws.latent[i], draws.means[i]) + self.factor.log_density(phi)
            found[i] = self.likelihood.log_density(draws.latent[i], phi) - own
        return found


def _messages(likelihood: Any, factor: FamilyFactor) -> tuple[Array, Array]:
    """What rows say of the users' vectors given the family's factor: (U, q, q) and (U, q)."""
    panel = likelihood.panel
    weights, responses = factor.messages(likelihood.observed)
    if likelihood.constant is not None:
        responses = responses - likelihood.constant
    if np.ndim(weights) == 0:
        return weights * panel.squares, weights * panel._replace(outcome=responses).weighted
    rows = panel._replace(design=panel.design * np.sqrt(np.asarray(weights))[:, None])
    return rows.squares, panel._replace(outcome=weights * responses).weighted
