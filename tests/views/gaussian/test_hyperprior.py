"""Priors of means, spreads and tails, (M5′) to (M7′): conditionals and densities against the joint,
prior draws, moments."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, t, wishart

import naive
from dualview.behaviors.likelihoods.linked import LinearLink, Slopes
from dualview.distributions import Wishart
from dualview.numerics.hyperprior import FINITE_VARIANCES, PUBLISHED, Hyperprior
from dualview.units import GaussianPrior, Whitening
from dualview.views import GaussianView, SharedVectorView
from dualview.views.gaussian import conditionals as gaussian
from dualview.views.gaussian import density as densities
from dualview.views.gaussian import scale as scales
from dualview.views.shared.conditionals import log_shared
from records import base_of, components_of
from yardsticks import (
    COMPILED,
    check_constant,
    check_law,
    check_mean,
    leaves,
    positive_definite,
    python_of,
)

DIMS = [1, 2, 4]
PRIORS = [PUBLISHED, FINITE_VARIANCES, Hyperprior(6, 5, 4, 3)]
N_COMPONENTS, N_USERS, N_POINTS = 3, 9, 12


class Case:
    """A random view, and its joint density under a hyperprior."""

    def __init__(self, n_dims, hyperprior, seed=1):
        self.rng = np.random.default_rng([n_dims, seed])
        self.hyperprior, self.constants = hyperprior, (np.zeros(n_dims), np.eye(n_dims))
        self.nu, self.smallest = (
            n_dims - 1 + hyperprior.of_means,
            n_dims - 1 + hyperprior.least_of_vectors,
        )
        self.omega = n_dims - 1 + hyperprior.of_spreads
        self.z, self.x = (
            np.arange(N_USERS) % N_COMPONENTS,
            self.rng.standard_normal((N_USERS, n_dims)),
        )
        means, base_mean = (
            self.rng.standard_normal((N_COMPONENTS, n_dims)),
            self.rng.standard_normal(n_dims),
        )
        matrices = np.array([positive_definite(self.rng, n_dims) for _ in range(N_COMPONENTS + 2)])
        self.view = naive.ViewState(
            means, matrices[2:], base_mean, *matrices[:2], self.smallest + 2.5
        )

    def log_joint(self, **changed):
        view = replace(self.view, **changed)
        prior = naive.log_view_prior(view, self.constants, self.nu, self.smallest, self.omega)
        return prior + naive.log_mixture_likelihood(self.x, self.z, view)

    def log_without_precisions(self, base_dof):
        """ln p(x, β, rest without the S_k), from the joint less the conditional (C1) at the S_k as
        they are."""
        total, view = self.log_joint(base_dof=base_dof), self.view
        for k in range(N_COMPONENTS):
            deviations = self.x[self.z == k] - view.means[k]
            inverse_scale = base_dof * view.base_covariance + deviations.T @ deviations
            total -= wishart.logpdf(
                view.precisions[k], base_dof + len(deviations), np.linalg.inv(inverse_scale)
            )
        return total


def check_ratio(joints, laws):
    joints, laws = np.array(joints), np.array(laws)
    assert np.ptp(joints) > 1e-3
    check_constant(joints - laws, np.abs(joints).max() + np.abs(laws).max())


@pytest.mark.parametrize("hyperprior", PRIORS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_base_precision(n_dims, hyperprior):
    """(C4) with ν"""
    case = Case(n_dims, hyperprior)
    matrix, scratch = np.empty((n_dims, n_dims)), np.empty(n_dims)
    dof = gaussian.base_precision_law(
        case.view.means, case.view.base_mean, matrix, scratch, hyperprior
    )
    law, points = (
        Wishart(dof, matrix @ matrix.T),
        [positive_definite(case.rng, n_dims) for _ in range(N_POINTS)],
    )
    check_ratio(
        [case.log_joint(base_precision=p) for p in points], [law.log_density(p) for p in points]
    )


@pytest.mark.parametrize("hyperprior", PRIORS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_base_covariance(n_dims, hyperprior):
    """(C5) with ω"""
    case = Case(n_dims, hyperprior)
    matrix, factors = np.zeros((n_dims, n_dims)), components_of(case.view).factors
    dof = gaussian.base_covariance_law(factors, case.view.base_dof, matrix, hyperprior)
    law, points = (
        Wishart(dof, matrix @ matrix.T),
        [positive_definite(case.rng, n_dims) for _ in range(N_POINTS)],
    )
    check_ratio(
        [case.log_joint(base_covariance=p) for p in points], [law.log_density(p) for p in points]
    )


@pytest.mark.parametrize("hyperprior", PRIORS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_base_dof(n_dims, hyperprior):
    """The density is of y = ln(β − β_min), the joint of β; it goes on without a jump where β
    becomes large."""
    case = Case(n_dims, hyperprior)
    counts, _, scatters, _ = gaussian.cluster_sums(case.x, case.z, case.view.means, np.empty(0))
    roots = scales.scatter_roots(
        scales.whiten(scatters, np.linalg.cholesky(case.view.base_covariance))
    )
    spares = np.geomspace(0.05, 500.0, N_POINTS)
    parameters = (counts, roots, hyperprior.least_of_vectors)
    found = [scales.log_dof_density(math.log(s), parameters) - math.log(s) for s in spares]
    check_ratio([case.log_without_precisions(case.smallest + s) for s in spares], found)
    near = [
        scales.log_dof_density(math.log(1e4 - case.smallest + shift), parameters)
        for shift in (-1e-6, 1e-6)
    ]
    assert near[0] == pytest.approx(near[1], abs=1e-8)


@pytest.mark.parametrize("hyperprior", PRIORS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_density_of_a_view(n_dims, hyperprior):
    case = Case(n_dims, hyperprior)
    views = [Case(n_dims, hyperprior, seed).view for seed in range(2, N_POINTS + 2)]
    for n, view in enumerate(views):
        view.base_dof += 0.3 * n**2
    found = [
        densities.log_view(case.x, case.z, components_of(view), base_of(view), hyperprior)
        for view in views
    ]
    check_ratio([case.log_joint(**vars(view)) for view in views], found)


@pytest.mark.parametrize("hyperprior", PRIORS)
@pytest.mark.parametrize("n_dims", DIMS)
def test_density_of_shared_vectors(n_dims, hyperprior):
    case = Case(n_dims, hyperprior)
    rng = case.rng
    states = [
        (
            rng.standard_normal((3, n_dims)),
            rng.standard_normal(n_dims),
            positive_definite(rng, n_dims),
        )
        for _ in range(N_POINTS)
    ]
    wanted = [naive.log_pooled_prior(*state, case.constants, case.nu) for state in states]
    check_ratio(wanted, [log_shared(*state, hyperprior) for state in states])


@pytest.mark.skipif(not COMPILED, reason="without a compiler both are the same")
@pytest.mark.parametrize("n_dims", [1, 3])
def test_compiled_equals_plain_python(n_dims):
    case, view = Case(n_dims, FINITE_VARIANCES), Case(n_dims, FINITE_VARIANCES).view
    sums = gaussian.cluster_sums(case.x, case.z, view.means, np.empty(0))
    drawn = [
        leaves(redraw(np.random.default_rng(3), sums, base_of(view), FINITE_VARIANCES))
        for redraw in (gaussian.redraw_view, python_of(gaussian.redraw_view))
    ]
    for got, wanted in zip(*drawn, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_start_is_inside_the_support():
    view = GaussianView(2, FINITE_VARIANCES)
    state = view.start(
        np.random.default_rng(0),
        np.random.default_rng(1).standard_normal((6, 2)),
        np.arange(6) % 2,
        2,
    )
    assert np.isfinite(view.log_joint(state, np.zeros((6, 2)), np.arange(6) % 2))


@pytest.mark.parametrize("hyperprior", PRIORS[1:])
@pytest.mark.parametrize("n_dims", [1, 2])
def test_draws_from_the_prior(n_dims, hyperprior):
    """(M5′) and (M7′), and the t distribution of means that the docstring promises."""
    rng = np.random.default_rng(4)
    states = [GaussianView(n_dims, hyperprior).draw_prior(rng, 1) for _ in range(1500)]
    check_mean([s.base.precision for s in states], np.eye(n_dims))
    check_mean([s.base.covariance for s in states], np.eye(n_dims))
    omega = n_dims - 1 + hyperprior.of_spreads
    check_law(omega * np.array([s.base.covariance[0, 0] for s in states]), chi2.cdf, omega)
    spare = np.array([s.base.dof for s in states]) - (n_dims - 1 + hyperprior.least_of_vectors)
    check_law(n_dims / spare, chi2.cdf, 1)
    shared = [SharedVectorView(n_dims, hyperprior).draw_prior(rng, 1) for _ in range(1500)]
    away_from_base = (
        [s.components.means[0, 0] - s.base.mean[0] for s in states],
        [s.means[0, 0] - s.base_mean[0] for s in shared],
    )
    for away in map(np.array, away_from_base):
        scale = math.sqrt((n_dims - 1 + hyperprior.of_means) / hyperprior.of_means)
        check_law(away / scale, t.cdf, hyperprior.of_means)


@pytest.mark.parametrize("dof", [1.0, 3.0])
def test_precision_of_slopes(dof):
    """(C14): ln p(Γ, t) less the conditional of t is constant in t."""
    rng = np.random.default_rng(5)
    link = LinearLink.of(
        rng.standard_normal((5, 3)),
        Whitening.of(GaussianPrior(np.zeros(2), np.diag([1.0, 4.0]))),
        dof,
    )
    slopes, points = rng.standard_normal((2, 3)), np.geomspace(0.01, 50.0, N_POINTS)
    law = link.precision_law(slopes)
    check_ratio(
        [link.log_density(Slopes(slopes, p)) for p in points], [law.log_density(p) for p in points]
    )
    drawn = np.array([link.draw_prior(rng).slopes[0, 0] for _ in range(1500)])
    check_law(drawn * math.sqrt(3.0), t.cdf, dof)
