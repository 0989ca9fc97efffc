"""Joint tests of the sampler with rankings, alone and with groups, and a mutant that they must
reject."""

from typing import Any

import numpy as np
import pytest

from checks import assert_rejected, joint_tests, view_statistics
from dualview.behaviors.effects import Effects, Scales
from dualview.behaviors.families.ranking import Orders
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.panel import Panel
from dualview.model import Model, State
from dualview.partitions.priors import ChineseRestaurant, OneCluster
from engines.gibbs.few_users import N_USERS, model
from rows import ranking_rows

SIZES = np.array([3, 4, 3, 3, 4])
PLACES = np.array([2, 2, 1, 3, 3])
RANKING = np.repeat(np.arange(5), SIZES)
USER = np.array([1, 2, 2, 3, 4])[RANKING]  # user 0 has no rankings


def rankings(n_dims: int) -> UserRows:
    rng, n = np.random.default_rng(7), len(USER)
    known = zip(SIZES, PLACES, strict=True)
    place = np.concatenate(
        [np.where(np.arange(k) < m, np.arange(1.0, k + 1), np.inf) for k, m in known]
    )
    design = rng.standard_normal((n, n_dims))
    return ranking_rows(
        Panel.of(USER, design, np.zeros(n), N_USERS),
        Orders.of(RANKING, place),
        np.linspace(-0.5, 0.5, n),
    )


def with_groups() -> Any:
    """Items and a common column around rankings."""
    n, rng = len(USER), np.random.default_rng(9)
    items = {"item": np.concatenate([np.arange(k) for k in SIZES])}
    effects = Effects.of(n, rng.standard_normal((n, 1)), items, None, None)
    return effects.around(rankings(2), effects.units(1.0), np.arange(n), Scales(1.0, 1.0))


MODELS = {
    "one cluster": lambda: model(OneCluster(), rankings(1), False),
    "process": lambda: model(ChineseRestaurant(), rankings(2)),
    "groups and common, process": lambda: model(ChineseRestaurant(), with_groups()),
}


def look(model: Model, state: State) -> dict[str, float]:
    """Bounded statistics of clusters, vectors and places."""
    likelihood, result = model.held(state).likelihood, {}
    if "group_effects" in state.params:
        result = {
            f"item {i}": float(np.arctan(effect))
            for i, effect in enumerate(state.params["group_effects"])
        }
        result |= {"group_sd": float(np.log(state.params["group_sd"][0]))}
        result |= {"common": float(np.arctan(state.params["common"][0]))}
        likelihood, _ = likelihood._inside(state.params)
    eta, orders = likelihood.predictor(state.latent), likelihood.observed
    place = np.empty(len(eta))
    place[orders.rows] = np.arange(len(eta)) - orders.starts[orders.ranking]
    place = np.minimum(place, orders.n_top[RANKING])
    result |= view_statistics(model, state) | {
        "eta": float(np.arctan(eta).mean()),
        "fit": float((np.arctan(eta) * place).mean()),
        "size_and_places": float((np.arctan(eta**2) * place).mean()),
        "first": float(place[[0, 3, 7]].mean()),
    }
    if model.partition.n_components != 1:
        result["occupied"] = float(np.count_nonzero(state.counts))
    return result


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS, look=look)


@pytest.mark.slow
def test_utilities_that_vary_too_little_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: utilities lie half as far from their expectations as they should."""
    right = Orders.drawn_utilities

    def wrong(self: Orders, rng: np.random.Generator, locations: Any) -> Any:
        return 0.5 * (locations + right(self, rng, locations))

    monkeypatch.setattr(Orders, "drawn_utilities", wrong)
    assert_rejected(MODELS["one cluster"](), 0, look=look)
