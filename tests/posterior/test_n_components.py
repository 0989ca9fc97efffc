"""The posterior of the number of components: against sums over all of them, against draws from the
prior, and of fits."""

import math

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import dualview as dv
from dualview.errors import InputError
from dualview.partitions.alpha import Known
from dualview.partitions.finite_mixtures import FiniteMixtures, log_sum
from dualview.posterior.partition.n_components import number_of_components

PRIORS = ["beta-negative-binomial(1, 4, 3)", "poisson(2)", "geometric(0.1)"]
NUMBERS = np.arange(1, 30_001)


def found(components, n_users, t, gamma):
    """Probabilities given one number of clusters or several."""
    t, gamma = np.atleast_1d(t), np.broadcast_to(np.asarray(gamma, dtype=float), np.size(t))
    return number_of_components(FiniteMixtures(components), n_users, t, gamma).probabilities


def log_terms(components, n_users, t, gamma):
    """ln p(K) p(t clusters of these sizes | K), but for what all K share."""
    log_prior, k = FiniteMixtures(components).log_components(NUMBERS), NUMBERS.astype(float)
    with np.errstate(invalid="ignore"):
        ways = np.where(k >= t, gammaln(k + 1.0) - gammaln(np.maximum(k - t, 0.0) + 1.0), -np.inf)
    return log_prior + ways + gammaln(gamma * k) - gammaln(gamma * k + n_users)


@pytest.mark.parametrize("components", PRIORS)
@pytest.mark.parametrize(
    ("n_users", "t", "gamma"), [(1, 1, 1.0), (6, 6, 0.3), (100, 4, 1.0), (50, 40, 2.5)]
)
def test_it_is_that_of_a_sum_over_all_numbers(components, n_users, t, gamma):
    terms = log_terms(components, n_users, t, gamma)
    own = found(components, n_users, t, gamma)
    expected = np.exp(terms - logsumexp(terms))
    np.testing.assert_allclose(own, expected[: len(own)], atol=1e-8)
    assert expected[len(own) :].sum() < 1e-8
    log_v = log_sum(t, n_users, gamma, FiniteMixtures(components).numbers) - math.lgamma(n_users)
    np.testing.assert_allclose(own, np.exp(terms - log_v)[: len(own)], atol=1e-8)


def test_draws_are_averaged():
    t, gamma = np.array([2, 3, 3, 5]), np.array([1.0, 0.5, 0.5, 2.0])
    own = found(PRIORS[0], 40, t, gamma)
    each = [found(PRIORS[0], 40, one, other) for one, other in zip(t, gamma, strict=True)]
    expected = np.zeros(max(map(len, each)))
    for one in each:
        expected[: len(one)] += one / 4.0
    n = min(len(own), len(expected))
    np.testing.assert_allclose(own[:n], expected[:n], atol=1e-8)


def test_components_that_partitions_are_drawn_with_have_it():
    """K, then weights, then labels; of those with two clusters."""
    rng, prior = np.random.default_rng(0), FiniteMixtures("poisson(2)", Known(0.8))
    k = rng.poisson(2.0, 20_000) + 1
    t = np.array([len(set(rng.choice(n, 5, p=rng.dirichlet(np.full(n, 0.8))))) for n in k])
    own = number_of_components(prior, 5, np.array([2]), np.array([0.8])).probabilities
    drawn = k[t == 2]
    for number in range(2, 7):
        p = own[number - 1]
        error = np.sqrt(p * (1.0 - p) / len(drawn))
        assert abs(np.mean(drawn == number) - p) < 4.5 * error


def test_a_mutant_without_the_ways_to_choose_components_is_seen():
    terms = log_terms(PRIORS[0], 100, 4, 1.0) - gammaln(NUMBERS + 1.0)
    wrong = np.exp(terms - logsumexp(terms))
    assert np.abs(wrong[:20] - found(PRIORS[0], 100, 4, 1.0)[:20]).max() > 0.01


@pytest.mark.parametrize("keep", ["draws", "summary"])
def test_of_a_fit(keep):
    X = np.random.default_rng(0).normal(size=(30, 1)) + np.repeat([[-4.0], [4.0]], 15, axis=0)
    short = {"engine": dv.Gibbs(n_warmup=50), "n_draws": 60, "n_chains": 1, "keep": keep}
    model = dv.DualViewMixture(dv.FiniteMixtures(), **short).fit(X)
    own, post = model.posterior_.n_components(), model.posterior_
    assert "n_components" in dir(post)
    counts = post["n_clusters"] if post.summary is None else post.summary["n_clusters"].values
    each = [found(PRIORS[0], 30, int(t), 1.0) for t in counts.ravel()]
    assert own.mean == pytest.approx(
        np.mean([one @ np.arange(1, len(one) + 1) for one in each]), abs=1e-6
    )
    assert str(own).endswith("with probability 0.9")
    assert own.table().index.name == "components"


def test_other_priors_have_none():
    X = np.random.default_rng(0).normal(size=(20, 1))
    short = {"engine": dv.Gibbs(n_warmup=20), "n_draws": 20, "n_chains": 1}
    with pytest.raises(InputError, match=r"n_clusters=dv.FiniteMixtures\(\) and without agreement"):
        dv.DualViewMixture(**short).fit(X).posterior_.n_components()
