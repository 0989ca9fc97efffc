"""Auxiliary components without their means: what is integrated out, what is drawn, and digits at
extreme precisions."""

import numpy as np
import pytest

import naive
from checks import mutate
from dualview.numerics.hyperprior import PUBLISHED
from dualview.numerics.streams import stream_of
from dualview.views.base import Base, Components
from dualview.views.gaussian import auxiliary, kind
from dualview.views.gaussian.conditionals import draw_from_base
from yardsticks import positive_definite, python_of, upper_factor


class Auxiliary:
    """A component in column 1 of three, and the base it comes from."""

    def __init__(self, n_dims, seed=0):
        self.rng = np.random.default_rng([seed, n_dims])
        means = self.rng.standard_normal((3, n_dims))
        factors = np.array([upper_factor(positive_definite(self.rng, n_dims)) for _ in range(3)])
        self.components = Components(means, factors)
        self.base = Base(
            self.rng.standard_normal(n_dims),
            positive_definite(self.rng, n_dims),
            np.eye(n_dims),
            n_dims + 1.0,
        )
        self.cores = np.zeros((3, n_dims, n_dims))
        self.precision = factors[1] @ factors[1].T

    def marginalise(self, kernel=auxiliary.marginalise_mean):
        """The law that its column then has."""
        kernel(1, self.components, self.cores, self.base)
        factor = self.components.factors[1]
        return self.components.means[1], factor @ factor.T

    def view(self, cores):
        n_dims = len(self.base.mean)
        return kind.Gaussian(
            np.ones((2, n_dims)), np.ones((n_dims, 2)), self.components, cores, self.base, PUBLISHED
        )

    def log_without_mean(self, x):
        """ln p(x | S) = ln p(x | μ, S) + ln p(μ) − ln p(μ | x, S), for any μ."""
        mean, base = self.rng.standard_normal(len(x)), self.base
        total = self.precision + base.precision
        expected = np.linalg.solve(total, self.precision @ x + base.precision @ base.mean)
        joint = naive.log_normal(x, mean, self.precision) + naive.log_normal(
            mean, base.mean, base.precision
        )
        return joint - naive.log_normal(mean, expected, total)


@pytest.mark.parametrize("n_dims", [1, 2, 5])
def test_an_auxiliary_component_is_the_joint_without_its_mean(n_dims):
    case = Auxiliary(n_dims)
    law = case.marginalise()
    for x in 3.0 * case.rng.standard_normal((20, n_dims)):
        np.testing.assert_allclose(naive.log_normal(x, *law), case.log_without_mean(x), rtol=1e-10)


def test_a_mutant_is_not():
    case = Auxiliary(2)
    law = case.marginalise(
        mutate(auxiliary.marginalise_mean, "add_to_cholesky(spread, vector)", "vector[0] = 0.0")
    )
    x = case.rng.standard_normal(2)
    assert abs(naive.log_normal(x, *law) - case.log_without_mean(x)) > 0.01


@pytest.mark.parametrize("n_dims", [1, 3])
def test_only_its_column_changes_and_the_core_keeps_the_precision(n_dims):
    case, before = Auxiliary(n_dims), Auxiliary(n_dims)
    case.marginalise()
    for part, old in zip(case.components, before.components, strict=True):
        np.testing.assert_array_equal(np.delete(part, 1, 0), np.delete(old, 1, 0))
    np.testing.assert_array_equal(case.cores[1], before.components.factors[1])
    np.testing.assert_array_equal(case.cores[[0, 2]], 0.0)
    np.testing.assert_array_equal(np.tril(case.components.factors[1], -1), 0.0)


def test_without_cores_nothing_happens():
    case, before = Auxiliary(2), Auxiliary(2)
    view, rng = case.view(np.empty((0, 2, 2))), np.random.default_rng(1)
    kind.retire(1, view)
    kind.adopt(rng, 0, 1, view)
    for part, old in zip(case.components, before.components, strict=True):
        np.testing.assert_array_equal(part, old)
    assert rng.random() == np.random.default_rng(1).random()


def test_a_view_with_cores_gives_up_means_and_gets_them_back():
    case, other = Auxiliary(2), Auxiliary(2)
    kind.retire(1, case.view(case.cores))
    other.marginalise()
    for part, wanted in zip(
        (*case.components, case.cores), (*other.components, other.cores), strict=True
    ):
        np.testing.assert_array_equal(part, wanted)
    kind.adopt(np.random.default_rng(1), 0, 1, case.view(case.cores))
    auxiliary.draw_mean(
        np.random.default_rng(1), 1, np.ones(2), other.components, other.cores, other.base
    )
    for part, wanted in zip(case.components, other.components, strict=True):
        np.testing.assert_array_equal(part, wanted)


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e6, 1e12])
def test_digits_are_kept_where_one_direction_is_far_sharper_than_another(size):
    """In two independent directions the law is known: variances 1/s + 1/r."""
    case = Auxiliary(2)
    case.components.factors[1] = np.diag([1.0, size])
    case.base = case.base._replace(precision=np.diag([4.0, 0.25]))
    _, precision = case.marginalise()
    expected = np.diag(1.0 / np.array([1.0 + 0.25, size**-2.0 + 4.0]))
    np.testing.assert_allclose(precision, expected, rtol=1e-12)


@pytest.mark.parametrize("n_dims", [1, 2, 4])
def test_the_mean_of_an_opened_cluster_is_drawn_given_one_vector(n_dims):
    """(C2) with a count of one; draws are affine in their noise."""
    case = Auxiliary(n_dims)
    x, base = case.rng.standard_normal(n_dims), case.base
    total = case.precision + base.precision
    expected = np.linalg.solve(total, case.precision @ x + base.precision @ base.mean)
    case.marginalise()
    drawn = []
    for kernel in (auxiliary.draw_mean, python_of(auxiliary.draw_mean)):
        kernel(np.random.default_rng(3), 1, x, case.components, case.cores, base)
        drawn.append(case.components.means[1].copy())
    noise = np.random.default_rng(3).standard_normal(n_dims)
    np.testing.assert_allclose(
        drawn[0], expected + np.linalg.solve(np.linalg.cholesky(total).T, noise), rtol=1e-9
    )
    np.testing.assert_allclose(drawn[0], drawn[1], rtol=1e-12)
    factor = case.components.factors[1]
    np.testing.assert_allclose(factor @ factor.T, case.precision, rtol=1e-12)


@pytest.mark.parametrize("n_dims", [1, 3])
def test_compiled_is_plain(n_dims):
    one, other = Auxiliary(n_dims), Auxiliary(n_dims)
    one.marginalise()
    other.marginalise(python_of(auxiliary.marginalise_mean))
    np.testing.assert_allclose(one.components.factors, other.components.factors, rtol=1e-12)


@pytest.mark.parametrize(
    "kernel", [auxiliary.marginalise_mean, python_of(auxiliary.marginalise_mean)]
)
@pytest.mark.parametrize("n_dims", [1, 3])
def test_a_component_too_wide_for_numbers_stays_as_it_is(n_dims, kernel):
    case = Auxiliary(n_dims)
    case.components.factors[1, 0, 0] = 0.0
    before = case.components.factors.copy()
    case.marginalise(kernel)
    np.testing.assert_array_equal(case.components.factors, before)
    np.testing.assert_array_equal(case.cores[1], before[1])
    np.testing.assert_array_equal(case.components.means[1], case.base.mean)


@pytest.mark.parametrize("n_dims", [1, 8])
def test_auxiliary_components_of_a_base_next_to_its_bound_have_no_nan(n_dims):
    """β − D + 1 = 0.004: a χ² with hardly any degrees of freedom is nearly always too small for a
    number."""
    x = np.random.default_rng(4).standard_normal((5, n_dims))
    base = Base(np.zeros(n_dims), np.eye(n_dims), np.eye(n_dims), n_dims - 1 + 0.004)
    none = Components(np.empty((0, n_dims)), np.empty((0, n_dims, n_dims)))
    empty = kind.Gaussian(
        x, np.ascontiguousarray(x.T), none, np.empty((0, n_dims, n_dims)), base, PUBLISHED
    )
    tables = []
    for seed in range(50):
        view = kind.open_columns(stream_of(np.random.default_rng(seed)), 3, 0, True, empty)
        assert view.cores.shape == (3, n_dims, n_dims)
        table = np.zeros((3, 5))
        for column in range(3):
            kind.score(table, 0, 0, 5, column, view)
        tables.append(table)
    assert not np.isnan(tables).any()
    assert (np.max(tables, axis=(1, 2)) < np.inf).all()
    assert 0 < np.count_nonzero(np.isinf(tables)) < np.size(tables)


@pytest.mark.parametrize("n_dims", [0, 2])
@pytest.mark.parametrize("marginal", [True, False])
def test_opened_columns_are_those_there_were_auxiliary_ones_and_room(n_dims, marginal):
    case, rng = Auxiliary(n_dims), np.random.default_rng(5)
    view = kind.open_columns(rng, 2, 4, marginal, case.view(case.cores))
    assert [part.shape for part in view.components] == [(9, n_dims), (9, n_dims, n_dims)]
    for part, old in zip(view.components, case.components, strict=True):
        np.testing.assert_array_equal(part[:3], old)
    other = np.random.default_rng(5)
    drawn = draw_from_base(other, 2, case.base)
    assert rng.random() == other.random()
    assert len(view.cores) == (9 if marginal and n_dims else 0)
    if marginal and n_dims:
        np.testing.assert_array_equal(view.cores[3:5], drawn.factors)
        for column in range(2):
            auxiliary.marginalise_mean(column, drawn, np.empty_like(drawn.factors), case.base)
    for part, wanted in zip(view.components, drawn, strict=True):
        np.testing.assert_array_equal(part[3:5], wanted)
