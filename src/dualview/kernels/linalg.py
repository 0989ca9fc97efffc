"""Small dense linear algebra by plain loops.

Wins over LAPACK calls up to about twenty rows; ``regression`` uses LAPACK for large systems.
"""

import math

import numpy as np

from dualview.kernels.compiling import compiled


@compiled
def cholesky(matrix):
    """Lower C with C Cᵀ = matrix; NaN on the diagonal when the matrix is not positive definite."""
    n = matrix.shape[0]
    factor = np.zeros((n, n))
    for j in range(n):
        for i in range(j, n):
            rest = matrix[i, j]
            for k in range(j):
                rest -= factor[i, k] * factor[j, k]
            if i == j:
                factor[j, j] = math.sqrt(rest) if rest > 0.0 else math.nan
            else:
                factor[i, j] = rest / factor[j, j]
    return factor


@compiled
def loses_digits(factor, matrix):
    """Whether a Cholesky pivot has cancelled to less than 1e-8 of its diagonal element, or below zero."""
    for j in range(matrix.shape[0]):
        if not factor[j, j] * factor[j, j] > 1e-8 * matrix[j, j]:
            return True
    return False


@compiled
def add_to_cholesky(factor, vector):
    """In place: the factor of C Cᵀ + vector vectorᵀ, by rotations; it keeps digits however large the vector is."""
    n = vector.shape[0]
    rest = vector.copy()
    for j in range(n):
        diagonal = math.hypot(factor[j, j], rest[j])
        cosine, sine = factor[j, j] / diagonal, rest[j] / diagonal
        factor[j, j] = diagonal
        for i in range(j + 1, n):
            column = factor[i, j]
            factor[i, j] = cosine * column + sine * rest[i]
            rest[i] = cosine * rest[i] - sine * column


@compiled
def solve_lower(factor, vector):
    """Solution x of C x = vector."""
    n = vector.shape[0]
    x = np.empty(n)
    for i in range(n):
        rest = vector[i]
        for k in range(i):
            rest -= factor[i, k] * x[k]
        x[i] = rest / factor[i, i]
    return x


@compiled
def solve_lower_transposed(factor, vector):
    """Solution x of Cᵀ x = vector."""
    n = vector.shape[0]
    x = np.empty(n)
    for i in range(n - 1, -1, -1):
        rest = vector[i]
        for k in range(i + 1, n):
            rest -= factor[k, i] * x[k]
        x[i] = rest / factor[i, i]
    return x


@compiled
def outer_square(factor):
    """T Tᵀ for an upper triangular T."""
    n = factor.shape[0]
    product = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, n):
                total += factor[i, k] * factor[j, k]
            product[i, j] = total
            product[j, i] = total
    return product


@compiled
def add_outer(matrix, vector, weight):
    """In place: matrix += weight · vector vectorᵀ."""
    n = vector.shape[0]
    for i in range(n):
        for j in range(n):
            matrix[i, j] += weight * vector[i] * vector[j]


@compiled
def multiply(matrix, vector):
    """matrix · vector."""
    n, m = matrix.shape
    product = np.empty(n)
    for i in range(n):
        total = 0.0
        for j in range(m):
            total += matrix[i, j] * vector[j]
        product[i] = total
    return product
