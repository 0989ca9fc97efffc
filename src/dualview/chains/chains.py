"""Many chains: seeds, rounds, workers, interruption, time limits, failure.

Chains run side by side, a round at a time. After a round in which all have come to the same
iteration, they may be looked at together; whether the fit is finished depends on their draws alone.
Where there are more chains than workers they take turns, so that all have come about equally far
whenever time runs out or somebody asks to stop.
"""

import numbers as abstract
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from queue import Empty, PriorityQueue
from typing import Any, NamedTuple, cast

import joblib
import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_limits

from dualview.chains.chain import Chain, Position, Progress, Walk, Watch
from dualview.chains.progress import Watcher
from dualview.chains.schedule import ConvergenceStatus, Ended, Length, Round, Schedule
from dualview.chains.storage import Piece, Record, joined
from dualview.errors import DegenerateError, InputError
from dualview.numerics.parallel import n_cores

_MANY_USERS = 100_000
_UNSET = {name: joblib.parallel.default_parallel_config[name] for name in ("backend", "n_jobs")}
_SLICE = 2.0  # seconds that chains in other processes run before they are heard of again
_ALLOWANCE = 0.05  # of max_time, for chains to catch up with the one that has come furthest
_FEWEST = 4  # draws that diagnostics need
TRY_AGAIN = (
    "To try a chain again, with another version of dualview for example, delete "
    "failed.txt in its folder."
)

Monitor = Callable[[list[Record], Length], ConvergenceStatus]


class Failure(NamedTuple):
    """A chain that could not go to its end, and why."""

    chain: int
    reason: str


class Drawn(NamedTuple):
    """The draws of each chain, of one length for all, what that length is, and the chains that
    failed and have none. pace: seconds that an iteration of all chains took, where that is
    known."""

    records: list[Record]
    length: Length
    failures: tuple[Failure, ...] = ()
    pace: float | None = None


Outcome = tuple[Position, Piece] | Failure
_Waiting = PriorityQueue[tuple[int, int, Walk]]  # iterations made, place among the chains, its way


@dataclass
class _Ensemble:
    """Chains that run side by side: where each stands, and what it has kept so far. Those that fail
    are left out.

    What chains that grow have kept is in memory, since it is looked at again and again. What chains
    of fixed length have written to files stays there until the end.
    """

    chains: list[Chain]
    n_jobs: int | None
    watch: Watch
    stop: threading.Event
    failures: list[Failure] = field(default_factory=list)
    positions: list[Position] = field(init=False)
    pieces: list[list[Piece]] = field(init=False)
    _began: tuple[float, int] | None = None  # time and iterations at the end of the first round
    _now: tuple[float, int] | None = None

    def __post_init__(self) -> None:
        self.positions = [chain.position() for chain in self.chains]
        self.pieces = [
            list(position.files.pieces(self.schedule.spacing))
            if position.files and self.schedule.grows
            else []
            for position in self.positions
        ]

    @property
    def schedule(self) -> Schedule:
        return self.chains[0].schedule

    @property
    def iterations(self) -> list[int]:
        return [position.iteration for position in self.positions]

    def advance(self, part: Round) -> None:
        """Run every chain to the end of a round, unless something ends it before."""
        backend, default = get_active_backend(prefer="threads")
        n_workers = backend.effective_n_jobs(default if self.n_jobs is None else self.n_jobs)
        if getattr(backend, "supports_sharedmem", False):
            self._take(self._in_threads(part, n_workers), part)
        else:
            self._elsewhere(part, n_workers)

    def catch_up(self, part: Round, seconds: float) -> None:
        """Run the chains to where the furthest one is, but no longer than some seconds."""
        self.watch = replace(self.watch, until=time.monotonic() + seconds)
        self.advance(part._replace(stop=max(self.iterations)))

    def _in_threads(self, part: Round, n_workers: int) -> dict[int, Outcome]:
        """The outcome of each chain that has a way to go; n_workers of them run at a time.

        Their threads have ended when this function returns or raises: compiled code that runs while
        the interpreter goes down can crash the process.
        """
        places, waiting = self._behind(part), _Waiting()
        for i in places:
            walk = self.chains[i].advance(self.positions[i], part, self.watch)
            waiting.put((self.iterations[i], i, walk))
        n_workers = min(n_workers, len(places))
        if n_workers <= 1:
            return self._take_turns(waiting)
        with ThreadPoolExecutor(n_workers, thread_name_prefix="dualview-chain") as pool:
            futures = [pool.submit(self._take_turns, waiting) for _ in range(n_workers)]
            try:
                return {i: one for future in futures for i, one in future.result().items()}
            except BaseException:
                self.stop.set()
                raise

    def _take_turns(self, waiting: _Waiting) -> dict[int, Outcome]:
        """A worker's part: again and again, one call of its engine by the chain that waits and has
        come least far. The outcomes are of chains that came to their end with this worker.

        A worker that finds none waiting is needed no more: each of the others puts back the chain
        that it has before it takes one.
        """
        outcomes: dict[int, Outcome] = {}
        # Without this the BLAS threads of two chains fight for the same cores.
        with threadpool_limits(1):
            while True:
                try:
                    _, i, walk = waiting.get_nowait()
                except Empty:
                    return outcomes
                moved = _moved(self.chains[i], walk, self.watch)
                if isinstance(moved, int):
                    waiting.put((moved, i, walk))
                else:
                    outcomes[i] = moved

    def _elsewhere(self, part: Round, n_workers: int) -> None:
        """The same in other processes, which see neither this one's progress display nor its
        request to stop.

        All are asked to run for a moment, again and again; the draws do not depend on how often.
        Each has the same time, and where time is short a share of what is left, so that they differ
        as their speeds do.
        """
        while (places := self._behind(part)) and not self.watch.is_over:
            seconds = _SLICE
            if self.watch.until is not None:
                n_turns = -(-len(places) // max(1, n_workers))
                seconds = min(_SLICE, (self.watch.until - time.monotonic()) / n_turns)
            tasks: Any = (
                delayed(_remote)(self.chains[i], self.positions[i], part, seconds) for i in places
            )
            try:
                outcomes = dict(zip(places, Parallel(n_jobs=self.n_jobs)(tasks), strict=True))
            except Exception:
                if self.stop.is_set():  # Ctrl-C in a terminal ends processes that wait for work
                    return
                raise
            for i, outcome in outcomes.items():
                if self.watch.progress is not None and not isinstance(outcome, Failure):
                    self.watch.progress(
                        self.chains[i].index, outcome[0].iteration, outcome[0].n_clusters
                    )
            self._take(outcomes, part)

    def clock(self) -> None:
        """Note the time. It counts from the end of the first round, in which code is compiled."""
        now = time.monotonic(), min(self.iterations)
        self._began, self._now = self._began or now, now

    def pace(self) -> float | None:
        """Seconds of an iteration; None before the second round."""
        if self._began is None or self._now is None or self._now[1] <= self._began[1]:
            return None
        return (self._now[0] - self._began[0]) / (self._now[1] - self._began[1])

    def _behind(self, part: Round) -> list[int]:
        return [i for i, iteration in enumerate(self.iterations) if iteration < part.stop]

    def _take(self, outcomes: dict[int, Outcome], part: Round) -> None:
        """Note where the chains have come to, and leave out those that have failed. What is kept in
        memory is thinned."""
        failures = []
        for i, outcome in sorted(outcomes.items()):
            if isinstance(outcome, Failure):
                failures.append(outcome)
                continue
            self.positions[i], piece = outcome
            if self._in_memory(i):
                self._keep(i, piece, part)
        self._leave_out(failures)

    def _leave_out(self, failures: list[Failure]) -> None:
        """Continue without chains that have failed; raise where none is left."""
        if not failures:
            return
        self.failures += failures
        failed = {failure.chain for failure in failures}
        left = [i for i, chain in enumerate(self.chains) if chain.index not in failed]
        if not left:
            raise DegenerateError(failure_text(self.failures, len(self.failures)))
        for name in ("chains", "positions", "pieces"):
            setattr(self, name, [getattr(self, name)[i] for i in left])
        _tell_of_failures(self.watch.progress, failures)

    def _in_memory(self, i: int) -> bool:
        return self.positions[i].files is None or self.schedule.grows

    def _keep(self, i: int, piece: Piece, part: Round) -> None:
        pieces = [*self.pieces[i], piece]
        if any(
            one.stride != part.stride for one in pieces
        ):  # thinned in one piece, so that memory stays what it was
            record = joined(pieces, part.stride, self.schedule.spacing)
            pieces = [Piece(0, piece.stop, part.stride, record)]
        self.pieces[i] = pieces

    def record(self, i: int, stride: int) -> Record:
        """Everything that a chain has kept."""
        files, spacing = self.positions[i].files, self.schedule.spacing
        pieces = (
            files.pieces(spacing)
            if files is not None and not self._in_memory(i)
            else self.pieces[i]
        )
        return joined(pieces, stride, spacing)

    def drawn(self, part: Round, ended: Ended) -> Drawn:
        """The draws of all chains that have some, cut to the same length."""
        schedule, spacing = self.schedule, self.schedule.spacing
        stride = max(
            [
                part.stride,
                *(position.files.stride(spacing) for position in self.positions if position.files),
            ]
        )
        records = {i: self.record(i, stride) for i in range(len(self.chains))}
        records = {i: record for i, record in records.items() if record.n_draws}
        if not records:
            raise _nothing_yet(ended)
        common = min(part.stop, *(self.iterations[i] for i in records))
        n = spacing.n_by(common, stride)
        n_dropped = schedule.dropped(n, stride)
        whole = slice(n_dropped // spacing.every, n // spacing.every)
        length = Length(common, spacing.n_warmup + n_dropped * stride, stride, ended)
        cut = [record.between(whole, slice(n_dropped, n)) for record in records.values()]
        return Drawn(cut, length, tuple(self.failures))


def _nothing_yet(ended: Ended) -> BaseException:
    if ended == "max_time":
        return InputError(
            "max_time ran out before the end of warm-up, so there are no draws. Give more time, "
            "or a smaller n_warmup."
        )
    return KeyboardInterrupt("stopped during warm-up: there are no draws yet")


def run_chains(
    chains: list[Chain],
    n_jobs: int | None = None,
    progress: Progress | None = None,
    judge: Monitor | None = None,
    max_time: float | None = None,
) -> Drawn:
    """Run chains with a stream each, so that chain 1 of 2 equals chain 1 of 5 whatever runs beside
    it.

    Threads by default, since kernels release the interpreter; another joblib backend, Dask's among
    them, when the context says so. n_jobs: chains at a time, see :func:`jobs`. judge: looks at all
    chains where their schedule says so, and ends those that run until they are good. max_time:
    seconds, which count from the end of the first iteration, in which code is compiled; after them
    chains catch up with the one that has come furthest, for a twentieth of that time at most.
    Ctrl-C ends all chains after the call of the engine that they are in. Either way they are cut to
    the same length, which costs little, since they take turns. A chain that comes to where the
    posterior is degenerate is left out, now and in later sittings, and the others continue; it is
    an error when none is left. Any other error ends all chains and is raised. No thread is left at
    work.
    """
    chains, failures = _without_failed(chains)
    _tell_of_failures(progress, failures)
    n_jobs = jobs(n_jobs, len(chains), max(chain.model.n_users for chain in chains))
    # Threads that limit BLAS one by one leave it limited when they end in another order than they
    # began.
    with _interruptible() as stop, threadpool_limits(1):
        ensemble = _Ensemble(chains, n_jobs, Watch(progress, stop), stop, failures)
        drawn = _rounds(ensemble, judge, max_time)
        return drawn._replace(pace=ensemble.pace())


def _rounds(ensemble: _Ensemble, judge: Monitor | None, max_time: float | None) -> Drawn:
    """Round by round, until the schedule's last or until something ends the fit before."""
    schedule, stop = ensemble.schedule, ensemble.stop
    grows = schedule.grows
    furthest = max(ensemble.iterations)
    for part in schedule.rounds():
        last = part.stop == schedule.n_iterations
        if part.stop < furthest and not last:  # an earlier sitting went beyond it
            continue
        if ensemble.watch.until is None and max_time is not None:
            first = min(ensemble.iterations) + 1
            ensemble.advance(part._replace(stop=min(first, part.stop)))
            ensemble.watch = Watch(ensemble.watch.progress, stop, time.monotonic() + max_time)
        ensemble.advance(part)
        ensemble.clock()
        if min(ensemble.iterations) < part.stop:
            if max_time is not None and not stop.is_set():
                ensemble.catch_up(part, _ALLOWANCE * max_time)
            return ensemble.drawn(part, "interrupted" if stop.is_set() else "max_time")
        n_whole = schedule.spacing.n_by(part.stop, part.stride) // schedule.spacing.every
        if part.look and judge is not None and n_whole >= _FEWEST:
            drawn = ensemble.drawn(part, "max_draws" if grows else "length")
            if judge(drawn.records, drawn.length).good and grows:
                return drawn._replace(length=drawn.length._replace(ended="converged"))
    return ensemble.drawn(part, "max_draws" if grows else "length")


def _without_failed(chains: list[Chain]) -> tuple[list[Chain], list[Failure]]:
    """The chains that have not failed in an earlier sitting, and the failures of the others."""
    failures = [
        Failure(chain.index, reason)
        for chain in chains
        if chain.folder is not None and (reason := chain.folder.failure(chain.index)) is not None
    ]
    if failures and len(failures) == len(chains):
        raise DegenerateError(
            f"{failure_text(failures, len(chains))} This was in an earlier session. {TRY_AGAIN}"
        )
    failed = {failure.chain for failure in failures}
    return [chain for chain in chains if chain.index not in failed], failures


def _tell_of_failures(progress: Progress | None, failures: list[Failure]) -> None:
    """Let a display know which chains are not to be waited for."""
    if isinstance(progress, Watcher):
        for failure in failures:
            progress.failed(failure.chain)


def _moved(chain: Chain, walk: Walk, watch: Watch) -> int | Outcome:
    """Where a chain is after a call of its engine; at the end of its way its outcome. An error of
    any other kind than a failure asks the other chains to stop."""
    try:
        return next(walk)
    except StopIteration as end:
        return cast(Outcome, end.value)
    except DegenerateError as error:
        if chain.folder is not None:
            chain.folder.note_failure(chain.index, str(error))
        return Failure(chain.index, str(error))
    except BaseException:
        if watch.stop is not None:
            watch.stop.set()
        raise


def _remote(chain: Chain, position: Position, part: Round, seconds: float) -> Outcome:
    """Where a chain comes to in some seconds, in a process that leaves Ctrl-C to the one that
    asked."""
    watch = Watch(until=time.monotonic() + seconds, patient=True)
    walk = chain.advance(position, part, watch)
    with threadpool_limits(1), _without_interrupts():
        while isinstance(moved := _moved(chain, walk, watch), int):
            pass
    return moved


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ctrl-C does nothing. In other threads than the main one nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def failure_text(failures: Sequence[Failure], n_chains: int) -> str:
    """Which of n_chains chains failed, and why; a single one's own words."""
    if n_chains == 1:
        return failures[0].reason
    by_reason: dict[str, list[int]] = {}
    for failure in sorted(failures):
        by_reason.setdefault(failure.reason, []).append(failure.chain)
    texts = [
        f"{_chains_text(chains)} of {n_chains} (counting from 0) failed: {why}"
        for why, chains in by_reason.items()
    ]
    return " ".join(texts)


def _chains_text(indices: list[int]) -> str:
    return (
        f"Chain {indices[0]}"
        if len(indices) == 1
        else f"Chains {', '.join(str(index) for index in indices)}"
    )


def jobs(n_jobs: int | None, n_chains: int, n_users: int) -> int | None:
    """How many chains run at a time, as joblib takes it.

    None: as many as there are cores, unless a context such as ``joblib.parallel_config``, or a
    parallel search whose worker this is, says something about jobs or backends; then joblib's rules
    hold. Chains of very many users run one at a time, since their sweeps use all cores themselves
    and need memory to work in. They take turns too: a chain that waits needs none of that.
    """
    if n_jobs is not None:
        return min(n_jobs, n_chains)
    if is_configured():
        return None
    return 1 if n_users > _MANY_USERS else min(n_cores(), n_chains)


def is_configured() -> bool:
    """Whether a joblib context is active that says something about jobs or backends."""
    config = (
        getattr(joblib.parallel._backend, "config", None) or {}
    )  # no public function tells 'not set' from 1
    return any(config.get(name, default) is not default for name, default in _UNSET.items())


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """What ``random_state`` of the estimator stands for; None is another seed each time."""
    if random_state is None:
        return np.random.SeedSequence()
    if (
        isinstance(random_state, abstract.Integral)
        and not isinstance(random_state, bool)
        and int(random_state) >= 0
    ):
        return np.random.SeedSequence(int(random_state))
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63)))
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(int(random_state.randint(2**31)))
    raise InputError(
        "random_state must be an int from 0, a Generator, a RandomState or None; got "
        f"{random_state!r}."
    )


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """The first Ctrl-C sets the event, the second interrupts at once. In other threads than the
    main one nothing changes."""
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
