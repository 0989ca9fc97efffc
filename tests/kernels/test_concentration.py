"""The concentration's density (C9) to the last digits, and the table counts behind (C10)."""

import math
from decimal import Decimal

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from dualview.kernels.concentration import draw_alpha, draw_table_counts, log_alpha_density
from yardsticks import EPSILON, N_DRAWS, check_counts, precise, python_of

CASES = [(1, 1), (1, 50), (7, 50), (50, 50), (3, 1000)]


@precise
def exact_density(log_alpha, n_clusters, n_users):
    """(C9) with its ratio of gamma functions as a product."""
    alpha, half = log_alpha.exp(), Decimal("0.5")
    others = range(int(n_users))
    value = (n_clusters - half) * log_alpha - half / alpha - sum((alpha + i).ln() for i in others)
    slope = n_clusters - half + half / alpha - sum(alpha / (alpha + i) for i in others)
    return value, slope


@pytest.mark.parametrize(("n_clusters", "n_users"), CASES)
@pytest.mark.parametrize("alpha", [1e-200, 1e-8, 0.03, 1.0, 40.0, 1e5])
def test_density_is_the_plain_formula_where_that_has_digits(n_clusters, n_users, alpha):
    y = math.log(alpha)
    alpha = math.exp(y)
    value, slope = log_alpha_density(y, np.array([n_clusters, n_users], dtype=float))
    plain = (n_clusters - 0.5) * y - 0.5 / alpha + gammaln(alpha) - gammaln(alpha + n_users)
    plain_slope = n_clusters - 0.5 + 0.5 / alpha + alpha * (digamma(alpha) - digamma(alpha + n_users))
    size = abs(gammaln(alpha)) + abs(gammaln(alpha + n_users)) + abs(value) + 1.0
    assert abs(value - plain) <= 32 * EPSILON * size
    assert abs(slope - plain_slope) <= 32 * EPSILON * (alpha * abs(digamma(alpha + n_users)) + n_users + 1.0 + 0.5 / alpha)


@pytest.mark.parametrize(("n_clusters", "n_users"), CASES)
@pytest.mark.parametrize("alpha", [0.2, 30.0, 1e6, 1e13, 1e30])
def test_density_has_all_digits_at_any_size(n_clusters, n_users, alpha):
    y = math.log(alpha)
    value, slope = log_alpha_density(y, np.array([n_clusters, n_users], dtype=float))
    exact, exact_slope = exact_density(y, n_clusters, n_users)
    assert abs(value - exact) <= 8 * EPSILON * (n_users * (abs(y) + 1.0) + 0.5 / alpha)
    assert abs(slope - exact_slope) <= 8 * EPSILON * (n_users + 0.5 / alpha)


@pytest.mark.parametrize(("n_clusters", "n_users"), [*CASES, (1, 10**6), (10**5, 10**6)])
def test_density_is_log_concave(n_clusters, n_users):
    slopes = [log_alpha_density(y, np.array([n_clusters, n_users], dtype=float))[1] for y in np.linspace(-12, 12, 500)]
    assert (np.diff(slopes) < 0).all()


@pytest.mark.parametrize("y", [-701.0, 701.0])
def test_density_is_zero_beyond_the_range_of_numbers_and_leads_back(y):
    value, slope = log_alpha_density(y, np.array([3.0, 10.0]))
    assert value == -math.inf
    assert slope * y < 0


def stirling_numbers(n):
    """Unsigned Stirling numbers of the first kind: permutations of n things by their number of cycles."""
    numbers = [1]
    for m in range(n):
        numbers = [m * a + b for a, b in zip([*numbers, 0], [0, *numbers], strict=True)]
    return numbers


def table_law(counts, concentration):
    """Probabilities of each total number of tables."""
    law = np.ones(1)
    for n in counts:
        log_weights = np.log(np.maximum(np.array(stirling_numbers(n), dtype=float), 1e-300)) + np.arange(n + 1) * np.log(
            concentration
        )
        one = np.exp(log_weights + gammaln(concentration) - gammaln(concentration + n))
        law = np.convolve(law, one)
    return law


@pytest.mark.parametrize("counts", [[1], [2, 0], [12], [5, 3, 0, 1], [40, 2]])
@pytest.mark.parametrize("concentration", [0.02, 0.9, 25.0])
def test_table_counts_follow_stirling_numbers(counts, concentration):
    rng = np.random.default_rng(1)
    law = table_law(counts, concentration)
    assert law.sum() == pytest.approx(1.0)
    draws = [draw_table_counts(rng, np.array(counts), concentration) for _ in range(N_DRAWS)]
    assert min(draws) >= np.count_nonzero(counts)
    check_counts(np.bincount(draws, minlength=len(law)), law)


def test_compiled_numbers_are_those_of_python():
    for seed in range(20):
        for kernel, *arguments in [(draw_table_counts, np.array([30, 0, 4]), 0.7), (draw_alpha, 3, 34, 2.0)]:
            compiled, plain = (f(np.random.default_rng(seed), *arguments) for f in (kernel, python_of(kernel)))
            assert compiled == plain
