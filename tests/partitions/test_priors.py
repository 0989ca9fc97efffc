"""Priors over partitions: weights, densities and draws."""

import math
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import gamma, invgamma

import naive
from dualview.partitions import verbs
from dualview.partitions.alpha import PAPER, Gamma, InverseGamma, Known
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, OneCluster
from yardsticks import check_counts, check_law, precise

N_USERS = 4


def canonical(z):
    """Labels numbered by first appearance."""
    names = {}
    return tuple(names.setdefault(int(k), len(names)) for k in z)


EVERY_PRIOR = {
    "process": (ChineseRestaurant(), lambda alpha: (0.0, alpha)),
    "finite": (FiniteDirichlet(3), lambda alpha: (alpha / 3, 0.0)),
    "one": (OneCluster(), lambda _: (1.0, 0.0)),
}


@pytest.mark.parametrize("name", list(EVERY_PRIOR))
def test_weights(name):
    """What a component weighs beyond its users, and a new cluster: of one α, of several, and as
    compiled code has it."""
    prior, expected = EVERY_PRIOR[name]
    alphas = np.array([0.6, 1.0, 40.0])
    found = prior.offset(alphas), prior.new_weight(alphas, np.array([1, 5, 2]), 8)
    for alpha, offset, new in zip(alphas, *found, strict=True):
        record = prior.record(alpha)
        assert (
            (offset, new)
            == (prior.offset(alpha), prior.new_weight(alpha, 2, 8))
            == pytest.approx(expected(alpha))
        )
        assert [verbs.weight(n, record) for n in (5, 1, 0)] == pytest.approx(
            [5 + offset, 1 + offset, offset]
        )
        assert verbs.opens(record) == (new > 0)
        assert not verbs.opens(record) or verbs.new_weight(3, 8, record) == new
        assert verbs.concentration(record) == alpha


@pytest.mark.parametrize("name", list(EVERY_PRIOR))
def test_a_record_redrawn_is_that_of_its_new_concentration(name):
    prior, counts = EVERY_PRIOR[name][0], np.array([4, 2, 1])
    record = verbs.redraw(np.random.default_rng(1), counts, prior.record(0.6))
    assert record == prior.record(record.alpha)
    assert (record.alpha != 0.6) == prior.has_alpha


@pytest.mark.parametrize(("counts", "n"), [([4, 1, 2], 3), ([1], 1), ([2, 2], 6)])
def test_a_clusters_part_of_the_density(counts, n):
    """What a cluster more, of n users, adds to ln p(partition | α) but for the users'
    denominator."""
    alpha, counts = 0.7, np.array(counts)
    record = ChineseRestaurant(Known(alpha)).record(alpha)
    added = verbs.log_cluster(n, record) + verbs.log_another(len(counts), counts.sum() + n, record)
    n_users = counts.sum()
    denominator = sum(math.log(alpha + i) for i in range(n_users, n_users + n))
    change = verbs.log_density(np.append(counts, n), record) - verbs.log_density(counts, record)
    assert added - denominator == pytest.approx(change)


def test_components_and_concentration():
    assert [
        prior.n_components for prior in (ChineseRestaurant(), FiniteDirichlet(3), OneCluster())
    ] == [None, 3, 1]
    assert [
        prior.has_alpha for prior in (ChineseRestaurant(), FiniteDirichlet(3), OneCluster())
    ] == [True, True, False]


ALPHAS = {
    "paper": (PAPER, invgamma(0.5, scale=0.5)),
    "gamma": (Gamma(2, 4), gamma(2.0, scale=0.25)),
    "inverse gamma": (InverseGamma(1.5, 3), invgamma(1.5, scale=3.0)),
}


@pytest.mark.parametrize("alpha_prior", list(ALPHAS))
@pytest.mark.parametrize("partition", [("dp", None), ("finite", 3)])
def test_density_is_the_naive_one(partition, alpha_prior):
    rng = np.random.default_rng(1)
    concentration, density = ALPHAS[alpha_prior]
    prior = FiniteDirichlet(3, concentration) if partition[1] else ChineseRestaurant(concentration)
    for _ in range(20):
        alpha = math.exp(3 * rng.standard_normal())
        z = naive.draw_labels(rng, 9, 1.5, partition)
        counts = np.bincount(z, minlength=partition[1] or 0)
        expected = naive.log_partition(z, alpha, partition) + density.logpdf(alpha)
        assert prior.log_density(counts, alpha) == pytest.approx(expected, abs=1e-10)


@precise
def exact_finite_density(alpha, *counts):
    """ln p(z | α) by the product of each user's weight."""
    share, total, n_users = alpha / len(counts), Decimal(0), 0
    for count in counts:
        for i in range(int(count)):
            total += (share + i).ln() - (alpha + n_users).ln()
            n_users += 1
    return total


@pytest.mark.parametrize("alpha", [1e-3, 3.0, 1e7, 1e13, 1e20])
def test_density_keeps_its_digits_at_any_concentration(alpha):
    counts = np.array([7, 0, 3, 1])
    prior = invgamma.logpdf(alpha, 0.5, scale=0.5)
    expected = exact_finite_density(alpha, *counts.tolist())
    assert FiniteDirichlet(4).log_density(counts, alpha) - prior == pytest.approx(
        expected, rel=1e-9, abs=1e-8
    )
    alone = np.ones(5, dtype=np.int64)
    expected = -sum(math.log1p(i / alpha) for i in range(5))
    assert ChineseRestaurant().log_density(alone, alpha) - prior == pytest.approx(
        expected, rel=1e-9, abs=1e-8
    )


@pytest.mark.parametrize("alpha", [0.3, 2.0])
def test_the_chinese_restaurant_draws_partitions_by_their_density(alpha):
    rng = np.random.default_rng(2)
    draws = Counter(
        tuple(ChineseRestaurant().draw(rng, N_USERS, alpha).tolist()) for _ in range(6000)
    )
    cases = list(naive.partitions(N_USERS))
    probabilities = np.exp([naive.log_partition(np.array(z), alpha, ("dp", None)) for z in cases])
    assert probabilities.sum() == pytest.approx(1.0)
    assert set(draws) <= set(cases)
    check_counts(np.array([draws[z] for z in cases]), probabilities)


@pytest.mark.parametrize("alpha", [0.3, 2.0])
def test_the_finite_dirichlet_draws_labels_by_their_density(alpha):
    rng = np.random.default_rng(3)
    draws = Counter(tuple(FiniteDirichlet(3).draw(rng, 3, alpha).tolist()) for _ in range(6000))
    cases = list(np.ndindex(3, 3, 3))
    probabilities = np.exp([naive.log_partition(np.array(z), alpha, ("finite", 3)) for z in cases])
    assert probabilities.sum() == pytest.approx(1.0)
    check_counts(np.array([draws[z] for z in cases]), probabilities)


def test_many_clusters_are_the_chinese_restaurant():
    """The finite prior tends to the Dirichlet process."""
    rng, alpha = np.random.default_rng(4), 1.2
    draws = Counter(canonical(FiniteDirichlet(300).draw(rng, N_USERS, alpha)) for _ in range(3000))
    cases = list(naive.partitions(N_USERS))
    probabilities = np.exp([naive.log_partition(np.array(z), alpha, ("dp", None)) for z in cases])
    check_counts(np.array([draws[z] for z in cases]), probabilities)


@pytest.mark.parametrize("alpha_prior", list(ALPHAS))
@pytest.mark.parametrize(
    "prior", [ChineseRestaurant, lambda concentration: FiniteDirichlet(4, concentration)]
)
def test_the_concentrations_prior(prior, alpha_prior):
    rng = np.random.default_rng(5)
    concentration, density = ALPHAS[alpha_prior]
    check_law([prior(concentration).draw_alpha(rng) for _ in range(3000)], density.cdf)


@pytest.mark.parametrize("prior", [ChineseRestaurant(Known(2.5)), FiniteDirichlet(4, Known(2.5))])
def test_a_concentration_that_is_known(prior):
    rng, counts = np.random.default_rng(5), np.array([3, 2, 1, 1])
    redrawn = verbs.redraw(rng, counts, prior.record(2.5))
    assert prior.start_alpha == prior.draw_alpha(rng) == verbs.concentration(redrawn) == 2.5
    expected = naive.log_partition(
        np.repeat(np.arange(4), counts), 2.5, ("finite", 4) if prior.n_components else ("dp", None)
    )
    assert prior.log_density(counts, 2.5) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("prior", "alpha"),
    [(ChineseRestaurant(), 1e25), (FiniteDirichlet(5), 1e25), (FiniteDirichlet(5), 1e-30)],
)
def test_draws_at_extreme_concentrations(prior, alpha):
    z = prior.draw(np.random.default_rng(6), 30, alpha)
    expected = {(None, 1e25): 30, (5, 1e25): 5, (5, 1e-30): 1}[prior.n_components, alpha]
    assert len(np.unique(z)) == expected


def test_one_cluster_has_nothing_to_learn():
    prior, rng = OneCluster(), np.random.default_rng(7)
    np.testing.assert_array_equal(prior.draw(rng, 5, 1.0), np.zeros(5))
    assert prior.draw_alpha(rng) == 1.0
    assert verbs.concentration(verbs.redraw(rng, np.array([5]), prior.record(1.0))) == 1.0
    assert rng.random() == np.random.default_rng(7).random(6)[-1]
    assert prior.log_density(np.array([5]), 1.0) == 0.0
