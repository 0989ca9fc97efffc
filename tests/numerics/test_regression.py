"""Draws of regression coefficients are affine in their noise: mean and covariance are read off,
nothing is sampled."""

import numpy as np
import pytest
from scipy import sparse

from dualview.behaviors.likelihoods.regression import (
    ByCoefficients,
    ByConjugateGradients,
    ByObservations,
    coefficient_draw,
)
from dualview.numerics.regression import (
    add_gram_times,
    add_transposed_times,
    draw_by_coefficients,
    draw_by_observations,
    draw_by_rotations,
)
from naive import blr_posterior
from yardsticks import python_of

SIZES = [(3, 8), (8, 3), (5, 5), (30, 20)]


class Problem:
    def __init__(self, n_observations, n_coefficients):
        rng = np.random.default_rng([n_observations, n_coefficients])
        self.design = (rng.random((n_observations, n_coefficients)) < 0.5) * rng.standard_normal(
            (n_observations, n_coefficients)
        )
        self.outcome = rng.standard_normal(n_observations)
        self.prior_mean = rng.standard_normal(n_coefficients)
        self.prior_precision = rng.gamma(2.0, size=n_coefficients) + 0.1
        self.noise_precision = 1.7
        self.prior = (self.noise_precision, self.prior_mean, self.prior_precision)
        self.mean, self.covariance = blr_posterior(
            self.design, self.outcome, self.prior_mean, self.prior_precision, self.noise_precision
        )

    def by_coefficients(self, noise):
        return draw_by_coefficients(
            self.design.T @ self.design, self.design.T @ self.outcome, *self.prior, noise
        )

    def by_observations(self, noise):
        n = len(self.prior_mean)
        return draw_by_observations(self.design, self.outcome, *self.prior, noise[:n], noise[n:])

    def by_rotations(self, noise):
        return draw_by_rotations(self.design, self.outcome, *self.prior, noise)

    @property
    def kernels(self):
        n_observations, n = self.design.shape
        return [
            (self.by_coefficients, n),
            (self.by_observations, n + n_observations),
            (self.by_rotations, n),
        ]


class Scripted:
    """A generator whose normal numbers are given in advance."""

    def __init__(self, noise):
        self._noise, self._position = noise, 0

    def standard_normal(self, size):
        self._position += size
        return self._noise[self._position - size : self._position].copy()


def moments(affine, n_noise):
    """Mean and covariance of an affine map of standard normal noise."""
    offset = affine(np.zeros(n_noise))
    columns = np.array([affine(unit) - offset for unit in np.eye(n_noise)])
    return offset, columns.T @ columns


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kernel", range(3))
def test_kernels_have_the_posteriors_mean_and_covariance(size, kernel):
    """(C7)"""
    problem = Problem(*size)
    mean, covariance = moments(*problem.kernels[kernel])
    np.testing.assert_allclose(mean, problem.mean, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(covariance, problem.covariance, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kernel", range(3))
def test_kernels_are_affine_in_their_noise(size, kernel):
    affine, n_noise = Problem(*size).kernels[kernel]
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, n_noise))
    offset = affine(np.zeros(n_noise))
    np.testing.assert_allclose(
        affine(a + 2 * b) - offset, (affine(a) - offset) + 2 * (affine(b) - offset), atol=1e-9
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("method", [ByCoefficients, ByObservations, ByConjugateGradients])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_all_methods_draw_from_the_posterior(size, method, form):
    problem = Problem(*size)
    regression = method(form(problem.design), problem.outcome)
    mean, covariance = moments(
        lambda noise: regression.draw(Scripted(noise), *problem.prior), sum(size)
    )
    np.testing.assert_allclose(mean, problem.mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(covariance, problem.covariance, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("n", [299, 300, 301])
def test_large_systems_are_solved_as_small_ones(n):
    """On either side of where LAPACK takes over."""
    rng = np.random.default_rng(n)
    noise, problem = rng.standard_normal(n), Problem(40, n)
    precision = (
        np.diag(problem.prior_precision)
        + problem.noise_precision * problem.design.T @ problem.design
    )
    expected = problem.mean + np.linalg.solve(np.linalg.cholesky(precision).T, noise)
    drawn = ByCoefficients(problem.design, problem.outcome).draw(Scripted(noise), *problem.prior)
    np.testing.assert_allclose(drawn, expected, rtol=1e-8, atol=1e-9)
    problem = Problem(n, 40)
    noise, outcome_noise = rng.standard_normal(40), rng.standard_normal(n)
    prior_draw = problem.prior_mean + noise / np.sqrt(problem.prior_precision)
    rest = (
        problem.outcome
        - problem.design @ prior_draw
        - outcome_noise / np.sqrt(problem.noise_precision)
    )
    system = (
        problem.design / problem.prior_precision @ problem.design.T
        + np.eye(n) / problem.noise_precision
    )
    expected = (
        prior_draw + problem.design.T @ np.linalg.solve(system, rest) / problem.prior_precision
    )
    np.testing.assert_allclose(
        problem.by_observations(np.append(noise, outcome_noise)), expected, rtol=1e-8, atol=1e-9
    )


@pytest.mark.parametrize("n", [12, 301])
@pytest.mark.parametrize("method", [ByCoefficients, ByObservations])
def test_a_system_that_is_singular_in_rounding_is_solved_by_rotations(method, n):
    rng = np.random.default_rng(n)
    design = np.outer(rng.standard_normal(n), np.ones(n)) + 1e-9 * rng.standard_normal((n, n))
    prior = (1e20, np.zeros(n), np.full(n, 1e-6))
    outcome = design @ np.ones(n)
    draw = method(design, outcome).draw(Scripted(np.zeros(2 * n)), *prior)
    assert np.abs(outcome - design @ draw).max() < 1e-6 * np.abs(outcome).max()


@pytest.mark.parametrize("method", [ByCoefficients, ByObservations])
def test_extreme_precisions_do_not_cost_the_digits(method):
    """Two near-copies of a column, with noise so small that the quick factorisations lose
    everything."""
    rng = np.random.default_rng(2)
    design = rng.standard_normal((12, 4))
    design[:, 1] = design[:, 0] + 1e-6 * rng.standard_normal(12)
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    prior = (1e20, np.zeros(4), np.array([1e-12, 1e-12, 1.0, 1e6]))
    draw = method(design, design @ truth).draw(Scripted(np.zeros(16)), *prior)
    np.testing.assert_allclose(draw, truth, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "method"),
    [
        ((10, 50), ByObservations),
        ((50, 10), ByCoefficients),
        ((15, 20), ByCoefficients),
        ((18, 30), ByObservations),
        ((30, 30), ByConjugateGradients),
        ((30, 100), ByConjugateGradients),
    ],
)
def test_the_method_is_chosen_by_size(shape, method, monkeypatch):
    monkeypatch.setattr("dualview.behaviors.likelihoods.regression.DENSE_LIMIT", 20)
    assert type(coefficient_draw(np.zeros(shape), np.zeros(shape[0]))) is method


@pytest.mark.parametrize("rows", [(0, 7), (2, 5), (3, 3)])
def test_products_with_sparse_rows(rows):
    rng = np.random.default_rng(6)
    dense = (rng.random((7, 4)) < 0.5) * rng.standard_normal((7, 4))
    matrix, (first, end) = sparse.csr_array(dense), rows
    vector, outcome = rng.standard_normal(4), rng.standard_normal(7)
    part = dense[first:end]
    for kernel, given, product in [
        (add_gram_times, vector, part.T @ part @ vector),
        (add_transposed_times, outcome, part.T @ outcome[first:end]),
    ]:
        total = np.ones(4)
        kernel(first, end, matrix.indptr, matrix.indices, matrix.data, given, total)
        np.testing.assert_allclose(total, 1.0 + product, rtol=1e-12, atol=1e-13)


def test_compiled_numbers_are_those_of_python():
    problem = Problem(8, 3)
    noise, outcome_noise = (
        np.random.default_rng(4).standard_normal(3),
        np.random.default_rng(5).standard_normal(8),
    )
    gram, weighted = problem.design.T @ problem.design, problem.design.T @ problem.outcome
    for kernel, *arguments in [
        (draw_by_coefficients, gram, weighted, *problem.prior, noise),
        (
            draw_by_observations,
            problem.design,
            problem.outcome,
            *problem.prior,
            noise,
            outcome_noise,
        ),
        (draw_by_rotations, problem.design, problem.outcome, *problem.prior, noise),
    ]:  # NumPy and Numba may each have a LAPACK of their own, so the last digits may differ
        np.testing.assert_allclose(kernel(*arguments), python_of(kernel)(*arguments), rtol=1e-12)
