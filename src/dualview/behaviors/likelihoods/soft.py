"""What a variational engine asks of a likelihood: q of the latent vectors and of the likelihood's
own parameters.

K components, U users, q dimensions of a latent vector.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

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
