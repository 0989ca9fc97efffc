"""The prior of the number of clusters: against enumeration, against draws, and what is said of
it."""

import math

import numpy as np
import pytest
from scipy import integrate
from scipy.special import gammaln

import dualview as dv
import naive
from dualview.errors import InputError
from dualview.partitions.alpha import PAPER, Gamma, Known
from dualview.partitions.choice import partition_prior
from dualview.posterior.partition import prior_clusters as module
from dualview.posterior.partition.prior_clusters import PriorClusters, number_of_clusters
from dualview.words.clusters import number_sentences

N = 6
KNOWN = {
    "process": partition_prior(None, Known(0.7)),
    "discount": partition_prior(None, Known(0.7), dv.PitmanYor(0.4)),
    "three": partition_prior(3, Known(0.7)),
    "one": partition_prior(1),
    "mixtures": partition_prior(None, Known(1.3), dv.FiniteMixtures()),
    "geometric": partition_prior(None, Known(0.2), dv.FiniteMixtures("geometric(0.2)")),
}
LEARNED = {
    "gamma": partition_prior(None, Gamma(0.25, 0.25)),
    "paper": partition_prior(None, PAPER),
    "discount": partition_prior(None, Gamma(1, 1), dv.PitmanYor(dv.Beta(2, 3))),
    "three": partition_prior(3, Gamma(2, 1)),
    "mixtures": partition_prior(None, Gamma(2, 1), dv.FiniteMixtures("poisson(2)")),
}


def rng():
    return np.random.default_rng(0)


def enumerated(prior, alpha):
    """p(number of clusters) by the probabilities of all partitions."""
    found = np.zeros(N)
    for labels in naive.partitions(N):
        counts = np.bincount(labels)
        if prior.n_components is None:
            log_chance = prior.log_density(counts, alpha)
        elif len(counts) > prior.n_components:
            continue
        else:
            ways = gammaln(prior.n_components + 1) - gammaln(prior.n_components - len(counts) + 1)
            filled = np.append(counts, np.zeros(prior.n_components - len(counts), dtype=np.int64))
            log_chance = prior.log_density(filled, alpha) + ways
        found[len(counts) - 1] += math.exp(log_chance)
    return found


@pytest.mark.parametrize("name", KNOWN)
def test_it_is_that_of_all_partitions(name):
    prior = KNOWN[name]
    found = number_of_clusters(prior, N, rng())
    assert found.n_draws is None
    np.testing.assert_allclose(found.probabilities, enumerated(prior, prior.start_alpha), atol=2e-8)


@pytest.mark.parametrize("name", ["gamma", "three"])
def test_concentrations_are_averaged(name):
    """By an integral over ln α of the density, which has the prior of α in it."""
    prior = LEARNED[name]

    def at(y, t):
        return enumerated(prior, math.exp(y))[t] * math.exp(y)

    found = number_of_clusters(prior, N, rng()).probabilities
    for t in (0, 2):
        expected = integrate.quad(at, -60.0, 6.0, args=(t,), limit=200, epsabs=1e-7)[0]
        assert found[t] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("n_users", [5, 60])
@pytest.mark.parametrize("prior", [*KNOWN.values(), *LEARNED.values()], ids=str)
def test_numbers_that_are_drawn_have_it(prior, n_users):
    exact = number_of_clusters(prior, n_users, rng()).probabilities
    drawn = module._simulated(prior, n_users, rng())
    assert drawn.n_draws == 20_000
    below, expected = np.cumsum(drawn.probabilities), np.cumsum(exact)
    error = np.sqrt(np.maximum(expected * (1.0 - expected), 1e-4) / 20_000)
    assert (np.abs(below - expected) < 4.5 * error + 1e-3).all()


def test_partitions_that_are_drawn_have_it():
    prior = LEARNED["mixtures"]
    generator, n = rng(), 4000
    numbers = [prior.draw(generator, 30, prior.draw_alpha(generator)).max() + 1 for _ in range(n)]
    exact = number_of_clusters(prior, 30, rng())
    spread = np.sqrt(exact.probabilities @ (np.arange(1, 31) - exact.mean) ** 2 / n)
    assert abs(np.mean(numbers) - exact.mean) < 4.5 * spread


def test_very_many_users_are_drawn():
    found = dv.prior_clusters(4000, alpha=2.0)
    assert found.n_draws == 20_000
    exact = (2.0 / (2.0 + np.arange(4000))).sum()
    assert found.mean == pytest.approx(exact, abs=4.5 * math.sqrt(exact / 20_000))
    assert "20,000 draws" in str(found)


def test_of_one_user_and_of_one_cluster():
    assert dv.prior_clusters(1).probabilities.tolist() == [1.0]
    assert dv.prior_clusters(9, 1).mean == pytest.approx(1.0)


def test_what_is_asked_of_it():
    own = PriorClusters(4, np.array([0.1, 0.2, 0.4, 0.3]))
    assert own.mean == pytest.approx(2.9)
    assert [own.quantile(level) for level in (0.05, 0.1, 0.5, 0.7, 0.9999)] == [1, 1, 3, 3, 4]
    assert own.interval(0.5) == (2, 4)
    np.testing.assert_allclose(own.table()["at_least"], [1.0, 0.9, 0.7, 0.3])
    with pytest.raises(InputError, match="probability"):
        own.interval(1.5)


def test_arguments_are_those_of_the_estimator():
    same = dv.prior_clusters(20, dv.PitmanYor("learned"), alpha=dv.Gamma(1, 1))
    again = dv.prior_clusters(20, "pitman-yor(learned)", alpha=dv.Gamma(1, 1))
    np.testing.assert_array_equal(same.probabilities, again.probabilities)
    assert dv.prior_clusters(20, 2, alpha=1e6).probabilities[1] == pytest.approx(
        1.0 - 2.0**-19, abs=1e-4
    )
    for wrong in ({"n_users": 0}, {"n_users": 3, "n_clusters": 0}, {"n_users": 2.5}):
        with pytest.raises(InputError, match="whole number"):
            dv.prior_clusters(**wrong)
    with pytest.raises(InputError, match="alpha must be"):
        dv.prior_clusters(9, alpha=-1)


def test_words():
    summary = {"prior_clusters": {"mean": 4.16, "middle": [1, 16], "n_draws": None}}
    assert number_sentences(summary, "roles") == [
        "Before any data the prior expects 4.2 roles on average, and 1 to 16 with probability 0.9."
    ]
    summary["prior_clusters"] |= {"middle": [3, 3], "n_draws": 5000}
    assert (
        "and 3 with probability 0.9 (5,000 draws from the prior)."
        in number_sentences(summary, "roles")[0]
    )
    assert number_sentences({}, "roles") == []
    summary = {"components": {"mean": 2.44, "middle": [2, 4]}}
    assert number_sentences(summary, "roles") == [
        "With those that have no users, 2.4 components on average, and 2 to 4 with posterior "
        "probability 0.9."
    ]
