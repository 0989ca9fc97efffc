"""q of a Gaussian view, (V1) and (V2): Π_k q(μ_k) · q(β) Π_k q(S_k | β) · q(μ_0) q(R_0) q(W_0), in
working units.

The updates are (C1) to (C5) with sums weighted by q(z) and expectations in place of values. x (U,
D), means (K, D).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import multigammaln

from dualview.distributions import Normal, Wishart, wishart_factors
from dualview.numerics import parallel
from dualview.numerics.hyperprior import PUBLISHED, Hyperprior
from dualview.numerics.kinds import register
from dualview.numerics.streams import stream_of
from dualview.views.approximation import Approximation, exp_matrices, log_matrices
from dualview.views.base import Array, Base, Components
from dualview.views.gaussian import conditionals, density
from dualview.views.gaussian.kind import GaussianState
from dualview.views.gaussian.soft_cells import SoftCells
from dualview.views.gaussian.soft_scale import Grid, SoftScale, dof_grid, soft_scale
from dualview.views.soft_vectors import SoftVectors

_LOG_2PI = float(np.log(2.0 * np.pi))
_PIECE = 16_384  # users whose scores are worked out together


class GaussianFactors(NamedTuple):
    """What scores and sums need of q: E μ_k, Cov μ_k, E S_k and E ln|S_k| of every component."""

    means: Array
    mean_covariances: Array
    precisions: Array
    log_determinants: Array


class SoftSums(NamedTuple):
    """Σ_u q(z_u = k) of 1, x_u − c_k, E (x_u − c_k)(x_u − c_k)ᵀ and Cov(x_u, μ_k): sums about
    centers c (K, D).

    entropy: that of q of cells that are not exact, given the users' components.
    """

    counts: Array
    centres: Array
    firsts: Array
    seconds: Array
    crosses: Array | None
    entropy: float = 0.0

    def plus(self, other: "SoftSums") -> "SoftSums":
        """The sums over more users, about the same centers."""
        crosses = (
            None if self.crosses is None or other.crosses is None else self.crosses + other.crosses
        )
        firsts, seconds = self.firsts + other.firsts, self.seconds + other.seconds
        return SoftSums(
            self.counts + other.counts,
            self.centres,
            firsts,
            seconds,
            crosses,
            self.entropy + other.entropy,
        )

    def scatters(self, means: Array, covariances: Array) -> Array:
        """Σ_u q(z_u = k) E (x_u − μ_k)(x_u − μ_k)ᵀ, (K, D, D), for components of these means and
        covariances."""
        away = means - self.centres
        mixed = self.firsts[:, :, None] * away[:, None, :]
        found = self.seconds - mixed - np.swapaxes(mixed, 1, 2)
        found += self.counts[:, None, None] * (away[:, :, None] * away[:, None, :] + covariances)
        if self.crosses is not None:
            found -= self.crosses + np.swapaxes(self.crosses, 1, 2)
        return 0.5 * (found + np.swapaxes(found, 1, 2))


def centres_at(means: Array) -> GaussianFactors:
    """Factors with these means, for sums about them; nothing else of them is known."""
    n_components, n_dims = means.shape
    nothing = np.zeros((n_components, n_dims, n_dims))
    return GaussianFactors(means, nothing, nothing, np.zeros(n_components))


def _pieces(function: Callable[[int], Any], n_users: int) -> list[Any]:
    """What a function returns for pieces of the users, given where each begins; on all cores where
    there are several."""
    starts = range(0, n_users, _PIECE)
    return list(parallel.apply(function, starts) if len(starts) > 1 else map(function, starts))


def expected_score(table, vectors: SoftVectors, factors: GaussianFactors) -> None:
    """In place: table (K, U) gains E ln p(x_u | k), (V1)."""
    n_dims = factors.means.shape[1]
    uppers = np.linalg.cholesky(factors.precisions)
    heights = 0.5 * (factors.log_determinants - n_dims * _LOG_2PI)
    heights = heights - 0.5 * np.einsum("kij,kij->k", factors.precisions, factors.mean_covariances)

    def piece(first: int) -> None:
        users = slice(first, first + _PIECE)
        x = vectors.means[users]
        for k, precision in enumerate(factors.precisions):
            projected = (x - factors.means[k]) @ uppers[k]
            squares = np.einsum("ud,ud->u", projected, projected)
            if vectors.covariances is not None:
                squares += vectors.covariances[users].reshape(len(x), -1) @ precision.ravel()
            if vectors.crosses is not None:
                squares -= 2.0 * (vectors.crosses[k, users].reshape(len(x), -1) @ precision.ravel())
            table[k, users] += heights[k] - 0.5 * squares

    if vectors.hidden is None:
        _pieces(piece, len(vectors.means))
        return
    before = table[:, vectors.hidden.users]
    _pieces(piece, len(vectors.means))
    hidden = _cells(vectors).scores(factors.means, factors.precisions)
    table[:, vectors.hidden.users] = before + heights[:, None] + hidden


def absorb(responsibilities: Array, vectors: SoftVectors, factors: GaussianFactors) -> SoftSums:
    """Sums about the present means, so that they keep their digits in narrow clusters."""
    n_components, n_dims = factors.means.shape
    of_complete = responsibilities
    if vectors.hidden is not None:
        of_complete = responsibilities.copy()
        of_complete[:, vectors.hidden.users] = 0.0

    def piece(first: int):
        users = slice(first, first + _PIECE)
        x, weights = vectors.means[users], of_complete[:, users]
        firsts, seconds = np.empty((n_components, n_dims)), np.empty((n_components, n_dims, n_dims))
        for k in range(n_components):
            away = x - factors.means[k]
            weighted = away * weights[k][:, None]
            firsts[k], seconds[k] = weighted.sum(axis=0), weighted.T @ away
        if vectors.covariances is not None:
            seconds += (weights @ vectors.covariances[users].reshape(len(x), -1)).reshape(
                seconds.shape
            )
        crosses = None
        if vectors.crosses is not None:
            crosses = np.einsum("ku,kuij->kij", weights, vectors.crosses[:, users])
        return weights.sum(axis=1), firsts, seconds, crosses

    parts = _pieces(piece, len(vectors.means))
    counts, firsts, seconds = (sum(part[i] for part in parts) for i in range(3))
    crosses = None if vectors.crosses is None else sum(part[3] for part in parts)
    found = SoftSums(counts, factors.means, firsts, seconds, crosses)
    return (
        found if vectors.hidden is None else _with_cells(found, responsibilities, _cells(vectors))
    )


def _cells(vectors: SoftVectors) -> SoftCells:
    assert isinstance(vectors.hidden, SoftCells)
    return vectors.hidden


def _with_cells(sums: SoftSums, responsibilities: Array, cells: SoftCells) -> SoftSums:
    """Sums with those of the users who have cells that are not exact."""
    weights, firsts, seconds = (
        responsibilities[:, cells.users],
        sums.firsts.copy(),
        sums.seconds.copy(),
    )
    for k, own in enumerate(weights):
        away = cells.working[k] - sums.centres[k]
        firsts[k] += own @ away
        seconds[k] += (away * own[:, None]).T @ away + cells.scatter(k, own)
    entropy = float(np.sum(weights * cells.entropies))
    return SoftSums(
        sums.counts + weights.sum(axis=1), sums.centres, firsts, seconds, sums.crosses, entropy
    )


register(GaussianFactors, expected_score=expected_score, absorb=absorb)


@dataclass(frozen=True)
class GaussianApproximation(Approximation):
    """q of the components and the base of one Gaussian view.

    joint: q(μ) belongs to the factor of the latent vectors, which has both together; it is then not
    updated here, and its entropy not counted.
    """

    means: Array
    mean_covariances: Array
    scale: SoftScale
    base_mean: Array
    base_mean_covariance: Array
    base_precision: Wishart
    base_covariance: Wishart
    hyperprior: Hyperprior = PUBLISHED
    joint: bool = False

    @classmethod
    def start(
        cls, x: Array, responsibilities: Array, hyperprior: Hyperprior, joint: bool
    ) -> "GaussianApproximation":
        """From a first partition: components as their users are, what they share as components
        suggest."""
        counts = responsibilities.sum(axis=1)
        means = (responsibilities @ x) / np.maximum(counts, 1.0)[:, None]
        spread = x - responsibilities.T @ means
        sums = absorb(responsibilities, SoftVectors(x), centres_at(means))
        return cls.begun(len(x), spread.T @ spread, sums, hyperprior, joint)

    @classmethod
    def begun(
        cls,
        n_users: int,
        spread: Array,
        sums: SoftSums,
        hyperprior: Hyperprior,
        joint: bool = False,
    ) -> "GaussianApproximation":
        """The same from sums about the components' means μ, and Σ_u s_u s_uᵀ of s_u = x_u − Σ_k
        q(z_u = k) μ_k, (D, D)."""
        means = sums.centres
        n_components, n_dims = means.shape
        n_spare = max(1.0, n_users - n_components)
        within = (spread + np.eye(n_dims)) / (n_spare + 1.0)
        dof = n_dims + n_components * (n_dims + 1.0)
        base_covariance = Wishart(dof, dof * np.linalg.solve(within, np.eye(n_dims)))
        unit = np.eye(n_dims)
        nothing = np.zeros((n_components, n_dims, n_dims))
        scale = soft_scale(sums.counts, sums.scatters(means, nothing), base_covariance, hyperprior)
        base_precision = Wishart(n_dims + n_components, unit * (n_dims + n_components))
        return cls(
            means,
            nothing,
            scale,
            np.zeros(n_dims),
            unit,
            base_precision,
            base_covariance,
            hyperprior,
            joint,
        )

    @property
    def n_dims(self) -> int:
        return int(self.means.shape[1])

    @property
    def factors(self) -> GaussianFactors:
        return GaussianFactors(
            self.means, self.mean_covariances, self.scale.precisions, self.scale.log_determinants
        )

    def updates(self) -> tuple[str, ...]:
        own = () if self.joint else ("with_means",)
        return (*own, "with_scale", "with_base_mean", "with_base_precision", "with_base_covariance")

    def with_means(self, sums: SoftSums) -> "GaussianApproximation":
        """q(μ_k) = N(Λ⁻¹(E R_0 E μ_0 + E S_k Σ x), Λ⁻¹), Λ = E R_0 + n_k E S_k, as (C2)."""
        base, precisions = self.base_precision.mean, self.scale.precisions
        total = base + sums.counts[:, None, None] * precisions
        linear = (self.base_mean - sums.centres) @ base + np.einsum(
            "kij,kj->ki", precisions, sums.firsts
        )
        inverses = np.linalg.solve(total, np.broadcast_to(np.eye(self.n_dims), total.shape))
        covariances = np.asarray(0.5 * (inverses + np.swapaxes(inverses, 1, 2)), dtype=float)
        means = sums.centres + np.einsum("kij,kj->ki", covariances, linear)
        return replace(self, means=means, mean_covariances=covariances)

    def with_scale(self, sums: SoftSums) -> "GaussianApproximation":
        """q(β) Π q(S_k | β), as (C1) and (C6)."""
        scatters = sums.scatters(self.means, self.mean_covariances)
        return replace(
            self, scale=soft_scale(sums.counts, scatters, self.base_covariance, self.hyperprior)
        )

    def with_base_mean(self, sums: SoftSums) -> "GaussianApproximation":  # noqa: ARG002
        """q(μ_0) = N(Λ⁻¹ E R_0 Σ_k E μ_k, Λ⁻¹), Λ = I + K E R_0, as (C3)."""
        base = self.base_precision.mean
        law = Normal(base @ self.means.sum(axis=0), np.eye(self.n_dims) + len(self.means) * base)
        covariance = np.linalg.solve(law.precision, np.eye(self.n_dims))
        return replace(
            self, base_mean=law.mean, base_mean_covariance=0.5 * (covariance + covariance.T)
        )

    @property
    def _spread_of_means(self) -> Array:
        """Σ_k E (μ_k − μ_0)(μ_k − μ_0)ᵀ."""
        away = self.means - self.base_mean
        return np.asarray(
            away.T @ away
            + self.mean_covariances.sum(axis=0)
            + len(away) * self.base_mean_covariance
        )

    @property
    def _prior_of_precision(self) -> Wishart:
        """R_0's, (M5) or (M5′)."""
        dof = self.n_dims - 1 + self.hyperprior.of_means
        return Wishart(dof, dof * np.eye(self.n_dims))

    @property
    def _prior_of_covariance(self) -> Wishart:
        """W_0's, (M6)."""
        dof = self.n_dims - 1 + self.hyperprior.of_spreads
        return Wishart(dof, dof * np.eye(self.n_dims))

    def with_base_precision(self, sums: SoftSums) -> "GaussianApproximation":  # noqa: ARG002
        """q(R_0), as (C4)."""
        prior = self._prior_of_precision
        law = Wishart(prior.dof + len(self.means), prior.inverse_scale + self._spread_of_means)
        return replace(self, base_precision=law)

    def with_base_covariance(self, sums: SoftSums) -> "GaussianApproximation":  # noqa: ARG002
        """q(W_0), as (C5)."""
        prior = self._prior_of_covariance
        law = Wishart(
            prior.dof + len(self.means) * self.scale.mean_dof,
            prior.inverse_scale + self.scale.scaled,
        )
        return replace(self, base_covariance=law)

    def fitted(self, sums: SoftSums) -> float:
        """Σ_u Σ_k q(z_u = k) E ln p(x_u | k)."""
        scatters = sums.scatters(self.means, self.mean_covariances)
        heights = self.scale.log_determinants - self.n_dims * _LOG_2PI
        return (
            0.5 * float(sums.counts @ heights - np.sum(self.scale.precisions * scatters))
            + sums.entropy
        )

    def completed(self, vectors: SoftVectors) -> SoftVectors:
        """Vectors with the best q of cells that are not exact, (V1)."""
        if vectors.hidden is None:
            return vectors
        return vectors._replace(hidden=_cells(vectors).updated(self.means, self.scale.precisions))

    def with_hidden(
        self,
        rng: np.random.Generator,
        state: GaussianState,
        z: NDArray[np.int64],
        vectors: SoftVectors,
    ) -> GaussianState:
        """The state with cells that are not exact drawn."""
        if vectors.hidden is None:
            return state
        own = Components(self.means, self.scale.precisions)
        return state._replace(cells=_cells(vectors).draw(rng, z, own, state.components))

    def bound(self) -> float:
        """E ln p(components, base) + the entropy of their q."""
        n_components, n_dims = self.means.shape
        base = self.base_precision
        total = 0.5 * n_components * (base.mean_log_determinant - n_dims * _LOG_2PI)
        total -= 0.5 * float(np.sum(base.mean * self._spread_of_means))
        if not self.joint:
            total += _normal_entropy(self.mean_covariances)
        total -= 0.5 * (
            float(self.base_mean @ self.base_mean) + float(np.trace(self.base_mean_covariance))
        )
        total += _normal_entropy(self.base_mean_covariance[None]) - 0.5 * n_dims * _LOG_2PI
        total += _against(self._prior_of_precision, base) + _against(
            self._prior_of_covariance, self.base_covariance
        )
        return float(total + self.scale.with_base(self.base_covariance))

    def whitened(self, component: int, x: Array) -> Array:
        """Vectors about E μ_k, times the factor of E S_k."""
        return np.asarray(
            (x - self.means[component]) @ np.linalg.cholesky(self.scale.precisions[component])
        )

    def numbers(self) -> Array:
        """ln E R_0, ln E W_0, E μ_0, and ln of the inverse scales of the S_k at E β, as symmetric
        matrices."""
        scales = self.scale.inverse_scales(np.array(self.scale.mean_dof))
        matrices = np.concatenate(
            [self.base_precision.mean[None], self.base_covariance.mean[None], scales]
        )
        return np.concatenate([self.base_mean, log_matrices(matrices).ravel()])

    def with_numbers(self, numbers: Array) -> "GaussianApproximation":
        """The degrees of freedom and the numbers of users stay."""
        n_dims, unit = self.n_dims, np.eye(self.n_dims)
        precision, covariance, *scales = exp_matrices(numbers[n_dims:].reshape(-1, n_dims, n_dims))
        base_precision = Wishart(
            self.base_precision.dof, self.base_precision.dof * np.linalg.solve(precision, unit)
        )
        base_covariance = Wishart(
            self.base_covariance.dof, self.base_covariance.dof * np.linalg.solve(covariance, unit)
        )
        scatters = np.array(scales) - self.scale.mean_dof * covariance
        scale = soft_scale(self.scale.counts, scatters, base_covariance, self.hyperprior)
        return replace(
            self,
            base_mean=numbers[:n_dims],
            base_precision=base_precision,
            base_covariance=base_covariance,
            scale=scale,
        )

    def take(self, components: np.ndarray) -> "GaussianApproximation":
        """q with these components; what they share as it stands until the next update."""
        scale, n = self.scale, len(components)
        chosen = {
            name: getattr(scale, name)[components]
            for name in ("counts", "roots", "bases", "precisions", "log_determinants")
        }
        share = n / len(self.means)  # the next update of the scale sets these sums right
        chosen |= {"scaled": scale.scaled * share, "scaled_log": scale.scaled_log * share}
        return replace(
            self,
            means=self.means[components],
            mean_covariances=self.mean_covariances[components],
            scale=scale._replace(**chosen),
        )

    def draws(self, rng: np.random.Generator, n: int) -> list[GaussianState]:
        """Components and base from q; where q(μ) is not its own, means are at their centers."""
        n_components, n_dims = self.means.shape
        dof = rng.choice(self._grid.dof, n, p=np.exp(self.scale.log_weights))
        means = np.broadcast_to(self.means, (n, n_components, n_dims)).copy()
        if not self.joint:
            means += _normal_noise(rng, n, self.mean_covariances)
        factors = wishart_factors(
            rng, dof[:, None] + self.scale.counts, self.scale.inverse_scales(dof)
        )
        base_means = self.base_mean + _normal_noise(rng, n, self.base_mean_covariance)
        precisions, covariances = (
            _wisharts(rng, n, law) for law in (self.base_precision, self.base_covariance)
        )
        return [
            GaussianState(
                Components(means[i], factors[i]),
                Base(base_means[i], precisions[i], covariances[i], float(dof[i])),
            )
            for i in range(n)
        ]

    def from_base(self, rng: np.random.Generator, state: GaussianState, n: int) -> GaussianState:
        """n components from (M2) and (M3)."""
        return GaussianState(conditionals.draw_from_base(stream_of(rng), n, state.base), state.base)

    @property
    def _grid(self) -> Grid:
        return dof_grid(self.n_dims, self.hyperprior.least_of_vectors)

    def log_ratio(self, state: GaussianState) -> float:
        """ln p − ln q at a state, up to a constant."""
        base, (means, factors) = state.base, state.components
        least = self.n_dims - 1 + self.hyperprior.least_of_vectors
        prior = density.log_components_prior(state.components, base) + density.log_base_prior(
            base, self.hyperprior
        )
        prior += np.log(base.dof - least)  # the grid is even in this logarithm
        own = self.scale.log_weights[np.argmin(np.abs(self._grid.dof - base.dof))]
        own += self.base_precision.log_density(base.precision) + self.base_covariance.log_density(
            base.covariance
        )
        own += _log_normals(base.mean[None], self.base_mean[None], self.base_mean_covariance[None])
        inverse_scales = self.scale.inverse_scales(np.array(base.dof))
        for count, inverse_scale, factor in zip(
            self.scale.counts, inverse_scales, factors, strict=True
        ):
            own += Wishart(base.dof + count, inverse_scale).log_density(factor @ factor.T)
        if not self.joint:
            own += _log_normals(means, self.means, self.mean_covariances)
        return float(prior - own)

    def scores(self, state: GaussianState, vectors: SoftVectors) -> Array:
        """ln p(x_u | k) at a state, (K, U)."""
        means, uppers = state.components
        x, normal = np.ascontiguousarray(vectors.means), np.empty(0)
        table = np.ascontiguousarray(density.log_likelihood(x, means, uppers, normal).T)
        if vectors.hidden is not None:
            precisions = uppers @ np.swapaxes(uppers, 1, 2)
            heights = (
                np.log(np.diagonal(uppers, axis1=1, axis2=2)).sum(axis=1)
                - 0.5 * self.n_dims * _LOG_2PI
            )
            cells = _cells(vectors).updated(means, precisions)
            table[:, cells.users] = heights[:, None] + cells.scores(means, precisions)
        return table


def _normal_entropy(covariances: Array) -> float:
    """Sum of the entropies of normals with these covariances (n, D, D)."""
    n, n_dims = covariances.shape[:2]
    factors = np.linalg.cholesky(covariances)
    return float(
        np.log(np.diagonal(factors, axis1=1, axis2=2)).sum() + 0.5 * n * n_dims * (1.0 + _LOG_2PI)
    )


def _normal_noise(rng: np.random.Generator, n: int, covariances: Array) -> Array:
    """n draws from N(0, C) for each of some C (…, D, D): (n, …, D)."""
    noise = rng.standard_normal((n, *covariances.shape[:-1]))
    return np.asarray(np.einsum("...ij,n...j->n...i", np.linalg.cholesky(covariances), noise))


def _wisharts(rng: np.random.Generator, n: int, law: Wishart) -> Array:
    """n draws (n, D, D)."""
    factors = wishart_factors(
        rng, np.full(n, law.dof), np.broadcast_to(law.inverse_scale, (n, *law.inverse_scale.shape))
    )
    return factors @ np.swapaxes(factors, 1, 2)


def _log_normals(x: Array, means: Array, covariances: Array) -> float:
    """Σ ln N(x; mean, covariance) up to a constant."""
    factors = np.linalg.cholesky(covariances)
    standard = np.linalg.solve(factors, (x - means)[..., None])
    return float(-0.5 * np.sum(standard**2) - np.log(np.diagonal(factors, axis1=1, axis2=2)).sum())


def _against(prior: Wishart, law: Wishart) -> float:
    """E ln p(X) under a prior, X of the distribution q, + the entropy of q."""
    n_dims = len(prior.inverse_scale)
    constant = 0.5 * prior.dof * (np.linalg.slogdet(prior.inverse_scale)[1] - n_dims * np.log(2.0))
    constant -= multigammaln(0.5 * prior.dof, n_dims)
    expected = 0.5 * (prior.dof - n_dims - 1) * law.mean_log_determinant - 0.5 * np.sum(
        prior.inverse_scale * law.mean
    )
    return float(constant + expected + law.entropy)
