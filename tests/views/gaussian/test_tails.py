"""Clusters with heavy tails: densities against SciPy, conditionals by ratio, draws by their
distributions."""

import numpy as np
import pytest
from scipy import stats

import naive
from dualview.behaviors.families.noise import log_dof_prior
from dualview.numerics.streams import stream_of
from dualview.views import GaussianView
from dualview.views.gaussian import conditionals, density, student_kind, tails
from dualview.views.gaussian.kind import GaussianState
from records import base_of, components_of
from views.gaussian.test_cells import (
    FACTOR,
    INVERSE,
    MEAN,
    component,
    intervals,
    observed,
)
from views.gaussian.test_conditionals import DIMS, Case, Laws, check_ratio
from yardsticks import N_DRAWS, check_law, leaves, python_of

DOF = 2.7


class Weighted(Case):
    """A random view with data and weights, and its log joint at changed values."""

    def __init__(self, n_dims, seed=1):
        super().__init__(n_dims, seed)
        self.weights = self.rng.gamma(1.0, size=len(self.x)) + 0.05
        self.sums = conditionals.cluster_sums(self.x, self.z, self.view.means, self.weights)

    def log_joint(self, **changed):
        """ln p(x, components, base, λ | z, ν), written from (M1) to (M7) and (M19)."""
        values = {"weights": self.weights, "dof": DOF, **changed}
        weights, dof = values.pop("weights"), values.pop("dof")
        view = naive.ViewState(**{**vars(self.view), **values})
        total = naive.log_view_prior(view, (np.zeros(self.n_dims), np.eye(self.n_dims)))
        total += stats.gamma.logpdf(weights, dof / 2.0, scale=2.0 / dof).sum()
        for x, k, weight in zip(self.x, self.z, weights, strict=True):
            covariance = np.linalg.inv(weight * view.precisions[k])
            total += stats.multivariate_normal.logpdf(x, view.means[k], covariance)
        return total


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("dof", [1.2, 3.0, 40.0, 1e7])
def test_the_density_without_the_weight_is_a_t_density(n_dims, dof):
    case = Case(n_dims)
    mean, precision = case.view.means[0], case.view.precisions[0]
    own = case.components.factors[0]
    for x in 10.0 ** np.arange(-1, 4)[:, None] * case.x[:5]:
        expected = stats.multivariate_t(mean, np.linalg.inv(precision), dof).logpdf(x)
        assert density.log_student(x, mean, own, dof) == pytest.approx(expected, rel=1e-8)
    normal = density.log_student(case.x[0], mean, own, np.inf)
    assert normal == pytest.approx(density.log_normal(case.x[0], mean, own), rel=1e-12)


@pytest.mark.parametrize("square", [0.0, 0.3, 1e3, 1e12])
def test_weights_integrate_to_the_t_density(square):
    """∫ N(x | λ) Gamma(λ) dλ by a grid of ln λ, relative to the normal one's constant."""
    places, n_dims = np.linspace(-60.0, 10.0, 20_001), 3
    weights = np.exp(places)
    shares = stats.gamma.pdf(weights, DOF / 2.0, scale=2.0 / DOF) * weights
    values = shares * weights ** (0.5 * n_dims) * np.exp(-0.5 * weights * square)
    found = np.log(values.sum() * (places[1] - places[0]))
    assert tails.log_tails(square, n_dims, DOF) == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize("n_dims", DIMS)
@pytest.mark.parametrize("k", range(4))
def test_components_given_the_weights(n_dims, k):
    """(C24)"""
    case, law = Weighted(n_dims), Laws(n_dims)
    view, sums = case.view, case.sums
    precision = law.component_precision(
        view.base_dof, view.base_covariance, sums.counts[k], sums.scatters[k]
    )
    points = [case.matrix() for _ in range(8)]
    check_ratio(
        lambda p: case.log_joint(**case.component("precisions", k, p)),
        precision.log_density,
        points,
    )
    own = sums.weights[k], sums.totals[k], case.components.factors[k]
    mean = law.component_mean(case.base.mean, case.base.precision, *own)
    points = case.rng.standard_normal((8, n_dims))
    check_ratio(lambda p: case.log_joint(**case.component("means", k, p)), mean.log_density, points)


@pytest.mark.parametrize("n_dims", DIMS)
def test_a_weight_given_its_vector(n_dims):
    """(C23)"""
    case, u = Weighted(n_dims), 5
    k = case.z[u]
    away = case.x[u] - case.view.means[k]
    shape, rate = tails.weight_law(away @ case.view.precisions[k] @ away, n_dims, DOF)

    def joint(weight):
        weights = case.weights.copy()
        weights[u] = weight
        return case.log_joint(weights=weights)

    law = stats.gamma(shape, scale=1.0 / rate)
    check_ratio(joint, law.logpdf, [0.01, 0.3, 1.0, 2.2, 7.0])


@pytest.mark.parametrize("n_dims", DIMS)
def test_degrees_of_freedom_without_the_weights(n_dims):
    """(C25): t densities of all users, the prior, and the Jacobian of the logarithm."""
    case, points = Case(n_dims), [0.01, 0.4, 1.3, 3.0, 6.0]
    squares = squares_of(case)

    def joint(log_dof):
        total = log_dof_prior(np.exp(log_dof)) + log_dof
        for x, k in zip(case.x, case.z, strict=True):
            scale = np.linalg.inv(case.view.precisions[k])
            total += stats.multivariate_t.logpdf(x, case.view.means[k], scale, np.exp(log_dof))
        return total

    check_ratio(joint, lambda p: tails.log_tail_density(p, (squares, n_dims)), points)
    for outside in (-0.1, 0.0, 700.0):
        assert tails.log_tail_density(outside, (squares, n_dims)) == -np.inf


def squares_of(case):
    away = case.x - case.view.means[case.z]
    return np.einsum("ui,uij,uj->u", away, case.view.precisions[case.z], away)


def record(case):
    """A view of heavy tails with the numbers of a case."""
    view = GaussianView(case.n_dims, heavy_tails=True)
    state = GaussianState(components_of(case.view), base_of(case.view), tail_dof=DOF)
    return view, state, view.record(state, case.x, np.ascontiguousarray(case.x.T))


@pytest.mark.parametrize("n_dims", DIMS)
def test_the_density_of_a_view_has_the_weights_integrated_out(n_dims):
    case = Weighted(n_dims)
    view, state, own = record(case)

    def joint(p):
        """By the normal densities given the weights, over those of the weights given the rest."""
        total = case.log_joint(dof=p) + np.log(p) - 0.1 * p
        for square, weight in zip(squares_of(case), case.weights, strict=True):
            shape, rate = tails.weight_law(square, n_dims, p)
            total -= stats.gamma.logpdf(weight, shape, scale=1.0 / rate)
        return total

    points = [1.1, 2.0, 5.0, 30.0]
    check_ratio(joint, lambda p: view.log_joint(state._replace(tail_dof=p), case.x, case.z), points)
    found = student_kind.log_density(case.z, 1.5, own)
    assert found == pytest.approx(1.5 + view.log_joint(state, case.x, case.z), rel=1e-12)
    base = state.base_parts
    at = [view.log_base(base | {"tail_dof": p}) for p in (0.9, 2.0, 5.0)]
    assert at[0] == -np.inf
    assert at[1] - at[2] == pytest.approx(log_dof_prior(2.0) - log_dof_prior(5.0))


@pytest.mark.parametrize("n_dims", DIMS)
def test_redrawing_gives_weights_their_conditional_distribution(n_dims):
    """Weights given the ν that was drawn with them: gamma numbers by their distribution functions
    are uniform."""
    case = Case(n_dims)
    _, _, own = record(case)
    rng, levels, squares = stream_of(np.random.default_rng(2)), [], squares_of(case)
    for _ in range(N_DRAWS // 10):
        redrawn = student_kind.redraw(rng, case.z, own)
        shape, rates = 0.5 * (redrawn.tail_dof + n_dims), 0.5 * (redrawn.tail_dof + squares)
        levels += list(stats.gamma.cdf(redrawn.weights, shape, scale=1.0 / rates))
    check_law(levels, stats.uniform.cdf)


def table_record(seed=0):
    """A table with missing cells and intervals, with heavy tails."""
    x, values, known = observed(seed)
    view = GaussianView(3, intervals=known, heavy_tails=True)
    state = view.draw_prior(np.random.default_rng(seed), 2)
    state = state._replace(cells=known.values(x), tail_dof=DOF)
    return view.record(state, x, np.ascontiguousarray(x.T)), values


def test_the_choice_sees_the_t_density_of_what_is_not_missing():
    view, values = table_record()
    mean, factor, centre, precision = component(np.random.default_rng(3))
    view.components.means[1], view.components.factors[1] = mean, factor
    scale = np.linalg.inv(precision)
    table = np.full((2, 6), 0.25)
    student_kind.score(table, 0, 0, 6, 1, view)
    hidden = intervals().is_missing
    for u in range(6):
        seen = np.flatnonzero(~hidden[u])
        expected = 0.25
        if len(seen):
            law = stats.multivariate_t(centre[seen], scale[np.ix_(seen, seen)], DOF)
            expected += law.logpdf(values[u, seen])
        found = table[1, u] + np.log(np.linalg.det(INVERSE))
        assert found == pytest.approx(expected, rel=1e-9)


def test_missing_cells_are_drawn_with_their_weight():
    """User 1 misses two of three cells: given the third each has a t distribution, with one degree
    of freedom more."""
    view, values = table_record()
    mean, factor, centre, precision = component(np.random.default_rng(3))
    view.components.means[1], view.components.factors[1] = mean, factor
    values = values.copy()
    view.cells.values[1, 0] = values[1, 0] = centre[0] + 4.0
    student_kind.complete(stream_of(np.random.default_rng(0)), 1, 1, view)  # from the new value
    rng, draws = stream_of(np.random.default_rng(5)), np.empty((N_DRAWS, 3))
    for row in draws:
        student_kind.complete(rng, 1, 1, view)
        row[:] = view.cells.values[1]
    scale = np.linalg.inv(precision)
    slopes = scale[1:, 0] / scale[0, 0]
    rest = scale[1:, 1:] - np.outer(slopes, scale[0, 1:])
    by = (DOF + 4.0**2 / scale[0, 0]) / (DOF + 1.0)
    for i in range(2):
        law = stats.t(DOF + 1.0, centre[1 + i] + 4.0 * slopes[i], np.sqrt(by * rest[i, i]))
        check_law(draws[:, 1 + i], law.cdf)
    np.testing.assert_allclose(MEAN + view.vectors @ FACTOR.T, view.cells.values)


def test_a_user_of_whom_nothing_is_seen_has_the_weight_of_the_prior():
    view, _ = table_record()
    mean, factor = view.components.means[0], view.components.factors[0]
    rng = stream_of(np.random.default_rng(1))
    draws = [student_kind.draw_own_weight(rng, 3, mean, factor, view) for _ in range(N_DRAWS)]
    check_law(draws, stats.gamma(DOF / 2.0, scale=2.0 / DOF).cdf)


def test_simulated_vectors_have_t_distributions():
    rng = np.random.default_rng(4)
    view = GaussianView(2, heavy_tails=True)
    state = view.draw_prior(rng, 1)._replace(tail_dof=DOF)
    drawn = view.simulate(rng, state, np.zeros(N_DRAWS, dtype=np.int64))
    scale = np.linalg.inv(state.components.factors[0] @ state.components.factors[0].T)
    for i in range(2):
        law = stats.t(DOF, state.components.means[0, i], np.sqrt(scale[i, i]))
        check_law(drawn[:, i], law.cdf)
    dofs = [view.draw_prior(rng, 1).tail_dof for _ in range(N_DRAWS)]
    grid = np.linspace(1.0, 300.0, 100_001)
    heights = np.exp(log_dof_prior(grid))
    check_law(dofs, lambda at: np.interp(at, grid, np.cumsum(heights) / heights.sum()))


def test_auxiliary_components_keep_their_means():
    case = Case(2)
    _, _, own = record(case)
    opened = student_kind.open_columns(stream_of(np.random.default_rng(0)), 3, 1, True, own)
    assert opened.cores.shape[0] == 0
    assert opened.tail_dof == DOF
    assert np.ptp(opened.components.means[4:7], axis=0).min() > 0.0


@pytest.mark.parametrize("n_dims", DIMS)
def test_compiled_numbers_are_those_of_python(n_dims):
    case = Weighted(n_dims)
    _, _, own = record(case)
    squares, table = squares_of(case), np.zeros((4, len(case.x)))
    pieces = [
        (tails.log_tails, 1.3, n_dims, DOF),
        (tails.log_tail_density, 1.1, (squares, n_dims)),
        (student_kind.squares_of, case.z, own),
        (density.log_student, case.x[0], case.view.means[0], case.components.factors[0], DOF),
        (student_kind.log_density, case.z, 0.5, own),
    ]
    for kernel, *arguments in pieces:
        np.testing.assert_allclose(
            kernel(*arguments), python_of(kernel)(*arguments), rtol=1e-14, atol=1e-300
        )
    student_kind.score(table, 0, 0, len(case.x), 1, own)
    other = np.zeros_like(table)
    python_of(student_kind.score)(other, 0, 0, len(case.x), 1, own)
    np.testing.assert_allclose(table, other, rtol=1e-14)
    compiled, plain = (
        f(np.random.default_rng(8), case.z, own)
        for f in (student_kind.redraw, python_of(student_kind.redraw))
    )
    for got, wanted in zip(leaves(compiled), leaves(plain), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_weighted_sums_are_plain_sums():
    case = Weighted(3)
    for k in range(4):
        own = case.z == k
        weights, x = case.weights[own], case.x[own]
        away = x - case.view.means[k]
        assert case.sums.counts[k] == own.sum()
        np.testing.assert_allclose(case.sums.weights[k], weights.sum())
        np.testing.assert_allclose(case.sums.totals[k], weights @ x, atol=1e-14)
        factor = case.sums.scatters[k]
        np.testing.assert_allclose(factor @ factor.T, (weights * away.T) @ away, atol=1e-12)
