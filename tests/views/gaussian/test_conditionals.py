"""A Gaussian view's conditionals: log joint − log conditional is constant; densities keep their
digits; draws follow the laws.

Working units: m = 0, Σ = I. The joint is the naive one, written from (M1) to (M7). The moves of
scale are in ``test_scales``.
"""

import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import chi2, multivariate_normal, norm, uniform

import naive
from checks import misfit
from dualview.distributions import Normal, Wishart
from dualview.numerics.draws import normal, wishart_factor
from dualview.numerics.messages import Terms
from dualview.numerics.streams import stream_of
from dualview.views.base import Base, Components
from dualview.views.gaussian import conditionals as gaussian
from dualview.views.gaussian import density as densities
from dualview.views.gaussian import kind
from dualview.views.gaussian import scale as scales
from dualview.views.gaussian.view import no_view
from records import base_of, components_of
from yardsticks import (
    DIGITS,
    EPSILON,
    N_DRAWS,
    check_constant,
    check_law,
    check_mean,
    leaves,
    positive_definite,
    precise,
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
        self.z = np.append(
            np.arange(N_COMPONENTS - 1),
            self.rng.integers(0, N_COMPONENTS - 1, N_USERS - N_COMPONENTS + 1),
        )
        self.x = self.rng.standard_normal((N_USERS, n_dims))
        self.view = naive.ViewState(
            means=self.rng.standard_normal((N_COMPONENTS, n_dims)),
            precisions=np.array([self.matrix() for _ in range(N_COMPONENTS)]),
            base_mean=self.rng.standard_normal(n_dims),
            base_precision=self.matrix(),
            base_covariance=self.matrix(),
            base_dof=n_dims + 2.5,
        )
        self.components, self.base = components_of(self.view), base_of(self.view)
        self.sums = gaussian.cluster_sums(self.x, self.z, self.view.means, np.empty(0))

    def matrix(self):
        return positive_definite(self.rng, self.n_dims)

    def log_joint(self, **changed):
        state = naive.State(self.z, 1.0, {"features": replace(self.view, **changed)})
        constants = np.zeros(self.n_dims), np.eye(self.n_dims)
        return naive.log_joint(
            state, features=self.x, feature_constants=constants, partition=("finite", N_COMPONENTS)
        )

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


class Laws:
    """The laws the kernels write into arrays, which hold nothing of use before."""

    def __init__(self, n_dims):
        self.vector, self.matrix, self.scratch = (
            np.full(shape, np.nan) for shape in (n_dims, (n_dims, n_dims), n_dims)
        )

    def component_precision(self, base_dof, base_covariance, count, scatter):
        base_factor = np.linalg.cholesky(base_covariance)
        return self._wishart(
            gaussian.component_precision(
                base_dof, base_factor, count, scatter, self.matrix, self.scratch
            )
        )

    def component_mean(self, base_mean, base_precision, count, total, factor):
        gaussian.component_mean(
            base_precision @ base_mean,
            base_precision,
            count,
            total,
            factor,
            self.vector,
            self.matrix,
        )
        return Normal(self.vector, self.matrix)

    def base_mean(self, means, base_precision):
        gaussian.base_mean_law(means, base_precision, self.vector, self.matrix)
        return Normal(self.vector, self.matrix)

    def base_precision(self, means, base_mean):
        return self._wishart(
            gaussian.base_precision_law(means, base_mean, self.matrix, self.scratch)
        )

    def base_covariance(self, factors, base_dof):
        return self._wishart(gaussian.base_covariance_law(factors, base_dof, self.matrix))

    def _wishart(self, dof):
        np.testing.assert_array_equal(self.matrix, np.tril(self.matrix))
        return Wishart(dof, self.matrix @ self.matrix.T)


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("k", range(N_COMPONENTS))
def test_component_precision(n_dims, k):
    """(C1)"""
    case = Case(n_dims)
    view = case.view
    law = Laws(n_dims).component_precision(
        view.base_dof, view.base_covariance, case.sums.counts[k], case.sums.scatters[k]
    )
    points = [case.matrix() for _ in range(N_POINTS)]
    check_ratio(
        lambda p: case.log_joint(**case.component("precisions", k, p)), law.log_density, points
    )


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("k", range(N_COMPONENTS))
def test_component_mean(n_dims, k):
    """(C2)"""
    case = Case(n_dims)
    own = case.sums.counts[k], case.sums.totals[k], case.components.factors[k]
    law = Laws(n_dims).component_mean(case.base.mean, case.base.precision, *own)
    points = case.rng.standard_normal((N_POINTS, n_dims))
    check_ratio(lambda p: case.log_joint(**case.component("means", k, p)), law.log_density, points)


@pytest.mark.parametrize("n_dims", DIMS)
def test_base_mean(n_dims):
    """(C3)"""
    case = Case(n_dims)
    law = Laws(n_dims).base_mean(case.view.means, case.view.base_precision)
    points = case.rng.standard_normal((N_POINTS, n_dims))
    check_ratio(lambda p: case.log_joint(base_mean=p), law.log_density, points)


@pytest.mark.parametrize("n_dims", DIMS)
def test_base_precision(n_dims):
    """(C4)"""
    case = Case(n_dims)
    law = Laws(n_dims).base_precision(case.view.means, case.view.base_mean)
    points = [case.matrix() for _ in range(N_POINTS)]
    check_ratio(lambda p: case.log_joint(base_precision=p), law.log_density, points)


@pytest.mark.parametrize("n_dims", DIMS)
def test_base_covariance(n_dims):
    """(C5)"""
    case = Case(n_dims)
    law = Laws(n_dims).base_covariance(case.components.factors, case.view.base_dof)
    points = [case.matrix() for _ in range(N_POINTS)]
    check_ratio(lambda p: case.log_joint(base_covariance=p), law.log_density, points)


@pytest.mark.parametrize("n_dims", DIMS)
def test_the_density_of_a_view_is_the_joint(n_dims):
    """(M1) to (M7), everything changed at once."""
    case = Case(n_dims)
    points = [Case(n_dims, seed).view for seed in range(2, N_POINTS + 2)]
    for n, view in enumerate(points):
        view.base_dof += 0.3 * n**2

    def density(view):
        return densities.log_view(case.x, case.z, components_of(view), base_of(view))

    check_ratio(lambda view: case.log_joint(**vars(view)), density, points)


@precise
def exact_wishart_constant(dof, n_dims):
    """(Dβ/2)(ln(β/2) − 1) − Σ_{d=1..D} lnΓ((β+d−D)/2)."""
    half = dof / 2
    return n_dims * half * (half.ln() - 1) - sum(
        precise_log_gamma((dof + d - n_dims) / 2) for d in range(1, int(n_dims) + 1)
    )


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("spare", [0.01, 0.5, 4.0, 100.0, 1e6, 1e13, 1e25])
def test_the_wishart_constant_has_its_digits_at_any_size(n_dims, spare):
    dof = n_dims - 1 + spare
    spare = dof - (n_dims - 1)  # what is left of it
    value = densities.log_wishart_constant(dof, spare, n_dims)
    size = n_dims**2 * (abs(math.log(spare)) + 4.0)
    assert abs(value - exact_wishart_constant(dof, n_dims)) <= 8 * EPSILON * size


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
        ratio, rest = (
            Decimal(f.numerator) / Decimal(f.denominator) for f in (determinant, n - trace)
        )
        return float(ratio.ln() + rest)


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("distance", [3.0, 0.3, 1e-2, 1e-4, 1e-7])
def test_misfit_keeps_its_digits_near_a_perfect_fit(n_dims, distance):
    rng = np.random.default_rng(n_dims)
    base_covariance = positive_definite(rng, n_dims)
    ideal = upper_factor(np.linalg.inv(base_covariance))
    factor = ideal @ (
        np.eye(n_dims) + distance * np.triu(np.abs(rng.standard_normal((n_dims, n_dims))))
    )
    value, exact = misfit(factor, base_covariance), exact_misfit(factor, base_covariance)
    assert value < 0
    # An entry of Tᵀ W_0 T − I, of about this distance, is wrong by rounding; the value is about its
    # square.
    condition = np.linalg.cond(base_covariance)
    assert abs(value - exact) <= 16 * n_dims * condition * EPSILON * distance * (1.0 + distance)


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("shrink", [1.0, 1e-6])
def test_misfit_is_the_formula_for_nearly_singular_precisions_too(n_dims, shrink):
    rng = np.random.default_rng(20 + n_dims)
    base_covariance, factor = (
        positive_definite(rng, n_dims),
        upper_factor(positive_definite(rng, n_dims)),
    )
    factor[:, -1] *= shrink
    value = misfit(factor, base_covariance)
    assert value == pytest.approx(exact_misfit(factor, base_covariance), rel=1e-12)


@pytest.mark.parametrize("n_dims", DIMS)
def test_log_likelihood_tables_are_scipys_densities(n_dims):
    case = Case(n_dims)
    covariances = np.linalg.inv(case.view.precisions)
    laws = [
        multivariate_normal(mean, covariance)
        for mean, covariance in zip(case.view.means, covariances, strict=True)
    ]
    expected = np.column_stack([law.logpdf(case.x) for law in laws])
    np.testing.assert_allclose(
        densities.log_likelihood(case.x, case.view.means, case.components.factors, np.empty(0)),
        expected,
        rtol=1e-9,
    )
    assigned = densities.log_assigned(case.x, case.z, case.components)
    assert assigned == pytest.approx(expected[np.arange(N_USERS), case.z].sum())


def check_sums(case, sums, users):
    counts, totals, scatters, weights = sums
    np.testing.assert_array_equal(weights, counts)
    for k in range(N_COMPONENTS):
        inside = case.x[users][case.z[users] == k]
        deviations = inside - case.view.means[k]
        assert counts[k] == len(inside)
        np.testing.assert_allclose(totals[k], inside.sum(axis=0), atol=1e-13)
        np.testing.assert_array_equal(scatters[k], np.tril(scatters[k]))
        np.testing.assert_allclose(
            scatters[k] @ scatters[k].T, deviations.T @ deviations, atol=1e-12
        )


@pytest.mark.parametrize("n_dims", DIMS)
def test_cluster_sums_are_plain_sums(n_dims):
    case = Case(n_dims)
    check_sums(case, case.sums, slice(None))
    assert case.sums.counts[-1] == 0


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("cut", [0, 1, 5, N_USERS])
def test_sums_of_two_sets_of_users_join(n_dims, cut):
    case = Case(n_dims)
    sums, more = (
        gaussian.cluster_sums(case.x[part], case.z[part], case.view.means, np.empty(0))
        for part in np.split(np.arange(12), [cut])
    )
    gaussian.join_sums(sums, more)
    check_sums(case, sums, slice(None))


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("far", [1.0, 1e6])
def test_inverse_scales_keep_digits_however_far_the_points(n_dims, far):
    """(C1) with points near one long line: their scatter alone is singular in rounding."""
    rng = np.random.default_rng(30 + n_dims)
    base_covariance, centre = positive_definite(rng, n_dims), rng.standard_normal((1, n_dims))
    x = far * np.outer(rng.standard_normal(5), rng.standard_normal(n_dims)) + rng.standard_normal(
        (5, n_dims)
    )
    sums, laws = (
        gaussian.cluster_sums(x, np.zeros(5, dtype=np.int64), centre, np.empty(0)),
        Laws(n_dims),
    )
    laws.component_precision(4.0, base_covariance / 4.0, sums.counts[0], sums.scatters[0])
    triangle = np.linalg.qr(
        np.vstack([np.linalg.cholesky(base_covariance).T, x - centre]), mode="r"
    )
    np.testing.assert_allclose(
        np.diagonal(laws.matrix), np.abs(np.diagonal(triangle)), rtol=1e3 * EPSILON * far
    )
    product = base_covariance + (x - centre).T @ (x - centre)
    np.testing.assert_allclose(
        laws.matrix @ laws.matrix.T, product, rtol=1e-12, atol=1e-12 * np.abs(product).max()
    )


def laws_of_base(case, components):
    """Whitened means and directions of precisions against (M2) and (M3)."""
    n_dims, base, (means, factors) = case.n_dims, case.base, components
    precisions, direction = factors @ factors.transpose(0, 2, 1), np.arange(1.0, n_dims + 1)
    scale = np.linalg.inv(base.dof * base.covariance)
    check_law(
        (means - base.mean)
        @ direction
        / np.sqrt(direction @ np.linalg.solve(base.precision, direction)),
        norm.cdf,
    )
    along = np.einsum("i,kij,j->k", direction, precisions, direction) / (
        direction @ scale @ direction
    )
    check_law(along, chi2(base.dof).cdf)
    log_determinant = (
        digamma((base.dof - np.arange(n_dims)) / 2).sum()
        + n_dims * math.log(2)
        + np.linalg.slogdet(scale)[1]
    )
    check_mean(np.linalg.slogdet(precisions)[1], log_determinant)
    check_mean(
        np.arctan(means - base.mean) * np.arctan(np.trace(precisions, axis1=1, axis2=2))[:, None],
        0.0,
    )


@pytest.mark.parametrize("n_dims", DIMS)
def test_components_from_the_base_follow_it(n_dims):
    """(M2), (M3)"""
    case = Case(n_dims)
    laws_of_base(case, gaussian.draw_from_base(np.random.default_rng(4), N_DRAWS, case.base))


@pytest.mark.parametrize("n_dims", DIMS)
def test_components_are_drawn_into_their_places_only(n_dims):
    case = Case(n_dims)
    components = Components(np.full((6, n_dims), 9.0), np.full((6, n_dims, n_dims), 9.0))
    gaussian.draw_into(np.random.default_rng(4), 2, 5, components, case.base)
    for array, drawn in zip(
        components, gaussian.draw_from_base(np.random.default_rng(4), 3, case.base), strict=True
    ):
        np.testing.assert_array_equal(array[2:5], drawn)
        np.testing.assert_array_equal(array[[0, 1, 5]], 9.0)


@pytest.mark.parametrize("n_dims", DIMS)
def test_empty_components_are_redrawn_from_the_base(n_dims):
    case = Case(n_dims)
    z, means = np.zeros(N_USERS, dtype=np.int64), np.zeros((N_DRAWS + 1, n_dims))
    sums = gaussian.cluster_sums(case.x, z, means, np.empty(0))
    means, factors = gaussian.draw_components(np.random.default_rng(5), sums, case.base)
    laws_of_base(case, Components(means[1:], factors[1:]))


def drawn_wishart(rng, law):
    factor = np.empty_like(law.inverse_scale)
    wishart_factor(rng, law.dof, np.linalg.cholesky(law.inverse_scale), factor)
    return factor


def drawn_normal(rng, law):
    draw = law.linear.copy()
    normal(rng, draw, law.precision.copy())
    return draw


@pytest.mark.parametrize("n_dims", DIMS)
def test_components_are_drawn_one_after_another_from_their_laws(n_dims):
    case, laws = Case(n_dims), Laws(n_dims)
    base, sums = case.base, case.sums
    means, factors = gaussian.draw_components(np.random.default_rng(6), sums, base)
    rng = np.random.default_rng(6)
    for k in range(N_COMPONENTS):
        law = laws.component_precision(base.dof, base.covariance, sums.counts[k], sums.scatters[k])
        np.testing.assert_allclose(factors[k], drawn_wishart(rng, law), rtol=1e-9, atol=1e-12)
        law = laws.component_mean(
            base.mean, base.precision, sums.counts[k], sums.totals[k], factors[k]
        )
        np.testing.assert_allclose(means[k], drawn_normal(rng, law), rtol=1e-9)


@pytest.mark.parametrize("n_dims", DIMS)
def test_base_parameters_are_drawn_each_given_the_newest_others(n_dims):
    case, laws = Case(n_dims), Laws(n_dims)
    means, factors = case.components
    drawn = gaussian.draw_base(np.random.default_rng(7), case.components, case.base)
    rng = np.random.default_rng(7)
    mean = drawn_normal(rng, laws.base_mean(means, case.base.precision))
    precision_factor = drawn_wishart(rng, laws.base_precision(means, mean))
    covariance_factor = drawn_wishart(rng, laws.base_covariance(factors, case.base.dof))
    expected = Base(
        mean,
        precision_factor @ precision_factor.T,
        covariance_factor @ covariance_factor.T,
        case.base.dof,
    )
    for got, wanted in zip(drawn, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_dims", DIMS)
def test_a_view_is_redrawn_scales_first_then_components_then_base(n_dims):
    """The columns of W_0's factor, where there are several, its scale and β; each given the newest
    of the others."""
    case = Case(n_dims)
    base, sums = case.base, case.sums
    drawn = gaussian.redraw_view(np.random.default_rng(11), sums, base)
    rng = np.random.default_rng(11)
    covariance = base.covariance
    base_factor = np.linalg.cholesky(covariance)
    whitened = scales.whiten(sums.scatters, base_factor)
    if n_dims > 1:
        scales.redraw_columns(rng, sums.counts, whitened, base_factor, base.dof)
        covariance = base_factor @ base_factor.T
    roots = scales.scatter_roots(whitened)
    scale, dof = scales.draw_scales(rng, sums.counts, roots, np.trace(covariance), base.dof)
    base = Base(base.mean, base.precision, scale * covariance, dof)
    components = gaussian.draw_components(rng, sums, base)
    expected = components, gaussian.draw_base(rng, components, base)
    for got, wanted in zip(leaves(drawn), leaves(expected), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-13)


def redrawn_from_prior(rng, z, n_dims, n_rounds):
    """A view from its prior with data given it, then rounds given the data: x, components and base
    after them."""
    base = base_of(naive.draw_view(rng, 0, (np.zeros(n_dims), np.eye(n_dims))))
    components = gaussian.draw_from_base(rng, z.max() + 2, base)
    means, factors = components
    x = np.array([means[k] + np.linalg.solve(factors[k].T, rng.standard_normal(n_dims)) for k in z])
    for _ in range(n_rounds):
        components, base = gaussian.redraw_view(
            rng, gaussian.cluster_sums(x, z, components.means, np.empty(0)), base
        )
    return x, components, base


@pytest.mark.slow
@pytest.mark.parametrize("n_dims", [1, 2])
def test_a_view_redrawn_from_its_prior_stays_in_it(n_dims):
    """The last cluster is empty. All these numbers are χ² under the prior."""
    rng, z = np.random.default_rng(9), np.array([0, 0, 0, 1, 1, 0])
    rows = []
    for _ in range(N_DRAWS):
        x, (means, factors), base = redrawn_from_prior(rng, z, n_dims, 3)
        from_base = means - base.mean
        away = np.einsum("ki,ij,kj->k", from_base, base.precision, from_base)
        fit = (np.einsum("uji,uj->ui", factors[z], x - means[z]) ** 2).sum()
        sizes = base.dof * np.einsum("kij,il,klj->k", factors, base.covariance, factors)
        bases = [
            base.mean @ base.mean,
            n_dims * np.trace(base.precision),
            n_dims * np.trace(base.covariance),
        ]
        rows.append(
            [
                *bases,
                n_dims / (base.dof - n_dims + 1),
                *away,
                fit,
                *chi2.cdf(sizes, n_dims * base.dof),
            ]
        )
    columns = np.array(rows).T
    for column, dof in zip(
        columns, [n_dims, n_dims**2, n_dims**2, 1, *3 * [n_dims], 6 * n_dims], strict=False
    ):
        check_law(column, chi2(dof).cdf)
    for ranks in columns[-3:]:
        check_law(ranks, uniform.cdf)


@pytest.mark.slow
def test_a_view_of_no_dimensions_is_left_alone():
    """Nothing is drawn for it, and it adds nothing."""
    rng, z, nothing, terms = (
        stream_of(np.random.default_rng(10)),
        np.array([0, 1, 1, 0]),
        no_view(4, 2),
        Terms.none(4),
    )
    before = rng.copy()
    redrawn = kind.redraw(rng, z, nothing)
    assert [leaf.shape for leaf in redrawn.components] == [(2, 0), (2, 0, 0)]
    assert redrawn.base.dof == nothing.base.dof
    assert kind.rescale_and_shift(rng, z, terms, redrawn).base.dof == nothing.base.dof
    opened = kind.open_columns(rng, 3, 1, True, redrawn)
    assert opened.components.means.shape == (6, 0)
    np.testing.assert_array_equal(rng, before)
    table = np.zeros((6, 4))
    kind.score(table, 0, 0, 4, 2, opened)
    np.testing.assert_array_equal(table, 0.0)
    assert kind.log_density(z, 1.5, opened) == 1.5
    assert kind.base_width(opened) == kind.component_width(opened) == 0
    assert not kind.degenerate(opened)


@pytest.mark.parametrize(
    ("diagonal", "bad"), [([1.0, 1e-27], False), ([1.0, 1e-29], True), ([math.nan, 1.0], True)]
)
def test_a_base_that_has_shrunk_to_nothing_is_noticed(diagonal, bad):
    assert gaussian.degenerate(np.diag(diagonal)) is bad
    assert gaussian.degenerate(np.diag([math.inf, 1.0]))
    assert not gaussian.degenerate(np.empty((0, 0)))


@pytest.mark.parametrize("n_dims", DIMS)
def test_compiled_numbers_are_those_of_python(n_dims):
    case = Case(n_dims)
    scratch = (
        np.linalg.cholesky(case.view.base_covariance),
        np.empty((n_dims, n_dims)),
        np.empty(n_dims),
    )
    pieces = [
        (densities.misfit, case.components.factors[0], case.view.base_covariance, *scratch),
        (densities.log_likelihood, case.x, case.view.means, case.components.factors, np.empty(0)),
        (densities.log_components_prior, case.components, case.base),
        (densities.log_base_prior, case.base),
        (densities.log_view, case.x, case.z, case.components, case.base),
    ]
    for kernel, *arguments in pieces:
        np.testing.assert_array_equal(kernel(*arguments), python_of(kernel)(*arguments))
    draws = [
        (gaussian.draw_components, case.sums, case.base),
        (gaussian.draw_base, case.components, case.base),
        (gaussian.draw_from_base, 3, case.base),
        (gaussian.redraw_view, case.sums, case.base),
    ]
    for kernel, *arguments in draws:
        compiled, plain = (
            f(np.random.default_rng(8), *arguments) for f in (kernel, python_of(kernel))
        )
        for got, wanted in zip(leaves(compiled), leaves(plain), strict=True):
            np.testing.assert_allclose(
                got, wanted, rtol=1e-12
            )  # two libraries for hypot differ in the last digit
