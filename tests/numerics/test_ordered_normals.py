"""Normal numbers in a known order: probabilities against closed forms and SciPy, draws against the
joint density."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from checks import ACCEPT, REJECT
from dualview.numerics import ordered_normals
from dualview.numerics.ordered_normals import (
    draw_in_order,
    first_probabilities,
    log_normal_cdf,
    log_probabilities,
    modes,
)
from dualview.numerics.streams import stream_of


def log_probability(means, n_top):
    means = np.asarray(means, dtype=float)
    return log_probabilities(means[None], np.array([0, len(means)]), np.array([n_top]))[0, 0]


def by_scipy(means, n_top):
    """P(A u > 0) of the differences that must be above 0."""
    k = len(means)
    pairs = [(i, i + 1) for i in range(n_top - 1)] + [(n_top - 1, j) for j in range(n_top, k)]
    differences = np.array([np.eye(k)[i] - np.eye(k)[j] for i, j in pairs])
    covariance = differences @ differences.T
    rng = np.random.default_rng(0)
    return multivariate_normal(
        cov=covariance, maxpts=400_000, abseps=1e-9, releps=1e-9, seed=rng
    ).cdf(differences @ means)


@pytest.mark.parametrize("difference", [0.0, 0.3, -3.0, 5.0, -20.0, -100.0, -1000.0, 1000.0])
def test_two_numbers(difference):
    expected = norm.logcdf(difference / math.sqrt(2.0))
    assert log_probability([difference, 0.0], 1) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("k", [3, 5, 10, 30])
def test_all_orders_of_like_numbers_are_equally_probable(k):
    assert log_probability(np.zeros(k), k - 1) == pytest.approx(-math.lgamma(k + 1), abs=1e-5)
    assert log_probability(np.full(k, 7.0), 2) == pytest.approx(-math.log(k * (k - 1)), abs=1e-5)


@pytest.mark.parametrize(("k", "n_top"), [(3, 1), (3, 2), (4, 1), (4, 2), (4, 3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_probabilities_are_those_of_scipy(k, n_top, seed):
    means = np.random.default_rng(seed).normal(scale=1.5, size=k)
    assert math.exp(log_probability(means, n_top)) == pytest.approx(
        by_scipy(means, n_top), rel=2e-6, abs=1e-8
    )


def test_the_probabilities_of_all_orders_sum_to_one():
    from itertools import permutations

    means = np.array([0.5, -1.0, 2.0, 0.0, 0.3])
    orders = np.array([means[list(order)] for order in permutations(range(5))])
    values = log_probabilities(orders, np.array([0, 5]), np.array([4]))
    assert np.exp(values).sum() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("scale", [30.0, 1e3, 1e5])
def test_far_out_of_order(scale):
    """Nothing is lost where the order is most improbable: numbers stay finite and in order, about
    the mode."""
    rng = np.random.default_rng(2)
    for _ in range(30):
        k = int(rng.integers(2, 8))
        n_top, means = int(rng.integers(1, k)), rng.normal(scale=scale, size=k)
        log = log_probability(means, n_top)
        assert np.isfinite(log)
        drawn = draw_in_order(stream_of(rng), means, np.array([0, k]), np.array([n_top]))
        assert (np.diff(drawn[:n_top]) <= 0.0).all()
        assert (drawn[n_top:] <= drawn[n_top - 1]).all()
        center = modes(means, n_top)
        assert (np.abs(drawn[:n_top] - center) < 8.0).all()
        below = np.minimum(means[n_top:], center[-1])
        height = (
            -0.5 * ((center - means[:n_top]) ** 2).sum()
            - 0.5 * ((below - means[n_top:]) ** 2).sum()
        )
        assert abs(log - height) < 15.0 * k * (
            1.0 + math.log(scale)
        )  # a mode's width is about 1 over the slope there


def test_modes_are_those_of_isotonic_regression():
    from scipy.optimize import isotonic_regression

    means = np.random.default_rng(3).normal(size=9)
    np.testing.assert_allclose(
        modes(means, 8)[:8], np.maximum.accumulate(modes(means, 8)[::-1])[::-1]
    )
    whole = isotonic_regression(means, increasing=False).x
    np.testing.assert_allclose(modes(np.append(means, -50.0), 9), whole)
    np.testing.assert_allclose(
        modes(means, 8), whole[:8]
    )  # the last of all may as well have no place


def test_lower_tail_of_the_normal_distribution():
    x = np.array([-1e5, -100.0, -30.1, -29.9, -5.0, 0.0, 4.0])
    np.testing.assert_allclose([log_normal_cdf(value) for value in x], norm.logcdf(x), rtol=1e-12)


MEANS, N_TOP = np.array([0.3, -0.5, 0.8, 0.1, -0.2]), 3


def statistics(u):
    return np.column_stack([u, u**2, u[:, :-1] * u[:, 1:], np.arctan(u)])


def worst_score(draw):
    """Largest z-score between draws and those of unordered numbers that happen to be in order."""
    rng, n = np.random.default_rng(6), 20_000
    drawn = draw(
        stream_of(rng), np.tile(MEANS, n), np.arange(0, 5 * n + 1, 5), np.full(n, N_TOP)
    ).reshape(n, 5)
    free = MEANS + rng.standard_normal((4_000_000, 5))
    kept = free[
        (free[:, 0] > free[:, 1])
        & (free[:, 1] > free[:, 2])
        & (free[:, 3:].max(axis=1) < free[:, 2])
    ]
    ours, theirs = statistics(drawn), statistics(kept)
    errors = np.sqrt(ours.var(axis=0) / n + theirs.var(axis=0) / len(kept))
    return np.abs((ours.mean(axis=0) - theirs.mean(axis=0)) / errors).max()


def test_draws_are_those_of_numbers_that_happen_to_be_in_order():
    assert worst_score(draw_in_order) < ACCEPT


def test_draws_that_forget_the_numbers_below_are_rejected():
    """A mutant: each number is drawn below the one before without regard to those after it."""

    def naive(rng, means, starts, n_top):
        result = np.empty_like(means)
        for first, last, m in zip(starts[:-1], starts[1:], n_top, strict=True):
            ceiling = math.inf
            for j in range(first, last):
                result[j] = ordered_normals.truncated_normal(rng, means[j], 1.0, -math.inf, ceiling)
                ceiling = result[j] if j < first + m else ceiling
        return result

    assert worst_score(naive) > REJECT


def test_densities_of_draws_are_those_of_the_joint():
    """Ratio test: ln of the joint density of all numbers minus the sum of the conditionals is the
    same for all draws."""
    rng, grid = np.random.default_rng(4), None
    differences = []
    for _ in range(5):
        u = draw_in_order(stream_of(rng), MEANS, np.array([0, 5]), np.array([N_TOP]))
        joint = norm.logpdf(u - MEANS).sum()
        conditional, ceiling = 0.0, 12.0
        # The density of u_i below the one before: φ(s − mean) P(those after it in order, below s).
        for i in range(N_TOP):
            grid = np.linspace(-12.0, ceiling, 6001)
            weights = norm.pdf(grid - MEANS[i]) * below(grid, i + 1)
            total = np.trapezoid(weights, grid)
            conditional += (
                norm.logpdf(u[i] - MEANS[i]) + np.log(below(u[i : i + 1], i + 1)[0]) - np.log(total)
            )
            ceiling = u[i]
        conditional += sum(
            norm.logpdf(u[j] - MEANS[j]) - norm.logcdf(u[2] - MEANS[j]) for j in (3, 4)
        )
        differences.append(joint - conditional)
    np.testing.assert_allclose(differences, log_probability(MEANS, N_TOP), atol=2e-4)


def below(points, i):
    """g_i of the recursion at points, by cumulative sums on a fine grid."""
    grid = np.linspace(-12.0, 12.5, 12_001)
    value = norm.cdf(grid[:, None] - MEANS[N_TOP:]).prod(axis=1)
    for j in range(N_TOP - 1, i - 1, -1):
        cells = norm.pdf(grid - MEANS[j]) * value
        value = np.concatenate([[0.0], np.cumsum(0.5 * (cells[1:] + cells[:-1]))]) * (
            grid[1] - grid[0]
        )
    return np.interp(points, grid, value)


def test_probability_of_being_first():
    means = np.array([[0.2, -1.0, 1.5, 0.0, 3.0, 2.9]])
    found = first_probabilities(means, np.array([0, 4, 6]))
    for j in range(4):
        order = [j, *(i for i in range(4) if i != j)]
        assert found[0, j] == pytest.approx(math.exp(log_probability(means[0, order], 1)), rel=1e-6)
    assert found[0, 4] == pytest.approx(norm.cdf(0.1 / math.sqrt(2.0)), rel=1e-9)
