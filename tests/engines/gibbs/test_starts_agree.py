"""Chains from everybody in one cluster and from k-means reach the same posterior on the paper's scenarios."""

import warnings

import numpy as np
import pytest

import dualview as dv
from dualview.posterior.diagnostics import table


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["agreement", "disagreement", "iris"])
def test_starts_agree(scenario: str) -> None:
    """Rank-normalised R̂ over two chains from each start, 5,000 iterations; the number of clusters is the slowest."""
    forum = getattr(dv.datasets, scenario)(50, 100, seed=0)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    settings = {"n_warmup": 500, "n_draws": 4500, "n_chains": 2, "n_jobs": 2}
    chains: dict[str, list[np.ndarray]] = {}
    for seed, init in enumerate(("one", "kmeans")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            post = dv.DualViewMixture(init=init, random_state=seed, **settings).fit(forum.features, behavior).posterior_
        for name in ("alpha", "n_clusters", "noise_precision", "log_joint", "features.base_dof", "behavior.base_covariance"):
            chains.setdefault(name, []).append(post[name].astype(float))
        chains.setdefault("mean latent", []).append(post["latent"].mean(axis=2))
    r_hat = table({name: np.concatenate(parts) for name, parts in chains.items()})["r_hat"]
    assert r_hat.max() < 1.03, r_hat.to_string()
    assert np.median(r_hat) < 1.01
