"""Loops of linear algebra against NumPy. Most work in place; the helpers here work on copies."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from dualview.numerics.linalg import (
    add_to_cholesky,
    cholesky,
    cholesky_by_tiles,
    copy_into,
    factorise,
    is_thin,
    join_cholesky,
    loses_digits,
    multiply,
    outer_square,
    root_of_semidefinite,
    rotate_to_lower,
    scaled,
    solve_lower,
    solve_lower_transposed,
    squared_singular_values,
    trace,
)
from yardsticks import DIGITS, EPSILON, positive_definite, python_of

SIZES = [1, 2, 5, 20]
TILED_SIZES = [*range(1, 10), 50, 101]
INDEFINITE = [-np.eye(1), np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones((2, 2)), np.zeros((3, 3))]


def changed(kernel, target, *arguments):
    """A copy of the target after an in-place kernel has worked on it; vectors among the arguments
    are copied too."""
    target = target.copy()
    kernel(target, *(np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments))
    return target


def solved(kernel, factor, vector):
    vector = vector.copy()
    kernel(factor, vector)
    return vector


def singular_squares(matrix, kernel=squared_singular_values):
    squares = np.full(len(matrix), np.nan)
    kernel(matrix.copy(), squares)
    return squares


def random_factor(rng, n):
    return np.linalg.cholesky(positive_definite(rng, n))


@pytest.mark.parametrize("n", SIZES)
def test_cholesky_is_numpys_and_reads_the_lower_half_only(n):
    matrix = positive_definite(np.random.default_rng(n), n)
    expected = np.linalg.cholesky(matrix)
    given = matrix.copy()
    np.testing.assert_allclose(cholesky(given), expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(given, matrix)
    spoilt = np.tril(matrix) + np.triu(np.full((n, n), np.nan), 1)
    np.testing.assert_array_equal(changed(factorise, spoilt), cholesky(matrix))


@pytest.mark.parametrize("matrix", INDEFINITE)
def test_cholesky_of_an_indefinite_matrix_has_nan_on_its_diagonal(matrix):
    assert np.isnan(np.diagonal(cholesky(matrix))).any()


@pytest.mark.parametrize("n", TILED_SIZES)
def test_cholesky_by_tiles_is_numpys_and_leaves_the_upper_half(n):
    matrix = positive_definite(np.random.default_rng(n), n)
    given = np.tril(matrix) + np.triu(np.full((n, n), 7.0), 1)
    factor = changed(cholesky_by_tiles, given)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(np.triu(factor, 1), np.triu(given, 1))


@pytest.mark.parametrize("n", TILED_SIZES)
def test_cholesky_by_tiles_is_nan_from_the_first_pivot_that_is_not_positive(n):
    rng = np.random.default_rng(60 + n)
    matrix = positive_definite(rng, n)
    exact = np.diagonal(np.linalg.cholesky(matrix))
    for bad in range(n):
        broken = matrix.copy()
        broken[bad, bad] -= 1.5 * exact[bad] ** 2  # the pivot becomes −exact²/2
        pivots = np.diagonal(changed(cholesky_by_tiles, broken))
        np.testing.assert_allclose(pivots[:bad], exact[:bad], rtol=1e-10)
        assert np.isnan(pivots[bad:]).all()


@pytest.mark.parametrize("matrix", INDEFINITE)
def test_cholesky_by_tiles_of_an_indefinite_matrix_has_nan_on_its_diagonal(matrix):
    assert np.isnan(np.diagonal(changed(cholesky_by_tiles, matrix))).any()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_a_vector_added_to_a_factor(n, size):
    rng = np.random.default_rng(50 + n)
    factor, vector = random_factor(rng, n), size * rng.standard_normal(n)
    triangle = np.linalg.qr(np.vstack([factor.T, vector]), mode="r")
    updated = changed(add_to_cholesky, factor, vector)
    np.testing.assert_array_equal(updated, np.tril(updated))
    np.testing.assert_allclose(
        np.diagonal(updated), np.abs(np.diagonal(triangle)), rtol=1e3 * EPSILON * max(size, 1.0)
    )
    product = factor @ factor.T + np.outer(vector, vector)
    np.testing.assert_allclose(
        updated @ updated.T, product, rtol=1e-12, atol=1e-12 * np.abs(product).max()
    )


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("n_vectors", [1, 3, 40])
def test_vectors_added_to_nothing(n, n_vectors):
    """A scatter from the zero factor, of any rank, with coordinates that are zero."""
    rng = np.random.default_rng([n, n_vectors])
    vectors = rng.standard_normal((n_vectors, n)) * (rng.random((n_vectors, n)) < 0.7)
    factor = np.zeros((n, n))
    for vector in vectors:
        factor = changed(add_to_cholesky, factor, vector)
    np.testing.assert_array_equal(factor, np.tril(factor))
    np.testing.assert_allclose(factor @ factor.T, vectors.T @ vectors, rtol=1e-12, atol=1e-12)


def test_a_zero_vector_changes_nothing():
    factor = random_factor(np.random.default_rng(70), 3)
    np.testing.assert_array_equal(changed(add_to_cholesky, factor, np.zeros(3)), factor)
    np.testing.assert_array_equal(
        changed(add_to_cholesky, np.zeros((3, 3)), np.zeros(3)), np.zeros((3, 3))
    )


@pytest.mark.parametrize("far", [1.0, 1e6])
@pytest.mark.parametrize("n", SIZES)
def test_a_factor_grown_from_points_far_away_keeps_its_small_pivots(n, far):
    """Points near one line, very long: the products would cancel to nothing, the rotations do
    not."""
    rng = np.random.default_rng(30 + n)
    start = random_factor(rng, n)
    points = far * np.outer(rng.standard_normal(5), rng.standard_normal(n)) + rng.standard_normal(
        (5, n)
    )
    factor = start
    for point in points:
        factor = changed(add_to_cholesky, factor, point)
    pivots = np.abs(np.diagonal(np.linalg.qr(np.vstack([start.T, points]), mode="r")))
    np.testing.assert_allclose(np.diagonal(factor), pivots, rtol=1e3 * EPSILON * far)


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_joined_factors_are_the_factor_of_the_sum(n, empty):
    rng = np.random.default_rng(80 + n)
    factor = np.zeros((n, n)) if empty else random_factor(rng, n)
    other = random_factor(rng, n)
    other[-1, -1] = 0.0  # of lower rank
    spoilt = other + np.triu(np.full((n, n), np.nan), 1)
    joined = changed(join_cholesky, factor, spoilt, np.empty(n))
    np.testing.assert_array_equal(joined, np.tril(joined))
    np.testing.assert_allclose(
        joined @ joined.T, factor @ factor.T + other @ other.T, rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("n", [*SIZES, 50])
def test_squared_singular_values_are_numpys(n):
    matrix = np.random.default_rng(90 + n).standard_normal((n, n))
    squares = np.sort(singular_squares(matrix))[::-1]
    np.testing.assert_allclose(squares, np.linalg.svd(matrix, compute_uv=False) ** 2, rtol=1e-9)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_squared_singular_values_of_low_rank(rank):
    rng = np.random.default_rng(rank)
    matrix = rng.standard_normal((4, rank)) @ rng.standard_normal((rank, 4))
    squares = np.sort(singular_squares(matrix))[::-1]
    np.testing.assert_allclose(
        squares, np.linalg.svd(matrix, compute_uv=False) ** 2, rtol=1e-12, atol=1e-28
    )


def precise_squares(matrix):
    """σ² in falling order: the eigenvalues of MᵀM by Jacobi's rotations with many digits, rounded
    once at the end."""
    n = len(matrix)
    with localcontext(prec=2 * DIGITS):
        exact = np.array([[Decimal(float(v)) for v in row] for row in matrix])
        gram = exact.T @ exact
        for _ in range(12):
            for i, j in zip(*np.triu_indices(n, 1), strict=True):
                if gram[i, j] != 0:
                    ratio = (gram[j, j] - gram[i, i]) / (2 * gram[i, j])
                    tangent = Decimal(1).copy_sign(ratio) / (abs(ratio) + (1 + ratio**2).sqrt())
                    cosine = 1 / (1 + tangent**2).sqrt()
                    turn = np.array([[cosine, tangent * cosine], [-tangent * cosine, cosine]])
                    gram[:, [i, j]] = gram[:, [i, j]] @ turn
                    gram[[i, j]] = turn.T @ gram[[i, j]]
        return np.sort(np.diagonal(gram).astype(float))[::-1]


def triangle(rng, n):
    """A well-conditioned lower triangle."""
    return np.tril(rng.standard_normal((n, n)), -1) * 0.5 + np.diag(1.0 + rng.random(n))


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("power", [2, 6, 12])
@pytest.mark.parametrize(
    "grading", ["falling columns", "rising columns", "falling rows", "rising rows", "both"]
)
def test_small_singular_values_have_the_digits_of_large_ones(n, power, grading):
    """What LAPACK gives to within EPSILON of the largest only."""
    lower, scales = triangle(np.random.default_rng([n, power]), n), 10.0 ** (-power * np.arange(n))
    matrix = {
        "falling columns": lower * scales,
        "rising columns": lower * scales[::-1],
        "falling rows": scales[:, None] * lower,
        "rising rows": scales[::-1, None] * lower,
        "both": np.sqrt(scales[:, None]) * lower * np.sqrt(scales),
    }[grading]
    squares = np.sort(singular_squares(matrix))[::-1]
    np.testing.assert_allclose(squares, precise_squares(matrix), rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_squared_singular_values_far_from_one(scale):
    matrix = np.random.default_rng(95).standard_normal((4, 4))
    np.testing.assert_allclose(
        singular_squares(scale * matrix), scale**2 * singular_squares(matrix), rtol=1e-12
    )


def test_thin_factors_are_noticed():
    assert not is_thin(np.array([[1.0, 0.0], [1.0, 1e-3]]))
    assert is_thin(np.array([[1.0, 0.0], [1.0, 1e-5]]))
    assert is_thin(np.array([[1.0, 0.0], [1.0, np.nan]]))


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_roots_of_matrices_that_lack_rank(rank):
    matrix = np.random.default_rng(rank).standard_normal((3, rank))
    root = root_of_semidefinite(matrix @ matrix.T)
    assert (np.triu(root, 1) == 0.0).all()
    np.testing.assert_allclose(root @ root.T, matrix @ matrix.T, atol=1e-12)


@pytest.mark.parametrize("thin", [1.0, 1e-50])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_rotations_make_a_lower_triangle(n, thin):
    rng = np.random.default_rng(n)
    wide = np.zeros((n + 1, 2 * n))
    wide[:n, :n], wide[n] = np.triu(rng.standard_normal((n, n))), rng.standard_normal(2 * n)
    wide[0, 0] *= thin
    before, volume = wide.copy(), np.abs(np.diag(wide[:n, :n])).prod()
    rotate_to_lower(wide)
    assert (np.triu(wide[:n], 1) == 0.0).all()
    np.testing.assert_allclose(wide @ wide.T, before @ before.T, atol=1e-13)
    assert np.diag(wide[:n, :n]).prod() == pytest.approx(volume, rel=1e-12)


def test_lost_digits_are_noticed():
    for matrix, lost in [
        (np.eye(2), False),
        (np.diag([1.0, 1e-20]), False),
        (np.ones((2, 2)) + 1e-10 * np.eye(2), True),
    ]:
        assert loses_digits(cholesky(matrix), np.diagonal(matrix).copy()) is lost
    assert loses_digits(cholesky(np.ones((2, 2))), np.ones(2))


@pytest.mark.parametrize("n", SIZES)
def test_triangular_solutions(n):
    rng = np.random.default_rng(10 + n)
    factor, vector = random_factor(rng, n), rng.standard_normal(n)
    np.testing.assert_allclose(
        factor @ solved(solve_lower, factor, vector), vector, rtol=1e-10, atol=1e-11
    )
    np.testing.assert_allclose(
        factor.T @ solved(solve_lower_transposed, factor, vector), vector, rtol=1e-10, atol=1e-11
    )


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kernel", [solve_lower, solve_lower_transposed])
def test_solutions_read_one_triangle_only(n, kernel):
    rng = np.random.default_rng(20 + n)
    square, vector = rng.standard_normal((n, n)) + 5 * np.eye(n), rng.standard_normal(n)
    spoilt = np.tril(square) + np.triu(np.full((n, n), np.nan), 1)
    np.testing.assert_array_equal(solved(kernel, square, vector), solved(kernel, spoilt, vector))


@pytest.mark.parametrize("n", SIZES)
def test_products(n):
    rng = np.random.default_rng(30 + n)
    upper, matrix, vector = (
        np.triu(rng.standard_normal((n, n))),
        rng.standard_normal((n + 1, n)),
        rng.standard_normal(n),
    )
    square = np.full((n, n), np.nan)
    outer_square(upper, 0.7, square)
    np.testing.assert_allclose(square, 0.7 * upper @ upper.T, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(multiply(matrix, vector), matrix @ vector, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(scaled(matrix, -0.3), -0.3 * matrix)
    assert trace(square) == pytest.approx(np.trace(square), rel=1e-14)


def test_components_are_copied_to_the_front():
    rng = np.random.default_rng(45)
    vectors, matrices = rng.standard_normal((2, 3)), rng.standard_normal((2, 3, 3))
    wide_vectors, wide_matrices = np.full((4, 3), 9.0), np.full((4, 3, 3), 9.0)
    copy_into(vectors, matrices, wide_vectors, wide_matrices)
    np.testing.assert_array_equal(wide_vectors, np.concatenate([vectors, np.full((2, 3), 9.0)]))
    np.testing.assert_array_equal(
        wide_matrices, np.concatenate([matrices, np.full((2, 3, 3), 9.0)])
    )


def test_compiled_numbers_are_those_of_python():
    rng = np.random.default_rng(40)
    matrix, vector = positive_definite(rng, 5), rng.standard_normal(5)
    lower = cholesky(matrix)
    for kernel, *arguments in [
        (cholesky, matrix),
        (multiply, matrix, vector),
        (scaled, matrix, 0.3),
        (trace, matrix),
    ]:
        np.testing.assert_array_equal(kernel(*arguments), python_of(kernel)(*arguments))
    np.testing.assert_array_equal(changed(factorise, matrix), changed(python_of(factorise), matrix))
    for kernel in (solve_lower, solve_lower_transposed):
        np.testing.assert_array_equal(
            solved(kernel, lower, vector), solved(python_of(kernel), lower, vector)
        )
    compiled, plain = np.empty((5, 5)), np.empty((5, 5))
    outer_square(lower.T.copy(), 0.7, compiled)
    python_of(outer_square)(lower.T.copy(), 0.7, plain)
    np.testing.assert_array_equal(compiled, plain)
    # Sums in any order; two libraries for hypot.
    for kernel, *arguments in [
        (add_to_cholesky, lower, vector),
        (join_cholesky, lower, lower, vector),
    ]:
        np.testing.assert_allclose(
            changed(kernel, *arguments), changed(python_of(kernel), *arguments), rtol=1e-13
        )
    tiled, plainly_tiled = (
        changed(cholesky_by_tiles, matrix),
        changed(python_of(cholesky_by_tiles), matrix),
    )
    np.testing.assert_allclose(tiled, plainly_tiled, rtol=1e-12)
    plain_squares = singular_squares(matrix, python_of(squared_singular_values))
    np.testing.assert_allclose(singular_squares(matrix), plain_squares, rtol=1e-13)
