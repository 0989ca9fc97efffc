"""The concentration given a partition: chains on α leave (C9) and (C10) alone and come to them."""

import numpy as np
import pytest

from dualview.partitions import ChineseRestaurant, FiniteDirichlet
from naive import log_conditional_alpha
from yardsticks import N_DRAWS, check_law, distribution_function, quantiles

RANGE = (-15.0, 130.0)
COUNTS = [[1, 0], [5, 5, 5], [5, 0], [8, 1, 1], [60, 0, 0, 0], [40, 30, 1], [1, 1, 1, 1, 0, 0]]


CASES = [("finite", counts) for counts in COUNTS] + [("dp", counts) for counts in ([1], [4, 3], [30, 1, 1])]


def exact(kind, counts):
    """Distribution function of ln α given the counts, (C9) or (C10)."""
    z = np.repeat(np.arange(len(counts)), counts)
    return distribution_function(lambda y: log_conditional_alpha(y, z, (kind, len(counts))), *RANGE)


def chains(rng, kind, counts, starts, length):
    prior, counts = ChineseRestaurant() if kind == "dp" else FiniteDirichlet(len(counts)), np.array(counts)
    alphas = np.array(starts)
    for _ in range(length):
        alphas = np.array([prior.redraw_alpha(rng, counts, alpha) for alpha in alphas])
    return np.log(alphas)


@pytest.mark.parametrize(("kind", "counts"), CASES)
def test_steps_from_the_exact_law_stay_in_it(kind, counts):
    rng, cdf = np.random.default_rng(1), exact(kind, counts)
    starts = np.exp(quantiles(rng, cdf, *RANGE, N_DRAWS * 2 // 3))
    check_law(chains(rng, kind, counts, starts, 3), cdf)


@pytest.mark.parametrize(("kind", "counts"), CASES)
def test_chains_from_distant_points_come_to_the_exact_law(kind, counts):
    rng = np.random.default_rng(2)
    check_law(chains(rng, kind, counts, [0.01, 30.0] * (N_DRAWS // 20), 40), exact(kind, counts))
