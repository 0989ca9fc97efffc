"""The concentration given a partition: the chain on α leaves (C10) alone and comes to it; (C9) is drawn at once."""

import numpy as np
import pytest

from dualview.partitions import ChineseRestaurant, FiniteDirichlet
from naive import log_conditional_alpha
from yardsticks import N_DRAWS, check_law, distribution_function, quantiles

RANGE = (-15.0, 130.0)
COUNTS = [[1, 0], [5, 5, 5], [5, 0], [8, 1, 1], [60, 0, 0, 0], [40, 30, 1], [1, 1, 1, 1, 0, 0]]


def exact(counts):
    """Distribution function of ln α given the counts, (C10)."""
    z = np.repeat(np.arange(len(counts)), counts)
    return distribution_function(lambda y: log_conditional_alpha(y, z, ("finite", len(counts))), *RANGE)


def chains(rng, counts, starts, length):
    prior, counts = FiniteDirichlet(len(counts)), np.array(counts)
    alphas = np.array(starts)
    for _ in range(length):
        alphas = np.array([prior.redraw_alpha(rng, counts, alpha) for alpha in alphas])
    return np.log(alphas)


@pytest.mark.parametrize("counts", COUNTS)
def test_steps_from_the_exact_law_stay_in_it(counts):
    rng, cdf = np.random.default_rng(1), exact(counts)
    starts = np.exp(quantiles(rng, cdf, *RANGE, N_DRAWS * 2 // 3))
    check_law(chains(rng, counts, starts, 3), cdf)


@pytest.mark.parametrize("counts", COUNTS)
def test_chains_from_distant_points_come_to_the_exact_law(counts):
    rng = np.random.default_rng(2)
    check_law(chains(rng, counts, [0.01, 30.0] * (N_DRAWS // 20), 30), exact(counts))


@pytest.mark.parametrize("counts", [[1], [4, 3], [30, 1, 1]])
def test_the_dirichlet_process_draws_at_once(counts):
    z = np.repeat(np.arange(len(counts)), counts)
    cdf = distribution_function(lambda y: log_conditional_alpha(y, z, ("dp", None)), *RANGE)
    rng, prior = np.random.default_rng(3), ChineseRestaurant()
    draws = [prior.redraw_alpha(rng, np.array(counts), 1e-3) for _ in range(N_DRAWS)]
    check_law(np.log(draws), cdf)
