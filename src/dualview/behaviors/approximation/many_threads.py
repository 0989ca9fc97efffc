"""q of the coefficients of shared outcomes where they are too many to factorise their precision,
(V3) and (V4).

q(f, e) = N(m, Λ⁻¹), over all users together, with Λ = diag(own) + E s_y [P X]ᵀ[P X]. Λ is never
formed:

- m by some steps of conjugate gradients in each update, from where it was; each of them raises the
  bound.
- Variances by draws ε of N(0, Λ⁻¹), each the solution of Λ ε = w with w ~ N(0, Λ), of which
  N_PROBES are kept. Given the other
  coefficients a draw has mean ε_u − w_u/Λ_uu and variance 1/Λ_uu, so that the variance of f_u is
  1/Λ_uu plus the average square of that mean, which has less noise than the average of ε_u² (Sidén
  et al. 2018).
- The trace of [P X] Λ⁻¹ [P X]ᵀ from tr Λ⁻¹Λ = N.
- ln |Λ| by Lanczos quadrature with random signs (Ubaru, Chen and Saad 2017), the same for every
  start.

Random numbers are drawn once, so that all of this is a smooth function of the other factors, and
steps converge. Λ of the variances is renewed when the others have changed noticeably; until then q
has the covariance that it had.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.approximation.latent import (
    LatentDraws,
    LearnedNoise,
    SoftPrior,
    expected_log_noise,
)
from dualview.behaviors.likelihoods.systems import SparseRows, improve
from dualview.behaviors.records import Params
from dualview.distributions import G

Array = NDArray[np.float64]

N_PROBES = 16
N_SIGNS = 4
_N_LANCZOS = 20
_LOG_2PI = math.log(2.0 * math.pi)
_MEAN_STEPS, _PROBE_STEPS, _DRAW_STEPS = 6, 4, 60
_FIRST_STEPS = 30  # of conjugate gradients from nowhere
_TOLERANCE = 1e-7
_NOTICEABLE = 0.02  # a relative change of Λ
_AT_ONCE = 16  # draws that are solved for together


class Equations(ABC):
    """The regression of shared outcomes, as far as q needs it: N coefficients, those of users
    first, and T threads.

    Products with [P X]ᵀ[P X] are all that goes through the threads, wherever these are.
    """

    n_users: int
    n_threads: int
    weighted: Array  # [P X]ᵀ y, (N,)
    squares: Array  # diagonal of [P X]ᵀ[P X], (N,)
    groups: tuple[slice, ...]  # of the N_PROBES probes, those that are solved for together

    @abstractmethod
    def gram_times(self, vectors: Array) -> Array:
        """[P X]ᵀ[P X] vectors, of one (N,) or several (N, M)."""

    @abstractmethod
    def residual_squares(self, mean: Array) -> float:
        """|y − [P X] m|²."""

    @abstractmethod
    def noise_of_probes(self, probes: slice) -> tuple[Array, Array]:
        """Of some probes, standard normal numbers (N, M), and [P X]ᵀ times others; always the
        same."""

    @abstractmethod
    def fresh_noise(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """Such numbers for n draws."""

    @abstractmethod
    def signs(self) -> Array:
        """Random signs (N, S), always the same."""

    @abstractmethod
    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(y, s_y, coefficients | latent) up to a constant."""


@dataclass(frozen=True)
class ManyEquations(Equations):
    """The regression in memory: [P X] by rows, [P X]ᵀ y, and random numbers for the probes.

    noise (N, M): standard normal. gram_noise (N, M): [P X]ᵀ times standard normal numbers.
    random_signs (N, S).
    """

    likelihood: Any
    rows: SparseRows
    weighted: Array
    noise: Array
    gram_noise: Array
    random_signs: Array

    groups = (slice(0, N_PROBES),)

    @classmethod
    def of(cls, likelihood: Any, design: Any) -> "ManyEquations":
        rows = SparseRows(design)
        rng = np.random.default_rng(0)
        n_threads, n = design.shape
        gram_noise = np.stack(
            [rows.transposed_times(rng.standard_normal(n_threads)) for _ in range(N_PROBES)], axis=1
        )
        signs = np.asarray(rng.integers(0, 2, (n, N_SIGNS)) * 2.0 - 1.0, dtype=float)
        weighted = rows.transposed_times(np.ascontiguousarray(likelihood.outcome))
        return cls(
            likelihood, rows, weighted, rng.standard_normal((n, N_PROBES)), gram_noise, signs
        )

    @property
    def n_users(self) -> int:  # type: ignore[override]
        return int(self.likelihood.n_users)

    @property
    def n_threads(self) -> int:  # type: ignore[override]
        return len(self.likelihood.outcome)

    @property
    def squares(self) -> Array:  # type: ignore[override]
        return self.rows.squares

    def gram_times(self, vectors: Array) -> Array:
        return (
            self.rows.gram_times(vectors)
            if vectors.ndim == 1
            else self.rows.gram_times_many(vectors)
        )

    def residual_squares(self, mean: Array) -> float:
        residual = self.likelihood.residual(mean[: self.n_users, None], mean[self.n_users :])
        return float(residual @ residual)

    def noise_of_probes(self, probes: slice) -> tuple[Array, Array]:
        return self.noise[:, probes], self.gram_noise[:, probes]

    def fresh_noise(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        gram_noise = np.stack(
            [self.rows.transposed_times(rng.standard_normal(self.n_threads)) for _ in range(n)],
            axis=1,
        )
        return rng.standard_normal((len(self.weighted), n)), gram_noise

    def signs(self) -> Array:
        return self.random_signs

    def log_density(self, latent: Array, params: Params) -> float:
        return float(self.likelihood.log_density(latent, params))


@dataclass(frozen=True)
class Covariance:
    """Λ⁻¹ of q: own (N,) and noise make up Λ; draws (N, M) of N(0, Λ⁻¹); variances (N,): the
    diagonal of Λ⁻¹."""

    equations: Equations
    own: Array
    noise: float
    draws: Array
    variances: Array

    def times(self, vectors: Array) -> Array:
        """Λ vectors, of one (N,) or several (N, M)."""
        own = self.own if vectors.ndim == 1 else self.own[:, None]
        return own * vectors + self.noise * self.equations.gram_times(vectors)

    @cached_property
    def diagonal(self) -> Array:
        return np.asarray(self.own + self.noise * self.equations.squares)

    def perturbations(self, noise: Array, gram_noise: Array) -> Array:
        """w ~ N(0, Λ), (N, M)."""
        return np.sqrt(self.own)[:, None] * noise + math.sqrt(self.noise) * gram_noise

    def renewed(self, own: Array, noise: float, n_steps: int) -> "Covariance":
        """For another Λ."""
        other = replace(self, own=own, noise=noise)
        draws, squares = np.empty_like(self.draws), np.zeros(len(own))
        for probes in self.equations.groups:
            right = other.perturbations(*self.equations.noise_of_probes(probes))
            draws[:, probes] = improve(
                other.times, right, self.draws[:, probes], other.diagonal, n_steps, 1e-3
            )
            given = draws[:, probes] - right / other.diagonal[:, None]
            squares += np.einsum("nm,nm->n", given, given)
        return replace(other, draws=draws, variances=1.0 / other.diagonal + squares / N_PROBES)

    def is_near(self, own: Array, noise: float) -> bool:
        """Whether another Λ is about the same."""
        change = float(np.abs(own - self.own).sum()) / float(self.own.sum())
        return max(change, abs(noise / self.noise - 1.0)) < _NOTICEABLE

    @cached_property
    def trace(self) -> float:
        """tr [P X] Λ⁻¹ [P X]ᵀ."""
        return (len(self.own) - float(self.own @ self.variances)) / self.noise

    @cached_property
    def log_determinant(self) -> float:
        """ln |Λ|, estimated."""
        root = np.sqrt(self.diagonal)[:, None]
        vectors = self.equations.signs() / math.sqrt(len(root))
        before, off = np.zeros_like(vectors), np.zeros(vectors.shape[1])
        diagonals, offs = [], []
        for _ in range(_N_LANCZOS):
            image = self.times(vectors / root) / root - off * before
            along = (image * vectors).sum(axis=0)
            image -= along * vectors
            diagonals.append(along)
            off = np.sqrt((image**2).sum(axis=0))
            offs.append(off)
            before, vectors = vectors, image / np.where(off > 0.0, off, 1.0)
        total = 0.0
        for i in range(N_SIGNS):
            matrix = np.diag([d[i] for d in diagonals])
            side = np.diag([o[i] for o in offs[:-1]], 1)
            values, basis = np.linalg.eigh(matrix + side + side.T)
            total += float(basis[0] ** 2 @ np.log(np.maximum(values, 1e-12)))
        return float(np.log(self.diagonal).sum()) + len(root) * total / N_SIGNS


@dataclass(frozen=True)
class SoftManyThreads(LearnedNoise):
    """q(f, e) q(s_y). mean (N,). log_scale: ln|Λ| of the covariance, up to a constant, by its
    changes from update to update."""

    equations: Equations
    mean: Array
    covariance: Covariance
    noise: G
    log_scale: float = 0.0

    joint = False

    @classmethod
    def start(cls, equations: Equations) -> "SoftManyThreads":
        """Under a prior N(0, I) and a noise precision of 1."""
        n = len(equations.weighted)
        unit = Covariance(equations, np.ones(n), 1.0, np.zeros((n, N_PROBES)), np.ones(n))
        covariance = unit.renewed(np.ones(n), 1.0, _FIRST_STEPS)
        mean = improve(
            unit.times, equations.weighted, np.zeros(n), unit.diagonal, _FIRST_STEPS, _TOLERANCE
        )
        return cls(equations, mean, covariance, G(1.0, 1.0)).with_params()

    @property
    def means(self) -> Array:  # type: ignore[override]
        return self.mean[: self.equations.n_users, None]

    @property
    def covariances(self) -> Array:  # type: ignore[override]
        return self.covariance.variances[: self.equations.n_users, None, None]

    def with_latent(self, prior: SoftPrior) -> "SoftManyThreads":
        """q(f, e), (V3): some steps towards its mean, and another covariance where the present one
        is far off."""
        precisions, pulls = prior.precisions[:, 0, 0], prior.precisions[:, 0, 0] * prior.means[:, 0]
        return self.with_pulls(precisions @ prior.responsibilities, pulls @ prior.responsibilities)

    def with_pulls(self, precisions: Array, pulls: Array) -> "SoftManyThreads":
        """The same, given Σ_k q(z_u = k) E S_k and Σ_k q(z_u = k) E S_k E μ_k of every user, (U,)
        each."""
        n_users, noise = self.equations.n_users, self.noise.mean
        own, linear = np.ones(len(self.mean)), noise * self.equations.weighted
        own[:n_users] = precisions
        linear[:n_users] += pulls
        target = replace(self.covariance, own=own, noise=noise)
        mean = improve(target.times, linear, self.mean, target.diagonal, _MEAN_STEPS, _TOLERANCE)
        if self.covariance.is_near(own, noise):
            return replace(self, mean=mean)
        covariance = self.covariance.renewed(own, noise, _PROBE_STEPS)
        return replace(
            self,
            mean=mean,
            covariance=covariance,
            log_scale=self.log_scale + self._log_change(covariance),
        )

    def _log_change(self, other: Covariance) -> float:
        """By how much ln|Λ| grows, by the trapezoidal rule: its derivative is tr Λ⁻¹ dΛ."""
        own = self.covariance
        change = 0.5 * float((own.variances + other.variances) @ (other.own - own.own))
        return change + 0.5 * (own.trace + other.trace) * (other.noise - own.noise)

    @cached_property
    def misfit(self) -> float:
        """E |y − P f − X e|²."""
        return self.equations.residual_squares(self.mean) + self.covariance.trace

    def with_params(self) -> "SoftManyThreads":
        """q(s_y), (V4)."""
        return replace(self, noise=G(1.0 + self.equations.n_threads, 1.0 + self.misfit))

    def _bound(self, log_determinant: float) -> float:
        others = slice(self.equations.n_users, None)
        n, n_others = len(self.mean), len(self.mean) - self.equations.n_users
        squares = float(np.sum(self.mean[others] ** 2) + self.covariance.variances[others].sum())
        return (
            expected_log_noise(self.noise, self.equations.n_threads, self.misfit)
            - 0.5 * (squares + n_others * _LOG_2PI)
            + 0.5 * n * (1.0 + _LOG_2PI)
            - 0.5 * log_determinant
        )

    def bound(self) -> float:
        """Up to a constant: that of ln|Λ|."""
        return self._bound(self.log_scale)

    def reported_bound(self) -> float:
        """With an estimate of ln|Λ|."""
        return self._bound(self.covariance.log_determinant)

    def draws(self, rng: np.random.Generator, n: int) -> LatentDraws:
        """Each by a system of its own with a right-hand side drawn from N(0, Λ)."""
        n_users = self.equations.n_users
        drawn = np.empty((n, len(self.mean)))
        for first in range(0, n, _AT_ONCE):
            m = min(_AT_ONCE, n - first)
            right = self.covariance.perturbations(*self.equations.fresh_noise(rng, m))
            start, times = np.zeros_like(right), self.covariance.times
            drawn[first : first + m] = improve(
                times, right, start, self.covariance.diagonal, _DRAW_STEPS, 1e-4
            ).T
        drawn += self.mean
        params = [
            {"noise_precision": self.noise.draw(rng), "coefficients": row}
            for row in drawn[:, n_users:]
        ]
        return LatentDraws(drawn[:, :n_users, None], None, params)

    def log_ratios(self, draws: LatentDraws) -> Array:
        """ln p(y, e, s_y | f) − ln q(f, e) q(s_y), up to a constant."""
        found = np.empty(len(draws.params))
        for i, params in enumerate(draws.params):
            away = np.concatenate([draws.latent[i, :, 0], params["coefficients"]]) - self.mean
            own = self.noise.log_density(params["noise_precision"]) - 0.5 * float(
                away @ self.covariance.times(away)
            )
            found[i] = self.equations.log_density(draws.latent[i], params) - own
        return found
