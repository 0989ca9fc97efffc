"""Clusters whose users share one latent vector: joint tests with mutants, enumeration, blocks,
covariates, recovery."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import naive
from checks import (
    ACCEPT,
    REJECT,
    Change,
    assert_rejected,
    batch_scores,
    by_blocks,
    changed,
    gibbs_step,
    joint_tests,
    mutant_tests,
    mutate,
    working_state,
)
from dualview.behaviors.likelihoods import threads as thread_regression
from dualview.behaviors.records import Prior
from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.datasets.scenarios import agreement
from dualview.engines.gibbs import GibbsEngine, blocks, engine, steps
from dualview.engines.gibbs.moves import assignment, split_merge
from dualview.model import Model, State
from dualview.numerics import messages
from dualview.numerics.streams import stream_of
from dualview.partitions.agreement import LabelsByView
from dualview.partitions.priors import (
    ChineseRestaurant,
    FiniteDirichlet,
    OneCluster,
    PartitionPrior,
)
from dualview.units import GaussianPrior
from dualview.views import GaussianState, GaussianView, SharedVectorState, SharedVectorView
from dualview.views.gaussian import conditionals as gaussian
from dualview.views.shared import conditionals as shared
from engines.gibbs.test_exact import ALPHA, BASE, FIXED, X, canonical
from engines.gibbs.test_joint import MODELS as UNPOOLED
from engines.gibbs.test_sweep import assert_same, measurements

N_USERS = 5


def vectors(partition: PartitionPrior, n_features: int) -> Model:
    """Two latent numbers, and a precision of its own for every observation; user 0 has none."""
    return Model(
        partition,
        np.zeros((N_USERS, n_features)) if n_features else None,
        measurements(),
        N_USERS,
        pooled=True,
    )


def of_threads(name: str) -> Callable[[], Model]:
    return lambda: replace(UNPOOLED[name](), pooled=True)


MODELS: dict[str, Callable[[], Model]] = {
    name: of_threads(name) for name, model in UNPOOLED.items() if model().likelihood is not None
}
MODELS |= {
    "vectors, process": lambda: vectors(ChineseRestaurant(), 1),
    "vectors, process, no features": lambda: vectors(ChineseRestaurant(), 0),
    "vectors, three clusters": lambda: vectors(FiniteDirichlet(3), 1),
    "vectors, one cluster": lambda: vectors(OneCluster(), 0),
}


def twice(rng: np.random.Generator, model: Model, state: State) -> State:
    """Two steps to each set of data.

    Residuals are all that a step sees of data and design, and right after a redraw of the data they
    are noise whatever the design is. A step with a wrong design would be the right one for other
    data, and pass; the second one meets residuals that the first has left.
    """
    return gibbs_step(rng, model, gibbs_step(rng, model, state))


RUN: dict[str, Any] = {"n_chains": 200, "length": 20, "n_prior": 3000, "step": twice}


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS, seeds=range(3), **RUN)


test_sampler_by_blocks_leaves_the_joint_prior_as_it_is = joint_tests(
    MODELS,
    ["latent-GMM", "dual-DP", "dual-DP with covariates", "vectors, process"],
    change=by_blocks,
    **RUN,
)


def vectors_forget_the_base() -> list[Change]:
    return [changed(shared.add_prior, "(view.mean[j] - means[k, j])", "(0.0 - means[k, j])")]


def clusters_do_not_hold_each_other() -> list[Change]:
    """A joint draw of clusters that leaves out what they share."""
    return [changed(shared.equations, "for j in range(i + 1):", "for j in range(i, i + 1):")]


def vectors_see_one_user() -> list[Change]:
    """A thread of two users of one cluster counts as if it had one of them."""
    sum_of_loads = "effects.values[row, column + i] += terms.loads[j, i]"
    return [changed(shared.gather, sum_of_loads, sum_of_loads.replace("+=", "="))]


def residuals_stay_behind() -> list[Change]:
    return [changed(shared.clear, "effects.values[row, i] * step[i]", "0.0 * step[i]")]


def base_precision_counts_one_less() -> list[Change]:
    right = "float(prior_dof + n_components)"
    return [changed(gaussian.base_precision_law, right, "float(prior_dof + n_components - 1)")]


def choices_ignore_curvature() -> list[Change]:
    """The likelihood of another cluster's vector by its slope alone."""
    return [changed(messages.gain, "slope -= 0.5 * message", "slope -= 0.0 * message")]


def choices_ignore_observations() -> list[Change]:
    """(C11) with the features alone: a user may leave for a vector that does not fit."""
    return [changed(messages.gain, "return result", "return 0.0 * result")]


MUTANTS = {
    "vectors-forget-the-base": (vectors_forget_the_base, "latent-GMM"),
    "clusters-do-not-hold-each-other": (clusters_do_not_hold_each_other, "latent-GMM"),
    "vectors-see-one-user": (vectors_see_one_user, "single"),
    "base-precision-counts-one-less": (base_precision_counts_one_less, "single"),
    "choices-ignore-curvature": (choices_ignore_curvature, "latent-IGMM"),
    "choices-ignore-observations": (choices_ignore_observations, "latent-GMM"),
}


test_mutant_is_rejected = pytest.mark.filterwarnings("ignore::RuntimeWarning")(
    mutant_tests(MODELS, MUTANTS, block=3, **RUN | {"n_chains": 900})
)


@pytest.mark.slow
def test_covariates_that_bring_another_prior_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The joint draw of clusters and covariates with four times the precision R_0."""
    right = SharedVectorView.latent_prior
    by_blocks(monkeypatch, n_users=3)
    monkeypatch.setattr(
        SharedVectorView,
        "latent_prior",
        lambda self, record: (p := right(self, record))._replace(factors=2.0 * p.factors),
    )
    assert_rejected(MODELS["single with covariates"](), 0, **RUN)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("with_gram", [True, False])
def test_users_have_the_vector_of_their_cluster_and_blocks_change_nothing(
    name: str, with_gram: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_regression, "_MOST_WITH_GRAM", 1000 if with_gram else 0)
    rng = np.random.default_rng(1)
    model = MODELS[name]()
    state = model.draw_prior(rng)
    model = model.simulate(rng, state)
    for seed in range(5):
        one, other = (working_state(np.random.default_rng(0), model, state, 3) for _ in range(2))
        one, _ = engine.run_by_blocks(stream_of(np.random.default_rng(seed)), one, steps.MOVES)
        if (
            model.features is None and not with_gram
        ):  # sums over features are added up block by block
            with monkeypatch.context() as patch:
                patch.setattr(assignment, "BLOCK", 2)
                other, _ = engine.run_by_blocks(
                    stream_of(np.random.default_rng(seed)), other, steps.MOVES
                )
            assert_same(one, other)
        state = GibbsEngine(3).step(rng, model, state)
        assert isinstance(state.views["behavior"], SharedVectorState)
        np.testing.assert_array_equal(state.latent, state.views["behavior"].means[state.z])


def test_the_way_through_a_gram_matrix_is_the_same_up_to_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forum = agreement(20, 60, latent_sd=0, seed=3)
    moved = []
    for most in (1000, 0):
        monkeypatch.setattr(thread_regression, "_MOST_WITH_GRAM", most)
        likelihood = SharedOutcome(forum.participation, forum.outcome).prepare(None)[1]
        model = Model(
            ChineseRestaurant(), forum.features / forum.features.std(), likelihood, 20, pooled=True
        )
        state = GibbsEngine(3).start(np.random.default_rng(0), model, np.arange(20) % 4)
        working = working_state(np.random.default_rng(0), model, state, 3)
        assert (working.terms.gram.size > 0) == (most > 0)
        moved.append(
            engine.run_by_blocks(stream_of(np.random.default_rng(5)), working, steps.MOVES)[0]
        )
    np.testing.assert_array_equal(moved[0].z, moved[1].z)
    np.testing.assert_allclose(moved[0].views[-1].vectors, moved[1].views[-1].vectors, rtol=1e-8)


# Five users: every partition, with base, noise and α held fixed.

PARTICIPATION = np.array(
    [
        [1, 0, 0, 1, 0],
        [0, 1, 1, 0, 0],
        [1, 1, 0, 0, 1],
        [0, 0, 1, 1, 1],
        [0, 1, 0, 1, 0],
        [0, 0, 0, 0, 1],
    ],
    dtype=float,
)
OUTCOME = np.array([0.4, -1.1, 1.9, 2.4, -0.2, 1.6])
CENTRE, PRECISION, NOISE = 0.3, 0.7, 1.4


def forum_model(partition: PartitionPrior, features: np.ndarray | None) -> Model:
    """Shared outcomes in working units that are the data's own, so that what is held fixed can be
    written down."""
    units = GaussianPrior(0.0, 1.0)
    _, likelihood = SharedOutcome(PARTICIPATION, OUTCOME, noise_variance=1.0).prepare(units)
    return Model(partition, features, likelihood, N_USERS, pooled=True)


def enumerated(kind: tuple[str, int | None], with_features: bool) -> dict[tuple[int, ...], float]:
    """Posterior probability of each partition: given it the outcomes are normal, with one
    coefficient for each cluster."""
    logs = {}
    for labels in naive.partitions(N_USERS):
        z, n_blocks = np.array(labels), max(labels) + 1
        if kind[0] == "finite" and n_blocks > kind[1]:
            continue
        logs[labels] = naive.log_partition(z, ALPHA, kind)
        if kind[0] == "finite":
            logs[labels] += sum(np.log(kind[1] - i) for i in range(n_blocks))
        effects = PARTICIPATION @ np.eye(n_blocks)[z]
        covariance = np.eye(len(OUTCOME)) / NOISE + effects @ effects.T / PRECISION
        logs[labels] += multivariate_normal.logpdf(
            OUTCOME, CENTRE * effects.sum(axis=1), covariance
        )
        if with_features:
            logs[labels] += sum(
                naive.log_cluster_marginal(X[z == k], *BASE.values()) for k in range(n_blocks)
            )
    total = logsumexp(list(logs.values()))
    return {labels: float(np.exp(value - total)) for labels, value in logs.items()}


def chain(
    rng: np.random.Generator, model: Model, n_auxiliary: int, n: int, draw_vectors: Any
) -> list[tuple[int, ...]]:
    """Partitions drawn by the shipped moves of components and assignments alone."""
    n_components = model.partition.n_components or 1
    centre = np.array([CENTRE]), np.array([[PRECISION]])
    views: dict[str, Any] = {
        "behavior": SharedVectorState(np.full((n_components, 1), CENTRE), *centre)
    }
    if model.features is not None:
        views["features"] = GaussianState(
            GaussianView(1).draw_prior(rng, n_components).components, FIXED
        )
    params = {"noise_precision": NOISE, "coefficients": np.empty(0)}
    labels = LabelsByView.agreeing(np.zeros(N_USERS, dtype=np.int64))
    state = State(labels, ALPHA, views, np.full((N_USERS, 1), CENTRE), params)
    draws = []
    for _ in range(n):
        working, stream = working_state(rng, model, state, n_auxiliary), stream_of(rng)
        features, own = working.views
        own = own._replace(means=draw_vectors(stream, working.z, working.terms, own))
        if model.features is not None:
            sums = gaussian.cluster_sums(
                model.features, working.z, features.components.means, np.empty(0)
            )
            features = features._replace(components=gaussian.draw_components(stream, sums, FIXED))
        working = split_merge.run(stream, working._replace(views=(features, own)))
        working = blocks.assign(stream, working)
        state = engine._after(model, working, working.views[-1].vectors, params)
        draws.append(canonical(state.z))
    return draws


@pytest.mark.parametrize(
    ("partition", "kind", "with_features", "with_gram"),
    [
        pytest.param(
            ChineseRestaurant(), ("dp", None), False, True, id="process, by a gram matrix"
        ),
        pytest.param(ChineseRestaurant(), ("dp", None), True, False, id="process, with features"),
        pytest.param(FiniteDirichlet(3), ("finite", 3), False, False, id="three clusters"),
        pytest.param(
            FiniteDirichlet(3), ("finite", 3), False, True, id="three clusters, by a gram matrix"
        ),
    ],
)
@pytest.mark.slow
def test_frequencies_of_partitions(
    partition: PartitionPrior,
    kind: tuple,
    with_features: bool,
    with_gram: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_regression, "_MOST_WITH_GRAM", 1000 if with_gram else 0)
    model = forum_model(partition, X[:, None] if with_features else None)
    assert worst_frequency(model, enumerated(kind, with_features), 12_000) < ACCEPT


def test_frequencies_of_partitions_in_fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three clusters, by a gram matrix."""
    monkeypatch.setattr(thread_regression, "_MOST_WITH_GRAM", 1000)
    model = forum_model(FiniteDirichlet(3), None)
    assert worst_frequency(model, enumerated(("finite", 3), False), 5_000) < ACCEPT


def worst_frequency(
    model: Model,
    exact: dict[tuple[int, ...], float],
    n: int,
    draw_vectors: Any = shared.draw_vectors,
) -> float:
    """The largest |z| of the frequencies of partitions that are not rare."""
    draws = chain(np.random.default_rng(1), model, 2, n, draw_vectors)
    frequent = [
        labels for labels, probability in exact.items() if probability > 60 / n
    ]  # some in each batch
    hits = np.array([[draw == labels for labels in frequent] for draw in draws], dtype=float)
    assert len(frequent) > 10
    assert set(draws) <= set(exact)
    return float(np.abs(batch_scores(hits, np.array([exact[labels] for labels in frequent]))).max())


@pytest.mark.slow
def test_residuals_that_stay_behind_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_regression, "_MOST_WITH_GRAM", 0)
    wrong = mutate(shared.draw_vectors, *residuals_stay_behind())
    model = forum_model(FiniteDirichlet(3), None)
    assert worst_frequency(model, enumerated(("finite", 3), False), 12_000, wrong) > REJECT


# Coefficients of covariates.


@pytest.mark.parametrize("is_sparse", [False, True])
def test_coefficients_of_covariates_and_clusters_are_drawn_together(is_sparse: bool) -> None:
    """Mean and covariance are those of one regression on clusters and covariates."""
    rng = np.random.default_rng(4)
    participation, covariates = (
        rng.integers(0, 2, (9, 6)).astype(float),
        rng.standard_normal((9, 2)),
    )
    outcome = rng.standard_normal(9)
    behavior = SharedOutcome(
        sparse.csr_array(participation) if is_sparse else participation, outcome, covariates
    )
    likelihood = behavior.prepare(GaussianPrior(0.0, 1.0))[1]
    z, precision = np.array([0, 2, 1, 0, 2, 0]), 0.6
    prior = Prior(z, np.full((4, 1), 0.3), np.full((4, 1, 1), np.sqrt(precision)), pooled=True)
    draws = []
    for _ in range(2500):
        latent, coefficients = likelihood._draw_jointly(rng, 1.7, prior, np.ones(2))
        np.testing.assert_array_equal(latent[0], latent[3])
        draws.append([latent[0, 0], latent[2, 0], latent[1, 0], *coefficients])
    design = likelihood.design.toarray() if is_sparse else likelihood.design
    regressors = np.hstack([design @ np.eye(4)[z][:, :3], likelihood.coefficient_design])
    means, covariance = naive.blr_posterior(
        regressors,
        likelihood.outcome,
        np.array([0.3] * 3 + [0.0] * 2),
        np.array([precision] * 3 + [1.0] * 2),
        1.7,
    )
    standard = np.linalg.solve(np.linalg.cholesky(covariance), (np.array(draws) - means).T).T
    assert np.abs(standard.mean(axis=0)).max() < ACCEPT / np.sqrt(len(draws))
    spread = np.cov(standard.T) - np.eye(5)
    assert np.abs(spread).max() < ACCEPT * np.sqrt(2 / len(draws))


# A forum whose clusters have no spread.
