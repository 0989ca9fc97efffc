"""Joint tests of the sampler with tables of mixed kinds, a third of their cells missing, and
mutants that they must reject."""

from typing import Any

import numpy as np
import pytest

import checks
from checks import (
    LostChainsError,
    assert_joint,
    assert_rejected,
    by_blocks,
    changed,
    gibbs_step,
    joint_tests,
    mutant_tests,
    mutate,
)
from dualview.behaviors.likelihoods.linked import LinkedLikelihood
from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.model import Model, Observed
from dualview.partitions.alpha import Gamma
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, OneCluster
from dualview.units import GaussianPrior, Whitening
from dualview.views import Intervals, NominalView
from dualview.views.gaussian import cells, linked_cells
from dualview.views.gaussian import view as gaussian_view
from dualview.views.nominal import conditionals

N_USERS, N_THREADS, STEP = 6, 4, 0.8
MEAN, FACTOR = np.array([0.5, -1.0]), np.array([[1.2, 0.0], [0.5, 0.9]])
SHARES = (0.5, 0.3, 0.2), (0.6, 0.4)


def coarsened(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first column as it is, the second rounded."""
    low = values.copy()
    low[:, 1] = np.floor(values[:, 1] / STEP) * STEP
    high = low.copy()
    high[:, 1] += STEP
    return low, high


def intervals() -> Intervals:
    hidden = np.zeros((N_USERS, 2))
    hidden[0, 0] = hidden[1, 1] = hidden[3] = np.inf
    return Intervals(-hidden, hidden, MEAN, FACTOR, np.linalg.inv(FACTOR), coarsened)


def categories() -> dict[str, Observed]:
    codes = np.zeros((N_USERS, 2))
    codes[0, 0] = codes[3, 1] = codes[4, 0] = codes[4, 1] = -1.0
    return {"categories": Observed(NominalView(SHARES), codes)}


def regression() -> ThreadRegression:
    design = np.random.default_rng(99).integers(0, 2, (N_THREADS, N_USERS)).astype(float)
    empty = np.empty((0, 0))
    units = Whitening(np.empty(0), empty, empty)
    return ThreadRegression(
        design,
        np.empty((N_THREADS, 0)),
        np.zeros(N_THREADS),
        noise_variance=1.0,
        coefficient_units=units,
    )


def model(partition: Any, likelihood: Any = None, pooled: bool = False) -> Model:
    x = np.zeros((N_USERS, 2))
    return Model(
        partition, x, likelihood, N_USERS, pooled=pooled, others=categories(), intervals=intervals()
    )


def linked(partition: Any, pooled: bool = False) -> Model:
    """Latent vectors follow both columns and all levels."""
    others, x = categories(), np.zeros((N_USERS, 2))
    features = Model.design(x, others)
    units = Whitening.of(GaussianPrior(np.zeros(1), np.eye(1)))
    own = Whitening.of(GaussianPrior(MEAN, FACTOR @ FACTOR.T)).with_others(features.shape[1] - 2)
    likelihood = LinkedLikelihood.of(regression(), features, units, own)
    return Model(
        partition, x, likelihood, N_USERS, pooled=pooled, others=others, intervals=intervals()
    )


MODELS = {
    "table alone": lambda: model(ChineseRestaurant(Gamma(2.0, 2.0))),
    "process": lambda: model(ChineseRestaurant(), regression()),
    "three clusters": lambda: model(FiniteDirichlet(3), regression()),
    "pooled": lambda: model(ChineseRestaurant(), regression(), pooled=True),
    "linked": lambda: linked(ChineseRestaurant()),
    "linked, one cluster": lambda: linked(OneCluster()),
    "linked and pooled": lambda: linked(FiniteDirichlet(3), pooled=True),
}


def statistics(model: Model, state: Any) -> dict[str, float]:
    """Those of every model, and of cells, levels, shares and concentrations."""
    x = model.views["features"].completed(state.views["features"], model.features)
    values, codes = np.arctan(MEAN + x @ FACTOR.T), model.others["categories"].vectors
    view = state.views["categories"]
    theta = np.exp(view.logs)
    seen = codes[:, 0] >= 0
    own = {
        "missing cell": values[0, 0],
        "missing beside rounded": values[1, 1],
        "missing row": values[3, 0] * values[3, 1],
        "spread of missing cells": abs(values[3, 0] - values[3, 1]),
        "rounded cell": values[2, 1],
        "place in the interval": np.mod(np.tan(values[2, 1]) / STEP, 1.0),
        "cells of two users": (state.z[1] == state.z[2]) * abs(values[1, 1] - values[2, 1]),
        "share": theta[:, 0].mean(),
        "spread of shares": np.abs(theta[:, 3] - 0.6).mean(),
        "concentration": np.log(view.concentrations).mean(),
        "level": (codes[seen, 0] == 0).mean(),
        "fit": np.mean(theta[state.z[seen], codes[seen, 0].astype(int)]),
        "levels of two users": (codes[1, 1] == codes[2, 1]) * (state.z[1] == state.z[2]),
    }
    if model.likelihood is not None and model.likelihood.follows_features:
        f, slopes = model.functions(state)[:, 0], np.arctan(state.params["slopes"][0])
        own |= {
            "missing cell and slope": values[0, 0] * slopes[0],
            "missing cell, slope and behavior": np.sign(x[3, 0] * slopes[0]) * np.arctan(f[3]),
            "rounded cell, slope and behavior": np.sign(x[2, 1] * slopes[1]) * np.arctan(f[2]),
            "missing cell, slope and deviation": np.sign(x[3, 0] * slopes[0])
            * np.arctan(state.latent[3, 0]),
            "deviations of users with cells": np.arctan(state.latent[[0, 1, 3], 0] ** 2).mean(),
            "what cells explain": np.arctan(
                np.log(1e-9 + np.mean((x @ state.params["slopes"][0, :2]) ** 2))
            ),
            "level, slope and behavior": np.sign(slopes[2]) * (codes[1, 0] == 0) * np.arctan(f[1]),
        }
    return checks.statistics(model, state) | own


def steps_to_a_table(rng: np.random.Generator, model: Model, state: Any) -> Any:
    """Some steps to each set of data: new data bring new cells, and what a step leaves in them
    counts in the next only."""
    for _ in range(5):
        state = gibbs_step(rng, model, state)
    return state


def test_few_chains_leave_the_joint_prior_as_it_is() -> None:
    """A quarter of the chains of the tests below: standard errors are twice as large."""
    assert_joint(MODELS["process"](), seed=0, n_chains=60, n_prior=1000, look=statistics)


test_several_steps_to_a_table_leave_the_joint_prior_as_it_is = joint_tests(
    MODELS,
    ["table alone", "process", "three clusters", "linked, one cluster", "linked and pooled"],
    length=10,
    step=steps_to_a_table,
    look=statistics,
)


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS, look=statistics)


test_sampler_by_blocks_leaves_the_joint_prior_as_it_is = joint_tests(
    MODELS, ["process", "three clusters", "pooled", "linked"], change=by_blocks, look=statistics
)


MUTANTS = {
    "missing cells without their volume": lambda: [
        changed(cells.score_seen, "total -= math.log(pivots[i, i])", "total -= 0.0 * pivots[i, i]")
    ],
    "missing cells at the wrong side": lambda: [
        changed(
            cells.draw_missing,
            "- dot(directions[i], projection)",
            "+ dot(directions[i], projection)",
        )
    ],
    "missing cells one by one": lambda: [
        changed(
            cells.draw_missing, "step[i] -= factor[j, i] * step[j]", "step[i] -= 0.0 * factor[j, i]"
        )
    ],
    "rounded cells too free": lambda: [
        changed(cells.draw_along, "1.0 / math.sqrt(precision)", "3.0 / math.sqrt(precision)")
    ],
    "rounded cells without the other columns": lambda: [
        changed(cells.draw_along, "before - dot(directions[i], projection) / precision", "before")
    ],
}
NOMINAL_MUTANTS = {
    "shares from too many users": lambda: [
        changed(
            conditionals.draw_shares,
            "concentrations[j] * shares[i] + counts[i]",
            "concentrations[j] * shares[i] + 2.0 * counts[i]",
        )
    ],
}
LINKED_MUTANTS = {  # model, function, and the statement that is left out of it
    "cells that do not see behavior": (
        "linked, one cluster",
        "draw_with_latent",
        "directions[i, n_dims + a] -= ",
    ),
    "behavior that does not follow cells": (
        "linked, one cluster",
        "draw_with_latent",
        "deviations[u, a] -= ",
    ),
    "cells that do not see observations": (
        "linked and pooled",
        "draw_with_observations",
        "directions[i, n_dims + t] -= ",
    ),
}


without_warnings = pytest.mark.filterwarnings("ignore::RuntimeWarning")
OF_TABLES: dict[str, Any] = {"block": 3, "ends": (LostChainsError,), "look": statistics}
test_mutant_of_shares_is_rejected = without_warnings(
    mutant_tests(MODELS, NOMINAL_MUTANTS, "table alone", n_chains=400, **OF_TABLES)
)


test_mutant_is_rejected = without_warnings(
    mutant_tests(MODELS, MUTANTS, "table alone", length=10, step=steps_to_a_table, **OF_TABLES)
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("mutant", LINKED_MUTANTS)
def test_mutant_of_linked_cells_is_rejected(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, function, statement = LINKED_MUTANTS[mutant]
    wrong = mutate(getattr(linked_cells, function), statement, f"{statement}0.0 * ")
    monkeypatch.setattr(gaussian_view, function, wrong)
    run = {"n_chains": 500, "length": 10, "step": steps_to_a_table, "look": statistics}
    assert_rejected(MODELS[name](), 0, **run)
