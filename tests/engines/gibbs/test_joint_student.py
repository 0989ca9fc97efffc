"""Joint tests of the sampler with Student-t noise and with a noise of each user, and mutants that
they must reject."""

from typing import Any

import numpy as np
import pytest

from checks import joint_tests, mutant_tests, statistics
from dualview.behaviors.effects import Effects, Scales
from dualview.behaviors.families import noise as tails
from dualview.behaviors.families import student
from dualview.behaviors.families.noise import NoisePrior
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.panel import Panel
from dualview.model import Model, State
from dualview.partitions.priors import ChineseRestaurant, OneCluster
from engines.gibbs.few_users import N_USERS, USER, model
from rows import own_noise_rows, student_rows


def regression(n_dims: int, dof: float | None = None) -> UserRows:
    design = np.random.default_rng(7).standard_normal((len(USER), n_dims))
    return student_rows(
        Panel.of(USER, design, np.zeros(len(USER)), N_USERS), NoisePrior(1.0, 3.0), dof=dof
    )


def own(n_dims: int) -> UserRows:
    design = np.random.default_rng(7).standard_normal((len(USER), n_dims))
    return own_noise_rows(
        Panel.of(USER, design, np.zeros(len(USER)), N_USERS), NoisePrior(1.0, 3.0)
    )


def with_groups(inner: Any = None) -> Any:
    order, rng = np.argsort(USER, kind="stable"), np.random.default_rng(9)
    items = {"item": np.array([0, 1, 2, 0, 1, 2, 2, 0, 1])}
    effects = Effects.of(len(USER), rng.standard_normal((len(USER), 1)), items, None, None)
    return effects.around(
        regression(1) if inner is None else inner, effects.units(1.0), order, Scales(1.0, 1.0)
    )


MODELS = {
    "one cluster": lambda: model(OneCluster(), regression(1), False),
    "known degrees of freedom, process": lambda: model(ChineseRestaurant(), regression(2, 2.5)),
    "process": lambda: model(ChineseRestaurant(), regression(2)),
    "pooled, process": lambda: model(ChineseRestaurant(), regression(2), pooled=True),
    "groups and common, process": lambda: model(ChineseRestaurant(), with_groups()),
    "each user's own, process": lambda: model(ChineseRestaurant(), own(2)),
    "each user's own, pooled, process": lambda: model(ChineseRestaurant(), own(2), pooled=True),
    "each user's own, groups and common, process": lambda: model(
        ChineseRestaurant(), with_groups(own(1))
    ),
}


def look(model: Model, state: State) -> dict[str, float]:
    """Statistics of regressions, and of the degrees of freedom with the residuals that they
    explain."""
    result = statistics(model, state)
    if "degrees_of_freedom" in state.params:
        log_dof = float(np.log(state.params["degrees_of_freedom"]))
        result |= {"log_dof": log_dof, "dof_and_fit": log_dof * result["residual_fit"]}
        noise = np.log(np.asarray(state.params["noise_precision"]))
        result["dof_and_noise"] = log_dof * float(np.arctan(noise).mean())
        if noise.ndim:
            result |= {
                "log_noise": float(np.arctan(noise).mean()),
                "spread of noise": float(np.arctan(noise).std()),
            }
    return result


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS, look=look)


def large_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights eight times as large as they should be."""
    right = student.weight_law

    def wrong(residual: Any, precision: Any, dof: float) -> tuple[float, Any]:
        shape, rates = right(residual, precision, dof)
        return shape, rates / 8.0

    monkeypatch.setattr(student, "weight_law", wrong)


def no_prior_of_dof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Degrees of freedom under another prior than that of which they are drawn."""
    right = tails.log_dof_prior
    monkeypatch.setattr(tails, "log_dof_prior", lambda dof: right(dof) - 0.3 * np.asarray(dof))


MUTANTS = {"large_weights": large_weights, "no_prior_of_dof": no_prior_of_dof}
test_mutant_is_rejected = mutant_tests(MODELS, MUTANTS, "one cluster", look=look)
