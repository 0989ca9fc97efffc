"""Labels of two tables and of behavior, and who agrees, against enumeration: three users,
hyperparameters and ρ held fixed."""

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

import naive
from checks import ACCEPT, REJECT, batch_scores, changed, mutate
from dualview.behaviors.families.noise import NoisePrior
from dualview.behaviors.panel import Panel
from dualview.columns.layout import Layout
from dualview.engines.gibbs import GibbsEngine, blocks
from dualview.engines.gibbs.engine import _after
from dualview.engines.gibbs.moves import assignment, split_merge
from dualview.model import Model, State
from dualview.numerics.streams import stream_of
from dualview.partitions.agreement import KnownAgreement, LabelsByView
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, PartitionPrior
from dualview.views.blocked import BlockedState
from dualview.views.gaussian import conditionals as gaussian
from dualview.views.gaussian.view import GaussianState, GaussianView
from engines.gibbs.test_exact_agreement import FIXED, NOISE, always_split, log_cluster
from rows import normal_rows

DATA = {
    "first": np.array([-1.2, -0.8, 1.0]),
    "second": np.array([0.9, -1.0, 0.8]),
    "behavior": np.array([-0.8, 0.9, 1.1]),
}
SHARES, ALPHA = (0.7, 0.4), 0.8
USERS = range(3)
LAYOUT = Layout(("first", "second"), (1, 1), (1, 1))


@cache
def log_marginal(view: str, members: tuple[int, ...]) -> float:
    """ln p(vectors of one cluster), its mean and precision integrated out; of behavior, the latent
    numbers too."""
    return log_cluster(DATA[view][list(members)], 1.0 / NOISE if view == "behavior" else 0.0)


def exact(kind: tuple[str, int | None]) -> dict[str, float]:
    """Probabilities of events."""
    log_weights, events = [], []
    for pattern in itertools.product((False, True), repeat=6):
        agrees = np.array(pattern).reshape(2, 3)
        log_agrees = sum(
            np.log(np.where(own, share, 1.0 - share)).sum()
            for own, share in zip(agrees, SHARES, strict=True)
        )
        for labels in naive.partitions(3 + int((~agrees).sum())):
            n_blocks = max(labels) + 1
            if kind[0] == "finite" and n_blocks > (kind[1] or 0):
                continue
            acts = np.array(labels[:3])
            looks = np.tile(acts, (2, 1))
            looks[~agrees] = labels[3:]
            total = naive.log_partition(np.array(labels), ALPHA, kind) + log_agrees
            if kind[0] == "finite":
                total += sum(np.log((kind[1] or 0) - i) for i in range(n_blocks))
            for view, own in zip(DATA, (*looks, acts), strict=True):
                total += sum(
                    log_marginal(view, tuple(u for u in USERS if own[u] == k))
                    for k in range(n_blocks)
                )
            log_weights.append(total)
            events.append(happened(acts, looks, agrees))
    weights = np.exp(np.array(log_weights) - logsumexp(log_weights))
    return {name: float(weights @ [event[name] for event in events]) for name in events[0]}


def happened(acts: Any, looks: Any, agrees: Any) -> dict[str, float]:
    """What is the case, 1 or 0, and how many clusters there are."""
    pairs, found = list(itertools.combinations(USERS, 2)), {}
    for name, own in zip(DATA, (*looks, acts), strict=True):
        found |= {f"{i} and {j} alike by {name}": float(own[i] == own[j]) for i, j in pairs}
    for i in USERS:
        found |= {f"{i} agrees in {t}": float(agrees[t, i]) for t in range(2)}
        found[f"tables of {i} alike"] = float(looks[0, i] == looks[1, i])
        found[f"{i} looks as the next acts"] = float(looks[0, i] == acts[(i + 1) % 3])
        found[f"{i} looks as the next looks in the other table"] = float(
            looks[0, i] == looks[1, (i + 1) % 3]
        )
    found["clusters"] = float(len(np.unique(np.concatenate([acts, *looks]))))
    return found | {"all agree": float(agrees.all()), "nobody agrees": float(not agrees.any())}


def chain(
    rng: np.random.Generator, partition: PartitionPrior, n: int, split: Any
) -> list[dict[str, float]]:
    """The shipped updates of components, splits and merges and assignments; everything else stays
    as it is."""
    outcome = DATA["behavior"]
    likelihood = normal_rows(
        Panel.of(np.arange(3), np.ones((3, 1)), outcome, 3), NoisePrior(1.0, 1.0)
    )
    x = np.column_stack([DATA["first"], DATA["second"]])
    agreement = tuple(KnownAgreement(share) for share in SHARES)
    model = Model(partition, x, likelihood, 3, agreement=agreement, layout=LAYOUT)
    z, params = np.zeros(3, dtype=np.int64), {"noise_precision": NOISE}
    start = [
        GaussianState(
            GaussianView(1).draw_prior(rng, partition.n_components or 1).components, FIXED
        )
        for _ in range(3)
    ]
    blocked = model.views["features"]
    views: dict[str, Any] = {
        "features": BlockedState(blocked, tuple(start[:2])),
        "behavior": start[2],
    }
    labels = LabelsByView.agreeing(z, SHARES)
    state = State(labels, ALPHA, views, outcome[:, None].copy(), params)
    found = []
    for _ in range(n):
        assert state.latent is not None
        parts = [
            _redrawn(
                rng,
                np.ascontiguousarray(x[:, t : t + 1]),
                state.labels.z[1 + t],
                state.views["features"].parts[t],
            )
            for t in range(2)
        ]
        own = {
            "features": BlockedState(blocked, tuple(parts)),
            "behavior": _redrawn(rng, state.latent, state.labels.behavior, state.views["behavior"]),
        }
        state = State(state.labels, ALPHA, own, state.latent, params)
        assert state.latent is not None
        working = GibbsEngine(2).working_state(
            model, state, likelihood.terms(rng, state.latent, params)
        )
        stream = stream_of(rng)
        working = blocks.assign(stream, split(stream, working))
        state = _after(model, working, working.views[-1].vectors, params)
        np.testing.assert_array_equal(state.counts, working.counts)
        found.append(happened(state.labels.behavior, state.labels.z[1:], state.labels.agrees))
    return found


def _redrawn(rng: np.random.Generator, vectors: Any, labels: Any, before: Any) -> GaussianState:
    sums = gaussian.cluster_sums(vectors, labels, before.component_parts["means"], np.empty(0))
    return GaussianState(gaussian.draw_components(stream_of(rng), sums, FIXED), FIXED)


def worst_score(
    partition: PartitionPrior, kind: tuple[str, int | None], n: int, split: Any = split_merge.run
) -> float:
    expected = exact(kind)
    draws = chain(np.random.default_rng(0), partition, n, split)
    values = np.array([list(draw.values()) for draw in draws])
    return float(np.abs(batch_scores(values, np.array(list(expected.values())))).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("partition", "kind"),
    [
        pytest.param(ChineseRestaurant(), ("dp", None), id="process"),
        pytest.param(FiniteDirichlet(3), ("finite", 3), id="three clusters"),
    ],
)
def test_events_have_their_probabilities(
    partition: PartitionPrior, kind: tuple[str, int | None]
) -> None:
    assert worst_score(partition, kind, 15_000) < ACCEPT


@pytest.mark.slow
def test_with_splits_and_merges_in_every_sweep() -> None:
    assert worst_score(ChineseRestaurant(), ("dp", None), 40_000, always_split) < ACCEPT


@pytest.mark.slow
def test_tables_that_agree_and_say_nothing_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that agree with behavior say something about where it goes."""
    silent = changed(assignment.weigh_part, "if g != other and", "if g == 1 and g != other and")
    mutant = mutate(assignment.assign_block, silent)
    monkeypatch.setattr(assignment, "assign_block", mutant)
    assert worst_score(ChineseRestaurant(), ("dp", None), 15_000) > REJECT


@pytest.mark.slow
def test_splits_that_forget_a_table_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = "groups, partition = proposal.whole,", "groups, partition = proposal.only[0],"
    mutant = mutate(split_merge.split_and_merge, old, new)
    monkeypatch.setattr(split_merge, "split_and_merge", mutant)
    assert worst_score(ChineseRestaurant(), ("dp", None), 40_000, always_split) > REJECT
