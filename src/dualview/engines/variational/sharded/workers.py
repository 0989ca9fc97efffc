"""Who does the work: this process, local processes, or the workers of a Dask cluster, where shards
stay on the worker that has read them; parameters go out, and sums come back.

Results come in the order of tasks, whoever finishes first. A worker that dies is replaced, and its
tasks are done again: it has nothing that cannot be made again from the folder and the tasks
themselves.
"""

import contextlib
import os
import pickle
import signal
import threading
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import Any, NamedTuple, Self

from threadpoolctl import threadpool_limits

from dualview.engines.variational.sharded import worker
from dualview.engines.variational.sharded.worker import Source, Task
from dualview.errors import DualViewError
from dualview.numerics import parallel

MOST_DEATHS = 3  # of workers with the same task
_AHEAD = 2  # tasks for each worker that are under way
_PATIENCE = 60.0  # seconds without any worker of a cluster


class Workers(ABC):
    """Who works on shards. A context: leaving it ends the processes that it started."""

    n_workers = 1

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}

    def run(self, source: Source, tasks: Iterable[Task]) -> Iterator[Any]:
        """What tasks return, in their order. Tasks are made when there is somebody to do them, and
        a shard goes to the same worker every time."""
        self._sources[source.key] = source
        pending = deque[Any]()
        for task in tasks:
            pending.append(self.submit(source, task))
            if len(pending) >= _AHEAD * self.n_workers:
                yield self.result(pending.popleft())
        while pending:
            yield self.result(pending.popleft())

    @abstractmethod
    def submit(self, source: Source, task: Task) -> Any:
        """Give a task to a worker."""

    @abstractmethod
    def result(self, pending: Any) -> Any:
        """Wait for what it returns."""

    @abstractmethod
    def close(self) -> None:
        """End the processes that were started, or let go of what others keep of the shards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ThisProcess(Workers):
    """This process, one shard after the other."""

    def submit(self, source: Source, task: Task) -> Any:
        return worker.run(source, task)

    def result(self, pending: Any) -> Any:
        return pending

    def close(self) -> None:
        for source in self._sources.values():
            worker.forget(source)


class Pending(NamedTuple):
    """A task under way in a local process, by the executor that was asked."""

    source: Source
    task: Task
    executor: ProcessPoolExecutor
    future: "Future[Any]"


class LocalProcesses(Workers):
    """Processes on this machine that share its cores, or have a given number of threads each.

    Each is an executor of its own, so that it keeps its shards, and so that the others go on when
    it dies.
    """

    def __init__(self, n_workers: int, n_threads: int | None = None) -> None:
        super().__init__()
        self.n_workers = n_workers
        self._n_threads = n_threads or max(1, parallel.n_cores() // n_workers)
        self._executors = [self._started() for _ in range(n_workers)]
        self._have_worked = False

    def _started(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, get_context("spawn"), _begin, (self._n_threads,))

    def submit(self, source: Source, task: Task) -> Pending:
        executor = self._executors[task.number % self.n_workers]
        try:
            future = executor.submit(worker.run, source, task, self.n_workers)
        except BrokenProcessPool:
            self._replace(executor)
            return self.submit(source, task)
        return Pending(source, task, executor, future)

    def result(self, pending: Pending) -> Any:
        """What a task returns; where the process dies, another does it."""
        for n_deaths in range(MOST_DEATHS):
            if n_deaths > 0:
                pending = self.submit(pending.source, pending.task)
            try:
                found = pending.future.result()
            except BrokenProcessPool:
                self._replace(pending.executor)
            else:
                self._have_worked = True
                return found
        task = pending.task
        advice = (
            "most likely for lack of memory. Use fewer workers (n_jobs), a smaller "
            "Shards(cache=...), or smaller shards."
            if self._have_worked
            else 'before any had worked. A script must call fit under if __name__ == "__main__": '
            "its processes import it. Without that, use n_jobs=1."
        )
        raise DualViewError(
            f"A worker process died {MOST_DEATHS} times with the same shard "
            f"({task.function.__name__}, {task.number}), {advice}"
        )

    def _replace(self, broken: ProcessPoolExecutor) -> None:
        """Start a process in the place of one that has died, unless that was done before."""
        broken.shutdown()
        self._executors = [
            self._started() if executor is broken else executor for executor in self._executors
        ]

    def close(self) -> None:
        for executor in self._executors:
            executor.shutdown(cancel_futures=True)


def _begin(n_threads: int) -> None:
    """Prepare a local process: it uses n_threads cores at most, ends when the process that started
    it ends, and leaves Ctrl-C to that process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parallel.limit(n_threads)
    threadpool_limits(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class DaskCluster(Workers):
    """The workers of a ``distributed.Client``. Dask itself does a task again where its worker
    dies."""

    def __init__(self, client: Any) -> None:
        super().__init__()
        from distributed import TimeoutError as NotYet  # type: ignore[attr-defined,unused-ignore]

        self.client = client
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except NotYet:
            self._check_workers()
        self._addresses = sorted(client.nthreads())
        self.n_workers = len(self._addresses)

    def submit(self, source: Source, task: Task) -> Any:
        address = self._addresses[task.number % self.n_workers]
        packed = pickle.dumps((source, task), protocol=pickle.HIGHEST_PROTOCOL)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # vectors of a shard's users
            return self.client.submit(
                _run_on_dask, packed, workers=[address], allow_other_workers=True, pure=False
            )

    def result(self, pending: Any) -> Any:
        from distributed import KilledWorker  # type: ignore[attr-defined,unused-ignore]
        from distributed import TimeoutError as NotYet  # type: ignore[attr-defined,unused-ignore]

        while True:
            try:
                return pending.result(timeout=_PATIENCE)
            except NotYet:
                if pending.status == "error":  # the task's own
                    raise
                self._check_workers()
            except KilledWorker as error:
                raise DualViewError(
                    "Workers of the Dask cluster died again and again with the same shard, most "
                    "likely for lack of memory. Give workers more memory, use a smaller "
                    "Shards(cache=...), or smaller shards."
                ) from error

    def _check_workers(self) -> None:
        if not self.client.nthreads():
            raise DualViewError(
                f"The Dask cluster has had no worker for {_PATIENCE:.0f} s. Start some, and fit "
                "again."
            )

    def close(self) -> None:
        """Workers stay, and forget the shards."""
        for source in self._sources.values():
            with contextlib.suppress(Exception):  # the cluster may be gone
                self.client.run(worker.forget, source)


def _run_on_dask(packed: bytes) -> Any:
    """On a worker: what a task returns. It comes as bytes, for Dask would look for tasks of its own
    in it."""
    from distributed import get_worker

    source, task = pickle.loads(packed)
    own: Any = get_worker()  # type: ignore[no-untyped-call,unused-ignore]
    parallel.limit(own.state.nthreads)
    return worker.run(source, task, 1, own.memory_manager.memory_limit)
