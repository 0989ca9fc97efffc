"""Joint tests of the sampler where users need not act as they look: a label for each view."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checks import (
    Change,
    LostChainsError,
    assert_joint,
    assert_rejected,
    by_blocks,
    changed,
    gibbs_step,
    joint_tests,
    mutate,
)
from dualview.engines.gibbs import GibbsEngine, steps
from dualview.engines.gibbs.moves import assignment, split_merge
from dualview.model import Model, State
from dualview.partitions.agreement import LEARNED, Beta, KnownAgreement
from dualview.partitions.pitman_yor import PitmanYor
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet
from engines.gibbs import test_joint_tables as tables
from engines.gibbs.few_users import linked, model
from engines.gibbs.test_exact_agreement import always_split
from engines.gibbs.test_joint_behaviors import choices, regression


def apart(made: Model, prior: Any = LEARNED) -> Model:
    return replace(made, agreement=prior)


MODELS = {
    "process": lambda: apart(model(ChineseRestaurant(), regression(1))),
    "three clusters": lambda: apart(model(FiniteDirichlet(3), regression(1))),
    "two numbers, a prior of agreement, process": lambda: apart(
        model(ChineseRestaurant(), regression(2)), Beta(4.0, 2.0)
    ),
    "known share, process": lambda: apart(
        model(ChineseRestaurant(), regression(1)), KnownAgreement(0.4)
    ),
    "nobody agrees, three clusters": lambda: apart(
        model(FiniteDirichlet(3), regression(1)), KnownAgreement(0.0)
    ),
    "Pitman-Yor": lambda: apart(model(PitmanYor(0.3), regression(1))),
    "noise by cluster, process": lambda: apart(model(ChineseRestaurant(), regression(1, True))),
    "pooled, process": lambda: apart(model(ChineseRestaurant(), regression(2), pooled=True)),
    "choices, process": lambda: apart(model(ChineseRestaurant(), choices(1))),
    "link, process": lambda: apart(linked(ChineseRestaurant(), regression(1))),
    "link, three clusters": lambda: apart(linked(FiniteDirichlet(3), regression(2))),
}


def slow(case: str) -> Any:
    return pytest.param(case, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", ["process"])
def test_few_chains_leave_the_joint_prior_as_it_is(name: str) -> None:
    """With half the chains of the test below, and the same limit: standard errors are 1.4 times as
    large."""
    assert_joint(MODELS[name](), seed=0, n_chains=120, n_prior=2000)


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS, seeds=range(2))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["process", "three clusters", "linked", "linked and pooled"])
def test_tables(name: str) -> None:
    assert_joint(apart(tables.MODELS[name]()), seed=0, look=tables.statistics)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["process", "linked", "linked and pooled"])
def test_several_steps_to_a_table(name: str) -> None:
    assert_joint(
        apart(tables.MODELS[name]()),
        seed=0,
        length=10,
        step=tables.steps_to_a_table,
        look=tables.statistics,
    )


def many_splits(monkeypatch: pytest.MonkeyPatch, *changes: Change) -> None:
    """Splits and merges in every step. Changes: as in ``by_blocks``."""
    place = steps.MOVES.index(split_merge.run)
    by_blocks(monkeypatch, *changes)
    moves = list(steps.MOVES)
    moves[place] = mutate(always_split, *changes) if changes else always_split
    monkeypatch.setattr(steps, "MOVES", tuple(moves))


def five_steps(rng: np.random.Generator, made: Model, state: State) -> State:
    """Five steps to a data set."""
    for _ in range(5):
        state = gibbs_step(rng, made, state)
    return state


test_with_many_splits_and_merges = joint_tests(
    MODELS,
    ["process", "two numbers, a prior of agreement, process", "Pitman-Yor"],
    change=many_splits,
    length=30,
    step=five_steps,
)


THREADS = {
    "threads, process": lambda: apart(
        replace(tables.MODELS["process"](), intervals=None, others={})
    ),
    "threads, three clusters": lambda: apart(
        replace(tables.MODELS["three clusters"](), intervals=None, others={})
    ),
}


test_conjugate_likelihoods_in_one_call = joint_tests(
    THREADS, ["threads, process", "threads, three clusters"]
)


def test_steps_do_not_depend_on_how_many_are_asked_for() -> None:
    rng = np.random.default_rng(5)
    made = THREADS["threads, process"]()
    first = made.draw_prior(rng)
    made = made.simulate(rng, first)
    engine, found = GibbsEngine(2), []
    for at_once in (1, 3, 12):
        own, state, draws = np.random.default_rng(6), first, []
        while len(draws) < 12:
            state, info = engine.advance(own, made, state, np.ones(at_once, dtype=np.bool_))
            if info.draws is not None:
                kept = info.draws.fixed
                draws += [
                    (kept["z_behavior"][i], kept["agreement"][i], kept["log_joint"][i])
                    for i in range(len(kept["z"]))
                ]
            if info.last is not None:
                last, labels = info.last, info.last.labels
                draws.append((labels.behavior, labels.shares[0], made.log_joint(last)))
        assert made.log_joint(state) == pytest.approx(draws[-1][2])
        found.append(draws)
    for one in found[1:]:  # a call that ends early leaves the last of its steps to the next
        for (acts, share, log_joint), (other_acts, other_share, other_log_joint) in zip(
            found[0][:12], one[:12], strict=True
        ):
            np.testing.assert_array_equal(acts, other_acts)
            assert (share, log_joint) == pytest.approx((other_share, other_log_joint), rel=1e-12)


test_by_blocks = joint_tests(MODELS, ["process", "link, three clusters"], change=by_blocks)


ASSIGNMENTS = {
    "weights that do not sum to one": lambda: changed(
        assignment.weigh_part, "(1.0 - share) / total", "1.0 - share"
    ),
    "the other label does not count": lambda: changed(
        assignment.weigh_part, "= share, exponents", "= 0.5 * share, exponents"
    ),
    "a user who does not agree is one customer": lambda: changed(
        assignment.draw_labels,
        "if other == 0 or agrees[other - 1, u] == 0:",
        "if other == 0 or (alone and agrees[other - 1, u] == 0):",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_mutant_of_assignments_is_rejected(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    by_blocks(monkeypatch, ASSIGNMENTS[name]())
    assert_rejected(MODELS["process"](), 0, n_chains=500, ends=(LostChainsError,))
