"""The concentration's density (C9) to the last digits, steps that keep it, and the table counts
behind (C10)."""

import math
from decimal import Decimal

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import gamma, invgamma

from dualview.partitions.alpha import PAPER, Gamma, InverseGamma, Known
from dualview.partitions.concentration import (
    draw_alpha,
    draw_table_counts,
    log_alpha_density,
    log_alpha_prior,
    log_finite,
    log_process,
)
from naive import log_conditional_alpha, log_partition
from yardsticks import (
    COMPILED,
    EPSILON,
    N_DRAWS,
    check_counts,
    check_law,
    distribution_function,
    precise,
    python_of,
    quantiles,
)

CASES = [(1, 1), (1, 50), (7, 50), (50, 50), (3, 1000)]
RANGE = (-15.0, 130.0)
PRIORS = {
    "paper": (PAPER, invgamma(0.5, scale=0.5)),
    "gamma": (Gamma(1.0, 1.0), gamma(1.0)),
    "tight gamma": (Gamma(40.0, 8.0), gamma(40.0, scale=1 / 8)),
    "flat gamma": (Gamma(0.3, 1e-3), gamma(0.3, scale=1e3)),
    "inverse gamma": (InverseGamma(3.0, 0.2), invgamma(3.0, scale=0.2)),
}
each_prior = pytest.mark.parametrize("prior", list(PRIORS))


@precise
def exact_density(log_alpha, n_clusters, n_users, power, rate, inverse_rate):
    """(C9) with its ratio of gamma functions as a product."""
    alpha = log_alpha.exp()
    prior = power * log_alpha - rate * alpha - inverse_rate / alpha
    return n_clusters * log_alpha + prior - sum((alpha + i).ln() for i in range(int(n_users)))


@each_prior
def test_the_prior_of_alpha_is_that_of_scipy(prior):
    ours, twin = PRIORS[prior]
    for alpha in (1e-6, 0.2, 1.0, 7.0, 300.0):
        assert log_alpha_prior(alpha, ours.record) == pytest.approx(twin.logpdf(alpha), rel=1e-12)
    check_law([ours.draw(np.random.default_rng(seed)) for seed in range(N_DRAWS)], twin.cdf)


@each_prior
@pytest.mark.parametrize("counts", [[1], [5, 3, 1], [1] * 20])
def test_the_conditional_of_log_alpha_is_the_joint_up_to_a_constant(prior, counts):
    """The ratio test of (C9): the joint is p(partition | α) p(α), and ln α has the Jacobian α."""
    ours, twin = PRIORS[prior]
    parameters, z = (
        (float(len(counts)), float(sum(counts)), ours.record),
        np.repeat(np.arange(len(counts)), counts),
    )
    grid = np.log([1e-3, 0.05, 0.4, 1.0, 3.0, 30.0, 1e3])
    joint = [
        log_partition(z, math.exp(y), ("dp", None)) + twin.logpdf(math.exp(y)) + y for y in grid
    ]
    ratios = np.array([log_alpha_density(y, parameters) for y in grid]) - joint
    assert np.ptp(ratios) < 1e-9 * (1.0 + np.abs(joint).max())


@each_prior
@pytest.mark.parametrize(("n_clusters", "n_users"), CASES)
def test_the_conditional_of_log_alpha_is_log_concave(prior, n_clusters, n_users):
    parameters = (float(n_clusters), float(n_users), PRIORS[prior][0].record)
    values = np.array([log_alpha_density(y, parameters) for y in np.linspace(-12.0, 12.0, 200)])
    bends = values[2:] - 2.0 * values[1:-1] + values[:-2]
    assert (bends <= 1e-9 * (1.0 + np.abs(values).max())).all()


def test_an_alpha_that_is_known_stays():
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    assert draw_alpha(rng, 3, 34, 2.5, Known(2.5).record) == 2.5
    assert rng.bit_generator.state == before
    assert log_alpha_prior(2.5, Known(2.5).record) == 0.0


@pytest.mark.parametrize(("n_clusters", "n_users"), CASES)
@pytest.mark.parametrize("alpha", [1e-200, 1e-8, 0.03, 1.0, 40.0, 1e5])
def test_density_is_the_plain_formula_where_that_has_digits(n_clusters, n_users, alpha):
    y = math.log(alpha)
    alpha = math.exp(y)
    value = log_alpha_density(y, (float(n_clusters), float(n_users), PAPER.record))
    plain = (n_clusters - 0.5) * y - 0.5 / alpha + gammaln(alpha) - gammaln(alpha + n_users)
    size = abs(gammaln(alpha)) + abs(gammaln(alpha + n_users)) + abs(value) + 1.0
    assert abs(value - plain) <= 32 * EPSILON * size


@pytest.mark.parametrize(("n_clusters", "n_users"), CASES)
@pytest.mark.parametrize("alpha", [0.2, 30.0, 1e6, 1e13, 1e30])
@pytest.mark.parametrize("prior", [PAPER, Gamma(2.0, 1e-20)])
def test_density_has_all_digits_at_any_size(n_clusters, n_users, alpha, prior):
    y, record = math.log(alpha), prior.record
    value = log_alpha_density(y, (float(n_clusters), float(n_users), record))
    exact = exact_density(y, n_clusters, n_users, record.power, record.rate, record.inverse_rate)
    size = (
        (n_users + abs(record.power)) * (abs(y) + 1.0)
        + record.inverse_rate / alpha
        + record.rate * alpha * (1.0 + abs(y))
    )
    assert abs(value - exact) <= 8 * EPSILON * size


@pytest.mark.parametrize("y", [-701.0, 701.0, -math.inf, math.inf])
def test_density_is_zero_beyond_the_range_of_numbers(y):
    assert log_alpha_density(y, (3.0, 10.0, PAPER.record)) == -math.inf


@pytest.mark.parametrize("y", [-699.0, 699.0])
def test_density_is_finite_up_to_there(y):
    assert math.isfinite(log_alpha_density(y, (3.0, 10.0, PAPER.record)))


def alpha_distribution(n_clusters, n_users, prior="paper"):
    """Distribution function of ln α, (C9)."""
    z = np.minimum(np.arange(n_users), n_clusters - 1)
    return distribution_function(
        lambda grid: log_conditional_alpha(grid, z, ("dp", None), PRIORS[prior][1]), *RANGE
    )


ALPHA_CASES = [
    (1, 1),
    (1, 2),
    (1, 300),
    (3, 3),
    (3, 50),
    (30, 30),
    (30, 31),
    (30, 1000),
    (300, 300),
    (300, 1000),
]
OTHER_CASES = [
    (prior, *case) for prior in PRIORS if prior != "paper" for case in [(1, 300), (3, 50), (30, 31)]
]
PRIOR_CASES = pytest.mark.parametrize(
    ("prior", "n_clusters", "n_users"), [("paper", *c) for c in ALPHA_CASES] + OTHER_CASES
)


@PRIOR_CASES
def test_steps_of_alpha_from_its_law_stay_in_it(prior, n_clusters, n_users):
    """(C9)"""
    rng, cdf = np.random.default_rng(11), alpha_distribution(n_clusters, n_users, prior)
    starts = np.exp(quantiles(rng, cdf, *RANGE, N_DRAWS))
    draws = [
        draw_alpha(rng, n_clusters, n_users, start, PRIORS[prior][0].record) for start in starts
    ]
    assert np.mean(draws == starts) == 0.0
    check_law(np.log(draws), cdf)


def some_slow():
    """A few users and many of the paper's prior, and one case of each of the others; the rest with
    the slow tests."""
    quick = {("paper", 1, 1), ("paper", 30, 1000), *((prior, 3, 50) for prior in PRIORS)}
    cases = [("paper", *c) for c in ALPHA_CASES] + OTHER_CASES
    return [
        case if case in quick else pytest.param(*case, marks=pytest.mark.slow) for case in cases
    ]


@pytest.mark.parametrize(("prior", "n_clusters", "n_users"), some_slow())
def test_alpha_comes_to_its_law_from_any_start(prior, n_clusters, n_users):
    """(C9)"""
    rng, cdf = np.random.default_rng(12), alpha_distribution(n_clusters, n_users, prior)
    far = (
        [1e-200, 1e200] if COMPILED else []
    )  # plain Python raises errors where compiled code goes on with infinities
    alphas = [start for start in (1e-9, 0.7, 1e9, *far) for _ in range(N_DRAWS // 25)]
    for _ in range(25):
        alphas = [
            draw_alpha(rng, n_clusters, n_users, alpha, PRIORS[prior][0].record) for alpha in alphas
        ]
    check_law(np.log(alphas), cdf)


def stirling_numbers(n):
    """Unsigned Stirling numbers of the first kind: permutations of n things by their number of
    cycles."""
    numbers = [1]
    for m in range(n):
        numbers = [m * a + b for a, b in zip([*numbers, 0], [0, *numbers], strict=True)]
    return numbers


def table_law(counts, concentration):
    """Probabilities of each total number of tables."""
    law = np.ones(1)
    for n in counts:
        log_weights = np.log(
            np.maximum(np.array(stirling_numbers(n), dtype=float), 1e-300)
        ) + np.arange(n + 1) * np.log(concentration)
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


@pytest.mark.parametrize("counts", [[1], [5, 3, 1], [40, 2], [1, 1, 1, 1]])
@pytest.mark.parametrize("alpha", [1e-5, 0.3, 4.0, 500.0])
def test_densities_of_partitions_are_the_naive_ones(counts, alpha):
    z = np.repeat(np.arange(len(counts)), counts)
    assert log_process(np.array(counts), alpha) == pytest.approx(
        log_partition(z, alpha, ("dp", None)), rel=1e-12, abs=1e-12
    )
    for n_empty in (0, 2):
        everyone = np.append(counts, np.zeros(n_empty, dtype=int))
        expected = log_partition(z, alpha, ("finite", len(everyone)))
        assert log_finite(everyone, alpha) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@precise
def exact_partition(alpha, n_components, *counts):
    """ln p(z | α) with ratios of gamma functions as products; of the Dirichlet process for
    n_components = 0."""
    total = -sum((alpha + i).ln() for i in range(int(sum(counts))))
    for n in counts:
        if n_components:
            total += sum((alpha / n_components + i).ln() for i in range(int(n)))
        else:
            total += alpha.ln() + sum(Decimal(i).ln() for i in range(1, int(n)))
    return total


@pytest.mark.parametrize("counts", [[1], [5, 3, 1], [300, 20]])
@pytest.mark.parametrize("alpha", [1e-30, 1e-3, 1.0, 9e3, 1.1e4, 1e8, 1e16, 1e30])
def test_densities_of_partitions_have_their_digits_at_any_size(counts, alpha):
    """However large their parts are, which is about U ln α."""
    size = sum(counts) * (abs(math.log(alpha)) + 10.0)
    if alpha < 1e4 * len(counts):  # plain differences of lnΓ
        size += (alpha + sum(counts)) * math.log(alpha + sum(counts) + 10.0)
    for value, n_components in [
        (log_process(np.array(counts), alpha), 0),
        (log_finite(np.array(counts), alpha), len(counts)),
    ]:
        assert abs(value - exact_partition(alpha, n_components, *counts)) <= 8 * EPSILON * size


def test_compiled_numbers_are_those_of_python():
    for seed in range(20):
        tables = (np.random.default_rng(seed), np.array([30, 0, 4]), 0.7)
        compiled = draw_table_counts(*tables)
        assert compiled == python_of(draw_table_counts)(np.random.default_rng(seed), *tables[1:])
        for prior, _ in PRIORS.values():
            draw = (3, 34, 2.0, prior.record)
            compiled, plain = (
                f(np.random.default_rng(seed), *draw) for f in (draw_alpha, python_of(draw_alpha))
            )
            assert compiled == plain
    for y in np.linspace(2.4, 600.0, 50):  # above α = 10 no library is asked for lnΓ
        parameters = (3.0, 34.0, Gamma(2.0, 4.0).record)
        assert log_alpha_density(y, parameters) == python_of(log_alpha_density)(
            float(y), parameters
        )
        alpha = math.exp(y)
        assert log_alpha_prior(alpha, PAPER.record) == python_of(log_alpha_prior)(
            alpha, PAPER.record
        )
