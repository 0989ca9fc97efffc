"""Vectors that the users of a cluster share: their conditional, its draw, and a user's choice among
them."""

import itertools
import math
from copy import copy

import numpy as np
import pytest

import naive
from dualview.distributions import Normal, Wishart
from dualview.engines.gibbs.moves.assignment import assign
from dualview.numerics.draws import normal
from dualview.numerics.hyperprior import PUBLISHED
from dualview.numerics.linalg import by_component
from dualview.numerics.streams import stream_of
from dualview.views.gaussian import conditionals as gaussian
from dualview.views.shared import conditionals as shared
from dualview.views.shared import kind as shared_kind
from dualview.views.shared.conditionals import Effects, Members, log_shared
from dualview.views.shared.kind import SharedVector
from engines.gibbs.columns import (
    Columns,
    Twin,
    Z,
    finite,
    implied,
    precision,
    process,
    shares,
    stream_with,
)
from numerics.observations import Observations
from views.gaussian.test_conditionals import check_ratio
from yardsticks import check_constant, check_mean, positive_definite, python_of, upper_factor

KINDS = [(1, "gram"), *itertools.product([1, 2, 3], ["common", "own"])]
N_COMPONENTS = 5  # the last one is empty


@pytest.fixture(autouse=True)
def numbers_run_over():
    """Plain Python warns of words of streams that wrap around."""
    with np.errstate(over="ignore", invalid="ignore"):
        yield


class Case:
    """Nine users of four clusters, and a fifth cluster that is empty."""

    def __init__(self, n_dims, kind, seed=1):
        self.rng = np.random.default_rng([n_dims, seed])
        self.n_dims, self.z = n_dims, np.array([0, 2, 1, 0, 3, 0, 1, 0, 2])
        self.observations = Observations(self.rng, len(self.z), n_dims, kind)
        self.means = self.rng.standard_normal((N_COMPONENTS, n_dims))
        self.base_mean, self.base_precision = (
            self.rng.standard_normal(n_dims),
            positive_definite(self.rng, n_dims),
        )

    @property
    def view(self):
        """As the sampler sees it, with vectors that may change."""
        return SharedVector(
            self.means[self.z], self.means, self.base_mean, self.base_precision, PUBLISHED
        )

    def log_joint(self, means, base_mean=None, base_precision=None):
        """From the model: every user has its cluster's vector."""
        mean = self.base_mean if base_mean is None else base_mean
        matrix = self.base_precision if base_precision is None else base_precision
        constants = np.zeros(self.n_dims), np.eye(self.n_dims)
        return naive.log_pooled_prior(
            means, mean, matrix, constants
        ) + self.observations.log_likelihood(means[self.z])

    def law(self, first, end):
        """The law of a group's step."""
        view, size = self.view, (end - first) * self.n_dims
        terms, members = (
            self.observations.terms(view.vectors),
            Members(*by_component(self.z, N_COMPONENTS), self.z),
        )
        step, matrix, n_rows = np.zeros(size), np.zeros((size, size)), len(terms.residual)
        if len(terms.gram):
            shared.equations_of_gram(first, end, members, view.vectors, terms, step, matrix)
        else:
            effects = Effects(
                np.zeros((n_rows, size)), np.empty(n_rows, dtype=int), np.zeros(n_rows, dtype=bool)
            )
            n_touched = shared.gather(first, end, members, terms, effects)
            shared.equations(n_touched, terms, effects, step, matrix)
        shared.add_prior(first, end, self.means, view, step, matrix)
        return Normal(step, np.tril(matrix) + np.tril(matrix, -1).T)

    def dense_law(self):
        """Mean and precision of all f_k together, from one design of clusters."""
        members = np.eye(N_COMPONENTS)[self.z]
        merged = copy(self.observations)
        merged.design = np.einsum("tui,uk->tki", self.observations.design, members)
        return merged.posterior(
            np.tile(self.base_mean, (N_COMPONENTS, 1)),
            np.tile(self.base_precision, (N_COMPONENTS, 1, 1)),
        )

    def redraw(self, rng, kernel=shared_kind.redraw_latent):
        """The view after a redraw, and the residuals."""
        view = self.view
        terms = self.observations.terms(view.vectors)
        return kernel(rng, self.z, terms, view), terms.residual


@pytest.mark.parametrize(("n_dims", "kind"), KINDS)
@pytest.mark.parametrize(
    "group", [(0, 5), (1, 3), (2, 3), (4, 5)], ids=["all", "two", "one", "an empty one"]
)
def test_the_law_of_shared_vectors_is_the_joints(n_dims, kind, group):
    case, (first, end) = Case(n_dims, kind), group

    def joint(step):
        means = case.means.copy()
        means[first:end] += step.reshape(-1, n_dims)
        return case.log_joint(means)

    points = case.rng.standard_normal((12, (end - first) * n_dims))
    check_ratio(joint, case.law(first, end).log_density, points)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_the_base_has_the_joints_laws(n_dims):
    """(C3) and (C4) over the shared vectors."""
    case = Case(n_dims, "common")
    vector, matrix, scratch = np.empty(n_dims), np.empty((n_dims, n_dims)), np.empty(n_dims)
    gaussian.base_mean_law(case.means, case.base_precision, vector, matrix)
    points = case.rng.standard_normal((12, n_dims))
    check_ratio(
        lambda m: case.log_joint(case.means, base_mean=m),
        Normal(vector, matrix).log_density,
        points,
    )
    dof = gaussian.base_precision_law(case.means, case.base_mean, matrix, scratch)
    matrices = [positive_definite(case.rng, n_dims) for _ in range(12)]
    law = Wishart(dof, matrix @ matrix.T)
    check_ratio(lambda m: case.log_joint(case.means, base_precision=m), law.log_density, matrices)


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_the_log_density_is_the_naive_one_up_to_one_constant(n_dims):
    case = Case(n_dims, "common")
    states = [
        (
            case.rng.standard_normal((n, n_dims)),
            case.rng.standard_normal(n_dims),
            positive_definite(case.rng, n_dims),
        )
        for n in (1, 2, 5, 5, 9)
    ]
    constants = np.zeros(n_dims), np.eye(n_dims)
    expected = np.array([naive.log_pooled_prior(*state, constants) for state in states])
    found = np.array([log_shared(*state) for state in states])
    assert np.ptp(expected) > 1.0
    check_constant(found - expected, np.abs(expected).max(), condition=10.0)


@pytest.mark.parametrize(("n_dims", "kind"), KINDS)
def test_a_joint_draw_is_the_dense_one_with_the_same_numbers(n_dims, kind):
    """All five components fit in one group: the draw is that of one dense normal law."""
    case = Case(n_dims, kind)
    rng, other = np.random.default_rng(3), np.random.default_rng(3)
    view, residual = case.redraw(rng)
    mean, matrix = case.dense_law()
    linear = matrix @ (mean - case.means.ravel())
    normal(other, linear, matrix)
    np.testing.assert_allclose(
        view.means, case.means + linear.reshape(view.means.shape), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_array_equal(view.vectors, view.means[case.z])
    if kind != "gram":
        np.testing.assert_allclose(residual, case.observations.residual(view.vectors), atol=1e-10)


def check_compiled(case, rtol):
    """Draws of compiled code are those of Python; returns the view."""
    redrawn, drawn = [], []
    for vectors, all_of_it in (
        (shared.draw_vectors, shared_kind.redraw_latent),
        (python_of(shared.draw_vectors), python_of(shared_kind.redraw_latent)),
    ):
        view, residual = case.redraw(np.random.default_rng(2), all_of_it)
        redrawn.append((*view[:-1], residual))
        drawn.append(case.redraw(np.random.default_rng(2), vectors))
    for compiled, plain in itertools.chain(zip(*redrawn, strict=True), zip(*drawn, strict=True)):
        np.testing.assert_allclose(compiled, plain, rtol=rtol)
    return view


@pytest.mark.parametrize(("n_dims", "kind"), KINDS)
def test_compiled_draws_are_those_of_python(n_dims, kind):
    check_compiled(Case(n_dims, kind), 1e-12)


@pytest.mark.parametrize(("n_dims", "kind"), [(1, "gram"), (1, "common"), (3, "own")])
def test_compiled_draws_of_many_groups_are_those_of_python(n_dims, kind):
    case = Case(n_dims, kind)
    case.z = case.rng.integers(0, 40, 60)
    case.observations = Observations(case.rng, 60, n_dims, kind, n_outcomes=25)
    case.means = case.rng.standard_normal((40, n_dims))
    assert 40 * n_dims > 2 * shared.WIDTH
    view = check_compiled(case, 1e-9)
    np.testing.assert_array_equal(view.vectors, view.means[case.z])


@pytest.mark.parametrize(("n_dims", "kind"), [(1, "gram"), (1, "common"), (2, "own")])
def test_groups_take_their_turn(n_dims, kind, monkeypatch):
    """Groups of two components: each draw is the dense conditional given the groups as they then
    are."""
    case = Case(n_dims, kind)
    monkeypatch.setattr(shared, "WIDTH", 2 * n_dims)
    rng, other = np.random.default_rng(5), np.random.default_rng(5)
    view = case.view
    terms = case.observations.terms(view.vectors)
    means = python_of(shared.draw_vectors)(rng, case.z, terms, view)
    mean, matrix = case.dense_law()
    expected = case.means.ravel().copy()
    for first in range(0, N_COMPONENTS * n_dims, 2 * n_dims):
        own = slice(first, first + 2 * n_dims)
        linear, own_matrix = (matrix @ (mean - expected))[own], matrix[own, own].copy()
        normal(other, linear, own_matrix)
        expected[own] += linear
    np.testing.assert_allclose(means.ravel(), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(view.vectors, means[case.z])
    if kind != "gram":
        np.testing.assert_allclose(
            terms.residual, case.observations.residual(view.vectors), atol=1e-10
        )


@pytest.mark.parametrize("kind", ["common", "gram"])
def test_clusters_that_cannot_be_told_apart_are_drawn_one_by_one(kind):
    """Two clusters with the same part in every outcome, known to many digits: no factor of their
    joint law has any."""
    case = Case(1, kind)
    case.z = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0])
    case.means = case.rng.standard_normal((2, 1))
    case.observations.design[:, 1::2] = case.observations.design[:, :-1:2]
    case.observations.design[:, -1] = 0.0
    case.observations.precision = np.array([1e13])
    case.observations.redraw(case.rng, case.means[case.z])
    rng, other = np.random.default_rng(5), np.random.default_rng(5)
    view, _ = case.redraw(rng)
    effect = case.observations.design[:, ::2, 0].sum(axis=1)
    matrix = case.base_precision + 1e13 * effect @ effect
    expected = case.means.copy()
    for k in range(2):
        pull = 1e13 * effect @ (case.observations.outcome - effect * expected.sum())
        linear = np.ravel(pull + case.base_precision @ (case.base_mean - expected[k]))
        normal(other, linear, matrix.copy())
        expected[k] += linear
    np.testing.assert_allclose(view.means, expected, rtol=1e-6)
    assert np.isfinite(view.means).all()


@pytest.mark.parametrize("n_dims", [1, 2, 4])
def test_the_prior_of_components_is_the_bases(n_dims):
    case = Case(n_dims, "common")
    for kernel in (shared.prior_of, python_of(shared.prior_of)):
        means, factors = kernel(3, case.base_mean, case.base_precision)
        np.testing.assert_array_equal(means, np.tile(case.base_mean, (3, 1)))
        np.testing.assert_allclose(
            factors, np.tile(upper_factor(case.base_precision), (3, 1, 1)), rtol=1e-12, atol=1e-15
        )


def test_empty_clusters_come_from_their_prior():
    case = Case(2, "own")
    draws = np.array(
        [case.redraw(stream_of(np.random.default_rng(seed)))[0].means[-1] for seed in range(2000)]
    )
    check_mean(draws, case.base_mean)
    away = draws - case.base_mean
    check_mean(np.einsum("ni,nj->nij", away, away), np.linalg.inv(case.base_precision))


class SharedColumns(Columns):
    """Columns whose latent means are vectors that users share."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.latent = self.latent_components.means[self.z]
        self.terms = self.observations.terms(self.latent)

    @property
    def latent_view(self):
        base = self.latent_base
        return SharedVector(
            self.latent, self.latent_components.means, base.mean, base.precision, PUBLISHED
        )


class SharedTwin(Twin):
    """The same with the likelihood of all outcomes for every option."""

    def log_density(self, u, column):
        own = self.components.means[column], precision(self.components.factors[column])
        latent = self.latent.copy()
        latent[u] = self.latent_components.means[column]
        return naive.log_normal(
            self.case.features[u], *own
        ) + self.case.observations.log_likelihood(latent)

    def renew(self, rng, column):
        (mean,), (factor,) = gaussian.draw_from_base(rng, 1, self.case.base)
        self.components.means[column], self.components.factors[column] = mean, factor
        base = self.case.latent_base
        self.latent_components.means[column] = naive.draw_normal(rng, base.mean, base.precision)

    def sweep(self, rng, partition):
        for u in range(len(self.z)):
            if self.auxiliary and None not in self.holders:
                return u
            self.leave(rng, u)
            self.join(rng, u, self.choose(rng, u, partition))
            self.latent[u] = self.latent_components.means[self.z[u]]
        return len(self.z)


@pytest.mark.parametrize(("n_latent", "kind"), KINDS)
@pytest.mark.parametrize(("n_auxiliary", "alpha"), [(1, 0.3), (3, 2.4), (2, 80.0)])
def test_the_sweep_over_users_is_the_naive_one(n_latent, kind, n_auxiliary, alpha):
    for seed in range(4):
        case = SharedColumns(seed, Z, 2, n_latent, n_auxiliary=n_auxiliary, kind=kind)
        twin = SharedTwin(case)
        rng, other = np.random.default_rng(seed), np.random.default_rng(seed)
        done = twin.sweep(other, process(alpha))
        assert case.sweep(rng, process(alpha)) == (done, twin.opened)
        np.testing.assert_array_equal(case.z, twin.z)
        np.testing.assert_array_equal(case.latent, case.latent_components.means[case.z])
        np.testing.assert_allclose(case.latent, twin.latent, rtol=1e-9, atol=1e-9)
        case.check_books()
        assert rng.random() == other.random()


@pytest.mark.parametrize(("n_latent", "kind"), KINDS)
def test_a_choice_has_the_joints_probabilities(n_latent, kind):
    """The last user among two others' clusters and an empty one; everybody else stays."""
    z, alpha = [0, 0, 0, 1, 1, 0], 0.7
    case = SharedColumns(3, z, 2, n_latent, n_components=3, n_auxiliary=0, room=0, kind=kind)
    latent_means, joints = case.latent_components.means, []
    for label in range(3):
        labels = np.append(z[:-1], label)
        total = naive.log_partition(
            labels, alpha, ("finite", 3)
        ) + case.observations.log_likelihood(latent_means[labels])
        own = case.components.means[label], precision(case.components.factors[label])
        joints.append(total + naive.log_normal(case.features[-1], *own))

    def option(uniform):
        again = copy(case)
        again.z, again.latent, again.terms = (
            case.z.copy(),
            case.latent.copy(),
            case.observations.terms(case.latent),
        )
        again.start(3, 0, 0)
        again.sweep(stream_with(uniform, 0.5), finite(3, alpha / 3), first=5)
        return again.z[-1]

    assert len(set(z)) == 2
    np.testing.assert_allclose(implied(option, 3), shares(np.array(joints)), atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("n_latent", [1, 2])
def test_compiled_labels_are_those_of_python(n_latent):
    for seed in range(3):
        cases = [SharedColumns(seed, Z, 1, n_latent) for _ in range(2)]
        for case, kernel in zip(cases, (assign, python_of(assign)), strict=True):
            case.sweep(np.random.default_rng(seed), process(1.6), kernel=kernel)
        for name in ("z", "counts", "auxiliary", "latent", "table"):
            np.testing.assert_allclose(*(getattr(case, name) for case in cases), rtol=1e-12)


def test_a_user_whose_observations_are_no_numbers_is_reported():
    case = SharedColumns(1, [0, 1, 2, 0, 1, 0], 2, 1, room=9)
    case.terms.residual[:] = math.nan
    case.sweep(np.random.default_rng(2), process(2.0))
    assert case.outcome.user_without_weight == 0
