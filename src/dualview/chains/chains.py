"""Many chains: seeds, warm-up, thinning, progress, interruption, failure, files."""

import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import joblib
import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dualview.chains.checkpoint import ChainFiles
from dualview.chains.run_folder import RunFolder
from dualview.chains.snapshot import Snapshot
from dualview.chains.storage import Moments, Record, Store
from dualview.engines.base import Engine
from dualview.errors import DataWarning, DegenerateError, InputError
from dualview.model import Model, State
from dualview.numerics.parallel import n_cores

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
    """One chain: where its numbers come from, who makes its steps, how it starts, how long it runs, where its draws go."""

    index: int
    seed: np.random.SeedSequence
    model: Model
    engine: Engine
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
        at_once = self.engine.steps_at_once(self.model)
        if progress is not None:  # somebody looks on
            at_once = min(at_once, max(1, self.schedule.n_iterations // _LOOKS))
        while iteration < self.schedule.n_iterations and not (stop is not None and stop.is_set()):
            keep = self.schedule.kept(iteration, at_once)
            state, info = self.engine.advance(rng, self.model, state, keep)
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
            return 0, self.engine.start(rng, self.model, self.starts(rng)), None
        snapshot.restore(rng)
        return snapshot.iteration, snapshot.state_of(self.model), snapshot.moments


class Failure(NamedTuple):
    """A chain that could not go to its end, and why."""

    chain: int
    reason: str


def run_chains(chains: list[Chain], n_jobs: int | None = None, progress: Progress | None = None) -> list[Record]:
    """Run chains with a stream each, so that chain 1 of 2 equals chain 1 of 5 whatever runs beside it.

    Threads by default, since kernels release the interpreter; another joblib backend, Dask's among them, when the context says
    so. n_jobs: chains at a time, see :func:`jobs`. Ctrl-C ends all chains after the iteration they are at; they are cut to the
    same length. So does the failure of one chain, before it is raised: what the others have is on disk where the run has a
    folder. No thread is left at work.
    """
    chains = _without_failed(chains)
    n_jobs = jobs(n_jobs, len(chains), max(chain.model.n_users for chain in chains))
    backend, default = get_active_backend(prefer="threads")
    # Threads that limit BLAS one by one leave it limited when they end in another order than they began.
    with _interruptible() as stop, threadpool_limits(1):
        if getattr(backend, "supports_sharedmem", False):
            n_workers = backend.effective_n_jobs(default if n_jobs is None else n_jobs)
            outcomes = _in_threads(chains, n_workers, progress, stop)
        else:  # other processes cannot see this one's progress bar or its request to stop
            tasks: Any = (delayed(_outcome)(chain) for chain in chains)
            outcomes = list(Parallel(n_jobs=n_jobs)(tasks))
        records = [outcome for outcome in outcomes if isinstance(outcome, Record)]
        if len(records) < len(outcomes):
            raise DegenerateError(_failure_text(outcomes, chains[0].folder))
        if stop.is_set():
            records = [record for record in records if record.n_draws]
            if not records:
                raise KeyboardInterrupt("stopped during warm-up: there are no draws yet")
    n_draws = min(record.n_draws for record in records)
    n_scalars = min(record.n_scalars for record in records)
    return [record.first(n_draws, n_scalars) for record in records]


def _without_failed(chains: list[Chain]) -> list[Chain]:
    """The chains that have not failed in an earlier sitting; a warning says which have."""
    failures = [
        Failure(chain.index, reason)
        for chain in chains
        if chain.folder is not None and (reason := chain.folder.failure(chain.index)) is not None
    ]
    if not failures:
        return chains
    failed = {failure.chain for failure in failures}
    names = _chains_text(sorted(failed))
    advice = "A chain's folder without its failed.txt makes it try again, after a change to dualview for example."
    if len(failed) == len(chains):
        raise DegenerateError(f"{names} failed in an earlier sitting: {failures[0].reason} {advice}")
    warnings.warn(
        f"{names} failed in an earlier sitting, and the fit continues without: {failures[0].reason} The other chains may come "
        f"to the same point. {advice}",
        DataWarning,
        stacklevel=5,
    )
    return [chain for chain in chains if chain.index not in failed]


def _in_threads(
    chains: list[Chain], n_workers: int, progress: Progress | None, stop: threading.Event
) -> list[Record | Failure]:
    """The outcome of each chain; n_workers of them run at a time.

    Their threads have ended when this function returns or raises: compiled code that runs while the interpreter goes down can
    crash the process.
    """
    if min(n_workers, len(chains)) == 1:
        return [_outcome(chain, progress, stop) for chain in chains]
    with ThreadPoolExecutor(n_workers, thread_name_prefix="dualview-chain") as pool:
        futures = [pool.submit(_outcome, chain, progress, stop) for chain in chains]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            raise


def _outcome(chain: Chain, progress: Progress | None = None, stop: threading.Event | None = None) -> Record | Failure:
    """The draws of a chain, or why it failed; an error of any kind asks the other chains to stop."""
    try:
        return chain.run(progress, stop)
    except BaseException as error:
        if stop is not None:
            stop.set()
        if not isinstance(error, DegenerateError):
            raise
        if chain.folder is not None:
            chain.folder.note_failure(chain.index, str(error))
        return Failure(chain.index, str(error))


def _failure_text(outcomes: list[Record | Failure], folder: RunFolder | None) -> str:
    """Which chains failed and why, what the others have, and how to continue."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    if len(outcomes) == 1:
        return failures[0].reason
    names = _chains_text([failure.chain for failure in failures])
    text = f"{names} of {len(outcomes)} (they count from 0) failed: {failures[0].reason}"
    made = [str(max(outcome.n_draws, outcome.n_scalars)) for outcome in outcomes if isinstance(outcome, Record)]
    if not made:
        return text
    text += f" The other chains were stopped; draws they have: {', '.join(made)}."
    if folder is None:
        return f"{text} To keep such draws, fit with checkpoint=FOLDER; fitting once more then continues the other chains."
    return (
        f"{text} They are in {folder.path}: fit once more with the same settings to continue those chains without the failed."
    )


def _chains_text(indices: list[int]) -> str:
    return f"Chain {indices[0]}" if len(indices) == 1 else f"Chains {', '.join(str(index) for index in indices)}"


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
