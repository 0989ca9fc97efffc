"""Time and memory of full sweeps on synthetic forums with skewed activity: a few users take part in
very many threads.

``python -m benchmarks.scale [users threads sweeps ...]``. The forum has six participants a thread,
drawn by Zipf's law over users, and eight features with ten overlapping clusters.
"""

import resource
import sys
import time

import numpy as np
from scipy import sparse

import dualview as dv
from benchmarks.paste import as_table
from dualview.engines.gibbs import GibbsEngine
from dualview.model import Model
from dualview.partitions.choice import partition_prior
from dualview.units import Whitening

N_CLUSTERS, N_FEATURES, N_PARTICIPANTS = 10, 8, 6
HEAD = (
    "users × threads",
    "sweeps",
    "preparation (s)",
    "wall time of a sweep (s)",
    "CPU of a sweep (s)",
    "clusters",
    "opened a sweep",
    "peak (GB)",
)


def forum(n_users: int, n_threads: int, seed: int = 0) -> tuple[np.ndarray, dv.SharedOutcome]:
    """Features and threads of a forum whose users' activity follows Zipf's law with exponent 1."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, N_CLUSTERS, n_users)
    features = 2.0 * rng.standard_normal((N_CLUSTERS, N_FEATURES))[z] + rng.standard_normal(
        (n_users, N_FEATURES)
    )
    latent = rng.standard_normal(N_CLUSTERS)[z] + 0.3 * rng.standard_normal(n_users)
    weights = np.cumsum(1.0 / (10.0 + rng.permutation(n_users)))
    users = np.searchsorted(weights, rng.random(n_threads * N_PARTICIPANTS) * weights[-1]).astype(
        np.int32
    )
    starts = np.arange(0, n_threads * N_PARTICIPANTS + 1, N_PARTICIPANTS)
    participation = sparse.csr_array(
        (np.ones(len(users)), users, starts), shape=(n_threads, n_users)
    )
    participation.sum_duplicates()
    outcome = participation @ latent + rng.standard_normal(n_threads)
    return features, dv.SharedOutcome(participation, outcome)


def peak_gigabytes() -> float:
    """The most memory this process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def sweeps(n_users: int, n_threads: int, n_sweeps: int) -> dict[str, float]:
    """Wall and CPU seconds of a sweep, peak memory; compilation and reading of the data are told
    apart."""
    features, behavior = forum(n_users, n_threads)
    began = time.perf_counter()
    working = np.ascontiguousarray(Whitening.of_data(features).to_working(features))
    model = Model(partition_prior(None), working, behavior.prepare(None)[1], n_users)
    rng, engine, one = np.random.default_rng(0), GibbsEngine(), np.zeros(1, dtype=np.bool_)
    state = engine.start(rng, model, rng.integers(0, N_CLUSTERS, n_users))
    state = engine.step(rng, model, state)
    prepared = time.perf_counter() - began
    began, cpu = time.perf_counter(), time.process_time()
    opened = 0
    for _ in range(n_sweeps):
        state, info = engine.advance(rng, model, state, one)
        opened += info.n_opened
    return {
        "users": n_users,
        "threads": n_threads,
        "sweeps": n_sweeps,
        "preparation_s": prepared,
        "sweep_s": (time.perf_counter() - began) / n_sweeps,
        "sweep_cpu_s": (time.process_time() - cpu) / n_sweeps,
        "clusters": info.n_clusters,
        "opened_a_sweep": opened / n_sweeps,
        "peak_gb": peak_gigabytes(),
    }


def main() -> None:
    """A row for each three numbers: users, threads and sweeps."""
    sizes = [int(value) for value in sys.argv[1:]] or [100_000, 1_000_000, 20]
    rows = [HEAD]
    for place in range(0, len(sizes), 3):
        found = sweeps(*sizes[place : place + 3])
        size = f"{found['users']:,} × {found['threads']:,}", f"{found['sweeps']}"
        times = f"{found['preparation_s']:.0f}", f"{found['sweep_s']:.2f}"
        others = f"{found['clusters']:.0f}", f"{found['opened_a_sweep']:.2f}"
        cpu, peak = f"{found['sweep_cpu_s']:.2f}", f"{found['peak_gb']:.1f}"
        rows.append((*size, *times, cpu, *others, peak))
    print(as_table(rows))


if __name__ == "__main__":
    main()
