"""Frequencies of partitions against enumeration: five users, a missing cell, an interval, a
category; the base held fixed."""

from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import naive
from checks import ACCEPT, REJECT, batch_scores, changed, mutate
from dualview.engines.gibbs import GibbsEngine, blocks, engine
from dualview.engines.gibbs.moves import split_merge
from dualview.model import Model, Observed, State
from dualview.numerics.messages import Terms
from dualview.numerics.streams import stream_of
from dualview.partitions.agreement import LabelsByView
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, PartitionPrior
from dualview.views import Intervals, NominalView
from dualview.views.base import Base
from dualview.views.gaussian import conditionals as gaussian
from dualview.views.gaussian.view import GaussianState
from dualview.views.nominal import splitting
from dualview.views.nominal.conditionals import count_levels, draw_shares
from dualview.views.nominal.state import NominalState

ALPHA, GAMMA = 0.8, 1.5
BASE = 0.2, 0.6, 0.3, 2.5
FIXED = Base(np.array([0.2]), np.array([[0.6]]), np.array([[0.3]]), 2.5)
SHARES = (0.5, 0.3, 0.2)
CODES = np.array([[0.0], [0.0], [-1.0], [2.0], [2.0]])
LOW = np.array(
    [[-1.3], [-np.inf], [0.1], [0.3], [1.1]]
)  # the second cell is missing, the fourth lies between two numbers
HIGH = np.array([[-1.3], [np.inf], [0.1], [1.9], [1.1]])


def log_levels(codes: np.ndarray) -> float:
    """ln of the probability of some users' levels, shares integrated out."""
    counts, weights = (
        np.array([(codes == level).sum() for level in range(3)]),
        GAMMA * np.array(SHARES),
    )
    n = counts.sum()
    return float(
        gammaln(GAMMA) - gammaln(GAMMA + n) + (gammaln(weights + counts) - gammaln(weights)).sum()
    )


def log_numbers(users: np.ndarray) -> float:
    """ln of the probability of some users' numbers: without the missing one, and over the interval
    of the fourth."""
    known = [LOW[u, 0] for u in users if u not in (1, 3)]
    if 3 not in users:
        return float(naive.log_cluster_marginal(np.array(known), *BASE)) if known else 0.0
    grid, step = np.linspace(0.3, 1.9, 161, retstep=True)
    values = [naive.log_cluster_marginal(np.array([*known, x]), *BASE) for x in grid]
    ends = np.full(161, np.log(step))
    ends[[0, -1]] -= np.log(2.0)
    return float(logsumexp(np.array(values) + ends))


def exact(kind: tuple) -> dict[tuple[int, ...], float]:
    """The probability of every partition."""
    found = {}
    for labels in naive.partitions(5):
        z, n_blocks = np.array(labels), max(labels) + 1
        if kind[0] == "finite":
            if n_blocks > kind[1]:
                continue
            found[labels] = sum(np.log(kind[1] - i) for i in range(n_blocks))
        members = [np.flatnonzero(z == k) for k in range(n_blocks)]
        found[labels] = found.get(labels, 0.0) + naive.log_partition(z, ALPHA, kind)
        found[labels] += sum(log_numbers(users) + log_levels(CODES[users, 0]) for users in members)
    total = logsumexp(list(found.values()))
    return {labels: float(np.exp(value - total)) for labels, value in found.items()}


def chain(
    rng: np.random.Generator, partition: PartitionPrior, n: int, splits: Any = split_merge.run
) -> list[tuple[int, ...]]:
    """Partitions drawn by the shipped component, split and assignment updates; α, γ and the base as
    they are."""
    known = Intervals(LOW, HIGH, np.zeros(1), np.eye(1), np.eye(1))
    view = NominalView((SHARES,))
    model = Model(
        partition,
        known.start,
        None,
        5,
        others={"categories": Observed(view, CODES)},
        intervals=known,
    )
    features, codes = model.views["features"], np.ascontiguousarray(CODES.T).astype(np.int64)
    z, draws, n_components = np.zeros(5, dtype=np.int64), [], partition.n_components or 1
    components, cells = (
        gaussian.draw_from_base(stream_of(rng), n_components, FIXED),
        known.values(known.start),
    )
    for _ in range(n):
        stream, n_components = stream_of(rng), len(components.means)
        x = features.completed(GaussianState(components, FIXED, cells), model.features)
        sums = gaussian.cluster_sums(x, z, components.means, np.empty(0))
        levels, logs = (
            count_levels(z, 0, 5, codes, view.starts, n_components),
            np.empty((n_components, 3)),
        )
        for k in range(n_components):
            draw_shares(stream, levels[k], view.starts, view.flat, np.array([GAMMA]), logs[k])
        views = {
            "features": GaussianState(gaussian.draw_components(stream, sums, FIXED), FIXED, cells),
            "categories": NominalState(logs, np.array([GAMMA])),
        }
        state = State(LabelsByView.agreeing(z), ALPHA, views)
        working = GibbsEngine(2).working_state(model, state, Terms.none(5))
        after = engine._after(model, blocks.assign(stream, splits(stream, working)), None, {})
        z, features_after = after.z, after.views["features"]
        components, cells = features_after.components, features_after.cells
        seen: dict[int, int] = {}
        draws.append(tuple(seen.setdefault(int(k), len(seen)) for k in z))
    return draws


@pytest.mark.parametrize(
    ("partition", "kind"),
    [
        pytest.param(ChineseRestaurant(), ("dp", None), id="process", marks=pytest.mark.slow),
        pytest.param(
            FiniteDirichlet(3), ("finite", 3), id="three clusters", marks=pytest.mark.slow
        ),
    ],
)
def test_frequencies_of_partitions(partition: PartitionPrior, kind: tuple) -> None:
    assert worst_score(chain(np.random.default_rng(1), partition, 10_000), kind) < ACCEPT


OFTEN = "MOVES if state.terms.noise.shape[0] == 0 and random(rng) < SHARE else 0", "40"


@pytest.mark.slow
def test_many_splits_in_every_sweep_do_not_change_the_law() -> None:
    often = mutate(split_merge.run, changed(split_merge.draw_moves, *OFTEN))
    assert (
        worst_score(
            chain(np.random.default_rng(1), ChineseRestaurant(), 10_000, often), ("dp", None)
        )
        < ACCEPT
    )


@pytest.mark.slow
def test_splits_that_do_not_see_levels_are_rejected() -> None:
    """With many of them in every sweep: a few are made good by the assignments after them."""
    blind = changed(splitting.log_weight, "total += log_evidence", "total += 0.0 * log_evidence")
    wrong = mutate(split_merge.run, changed(split_merge.draw_moves, *OFTEN), blind)
    assert (
        worst_score(
            chain(np.random.default_rng(1), ChineseRestaurant(), 10_000, wrong), ("dp", None)
        )
        > REJECT
    )


def worst_score(draws: list[tuple[int, ...]], kind: tuple) -> float:
    """The largest |z| of the frequencies of likely partitions."""
    expected = exact(kind)
    frequent = [labels for labels, probability in expected.items() if probability > 0.01]
    hits = np.array([[draw == labels for labels in frequent] for draw in draws], dtype=float)
    assert len(frequent) > 8
    return float(
        np.abs(batch_scores(hits, np.array([expected[labels] for labels in frequent]))).max()
    )
