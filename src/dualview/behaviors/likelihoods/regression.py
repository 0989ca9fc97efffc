"""Draws of regression coefficients given independent normal priors, three ways with one method.

design (T, N), outcome (T,), prior_mean and prior_precision (N,). All three draw from (C7),
N(Λ⁻¹(diag(s) μ + s_y Pᵀy), Λ⁻¹) with Λ = diag(s) + s_y PᵀP.
"""

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular

from dualview.behaviors.likelihoods.systems import DENSE_LIMIT, SparseRows, solve
from dualview.numerics import regression
from dualview.numerics.linalg import loses_digits

Array = NDArray[np.float64]

TOLERANCE = 1e-8  # of conjugate gradients: residual relative to the right-hand side


class CoefficientDraw(Protocol):
    """One exact draw of all coefficients."""

    def draw(
        self,
        rng: np.random.Generator,
        noise_precision: float,
        prior_mean: Array,
        prior_precision: Array,
    ) -> Array: ...


def coefficient_draw(design: Any, outcome: Array) -> CoefficientDraw:
    """The cheapest way for this size; a matrix of more than a few thousand rows is never formed."""
    n_observations, n_coefficients = design.shape
    if 2 * n_observations < n_coefficients and n_observations <= DENSE_LIMIT:
        return ByObservations(design, outcome)
    if n_coefficients <= DENSE_LIMIT:
        return ByCoefficients(design, outcome)
    if n_observations <= DENSE_LIMIT:
        return ByObservations(design, outcome)
    return ByConjugateGradients(design, outcome)


def _dense(matrix: Any) -> Array:
    return np.ascontiguousarray(
        matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=float
    )


def normal_equations(design: Any, outcome: Array) -> tuple[Array, Array]:
    """designᵀ design (N, N), dense, and designᵀ outcome (N,)."""
    return _dense(design.T @ design), np.asarray(design.T @ outcome)


class _Factorised(ABC):
    """A draw by a quick factorisation, and by rotations in states so extreme that the quick one
    loses its digits."""

    _design: Any
    _outcome: Array

    @abstractmethod
    def _quick(self, rng: np.random.Generator, *parameters: Any) -> Array:
        """The draw by the quick factorisation; NaN or LinAlgError where it loses its digits."""

    def draw(
        self,
        rng: np.random.Generator,
        noise_precision: float,
        prior_mean: Array,
        prior_precision: Array,
    ) -> Array:
        parameters = (
            noise_precision,
            prior_mean,
            prior_precision,
            rng.standard_normal(len(prior_mean)),
        )
        try:
            draw = self._quick(rng, *parameters)
            if np.isfinite(draw[0]):
                return draw
        except np.linalg.LinAlgError:
            pass
        return np.asarray(
            regression.draw_by_rotations(_dense(self._design), self._outcome, *parameters)
        )


class ByCoefficients(_Factorised):
    """Factorises the N × N posterior precision."""

    def __init__(self, design: Any, outcome: Array) -> None:
        self._design, self._outcome = design, np.asarray(outcome)
        self._equations = normal_equations(design, self._outcome)

    def of(self, outcome: Array) -> "ByCoefficients":
        """The same with another outcome."""
        other = copy(self)
        other._outcome, other._equations = (
            outcome,
            (self._equations[0], np.asarray(self._design.T @ outcome)),
        )
        return other

    def _quick(self, rng: np.random.Generator, *parameters: Any) -> Array:  # noqa: ARG002
        if len(self._equations[1]) > regression.TILES:
            return self._by_lapack(*parameters)
        return np.asarray(regression.draw_by_coefficients(*self._equations, *parameters))

    def _by_lapack(
        self, noise_precision: float, prior_mean: Array, prior_precision: Array, noise: Array
    ) -> Array:
        """The same for matrices where LAPACK is quicker than plain loops."""
        gram, weighted = self._equations
        precision = noise_precision * gram
        np.fill_diagonal(precision, np.diagonal(precision) + prior_precision)
        factor = np.linalg.cholesky(precision)
        if loses_digits(factor, np.diagonal(precision).copy()):
            return np.full(len(noise), np.nan)
        half = solve_triangular(
            factor, prior_precision * prior_mean + noise_precision * weighted, lower=True
        )
        return np.asarray(solve_triangular(factor, half + noise, lower=True, trans="T"))


class ByObservations(_Factorised):
    """Factorises the T × T covariance of the outcomes."""

    def __init__(self, design: Any, outcome: Array) -> None:
        self._design, self._outcome = _dense(design), np.asarray(outcome)

    def _quick(self, rng: np.random.Generator, *parameters: Any) -> Array:
        outcome_noise = rng.standard_normal(len(self._outcome))
        return np.asarray(
            regression.draw_by_observations(self._design, self._outcome, *parameters, outcome_noise)
        )


class ByConjugateGradients:
    """Perturbs the right-hand side so that the solution is a draw, and solves until the residual is
    1e-8 of it.

    Λ is applied in one pass over the rows of the design and never formed.
    """

    def __init__(self, design: Any, outcome: Array) -> None:
        self._rows = SparseRows(design)
        self._outcome = np.asarray(outcome)

    def draw(
        self,
        rng: np.random.Generator,
        noise_precision: float,
        prior_mean: Array,
        prior_precision: Array,
    ) -> Array:
        noise = rng.standard_normal(len(prior_mean))
        outcome_noise = rng.standard_normal(len(self._outcome))
        perturbed = noise_precision * self._outcome + np.sqrt(noise_precision) * outcome_noise
        right = self._rows.transposed_times(perturbed)
        right += prior_precision * prior_mean + np.sqrt(prior_precision) * noise
        return solve(
            lambda v: prior_precision * v + noise_precision * self._rows.gram_times(v),
            right,
            prior_mean,
            prior_precision + noise_precision * self._rows.squares,
            TOLERANCE,
        )
