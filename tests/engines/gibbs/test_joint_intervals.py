"""Joint tests of the sampler with regressions of which intervals are recorded, and mutants that
they must reject."""

from typing import Any

import numpy as np
import pytest

from checks import joint_tests, mutant_tests, statistics
from dualview.behaviors.effects import Effects, Scales
from dualview.behaviors.families import interval
from dualview.behaviors.families.noise import NoisePrior
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.panel import Panel
from dualview.model import Model, State
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet, OneCluster
from engines.gibbs.few_users import N_USERS, USER, linked, model
from rows import interval_rows

Array = Any


def rounded(outcome: Array) -> tuple[Array, Array]:
    """To whole numbers; the lowest that is recorded is −1."""
    recorded = np.maximum(np.round(outcome), -1.0)
    return np.where(recorded > -1.0, recorded - 0.5, -np.inf), recorded + 0.5


def censored(outcome: Array) -> tuple[Array, Array]:
    """Exact up to 0.3, and only known to be above it beyond."""
    return np.minimum(outcome, 0.3), np.where(outcome > 0.3, np.inf, outcome)


def intervals(n_dims: int, record: Any, by_cluster: bool = False) -> UserRows:
    design = np.random.default_rng(7).standard_normal((len(USER), n_dims))
    panel, (low, high) = (
        Panel.of(USER, design, np.zeros(len(USER)), N_USERS),
        record(np.zeros(len(USER))),
    )
    return interval_rows(panel, NoisePrior(1.0, 3.0), by_cluster, low=low, high=high, record=record)


def with_groups() -> Any:
    order, rng = np.argsort(USER, kind="stable"), np.random.default_rng(9)
    items = {"item": np.array([0, 1, 2, 0, 1, 2, 2, 0, 1])}
    effects = Effects.of(len(USER), rng.standard_normal((len(USER), 1)), items, None, None)
    return effects.around(intervals(1, rounded), effects.units(1.0), order, Scales(1.0, 1.0))


MODELS = {
    "censored, one cluster": lambda: model(OneCluster(), intervals(1, censored), False),
    "rounded, process": lambda: model(ChineseRestaurant(), intervals(2, rounded)),
    "rounded, noise by cluster, process": lambda: model(
        ChineseRestaurant(), intervals(1, rounded, True)
    ),
    "rounded, pooled, process": lambda: model(
        ChineseRestaurant(), intervals(2, rounded), pooled=True
    ),
    "rounded, groups and common, process": lambda: model(ChineseRestaurant(), with_groups()),
    "censored, linked, three clusters": lambda: linked(FiniteDirichlet(3), intervals(2, censored)),
}


def look(model: Model, state: State) -> dict[str, float]:
    """Bounded statistics of clusters, vectors, noise and what was recorded."""
    result = statistics(model, state)
    likelihood: Any = model.held(state).likelihood
    while hasattr(likelihood, "inner"):
        likelihood = likelihood.inner
    low, high, _ = likelihood.observed
    exact, noise = (
        low == high,
        np.log(np.asarray(state.params["noise_precision"])).mean(),
    )
    upper = np.where(np.isfinite(high), high, 5.0)
    result |= {"exact": float(exact.mean()), "recorded": float(np.arctan(upper).mean())}
    result["recorded_and_noise"] = float(np.arctan(upper).std() * np.arctan(noise))
    result["recorded_and_vectors"] = float(np.arctan(upper).mean() * np.arctan(state.latent).mean())
    return result


test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS, look=look)


def far_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes of intervals with one end, four standard deviations beyond it."""

    def wrong(_: Any, low: Array, high: Array, sds: Array) -> Array:
        return np.where(
            np.isfinite(low),
            np.where(np.isfinite(high), 0.5 * (low + high), low + 4.0 * sds),
            high - 4.0 * sds,
        )

    monkeypatch.setattr(interval, "draw_between", wrong)


def noise_of_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise as if each interval had a standard deviation twice as long to hold its outcome."""
    right = interval.log_probability
    monkeypatch.setattr(
        interval, "log_probability", lambda low, high, mean, sd: right(low, high, mean, 0.5 * sd)
    )


MUTANTS = {"far_beyond": far_beyond, "noise_of_ends": noise_of_ends}
test_mutant_is_rejected = mutant_tests(MODELS, MUTANTS, "censored, one cluster", look=look)
