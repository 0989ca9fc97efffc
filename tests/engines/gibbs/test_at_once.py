"""Many steps in one compiled call are the steps one by one; the likelihood's part of it is right,
and mutants are not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checks import assert_joint, assert_rejected, mutate, working_state
from dualview.behaviors.likelihoods import cluster_noise as noise
from dualview.behaviors.likelihoods import conjugate as conjugates
from dualview.behaviors.likelihoods import threads as thread_regression
from dualview.behaviors.likelihoods.conjugate import Conjugate
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.chains.storage import Record, Store
from dualview.datasets.scenarios import agreement
from dualview.engines.gibbs import GibbsEngine, engine, steps
from dualview.engines.gibbs.moves import assignment
from dualview.errors import DegenerateError
from dualview.model import Model, State
from dualview.numerics.streams import stream_of, streams_of
from dualview.partitions.choice import partition_prior
from dualview.partitions.priors import ChineseRestaurant, OneCluster
from dualview.units import GaussianPrior
from dualview.views.base import Components
from dualview.views.gaussian.kind import Gaussian
from dualview.views.gaussian.view import no_view
from engines.gibbs import test_joint, test_joint_behaviors
from rows import residual
from yardsticks import python_of

MODELS = test_joint.MODELS | {
    name: test_joint_behaviors.MODELS[name]
    for name in ("regressions, process", "regressions, three clusters")
}
WITH_BEHAVIOR = [name for name in MODELS if MODELS[name]().likelihood is not None]
N_STEPS = 40
ENGINE = GibbsEngine(3)


def slow(case: Any) -> Any:
    return pytest.param(case, marks=pytest.mark.slow)


@pytest.fixture(params=[True, False], ids=["gram", "threads"])
def with_gram(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether normal equations are used wherever they could be."""
    monkeypatch.setattr(thread_regression, "_MOST_WITH_GRAM", 10**6 if request.param else 0)
    monkeypatch.setattr(thread_regression, "_GRAM_COST", 0.0 if request.param else 1.0)
    return bool(request.param)


def simulated(name: str, seed: int = 1) -> tuple[Model, State]:
    rng = np.random.default_rng(seed)
    model = MODELS[name]()
    state = model.draw_prior(rng)
    return model.simulate(rng, state), state


def numbers(state: State) -> list[np.ndarray]:
    views = [part for view in state.views.values() for part in (*view.components, *view.base)]
    return [
        state.z,
        np.asarray(state.alpha),
        *views,
        *([] if state.latent is None else [state.latent]),
        *state.params.values(),
    ]


def run(
    model: Model, state: State, keep: np.ndarray, at_once: int, every: int | None = None
) -> tuple[State, Record, Any]:
    """At most at_once steps in a call; the last state, the draws and the generator at the end."""
    rng, store, done = np.random.default_rng(7), Store(model, every), 0
    while done < len(keep):
        asked = keep[done : done + at_once]
        state, info = ENGINE.advance(rng, model, state, asked)
        store.add(info.draws, info.last)
        done += info.n_steps
    return state, store.drain(), rng.bit_generator.state["state"]


def one_by_one(
    model: Model, state: State, keep: np.ndarray, every: int | None = None
) -> tuple[State, Record, Any]:
    """Every step by itself, states kept by name."""
    rng, store = np.random.default_rng(7), Store(model, every)
    for kept in keep:
        state = ENGINE.step(rng, model, state)
        if kept:
            store.append(state)
    return state, store.drain(), rng.bit_generator.state["state"]


def assert_same_record(one: Record, other: Record) -> None:
    for name in ("fixed", "ragged", "scalars"):
        first, second = getattr(one, name), getattr(other, name)
        assert set(first) == set(second)
        for part, values in first.items():
            assert values.shape == second[part].shape, part
            assert values.dtype == second[part].dtype, part
            if part == "log_joint":  # sums in another order
                np.testing.assert_allclose(values, second[part], rtol=1e-10)
            else:
                np.testing.assert_array_equal(values, second[part], err_msg=part)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("every", [None, 3])
def test_steps_in_one_call_are_steps_one_by_one(
    name: str, every: int | None, with_gram: bool
) -> None:
    """States, draws, summaries and the generator, whichever steps are kept and however many there
    are in a call."""
    if name not in WITH_BEHAVIOR and not with_gram:
        pytest.skip("no behavior")
    model, state = simulated(name)
    keep = np.random.default_rng(3).random(N_STEPS) < 0.6
    last, draws, generator = one_by_one(model, state, keep, every)
    assert draws.n_draws
    for at_once in (1, 7, N_STEPS):
        again, same, after = run(model, state, keep, at_once, every)
        for one, other in zip(numbers(last), numbers(again), strict=True):
            np.testing.assert_array_equal(one, other)
        assert_same_record(draws, same)
        assert after == generator
        if every is not None and draws.moments is not None:
            np.testing.assert_array_equal(draws.moments.squares, same.moments.squares)


def test_a_generator_of_short_words_gives_the_same_streams() -> None:
    for source in (np.random.MT19937, np.random.PCG64):
        one, other = np.random.Generator(source(3)), np.random.Generator(source(3))
        np.testing.assert_array_equal(streams_of(one, 3), [stream_of(other) for _ in range(3)])
        assert one.random() == other.random()


def test_more_components_than_there_was_room_for() -> None:
    """From one cluster to many in a step."""
    rng = np.random.default_rng(0)
    model = Model(ChineseRestaurant(), rng.standard_normal((100, 1)), None, 100)
    state = replace(ENGINE.start(rng, model, np.zeros(100, dtype=np.int64)), alpha=1e6)
    keep = np.ones(30, dtype=bool)
    last, draws, _ = run(model, state, keep, 30)
    assert draws.fixed["n_components"].max() > 10
    assert_same_record(one_by_one(model, state, keep)[1], draws)
    np.testing.assert_array_equal(
        last.views["features"].components.means,
        draws.ragged["features.means"][-last.n_components :],
    )


def test_numbers_out_of_range_end_the_call() -> None:
    features = np.zeros((6, 1))
    features[:3] = 1.0
    model = Model(ChineseRestaurant(), features, None, 6)
    rng = np.random.default_rng(0)
    state = ENGINE.start(rng, model, np.array([0, 0, 0, 1, 1, 1]))
    with pytest.raises(DegenerateError, match="collapsed"):
        run(model, state, np.zeros(20_000, dtype=bool), 100)


@pytest.mark.parametrize("n_clusters", [None, 1, 4])
def test_weights_are_the_prior_s(n_clusters: int | None) -> None:
    """Of clusters, of three auxiliary components together where there are any, and none of free
    columns."""
    prior = partition_prior(n_clusters)
    model = Model(prior, np.zeros((6, 1)), None, 6)
    state = replace(model.draw_prior(np.random.default_rng(0)), alpha=0.7)
    counts = np.array([6, 2, 0, 1][:n_clusters])
    expected = counts + prior.offset(0.7)
    if n_clusters is None:
        counts, each = np.array([6, 0, 2, 0, 0, 1, -1]), prior.new_weight(0.7, 3, 9) / 3
        expected = np.array([6, each, 2, each, each, 1, 0])
    weights, working = (
        np.empty(len(counts)),
        working_state(np.random.default_rng(0), model, state, 3),
    )
    tally = np.count_nonzero(counts > 0), np.maximum(counts, 0).sum()
    assignment.weigh_columns(*tally, weights, working._replace(counts=counts))
    np.testing.assert_allclose(weights, expected, rtol=1e-15)


def latent_view(latent: np.ndarray, means: np.ndarray, factors: np.ndarray) -> Gaussian:
    """A view of latent vectors with these components."""
    return no_view(len(latent), len(means))._replace(
        vectors=latent, components=Components(means, factors)
    )


class TestRefresh:
    @pytest.mark.parametrize("name", WITH_BEHAVIOR)
    def test_residuals_are_the_likelihood_s(self, name: str, with_gram: bool) -> None:
        model, state = simulated(name)
        likelihood: Any = model.likelihood
        made = likelihood.conjugate(state.params)
        if made is None:
            assert not with_gram
            return
        terms, conjugate = made
        conjugates.refresh(state.latent, terms, conjugate)
        own = likelihood.terms(np.random.default_rng(0), state.latent, state.params)
        if isinstance(likelihood, UserRows):
            expected = residual(likelihood, state.latent)
        else:
            coefficients = [state.params["coefficients"]] if "coefficients" in state.params else []
            expected = likelihood.residual(state.latent, *coefficients)
        np.testing.assert_allclose(terms.residual, expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(terms.weighted, own.weighted, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(terms.gram, own.gram)
        density = likelihood.log_density(state.latent, state.params)
        np.testing.assert_allclose(conjugates.log_conjugate(terms, conjugate), density, rtol=1e-10)

    def test_compiled_is_plain(self, with_gram: bool) -> None:
        model, state = simulated("dual-DP with covariates" if with_gram else "dual-DP")
        moved = []
        for kernel in (conjugates.redraw_conjugate, python_of(conjugates.redraw_conjugate)):
            rng, view = (
                np.random.default_rng(2),
                latent_view(state.latent.copy(), *state.views["behavior"].components),
            )
            terms, conjugate = model.likelihood.conjugate(state.params)
            for _ in range(30):
                kernel(rng, state.z, terms, conjugate, view)
            moved.append(
                [
                    *view.vectors.ravel(),
                    *terms.residual,
                    *terms.precision,
                    *conjugate.coefficients,
                    rng.random(),
                ]
            )
        np.testing.assert_allclose(moved[0], moved[1], rtol=1e-9)


class TestDrawTogether:
    def test_is_the_draw_of_the_likelihood(self) -> None:
        """Means and covariances of many draws, against the closed form by users and covariates."""
        forum = agreement(6, 30, seed=2)
        likelihood = SharedOutcome(forum.participation, forum.outcome, intercept=True).prepare(
            None
        )[1]
        z, means, factors = (
            np.array([0, 0, 1, 1, 1, 0]),
            np.array([[0.3], [-0.8]]),
            np.array([[[1.3]], [[0.6]]]),
        )
        conjugate = likelihood.conjugate({"noise_precision": 2.0, "coefficients": np.zeros(1)})[1]
        assert len(conjugate.gram) == 7
        rng, latent = stream_of(np.random.default_rng(0)), np.empty((6, 1))
        view = latent_view(latent, means, factors)
        draws = []
        for _ in range(20_000):
            assert conjugates.draw_together(rng, z, 2.0, conjugate, view)
            draws.append([*latent[:, 0], *conjugate.coefficients])
        prior = np.append(factors[z, 0, 0] ** 2, 1.0)
        covariance = np.linalg.inv(np.diag(prior) + 2.0 * conjugate.gram)
        mean = covariance @ (prior * np.append(means[z, 0], 0.0) + 2.0 * conjugate.weighted)
        scores = (np.mean(draws, axis=0) - mean) / np.sqrt(np.diag(covariance) / len(draws))
        assert np.abs(scores).max() < 4.5
        np.testing.assert_allclose(
            np.cov(np.transpose(draws)), covariance, atol=0.05 * covariance.max()
        )

    @pytest.mark.parametrize(
        "gram", [np.empty((0, 0)), np.ones((301, 301)), np.array([[1.0, 1.0], [1.0, 1.0 + 1e-15]])]
    )
    def test_says_when_it_cannot(self, gram: np.ndarray) -> None:
        n = max(len(gram), 1)
        latent = np.full((n, 1), 7.0)
        conjugate = Conjugate(
            np.ones(3), np.empty((3, 0)), np.empty(0), gram, np.ones(len(gram)), 1.0
        )
        view = latent_view(latent, np.zeros((1, 1)), np.full((1, 1, 1), 1e-9))
        rng, z = stream_of(np.random.default_rng(0)), np.zeros(n, dtype=np.int64)
        assert not conjugates.draw_together(rng, z, 1e9, conjugate, view)
        np.testing.assert_array_equal(latent, 7.0)

    def test_a_draw_that_loses_digits_is_made_outside(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two users who are always together, and a prior that says next to nothing."""
        monkeypatch.setattr(thread_regression, "_JOINT_SHARE", 1.0)
        participation = np.ones((30, 2))
        behavior = SharedOutcome(participation, np.linspace(-1.0, 1.0, 30))
        likelihood = behavior.prepare(GaussianPrior(0.0, 1e24))[1]
        model = Model(OneCluster(), None, likelihood, 2)
        rng = np.random.default_rng(0)
        start = ENGINE.start(rng, model, np.zeros(2, dtype=np.int64))
        state, info = ENGINE.advance(rng, model, start, np.ones(5, dtype=bool))
        assert info.last is state
        assert info.n_steps == 1
        assert np.isfinite(state.latent).all()


def step_with(redraw: Any) -> Any:
    """A step whose last part, the likelihood's, is a function of its own."""

    def step(rng: np.random.Generator, model: Model, state: State) -> State:
        likelihood: Any = model.likelihood
        terms, conjugate = likelihood.conjugate(state.params)
        conjugates.refresh(state.latent, terms, conjugate)
        stream = stream_of(rng)
        working, collapsed = engine.run_by_blocks(
            stream, ENGINE.working_state(model, state, terms), steps.MOVES
        )
        engine._check(model, working, collapsed)
        made, latent = (
            redraw(stream, working.z, terms, conjugate, working.views[-1]),
            working.views[-1].vectors,
        )
        params = likelihood.params_of(float(terms.precision[0]), conjugate.coefficients)
        if not made:
            prior = engine._latent_prior(model, working)
            latent, params = likelihood.redraw_together(rng, latent, params, terms, prior)
        return engine._after(model, working, latent, params)

    return step


def with_equations(name: str, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.setattr(thread_regression, "_GRAM_COST", 0.0)
    return MODELS[name]()


@pytest.mark.parametrize("name", ["dual-DP", "dual-DP with covariates", "latent-GMM"])
def test_the_call_is_the_sweep_and_then_the_likelihood_s_part(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_equations(name, monkeypatch)
    model, state = simulated(name)
    step = step_with(conjugates.redraw_conjugate)
    one, other = (np.random.default_rng(5) for _ in range(2))
    for _ in range(10):
        expected, state = step(one, model, state), ENGINE.step(other, model, state)
        for part, same in zip(numbers(expected), numbers(state), strict=True):
            np.testing.assert_array_equal(part, same)


@pytest.mark.parametrize(
    "name", [slow("single with covariates"), slow("latent-GMM"), slow("dual-DP with covariates")]
)
def test_with_equations_the_joint_prior_stays_as_it_is(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_joint(with_equations(name, monkeypatch), seed=0)


def noise_counts_one_less() -> Any:
    law = mutate(noise.noise_law, "prior_dof + count", "count")
    return mutate(conjugates.redraw_conjugate, draw_noise=mutate(noise.draw_noise, noise_law=law))


def covariates_left_in_the_residuals() -> Any:
    wrong = mutate(
        conjugates.refresh, "residual[t] = outcome[t] - expected", "residual[t] = outcome[t]"
    )
    return mutate(conjugates.redraw_conjugate, refresh=wrong)


def covariates_have_no_prior() -> Any:
    wrong = mutate(
        conjugates.draw_together,
        "prior_mean[i], prior_precision[i] = 0.0, 1.0",
        "prior_mean[i] = prior_precision[i] = 0.0",
    )
    return mutate(conjugates.redraw_conjugate, draw_together=wrong)


def precision_of_clusters_not_squared() -> Any:
    wrong = mutate(conjugates.draw_together, "factors[z[i], 0, 0] ** 2", "factors[z[i], 0, 0]")
    return mutate(conjugates.redraw_conjugate, draw_together=wrong)


MUTANTS = [
    noise_counts_one_less,
    covariates_left_in_the_residuals,
    covariates_have_no_prior,
    precision_of_clusters_not_squared,
]


@pytest.mark.parametrize(
    "mutant", [slow(mutant) for mutant in MUTANTS], ids=lambda mutant: mutant.__name__
)
def test_mutant_is_rejected(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = with_equations(
        "single" if mutant is noise_counts_one_less else "single with covariates", monkeypatch
    )
    assert_rejected(model, 0, step=step_with(mutant()))
