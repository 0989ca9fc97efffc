"""Joint tests of the sampler where users need not act as they look: a label for each view."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import test_joint_tables as tables
from test_joint_behaviors import choices, linked, model, regression

from checks import REJECT, LostChainsError, assert_joint, by_blocks, gibbs_step, joint_test, mutate, rebind, worst
from dualview.engines.gibbs.apart import assignment, moves, split_merge
from dualview.model import Model, State
from dualview.partitions.agreement import LEARNT, Beta, KnownAgreement
from dualview.partitions.pitman_yor import PitmanYor
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet


def apart(made: Model, prior: Any = LEARNT) -> Model:
    return replace(made, agreement=prior)


MODELS = {
    "process": lambda: apart(model(ChineseRestaurant(), regression(1))),
    "three clusters": lambda: apart(model(FiniteDirichlet(3), regression(1))),
    "two numbers, a prior of agreement, process": lambda: apart(model(ChineseRestaurant(), regression(2)), Beta(4.0, 2.0)),
    "known share, process": lambda: apart(model(ChineseRestaurant(), regression(1)), KnownAgreement(0.4)),
    "nobody agrees, three clusters": lambda: apart(model(FiniteDirichlet(3), regression(1)), KnownAgreement(0.0)),
    "Pitman-Yor": lambda: apart(model(PitmanYor(0.3), regression(1))),
    "noise by cluster, process": lambda: apart(model(ChineseRestaurant(), regression(1, True))),
    "pooled, process": lambda: apart(model(ChineseRestaurant(), regression(2), pooled=True)),
    "choices, process": lambda: apart(model(ChineseRestaurant(), choices(1))),
    "link, process": lambda: apart(linked(ChineseRestaurant(), regression(1))),
    "link, three clusters": lambda: apart(linked(FiniteDirichlet(3), regression(2))),
}
FAST = {"process", "three clusters"}


def slow(case: str) -> Any:
    return pytest.param(case, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [name if name in FAST else slow(name) for name in MODELS])
def test_sampler_leaves_the_joint_prior_as_it_is(name: str) -> None:
    assert_joint(MODELS[name](), seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 3))
@pytest.mark.parametrize("name", MODELS)
def test_sampler_leaves_the_joint_prior_as_it_is_again(name: str, seed: int) -> None:
    assert_joint(MODELS[name](), seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["process", "three clusters", "linked", "linked and pooled"])
def test_tables(name: str) -> None:
    assert_joint(apart(tables.MODELS[name]()), seed=0, look=tables.statistics)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["process", "linked", "linked and pooled"])
def test_several_steps_to_a_table(name: str) -> None:
    assert_joint(apart(tables.MODELS[name]()), seed=0, length=10, step=tables.steps_to_a_table, look=tables.statistics)


def many_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits and merges in every step."""
    monkeypatch.setattr(moves.split_merge, "draw_moves", lambda rng, state: 4)  # noqa: ARG005


def five_steps(rng: np.random.Generator, made: Model, state: State) -> State:
    """Five steps to a data set."""
    for _ in range(5):
        state = gibbs_step(rng, made, state)
    return state


@pytest.mark.slow
@pytest.mark.parametrize("name", ["process", "two numbers, a prior of agreement, process", "Pitman-Yor"])
def test_with_many_splits_and_merges(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    many_splits(monkeypatch)
    assert_joint(MODELS[name](), seed=0, length=30, step=five_steps)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["process", "link, three clusters"])
def test_by_blocks(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    by_blocks(monkeypatch)
    assert_joint(MODELS[name](), seed=0)


def _assign_with(**pieces: Any) -> Any:
    return rebind(assignment.assign, **pieces)


def _choosing(old: str, new: str) -> Any:
    """``assign`` with another way to choose one view's column."""
    part = rebind(assignment.choose_part, choose_alone=mutate(assignment.choose_alone, old, new))
    return _assign_with(choose_part=part)


ASSIGNMENTS = {
    "weights that do not sum to one": lambda: _choosing("(1.0 - share) / weigh_customers(scratch, state)", "1.0 - share"),
    "the other label does not count": lambda: _choosing("= share, scores[other]", "= 0.5 * share, scores[other]"),
    "a user who does not agree is one customer": lambda: mutate(
        assignment.assign, "if part == BOTH or agrees[u] == 0:", "if part != ACT and (part == BOTH or agrees[u] == 0):"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_mutant_of_assignments_is_rejected(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(moves, "assign", ASSIGNMENTS[name]())
    assert_rejected("process")


SPLITS = {
    "i and j among all, not those who agree": (
        "(sizes.agreeing[2] - 1.0) / sizes.agreeing[1]",
        "(sizes.customers[2] - 1.0) / sizes.customers[1]",
    ),
    "no chance of the other": ("ratio += math.log(chance_of_other(first, counts, splits))", "ratio += 0.0"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SPLITS)
def test_mutant_of_splits_is_rejected(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    many_splits(monkeypatch)
    monkeypatch.setattr(moves, "split_and_merge", mutate(split_merge.split_and_merge, *SPLITS[name]))
    assert_rejected("process", length=30, step=five_steps)


def assert_rejected(name: str, **options: Any) -> None:
    try:
        found = joint_test(MODELS[name](), seed=0, **options)
    except LostChainsError:
        return
    assert worst(found)[1] > REJECT
