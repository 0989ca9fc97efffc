"""Members of the pool without their means: what is integrated out, what is drawn, and digits at extreme precisions."""

import numpy as np
import pytest

import naive
from checks import mutate
from dualview.engines.gibbs.assignment import fill
from dualview.engines.gibbs.sweep import with_pool
from dualview.numerics.streams import stream_of
from dualview.views.gaussian import auxiliary as pool
from yardsticks import positive_definite, python_of, upper_factor


class Member:
    """A component in column 1 of three, and the base it comes from."""

    def __init__(self, n_dims, seed=0):
        self.rng = np.random.default_rng([seed, n_dims])
        self.means = self.rng.standard_normal((3, n_dims))
        self.factors = np.array([upper_factor(positive_definite(self.rng, n_dims)) for _ in range(3)])
        self.base = self.rng.standard_normal(n_dims), positive_definite(self.rng, n_dims), np.eye(n_dims), n_dims + 1.0
        self.core = np.zeros((3, n_dims, n_dims))
        self.precision = self.factors[1] @ self.factors[1].T

    def cover(self, kernel=pool.cover):
        kernel(1, self.means, self.factors, self.core, self.base)
        return self.means[1], self.factors[1] @ self.factors[1].T

    def log_without_mean(self, x):
        """ln p(x | S) = ln p(x | μ, S) + ln p(μ) − ln p(μ | x, S), for any μ."""
        mean, (base_mean, base_precision, *_) = self.rng.standard_normal(len(x)), self.base
        total = self.precision + base_precision
        expected = np.linalg.solve(total, self.precision @ x + base_precision @ base_mean)
        joint = naive.log_normal(x, mean, self.precision) + naive.log_normal(mean, base_mean, base_precision)
        return joint - naive.log_normal(mean, expected, total)


@pytest.mark.parametrize("n_dims", [1, 2, 5])
def test_a_covered_member_is_the_joint_without_its_mean(n_dims):
    member = Member(n_dims)
    law = member.cover()
    for x in 3.0 * member.rng.standard_normal((20, n_dims)):
        np.testing.assert_allclose(naive.log_normal(x, *law), member.log_without_mean(x), rtol=1e-10)


def test_a_mutant_is_not():
    member = Member(2)
    law = member.cover(mutate(pool.cover, "add_to_cholesky(spread, vector)", "vector[0] = 0.0"))
    x = member.rng.standard_normal(2)
    assert abs(naive.log_normal(x, *law) - member.log_without_mean(x)) > 0.01


@pytest.mark.parametrize("n_dims", [1, 3])
def test_only_its_column_changes_and_the_core_keeps_the_precision(n_dims):
    member, before = Member(n_dims), Member(n_dims)
    member.cover()
    for part in ("means", "factors"):
        np.testing.assert_array_equal(np.delete(getattr(member, part), 1, 0), np.delete(getattr(before, part), 1, 0))
    np.testing.assert_array_equal(member.core[1], before.factors[1])
    np.testing.assert_array_equal(member.core[[0, 2]], 0.0)
    np.testing.assert_array_equal(np.tril(member.factors[1], -1), 0.0)


def test_without_a_core_nothing_happens():
    member, before = Member(2), Member(2)
    member.core = np.empty((0, 2, 2))
    member.cover()
    rng = np.random.default_rng(1)
    pool.uncover(rng, 1, np.ones(2), member.means, member.factors, member.core, member.base)
    np.testing.assert_array_equal(member.factors, before.factors)
    np.testing.assert_array_equal(member.means, before.means)
    assert rng.random() == np.random.default_rng(1).random()


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e6, 1e12])
def test_digits_are_kept_where_one_direction_is_far_sharper_than_another(size):
    """In two independent directions the law is known: variances 1/s + 1/r."""
    member = Member(2)
    member.factors[1] = np.diag([1.0, size])
    member.base = member.base[0], np.diag([4.0, 0.25]), *member.base[2:]
    _, precision = member.cover()
    expected = np.diag(1.0 / np.array([1.0 + 0.25, size**-2.0 + 4.0]))
    np.testing.assert_allclose(precision, expected, rtol=1e-12)


@pytest.mark.parametrize("n_dims", [1, 2, 4])
def test_the_mean_of_an_opened_cluster_is_drawn_given_one_vector(n_dims):
    """(C2) with a count of one; draws are affine in their noise."""
    member = Member(n_dims)
    x = member.rng.standard_normal(n_dims)
    base_mean, base_precision, *_ = member.base
    total = member.precision + base_precision
    expected = np.linalg.solve(total, member.precision @ x + base_precision @ base_mean)
    member.cover()
    drawn = []
    for kernel in (pool.uncover, python_of(pool.uncover)):
        rng = np.random.default_rng(3)
        kernel(rng, 1, x, member.means, member.factors, member.core, member.base)
        drawn.append(member.means[1].copy())
    noise = np.random.default_rng(3).standard_normal(n_dims)
    np.testing.assert_allclose(drawn[0], expected + np.linalg.solve(np.linalg.cholesky(total).T, noise), rtol=1e-9)
    np.testing.assert_allclose(drawn[0], drawn[1], rtol=1e-12)
    np.testing.assert_allclose(member.factors[1] @ member.factors[1].T, member.precision, rtol=1e-12)


@pytest.mark.parametrize("n_dims", [1, 3])
def test_compiled_is_plain(n_dims):
    one, other = Member(n_dims), Member(n_dims)
    one.cover()
    other.cover(python_of(pool.cover))
    np.testing.assert_allclose(one.factors, other.factors, rtol=1e-12)


@pytest.mark.parametrize("kernel", [pool.cover, python_of(pool.cover)])
@pytest.mark.parametrize("n_dims", [1, 3])
def test_a_member_too_wide_for_numbers_stays_as_it_is(n_dims, kernel):
    member = Member(n_dims)
    member.factors[1, 0, 0] = 0.0
    before = member.factors.copy()
    member.cover(kernel)
    np.testing.assert_array_equal(member.factors, before)
    np.testing.assert_array_equal(member.core[1], before[1])
    np.testing.assert_array_equal(member.means[1], member.base[0])


@pytest.mark.parametrize("n_dims", [1, 8])
def test_pools_of_a_base_next_to_its_bound_have_no_nan(n_dims):
    """β − D + 1 = 0.004: a χ² with hardly any degrees of freedom is nearly always too small for a number."""
    rng = np.random.default_rng(4)
    base = np.zeros(n_dims), np.eye(n_dims), np.eye(n_dims), n_dims - 1 + 0.004
    x = rng.standard_normal((n_dims, 5))
    tables = []
    for seed in range(50):
        stream = stream_of(np.random.default_rng(seed))
        means, factors, _ = with_pool(stream, np.empty((0, n_dims)), np.empty((0, n_dims, n_dims)), 3, 0, base, True)
        table = np.empty((3, 5))
        fill(table, 0, 3, x, np.zeros(3, dtype=np.int64), means, factors)
        tables.append(table)
    assert not np.isnan(tables).any()
    assert (np.max(tables, axis=(1, 2)) < np.inf).all()
    assert 0 < np.count_nonzero(np.isinf(tables)) < np.size(tables)
