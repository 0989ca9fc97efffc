"""The sampler's frequencies of partitions against enumeration: five users, one view,
hyperparameters held fixed."""

import numpy as np
import pytest

import naive
from checks import ACCEPT, batch_scores
from dualview.engines.gibbs import GibbsEngine, blocks, engine
from dualview.engines.gibbs.moves import assignment, split_merge
from dualview.model import Model, State
from dualview.numerics.messages import Terms
from dualview.numerics.streams import stream_of
from dualview.partitions.agreement import LabelsByView
from dualview.partitions.finite_mixtures import FiniteMixtures
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, PartitionPrior
from dualview.views.base import Base
from dualview.views.gaussian import conditionals as gaussian
from dualview.views.gaussian.view import GaussianState, GaussianView

X = np.array([-1.3, -1.0, 0.1, 0.9, 1.1])
BASE = {"base_mean": 0.2, "base_precision": 0.6, "base_covariance": 0.3, "base_dof": 2.5}
FIXED = Base(
    np.array([BASE["base_mean"]]),
    np.array([[BASE["base_precision"]]]),
    np.array([[BASE["base_covariance"]]]),
    BASE["base_dof"],
)
ALPHA = 0.8
MIXTURES = FiniteMixtures("poisson(2)")


def canonical(z: np.ndarray) -> tuple[int, ...]:
    """Labels numbered by first appearance."""
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(int(k), len(seen)) for k in z)


def chain(
    rng: np.random.Generator, partition: PartitionPrior, n_auxiliary: int, n: int
) -> list[tuple[int, ...]]:
    """Partitions drawn by the shipped component and assignment updates, α and the base left as they
    are."""
    model = Model(partition, X[:, None], None, len(X))
    view = GaussianState(
        GaussianView(1).draw_prior(rng, partition.n_components or 1).components, FIXED
    )
    labels = LabelsByView.agreeing(np.zeros(len(X), dtype=np.int64))
    state = State(labels, ALPHA, {"features": view})
    draws = []
    for _ in range(n):
        sums = gaussian.cluster_sums(
            X[:, None], state.z, state.views["features"].components.means, np.empty(0)
        )
        components = gaussian.draw_components(stream_of(rng), sums, FIXED)
        state = State(state.labels, ALPHA, {"features": GaussianState(components, FIXED)})
        state = reassigned(rng, model, state, n_auxiliary)
        draws.append(canonical(state.z))
    return draws


def reassigned(rng: np.random.Generator, model: Model, state: State, n_auxiliary: int) -> State:
    """The shipped assignment sweep alone, with splits and merges."""
    stream, working = (
        stream_of(rng),
        GibbsEngine(n_auxiliary).working_state(model, state, Terms.none(model.n_users)),
    )
    return engine._after(model, blocks.assign(stream, split_merge.run(stream, working)), None, {})


@pytest.mark.parametrize(
    ("partition", "kind", "n_auxiliary", "n"),
    [
        pytest.param(
            ChineseRestaurant(), ("dp", None), 3, 8_000, id="process, three auxiliary, fewer draws"
        ),
        pytest.param(
            ChineseRestaurant(),
            ("dp", None),
            1,
            30_000,
            id="process, one auxiliary",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ChineseRestaurant(),
            ("dp", None),
            3,
            30_000,
            id="process, three auxiliary",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            FiniteDirichlet(3),
            ("finite", 3),
            3,
            30_000,
            id="three clusters",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            MIXTURES,
            ("mixtures", MIXTURES.log_components(np.arange(1, 2000))),
            3,
            30_000,
            id="mixtures of finite mixtures",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_frequencies_of_partitions(
    partition: PartitionPrior, kind: tuple, n_auxiliary: int, n: int
) -> None:
    exact = naive.enumerate_posterior(X, *BASE.values(), ALPHA, partition=kind)
    draws = chain(np.random.default_rng(1), partition, n_auxiliary, n)
    frequent = [
        labels for labels, probability in exact.items() if probability > 150 / n
    ]  # some in each batch
    hits = np.array([[draw == labels for labels in frequent] for draw in draws], dtype=float)
    scores = batch_scores(hits, np.array([exact[labels] for labels in frequent]))
    assert len(frequent) > 10
    assert np.abs(scores).max() < ACCEPT
    assert set(draws) <= set(exact)


@pytest.mark.slow
def test_blocks_of_users_do_not_change_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of log likelihoods made for two users at a time."""
    monkeypatch.setattr(assignment, "BLOCK", 2)
    exact = naive.enumerate_posterior(X, *BASE.values(), ALPHA)
    draws = chain(np.random.default_rng(2), ChineseRestaurant(), 2, 20_000)
    frequent = [labels for labels, probability in exact.items() if probability > 0.01]
    hits = np.array([[draw == labels for labels in frequent] for draw in draws], dtype=float)
    scores = batch_scores(hits, np.array([exact[labels] for labels in frequent]))
    assert np.abs(scores).max() < ACCEPT
