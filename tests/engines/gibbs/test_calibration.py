"""Simulation-based calibration (Talts et al. 2018): ranks of true values among posterior draws are
uniform.

Unlike the joint test, chains start as a user's do, from everybody in one cluster, and must find the
posterior by themselves.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import chisquare

from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.behaviors.panel import Panel
from dualview.engines.gibbs import GibbsEngine
from dualview.model import Model, State
from dualview.partitions.agreement import Beta
from dualview.partitions.priors import ChineseRestaurant, FiniteDirichlet
from dualview.units import Whitening
from rows import logit_rows

N_USERS, N_THREADS, N_DATASETS, N_RANKS = 8, 10, 300, 19
N_WARMUP, SPACING = 400, 40
ENGINE = GibbsEngine(3)


def blank_model(partition: Any) -> Model:
    rng = np.random.default_rng(5)
    none = np.empty((0, 0))
    likelihood = ThreadRegression(
        design=rng.integers(0, 2, (N_THREADS, N_USERS)).astype(float),
        coefficient_design=np.empty((N_THREADS, 0)),
        outcome=np.zeros(N_THREADS),
        noise_variance=1.0,
        coefficient_units=Whitening(np.empty(0), none, none),
    )
    return Model(partition, np.zeros((N_USERS, 2)), likelihood, N_USERS)


def disagreeing(partition: Any) -> Model:
    """Users who need not act as they look."""
    return replace(blank_model(partition), agreement=Beta(2.0, 1.0))


def separable_model(partition: Any) -> Model:
    """Two answers a user to a question without covariates: as a rule they are alike, and set no
    bound to the latent number."""
    user = np.repeat(np.arange(N_USERS), 2)
    panel = Panel.of(user, np.ones((len(user), 1)), np.zeros(len(user)), N_USERS)
    likelihood = logit_rows(panel, sparse.csr_array((len(user), 0)), np.zeros(len(user)))
    return Model(partition, np.zeros((N_USERS, 2)), likelihood, N_USERS)


def quantities(state: State) -> dict[str, float]:
    features, behavior = state.views["features"].base, state.views["behavior"].base
    assert state.latent is not None
    agreement = {f"agreement {t}": float(own) for t, own in enumerate(state.labels.shares)}
    noise = {
        name: np.log(value) for name, value in state.params.items() if name == "noise_precision"
    }
    return (
        noise
        | agreement
        | {
            "log_alpha": np.log(state.alpha),
            "latent": state.latent[0, 0],
            "mean of latent": state.latent.mean(),
            "features.base_mean": features.mean[0],
            "features.base_covariance": np.log(features.covariance[0, 0]),
            "features.dof": np.log(features.dof),
            "behavior.base_mean": behavior.mean[0],
            "behavior.base_covariance": np.log(behavior.covariance[0, 0]),
            "behavior.dof": np.log(behavior.dof),
        }
    )


def ranks(rng: np.random.Generator, blank: Model) -> dict[str, int]:
    truth = blank.draw_prior(rng)
    model = blank.simulate(rng, truth)
    state = ENGINE.start(rng, model, np.zeros(N_USERS, dtype=np.int64))
    draws = []
    for iteration in range(1, N_WARMUP + N_RANKS * SPACING + 1):
        state = ENGINE.step(rng, model, state)
        if iteration > N_WARMUP and (iteration - N_WARMUP) % SPACING == 0:
            draws.append(quantities(state))
    true = quantities(truth)
    return {name: sum(draw[name] < true[name] for draw in draws) for name in true}


@pytest.mark.slow
@pytest.mark.parametrize(
    "blank",
    [
        blank_model(ChineseRestaurant()),
        blank_model(FiniteDirichlet(3)),
        separable_model(ChineseRestaurant()),
        disagreeing(ChineseRestaurant()),
        disagreeing(FiniteDirichlet(3)),
    ],
    ids=[
        "dual-DP",
        "dual-fixed",
        "answers all alike",
        "views may disagree",
        "views may disagree, fixed",
    ],
)
def test_ranks_of_the_truth_are_uniform(blank: Model) -> None:
    rng = np.random.default_rng(11)
    found = [ranks(rng, blank) for _ in range(N_DATASETS)]
    p_values = {}
    for name in found[0]:
        counts = np.bincount([rank[name] // 4 for rank in found], minlength=(N_RANKS + 1) // 4)
        p_values[name] = chisquare(counts).pvalue
    assert min(p_values.values()) > 1e-4, p_values
