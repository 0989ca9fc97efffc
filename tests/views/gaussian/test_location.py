"""The move of location: its conditional against the joint, its draws against a dense twin, pieces,
groups, lost digits."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import block_diag

import naive
from dualview.distributions import Normal
from dualview.numerics.streams import random, stream_of
from dualview.views.base import Base
from dualview.views.gaussian import location
from numerics.observations import Observations
from views.gaussian.test_conditionals import check_ratio
from yardsticks import check_counts, check_mean, positive_definite, python_of

INDEPENDENT = ["common, one user each", "noise of each user"]
KINDS = [(1, "gram"), *itertools.product([1, 2, 3], ["common", "own", *INDEPENDENT])]
N_COMPONENTS = 5  # the last one is empty
KERNELS = [
    "one_user_each",
    "add_prior",
    "add_gram",
    "tabulate_effects",
    "product",
    "add_effects",
    "add_observations",
    "draw_step",
    "add_independent",
    "independent_steps",
    "step_of_group",
    "take_step",
    "random_order",
]


@pytest.fixture(autouse=True)
def numbers_run_over():
    """Plain Python warns of words of streams that wrap around."""
    with np.errstate(over="ignore"):
        yield


def observations_of(rng, n_users, n_dims, kind, n_outcomes):
    """Those of one user each stand in the order of their users."""
    if kind not in INDEPENDENT:
        return Observations(rng, n_users, n_dims, kind, n_outcomes)
    made = Observations(rng, n_users, n_dims, "cluster", n_outcomes)
    made.design = made.design[
        np.argsort(np.abs(made.design).sum(axis=2).argmax(axis=1), kind="stable")
    ]
    made.set_noise(made.noise)
    if kind == "common, one user each":
        made.kind, made.noise, made.precision = "common", np.empty(0), made.noise[:1]
    return made


class Case:
    """Nine users of four clusters, and a fifth cluster that is empty."""

    def __init__(self, n_dims, kind, seed=1, n_components=N_COMPONENTS, n_outcomes=12):
        self.rng = rng = np.random.default_rng([n_dims, seed])
        self.n_dims, self.n_components = n_dims, n_components
        self.z = np.array([0, 2, 1, 0, 3, 0, 1, 0, 2])
        if n_components != N_COMPONENTS:
            self.z = rng.integers(0, n_components, n_components + 20)
        self.kind, self.observations = (
            kind,
            observations_of(rng, len(self.z), n_dims, kind, n_outcomes),
        )
        self.latent, self.means = (
            rng.standard_normal((len(self.z), n_dims)),
            rng.standard_normal((n_components, n_dims)),
        )
        mean, precision, covariance = (
            rng.standard_normal(n_dims),
            *(positive_definite(rng, n_dims) for _ in range(2)),
        )
        self.base = Base(mean, precision, covariance, n_dims + 1.5)
        precisions = np.array([positive_definite(rng, n_dims) for _ in range(n_components)])
        self.view = naive.ViewState(self.means, precisions, *self.base)

    @property
    def size(self):
        return self.n_components * self.n_dims

    def log_joint(self, step):
        """From the model: everything of the behavior's view and its observations, after a step (K
        q,)."""
        step = step.reshape(self.means.shape)
        view, latent = replace(self.view, means=self.means + step), self.latent + step[self.z]
        prior = naive.log_view_prior(view, (np.zeros(self.n_dims), np.eye(self.n_dims)))
        return (
            prior
            + naive.log_mixture_likelihood(latent, self.z, view)
            + self.observations.log_likelihood(latent)
        )

    def law(self):
        """The law of all steps, as the kernels have it; their matrices are lower halves."""
        terms, places = (
            self.observations.terms(self.latent),
            self.n_dims * np.arange(self.n_components),
        )
        linear, matrix = np.zeros(self.size), np.zeros((self.size, self.size))
        if self.kind in INDEPENDENT:
            blocks = np.zeros((self.n_components, self.n_dims, self.n_dims))
            location.add_independent(self.z, terms, linear, blocks)
            matrix = block_diag(*blocks)
        elif self.kind == "gram":
            location.add_gram(places, self.z, self.latent, terms, linear, matrix)
        else:
            location.add_observations(places, self.z, terms, linear, matrix)
        location.add_prior(np.arange(self.n_components), self.means, self.base, linear, matrix)
        return Normal(linear, np.tril(matrix) + np.tril(matrix, -1).T)

    def dense_law(self, means=None, latent=None):
        """b and A of all components by one dense design, at other means and latent vectors where
        they are given."""
        means, latent = (
            self.means if means is None else means,
            self.latent if latent is None else latent,
        )
        effects = np.einsum(
            "tui,uk->tki", self.observations.design, np.eye(self.n_components)[self.z]
        )
        effects = effects.reshape(len(effects), -1)
        weighted = effects.T * self.observations.weights
        linear = (self.base.mean - means) @ self.base.precision
        matrix = np.kron(np.eye(self.n_components), self.base.precision) + weighted @ effects
        return linear.ravel() + weighted @ self.observations.residual(latent), matrix

    def move(self, rng, kernel=location.relocate):
        """New means, latent vectors and residuals."""
        latent = self.latent.copy()
        terms, before = self.observations.terms(latent), self.means.copy()
        means = kernel(rng, self.z, self.means, self.base, latent, terms)
        np.testing.assert_array_equal(self.means, before)
        return means, latent, terms.residual

    def check(self, means, latent, residual):
        """Deviations are as before, residuals those of the new vectors; beside a gram matrix nobody
        has touched them."""
        np.testing.assert_allclose(
            latent - means[self.z], self.latent - self.means[self.z], rtol=1e-9, atol=1e-10
        )
        expected = (
            np.full(len(residual), np.nan)
            if self.kind == "gram"
            else self.observations.residual(latent)
        )
        np.testing.assert_allclose(residual, expected, rtol=1e-9, atol=1e-9)


def dense_step(rng, linear, matrix):
    """A⁻¹ b + L⁻ᵀ ε with A = L Lᵀ."""
    factor = np.linalg.cholesky(matrix)
    noise = np.array([rng.standard_normal() for _ in linear])
    return np.linalg.solve(matrix, linear) + np.linalg.solve(factor.T, noise)


@pytest.mark.parametrize(("n_dims", "kind"), KINDS)
def test_the_law_of_the_step_is_the_joints(n_dims, kind):
    case = Case(n_dims, kind)
    check_ratio(case.log_joint, case.law().log_density, case.rng.standard_normal((12, case.size)))


@pytest.mark.parametrize(("n_dims", "kind"), KINDS)
def test_the_move_is_the_dense_one_with_the_same_numbers(n_dims, kind):
    case = Case(n_dims, kind)
    assert case.size <= location.WIDTH
    means, latent, residual = case.move(np.random.default_rng(3))
    step = dense_step(np.random.default_rng(3), *case.dense_law())
    np.testing.assert_allclose(means, case.means + step.reshape(means.shape), rtol=1e-9, atol=1e-9)
    case.check(means, latent, residual)


@pytest.mark.parametrize("name", KERNELS)
def test_compiled_numbers_are_those_of_python(name, monkeypatch):
    """Each kernel in turn as plain Python, inside of others that are."""
    cases = [Case(n_dims, kind) for n_dims, kind in KINDS] + [Case(1, "common", n_components=40)]
    wanted = [case.move(stream_of(np.random.default_rng(2))) for case in cases]
    for user in ("add_observations", "independent_steps", "step_of_group", name):
        monkeypatch.setattr(location, user, python_of(getattr(location, user)))
    for case, numbers in zip(cases, wanted, strict=True):
        again = case.move(stream_of(np.random.default_rng(2)), python_of(location.relocate))
        for got, expected in zip(again, numbers, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("n_dims", "kind"), [(1, "common"), (2, "own")])
@pytest.mark.parametrize("n_pieces", [1, 3, 12])
def test_pieces_of_the_observations_add_up(n_dims, kind, n_pieces, monkeypatch):
    case = Case(n_dims, kind)
    monkeypatch.setattr(location, "TABLE", 1)
    monkeypatch.setattr(location, "PIECES", n_pieces)
    heights, tabulate = [], location.tabulate_effects

    def counting(*arguments):
        heights.append(arguments[-1].shape[1])
        tabulate(*arguments)

    monkeypatch.setattr(location, "tabulate_effects", counting)
    places, linear, matrix = (
        n_dims * np.arange(N_COMPONENTS),
        np.zeros(case.size),
        np.zeros((case.size, case.size)),
    )
    python_of(location.add_observations)(
        places, case.z, case.observations.terms(case.latent), linear, matrix
    )
    expected_linear, expected = case.dense_law(means=np.tile(case.base.mean, (N_COMPONENTS, 1)))
    assert heights == [12 // n_pieces] * n_pieces
    np.testing.assert_allclose(linear, expected_linear, rtol=1e-11, atol=1e-11)
    prior = np.kron(np.eye(N_COMPONENTS), case.base.precision)
    np.testing.assert_allclose(matrix, np.tril(expected - prior), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("n_dims", "kind"), [(1, "gram"), (1, "common"), (2, "own")])
def test_groups_take_their_turn_in_a_random_order(n_dims, kind, monkeypatch):
    """Groups of two components: each step is the dense conditional given the groups as they then
    are."""
    case = Case(n_dims, kind)
    monkeypatch.setattr(location, "WIDTH", 2 * n_dims)
    orders = set()
    for seed in range(5):
        rng, other = np.random.default_rng(seed), np.random.default_rng(seed)
        means, latent, residual = case.move(rng, python_of(location.relocate))
        order = location.random_order(other, N_COMPONENTS)
        expected = case.means.copy()
        for first in range(0, N_COMPONENTS, 2):
            group = order[first : first + 2]
            linear, matrix = case.dense_law(expected, case.latent + (expected - case.means)[case.z])
            own = np.ravel(n_dims * group[:, None] + np.arange(n_dims))
            expected[group] += dense_step(other, linear[own], matrix[np.ix_(own, own)]).reshape(
                -1, n_dims
            )
        np.testing.assert_allclose(means, expected, rtol=1e-9, atol=1e-9)
        case.check(means, latent, residual)
        orders.add(tuple(order))
    assert len(orders) > 1


@pytest.mark.parametrize("kind", ["gram", "common"])
def test_many_components_move_in_groups(kind):
    case = Case(1, kind, n_components=40)
    means, latent, residual = case.move(np.random.default_rng(2))
    assert case.size > location.WIDTH
    assert (means != case.means).all()
    case.check(means, latent, residual)


def test_all_orders_are_alike_probable():
    rng = stream_of(np.random.default_rng(0))
    orders = list(itertools.permutations(range(3)))
    counts = np.zeros(6, dtype=int)
    for _ in range(3000):
        counts[orders.index(tuple(location.random_order(rng, 3)))] += 1
    check_counts(counts, np.full(6, 1 / 6))


@pytest.mark.parametrize("kind", ["gram", "common"])
def test_clusters_that_cannot_be_told_apart_stay(kind):
    """Two clusters with the same part in every outcome, known to many digits: no factor of their
    joint law has any."""
    case = Case(1, kind)
    case.z, case.means = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0]), case.means[:2]
    case.observations.design[:, 1::2] = case.observations.design[:, :-1:2]
    case.observations.design[:, -1] = 0.0
    case.observations.precision = np.array([1e13])
    means, latent, residual = case.move(np.random.default_rng(5))
    np.testing.assert_array_equal(means, case.means)
    np.testing.assert_array_equal(latent, case.latent)
    case.check(means, latent, residual)


def test_a_cluster_whose_vector_is_known_in_one_direction_only_stays():
    """One observation of two numbers, known to many digits; the other clusters move."""
    case = Case(2, "common, one user each")
    case.observations.design[:, case.z == 3] = 0.0
    case.observations.design[-1] = 0.0
    case.observations.design[-1, case.z == 3] = 1e8
    order = np.argsort(np.abs(case.observations.design).sum(axis=2).argmax(axis=1), kind="stable")
    case.observations.design, case.observations.outcome = (
        case.observations.design[order],
        case.observations.outcome[order],
    )
    means, latent, _ = case.move(np.random.default_rng(5))
    np.testing.assert_array_equal(means[3], case.means[3])
    np.testing.assert_array_equal(latent[case.z == 3], case.latent[case.z == 3])
    assert (means[:3] != case.means[:3]).all()


@pytest.mark.parametrize("kind", ["gram", "common", *INDEPENDENT])
def test_empty_clusters_come_from_their_prior(kind):
    n_dims = 1 if kind == "gram" else 2
    case = Case(n_dims, kind)
    draws = np.array(
        [case.move(stream_of(np.random.default_rng(seed)))[0][-1] for seed in range(2000)]
    )
    check_mean(draws, case.base.mean)
    away = draws - case.base.mean
    check_mean(np.einsum("ni,nj->nij", away, away), np.linalg.inv(case.base.precision))


@pytest.mark.parametrize(
    ("rows", "each"), [([], True), ([0, 1, 2], True), ([0, 2, 1], False), ([0, 1, 1], False)]
)
def test_observations_in_the_order_of_their_users_are_of_one_each(rows, each):
    assert location.one_user_each(np.array(rows, dtype=np.uint32)) == each


@pytest.mark.parametrize(
    ("kind", "share"),
    [("gram", 1.0), ("common", location.SHARE), *((kind, 1.0) for kind in INDEPENDENT)],
)
def test_clusters_that_share_threads_move_in_some_of_the_steps(kind, share):
    """Whether they do is decided by the first number of the stream."""
    case, kernels = Case(1, kind), (location.relocate_in_turn, python_of(location.relocate_in_turn))
    for seed in range(40):
        first = stream_of(np.random.default_rng(seed))
        moves = random(first) < share
        expected = (
            case.move(first)
            if moves
            else (case.means, case.latent, case.observations.terms(case.latent).residual)
        )
        for kernel in kernels:
            for got, wanted in zip(
                case.move(stream_of(np.random.default_rng(seed)), kernel), expected, strict=True
            ):
                np.testing.assert_array_equal(got, wanted)
