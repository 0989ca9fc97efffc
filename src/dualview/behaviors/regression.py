"""Draws of regression coefficients given independent normal priors, three ways with one method.

design (T, N), outcome (T,), prior_mean and prior_precision (N,). All three draw from (C7),
N(Λ⁻¹(diag(s) μ + s_y Pᵀy), Λ⁻¹) with Λ = diag(s) + s_y PᵀP.
"""

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from dualview.errors import DegenerateError
from dualview.kernels import regression

Array = NDArray[np.float64]

_DENSE_LIMIT = 4000  # rows of the largest matrix that is factorised
_TOLERANCE = 1e-10  # of conjugate gradients: residual relative to the right-hand side


class CoefficientDraw(Protocol):
    """One exact draw of all coefficients."""

    def draw(self, rng: np.random.Generator, noise_precision: float, prior_mean: Array, prior_precision: Array) -> Array: ...


def coefficient_draw(design: Any, outcome: Array) -> CoefficientDraw:
    """The cheapest way for this size; a matrix of more than a few thousand rows is never formed."""
    n_observations, n_coefficients = design.shape
    if 2 * n_observations < n_coefficients and n_observations <= _DENSE_LIMIT:
        return ByObservations(design, outcome)
    if n_coefficients <= _DENSE_LIMIT:
        return ByCoefficients(design, outcome)
    if n_observations <= _DENSE_LIMIT:
        return ByObservations(design, outcome)
    return ByConjugateGradients(design, outcome)


def _dense(matrix: Any) -> Array:
    return np.ascontiguousarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=float)


class _Factorised(ABC):
    """A draw by a quick factorisation, and by rotations in states so extreme that the quick one loses its digits."""

    _design: Any
    _outcome: Array

    @abstractmethod
    def _quick(self, rng: np.random.Generator, *parameters: Any) -> Array:
        """The draw by the quick factorisation; NaN or LinAlgError where it loses its digits."""

    def draw(self, rng: np.random.Generator, noise_precision: float, prior_mean: Array, prior_precision: Array) -> Array:
        parameters = (noise_precision, prior_mean, prior_precision, rng.standard_normal(len(prior_mean)))
        try:
            draw = self._quick(rng, *parameters)
            if np.isfinite(draw[0]):
                return draw
        except np.linalg.LinAlgError:
            pass
        return np.asarray(regression.draw_by_rotations(_dense(self._design), self._outcome, *parameters))


class ByCoefficients(_Factorised):
    """Factorises the N × N posterior precision."""

    def __init__(self, design: Any, outcome: Array) -> None:
        self._design, self._outcome = design, np.asarray(outcome)
        self._gram = _dense(design.T @ design)
        self._weighted_outcome = np.asarray(design.T @ outcome)

    def _quick(self, rng: np.random.Generator, *parameters: Any) -> Array:  # noqa: ARG002
        return np.asarray(regression.draw_by_coefficients(self._gram, self._weighted_outcome, *parameters))


class ByObservations(_Factorised):
    """Factorises the T × T covariance of the outcomes."""

    def __init__(self, design: Any, outcome: Array) -> None:
        self._design, self._outcome = _dense(design), np.asarray(outcome)

    def _quick(self, rng: np.random.Generator, *parameters: Any) -> Array:
        outcome_noise = rng.standard_normal(len(self._outcome))
        return np.asarray(regression.draw_by_observations(self._design, self._outcome, *parameters, outcome_noise))


class ByConjugateGradients:
    """Perturbs the right-hand side so that the solution is a draw, and solves to a relative residual of 1e-10."""

    def __init__(self, design: Any, outcome: Array) -> None:
        self._design = sparse.csr_array(design)
        self._transposed = sparse.csr_array(self._design.T)
        self._weighted_outcome = self._transposed @ outcome
        self._squares = np.asarray(self._design.multiply(self._design).sum(axis=0)).ravel()

    def draw(self, rng: np.random.Generator, noise_precision: float, prior_mean: Array, prior_precision: Array) -> Array:
        n_observations, n = self._design.shape
        right = prior_precision * prior_mean + noise_precision * self._weighted_outcome
        right += np.sqrt(prior_precision) * rng.standard_normal(n)
        right += np.sqrt(noise_precision) * (self._transposed @ rng.standard_normal(n_observations))

        def apply(v: Array) -> Array:
            return np.asarray(prior_precision * v + noise_precision * (self._transposed @ (self._design @ v)))

        diagonal = prior_precision + noise_precision * self._squares
        system = LinearOperator((n, n), matvec=apply, dtype=np.float64)
        jacobi = LinearOperator((n, n), matvec=lambda v: v / diagonal, dtype=np.float64)
        solution, failed = cg(system, right, x0=prior_mean, rtol=_TOLERANCE, maxiter=10 * n, M=jacobi)
        if failed:
            raise DegenerateError("The draw of the latent coefficients did not converge: its system is singular in rounding.")
        return np.asarray(solution)
