"""Workers: how many tasks are under way, processes that do not start, and clusters that are
gone."""

from collections.abc import Iterator
from typing import Any

import pytest

from dualview.engines.variational.sharded import workers
from dualview.engines.variational.sharded.worker import Source, Task
from dualview.engines.variational.sharded.workers import DaskCluster, LocalProcesses, Workers
from dualview.errors import DualViewError

SOURCE = Source("some fit", "some folder", None)


class Pretended(Workers):
    """Two workers who return what they are given, and write down how many tasks are under way."""

    n_workers = 2

    def __init__(self) -> None:
        super().__init__()
        self.under_way = self.most = 0

    def submit(self, source: Source, task: Task) -> Any:  # noqa: ARG002
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        return task.argument

    def result(self, pending: Any) -> Any:
        self.under_way -= 1
        return pending

    def close(self) -> None:
        pass


def function(*_: Any) -> None:
    """Named in tasks, never called."""


def test_results_are_in_order_and_tasks_are_made_when_somebody_can_do_them() -> None:
    team, made = Pretended(), []

    def tasks() -> Iterator[Task]:
        for number in range(11):
            made.append(number)
            yield Task(function, "users", number, number)

    results = team.run(SOURCE, tasks())
    assert next(results) == 0
    assert len(made) == 4
    assert list(results) == list(range(1, 11))
    assert team.most == 4


class Client:
    """A Dask client whose cluster loses its workers."""

    def __init__(self, n_workers: int, error: Exception) -> None:
        self.n_workers, self.error = n_workers, error

    def wait_for_workers(self, n_workers: int, timeout: float) -> None:  # noqa: ARG002
        if self.n_workers < n_workers:
            raise TimeoutError

    def nthreads(self) -> dict[str, int]:
        return {f"tcp://{i}": 1 for i in range(self.n_workers)}

    def submit(self, *_: Any, workers: list[str], **__: Any) -> "Client":
        assert workers == ["tcp://1"]
        return self

    status = "pending"

    def result(self, timeout: float) -> Any:  # noqa: ARG002
        self.n_workers = 0
        raise self.error


def test_a_cluster_without_workers_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_PATIENCE", 1.0)
    with pytest.raises(DualViewError, match=r"The Dask cluster has had no worker for 1 s\."):
        DaskCluster(Client(0, TimeoutError()))
    team = DaskCluster(Client(2, TimeoutError()))
    with pytest.raises(DualViewError, match=r"The Dask cluster has had no worker for 1 s\."):
        team.result(team.submit(SOURCE, Task(function, "users", 3)))


def test_a_shard_that_kills_the_workers_of_a_cluster_is_said_to_do_so() -> None:
    from distributed import KilledWorker

    team = DaskCluster(Client(2, KilledWorker("task", "tcp://1", 3)))
    with pytest.raises(DualViewError, match="died again and again with the same shard"):
        team.result(team.submit(SOURCE, Task(function, "users", 1)))


def test_processes_that_cannot_start_are_said_to_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MOST_DEATHS", 1)
    monkeypatch.setattr(workers, "_begin", fails)
    with LocalProcesses(1) as team, pytest.raises(DualViewError, match="before any had worked"):
        list(team.run(SOURCE, [Task(function, "users", 0)]))


def fails(n_threads: int) -> None:
    """What a process begins with, in the place of ``workers._begin``."""
    raise RuntimeError(f"{n_threads} threads")
