"""Chains beside each other: the same draws wherever they run, and memory that does not grow with the number of draws."""

from pathlib import Path

import distributed
import joblib
import numpy as np
import psutil
import pytest

import dualview as dv

FORUM = dv.datasets.agreement(12, 20, seed=0)


def fit(**options: object) -> dv.Posterior:
    settings = {"n_warmup": 10, "n_draws": 20, "n_chains": 3} | options
    behavior = dv.SharedOutcome(FORUM.participation, FORUM.outcome)
    return dv.DualViewMixture(**settings).fit(FORUM.features, behavior).posterior_  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_gives_the_draws_that_threads_give(tmp_path: Path) -> None:
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "local_directory": str(tmp_path)}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster), joblib.parallel_config("dask"):
        there = fit()
    here = fit(n_jobs=2)
    for name in here:
        np.testing.assert_array_equal(there[name], here[name])


@pytest.mark.slow
def test_memory_is_flat_over_fifty_thousand_draws(tmp_path: Path) -> None:
    seen = {}

    def look(chain: int, iteration: int, _: int) -> None:
        if chain == 0 and iteration in (10_000, 49_900):
            seen[iteration] = psutil.Process().memory_info().rss / 1e6

    often = {"checkpoint": tmp_path / "run", "checkpoint_interval": 0.05}  # many times before the first look
    fit(n_warmup=0, n_draws=50_000, n_chains=1, n_clusters=1, progress=look, **often)
    assert seen[49_900] - seen[10_000] < 10
