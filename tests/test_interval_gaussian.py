"""Mean and covariance of cells that are exact, missing or intervals."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm, truncnorm

from dualview.errors import InputError
from dualview.interval_gaussian import fit_gaussian, truncated_moments
from dualview.units import GaussianPrior, Whitening
from yardsticks import positive_definite

SETTINGS = settings(
    derandomize=True, deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
INF = np.inf


def sample(n_users, n_dims, seed=0):
    rng = np.random.default_rng(seed)
    factor = np.linalg.cholesky(positive_definite(rng, n_dims))
    return rng.standard_normal((n_users, n_dims)) @ factor.T * 10.0 ** np.arange(n_dims) + 3.0


def with_holes(x, missing):
    return np.where(missing, -INF, x), np.where(missing, INF, x)


@pytest.mark.parametrize("n_dims", [1, 3])
def test_exact_cells_have_the_moments_of_the_sample_to_the_last_bit(n_dims):
    x = sample(30, n_dims)
    found = fit_gaussian(x, x)
    ours, theirs = Whitening.of(GaussianPrior(*found)), Whitening.of_data(x)
    np.testing.assert_array_equal(ours.mean, theirs.mean)
    np.testing.assert_array_equal(ours.factor, theirs.factor)
    np.testing.assert_allclose(
        found.covariance, np.cov(x.T, ddof=1).reshape(n_dims, n_dims), rtol=1e-12
    )


def test_users_of_whom_nothing_is_known_change_nothing():
    x = sample(30, 2)
    missing = np.zeros((33, 2), dtype=bool)
    missing[30:] = True
    low, high = with_holes(np.vstack([x, np.zeros((3, 2))]), missing)
    for ours, theirs in zip(fit_gaussian(low, high), fit_gaussian(x, x), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_monotone_holes_have_the_closed_form_of_regression():
    x = sample(50, 2)
    missing = np.zeros(x.shape, dtype=bool)
    missing[30:, 1] = True
    mean, covariance = fit_gaussian(*with_holes(x, missing))
    slope = np.cov(x[:30].T)[0, 1] / np.var(x[:30, 0], ddof=1)
    left = np.var(x[:30, 1] - slope * x[:30, 0])
    variance = np.var(x[:, 0])
    expected = np.array(
        [[variance, slope * variance], [slope * variance, left + slope**2 * variance]]
    )
    np.testing.assert_allclose(
        mean,
        [x[:, 0].mean(), x[:30, 1].mean() + slope * (x[:, 0].mean() - x[:30, 0].mean())],
        rtol=1e-6,
    )
    np.testing.assert_allclose(covariance, expected * 50 / 49, rtol=1e-5)


def test_exact_and_missing_cells_have_maximum_likelihood():
    x = sample(60, 3) / 10.0 ** np.arange(3)
    missing = np.random.default_rng(1).random(x.shape) < 0.3
    n_users = int((~missing).any(axis=1).sum())
    places = np.tril_indices(3)

    def loss(values):
        factor = np.zeros((3, 3))
        factor[places] = values[3:]
        covariance = factor @ factor.T
        total = 0.0
        for seen in np.unique(~missing, axis=0):
            users = (~missing == seen).all(axis=1)
            if seen.any():
                here = covariance[np.ix_(seen, seen)]
                total -= multivariate_normal.logpdf(
                    x[np.ix_(users, seen)], values[:3][seen], here
                ).sum()
        return total

    found = fit_gaussian(*with_holes(x, missing))
    start = np.concatenate(
        [found.mean, np.linalg.cholesky(found.covariance * (n_users - 1) / n_users)[places]]
    )
    best = minimize(loss, start + 0.1, method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose(start, best.x, atol=2e-5)


@pytest.mark.parametrize(
    "ends",
    [
        [(-INF, 0.5), (0.5, 1.5), (1.5, 2.5), (2.5, 3.5), (0.5, 1.5), (0.5, 1.5), (-INF, 0.5)],
        [(1.0, INF), (2.0, INF), (5.0, INF), (3.0, 3.0), (0.0, 0.0), (-INF, 1.0)],
        [(2.5, 3.5), (3.5, 4.5), (2.5, 3.5), (3.5, 4.5)],  # no maximum but for the user added
        [(1.0, INF), (2.0, INF), (5.0, INF)],  # likewise
    ],
)
def test_one_column_of_intervals_has_maximum_likelihood_with_one_user_more(ends):
    low, high = np.array(ends, dtype=float).T
    middle = np.where(np.isinf(high), low, np.where(np.isinf(low), high, (low + high) / 2))
    widths = np.where(np.isfinite(high - low), high - low, 0.0)
    centre, spread = middle.mean(), np.var(middle) + np.mean(widths**2) / 12

    def loss(values):
        mean, sd = values[0], np.exp(values[1])
        exact = low == high
        inside = norm.logpdf(low, mean, sd)
        outside = np.log(np.maximum(norm.cdf(high, mean, sd) - norm.cdf(low, mean, sd), 1e-300))
        added = -np.log(sd) - ((centre - mean) ** 2 + spread) / (2 * sd**2)
        return -np.where(exact, inside, outside).sum() - added

    mean, covariance = fit_gaussian(low[:, None], high[:, None])
    found = np.array([mean[0], 0.5 * np.log(covariance[0, 0] * (len(low) - 1) / len(low))])
    best = minimize(
        loss,
        found + 0.05,
        method="Nelder-Mead",
        options={"xatol": 1e-8, "fatol": 1e-12, "maxiter": 4000},
    )
    np.testing.assert_allclose(found, best.x, atol=1e-4)


def test_narrow_intervals_are_nearly_exact():
    x = sample(200, 3)
    width = 1e-4 * x.std(axis=0)
    mean, covariance = fit_gaussian(x - width, x + width)
    expected, unit = np.cov(x.T), x.std(axis=0)
    np.testing.assert_allclose((mean - x.mean(axis=0)) / unit, 0.0, atol=1e-5)
    np.testing.assert_allclose(
        covariance / np.outer(unit, unit), expected / np.outer(unit, unit), atol=0.01
    )  # one user more


def test_wide_intervals_keep_most_of_a_correlation():
    rng = np.random.default_rng(0)
    cuts = np.array([-INF, -1.0, 0.0, 1.0, INF])
    x = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]], size=3000)
    level = np.digitize(x, cuts) - 1
    mean, covariance = fit_gaussian(cuts[level], cuts[level + 1])
    np.testing.assert_allclose(mean, 0.0, atol=0.1)
    np.testing.assert_allclose(np.diagonal(covariance), 1.0, atol=0.1)
    assert 0.42 < covariance[0, 1] < 0.55


def test_columns_that_nobody_has_both_of_stay_uncorrelated():
    x = sample(40, 2)
    missing = np.zeros(x.shape, dtype=bool)
    missing[:20, 0] = missing[20:, 1] = True
    mean, covariance = fit_gaussian(*with_holes(x, missing))
    np.testing.assert_allclose(mean, [x[20:, 0].mean(), x[:20, 1].mean()], rtol=1e-6)
    np.testing.assert_allclose(
        covariance, np.diag([x[20:, 0].var(), x[:20, 1].var()]) * 40 / 39, rtol=1e-5, atol=1e-8
    )


def check_proper(found, n_dims):
    assert np.isfinite(found.mean).all()
    assert found.mean.shape == (n_dims,)
    np.testing.assert_array_equal(found.covariance, found.covariance.T)
    GaussianPrior(*found)  # raises unless positive definite


def test_fewer_users_than_columns():
    x = sample(4, 6)
    missing = np.zeros(x.shape, dtype=bool)
    missing[0, 0] = True
    check_proper(fit_gaussian(*with_holes(x, missing)), 6)


def test_few_complete_users():
    x = sample(40, 2)
    missing = np.zeros(x.shape, dtype=bool)
    missing[2:21, 0] = missing[21:, 1] = True
    check_proper(fit_gaussian(*with_holes(x, missing)), 2)


@SETTINGS
@given(st.integers(0, 10**6), st.integers(3, 25), st.integers(1, 4), st.floats(-6, 6))
def test_any_mixture_of_cells_has_a_proper_gaussian_that_moves_with_the_data(
    seed, n_users, n_dims, magnitude
):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_users, n_dims)) + rng.standard_normal((n_users, 1))
    cell = rng.choice(5, p=[0.4, 0.2, 0.2, 0.1, 0.1], size=x.shape)
    cell[:2] = 0  # two numbers in every column
    low = np.select([cell == 0, cell == 2, cell == 3], [x, np.floor(x), x - 0.1], -INF)
    high = np.select([cell == 0, cell == 2, cell == 4], [x, np.floor(x) + 1.0, x + 0.1], INF)
    found = fit_gaussian(low, high)
    check_proper(found, n_dims)
    scale = 10.0 ** (magnitude * rng.random(n_dims))
    moved = fit_gaussian(scale * low + 7.0 * scale, scale * high + 7.0 * scale)
    np.testing.assert_allclose(moved.mean / scale - 7.0, found.mean, atol=1e-3)
    np.testing.assert_allclose(
        moved.covariance / np.outer(scale, scale), found.covariance, rtol=1e-3, atol=1e-3
    )


def test_same_input_same_result():
    x = sample(40, 3)
    low, high = np.floor(x), np.floor(x) + 1
    for one, other in zip(fit_gaussian(low, high), fit_gaussian(low, high), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (
            [[1.0, 2.0], [1.0, 3.0], [1.0, -INF]],
            [[1.0, 2.0], [1.0, 3.0], [1.0, INF]],
            r"column\(s\) a is one value",
        ),
        (
            [[2.0, 5.0], [3.0, -INF]],
            [[2.0, INF], [3.0, 5.0]],
            r"column\(s\) b is one value, or a bound that all users share",
        ),
    ],
)
def test_columns_without_spread_are_refused(low, high, message):
    with pytest.raises(InputError, match=message):
        fit_gaussian(np.array(low), np.array(high), ["a", "b"])


def test_dependent_columns_are_refused():
    x = sample(30, 3)
    x = np.column_stack([x, 2.0 * x[:, 0] - x[:, 2] + 1.0])
    missing = np.zeros(x.shape, dtype=bool)
    missing[0, 1] = True
    with pytest.raises(
        InputError,
        match="Columns a, c, d are linearly dependent: one of them follows from the others",
    ):
        fit_gaussian(*with_holes(x, missing), ["a", "b", "c", "d"])


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, INF),
        (-3, INF),
        (2.9, INF),
        (3.1, 8),
        (-INF, 2),
        (-INF, -5),
        (-1, 1),
        (-0.2, 0.1),
        (3, 4),
        (-9, 9),
        (20, 21),
        (1, 1.4),
    ],
)
def test_truncated_moments_are_those_of_scipy(low, high):
    mean, variance = truncated_moments(np.array([float(low)]), np.array([float(high)]))
    np.testing.assert_allclose(
        [mean[0], variance[0]], truncnorm.stats(low, high, moments="mv"), rtol=1e-6, atol=1e-12
    )


@SETTINGS
@given(st.floats(-1e5, 1e5), st.floats(1e-9, 50))
def test_truncated_moments_lie_inside(low, width):
    high = low + width
    mean, variance = truncated_moments(np.array([low]), np.array([high]))
    assert low <= mean[0] <= high
    assert 0 < variance[0] <= min((high - low) ** 2 / 4, 1.0) * (1 + 1e-6)
