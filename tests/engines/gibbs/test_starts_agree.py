"""Chains from far apart reach the same posterior on the paper's scenarios: from one cluster,
k-means; full agreement, none."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import dualview as dv
from dualview.engines.gibbs import GibbsEngine
from dualview.inputs.data import checked_data
from dualview.inputs.parameters import Parameters
from dualview.inputs.problem import build_model
from dualview.model import Model, State
from dualview.partitions.agreement import LabelsByView
from dualview.posterior.diagnostics import table


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["agreement", "disagreement", "iris"])
def test_starts_agree(scenario: str) -> None:
    """Rank-normalised R̂ over two chains from each start, 5,000 iterations; the number of clusters
    is the slowest."""
    forum = getattr(dv.datasets, scenario)(50, 100, seed=0)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    settings = {"n_warmup": 500, "n_draws": 4500, "n_chains": 2, "n_jobs": 2}
    chains: dict[str, list[np.ndarray]] = {}
    for seed, init in enumerate(("one", "kmeans")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            post = (
                dv.DualViewMixture(init=init, random_state=seed, **settings)
                .fit(forum.features, behavior)
                .posterior_
            )
        for name in (
            "alpha",
            "n_clusters",
            "noise_precision",
            "log_joint",
            "features.base_dof",
            "behavior.base_covariance",
        ):
            chains.setdefault(name, []).append(post[name].astype(float))
        chains.setdefault("mean latent", []).append(post["latent"].mean(axis=2))
    r_hat = table({name: np.concatenate(parts) for name, parts in chains.items()})["r_hat"]
    assert r_hat.max() < 1.03, r_hat.to_string()
    assert np.median(r_hat) < 1.01


def scalars(state: State) -> dict[str, float]:
    assert state.latent is not None
    return {
        "agreement": float(state.labels.shares[0]),
        "acting otherwise": float((state.labels.behavior != state.z).mean()),
        "clusters": float((state.counts > 0).sum()),
        "log alpha": float(np.log(state.alpha)),
        "log noise": float(np.log(state.params["noise_precision"])),
        "mean latent": float(state.latent.mean()),
    }


def apart_from(rng: np.random.Generator, model: Model, agreeing: bool) -> np.ndarray:
    """Draws of scalars, from all users acting as they look, or from none, with labels of behavior
    that have nothing to do."""
    engine = GibbsEngine(3)
    z = rng.integers(0, 6, model.n_users)
    state = engine.start(rng, model, z)
    if not agreeing:
        nobody = np.zeros((1, model.n_users), dtype=bool)
        labels = LabelsByView(np.array([rng.permutation(z), z]), nobody, np.array([0.1]))
        state = replace(state, labels=labels)
    draws = []
    for iteration in range(6000):
        state = engine.step(rng, model, state)
        if iteration >= 1000:
            draws.append(list(scalars(state).values()))
    return np.array(draws)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["agreement", "disagreement", "iris"])
def test_full_agreement_and_none_lead_to_the_same(scenario: str) -> None:
    """Two chains from each where views may disagree."""
    forum = getattr(dv.datasets, scenario)(50, 100, seed=0)
    estimator = dv.DualViewMixture(agreement="learned")
    fit = build_model(
        Parameters.of(estimator),
        checked_data(
            estimator, forum.features, dv.SharedOutcome(forum.participation, forum.outcome)
        ),
    )
    chains = np.array(
        [apart_from(np.random.default_rng(seed), fit.model, seed % 2 == 0) for seed in range(4)]
    )
    state = fit.model.draw_prior(np.random.default_rng(0))
    r_hat = table({name: chains[:, :, i] for i, name in enumerate(scalars(state))})["r_hat"]
    assert r_hat.max() < 1.03, r_hat.to_string()
    assert np.median(r_hat) < 1.01
