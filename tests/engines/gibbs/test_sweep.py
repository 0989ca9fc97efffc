"""The compiled sweep and its form by blocks are the same move; threads change nothing; vectors of
behavior work too."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from checks import assert_joint, assert_rejected, working_state
from dualview.behaviors.base import Likelihood, Terms
from dualview.behaviors.likelihoods import threads as thread_regression
from dualview.behaviors.likelihoods.conjugate import Conjugate
from dualview.behaviors.likelihoods.regression import ByConjugateGradients
from dualview.behaviors.records import Params, Prior
from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.behaviors.user_regression import UserRegression
from dualview.chains.storage import Store
from dualview.datasets.scenarios import agreement
from dualview.engines.gibbs import GibbsEngine, steps
from dualview.engines.gibbs.engine import run_by_blocks
from dualview.engines.gibbs.moves import assignment, split_merge
from dualview.engines.gibbs.working import WorkingState, columns_in_use
from dualview.model import Model, State
from dualview.numerics import parallel as threads
from dualview.numerics.streams import stream_of, streams_of
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet
from engines.gibbs.test_joint import MODELS

N_USERS = 5
ENGINE = GibbsEngine(3)


def assert_same(one: WorkingState, other: WorkingState) -> None:
    assert (one.partition, one.outcome) == (other.partition, other.outcome)
    for part in ("z", "counts", "noises"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part), err_msg=part)
    for view, same in zip(one.views, other.views, strict=True):
        assert_same_parts(view, same)


def assert_same_parts(record: Any, other: Any) -> None:
    """But for cores, which are used up."""
    assert type(record) is type(other)
    for name, value in record._asdict().items():
        if isinstance(value, tuple):
            assert_same_parts(value, getattr(other, name))
        elif name != "cores":
            np.testing.assert_array_equal(value, getattr(other, name), err_msg=name)


def run_at_once(rng: np.random.Generator, working: WorkingState) -> WorkingState:
    """A step's moves in one compiled call."""
    done: steps.Steps = steps.run_steps(
        streams_of(rng, 1), np.zeros(1, dtype=np.bool_), working, Conjugate.none()
    )
    return done.state


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("with_gram", [True, False])
def test_one_compiled_call_is_the_sweep_by_blocks(
    name: str, with_gram: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_regression, "_MOST_WITH_GRAM", 1000 if with_gram else 0)
    rng = np.random.default_rng(1)
    model = MODELS[name]()
    state = model.draw_prior(rng)
    model = model.simulate(rng, state)
    for seed in range(5):
        one, other = working_state(rng, model, state, 3), working_state(rng, model, state, 3)
        one = run_at_once(np.random.default_rng(seed), one)
        other, _ = run_by_blocks(stream_of(np.random.default_rng(seed)), other, steps.MOVES)
        assert_same(one, other)
        state = ENGINE.step(rng, model, state)


def test_the_way_through_a_gram_matrix_is_the_same_up_to_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forum = agreement(20, 60, seed=3)
    moved = []
    for most in (1000, 0):
        monkeypatch.setattr(thread_regression, "_MOST_WITH_GRAM", most)
        threads = SharedOutcome(forum.participation, forum.outcome, noise_variance="paper")
        likelihood = threads.prepare(None)[1]
        model = Model(ChineseRestaurant(), forum.features / forum.features.std(), likelihood, 20)
        state = ENGINE.start(np.random.default_rng(0), model, np.arange(20) % 4)
        working = working_state(np.random.default_rng(1), model, state, 3)
        assert (working.terms.gram.size > 0) == (most > 0)
        # With this seed the move of location is made, which is chance where there is no gram
        # matrix.
        moved.append(run_at_once(np.random.default_rng(6), working))
    np.testing.assert_array_equal(moved[0].z, moved[1].z)
    np.testing.assert_allclose(moved[0].views[-1].vectors, moved[1].views[-1].vectors, rtol=1e-9)


def test_columns_in_use_end_with_the_last_that_is_not_free() -> None:
    """A merge may leave a free one among them."""
    for counts, n in (([3, 0, -1, 2, -1, -1], 4), ([1, 0], 2), ([-1, -1], 0)):
        assert columns_in_use(np.array(counts)) == n


def test_threads_change_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 40 users, and the solver for very many users."""
    monkeypatch.setattr(assignment, "BLOCK", 40)
    monkeypatch.setattr(thread_regression, "_MOST_WITH_GRAM", 0)
    forum = agreement(150, 300, seed=2)
    results = []
    for n_workers in (1, 2, 5):
        monkeypatch.setattr(threads, "n_cores", lambda n=n_workers: n)
        likelihood = SharedOutcome(forum.participation, forum.outcome).prepare(None)[1]
        likelihood.__dict__["_draw"] = ByConjugateGradients(likelihood.design, likelihood.outcome)
        model = Model(ChineseRestaurant(), forum.features / forum.features.std(), likelihood, 150)
        rng = np.random.default_rng(0)
        state = ENGINE.start(rng, model, np.arange(150) % 3)
        for _ in range(20):
            state = ENGINE.step(rng, model, state)
        results.append(
            [
                *state.latent.ravel(),
                state.alpha,
                *state.views["features"].base.covariance.ravel(),
                *state.z,
            ]
        )
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("noise", ["shared", "cluster"])
def test_threads_change_no_number_of_users_whose_observations_are_their_own(
    noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of 40 users, many of whom open clusters, more than there is room for."""
    monkeypatch.setattr(assignment, "BLOCK", 40)
    data = np.random.default_rng(3)
    user, features = data.integers(0, 90, 400), data.standard_normal((90, 2))
    behavior = UserRegression(
        user, data.standard_normal((400, 2)), data.standard_normal(400), n_users=90, noise=noise
    )
    results = []
    for n_workers in (1, 2, 5):
        monkeypatch.setattr(threads, "n_cores", lambda n=n_workers: n)
        model = Model(ChineseRestaurant(), features, behavior.prepare(None)[1], 90)
        rng = np.random.default_rng(0)
        state = replace(ENGINE.start(rng, model, np.arange(90) % 3), alpha=1e6)
        for step in range(10):
            n_columns = state.n_components + ENGINE.n_auxiliary + split_merge.ROOM
            state, info = ENGINE.advance(rng, model, state, np.zeros(1, dtype=np.bool_))
            assert step > 0 or info.n_clusters > n_columns
        results.append(
            [
                *state.latent.ravel(),
                state.alpha,
                *np.ravel(state.params["noise_precision"]),
                *state.z,
            ]
        )
        assert info.n_clusters == state.z.max() + 1
    assert results[0] == results[1] == results[2]


def test_columns_grow_when_many_clusters_open_at_once() -> None:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((30, 2))
    model = Model(ChineseRestaurant(), features, None, 30)
    state = replace(ENGINE.start(rng, model, np.zeros(30, dtype=np.int64)), alpha=1e6)
    working, _ = run_by_blocks(stream_of(rng), working_state(rng, model, state), steps.MOVES)
    assert working.outcome.user_without_weight == -1
    n_clusters = len(working.counts)
    assert n_clusters > 1 + 2 + split_merge.ROOM + split_merge.MOVES  # the columns that there were
    assert sorted(set(working.z)) == list(range(n_clusters))


@dataclass(frozen=True)
class Measurements(Likelihood):
    """Observations of two latent numbers of one user each, with a known precision of their own;
    user 0 has none."""

    design: np.ndarray
    user: np.ndarray
    outcome: np.ndarray
    precision: np.ndarray
    n_dims: int = 2
    n_coefficients: int = 0

    def start(self, rng: np.random.Generator) -> tuple[np.ndarray, Params]:
        return rng.standard_normal((N_USERS, 2)), self.draw_prior(rng, np.zeros(N_USERS, dtype=int))

    def residual(self, latent: np.ndarray, _: Any = None) -> np.ndarray:
        return np.asarray(self.outcome - (self.design * latent[self.user]).sum(axis=1))

    def terms(self, _: np.random.Generator, latent: np.ndarray, __: Params) -> Terms:
        order = np.argsort(self.user, kind="stable")
        starts = np.searchsorted(self.user[order], np.arange(N_USERS + 1))
        squares = np.zeros((N_USERS, 2, 2))
        return Terms(
            starts,
            order.astype(np.uint32),
            self.design[order],
            squares,
            self.residual(latent),
            self.precision,
        )

    def redraw(
        self, _: Any, latent: np.ndarray, params: Params, __: Terms, ___: Prior
    ) -> tuple[np.ndarray, Params]:
        return latent, params

    def log_density(self, latent: np.ndarray, _: Params) -> float:
        return float(-0.5 * (self.precision * self.residual(latent) ** 2).sum())

    def draw_prior(self, _: np.random.Generator, __: np.ndarray) -> Params:
        return {"noise_precision": 1.0, "coefficients": np.empty(0)}

    def simulate(self, rng: np.random.Generator, latent: np.ndarray, _: Params) -> "Measurements":
        noise = rng.standard_normal(len(self.user)) / np.sqrt(self.precision)
        return replace(self, outcome=(self.design * latent[self.user]).sum(axis=1) + noise)

    def reported(self, params: Params) -> Params:
        return params


def measurements() -> Measurements:
    rng = np.random.default_rng(7)
    user = np.array([1, 2, 2, 3, 4, 1, 4, 4])
    return Measurements(rng.standard_normal((8, 2)), user, np.zeros(8), rng.uniform(0.5, 2.0, 8))


@pytest.mark.parametrize(
    "partition",
    [
        pytest.param(ChineseRestaurant(), id="process", marks=pytest.mark.slow),
        pytest.param(FiniteDirichlet(3), id="three clusters", marks=pytest.mark.slow),
    ],
)
def test_vectors_of_behavior_leave_the_joint_prior_as_it_is(partition: Any) -> None:
    model = Model(partition, np.zeros((N_USERS, 1)), measurements(), N_USERS)
    assert_joint(model, seed=0)


@pytest.mark.slow
def test_vectors_of_behavior_with_wrong_precisions_are_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = Measurements.terms
    monkeypatch.setattr(
        Measurements,
        "terms",
        lambda *args: (t := right(*args))._replace(precision=10.0 * t.precision),
    )
    model = Model(FiniteDirichlet(3), None, measurements(), N_USERS)
    assert_rejected(model, 0)


class TestStore:
    def states(self, n: int) -> tuple[Model, list[State]]:
        rng = np.random.default_rng(0)
        model = MODELS["dual-DP"]()
        state = model.draw_prior(rng)
        model = model.simulate(rng, state)
        states = []
        for _ in range(n):
            state = ENGINE.step(rng, model, state)
            states.append(state)
        return model, states

    def test_a_summary_has_moments_of_all_and_some_whole_draws(self) -> None:
        model, states = self.states(23)
        whole, summary = Store(model), Store(model, every=5)
        for state in states:
            whole.append(state)
            summary.append(state)
        everything, short = whole.drain(), summary.drain()
        latent = everything.fixed["latent"]
        assert short.n_draws == 4
        assert len(short.scalars["n_clusters"]) == 23
        np.testing.assert_array_equal(short.fixed["latent"], latent[4::5])
        np.testing.assert_array_equal(short.scalars["alpha"], everything.fixed["alpha"])
        np.testing.assert_allclose(short.moments.mean, latent.mean(axis=0), rtol=1e-10)
        np.testing.assert_allclose(
            short.moments.squares[..., 0], latent.var(axis=0) * 23, rtol=1e-8
        )

    def test_batches_do_not_matter(self) -> None:
        model, states = self.states(7)
        one, many = Store(model), Store(model)
        for state in states:
            one.append(state)
            many.append(state)
            many._pack()
        once, often = one.drain(), many.drain()
        for name, values in once.fixed.items():
            np.testing.assert_array_equal(values, often.fixed[name])
        for name, values in once.ragged.items():
            np.testing.assert_array_equal(values, often.ragged[name])
