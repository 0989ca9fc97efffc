"""Small dense linear algebra by plain loops, in place where it can be: nothing is allocated inside
the sampler's inner loops.

Wins over LAPACK calls up to about twenty rows; ``cholesky_by_tiles`` up to a few hundred. At the
end: rows in the order of their components, arrays written into rows of numbers, and, for Python,
stacks of small matrices (…, q, q) and vectors (…, q).
"""

import math

import numpy as np
from numpy.typing import NDArray

from dualview.numerics.compiling import compiled, in_place, reordered

Array = NDArray[np.float64]


@in_place
def factorise(matrix):
    """In place: lower C with C Cᵀ = matrix, from its lower half; NaN on the diagonal when it is not
    positive definite."""
    n = matrix.shape[0]
    for j in range(n):
        for i in range(j, n):
            rest = matrix[i, j]
            for k in range(j):
                rest -= matrix[i, k] * matrix[j, k]
            if i == j:
                matrix[j, j] = math.sqrt(rest) if rest > 0.0 else math.nan
            else:
                matrix[i, j] = rest / matrix[j, j]
                matrix[j, i] = 0.0


@compiled
def cholesky(matrix):
    """Lower C with C Cᵀ = matrix; NaN on the diagonal when the matrix is not positive definite."""
    factor = matrix.copy()
    factorise(factor)
    return factor


@reordered
def cholesky_by_tiles(matrix):
    """In place: the lower half becomes C with C Cᵀ = matrix, two rows and two columns at a time;
    the upper half stays.

    The first pivot that is not positive makes it and the rest NaN.
    """
    n = matrix.shape[0]
    for i in range(0, n, 2):
        last = min(i + 1, n - 1)
        for j in range(0, i, 2):
            a = b = c = d = 0.0
            for k in range(j):
                a += matrix[i, k] * matrix[j, k]
                b += matrix[i, k] * matrix[j + 1, k]
                c += matrix[last, k] * matrix[j, k]
                d += matrix[last, k] * matrix[j + 1, k]
            first, second, across = 1.0 / matrix[j, j], 1.0 / matrix[j + 1, j + 1], matrix[j + 1, j]
            if last > i:
                matrix[last, j] = (matrix[last, j] - c) * first
                matrix[last, j + 1] = (matrix[last, j + 1] - d - matrix[last, j] * across) * second
            matrix[i, j] = (matrix[i, j] - a) * first
            matrix[i, j + 1] = (matrix[i, j + 1] - b - matrix[i, j] * across) * second
        for row in range(i, last + 1):
            for j in range(i, row + 1):
                rest = matrix[row, j]
                for k in range(j):
                    rest -= matrix[row, k] * matrix[j, k]
                if row == j:
                    matrix[j, j] = math.sqrt(rest) if rest > 0.0 else math.nan
                else:
                    matrix[row, j] = rest / matrix[j, j]


@in_place
def loses_digits(factor, diagonal):
    """Whether a Cholesky pivot has canceled to less than 1e-8 of the matrix's diagonal element, or
    below zero."""
    for j in range(diagonal.shape[0]):
        if not factor[j, j] * factor[j, j] > 1e-8 * diagonal[j]:
            return True
    return False


@in_place
def is_thin(factor):
    """Whether a pivot of lower C is below 1e-4 of its row, or no number: C Cᵀ has lost half its
    digits, or all, there."""
    for i in range(factor.shape[0]):
        square = 0.0
        for j in range(i + 1):
            square += factor[i, j] * factor[i, j]
        if not factor[i, i] * factor[i, i] > 1e-8 * square:
            return True
    return False


@compiled
def root_of_semidefinite(matrix):
    """Lower R with R Rᵀ = matrix, which may lack rank: a pivot that has canceled to rounding errors
    is 0."""
    n = matrix.shape[0]
    root = np.zeros((n, n))
    for j in range(n):
        rest = matrix[j, j]
        for k in range(j):
            rest -= root[j, k] * root[j, k]
        if rest > 1e-14 * matrix[j, j]:
            root[j, j] = math.sqrt(rest)
            for i in range(j + 1, n):
                rest = matrix[i, j]
                for k in range(j):
                    rest -= root[i, k] * root[j, k]
                root[i, j] = rest / root[j, j]
    return root


@compiled
def rotate_to_lower(wide):
    """In place: rotations of columns make the first n rows of wide lower triangular, (n + m, w),
    with a positive diagonal.

    n = w // 2. The other rows take part. A tiny pivot of a triangular matrix among the columns
    keeps its digits, as a sum of squares would not let it.
    """
    n_rows, width = wide.shape
    for i in range(width // 2):
        for j in range(width - 1, i, -1):
            if wide[i, j] == 0.0:
                continue
            length = math.hypot(wide[i, i], wide[i, j])
            cosine, sine = wide[i, i] / length, wide[i, j] / length
            for k in range(i, n_rows):
                first, second = wide[k, i], wide[k, j]
                wide[k, i], wide[k, j] = (
                    cosine * first + sine * second,
                    cosine * second - sine * first,
                )
            wide[i, j] = 0.0
        if wide[i, i] < 0.0:
            for k in range(i, n_rows):
                wide[k, i] = -wide[k, i]


@in_place
def add_to_cholesky(factor, vector):
    """In place: the factor of C Cᵀ + vector vectorᵀ, by rotations that keep digits however large
    the vector is.

    The vector is used up. The factor may be zero.
    """
    n = vector.shape[0]
    for j in range(n):
        if vector[j] == 0.0:
            continue
        square = factor[j, j] * factor[j, j] + vector[j] * vector[j]
        diagonal = (
            math.sqrt(square) if 1e-250 < square < 1e250 else math.hypot(factor[j, j], vector[j])
        )
        cosine, sine = factor[j, j] / diagonal, vector[j] / diagonal
        factor[j, j] = diagonal
        for i in range(j + 1, n):
            column = factor[i, j]
            factor[i, j] = cosine * column + sine * vector[i]
            vector[i] = cosine * vector[i] - sine * column


@in_place
def join_cholesky(factor, other, scratch):
    """In place: the factor of C Cᵀ + L Lᵀ, L = other lower; scratch is a vector to work in."""
    n = factor.shape[0]
    for j in range(n):
        for i in range(n):
            scratch[i] = other[i, j] if i >= j else 0.0
        add_to_cholesky(factor, scratch)


@in_place
def squared_singular_values(matrix, squares):
    """In place: all σ² of a square matrix, small ones to the same relative accuracy as large ones;
    one-sided Jacobi rotations.

    The matrix is used up.
    """
    n = matrix.shape[0]
    for _ in range(30):
        rotated = False
        for i in range(n - 1):
            for j in range(i + 1, n):
                first = second = product = 0.0
                for k in range(n):
                    first += matrix[k, i] * matrix[k, i]
                    second += matrix[k, j] * matrix[k, j]
                    product += matrix[k, i] * matrix[k, j]
                if product == 0.0 or abs(product) <= 1e-15 * math.sqrt(first) * math.sqrt(second):
                    continue
                rotated = True
                ratio = (second - first) / (2.0 * product)
                tangent = math.copysign(1.0, ratio) / (abs(ratio) + math.hypot(1.0, ratio))
                cosine = 1.0 / math.sqrt(1.0 + tangent * tangent)
                sine = cosine * tangent
                for k in range(n):
                    left, right = matrix[k, i], matrix[k, j]
                    matrix[k, i] = cosine * left - sine * right
                    matrix[k, j] = sine * left + cosine * right
        if not rotated:
            break
    for j in range(n):
        squares[j] = 0.0
        for k in range(n):
            squares[j] += matrix[k, j] * matrix[k, j]


@in_place
def solve_lower(factor, vector):
    """In place: the solution x of C x = vector."""
    for i in range(vector.shape[0]):
        rest = vector[i]
        for k in range(i):
            rest -= factor[i, k] * vector[k]
        vector[i] = rest / factor[i, i]


@in_place
def solve_lower_transposed(factor, vector):
    """In place: the solution x of Cᵀ x = vector."""
    for i in range(vector.shape[0] - 1, -1, -1):
        value = vector[i] / factor[i, i]
        vector[i] = value
        for k in range(i):
            vector[k] -= factor[i, k] * value


@in_place
def outer_square(factor, weight, product):
    """In place: product = weight · T Tᵀ for an upper triangular T."""
    n = factor.shape[0]
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, n):
                total += factor[i, k] * factor[j, k]
            product[i, j] = product[j, i] = weight * total


@compiled
def lower_square(factor):
    """C Cᵀ for a lower triangular C."""
    n = factor.shape[0]
    product = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(j + 1):
                total += factor[i, k] * factor[j, k]
            product[i, j] = product[j, i] = total
    return product


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


@in_place
def copy_into(values, more, vectors, matrices):
    """In place: the first rows of vectors (n, D) and matrices (n, E, E) become values (K, D) and
    more (K, E, E)."""
    for k in range(values.shape[0]):
        for i in range(values.shape[1]):
            vectors[k, i] = values[k, i]
        for i in range(more.shape[1]):
            for j in range(more.shape[1]):
                matrices[k, i, j] = more[k, i, j]


@in_place
def trace(matrix):
    total = 0.0
    for i in range(matrix.shape[0]):
        total += matrix[i, i]
    return total


@compiled
def scaled(matrix, factor):
    """factor · matrix."""
    n, m = matrix.shape
    product = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            product[i, j] = factor * matrix[i, j]
    return product


@compiled
def by_component(z, n_components):
    """Users sorted by component, and where each component's begin."""
    begins = np.zeros(n_components + 1, dtype=np.int64)
    for u in range(z.shape[0]):
        begins[z[u] + 1] += 1
    for k in range(n_components):
        begins[k + 1] += begins[k]
    users, places = np.empty(z.shape[0], dtype=np.int64), begins.copy()
    for u in range(z.shape[0]):
        users[places[z[u]]] = u
        places[z[u]] += 1
    return users, begins


@in_place
def put(row, at, values):
    """In place: the values into the row from a place on; returns the place after them."""
    for value in values.flat:
        row[at] = value
        at += 1
    return at


def spread(factor: Array, factors: Array) -> Array:
    """F T⁻ᵀ, square roots of covariances F S⁻¹ Fᵀ with S = T Tᵀ."""
    return np.swapaxes(solved(factors, np.broadcast_to(factor.T, factors.shape)), -1, -2)


@compiled
def inverse_factors(factors):
    """T⁻ᵀ (n, D, D) of upper factors T, S = T Tᵀ: square roots of covariances."""
    found, n_dims = np.zeros_like(factors), factors.shape[1]
    for c in range(factors.shape[0]):
        factor, inverse = factors[c], found[c]
        for j in range(n_dims):
            inverse[j, j] = 1.0 / factor[j, j]
            for i in range(j + 1, n_dims):
                total = 0.0
                for k in range(j, i):
                    total += factor[k, i] * inverse[k, j]
                inverse[i, j] = -total / factor[i, i]
    return found


def times(matrices: Array, vectors: Array) -> Array:
    """Each matrix times its vector."""
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def solved(matrices: Array, right: Array) -> Array:
    """matrices⁻¹ right, (…, q, q) each."""
    return np.asarray(
        right / matrices if matrices.shape[-1] == 1 else np.linalg.solve(matrices, right)
    )


def log_determinants(matrices: Array) -> Array:
    """ln |det| of each."""
    return np.asarray(
        np.log(matrices[..., 0, 0]) if matrices.shape[-1] == 1 else np.linalg.slogdet(matrices)[1]
    )
