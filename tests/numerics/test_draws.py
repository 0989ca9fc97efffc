"""Draws of normal and Wishart laws: exactly what the same noise gives in NumPy, and the right
laws."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import chi2, gamma, ks_2samp, norm, wishart

from dualview.numerics.draws import LEAST_ROOT, log_root, normal, wishart_factor
from yardsticks import N_DRAWS, RARE, check_law, check_mean, python_of

DIMS = [1, 2, 5]


def precision_and_linear(n_dims):
    rng = np.random.default_rng(n_dims)
    sample = rng.standard_normal((n_dims, n_dims + 2))
    return sample @ sample.T + 0.3 * np.eye(n_dims), rng.standard_normal(n_dims)


def drawn_normal(rng, linear, precision, kernel=normal):
    """The draw that takes the place of a copy of linear."""
    draw = linear.copy()
    kernel(rng, draw, precision.copy())
    return draw


def drawn_wishart(rng, dof, inverse_scale, kernel=wishart_factor):
    """The factor that takes the place of whatever was there."""
    factor = np.full_like(inverse_scale, np.nan)
    kernel(rng, dof, np.linalg.cholesky(inverse_scale), factor)
    return factor


def wisharts(rng, dof, n_dims):
    """Draws (N, D, D) and their scale matrix V."""
    inverse_scale, _ = precision_and_linear(n_dims)
    factors = np.array([drawn_wishart(rng, dof, inverse_scale) for _ in range(N_DRAWS)])
    return factors @ factors.transpose(0, 2, 1), np.linalg.inv(inverse_scale)


@pytest.mark.parametrize("n_dims", DIMS)
def test_normal_is_a_linear_map_of_the_generators_noise(n_dims):
    precision, linear = precision_and_linear(n_dims)
    draw = drawn_normal(np.random.default_rng(0), linear, precision)
    noise = np.random.default_rng(0).standard_normal(n_dims)
    expected = np.linalg.solve(precision, linear) + np.linalg.solve(
        np.linalg.cholesky(precision).T, noise
    )
    np.testing.assert_allclose(draw, expected, rtol=1e-10)


@pytest.mark.parametrize("n_dims", DIMS)
def test_normal_has_its_mean_and_covariance(n_dims):
    precision, linear = precision_and_linear(n_dims)
    rng = np.random.default_rng(50 + n_dims)
    mean, covariance = np.linalg.solve(precision, linear), np.linalg.inv(precision)
    deviations = np.array([drawn_normal(rng, linear, precision) for _ in range(N_DRAWS)]) - mean
    check_mean(deviations, 0.0)
    check_mean(deviations[:, :, None] * deviations[:, None, :], covariance)
    direction = np.arange(1.0, n_dims + 1)
    check_law(deviations @ direction / np.sqrt(direction @ covariance @ direction), norm.cdf)


@pytest.mark.parametrize("n_dims", DIMS)
def test_wishart_factor_is_upper_with_a_positive_diagonal(n_dims):
    inverse_scale, _ = precision_and_linear(n_dims)
    factor = drawn_wishart(np.random.default_rng(1), n_dims + 0.5, inverse_scale)
    np.testing.assert_array_equal(factor, np.triu(factor))
    assert (np.diagonal(factor) > 0).all()


@pytest.mark.parametrize("n_dims", DIMS)
def test_a_wishart_factor_next_to_its_bound_is_made_of_numbers(n_dims):
    """Its first diagonal element is 0 where its square would be out of range, and only there."""
    inverse_scale, _ = precision_and_linear(n_dims)
    rng = np.random.default_rng(2)
    factors = np.array([drawn_wishart(rng, n_dims - 1 + 0.004, inverse_scale) for _ in range(100)])
    first = factors[:, 0, 0] * np.linalg.cholesky(inverse_scale)[0, 0]
    assert np.isfinite(factors).all()
    assert (np.diagonal(factors, axis1=1, axis2=2)[:, 1:] > 0.0).all()
    assert 0 < np.count_nonzero(first == 0.0) < 100
    assert (first[first > 0.0] > 0.99 * LEAST_ROOT).all()


def test_the_logarithm_of_nothing():
    assert log_root(0.0) == -np.inf
    assert log_root(2.0) == np.log(2.0)


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("spare", [0.5, 7.25])
def test_wishart_has_its_mean_and_log_determinant(n_dims, spare):
    dof = n_dims - 1 + spare
    draws, scale = wisharts(np.random.default_rng(60 + n_dims), dof, n_dims)
    check_mean(draws, dof * scale)
    log_determinants = np.linalg.slogdet(draws)[1]
    expected = (
        digamma((dof - np.arange(n_dims)) / 2).sum()
        + n_dims * np.log(2)
        + np.linalg.slogdet(scale)[1]
    )
    check_mean(log_determinants, expected)


@pytest.mark.parametrize("n_dims", DIMS)
def test_wishart_in_any_direction_is_chi_squared(n_dims):
    dof = n_dims + 1.5
    draws, scale = wisharts(np.random.default_rng(70 + n_dims), dof, n_dims)
    direction = np.arange(1.0, n_dims + 1) * (-1.0) ** np.arange(n_dims)
    along = np.einsum("i,nij,j->n", direction, draws, direction) / (direction @ scale @ direction)
    check_law(along, chi2(dof).cdf)
    inverse = (
        direction
        @ np.linalg.solve(scale, direction)
        / (direction @ np.linalg.solve(draws, direction[:, None])[..., 0].T)
    )
    check_law(inverse, chi2(dof - n_dims + 1).cdf)


@pytest.mark.parametrize("n_dims", DIMS)
def test_wishart_agrees_with_scipys_draws(n_dims):
    dof = n_dims + 0.75
    rng = np.random.default_rng(80 + n_dims)
    draws, scale = wisharts(rng, dof, n_dims)
    others = wishart.rvs(dof, scale, size=N_DRAWS, random_state=rng).reshape(
        N_DRAWS, n_dims, n_dims
    )
    for statistic in (
        lambda x: x[:, 0, -1],
        lambda x: np.linalg.slogdet(x)[1],
        lambda x: np.trace(x, axis1=1, axis2=2),
    ):
        assert ks_2samp(statistic(draws), statistic(others)).pvalue > RARE


@pytest.mark.parametrize(("dof", "inverse_scale"), [(1.0, 1.0), (0.3, 5.0), (101.0, 1e-6)])
def test_a_wishart_of_one_dimension_is_a_gamma_law(dof, inverse_scale):
    rng = np.random.default_rng(90)
    draws = [
        drawn_wishart(rng, dof, np.array([[inverse_scale]]))[0, 0] ** 2 for _ in range(N_DRAWS)
    ]
    check_law(draws, gamma(dof / 2, scale=2 / inverse_scale).cdf)


@pytest.mark.parametrize("n_dims", DIMS)
def test_a_wishart_factor_is_a_linear_map_of_the_generators_noise(n_dims):
    inverse_scale, _ = precision_and_linear(n_dims)
    dof, rng = n_dims + 0.5, np.random.default_rng(1)
    bartlett = np.zeros((n_dims, n_dims))
    for j in range(n_dims):
        bartlett[j, j] = np.sqrt(2 * rng.standard_gamma((dof - (n_dims - 1 - j)) / 2))
        bartlett[:j, j] = rng.standard_normal(j)
    expected = np.linalg.solve(np.linalg.cholesky(inverse_scale).T, bartlett)
    np.testing.assert_allclose(
        drawn_wishart(np.random.default_rng(1), dof, inverse_scale),
        expected,
        rtol=1e-10,
        atol=1e-12,
    )


@pytest.mark.parametrize("n_dims", DIMS)
def test_compiled_numbers_are_those_of_python(n_dims):
    precision, linear = precision_and_linear(n_dims)
    cases = [
        (drawn_normal, normal, linear, precision),
        (drawn_wishart, wishart_factor, n_dims + 0.5, precision),
    ]
    for drawn, kernel, *arguments in cases:
        compiled, plain = (
            drawn(np.random.default_rng(2), *arguments, f) for f in (kernel, python_of(kernel))
        )
        np.testing.assert_array_equal(compiled, plain)


PROGRAM = """
import json
import numpy as np
from dualview.partitions.alpha import PAPER
from dualview.partitions.concentration import draw_alpha, draw_table_counts
from dualview.numerics.draws import normal, wishart_factor
from dualview.views.base import Base
from dualview.views.gaussian.conditionals import (
    cluster_sums, draw_base, draw_components, redraw_view,
)

x, z, eye = np.arange(12.0).reshape(6, 2) / 7, np.array([0, 1, 1, 0, 0, 1]), np.eye(2)
base = Base(np.zeros(2), eye, eye, 3.5)
numbers, by_slices = [], []
words = np.random.default_rng(3).integers(2**64, size=4, dtype=np.uint64)
for rng in (np.random.default_rng(3), words):
    with np.errstate(over="ignore"):
        sums = cluster_sums(x, z, np.zeros((3, 2)))
        components = draw_components(rng, sums, base)
        drawn = draw_base(rng, components, base)
        vector, factor = np.ones(2), np.empty((2, 2))
        normal(rng, vector, eye.copy())
        wishart_factor(rng, 3.0, eye, factor)
        numbers += [draw_table_counts(rng, np.array([4, 2]), 0.4)]
        for array in (*components, *drawn, vector, factor):
            numbers += np.ravel(array).tolist()
        by_slices.append(draw_alpha(rng, 3, 6, 0.8, PAPER.record))
        components, drawn = redraw_view(rng, sums, base)
        for array in (*components, *drawn):
            by_slices += np.ravel(array).tolist()
print(json.dumps([[float(x) for x in numbers], by_slices]))
"""


@pytest.mark.slow
def test_whole_draws_without_compilation_are_the_same():
    outputs = []
    for disabled in ("0", "1"):
        environment = os.environ | {
            "NUMBA_DISABLE_JIT": disabled,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.append(json.loads(run.stdout))
    (compiled, compiled_by_slices), (plain, plain_by_slices) = outputs
    # Two libraries for hypot and lnΓ differ in the last digits.
    assert compiled == pytest.approx(plain, rel=1e-13)
    assert compiled_by_slices == pytest.approx(plain_by_slices, rel=1e-11)
