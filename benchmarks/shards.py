"""Fits to shards: ``python -m benchmarks.shards [workers | memory] [sizes]``.

workers [users threads steps]: seconds of a step with one worker process and with two, of one thread
each, in the same run, and what a step sends and gets back. memory [users threads megabytes
seconds]: a fit on two Dask workers with a memory limit of so many megabytes each, to data of
several times that. The forum is that of ``benchmarks.scale``, made in pieces: six participants a
thread, drawn by Zipf's law over users, and eight features with ten overlapping clusters.
"""

import pickle
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import dualview as dv
from benchmarks.scale import N_CLUSTERS, N_FEATURES, N_PARTICIPANTS, peak_gigabytes
from dualview.engines.variational.mean_field import MeanField
from dualview.engines.variational.sharded.users import ShardedUsers
from dualview.engines.variational.sharded.worker import Source, Task
from dualview.engines.variational.sharded.workers import LocalProcesses, ThisProcess, Workers
from dualview.inputs.parameters import Parameters
from dualview.inputs.shard_problem import build_shard_model

PIECE = 100_000  # users or threads that are made at a time
PRIOR = dv.GaussianPrior(0.0, 1.0)


def written(
    folder: Path, n_users: int, n_threads: int, n_shards: int
) -> tuple[dv.Shards, np.ndarray]:
    """A forum in about so many shards of users and of threads, and its clusters; memory has vectors
    of users only."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, N_CLUSTERS, n_users)
    centers = 2.0 * rng.standard_normal((N_CLUSTERS, N_FEATURES))
    latent = rng.standard_normal(N_CLUSTERS)[z] + 0.3 * rng.standard_normal(n_users)
    weights = np.cumsum(1.0 / (10.0 + rng.permutation(n_users)))

    def users() -> Iterator[np.ndarray]:
        for first in range(0, n_users, PIECE):
            own = centers[z[first : first + PIECE]]
            yield own + rng.standard_normal(own.shape)

    def threads() -> Iterator[dv.SharedOutcome]:
        for first in range(0, n_threads, PIECE):
            n = min(PIECE, n_threads - first)
            chosen = np.searchsorted(weights, rng.random(n * N_PARTICIPANTS) * weights[-1])
            starts = np.arange(0, n * N_PARTICIPANTS + 1, N_PARTICIPANTS)
            participation = sparse.csr_array(
                (np.ones(len(chosen)), chosen, starts), shape=(n, n_users)
            )
            participation.sum_duplicates()
            yield dv.SharedOutcome(participation, participation @ latent + rng.standard_normal(n))

    sizes = {
        "users_per_shard": -(-n_users // n_shards),
        "threads_per_shard": -(-n_threads // n_shards),
    }
    return dv.write_shards(folder, users(), threads(), **sizes), z


def begun(shards: dv.Shards, z: np.ndarray, pool: Workers, key: str) -> MeanField:
    """q at its start, from the true clusters."""
    estimator = dv.DualViewMixture(engine="variational", behavior_prior=PRIOR)
    model: Any = build_shard_model(
        Parameters.of(estimator),
        ShardedUsers(shards, pool, Source(key, str(shards.folder), shards.cache)),
    ).model
    return MeanField.start(model, z)


class Counted(ThisProcess):
    """Counts tasks, and bytes that would go out to workers and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def clear(self) -> None:
        self.n_tasks = self.n_out = self.n_back = 0

    def run(self, source: Source, tasks: Iterable[Task]) -> Iterator[Any]:
        for task in tasks:
            result = next(super().run(source, [task]))
            self.n_tasks += 1
            self.n_out += len(pickle.dumps(task, protocol=5))
            self.n_back += len(pickle.dumps(result, protocol=5))
            yield result


def workers(n_users: int, n_threads: int, n_steps: int) -> str:
    """A table of two rows, and a line on traffic."""
    rows = ["| workers | seconds a step | times one worker |", "|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        shards, z = written(Path(folder) / "forum", n_users, n_threads, 8)
        seconds: list[float] = []
        for n_workers in (1, 2):
            with LocalProcesses(n_workers, 1) as pool:
                q: Any = begun(
                    shards, z, pool, f"{n_workers} workers"
                ).step()  # shards are in memory, code is compiled
                began = time.perf_counter()
                for _ in range(n_steps):
                    q = q.step()
                seconds.append((time.perf_counter() - began) / n_steps)
            rows.append(f"| {n_workers} | {seconds[-1]:.2f} | {seconds[0] / seconds[-1]:.2f} |")
        with Counted() as counted:
            q = begun(shards, z, counted, "counted").step()
            counted.clear()
            q.step()
    size = sum(entry.n_bytes for entry in (*shards.users, *shards.threads)) / n_users
    traffic = (
        f"{counted.n_out / n_users:,.0f} bytes out and {counted.n_back / n_users:,.0f} "
        "back for each user"
    )
    return "\n".join(
        [
            *rows,
            "",
            f"{n_users:,} users, {n_threads:,} threads, {size:,.0f} bytes of shards for each "
            "user. A step has "
            f"{counted.n_tasks} tasks for {len(shards.users)} + {len(shards.threads)} shards, "
            f"{traffic}.",
        ]
    )


def memory(n_users: int, n_threads: int, megabytes: int, seconds: int) -> str:
    """A table of one row."""
    import distributed
    import joblib

    with tempfile.TemporaryDirectory() as folder:
        limit = megabytes * 1_000_000
        n_shards = -(
            -40 * n_threads * (12 * N_PARTICIPANTS + 16) // limit
        )  # a worker has several times a shard in memory
        shards, _ = written(Path(folder) / "forum", n_users, n_threads, n_shards)
        shards = dv.Shards(shards.folder, cache=limit // 8)
        size = sum(entry.n_bytes for entry in (*shards.users, *shards.threads))
        options: dict[str, Any] = {
            "n_workers": 2,
            "threads_per_worker": 1,
            "memory_limit": limit,
            "dashboard_address": None,
        }
        with (
            distributed.LocalCluster(**options, local_directory=folder) as cluster,
            distributed.Client(cluster) as client,
        ):
            settings: dict[str, Any] = {
                "n_clusters": N_CLUSTERS,
                "n_chains": 1,
                "n_draws": 2,
                "max_time": float(seconds),
            }
            began = time.perf_counter()
            with joblib.parallel_config("dask"):
                model = dv.DualViewMixture(
                    engine="variational", behavior_prior=PRIOR, **settings
                ).fit(shards)
            wall = time.perf_counter() - began
            peaks = client.run(peak_gigabytes).values()
    facts = model.posterior_.approximation
    assert facts is not None
    cells = [
        f"{n_users:,}",
        f"{n_threads:,}",
        f"{size / 1e9:.2f}",
        f"2 × {limit / 1e9:.2f}",
        f"{max(peaks):.2f}",
        f"{wall:.0f}",
    ]
    cells += [str(facts.starts[0].n_steps), f"{peak_gigabytes():.2f}"]
    head = (
        "| users | threads | GB of shards | GB workers may use | largest GB of a worker | "
        "wall s | steps | GB of this process |"
    )
    return f"{head}\n|{'---|' * 8}\n| {' | '.join(cells)} |"


def main(words: list[str]) -> None:
    """What is asked for, or everything."""
    known: dict[str, Any] = {
        "workers": (workers, [1_000_000, 10_000_000, 5]),
        "memory": (memory, [20_000, 36_500_000, 800, 60]),
    }
    sizes = [int(word.replace("_", "")) for word in words[1:]]
    for name, (function, usual) in known.items():
        if not words or words[0] == name:
            print(function(*(sizes or usual)), flush=True)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main(sys.argv[1:])
