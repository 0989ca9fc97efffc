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
    """Ten users of three clusters, an auxiliary component and free columns."""

    def __init__(self, n_dims, dof=None):
        self.rng = np.random.default_rng([5, n_dims])
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
        return splitting.split_start(z, counts, view)

    def inverse_scale(self, users):
        """M of some users."""
        away = self.vectors[users] - self.vectors[users].mean(axis=0)
        return self.base.dof * self.base.covariance + away.T @ away


@pytest.mark.parametrize("n_dims", [1, 2, 4])
def test_sets_have_the_averages_and_scatters_of_their_users(n_dims):
    case = Case(n_dims)
    splitting.set_column(0, 0, case.split)
    splitting.set_column(1, 2, case.split)
    splitting.set_both(3, 2, 5, case.split)
    averages, spreads = case.split.sets
    for s, users in enumerate((Z == 0, Z == 2, Z != 1)):
        np.testing.assert_allclose(
            averages[s], case.vectors[users].mean(axis=0), rtol=1e-12, atol=1e-14
        )
        np.testing.assert_allclose(
            spreads[s] @ spreads[s].T, case.inverse_scale(users), rtol=1e-12, atol=1e-13
        )
        np.testing.assert_array_equal(np.triu(spreads[s], 1), 0.0)
    np.testing.assert_array_equal(case.split.proposed[:2], case.components.factors[[0, 2]])
    splitting.set_user(0, 4, case.split)
    np.testing.assert_array_equal(averages[0], case.vectors[4])
    np.testing.assert_allclose(
        spreads[0] @ spreads[0].T, case.base.dof * case.base.covariance, rtol=1e-12
    )


def test_a_cluster_that_has_changed_is_learnt_again():
    case, z = Case(2), Z.copy()
    z[[0, 3]] = 5
    splitting.learn(5, z, case.split)
    splitting.learn(0, z, case.split)
    for known, wanted in zip(case.split.clusters, case.split_of(z, COUNTS).clusters, strict=True):
        np.testing.assert_allclose(known, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
@pytest.mark.parametrize("dof", [None, 40.0, 1e7])
def test_weights_are_prior_times_likelihood_over_proposal(n_dims, dof):
    """p(S) p(vectors | S) / q(S) up to a power of π that all partitions share; a dense normal law,
    without the mean."""
    case = Case(n_dims, dof)
    base, dof = case.base, case.base.dof
    for users in (Z == 1, Z == 2, np.arange(len(Z)) == 4):
        n, x = users.sum(), case.vectors[users]
        scale = case.inverse_scale(users)
        for _ in range(3):
            precision = np.atleast_2d(
                wishart.rvs(dof + n - 1, np.linalg.inv(scale), random_state=case.rng)
            )
            case.split.sets.averages[0], case.split.sets.spreads[0] = (
                x.mean(axis=0),
                np.linalg.cholesky(scale),
            )
            case.split.proposed[0] = upper_factor(precision)
            inside = np.kron(np.eye(n), np.linalg.inv(precision)) + np.kron(
                np.ones((n, n)), np.linalg.inv(base.precision)
            )
            expected = multivariate_normal.logpdf(x.ravel(), np.tile(base.mean, n), inside)
            expected += wishart.logpdf(precision, dof, np.linalg.inv(dof * base.covariance))
            expected -= wishart.logpdf(precision, dof + n - 1, np.linalg.inv(scale))
            expected += 0.5 * n * n_dims * np.log(np.pi)
            np.testing.assert_allclose(
                splitting.log_weight(0, n, case.split), expected, rtol=1e-8, atol=1e-15 * dof
            )
