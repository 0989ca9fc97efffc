"""Joint tests of steps that draw the coefficients of covariates given those of users, as steps with
many users do."""

from typing import Any

import numpy as np
import pytest

from checks import assert_joint, assert_rejected, joint_tests
from dualview.behaviors.likelihoods import threads
from dualview.behaviors.likelihoods.regression import ByCoefficients
from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.engines.gibbs import GibbsEngine
from dualview.model import Model, State
from dualview.partitions.priors import ChineseRestaurant, OneCluster
from dualview.units import Whitening

N_USERS, N_THREADS, N_COVARIATES = 5, 4, 2


def regression() -> ThreadRegression:
    rng = np.random.default_rng(98)
    units = Whitening(np.zeros(N_COVARIATES), np.eye(N_COVARIATES), np.eye(N_COVARIATES))
    design, covariates = (
        rng.integers(0, 2, (N_THREADS, N_USERS)),
        rng.standard_normal((N_THREADS, N_COVARIATES)),
    )
    return ThreadRegression(design.astype(float), covariates, np.zeros(N_THREADS), 1.0, units)


MODELS = {
    "one cluster": lambda: Model(OneCluster(), None, regression(), N_USERS),
    "process": lambda: Model(ChineseRestaurant(), np.zeros((N_USERS, 1)), regression(), N_USERS),
}


@pytest.fixture(autouse=True)
def _many(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were many."""
    monkeypatch.setattr(threads, "_ALWAYS_TOGETHER", 0)


@pytest.mark.slow
def test_few_chains_leave_the_joint_prior_as_it_is() -> None:
    """With half the chains of the test below, and the same limit: standard errors are 1.4 times as
    large."""
    assert_joint(MODELS["one cluster"](), seed=0, n_chains=120, n_prior=2000)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_sampler_leaves_the_joint_prior_as_it_is(name: str) -> None:
    assert (
        regression().conjugate({"noise_precision": 1.0, "coefficients": np.zeros(N_COVARIATES)})
        is None
    )
    assert_joint(MODELS[name](), seed=0)


def two_steps(rng: np.random.Generator, model: Model, state: State) -> State:
    for _ in range(2):
        state, _ = GibbsEngine(2).advance(rng, model, state, np.zeros(1, dtype=np.bool_))
    return state


test_without_any_joint_draw_two_steps_to_a_data_set = joint_tests(
    MODELS,
    seeds=[1],
    change=lambda patch: patch.setattr(threads, "_JOINT_SHARE_WITH_COVARIATES", 0.0),
    length=30,
    step=two_steps,
)


def users_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ThreadRegression._draw_of_covariates

    def wrong(
        self: ThreadRegression, rng: Any, latent: np.ndarray, noise_precision: float
    ) -> np.ndarray:
        return right(self, rng, 0.0 * latent, noise_precision)

    monkeypatch.setattr(ThreadRegression, "_draw_of_covariates", wrong)


def the_first_outcome_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ByCoefficients, "of", lambda self, _outcome: self)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("mutant", [users_are_forgotten, the_first_outcome_stays])
def test_mutant_is_rejected(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    assert_rejected(MODELS["one cluster"](), 0)
