"""Labels of both views and who agrees, against enumeration: four users, hyperparameters, noise and
ρ held fixed."""

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import naive
from checks import ACCEPT, REJECT, batch_scores, changed, mutate
from dualview.behaviors.families.noise import NoisePrior
from dualview.behaviors.panel import Panel
from dualview.engines.gibbs import GibbsEngine, blocks
from dualview.engines.gibbs.engine import _after
from dualview.engines.gibbs.moves import assignment, split_merge
from dualview.engines.gibbs.working import WorkingState
from dualview.model import Model, State
from dualview.numerics.streams import stream_of
from dualview.partitions.agreement import KnownAgreement, LabelsByView
from dualview.partitions.finite_mixtures import FiniteMixtures
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, PartitionPrior
from dualview.views.base import Base
from dualview.views.gaussian import conditionals as gaussian
from dualview.views.gaussian.view import GaussianState, GaussianView
from rows import normal_rows

X = np.array([-1.2, -0.9, 1.0, 0.4])
Y = np.array([-0.8, 0.9, 1.1, -0.7])
NOISE = 4.0
SHARE, ALPHA = 0.6, 0.8
MIXTURES = FiniteMixtures("poisson(2)")
OF_MIXTURES = "mixtures", MIXTURES.log_components(np.arange(1, 500))
BASE = (0.2, 0.6, 0.3, 2.5)  # μ_0, R_0, W_0, β of both views
FIXED = Base(np.array([BASE[0]]), np.array([[BASE[1]]]), np.array([[BASE[2]]]), BASE[3])
USERS = range(len(X))


@cache
def log_marginal(view: str, members: tuple[int, ...]) -> float:
    """ln p(vectors of one cluster), its mean and precision integrated out; of behavior, the latent
    numbers too."""
    values, noise = (X, 0.0) if view == "features" else (Y, 1.0 / NOISE)
    return log_cluster(values[list(members)], noise)


def log_cluster(values: np.ndarray, noise: float) -> float:
    """ln p(vectors of one cluster) with a variance of noise besides, its mean and precision
    integrated out."""
    mean, precision, covariance, dof = BASE
    if not len(values):
        return 0.0
    levels = (np.arange(4000) + 0.5) / 4000
    own = stats.gamma(0.5 * dof, scale=2.0 / (dof * covariance)).ppf(
        levels
    )  # precisions, equally likely
    away, n = values - mean, len(values)
    spread = 1.0 / own + noise
    whole = spread + n / precision  # the eigenvalue along (1, …, 1); the others are spread
    squares = ((away**2).sum() - n * away.mean() ** 2) / spread + n * away.mean() ** 2 / whole
    log_densities = -0.5 * (
        n * np.log(2.0 * np.pi) + (n - 1) * np.log(spread) + np.log(whole) + squares
    )
    return float(logsumexp(log_densities) - np.log(len(levels)))


def exact(kind: tuple[str, int | None]) -> dict[str, float]:
    """Probabilities of events."""
    log_weights, events = [], []
    for agrees in itertools.product((False, True), repeat=len(X)):
        second = [u for u in USERS if not agrees[u]]
        for labels in naive.partitions(len(X) + len(second)):
            n_blocks = max(labels) + 1
            if kind[0] == "finite" and n_blocks > (kind[1] or 0):
                continue
            z = np.array(labels[: len(X)])
            acts = z.copy()
            acts[second] = labels[len(X) :]
            total = naive.log_partition(np.array(labels), ALPHA, kind)
            if kind[0] == "finite":
                total += sum(np.log((kind[1] or 0) - i) for i in range(n_blocks))
            total += sum(np.log(SHARE if own else 1.0 - SHARE) for own in agrees)
            for k in range(n_blocks):
                total += log_marginal("features", tuple(u for u in USERS if z[u] == k))
                total += log_marginal("behavior", tuple(u for u in USERS if acts[u] == k))
            log_weights.append(total)
            events.append(happened(z, acts, np.array(agrees)))
    weights = np.exp(np.array(log_weights) - logsumexp(log_weights))
    return {name: float(weights @ [event[name] for event in events]) for name in events[0]}


def happened(z: Any, acts: Any, agrees: Any) -> dict[str, float]:
    """What is the case, 1 or 0, and how many clusters there are."""
    pairs = list(itertools.combinations(USERS, 2))
    found = {f"{i} and {j} look alike": float(z[i] == z[j]) for i, j in pairs}
    found |= {f"{i} and {j} act alike": float(acts[i] == acts[j]) for i, j in pairs}
    found |= {
        f"{i} looks as {j} acts": float(z[i] == acts[j]) for i, j in itertools.product(USERS, USERS)
    }
    found |= {f"{i} agrees": float(agrees[i]) for i in USERS}
    return found | {"clusters": float(len(np.union1d(z, acts))), "all agree": float(agrees.all())}


def always_split(rng: Any, state: WorkingState) -> WorkingState:
    """Eight splits or merges in every sweep."""
    state = split_merge.with_new_columns(rng, 8, state)
    split_merge.split_and_merge(rng, 8, state)
    return state


def chain(
    rng: np.random.Generator, partition: PartitionPrior, n: int, split: Any
) -> list[dict[str, float]]:
    """The shipped updates of components, splits and merges and assignments; everything else stays
    as it is."""
    likelihood = normal_rows(
        Panel.of(np.arange(len(X)), np.ones((len(X), 1)), Y, len(X)), NoisePrior(1.0, 1.0)
    )
    model = Model(partition, X[:, None], likelihood, len(X), agreement=KnownAgreement(SHARE))
    state = model.draw_prior(rng)
    z = np.zeros(len(X), dtype=np.int64)
    views: dict[str, Any] = {
        name: GaussianState(
            GaussianView(1).draw_prior(rng, partition.n_components or 1).components, FIXED
        )
        for name in ("features", "behavior")
    }
    params = {"noise_precision": NOISE}
    labels = LabelsByView.agreeing(z, [SHARE])
    state = State(labels, ALPHA, views, Y[:, None].copy(), params)
    found = []
    for _ in range(n):
        for name, vectors in model.vectors(state).items():
            sums = gaussian.cluster_sums(
                vectors,
                state.labels.of(name),
                state.views[name].component_parts["means"],
                np.empty(0),
            )
            views[name] = GaussianState(
                gaussian.draw_components(stream_of(rng), sums, FIXED), FIXED
            )
        state = State(state.labels, ALPHA, dict(views), state.latent, params)
        assert state.latent is not None
        working = GibbsEngine(2).working_state(
            model, state, likelihood.terms(rng, state.latent, params)
        )
        stream = stream_of(rng)
        working = blocks.assign(stream, split(stream, working))
        state = _after(model, working, working.views[-1].vectors, params)
        np.testing.assert_array_equal(state.counts, working.counts)
        found.append(happened(state.z, state.labels.behavior, state.labels.agrees[0]))
    return found


def worst_score(
    partition: PartitionPrior, kind: tuple[str, int | None], n: int, split: Any = split_merge.run
) -> float:
    expected = exact(kind)
    draws = chain(np.random.default_rng(0), partition, n, split)
    values = np.array([list(draw.values()) for draw in draws])
    return float(np.abs(batch_scores(values, np.array(list(expected.values())))).max())


@pytest.mark.parametrize(
    ("partition", "kind"),
    [
        pytest.param(ChineseRestaurant(), ("dp", None), id="process", marks=pytest.mark.slow),
        pytest.param(
            FiniteDirichlet(3), ("finite", 3), id="three clusters", marks=pytest.mark.slow
        ),
        pytest.param(
            MIXTURES, OF_MIXTURES, id="mixtures of finite mixtures", marks=pytest.mark.slow
        ),
    ],
)
def test_events_have_their_probabilities(
    partition: PartitionPrior, kind: tuple[str, int | None]
) -> None:
    assert worst_score(partition, kind, 12_000) < ACCEPT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("partition", "kind"),
    [
        pytest.param(ChineseRestaurant(), ("dp", None), id="process"),
        pytest.param(MIXTURES, OF_MIXTURES, id="mixtures of finite mixtures"),
    ],
)
def test_with_splits_and_merges_in_every_sweep(
    partition: PartitionPrior, kind: tuple[str, Any]
) -> None:
    assert worst_score(partition, kind, 40_000, always_split) < ACCEPT


@pytest.mark.slow
def test_customers_that_are_not_counted_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new cluster of a mixture of finite mixtures weighs as if there were one customer."""
    change = changed(assignment.weigh_columns, "n_customers, partition", "1, partition")
    mutant = mutate(assignment.assign_block, change)
    monkeypatch.setattr(assignment, "assign_block", mutant)
    assert worst_score(MIXTURES, OF_MIXTURES, 12_000) > REJECT


@pytest.mark.slow
def test_a_new_cluster_that_weighs_twice_as_much_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change = changed(assignment.weigh_part, "(1.0 - share) / total", "2.0 * (1.0 - share) / total")
    mutant = mutate(assignment.assign_block, change)
    monkeypatch.setattr(assignment, "assign_block", mutant)
    assert worst_score(ChineseRestaurant(), ("dp", None), 12_000) > REJECT


@pytest.mark.slow
def test_splits_with_i_and_j_among_all_users_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are to be among those who agree."""
    old, new = (
        "(sizes.agreeing[2] - 1.0) / sizes.agreeing[1]",
        "(sizes.customers[2] - 1.0) / sizes.customers[1]",
    )
    mutant = mutate(split_merge.split_and_merge, old, new)
    monkeypatch.setattr(split_merge, "split_and_merge", mutant)
    assert worst_score(ChineseRestaurant(), ("dp", None), 40_000, always_split) > REJECT
