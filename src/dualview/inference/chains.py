"""Many chains: seeds, starting partitions, warm-up, thinning, progress."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dualview.errors import DegenerateError
from dualview.inference import gibbs
from dualview.inference.storage import Record, Store
from dualview.model import Model

Progress = Callable[[int, int, int], None]  # chain, iterations done, clusters now


@dataclass(frozen=True)
class Schedule:
    """How long a chain runs and what it keeps: n_draws states, every thin-th after n_warmup."""

    n_warmup: int
    n_draws: int
    thin: int = 1
    n_auxiliary: int = 3

    @property
    def n_iterations(self) -> int:
        return self.n_warmup + self.n_draws * self.thin


def run_chain(
    rng: np.random.Generator,
    model: Model,
    z: NDArray[np.int64],
    schedule: Schedule,
    progress: Callable[[int, int], None] | None = None,
) -> Record:
    """One chain from the assignments z."""
    store = Store(model)
    try:
        state = gibbs.start(rng, model, z)
        for iteration in range(1, schedule.n_iterations + 1):
            state, info = gibbs.step(rng, model, state, schedule.n_auxiliary)
            kept = iteration - schedule.n_warmup
            if kept > 0 and kept % schedule.thin == 0:
                store.append(state)
            if progress is not None:
                progress(iteration, info.n_clusters)
    except (ValueError, np.linalg.LinAlgError) as error:
        raise DegenerateError(
            f"Sampling ran out of the range of numbers ({error}). Look for extreme values in the features or outcomes, and for "
            "columns that take only a few distinct values."
        ) from error
    return store.record()


def run_chains(
    model: Model,
    starts: Callable[[np.random.Generator], NDArray[np.int64]],
    schedule: Schedule,
    seed: np.random.SeedSequence,
    n_chains: int,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Record]:
    """Chains with a stream each, so that chain 1 of 2 equals chain 1 of 5 whatever runs beside it."""

    def run(chain: int, child: np.random.SeedSequence) -> Record:
        rng = np.random.default_rng(child)

        def report(iteration: int, n_clusters: int) -> None:
            if progress is not None:
                progress(chain, iteration, n_clusters)

        # Without this the BLAS threads of two chains fight for the same cores.
        with threadpool_limits(1):
            return run_chain(rng, model, starts(rng), schedule, report)

    tasks: Any = (delayed(run)(chain, child) for chain, child in enumerate(seed.spawn(n_chains)))
    return list(Parallel(n_jobs=n_jobs, prefer="threads")(tasks))
