"""Chains beside each other: the same draws wherever they run, and memory that does not grow with
the number of draws."""

import subprocess
import sys
import threading
from pathlib import Path

import distributed
import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import dualview as dv
from dualview.chains.chains import jobs

FORUM = dv.datasets.agreement(12, 20, seed=0)


def fit(**options: object) -> dv.Posterior:
    settings = {"n_warmup": 10, "n_draws": 20, "n_chains": 3} | options
    behavior = dv.SharedOutcome(FORUM.participation, FORUM.outcome)
    return dv.DualViewMixture(**settings).fit(FORUM.features, behavior).posterior_  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_a_dask_cluster_gives_the_draws_that_threads_give(tmp_path: Path) -> None:
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": None,
        "local_directory": str(tmp_path),
    }
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        there = fit()
    here = fit(n_jobs=2)
    for name in here:
        np.testing.assert_array_equal(there[name], here[name])


def test_chains_run_beside_each_other_by_default_and_draw_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dualview.chains.chains.n_cores", lambda: 3)
    together, alone = fit(), fit(n_jobs=1)
    for name in alone:
        np.testing.assert_array_equal(together[name], alone[name])
    running: set[str] = set()
    fit(progress=lambda *_: running.add(threading.current_thread().name))
    assert len(running) > 1


def jobs_here(n_jobs: int | None = None) -> int | None:
    return jobs(n_jobs, 4, 100)


def test_who_decides_how_many_chains_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dualview.chains.chains.n_cores", lambda: 3)
    assert jobs_here() == 3
    assert jobs(None, 2, 100) == 2
    assert jobs(None, 4, 10**6) == 1
    assert jobs_here(1) == 1
    assert jobs_here(-1) == -1
    assert jobs_here(10**9) == 4
    with joblib.parallel_config(n_jobs=1):
        assert jobs_here() is None  # joblib then takes the context's 1
    with joblib.parallel_config("threading"):
        assert jobs_here() is None
    with joblib.parallel_config(verbose=0):
        assert jobs_here() == 3
    assert joblib.Parallel(n_jobs=1)([joblib.delayed(jobs_here)()]) == [3]
    assert joblib.Parallel(n_jobs=2, prefer="threads")(2 * [joblib.delayed(jobs_here)()]) == [
        None,
        None,
    ]


def test_blas_has_its_threads_back_after_a_fit() -> None:
    with threadpool_limits(2):
        before = [pool["num_threads"] for pool in threadpool_info()]
        fit(n_jobs=3)
        assert [pool["num_threads"] for pool in threadpool_info()] == before


_LONG = """
import sys, psutil
import dualview as dv

forum, seen = dv.datasets.agreement(20, 30, seed=0), {}

def look(chain, iteration, _):
    if iteration in (10_000, 49_900):
        seen[iteration] = psutil.Process().memory_info().rss / 1e6

length = {"n_warmup": 0, "n_draws": 50_000, "n_chains": 1}
often = {"checkpoint": sys.argv[1], "checkpoint_interval": 0.05}  # many times before the first look
model = dv.DualViewMixture(n_clusters=1, progress=look, **length, **often)
model.fit(forum.features, dv.SharedOutcome(forum.participation, forum.outcome))
print(seen[49_900] - seen[10_000])
"""


@pytest.mark.slow
def test_memory_is_flat_over_fifty_thousand_draws(tmp_path: Path) -> None:
    """In a process of its own: that of the tests has other things to free."""
    command = [sys.executable, "-W", "ignore", "-c", _LONG, str(tmp_path / "run")]
    grown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(grown) < 10
