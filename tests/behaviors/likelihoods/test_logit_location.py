"""The move of location for yes-or-no observations: its density against the joint, its steps against
plain NumPy."""

import math

import numpy as np
import pytest
from scipy.special import expit, log_expit
from scipy.stats import multivariate_normal

from dualview.behaviors.likelihoods import logit_location
from dualview.behaviors.likelihoods.logit_location import Answers, Locations
from dualview.numerics.slice_sampling import sampler
from yardsticks import (
    COMPILED,
    N_DRAWS,
    check_constant,
    check_law,
    distribution_function,
    positive_definite,
    python_of,
)

DIMS = [1, 2, 3]
N_USERS = 7
Z = np.array(
    [0, 1, 0, 1, 1, 3, 0]
)  # nobody is in cluster 2, and the one in cluster 3 has no observations
USER = np.array([0, 0, 1, 2, 3, 3, 4, 6, 6, 6])


class Case:
    """Clusters and observations whose latent vectors are anywhere."""

    def __init__(self, n_dims, seed=0):
        rng = np.random.default_rng([n_dims, seed])
        self.latent = rng.normal(0.0, 2.0, (N_USERS, n_dims))
        self.design = rng.standard_normal((len(USER), n_dims))
        self.signs = rng.choice([-1.0, 1.0], len(USER))
        self.constant = rng.standard_normal(len(USER))
        base_mean, base_precision = rng.standard_normal(n_dims), positive_definite(rng, n_dims)
        self.locations = Locations(Z, rng.standard_normal((4, n_dims)), base_mean, base_precision)
        starts = np.searchsorted(USER, np.arange(N_USERS + 1))
        self.answers = Answers(starts, self.design, self.signs, self.log_odds(self.latent))

    def log_odds(self, latent):
        return (self.design * latent[USER]).sum(axis=1) + self.constant

    def log_joint(self, k, step):
        """ln p(μ_k + δ, observations | f with δ added to the users of k), up to what δ does not
        change."""
        latent = self.latent + step * (k == Z)[:, None]
        prior = multivariate_normal(
            self.locations.base_mean, np.linalg.inv(self.locations.base_precision)
        )
        odds = self.log_odds(latent)
        right = np.where(
            self.signs > 0, expit(odds), expit(-odds)
        )  # no has the probability 1 − σ(o) = σ(−o)
        return prior.logpdf(self.locations.means[k] + step) + np.log(right).sum()

    def cluster(self, k):
        """What the kernel makes of one cluster: w, directions, signed odds and loads."""
        factor = np.linalg.cholesky(self.locations.base_precision)
        away = factor.T @ (self.locations.means[k] - self.locations.base_mean)
        return (
            away,
            logit_location.directions_of(factor),
            *logit_location.gather(np.flatnonzero(k == Z), self.answers),
        )


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("k", range(4))
def test_density_of_a_step(n_dims, k):
    case = Case(n_dims)
    away, directions, odds, loads = case.cluster(k)
    grid = np.linspace(-4.0, 4.0, 25)
    for j in range(n_dims):
        joints = np.array([case.log_joint(k, t * directions[j]) for t in grid])
        found = np.array(
            [
                logit_location.log_step_density(t, (away[j], odds, loads @ directions[j]))
                for t in grid
            ]
        )
        assert np.ptp(joints) > 1e-3
        check_constant(joints - found, np.abs(joints).max() + np.abs(found).max())


@pytest.mark.parametrize("n_dims", DIMS)
def test_directions_whiten_the_base(n_dims):
    precision = positive_definite(np.random.default_rng(n_dims), n_dims)
    directions = logit_location.directions_of(np.linalg.cholesky(precision))
    np.testing.assert_allclose(directions @ precision @ directions.T, np.eye(n_dims), atol=1e-12)


@pytest.mark.parametrize(
    "x", [-800.0, -40.0, -1e-3, 0.0, 1e-3, 30.0, 40.0, 800.0, math.inf, -math.inf]
)
def test_log_logistic_keeps_its_digits(x):
    assert logit_location.log_logistic(x) == pytest.approx(log_expit(x), rel=4e-16, abs=5e-324)


@pytest.mark.skipif(not COMPILED, reason="without a compiler both are the same")
@pytest.mark.parametrize("n_dims", DIMS)
def test_compiled_equals_plain_python(n_dims):
    case = Case(n_dims)
    steps = [
        draw(np.random.default_rng(5), case.locations, case.answers)
        for draw in (logit_location.draw_steps, python_of(logit_location.draw_steps))
    ]
    np.testing.assert_array_equal(*steps)


def naive_steps(rng, case):
    """Every cluster's δ with vectors as whole arrays, by the same slices."""
    sample = sampler(logit_location.log_step_density, reach=50)
    factor, means = np.linalg.cholesky(case.locations.base_precision), case.locations.means.copy()
    directions, odds = np.linalg.inv(factor), case.signs * case.answers.odds
    for k in range(len(means)):
        own = Z[USER] == k
        for j in range(len(factor)):
            slopes = (case.signs[:, None] * case.design @ directions[j])[own]
            place = (factor.T @ (means[k] - case.locations.base_mean))[j]
            step = sample(rng, (place, odds[own], slopes), 0.0, 2.0)
            odds[own] += step * slopes
            means[k] += step * directions[j]
    return means - case.locations.means


@pytest.mark.parametrize("n_dims", DIMS)
def test_steps_equal_those_of_whole_arrays(n_dims):
    case = Case(n_dims)
    found = logit_location.draw_steps(np.random.default_rng(6), case.locations, case.answers)
    np.testing.assert_allclose(
        found, naive_steps(np.random.default_rng(6), case), rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("k", [0, 2])
def test_many_steps_follow_the_joint(k):
    """At q = 1 the moved mean of a cluster, after a few moves from anywhere, has the density of the
    joint."""
    case, n = Case(1), N_DRAWS // 5
    start = case.locations.means[k, 0]
    law = distribution_function(
        lambda x: np.array([case.log_joint(k, t - start) for t in x]), -40.0, 40.0, 401
    )
    draws, rng = [], np.random.default_rng(7)
    for _ in range(n):
        steps = np.zeros((4, 1))
        for _ in range(10):
            locations = case.locations._replace(means=case.locations.means + steps)
            answers = case.answers._replace(odds=case.log_odds(case.latent + steps[Z]))
            steps = steps + logit_location.draw_steps(rng, locations, answers)
        draws.append(start + steps[k, 0])
    check_law(np.array(draws), law)


@pytest.mark.parametrize("size", [1e-150, 1e-12, 1e12, 1e100])
def test_far_base_precisions(size):
    """Steps stay finite however wide or narrow the base is."""
    case = Case(2)
    base = {"base_mean": np.zeros(2), "base_precision": size * np.eye(2)}
    for means in (np.zeros((4, 2)), case.locations.means):
        locations = case.locations._replace(means=means, **base)
        assert np.isfinite(
            logit_location.draw_steps(np.random.default_rng(8), locations, case.answers)
        ).all()


def test_with_many_observations_the_move_is_made_by_chance():
    rng = np.random.default_rng(0)
    assert all(logit_location.is_due(rng, logit_location._MANY) for _ in range(50))
    made = sum(logit_location.is_due(rng, logit_location._MANY + 1) for _ in range(4000))
    assert abs(made / 4000 - logit_location._SHARE) < 4.5 * np.sqrt(0.25 * 0.75 / 4000)
