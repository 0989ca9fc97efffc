"""Time of an iteration of the sampler against a transparent twin that does the same in NumPy and SciPy, in one process.

Run by ``make bench``. Compilation is left out of the times and printed on its own.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import dualview as dv
from dualview.inference import gibbs
from dualview.model import Model
from dualview.partitions import partition_prior
from dualview.units import Whitening

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import naive

N_USERS, N_THREADS = 50, 100


def seconds_per_call(function: Callable[[], object], n: int) -> float:
    """CPU seconds of one call, after one that is not counted."""
    function()
    began = time.process_time()
    for _ in range(n):
        function()
    return (time.process_time() - began) / n


def sampler(n_clusters: int | None, features: np.ndarray | None, behavior: dv.SharedOutcome) -> Callable[[], object]:
    """One step of the shipped sampler at a time."""
    working = None if features is None else np.ascontiguousarray(Whitening.of_data(features).to_working(features))
    model = Model(partition_prior(n_clusters), working, behavior.prepare(None)[1], N_USERS)
    rng = np.random.default_rng(0)
    state = gibbs.start(rng, model, np.arange(N_USERS) % (n_clusters or 5))

    def step() -> None:
        nonlocal state
        state, _ = gibbs.step(rng, model, state, 3)

    return step


def twin(forum: dv.datasets.Forum) -> Callable[[], object]:
    """One sweep of the slow twin at a time, dual view with an inferred number of clusters."""
    rng = np.random.default_rng(0)
    features = Whitening.of_data(forum.features).to_working(forum.features)
    data = {"design": forum.participation, "outcome": forum.outcome, "noise_variance": float(forum.outcome.var(ddof=1))}
    state, _ = naive.draw_prior(rng, N_USERS, {"features": 2, "behavior": 1}, **data)
    one = (np.zeros(2), np.eye(2)), (np.zeros(1), 1000.0 * np.eye(1))
    data |= {"features": features, "feature_constants": one[0], "behavior_constants": one[1], "partition": ("dp", None)}

    def sweep() -> None:
        nonlocal state
        state = naive.gibbs_sweep(rng, state, data)

    return sweep


def main() -> None:
    forum = dv.datasets.agreement(N_USERS, N_THREADS, seed=0)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    began = time.perf_counter()
    models = {
        "dual-DP": sampler(None, forum.features, behavior),
        "dual-fixed": sampler(5, forum.features, behavior),
        "single": sampler(1, None, behavior),
    }
    for step in models.values():
        step()
    print(f"ready after {time.perf_counter() - began:.1f} s (compilation or loading of compiled code)")
    slow = seconds_per_call(twin(forum), 5)
    print(f"{N_USERS} users, {N_THREADS} threads; twin: {1e6 * slow:.0f} µs of CPU an iteration")
    for name, step in models.items():
        quick = seconds_per_call(step, 500)
        print(f"{name:12s} {1e6 * quick:8.0f} µs   {slow / quick:8.0f} times the twin's speed")


if __name__ == "__main__":
    main()
