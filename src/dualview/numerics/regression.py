"""Draws of many regression coefficients with independent priors, one number each."""

import numpy as np

from dualview.numerics.compiling import compiled, reordered, standalone
from dualview.numerics.linalg import cholesky_by_tiles, loses_digits

TILES = 300  # rows up to which loops are quicker than LAPACK


@compiled
def _factorised(matrix):
    """The lower factor of a large matrix, which may be used up; only its lower half counts."""
    if matrix.shape[0] > TILES:
        return np.linalg.cholesky(matrix)
    cholesky_by_tiles(matrix)
    return matrix


# As in ``linalg``, for long vectors. Numba keeps compiled code under a function's place in the
# source, so that one function compiled in two ways would be mixed up on disk.
@reordered
def _solve(factor, vector):
    """In place: the solution x of C x = vector."""
    for i in range(vector.shape[0]):
        rest = vector[i]
        for k in range(i):
            rest -= factor[i, k] * vector[k]
        vector[i] = rest / factor[i, i]


@reordered
def _solve_transposed(factor, vector):
    """In place: the solution x of Cᵀ x = vector."""
    for i in range(vector.shape[0] - 1, -1, -1):
        value = vector[i] / factor[i, i]
        vector[i] = value
        for k in range(i):
            vector[k] -= factor[i, k] * value


@standalone(python=True)
def draw_by_coefficients(
    gram, weighted_outcome, noise_precision, prior_mean, prior_precision, noise
):
    """(C7) by a factorization of size coefficients: Λ = diag(prior_precision) + noise_precision ·
    gram.

    weighted_outcome is designᵀ outcome, noise a standard normal vector. For up to ``TILES``
    coefficients; NaN when the factorization loses digits.
    """
    n = prior_mean.shape[0]
    factor, diagonal, draw = np.empty((n, n)), np.empty(n), np.empty(n)
    for i in range(n):
        for j in range(i + 1):
            factor[i, j] = noise_precision * gram[i, j]
        factor[i, i] += prior_precision[i]
        diagonal[i] = factor[i, i]
        draw[i] = prior_precision[i] * prior_mean[i] + noise_precision * weighted_outcome[i]
    cholesky_by_tiles(factor)
    if loses_digits(factor, diagonal):
        draw[0] = np.nan
        return draw
    _solve(factor, draw)
    for i in range(n):
        draw[i] += noise[i]
    _solve_transposed(factor, draw)
    return draw


@compiled
def draw_by_observations(
    design, outcome, noise_precision, prior_mean, prior_precision, noise, outcome_noise
):
    """(C7) by a factorization of size observations: a prior draw, corrected by the residual it
    leaves.

    NaN when the factorization loses digits.
    """
    n_observations = design.shape[0]
    covariance = 1.0 / prior_precision
    prior_draw = prior_mean + np.sqrt(covariance) * noise
    solution = outcome - design @ prior_draw - outcome_noise / np.sqrt(noise_precision)
    system = (design * covariance) @ design.T
    diagonal = np.empty(n_observations)
    for t in range(n_observations):
        system[t, t] += 1.0 / noise_precision
        diagonal[t] = system[t, t]
    factor = _factorised(system)
    if loses_digits(factor, diagonal):
        return np.full(prior_mean.shape[0], np.nan)
    _solve(factor, solution)
    _solve_transposed(factor, solution)
    return prior_draw + covariance * (design.T @ solution)


@compiled
def draw_by_rotations(design, outcome, noise_precision, prior_mean, prior_precision, noise):
    """(C7) by a QR factorization of the design stacked on the prior: slower, and keeps digits where
    the others lose them."""
    n_observations, n = design.shape
    stacked = np.zeros((n_observations + n, n))
    target = np.empty(n_observations + n)
    stacked[n:] = np.sqrt(noise_precision) * design
    target[n:] = np.sqrt(noise_precision) * outcome
    for i in range(n):
        stacked[i, i] = np.sqrt(prior_precision[i])
        target[i] = stacked[i, i] * prior_mean[i]
    basis, factor = np.linalg.qr(stacked)
    draw = np.ascontiguousarray(basis.T) @ target + noise
    _solve_transposed(np.ascontiguousarray(factor.T), draw)
    return draw


@compiled
def add_gram_times(first, end, starts, columns, values, vector, total):
    """In place: total += Pᵀ P vector over rows first to end of a sparse P; one pass over them."""
    for t in range(first, end):
        projection = 0.0
        for k in range(starts[t], starts[t + 1]):
            projection += values[k] * vector[columns[k]]
        for k in range(starts[t], starts[t + 1]):
            total[columns[k]] += values[k] * projection


@compiled
def add_transposed_times(first, end, starts, columns, values, vector, total):
    """In place: total += Pᵀ vector over rows first to end."""
    for t in range(first, end):
        for k in range(starts[t], starts[t + 1]):
            total[columns[k]] += values[k] * vector[t]


@compiled
def add_gram_times_many(first, end, starts, columns, values, vectors, total):
    """In place: total (N, M) += Pᵀ P vectors over rows first to end, for several vectors (N, M) in
    one pass."""
    n = vectors.shape[1]
    projection = np.empty(n)
    for t in range(first, end):
        projection[:] = 0.0
        for k in range(starts[t], starts[t + 1]):
            value, column = values[k], columns[k]
            for i in range(n):
                projection[i] += value * vectors[column, i]
        for k in range(starts[t], starts[t + 1]):
            value, column = values[k], columns[k]
            for i in range(n):
                total[column, i] += value * projection[i]
