"""Splits and merges in a Gaussian view: averages and scatters of sets of users, and weights by
ratio."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, wishart

from dualview.numerics.hyperprior import PUBLISHED
from dualview.views.base import Components
from dualview.views.gaussian import splitting
from dualview.views.gaussian.kind import Gaussian
from engines.gibbs.columns import random_base
from yardsticks import positive_definite, upper_factor

Z = np.array([0, 2, 1, 0, 2, 2, 1, 0, 2, 2])
COUNTS = np.array([3, 2, 5, 0, -1, -1])


class Case:
    """Ten users of three clusters, an auxiliary component and free columns; with weights of users,
    or without."""

    def __init__(self, n_dims, dof=None, weighted=False):
        self.rng = np.random.default_rng([5, n_dims])
        self.weights = np.random.default_rng(6).gamma(1.0, size=len(Z) if weighted else 0)
        self.vectors = self.rng.standard_normal((len(Z), n_dims))
        self.base = random_base(self.rng, n_dims, n_dims + 1.3 if dof is None else dof)
        factors = np.array([upper_factor(positive_definite(self.rng, n_dims)) for _ in COUNTS])
        self.components = Components(np.zeros((len(COUNTS), n_dims)), factors)
        self.split = self.split_of(Z, COUNTS)

    def split_of(self, z, counts):
        """What splits and merges know of these clusters."""
        rows, cores = (
            np.ascontiguousarray(self.vectors.T),
            np.empty((0, *self.components.factors.shape[1:])),
        )
        view = Gaussian(self.vectors, rows, self.components, cores, self.base, PUBLISHED)
        return splitting.start_split(z, counts, self.weights, view)

    def weights_of(self, users):
        """The weights of some users."""
        return (self.weights if len(self.weights) else np.ones(len(Z)))[users]

    def average(self, users):
        """The weighted average of some users."""
        return np.average(self.vectors[users], axis=0, weights=self.weights_of(users))

    def inverse_scale(self, users):
        """M of some users."""
        away, weights = self.vectors[users] - self.average(users), self.weights_of(users)
        return self.base.dof * self.base.covariance + (weights * away.T) @ away


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_dims", [1, 2, 4])
def test_sets_have_the_averages_and_scatters_of_their_users(n_dims, weighted):
    case = Case(n_dims, weighted=weighted)
    splitting.set_column(0, 0, case.split)
    splitting.set_column(1, 2, case.split)
    splitting.set_both(3, 2, 5, case.split)
    averages, spreads, weights = case.split.sets
    for s, users in enumerate((Z == 0, Z == 2, Z != 1)):
        np.testing.assert_allclose(averages[s], case.average(users), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(weights[s], case.weights_of(users).sum(), rtol=1e-12)
        np.testing.assert_allclose(
            spreads[s] @ spreads[s].T, case.inverse_scale(users), rtol=1e-12, atol=1e-13
        )
        np.testing.assert_array_equal(np.triu(spreads[s], 1), 0.0)
    np.testing.assert_array_equal(case.split.proposed[:2], case.components.factors[[0, 2]])
    splitting.set_user(0, 4, case.split)
    np.testing.assert_array_equal(averages[0], case.vectors[4])
    assert weights[0] == case.weights_of(4)
    before, joined = case.split.sets.spreads[0] @ case.split.sets.spreads[0].T, Z == 1
    joined[4] = True
    attraction = splitting.distance(2, 0, 1, case.split)
    for n, u in enumerate(np.flatnonzero(Z == 1)):
        splitting.join(u, 0, n + 1, case.split)
        if n == 0:  # the determinant of M grows as the attraction says
            after = np.linalg.slogdet(spreads[0] @ spreads[0].T)[1]
            grown = 0.5 * (case.base.dof + 1) * (after - np.linalg.slogdet(before)[1])
            assert attraction == pytest.approx(grown)
    np.testing.assert_allclose(averages[0], case.average(joined), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(spreads[0] @ spreads[0].T, case.inverse_scale(joined), rtol=1e-12)
    splitting.set_user(0, 4, case.split)
    np.testing.assert_allclose(
        spreads[0] @ spreads[0].T, case.base.dof * case.base.covariance, rtol=1e-12
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_a_cluster_that_has_changed_is_learnt_again(weighted):
    case, z = Case(2, weighted=weighted), Z.copy()
    z[[0, 3]] = 5
    splitting.learn(5, z, case.split)
    splitting.learn(0, z, case.split)
    for known, wanted in zip(case.split.clusters, case.split_of(z, COUNTS).clusters, strict=True):
        np.testing.assert_allclose(known, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_dims", [1, 2, 3])
@pytest.mark.parametrize("dof", [None, 40.0, 1e7])
def test_weights_are_prior_times_likelihood_over_proposal(n_dims, dof, weighted):
    """p(S) p(vectors | S) / q(S) up to a power of π, and of the users' weights, that all partitions
    share; a dense normal law, without the mean."""
    case = Case(n_dims, dof, weighted)
    base, dof = case.base, case.base.dof
    for users in (Z == 1, Z == 2, np.arange(len(Z)) == 4):
        n, x = users.sum(), case.vectors[users]
        scale = case.inverse_scale(users)
        for _ in range(3):
            precision = np.atleast_2d(
                wishart.rvs(dof + n - 1, np.linalg.inv(scale), random_state=case.rng)
            )
            weights = case.weights_of(users)
            case.split.sets.averages[0], case.split.sets.spreads[0], case.split.sets.weights[0] = (
                case.average(users),
                np.linalg.cholesky(scale),
                weights.sum(),
            )
            case.split.proposed[0] = upper_factor(precision)
            inside = np.kron(np.diag(1.0 / weights), np.linalg.inv(precision)) + np.kron(
                np.ones((n, n)), np.linalg.inv(base.precision)
            )
            expected = multivariate_normal.logpdf(x.ravel(), np.tile(base.mean, n), inside)
            expected += wishart.logpdf(precision, dof, np.linalg.inv(dof * base.covariance))
            expected -= wishart.logpdf(precision, dof + n - 1, np.linalg.inv(scale))
            expected += 0.5 * n * n_dims * np.log(np.pi) - 0.5 * n_dims * np.log(weights).sum()
            np.testing.assert_allclose(
                splitting.log_weight(0, n, case.split), expected, rtol=1e-8, atol=1e-15 * dof
            )
