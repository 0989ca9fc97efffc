"""Who does the work: this process, local processes, or the workers of a Dask cluster, where shards
stay on the worker that has read them; parameters go out, and sums come back.

Results come in the order of tasks, whoever finishes first. A worker that dies is replaced, and its
tasks are done again: it has nothing that cannot be made again from the folder and the tasks
themselves.

Local processes are started here, and what they are asked are futures of one thread each. Executors
of processes do not fit: that of the standard library imports the user's script again, and loky
ends workers whose memory grows, as it does when they load shards.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import is_dataclass
from itertools import islice
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from dualview.engines.variational.sharded import work
from dualview.engines.variational.sharded.loaded import Source
from dualview.engines.variational.sharded.work import Task
from dualview.errors import DualViewError
from dualview.numerics import parallel

MOST_DEATHS = 3  # of workers with the same tasks
_ROUNDS_AHEAD = 2  # rounds of tasks that are under way
_IN_ONE_GO = (
    16_000_000  # bytes of arguments and results that a worker has in its memory besides the shards
)


_PATIENCE = 60.0  # seconds without any worker of a cluster
_LOOK = 5.0  # seconds between two looks at them


class Pool(ABC):
    """Workers. A context: leaving it ends those that it started."""

    @abstractmethod
    def run(self, source: Source, tasks: Iterable[Task]) -> Iterator[Any]:
        """What tasks return, in their order. Tasks are made when there is somebody to do them."""

    def close(self) -> None:  # noqa: B027
        """End the workers that it started: none, unless a subclass says otherwise."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class ThisProcess(Pool):
    """This process, one shard after the other."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}

    def run(self, source: Source, tasks: Iterable[Task]) -> Iterator[Any]:
        self._sources[source.key] = source
        for task in tasks:
            yield work.run(source, [task])[0]

    def close(self) -> None:
        for source in self._sources.values():
            work.forget(source)


class Round(NamedTuple):
    """Tasks under way: for each worker, where its tasks are among those of the round, and what will
    have their results."""

    tasks: list[Task]
    parts: list[tuple[list[int], Any]]


class Team(Pool):
    """Several workers. Each does the same shards every time: a few in one go, where their arguments
    and results are small."""

    n_workers: int
    at_once = 1  # tasks of a worker in one go, at the most

    def __init__(self) -> None:
        self._n_bytes: dict[Any, int] = {}  # by function, of one task's argument and result

    def run(self, source: Source, tasks: Iterable[Task]) -> Iterator[Any]:
        left, rounds = iter(tasks), deque[Round]()
        while True:
            while len(rounds) < _ROUNDS_AHEAD and (some := self._some(left)):
                rounds.append(self._begin(source, some))
            if not rounds:
                return
            yield from self._finish(rounds.popleft())

    def _some(self, left: Iterator[Task]) -> list[Task]:
        """The tasks of the next round: one for each worker, until it is known how large such tasks
        are."""
        first = next(left, None)
        if first is None:
            return []
        size = self._n_bytes.get(first.function, _IN_ONE_GO)
        each = min(self.at_once, max(1, _IN_ONE_GO // max(1, size)))
        return [first, *islice(left, self.n_workers * each - 1)]

    def _begin(self, source: Source, tasks: list[Task]) -> Round:
        places: dict[int, list[int]] = {}
        for place, task in enumerate(tasks):
            places.setdefault(task.number % self.n_workers, []).append(place)
        parts = [
            (own, self.submit(worker, source, [tasks[i] for i in own]))
            for worker, own in places.items()
        ]
        return Round(tasks, parts)

    def _finish(self, begun: Round) -> list[Any]:
        results: list[Any] = [None] * len(begun.tasks)
        for places, pending in begun.parts:
            for place, result in zip(places, self.result(pending), strict=True):
                results[place] = result
        for task, result in zip(begun.tasks, results, strict=True):
            size = n_bytes(task.argument) + n_bytes(result)
            self._n_bytes[task.function] = max(size, self._n_bytes.get(task.function, 0))
        return results

    @abstractmethod
    def submit(self, worker: int, source: Source, tasks: Sequence[Task]) -> Any:
        """Give tasks to a worker."""

    @abstractmethod
    def result(self, pending: Any) -> list[Any]:
        """Wait for what they return."""


def n_bytes(value: Any) -> int:
    """Of the arrays in it, which are all that may be large."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(n_bytes, value)) if isinstance(value, tuple | list) else 0


class ProcessPool(Team):
    """Processes on this machine that share its cores, or have a given number of threads each."""

    def __init__(self, n_workers: int, n_threads: int | None = None) -> None:
        super().__init__()
        self.n_workers = n_workers
        n_threads = max(1, parallel.n_cores() // n_workers) if n_threads is None else n_threads
        self._workers = [_Process(n_workers, n_threads) for _ in range(n_workers)]
        self._threads = [
            ThreadPoolExecutor(1, thread_name_prefix="dualview-shards") for _ in range(n_workers)
        ]

    @property
    def pids(self) -> list[int]:
        """Of the processes that run now."""
        return [worker.process.pid for worker in self._workers]

    def submit(self, worker: int, source: Source, tasks: Sequence[Task]) -> "Future[list[Any]]":
        return self._threads[worker].submit(self._workers[worker].ask, source, tasks)

    def result(self, pending: "Future[list[Any]]") -> list[Any]:
        return pending.result()

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        for thread in self._threads:
            thread.shutdown(cancel_futures=True)


class _Process:
    """One process that does tasks, and its replacements."""

    def __init__(self, n_processes: int, n_threads: int) -> None:
        self._numbers = str(n_processes), str(n_threads)
        self._closed = False
        self.process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        command = [
            sys.executable,
            "-m",
            "dualview.engines.variational.sharded.serving",
            *self._numbers,
        ]
        places = os.pathsep.join(place for place in sys.path if place)
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": places},
            # Ctrl-C in a terminal is for this process, which ends the others
            start_new_session=True,
        )

    def ask(self, source: Source, tasks: Sequence[Task]) -> list[Any]:
        """What tasks return; where the process dies, another does them."""
        for _ in range(MOST_DEATHS):
            try:
                results, error = self._asked(source, tasks)
            except (EOFError, OSError, pickle.UnpicklingError):  # it was cut short
                self._end()
                if self._closed:
                    raise
                self.process = self._started()
                continue
            if error is not None:
                raise error
            return results
        shards = ", ".join(str(task.number) for task in tasks)
        raise DualViewError(
            f"A worker process died {MOST_DEATHS} times with the same shards "
            f"({tasks[0].function.__name__}, {shards}), most "
            "likely for lack of memory. Use fewer workers (n_jobs), a smaller Shards(cache=...), "
            "or smaller shards."
        )

    def _asked(self, source: Source, tasks: Sequence[Task]) -> tuple[list[Any], Exception | None]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        pickle.dump((source, tasks), self.process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
        self.process.stdin.flush()
        results, error = pickle.load(self.process.stdout)
        return results, error

    def close(self) -> None:
        self._closed = True
        self._end()

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):  # what was not sent is for nobody
                if stream is not None:
                    stream.close()


class Pending(NamedTuple):
    """Tasks on their way: to which worker, and the futures of what was sent and of its result."""

    worker: int
    source: Source
    tasks: Sequence[Task]
    sent: Any
    result: Any


class DaskPool(Team):
    """The workers of a ``distributed.Client``."""

    at_once = 8  # a task costs the scheduler about a millisecond, whatever is in it

    def __init__(self, client: Any) -> None:
        super().__init__()
        self.client = client
        self._sources: dict[str, Source] = {}
        self._addresses = self._workers()
        self.n_workers = len(self._addresses)

    def _workers(self) -> list[str]:
        """Addresses of the workers; an error where there are none for a while."""
        until = time.monotonic() + _PATIENCE
        while not (found := sorted(self.client.nthreads())):
            if time.monotonic() > until:
                raise DualViewError(
                    f"The Dask cluster has had no worker for {_PATIENCE:.0f} s. Start some, and "
                    "fit again."
                )
            time.sleep(1.0)
        return found

    def submit(self, worker: int, source: Source, tasks: Sequence[Task]) -> Pending:
        """Send tasks to a worker; to another one, where that has died and the scheduler may not
        know of it yet."""
        self._sources[source.key] = source
        until = time.monotonic() + _PATIENCE
        while True:
            address = self._addresses[worker % len(self._addresses)]
            try:
                sent = self.client.scatter([(source, tasks)], workers=[address], hash=False)[0]
            except (
                OSError,
                ValueError,
                KeyError,
            ) as error:  # nobody listens there, or it is no worker any more
                if time.monotonic() > until:
                    raise DualViewError(
                        f"No worker of the Dask cluster could be reached for {_PATIENCE:.0f} s."
                    ) from error
                time.sleep(1.0)
                self._addresses = self._workers()
            else:
                result = self.client.submit(
                    _run_on_dask, sent, workers=[address], allow_other_workers=True, pure=False
                )
                return Pending(worker, source, tasks, sent, result)

    def result(self, pending: Pending) -> list[Any]:
        """What was sent for; where the worker has died, another one is sent the same."""
        from distributed import CancelledError, KilledWorker  # type: ignore[attr-defined,unused-ignore]
        from distributed import TimeoutError as NotYet  # type: ignore[attr-defined,unused-ignore]

        n_deaths = 0
        while True:
            try:
                results, error = pending.result.result(timeout=_LOOK)
            except NotYet:
                if self._is_lost(pending):
                    n_deaths, pending = self._again(pending, n_deaths)
            except (CancelledError, KilledWorker, OSError):
                n_deaths, pending = self._again(pending, n_deaths)
            else:
                if error is not None:
                    raise error
                return list(results)

    def close(self) -> None:
        """Workers stay, and forget the shards."""
        for source in self._sources.values():
            with contextlib.suppress(Exception):  # the cluster may be gone
                self.client.run(work.forget, source)

    def _is_lost(self, pending: Pending) -> bool:
        """Whether nobody has what was sent."""
        return pending.result.status in ("lost", "cancelled", "error") or pending.sent.status in (
            "lost",
            "cancelled",
        )

    def _again(self, pending: Pending, n_deaths: int) -> tuple[int, Pending]:
        if n_deaths + 1 >= MOST_DEATHS:
            raise DualViewError(
                f"Workers of the Dask cluster died {MOST_DEATHS} times with the same shards, "
                "most likely for lack of memory. "
                "Give workers more memory, use a smaller Shards(cache=...), or smaller shards."
            )
        self._addresses = self._workers()
        return n_deaths + 1, self.submit(*pending[:3])


def _run_on_dask(sent: tuple[Source, Sequence[Task]]) -> tuple[list[Any] | None, Exception | None]:
    """On a worker: what its tasks return, or the error of one of them."""
    from distributed import get_worker

    worker: Any = get_worker()  # type: ignore[no-untyped-call,unused-ignore]
    parallel.limit(worker.state.nthreads)
    try:
        return work.run(*sent, 1, worker.memory_manager.memory_limit), None
    except Exception as error:
        return None, error
