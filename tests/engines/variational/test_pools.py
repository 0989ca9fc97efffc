"""Teams of workers: how much they are given in one go, and workers that are gone."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dualview.engines.variational.sharded import pools
from dualview.engines.variational.sharded.loaded import Source
from dualview.engines.variational.sharded.pools import DaskPool, Team, n_bytes
from dualview.engines.variational.sharded.work import Task
from dualview.errors import DualViewError

SOURCE = Source("some fit", "some folder", None)


class Pretended(Team):
    """Two workers who return what they are given, and write down how many tasks they are sent."""

    n_workers, at_once = 2, 8

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[int] = []

    def submit(self, worker: int, source: Source, tasks: Sequence[Task]) -> list[Any]:  # noqa: ARG002
        self.sent.append(len(tasks))
        return [task.argument for task in tasks]

    def result(self, pending: list[Any]) -> list[Any]:
        return pending


def function(*_: Any) -> None:
    """Named in tasks, never called."""


@pytest.mark.parametrize(("size", "most"), [(8, 8), (1_000_000, 1), (200_000, 5)])
def test_a_worker_is_given_as_much_as_there_is_room_for(size: int, most: int) -> None:
    team = Pretended()
    for _ in range(2):  # how large tasks are is known from the first time on
        team.sent.clear()
        tasks = [Task(function, number, np.full(size, float(number))) for number in range(40)]
        results = list(team.run(SOURCE, tasks))
        assert [result[0] for result in results] == list(range(40))
    assert max(team.sent) == most
    assert 2 * size * 8 * most <= pools._IN_ONE_GO or most == 1


@dataclass
class Parcel:
    """What a task may get."""

    content: np.ndarray


def test_sizes_of_arguments() -> None:
    assert n_bytes((np.zeros(3), [np.zeros(2), "text"], 5)) == 40
    assert n_bytes({"own": Parcel(np.zeros(4)), "other": np.zeros(1)}) == 40
    assert n_bytes(Parcel) == 0


class Forgetful:
    """A Dask client whose first worker is gone when it is sent something."""

    def __init__(self, always: bool) -> None:
        self.always, self.asked = always, 0

    def nthreads(self) -> dict[str, int]:
        self.asked += 1
        return {"tcp://gone": 1} if self.always or self.asked == 1 else {"tcp://here": 1}

    def scatter(self, parcels: list[Any], workers: list[str], hash: bool) -> list[Any]:  # noqa: ARG002
        if workers == ["tcp://gone"]:
            raise KeyError("tcp://gone")
        return parcels

    def submit(self, *_: Any, workers: list[str], **__: Any) -> Any:
        return SimpleNamespace(workers=workers)


def test_a_worker_that_the_scheduler_has_forgotten_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pools.time, "sleep", lambda _: None)
    pending = DaskPool(Forgetful(always=False)).submit(0, SOURCE, [])
    assert pending.result.workers == ["tcp://here"]


def test_a_cluster_without_workers_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools.time, "sleep", lambda _: None)
    monkeypatch.setattr(pools, "_PATIENCE", 0.01)
    pool = DaskPool(Forgetful(always=True))
    with pytest.raises(
        DualViewError, match=r"No worker of the Dask cluster could be reached for .* s\."
    ):
        pool.submit(0, SOURCE, [])
