"""Joint tests of the sampler with Weibull and log-logistic times, censored on both sides, and
mutants that they must reject."""

from typing import Any

import numpy as np
import pytest

from checks import joint_tests, mutant_tests
from dualview.behaviors.families import times
from dualview.behaviors.families.noise import NoisePrior
from dualview.behaviors.families.times import LogisticErrors, WeibullErrors
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.panel import Panel
from dualview.partitions.priors import ChineseRestaurant, OneCluster
from engines.gibbs.few_users import N_USERS, USER, model
from engines.gibbs.test_joint_intervals import look
from rows import time_rows

Array = Any


def record(logarithms: Array) -> tuple[Array, Array]:
    """Exact between −0.7 and 0.5, known to lie outside else; every third in whole numbers."""
    low = np.where(logarithms > 0.5, 0.5, np.where(logarithms < -0.7, -np.inf, logarithms))
    high = np.where(logarithms > 0.5, np.inf, np.where(logarithms < -0.7, -0.7, logarithms))
    whole = np.arange(len(logarithms)) % 3 == 0
    return np.where(whole, np.floor(logarithms), low), np.where(
        whole, np.floor(logarithms) + 1.0, high
    )


def rows(family: str, n_dims: int) -> UserRows:
    design = np.random.default_rng(7).standard_normal((len(USER), n_dims))
    panel = Panel.of(USER, design, np.zeros(len(USER)), N_USERS)
    return time_rows(panel, NoisePrior(1.0, 3.0), family, record=record)


MODELS = {
    "Weibull, one cluster": lambda: model(OneCluster(), rows("weibull", 1), False),
    "Weibull, process": lambda: model(ChineseRestaurant(), rows("weibull", 2)),
    "Weibull, pooled, process": lambda: model(ChineseRestaurant(), rows("weibull", 2), pooled=True),
    "log-logistic, one cluster": lambda: model(OneCluster(), rows("log-logistic", 1), False),
    "log-logistic, pooled, process": lambda: model(
        ChineseRestaurant(), rows("log-logistic", 2), pooled=True
    ),
}
test_sampler_leaves_the_joint_prior_as_it_is = joint_tests(MODELS, look=look)


def open_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weibull times that are known to lie below a time as if nothing were known."""
    right = WeibullErrors.log_mass

    def wrong(self: WeibullErrors, low: Array, high: Array) -> Array:
        return np.where(np.isneginf(low), 0.0, right(self, low, high))

    monkeypatch.setattr(WeibullErrors, "log_mass", wrong)


test_weibull_mutant_is_rejected = mutant_tests(
    MODELS, {"open_below": open_below}, "Weibull, one cluster", look=look
)


def without_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Augmented log-logistic rows as precise as if their shape were 1."""
    right = times.TimeOutcome.augment

    def wrong(self: Any, *given: Any) -> tuple[Array, Array]:
        residual, precision = right(self, *given)
        return residual, precision / self.shapes[0] ** 2

    monkeypatch.setattr(times.TimeOutcome, "augment", wrong)


def density_of_one_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact log-logistic times as if they were censored there."""
    monkeypatch.setattr(
        LogisticErrors, "log_density", lambda _, z: -np.logaddexp(0.0, np.asarray(z))
    )


test_logistic_mutant_is_rejected = mutant_tests(
    MODELS,
    {"without_shape": without_shape, "density_of_one_end": density_of_one_end},
    "log-logistic, one cluster",
    look=look,
)
