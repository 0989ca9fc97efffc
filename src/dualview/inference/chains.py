"""Many chains: seeds, warm-up, thinning, progress, interruption, files."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dualview.errors import DegenerateError, InputError
from dualview.inference import gibbs
from dualview.inference.checkpoint import ChainFiles
from dualview.inference.run_folder import RunFolder
from dualview.inference.snapshot import Snapshot
from dualview.inference.storage import Moments, Record, Store
from dualview.model import Model, State
from dualview.threads import n_cores

_MOST_ITERATIONS = 10**9  # of a chain; the smallest data take hours for so many
_MOST_CHAINS = 10_000
_MANY_USERS = 100_000
_UNSET = {name: joblib.parallel.default_parallel_config[name] for name in ("backend", "n_jobs")}
_LOOKS = 100  # times that progress is told of, at least

Progress = Callable[[int, int, int], None]  # chain, iterations done, clusters now
Starts = Callable[[np.random.Generator], NDArray[np.int64]]


@dataclass(frozen=True)
class Schedule:
    """How long a chain runs and what it keeps: n_draws states, every thin-th after n_warmup.

    n_whole: None to keep them all; else a summary of them with about so many of them whole.
    """

    n_warmup: int
    n_draws: int
    thin: int = 1
    n_auxiliary: int = 3
    n_whole: int | None = None

    @property
    def every(self) -> int | None:
        """Which of the draws are kept whole in a summary."""
        return None if self.n_whole is None else max(1, self.n_draws // self.n_whole)

    def n_kept(self, iteration: int) -> int:
        """Draws made by this iteration."""
        return max(0, iteration - self.n_warmup) // self.thin

    @property
    def n_iterations(self) -> int:
        return self.n_warmup + self.n_draws * self.thin

    def kept(self, iteration: int, n: int) -> NDArray[np.bool_]:
        """Whether the states after the n iterations that follow this one are draws; fewer where the chain ends."""
        after = np.arange(iteration, min(iteration + n, self.n_iterations)) + 1 - self.n_warmup
        return np.asarray((after > 0) & (after % self.thin == 0))


def check_length(n_warmup: int, n_draws: int, thin: int, n_chains: int) -> None:
    """Raise where a fit would never end."""
    n_iterations = int(n_warmup) + int(n_draws) * int(thin)
    if n_iterations > _MOST_ITERATIONS:
        raise InputError(
            f"n_warmup + n_draws × thin must be at most {_MOST_ITERATIONS:,} iterations a chain; got {n_warmup:,} + "
            f"{n_draws:,} × {thin:,} = {n_iterations:,}. Draw fewer, or thin less."
        )
    if n_chains > _MOST_CHAINS:
        raise InputError(f"n_chains must be at most {_MOST_CHAINS:,}; got {n_chains:,}. Two to eight are usual.")


@dataclass(frozen=True)
class Chain:
    """One chain: where its numbers come from, how it starts, how long it runs and where its draws go."""

    index: int
    seed: np.random.SeedSequence
    model: Model
    starts: Starts
    schedule: Schedule
    folder: RunFolder | None = None
    interval: float = 1.0

    def run(self, progress: Progress | None = None, stop: threading.Event | None = None) -> Record:
        """All draws of the chain, or those made until somebody asked to stop."""
        rng = np.random.default_rng(self.seed)
        files = None if self.folder is None else self.folder.chain(self.index)
        # Without this the BLAS threads of two chains fight for the same cores.
        with threadpool_limits(1):
            try:
                return self._advance(rng, files, progress, stop)
            except (ValueError, np.linalg.LinAlgError) as error:
                raise DegenerateError(
                    f"Sampling ran out of the range of numbers ({error}). Look for extreme values in the features or outcomes, "
                    "and for columns that take only a few distinct values."
                ) from error

    def _advance(
        self,
        rng: np.random.Generator,
        files: ChainFiles | None,
        progress: Progress | None,
        stop: threading.Event | None,
    ) -> Record:
        iteration, state, moments = self._begin(rng, files)
        store = Store(self.model, self.schedule.every, moments, self.schedule.n_kept(iteration))
        saved = time.monotonic()
        at_once = gibbs.steps_at_once(self.model)
        if progress is not None:  # somebody looks on
            at_once = min(at_once, max(1, self.schedule.n_iterations // _LOOKS))
        while iteration < self.schedule.n_iterations and not (stop is not None and stop.is_set()):
            keep = self.schedule.kept(iteration, at_once)
            state, info = gibbs.advance(rng, self.model, state, self.schedule.n_auxiliary, keep)
            iteration += info.n_steps
            store.add(info.draws, info.last)
            if progress is not None:
                progress(self.index, iteration, info.n_clusters)
            if files is not None and time.monotonic() - saved >= self.interval:
                files.append(store.drain(), Snapshot.of(iteration, state, rng, store.moments))
                saved = time.monotonic()
        if files is None:
            return store.drain()
        if iteration > files.iteration:
            files.append(store.drain(), Snapshot.of(iteration, state, rng, store.moments))
        return Record.joined(files.records())

    def _begin(self, rng: np.random.Generator, files: ChainFiles | None) -> tuple[int, State, Moments | None]:
        """From the last snapshot on disk where there is one."""
        snapshot = None if files is None else files.snapshot()
        if files is not None:
            files.discard_rest()
        if snapshot is None:
            return 0, gibbs.start(rng, self.model, self.starts(rng)), None
        snapshot.restore(rng)
        return snapshot.iteration, snapshot.state, snapshot.moments


def run_chains(chains: list[Chain], n_jobs: int | None = None, progress: Progress | None = None) -> list[Record]:
    """Run chains with a stream each, so that chain 1 of 2 equals chain 1 of 5 whatever runs beside it.

    Threads by default, since kernels release the interpreter; another joblib backend, Dask's among them, when the context says
    so. n_jobs: chains at a time, see :func:`jobs`. Ctrl-C ends all chains after the iteration they are at; they are cut to the
    same length.
    """
    shared = getattr(get_active_backend(prefer="threads")[0], "supports_sharedmem", False)
    n_jobs = jobs(n_jobs, len(chains), max(chain.model.n_users for chain in chains))
    # Threads that limit BLAS one by one leave it limited when they end in another order than they began.
    with _interruptible() as stop, threadpool_limits(1):
        # Other processes cannot see this one's progress bar or its request to stop.
        options = (progress, stop) if shared else (None, None)
        tasks: Any = (delayed(chain.run)(*options) for chain in chains)
        records = list(Parallel(n_jobs=n_jobs, prefer="threads")(tasks))
        if stop.is_set():
            records = [record for record in records if record.n_draws]
            if not records:
                raise KeyboardInterrupt("stopped during warm-up: there are no draws yet")
    n_draws = min(record.n_draws for record in records)
    n_scalars = min(record.n_scalars for record in records)
    return [record.first(n_draws, n_scalars) for record in records]


def jobs(n_jobs: int | None, n_chains: int, n_users: int) -> int | None:
    """How many chains run at a time, as joblib takes it.

    None: as many as there are cores, unless a context such as ``joblib.parallel_config``, or a parallel search whose worker
    this is, says something about jobs or backends; then joblib's rules hold. Chains of very many users run one after the other,
    since their sweeps use all cores themselves and each chain needs memory of its own.
    """
    if n_jobs is not None:
        return min(n_jobs, n_chains)
    if _is_configured():
        return None
    return 1 if n_users > _MANY_USERS else min(n_cores(), n_chains)


def _is_configured() -> bool:
    """Whether a joblib context is active that says something about jobs or backends."""
    config = getattr(joblib.parallel._backend, "config", None) or {}  # no public function tells 'not set' from 1
    return any(config.get(name, default) is not default for name, default in _UNSET.items())


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """The first Ctrl-C sets the event, the second interrupts at once. In other threads than the main one nothing changes."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.getsignal(signal.SIGINT)

    def request(signum: int, frame: Any) -> None:
        if stop.is_set() and callable(before):
            before(signum, frame)
        stop.set()

    signal.signal(signal.SIGINT, request)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
