"""Joint tests of the sampler with clusters of heavy tails, and mutants that they must reject."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import checks
from checks import Change, LostChainsError, by_blocks, changed, joint_tests, mutant_tests, mutate
from dualview.behaviors.likelihoods.conjugate import Conjugate
from dualview.engines.gibbs import engine, steps
from dualview.model import Model, State
from dualview.numerics.slice_sampling import sampler
from dualview.numerics.streams import stream_of
from dualview.partitions.agreement import LEARNED
from dualview.partitions.alpha import Gamma
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, OneCluster
from dualview.views.blocked import BlockedState
from dualview.views.gaussian import conditionals, splitting, student_kind, tails
from engines.gibbs import test_joint_several_tables as several_tables
from engines.gibbs import test_joint_tables as tables
from engines.gibbs.few_users import linked, model
from engines.gibbs.test_at_once import assert_same_record, one_by_one, run
from engines.gibbs.test_joint_agreement import five_steps, many_splits
from engines.gibbs.test_joint_behaviors import regression
from yardsticks import leaves


def numbers(partition: Any, n_users: int = 6, n_dims: int = 2) -> Model:
    return Model(partition, np.zeros((n_users, n_dims)), n_users=n_users)


def heavy(made: Model) -> Model:
    return replace(made, heavy_tails=True)


MODELS = {
    "one cluster": lambda: heavy(numbers(OneCluster())),
    "process": lambda: heavy(numbers(ChineseRestaurant(Gamma(2.0, 2.0)))),
    "three clusters and behavior": lambda: heavy(model(FiniteDirichlet(3), regression(1))),
    "process and behavior": lambda: heavy(model(ChineseRestaurant(), regression(2))),
    "link": lambda: heavy(linked(ChineseRestaurant(), regression(1))),
    "table": lambda: heavy(tables.model(ChineseRestaurant(Gamma(2.0, 2.0)))),
    "table, three clusters": lambda: heavy(
        tables.model(FiniteDirichlet(3, Gamma(2.0, 2.0)), tables.regression())
    ),
    "linked table": lambda: heavy(tables.linked(ChineseRestaurant())),
    "linked table, one cluster": lambda: heavy(tables.linked(OneCluster())),
    "linked table, pooled": lambda: heavy(tables.linked(FiniteDirichlet(3), pooled=True)),
    "several tables": lambda: heavy(several_tables.mixed(ChineseRestaurant())),
    "tables that may disagree": lambda: heavy(several_tables.mixed(ChineseRestaurant(), LEARNED)),
}
TABLES = ("table", "table, three clusters", "linked table", "linked table, one cluster")


def look(made: Model, state: State) -> dict[str, float]:
    """Statistics of every model or table, and of the degrees of freedom with what they explain."""
    if made.layout is not None:
        found = several_tables.look(made, state)
    elif made.intervals is not None:
        found = tables.statistics(made, state)
    else:
        found = checks.statistics(made, state)
    view: Any = state.views["features"]
    parts = view.parts if isinstance(view, BlockedState) else (view,)
    for b, part in enumerate(parts):
        found[f"log_dof{b}"] = float(np.log(part.tail_dof))
    if made.layout is None:
        x = made.feature_view.completed(view, made.features)
        k, means, factors = state.labels.of("features"), *view.components
        away = np.einsum("uij,ui->uj", factors[k], x - means[k])
        squares, log_dof = (away**2).sum(axis=1), found["log_dof0"]
        found |= {
            "nearest and dof": float(np.arctan(squares.min()) * log_dof),
            "farthest and dof": float(np.log1p(squares.max()) * log_dof),
            "farthest": float(np.log1p(squares.max())),
            "sums and dof": float(np.log1p(squares).mean() * log_dof),
        }
    return found


def simulated(name: str) -> tuple[Model, State]:
    rng, made = np.random.default_rng(1), MODELS[name]()
    state = made.draw_prior(rng)
    made = made.simulate(rng, state)
    return made, made.restarted(state)


@pytest.mark.parametrize("name", ["process", "table"])
def test_many_steps_in_a_call_are_the_steps_one_by_one(name: str) -> None:
    """Weights live inside a step: a state without them goes on as one that had them."""
    made, state = simulated(name)
    keep = np.ones(30, dtype=np.bool_)
    one, other = run(made, state, keep, 10), one_by_one(made, state, keep)
    assert_same_record(one[1], other[1])
    assert one[2] == other[2]
    assert one[1].fixed["features.tail_dof"].std() > 0.0


@pytest.mark.parametrize("name", ["process", "table, three clusters"])
def test_steps_by_blocks_are_the_steps_in_one_call(name: str) -> None:
    made, state = simulated(name)
    for seed in range(5):
        first, second = (
            checks.working_state(np.random.default_rng(0), made, state) for _ in range(2)
        )
        stream = stream_of(np.random.default_rng(seed))
        at_once = steps.run_steps(
            stream[None].copy(), np.zeros(1, dtype=np.bool_), first, Conjugate.none()
        )
        by_moves, _ = engine.run_by_blocks(stream.copy(), second, steps.MOVES)
        for one, same in zip(leaves(at_once.state.views), leaves(by_moves.views), strict=True):
            np.testing.assert_array_equal(one, same)
        np.testing.assert_array_equal(at_once.state.labels.z, by_moves.labels.z)


def test_few_chains_leave_the_joint_prior_as_it_is() -> None:
    """A quarter of the chains of the tests below: standard errors are twice as large."""
    checks.assert_joint(MODELS["process"](), seed=0, n_chains=60, n_prior=1000, look=look)


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS, look=look)


test_several_steps_to_a_table_leave_the_joint_prior_as_it_is = joint_tests(
    MODELS, TABLES, length=10, step=tables.steps_to_a_table, look=look
)


test_by_blocks = joint_tests(
    MODELS, ["process and behavior", "table, three clusters"], change=by_blocks, look=look
)


test_with_many_splits_and_merges = joint_tests(
    MODELS,
    ["process", "table", "tables that may disagree"],
    change=many_splits,
    length=30,
    step=five_steps,
    look=look,
)


def dofs_by(old: str, new: str) -> Change:
    """Degrees of freedom by another density."""
    return tails._sample_log_dof, sampler(mutate(tails.log_tail_density, old, new))


MUTANTS = {
    "weights of the prior": lambda: [
        changed(tails.weight_law, "0.5 * (dof + square)", "0.5 * dof + 0.0 * square")
    ],
    "weights of too few numbers": lambda: [
        changed(tails.weight_law, "0.5 * (dof + n_dims)", "0.5 * dof + 0.0 * n_dims")
    ],
    "weights that are not drawn": lambda: [
        changed(
            student_kind.draw_weights,
            "draw_weight(rng, squares[u], n_dims, tail_dof)",
            "1.0 + 0.0 * draw_weight(rng, squares[u], n_dims, tail_dof)",
        )
    ],
    "scatters without weights": lambda: [
        changed(conditionals.cluster_sums, "root = math.sqrt(weight)", "root = 1.0")
    ],
    "totals without weights": lambda: [
        changed(conditionals.cluster_sums, "weight * x[u, d]", "x[u, d]")
    ],
    "means as precise as without weights": lambda: [
        changed(conditionals.cluster_sums, "total_weights[k] += weight", "total_weights[k] += 1.0")
    ],
    "precisions as if weights were users": lambda: [
        changed(conditionals.cluster_sums, "counts[k] += 1.0", "counts[k] += weight")
    ],
    "normal densities for the choice": lambda: [
        changed(
            student_kind.score,
            "log_tails(-2.0 * halves[u], n_dims, view.tail_dof)",
            "log_tails(-2.0 * halves[u], n_dims, math.inf)",
        )
    ],
    "degrees of freedom without Jacobian": lambda: [
        dofs_by("log_tail_prior(dof) + log_dof", "log_tail_prior(dof)")
    ],
    "degrees of freedom without their height": lambda: [
        dofs_by("squares.shape[0] * log_gamma_ratio", "0.0 * log_gamma_ratio")
    ],
}
OF_TABLES = {
    "missing cells without their weight": lambda: [
        changed(student_kind.complete, "scaled(factor, math.sqrt(weight))", "scaled(factor, 1.0)")
    ],
    "weights that see missing cells": lambda: [
        changed(
            student_kind.draw_own_weight,
            "n_seen = n_dims - view.cells.n_missing[u]",
            "n_seen = n_dims",
        )
    ],
}
OF_SPLITS = {
    "splits that join without weights": lambda: changed(
        splitting.join_moments, "weight_of(u, weights)", "1.0"
    ),
    "splits that weigh users": lambda: changed(
        splitting.log_weight,
        "outer_square(factors[s], split.sets.weights[s], matrix)",
        "outer_square(factors[s], float(n), matrix)",
    ),
}
without_warnings = pytest.mark.filterwarnings("ignore::RuntimeWarning")
ENDS: dict[str, Any] = {"ends": (LostChainsError,), "look": look}


test_mutant_is_rejected = without_warnings(
    mutant_tests(MODELS, MUTANTS, "process", block=3, n_chains=400, **ENDS)
)


test_mutant_of_cells_is_rejected = without_warnings(
    mutant_tests(
        MODELS, OF_TABLES, "table", block=3, length=10, step=tables.steps_to_a_table, **ENDS
    )
)


@pytest.mark.slow
@without_warnings
@pytest.mark.parametrize("mutant", OF_SPLITS)
def test_mutant_of_splits_is_rejected(monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    many_splits(monkeypatch, OF_SPLITS[mutant]())
    run = {"n_chains": 500, "length": 30, "step": five_steps}
    checks.assert_rejected(MODELS["process"](), 0, **run, **ENDS)
