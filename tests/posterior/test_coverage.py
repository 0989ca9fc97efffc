"""Predictive intervals hold the stated share of outcomes, over data sets drawn from the model
itself."""

import numpy as np
import pytest

import dualview as dv
from dualview.model import Model
from dualview.partitions.choice import partition_prior

N_USERS, N_THREADS, N_TEST = 6, 12, 10


def dataset(
    rng: np.random.Generator, n_clusters: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, participation and outcomes from the prior with constants (0, 1) everywhere."""
    design = rng.integers(0, 2, (N_THREADS + N_TEST, N_USERS)).astype(float)
    design[:, 0] = 1.0
    blank = dv.SharedOutcome(design, np.arange(len(design)), noise_variance=1.0).prepare(
        dv.GaussianPrior(0.0, 1.0)
    )[1]
    model = Model(partition_prior(n_clusters), np.zeros((N_USERS, 1)), blank, N_USERS)
    drawn = model.simulate(rng, model.draw_prior(rng))
    assert drawn.features is not None
    return drawn.features, design, drawn.likelihood.outcome  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("n_clusters", [1, None], ids=["single", "dual-DP"])
def test_coverage_of_intervals(n_clusters: int | None) -> None:
    rng = np.random.default_rng(8)
    nominal = np.array([0.5, 0.8, 0.95])
    shares = []
    for seed in range(60):
        features, design, outcome = dataset(rng, n_clusters)
        model = dv.DualViewMixture(
            n_clusters,
            n_warmup=150,
            n_draws=300,
            n_chains=1,
            init="one",
            random_state=seed,
            feature_prior=dv.GaussianPrior(0.0, 1.0),
            behavior_prior=dv.GaussianPrior(0.0, 1.0),
        )
        model.fit(
            features, dv.SharedOutcome(design[:N_THREADS], outcome[:N_THREADS], noise_variance=1.0)
        )
        predicted = model.predict_outcome(design[N_THREADS:])
        ends = [predicted.interval(p) for p in nominal]
        test = outcome[N_THREADS:]
        shares.append([np.mean((test >= end[:, 0]) & (test <= end[:, 1])) for end in ends])
    error = np.std(shares, axis=0, ddof=1) / np.sqrt(len(shares))
    assert np.abs((np.mean(shares, axis=0) - nominal) / error).max() < 4.5
