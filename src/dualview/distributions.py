"""The distributions of the model in its own parametrisation (docs/model.md: N by covariance, W and G by expectation).

Each says its log density; normal and Wishart take what conjugate updates produce, so nothing is inverted.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import multigammaln

Array = NDArray[np.float64]


def _log_determinant(matrix: Array) -> float:
    return float(2.0 * np.log(np.diagonal(np.linalg.cholesky(matrix))).sum())


@dataclass(frozen=True)
class Normal:
    """N(Λ⁻¹ h, Λ⁻¹) with h = linear, Λ = precision."""

    linear: Array
    precision: Array

    @property
    def mean(self) -> Array:
        return np.asarray(np.linalg.solve(self.precision, self.linear), dtype=float)

    def draw(self, rng: np.random.Generator) -> Array:
        """One draw."""
        factor = np.linalg.cholesky(self.precision)
        half = np.linalg.solve(factor, self.linear)
        return np.asarray(np.linalg.solve(factor.T, half + rng.standard_normal(len(half))))

    def log_density(self, x: Array) -> float:
        deviation = x - self.mean
        quadratic = deviation @ self.precision @ deviation
        return float(0.5 * (_log_determinant(self.precision) - len(x) * np.log(2 * np.pi) - quadratic))


@dataclass(frozen=True)
class Wishart:
    """W(dof, inverse_scale⁻¹), expectation dof · inverse_scale⁻¹."""

    dof: float
    inverse_scale: Array

    def log_density(self, x: Array) -> float:
        n_dims = len(x)
        return float(
            0.5 * (self.dof - n_dims - 1) * _log_determinant(x)
            - 0.5 * np.trace(self.inverse_scale @ x)
            + 0.5 * self.dof * (_log_determinant(self.inverse_scale) - n_dims * np.log(2.0))
            - multigammaln(0.5 * self.dof, n_dims)
        )


class G(NamedTuple):
    """G(dof, 1/inverse_scale): the one-dimensional Wishart, expectation dof / inverse_scale."""

    dof: float
    inverse_scale: float

    def log_density(self, x: float) -> float:
        half = 0.5 * self.dof
        rate = 0.5 * self.inverse_scale
        return half * math.log(rate) - math.lgamma(half) + (half - 1.0) * math.log(x) - rate * x

    def draw(self, rng: np.random.Generator) -> float:
        return float(2.0 * rng.standard_gamma(0.5 * self.dof) / self.inverse_scale)


class InverseG(NamedTuple):
    """The distribution of x with 1/x ~ G(dof, 1/inverse_scale)."""

    dof: float
    inverse_scale: float

    def log_density(self, x: float) -> float:
        return G(self.dof, self.inverse_scale).log_density(1.0 / x) - 2.0 * math.log(x)

    def draw(self, rng: np.random.Generator) -> float:
        return 1.0 / G(self.dof, self.inverse_scale).draw(rng)
