"""A Gaussian view's conditionals: log joint − log conditional is constant; densities keep their digits; draws follow the laws.

Working units: m = 0, Σ = I. The joint is the naive one, written from (M1) to (M7).
"""

import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import chi2, multivariate_normal, norm

import naive
from dualview.distributions import Normal, Wishart
from dualview.kernels import densities, gaussian
from dualview.kernels.draws import normal, wishart_factor
from dualview.kernels.linalg import cholesky, outer_square
from yardsticks import (
    DIGITS,
    EPSILON,
    N_DRAWS,
    check_constant,
    check_law,
    check_mean,
    positive_definite,
    precise,
    precise_digamma,
    precise_log_gamma,
    python_of,
    upper_factor,
)

DIMS = [1, 2, 5]
N_COMPONENTS = 4  # the last one is empty
N_USERS = 12
N_POINTS = 12


class Case:
    """A random view with data, and its log joint at changed values."""

    def __init__(self, n_dims, seed=1):
        self.rng = np.random.default_rng([n_dims, seed])
        self.n_dims = n_dims
        self.z = np.append(np.arange(N_COMPONENTS - 1), self.rng.integers(0, N_COMPONENTS - 1, N_USERS - N_COMPONENTS + 1))
        self.x = self.rng.standard_normal((N_USERS, n_dims))
        self.view = naive.ViewState(
            means=self.rng.standard_normal((N_COMPONENTS, n_dims)),
            precisions=np.array([self.matrix() for _ in range(N_COMPONENTS)]),
            base_mean=self.rng.standard_normal(n_dims),
            base_precision=self.matrix(),
            base_covariance=self.matrix(),
            base_dof=n_dims + 2.5,
        )
        self.factors = upper_factor(self.view.precisions)
        self.base = (self.view.base_mean, self.view.base_precision, self.view.base_covariance, self.view.base_dof)
        self.counts, self.totals, self.scatters = gaussian.cluster_sums(self.x, self.z, self.view.means)

    def matrix(self):
        return positive_definite(self.rng, self.n_dims)

    def log_joint(self, **changed):
        state = naive.State(self.z, 1.0, {"features": replace(self.view, **changed)})
        constants = np.zeros(self.n_dims), np.eye(self.n_dims)
        return naive.log_joint(state, features=self.x, feature_constants=constants, partition=("finite", N_COMPONENTS))

    def component(self, name, k, value):
        """The components' values with the k-th one changed."""
        values = getattr(self.view, name).copy()
        values[k] = value
        return {name: values}


def check_ratio(joint, law, points):
    """log joint − log conditional is the same at all points, up to rounding."""
    joints, laws = np.array([joint(p) for p in points]), np.array([law(p) for p in points])
    assert np.ptp(joints) > 1e-3
    check_constant(joints - laws, np.abs(joints).max() + np.abs(laws).max())


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("k", range(N_COMPONENTS))
def test_component_precision(n_dims, k):
    """(C1)"""
    case = Case(n_dims)
    law = gaussian.component_precision(case.view.base_dof, case.view.base_covariance, case.counts[k], case.scatters[k])
    points = [case.matrix() for _ in range(N_POINTS)]
    check_ratio(lambda p: case.log_joint(**case.component("precisions", k, p)), Wishart(*law).log_density, points)


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("k", range(N_COMPONENTS))
def test_component_mean(n_dims, k):
    """(C2)"""
    case = Case(n_dims)
    base_mean, base_precision, *_ = case.base
    law = gaussian.component_mean(base_mean, base_precision, case.counts[k], case.totals[k], case.view.precisions[k])
    points = case.rng.standard_normal((N_POINTS, n_dims))
    check_ratio(lambda p: case.log_joint(**case.component("means", k, p)), Normal(*law).log_density, points)


@pytest.mark.parametrize("n_dims", DIMS)
def test_base_mean(n_dims):
    """(C3)"""
    case = Case(n_dims)
    law = gaussian.base_mean_law(case.view.means, case.view.base_precision)
    points = case.rng.standard_normal((N_POINTS, n_dims))
    check_ratio(lambda p: case.log_joint(base_mean=p), Normal(*law).log_density, points)


@pytest.mark.parametrize("n_dims", DIMS)
def test_base_precision(n_dims):
    """(C4)"""
    case = Case(n_dims)
    law = gaussian.base_precision_law(case.view.means, case.view.base_mean)
    points = [case.matrix() for _ in range(N_POINTS)]
    check_ratio(lambda p: case.log_joint(base_precision=p), Wishart(*law).log_density, points)


@pytest.mark.parametrize("n_dims", DIMS)
def test_base_covariance(n_dims):
    """(C5)"""
    case = Case(n_dims)
    law = gaussian.base_covariance_law(case.factors, case.view.base_dof)
    points = [case.matrix() for _ in range(N_POINTS)]
    check_ratio(lambda p: case.log_joint(base_covariance=p), Wishart(*law).log_density, points)


def dof_parameters(case):
    misfits = sum(densities.misfit(factor, case.view.base_covariance) for factor in case.factors)
    return np.array([N_COMPONENTS, case.n_dims, misfits])


@pytest.mark.parametrize("n_dims", DIMS)
def test_base_dof(n_dims):
    """(C6); the conditional is of ln β, the joint of β."""
    case = Case(n_dims)
    parameters = dof_parameters(case)
    points = n_dims - 1 + np.geomspace(0.05, 500, 25)
    check_ratio(
        lambda p: case.log_joint(base_dof=p),
        lambda p: gaussian.log_dof_density(math.log(p), parameters)[0] - math.log(p),
        points,
    )


@precise
def exact_dof_density(log_dof, n_components, n_dims, misfits):
    """(C6) as it is written; misfits is C + K D."""
    dof, half = log_dof.exp(), Decimal("0.5")
    spare, constant = dof - n_dims + 1, misfits - n_components * n_dims
    arguments = [(dof + d - n_dims) * half for d in range(1, int(n_dims) + 1)]
    value = log_dof - 3 * half * spare.ln() - half * n_dims / spare + half * n_components * n_dims * dof * (half * dof).ln()
    value += half * dof * constant - n_components * sum(map(precise_log_gamma, arguments))
    slope = 1 - 3 * half * dof / spare + half * n_dims * dof / spare**2
    slope += half * n_components * n_dims * dof * ((half * dof).ln() + 1)
    slope += half * dof * (constant - n_components * sum(map(precise_digamma, arguments)))
    return value, slope


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("n_components", [1, 300])
@pytest.mark.parametrize("spare", [0.01, 0.5, 4.0, 100.0, 1e6, 1e13, 1e25])
def test_dof_density_has_its_digits_at_any_size(n_dims, n_components, spare):
    y = math.log(n_dims - 1 + spare)
    dof = math.exp(y)
    misfits = -0.7 * n_components * n_dims * (n_dims + 1) / dof
    value, slope = gaussian.log_dof_density(y, np.array([n_components, n_dims, misfits]))
    exact, exact_slope = exact_dof_density(y, n_components, n_dims, misfits)
    # What β near its lower end loses by being written as a logarithm is not the formula's fault.
    shift = EPSILON * (1.0 + abs(y)) * dof / (dof - n_dims + 1)
    size = n_components * n_dims**2 * (abs(y) + 4.0) + 0.5 * n_dims / spare
    assert abs(value - exact) <= 4 * (EPSILON + shift) * size
    assert abs(slope - exact_slope) <= 4 * (EPSILON + shift) * (size * dof / spare)


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("dof", [5.5, 40.0, 1e5, 1e13])
def test_dof_slope_is_the_derivative(n_dims, dof):
    parameters = np.array([7.0, n_dims, -20.0 * n_dims / dof])
    y, h = math.log(dof), 1e-4
    above, below = (gaussian.log_dof_density(y + step, parameters)[0] for step in (h, -h))
    slope = gaussian.log_dof_density(y, parameters)[1]
    third = 10.0 * 7.0 * n_dims**2  # bounds the third derivative here
    assert slope == pytest.approx((above - below) / (2 * h), abs=third * h**2 + 1e3 * n_dims**2 * EPSILON / h)


@pytest.mark.parametrize("n_dims", [1, 2, 5, 50, 400])
@pytest.mark.parametrize("n_components", [1, 300])
def test_dof_density_is_log_concave(n_dims, n_components):
    """Its slope in ln β falls, even without the misfits' own downward bend."""
    y = np.log(n_dims - 1 + np.geomspace(0.01, 1e5, 500))
    slopes = [gaussian.log_dof_density(v, np.array([n_components, n_dims, 0.0]))[1] for v in y]
    assert (np.diff(slopes) < 0).all()


@pytest.mark.parametrize("y", [-701.0, 701.0])
def test_dof_density_is_zero_beyond_the_range_of_numbers_and_leads_back(y):
    value, slope = gaussian.log_dof_density(y, np.array([3.0, 1.0, -1.0]))
    assert value == -math.inf
    assert slope * y < 0


def exact_misfit(factor, base_covariance):
    """ln|S W_0| − tr(S W_0) + D in fractions, with logarithms of many digits."""
    n = len(factor)
    t = [[Fraction(v) for v in row] for row in factor.tolist()]
    w = [[Fraction(v) for v in row] for row in base_covariance.tolist()]
    trace = sum(w[a][b] * t[a][i] * t[b][i] for i in range(n) for a in range(n) for b in range(n))
    determinant = Fraction(1)
    for j in range(n):
        determinant *= w[j][j] * t[j][j] ** 2
        for i in range(j + 1, n):
            ratio = w[i][j] / w[j][j]
            w[i] = [below - ratio * above for below, above in zip(w[i], w[j], strict=True)]
    with localcontext(prec=DIGITS):
        ratio, rest = (Decimal(f.numerator) / Decimal(f.denominator) for f in (determinant, n - trace))
        return float(ratio.ln() + rest)


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("distance", [3.0, 0.3, 1e-2, 1e-4, 1e-7])
def test_misfit_keeps_its_digits_near_a_perfect_fit(n_dims, distance):
    rng = np.random.default_rng(n_dims)
    base_covariance = positive_definite(rng, n_dims)
    ideal = upper_factor(np.linalg.inv(base_covariance))
    factor = ideal @ (np.eye(n_dims) + distance * np.triu(np.abs(rng.standard_normal((n_dims, n_dims)))))
    value, exact = densities.misfit(factor, base_covariance), exact_misfit(factor, base_covariance)
    assert value < 0
    # An entry of Tᵀ W_0 T − I, of about this distance, is wrong by rounding; the value is about its square.
    condition = np.linalg.cond(base_covariance)
    assert abs(value - exact) <= 16 * n_dims * condition * EPSILON * distance * (1.0 + distance)


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("shrink", [1.0, 1e-6])
def test_misfit_is_the_formula_for_nearly_singular_precisions_too(n_dims, shrink):
    rng = np.random.default_rng(20 + n_dims)
    base_covariance, factor = positive_definite(rng, n_dims), upper_factor(positive_definite(rng, n_dims))
    factor[:, -1] *= shrink
    value = densities.misfit(factor, base_covariance)
    assert value == pytest.approx(exact_misfit(factor, base_covariance), rel=1e-12)


@pytest.mark.parametrize("n_dims", DIMS)
def test_log_likelihood_tables_are_scipys_densities(n_dims):
    case = Case(n_dims)
    covariances = np.linalg.inv(case.view.precisions)
    laws = [multivariate_normal(mean, covariance) for mean, covariance in zip(case.view.means, covariances, strict=True)]
    expected = np.column_stack([law.logpdf(case.x) for law in laws])
    np.testing.assert_allclose(densities.log_likelihood(case.x, case.view.means, case.factors), expected, rtol=1e-9)
    assigned = densities.log_assigned(case.x, case.z, case.view.means, case.factors)
    assert assigned == pytest.approx(expected[np.arange(N_USERS), case.z].sum())
    owners = np.array([0, 2, 1, 1, 3, 0, 2, 2])  # two components for each of four users
    own = densities.log_likelihood_of_own(case.x[:4], case.view.means[owners], case.factors[owners])
    np.testing.assert_allclose(own, [[expected[u, owners[2 * u + j]] for j in range(2)] for u in range(4)], rtol=1e-9)


@pytest.mark.parametrize("n_dims", DIMS)
def test_cluster_sums_are_plain_sums(n_dims):
    case = Case(n_dims)
    for k in range(N_COMPONENTS):
        inside = case.x[case.z == k]
        deviations = inside - case.view.means[k]
        assert case.counts[k] == len(inside)
        np.testing.assert_allclose(case.totals[k], inside.sum(axis=0), atol=1e-13)
        np.testing.assert_allclose(case.scatters[k], deviations.T @ deviations, atol=1e-12)
    assert case.counts[-1] == 0


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("far", [1.0, 1e6])
def test_scatter_factor_keeps_digits_however_far_the_points(n_dims, far):
    rng = np.random.default_rng(30 + n_dims)
    start, centre, z = positive_definite(rng, n_dims), rng.standard_normal(n_dims), np.array([0, 1, 1, 0, 1])
    x = far * np.outer(rng.standard_normal(5), rng.standard_normal(n_dims)) + rng.standard_normal((5, n_dims))
    deviations = (x - centre)[z == 1]
    factor = gaussian.scatter_factor(start + deviations.T @ deviations, start, x, z, 1, centre)
    triangle = np.linalg.qr(np.vstack([np.linalg.cholesky(start).T, deviations]), mode="r")
    pivots = np.abs(np.diagonal(triangle))
    np.testing.assert_allclose(np.diagonal(factor), pivots, rtol=1e3 * EPSILON * far)
    product = start + deviations.T @ deviations
    np.testing.assert_allclose(factor @ factor.T, product, rtol=1e-12, atol=1e-12 * np.abs(product).max())


def laws_of_base(case, means, precisions):
    """Whitened means and directions of precisions against (M2) and (M3)."""
    n_dims, (base_mean, base_precision, base_covariance, base_dof) = case.n_dims, case.base
    direction = np.arange(1.0, n_dims + 1)
    scale = np.linalg.inv(base_dof * base_covariance)
    check_law((means - base_mean) @ direction / np.sqrt(direction @ np.linalg.solve(base_precision, direction)), norm.cdf)
    along = np.einsum("i,kij,j->k", direction, precisions, direction) / (direction @ scale @ direction)
    check_law(along, chi2(base_dof).cdf)
    log_determinant = digamma((base_dof - np.arange(n_dims)) / 2).sum() + n_dims * math.log(2) + np.linalg.slogdet(scale)[1]
    check_mean(np.linalg.slogdet(precisions)[1], log_determinant)
    check_mean(np.arctan(means - base_mean) * np.arctan(np.trace(precisions, axis1=1, axis2=2))[:, None], 0.0)


@pytest.mark.parametrize("n_dims", DIMS)
def test_components_from_the_base_follow_it(n_dims):
    """(M2), (M3)"""
    case = Case(n_dims)
    means, factors = gaussian.draw_from_base(np.random.default_rng(4), N_DRAWS, *case.base)
    laws_of_base(case, means, factors @ factors.transpose(0, 2, 1))


@pytest.mark.parametrize("n_dims", DIMS)
def test_empty_components_are_redrawn_from_the_base(n_dims):
    case = Case(n_dims)
    z, means = np.zeros(N_USERS, dtype=np.int64), np.zeros((N_DRAWS + 1, n_dims))
    means, factors = gaussian.draw_components(np.random.default_rng(5), case.x, z, means, *case.base)
    laws_of_base(case, means[1:], (factors @ factors.transpose(0, 2, 1))[1:])


@pytest.mark.parametrize("n_dims", DIMS)
def test_components_are_drawn_one_after_another_from_their_laws(n_dims):
    case = Case(n_dims)
    base_mean, base_precision, base_covariance, base_dof = case.base
    means, factors = gaussian.draw_components(np.random.default_rng(6), case.x, case.z, case.view.means, *case.base)
    rng = np.random.default_rng(6)
    for k in range(N_COMPONENTS):
        dof, inverse_scale = gaussian.component_precision(base_dof, base_covariance, case.counts[k], case.scatters[k])
        factor = wishart_factor(rng, dof, cholesky(inverse_scale))
        np.testing.assert_array_equal(factors[k], factor)
        law = gaussian.component_mean(base_mean, base_precision, case.counts[k], case.totals[k], outer_square(factor))
        np.testing.assert_array_equal(means[k], normal(rng, *law))


@pytest.mark.parametrize("n_dims", DIMS)
def test_base_parameters_are_drawn_each_given_the_newest_others(n_dims):
    case = Case(n_dims)
    means, factors = case.view.means, case.factors
    drawn = gaussian.draw_base(np.random.default_rng(7), means, factors, *case.base)
    rng = np.random.default_rng(7)
    base_mean = normal(rng, *gaussian.base_mean_law(means, case.view.base_precision))
    dof, inverse_scale = gaussian.base_precision_law(means, base_mean)
    base_precision = outer_square(wishart_factor(rng, dof, cholesky(inverse_scale)))
    dof, inverse_scale = gaussian.base_covariance_law(factors, case.view.base_dof)
    base_covariance = outer_square(wishart_factor(rng, dof, cholesky(inverse_scale)))
    base_dof = gaussian.draw_base_dof(rng, factors, base_covariance, case.view.base_dof)
    for got, wanted in zip(drawn, (base_mean, base_precision, base_covariance, base_dof), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("n_dims", DIMS)
def test_compiled_numbers_are_those_of_python(n_dims):
    case = Case(n_dims)
    pieces = [
        (densities.misfit, case.factors[0], case.view.base_covariance),
        (densities.log_likelihood, case.x, case.view.means, case.factors),
        (densities.log_components_prior, case.view.means, case.factors, *case.base),
        (densities.log_base_prior, *case.base),
    ]
    for kernel, *arguments in pieces:
        np.testing.assert_array_equal(kernel(*arguments), python_of(kernel)(*arguments))
    draws = [
        (gaussian.draw_components, case.x, case.z, case.view.means, *case.base),
        (gaussian.draw_base, case.view.means, case.factors, *case.base),
        (gaussian.draw_from_base, 3, *case.base),
    ]
    for kernel, *arguments in draws:
        compiled, plain = (f(np.random.default_rng(8), *arguments) for f in (kernel, python_of(kernel)))
        for got, wanted in zip(compiled, plain, strict=True):
            np.testing.assert_array_equal(got, wanted)
