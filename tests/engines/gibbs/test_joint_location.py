"""Joint tests of the move of location alone, and mutants that they must reject.

The joint tests of the whole step have this move in them. Here nothing else moves, so that nothing
else hides an error.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checks import (
    Change,
    LostChainsError,
    assert_joint,
    assert_rejected,
    changed,
    mutate,
    working_state,
)
from dualview.behaviors.likelihoods import threads as thread_regression
from dualview.engines.gibbs.engine import _after
from dualview.model import Model, State
from dualview.numerics.streams import stream_of
from dualview.views.base import Components
from dualview.views.gaussian import location
from engines.gibbs import test_joint, test_joint_behaviors, test_joint_link

MODELS: dict[str, Callable[[], Model]] = {
    "threads, process": test_joint.MODELS["latent-IGMM"],
    "threads with covariates, one cluster": test_joint.MODELS["single with covariates"],
    "threads with a link, process": test_joint_link.MODELS["threads, process"],
    "regressions, three clusters": test_joint_behaviors.MODELS["regressions, three clusters"],
    "noise by cluster, process": test_joint_behaviors.MODELS[
        "noise by cluster, one number, process"
    ],
    "choices, three clusters": test_joint_behaviors.MODELS["choices without items, three clusters"],
}

QUICK = {"threads, process"}


def slow(*case: Any) -> Any:
    return pytest.param(*case, marks=pytest.mark.slow)


def alone(rng: np.random.Generator, model: Model, state: State) -> State:
    """The move five times for each set of data.

    Right after a redraw of the data residuals are noise, with either sign alike; the later moves
    meet those that the earlier ones have left.
    """
    for _ in range(5):
        working = working_state(rng, model, state)
        *observed, latent = working.views
        (means, factors), vectors = latent.components, latent.vectors
        moved = location.relocate(
            stream_of(rng), working.z, means, latent.base, vectors, working.terms
        )
        views = (*observed, latent._replace(components=Components(moved, factors)))
        state = _after(model, working._replace(views=views), vectors, state.params)
    return state


RUN: dict[str, Any] = {"seed": 0, "n_chains": 300, "length": 6, "n_prior": 2000, "step": alone}


def with_gram_or_without(monkeypatch: pytest.MonkeyPatch, with_gram: bool) -> None:
    monkeypatch.setattr(thread_regression, "_MOST_WITH_GRAM", 1000 if with_gram else 0)
    monkeypatch.setattr(thread_regression, "_GRAM_COST", 0.0)


@pytest.mark.parametrize(
    "with_gram",
    [pytest.param(True, id="gram", marks=pytest.mark.slow), pytest.param(False, id="threads")],
)
@pytest.mark.parametrize("name", [name if name in QUICK else slow(name) for name in MODELS])
def test_the_move_leaves_the_joint_prior_as_it_is(
    name: str, with_gram: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if with_gram and name not in ("threads, process", "threads with covariates, one cluster"):
        pytest.skip("no gram matrix")
    with_gram_or_without(monkeypatch, with_gram)
    assert_joint(MODELS[name](), **RUN)


PRIOR = "linear[g * n_dims + i] += base.precision[i, j] * (base.mean[j] - means[group[g], j])"
PRECISION = "+= base.precision[i, j]\n"
STEP = "own = step[place : place + n_dims]"
NOISE = "linear[i] += standard_normal(rng)"
MUTANTS: dict[str, Callable[[], list[Change]]] = {
    "b without R_0(μ_0 − μ)": lambda: [changed(location.add_prior, PRIOR, "pass")],
    "A with a tenth of R_0": lambda: [
        changed(location.add_prior, PRECISION, f"+= 0.1 * {PRECISION[3:]}")
    ],
    "b with −Eᵀr, in each of the three ways through the observations": lambda: [
        changed(location.add_effects, "linear[i] += product", "linear[i] -= product"),
        changed(location.add_gram, "linear[i] -= precision", "linear[i] = -linear[i] + precision"),
        changed(location.add_independent, "+= gradient[i]", "-= gradient[i]"),
    ],
    "means move, their users' vectors do not": lambda: [
        changed(location.take_step, STEP, STEP.replace("step[", "0.0 * step["))
    ],
    "noise with the diagonal of A where A⁻¹ belongs": lambda: [
        changed(location.draw_step, NOISE, f"{NOISE} * matrix[i, i] ** 2")
    ],
}
CASES = [
    ("threads, process", True),
    ("threads, process", False),
    ("regressions, three clusters", False),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "with_gram"), CASES)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_rejected(
    mutant: str, name: str, with_gram: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location, "relocate", mutate(location.relocate, *MUTANTS[mutant]()))
    with_gram_or_without(monkeypatch, with_gram)
    # Its chains may run out of range.
    assert_rejected(MODELS[name](), ends=(LostChainsError, RuntimeWarning), **RUN)
