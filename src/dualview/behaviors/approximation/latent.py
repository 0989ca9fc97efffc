"""What a variational engine asks of a likelihood: q of the latent vectors and of the likelihood's
own parameters.

K components, U users, q dimensions of a latent vector.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dualview.distributions import G

Array = NDArray[np.float64]


class SoftPrior(NamedTuple):
    """What the other factors of q say of latent vectors: f_u ~ N(μ_k, S_k⁻¹) with probability q(z_u
    = k), μ_k ~ N(μ_0, R_0⁻¹).

    responsibilities (K, U); precisions (K, q, q), base_precision (q, q) and base_mean (q,):
    expectations. means (K, q): E μ_k, for factors that have none of their own.
    """

    responsibilities: Array
    precisions: Array
    base_precision: Array
    base_mean: Array
    means: Array


class LatentDraws(NamedTuple):
    """n draws: latent vectors (n, U, q), components' means (n, K, q) where q has both together, a
    dict of parameters each."""

    latent: Array
    means: Array | None
    params: list[dict[str, Any]]


_LOG_2PI = math.log(2.0 * math.pi)
_UNIT = G(1.0, 1.0)


class LatentApproximation(ABC):
    """q(f, μ) q(parameters) or, where ``joint`` is False, q(f) q(parameters). Every method returns
    a new object."""

    joint: bool
    means: Array  # E f_u, (U, q)
    covariances: Array  # Cov f_u, (U, q, q)
    crosses: Array | None = None  # Cov(f_u, μ_k), (K, U, q, q)
    component_means: Array | None = None  # E μ_k, (K, q)
    component_covariances: Array | None = None  # Cov μ_k, (K, q, q)

    @abstractmethod
    def with_latent(self, prior: SoftPrior) -> Self:
        """The best q of latent vectors and components' means, given the other factors, (V3)."""

    @abstractmethod
    def with_params(self) -> Self:
        """The best q of the likelihood's parameters, (V4)."""

    @abstractmethod
    def bound(self) -> float:
        """E ln p(observations, parameters | latent vectors) + the entropy of this factor of q."""

    @abstractmethod
    def draws(self, rng: np.random.Generator, n: int) -> LatentDraws:
        """Draws from q."""

    @abstractmethod
    def log_ratios(self, draws: LatentDraws) -> Array:
        """ln p(observations, parameters | latent vectors) − ln q at draws, up to a constant,
        (n,)."""

    @abstractmethod
    def numbers(self) -> Array:
        """Numbers without constraints that change slowly from step to step, for extrapolation,
        (n,)."""

    @abstractmethod
    def with_numbers(self, numbers: Array) -> Self:
        """q with these numbers in the place of its own."""

    def reported_bound(self) -> float:
        """:meth:`bound`; where that is known up to a constant only, with an estimate of the
        constant."""
        return self.bound()


class LearnedNoise(LatentApproximation):
    """q with a factor q(s) of one noise precision. A subclass is a frozen dataclass with this
    field."""

    noise: G

    def numbers(self) -> Array:
        """ln of the inverse scale of q(s)."""
        return np.log([self.noise.inverse_scale])

    def with_numbers(self, numbers: Array) -> Self:
        noise = G(self.noise.dof, float(np.exp(numbers[0])))
        return replace(self, noise=noise)  # type: ignore[type-var]


def expected_log_noise(noise: G, n: int, misfit: float, prior: G = _UNIT) -> float:
    """E ln p(y | f, s) + E ln p(s) + the entropy of q(s), of n observations with this expected sum
    of squares."""
    half = 0.5 * prior.dof
    log_prior = (
        half * math.log(0.5 * prior.inverse_scale)
        - math.lgamma(half)
        + (half - 1.0) * noise.mean_log
    )
    log_prior -= 0.5 * prior.inverse_scale * noise.mean
    return (
        0.5 * n * (noise.mean_log - _LOG_2PI)
        - 0.5 * noise.mean * misfit
        + log_prior
        + noise.entropy
    )
