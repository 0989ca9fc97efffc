"""The workers of a Dask cluster. Shards stay on the worker that has read them; parameters go out,
and sums come back."""

import contextlib
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from dualview.engines.variational.sharded import work
from dualview.engines.variational.sharded.crews import MOST_DEATHS, Team
from dualview.engines.variational.sharded.keeper import Source
from dualview.engines.variational.sharded.work import Task
from dualview.errors import DualViewError
from dualview.numerics import parallel

_PATIENCE = 60.0  # seconds without any worker
_LOOK = 5.0  # seconds between two looks at the workers


class Parcel(NamedTuple):
    """What a worker is sent."""

    source: Source
    tasks: Sequence[Task]


class Pending(NamedTuple):
    """A parcel on its way: to which worker, as which futures."""

    worker: int
    parcel: Parcel
    sent: Any
    result: Any


class DaskCrew(Team):
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
        parcel, until = Parcel(source, tasks), time.monotonic() + _PATIENCE
        while True:
            address = self._addresses[worker % len(self._addresses)]
            try:
                sent = self.client.scatter([parcel], workers=[address], hash=False)[0]
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
                    _run, sent, workers=[address], allow_other_workers=True, pure=False
                )
                return Pending(worker, parcel, sent, result)

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
        return n_deaths + 1, self.submit(
            pending.worker, pending.parcel.source, pending.parcel.tasks
        )


def _run(parcel: Parcel) -> tuple[list[Any] | None, Exception | None]:
    """On a worker: what its tasks return, or the error of one of them."""
    from distributed import get_worker

    worker: Any = get_worker()  # type: ignore[no-untyped-call,unused-ignore]
    parallel.limit(worker.state.nthreads)
    try:
        return work.run(parcel.source, parcel.tasks, 1, worker.memory_manager.memory_limit), None
    except Exception as error:
        return None, error
