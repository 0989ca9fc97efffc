"""Loops of linear algebra against NumPy."""

import numpy as np
import pytest

from dualview.kernels.linalg import (
    add_outer,
    add_to_cholesky,
    cholesky,
    loses_digits,
    multiply,
    outer_square,
    solve_lower,
    solve_lower_transposed,
)
from yardsticks import EPSILON, positive_definite, python_of

SIZES = [1, 2, 5, 20]


@pytest.mark.parametrize("n", SIZES)
def test_cholesky_is_numpys(n):
    matrix = positive_definite(np.random.default_rng(n), n)
    np.testing.assert_allclose(cholesky(matrix), np.linalg.cholesky(matrix), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("matrix", [-np.eye(1), np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones((2, 2)), np.zeros((3, 3))])
def test_cholesky_of_an_indefinite_matrix_has_nan_on_its_diagonal(matrix):
    assert np.isnan(np.diagonal(cholesky(matrix))).any()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_a_vector_added_to_a_factor(n, size):
    rng = np.random.default_rng(50 + n)
    factor, vector = np.linalg.cholesky(positive_definite(rng, n)), size * rng.standard_normal(n)
    triangle = np.linalg.qr(np.vstack([factor.T, vector]), mode="r")
    updated = factor.copy()
    add_to_cholesky(updated, vector)
    np.testing.assert_array_equal(updated, np.tril(updated))
    np.testing.assert_allclose(np.diagonal(updated), np.abs(np.diagonal(triangle)), rtol=1e3 * EPSILON * max(size, 1.0))
    product = factor @ factor.T + np.outer(vector, vector)
    np.testing.assert_allclose(updated @ updated.T, product, rtol=1e-12, atol=1e-12 * np.abs(product).max())


def test_lost_digits_are_noticed():
    for matrix, lost in [(np.eye(2), False), (np.diag([1.0, 1e-20]), False), (np.ones((2, 2)) + 1e-10 * np.eye(2), True)]:
        assert loses_digits(cholesky(matrix), matrix) is lost
    assert loses_digits(cholesky(np.ones((2, 2))), np.ones((2, 2)))


@pytest.mark.parametrize("n", SIZES)
def test_triangular_solutions(n):
    rng = np.random.default_rng(10 + n)
    factor, vector = np.linalg.cholesky(positive_definite(rng, n)), rng.standard_normal(n)
    np.testing.assert_allclose(factor @ solve_lower(factor, vector), vector, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(factor.T @ solve_lower_transposed(factor, vector), vector, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("n", SIZES)
def test_solutions_read_one_triangle_only(n):
    rng = np.random.default_rng(20 + n)
    square, vector = rng.standard_normal((n, n)) + 5 * np.eye(n), rng.standard_normal(n)
    np.testing.assert_array_equal(solve_lower(square, vector), solve_lower(np.tril(square), vector))
    transposed = solve_lower_transposed(square, vector)
    np.testing.assert_array_equal(transposed, solve_lower_transposed(np.tril(square), vector))


@pytest.mark.parametrize("n", SIZES)
def test_products(n):
    rng = np.random.default_rng(30 + n)
    upper, matrix, vector = np.triu(rng.standard_normal((n, n))), rng.standard_normal((n + 1, n)), rng.standard_normal(n)
    np.testing.assert_allclose(outer_square(upper), upper @ upper.T, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(multiply(matrix, vector), matrix @ vector, rtol=1e-12, atol=1e-13)
    square = positive_definite(rng, n)
    expected = square - 0.3 * np.outer(vector, vector)
    add_outer(square, vector, -0.3)
    np.testing.assert_allclose(square, expected, rtol=1e-12, atol=1e-13)


def test_compiled_numbers_are_those_of_python():
    rng = np.random.default_rng(40)
    matrix, vector = positive_definite(rng, 5), rng.standard_normal(5)
    lower = cholesky(matrix)
    for kernel, *arguments in [
        (cholesky, matrix),
        (solve_lower, lower, vector),
        (solve_lower_transposed, lower, vector),
        (outer_square, np.ascontiguousarray(lower.T)),
        (multiply, matrix, vector),
    ]:
        np.testing.assert_array_equal(kernel(*arguments), python_of(kernel)(*arguments))
    for kernel, *arguments in [(add_outer, vector, 0.7), (add_to_cholesky, vector)]:
        compiled, plain = lower.copy(), lower.copy()
        kernel(compiled, *arguments)
        python_of(kernel)(plain, *arguments)
        np.testing.assert_array_equal(compiled, plain)
