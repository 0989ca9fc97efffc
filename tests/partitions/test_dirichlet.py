"""The concentration given a partition: chains on α leave (C9) and (C10) alone and come to them."""

import numpy as np
import pytest
from scipy.stats import gamma

from dualview.partitions import verbs
from dualview.partitions.alpha import PAPER, Gamma
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet
from naive import PAPER_ALPHA, log_conditional_alpha
from yardsticks import N_DRAWS, check_law, distribution_function, quantiles

RANGE = (-15.0, 130.0)
COUNTS = [[1, 0], [5, 5, 5], [5, 0], [8, 1, 1], [60, 0, 0, 0], [40, 30, 1], [1, 1, 1, 1, 0, 0]]


PRIORS = {"paper": (PAPER, PAPER_ALPHA), "gamma": (Gamma(2.0, 0.5), gamma(2.0, scale=2.0))}
CASES = [("finite", counts, "paper") for counts in COUNTS] + [
    ("dp", counts, "paper") for counts in ([1], [4, 3], [30, 1, 1])
]
CASES += [
    ("finite", [8, 1, 1], "gamma"),
    ("finite", [60, 0, 0, 0], "gamma"),
    ("dp", [30, 1, 1], "gamma"),
]


def exact(kind, counts, prior):
    """Distribution function of ln α given the counts, (C9) or (C10)."""
    z, density = np.repeat(np.arange(len(counts)), counts), PRIORS[prior][1]
    return distribution_function(
        lambda y: log_conditional_alpha(y, z, (kind, len(counts)), density), *RANGE
    )


def chains(rng, kind, counts, prior, starts, length):
    alpha, counts = PRIORS[prior][0], np.array(counts)
    prior = ChineseRestaurant(alpha) if kind == "dp" else FiniteDirichlet(len(counts), alpha)
    records = [prior.record(start) for start in starts]
    for _ in range(length):
        records = [verbs.redraw(rng, counts, record) for record in records]
    if kind == "finite":
        assert all(record.spread == record.alpha / len(counts) for record in records)
    return np.log([verbs.concentration(record) for record in records])


@pytest.mark.parametrize(("kind", "counts", "prior"), CASES)
def test_steps_from_the_exact_law_stay_in_it(kind, counts, prior):
    rng, cdf = np.random.default_rng(1), exact(kind, counts, prior)
    starts = np.exp(quantiles(rng, cdf, *RANGE, N_DRAWS * 2 // 3))
    check_law(chains(rng, kind, counts, prior, starts, 3), cdf)


@pytest.mark.parametrize(("kind", "counts", "prior"), CASES)
def test_chains_from_distant_points_come_to_the_exact_law(kind, counts, prior):
    rng = np.random.default_rng(2)
    check_law(
        chains(rng, kind, counts, prior, [0.01, 30.0] * (N_DRAWS // 20), 40),
        exact(kind, counts, prior),
    )
