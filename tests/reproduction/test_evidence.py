"""The evidence of a partition, against calculations that share nothing with it."""

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import multivariate_t

from dualview.units import Whitening
from reproduction.evidence import (
    KAPPA,
    SPREAD,
    best_partition,
    log_cluster,
    log_evidence,
    ratio,
)


def by_the_chain_rule(x):
    """One user after the other, each under the Student's t that the users before it leave."""
    d = x.shape[1]
    kappa, nu, mean, psi = KAPPA, d + 2.0, np.zeros(d), SPREAD * np.eye(d)
    total = 0.0
    for row in x:
        dof = nu - d + 1
        shape = psi * (kappa + 1) / (kappa * dof)
        total += multivariate_t(mean, shape, df=dof).logpdf(row)
        psi = psi + kappa / (kappa + 1) * np.outer(row - mean, row - mean)
        mean = (kappa * mean + row) / (kappa + 1)
        kappa, nu = kappa + 1, nu + 1
    return total


@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 1), (1, 3), (9, 3)])
def test_a_cluster_is_the_product_of_its_predictive_densities(n, d):
    x = np.random.default_rng(n + d).normal(size=(n, d))
    assert log_cluster(x) == pytest.approx(by_the_chain_rule(x), rel=1e-10)


def test_a_partition_is_its_clusters_and_its_restaurant_probability():
    x = np.random.default_rng(1).normal(size=(6, 2))
    labels = np.array([0, 0, 3, 3, 3, 1])
    parts = sum(by_the_chain_rule(x[labels == k]) for k in (0, 1, 3))
    assert log_evidence(x, labels) == pytest.approx(parts + gammaln(2) + gammaln(3) + gammaln(1))


def partitions(n):
    """All of them, as labels."""
    if n == 1:
        return [[0]]
    return [[*labels, k] for labels in partitions(n - 1) for k in range(max(labels) + 2)]


@pytest.mark.parametrize("seed", range(3))
def test_the_search_finds_the_best_of_all_partitions(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(7, 1)) * 0.1 + rng.choice([-1.5, 0, 1.5], size=(7, 1))
    best = max(log_evidence(x, np.array(labels)) for labels in partitions(7))
    assert log_evidence(x, best_partition(x)) == pytest.approx(best)


def two_groups():
    rng = np.random.default_rng(5)
    truth = np.repeat([0, 1], 10)
    return rng.normal(size=(20, 2)) * 0.1 + truth[:, None] * 3.0, truth


def test_the_ratio_is_zero_for_the_best_partition_and_below_for_others():
    x, truth = two_groups()
    assert ratio(x, truth) == pytest.approx(0.0)
    assert ratio(x, np.zeros(20, dtype=int)) < -0.2
    assert ratio(x, np.arange(20) % 2) < -0.2


def test_the_ratio_is_that_of_the_two_evidences_per_user():
    x, truth = two_groups()
    own = Whitening.of_data(x).to_working(x)
    other = np.arange(20) % 2
    assert ratio(x, other) == pytest.approx(
        (log_evidence(own, other) - log_evidence(own, truth)) / 20
    )


def test_names_of_clusters_and_units_of_the_view_do_not_matter():
    x, truth = two_groups()
    other = np.r_[truth[:-1], 0]
    assert ratio(x, other) == pytest.approx(ratio(1000 * x - 7, 5 - other))
    assert ratio(x[:, 0], other) == pytest.approx(ratio(x[:, :1], other))
