"""Threads for the parts of a sweep that allow it. Their number never changes a result: work is cut
into fixed pieces."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

_limits: list[int] = []

# Control groups of Linux. The first file is of version 2, the others are of version 1.
_GROUPS, _CONTROLS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_CPU_CONTROLLERS = "cpu", "cpu,cpuacct", "cpuacct,cpu"
_QUOTA_FILES = "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"


def limit(n_threads: int) -> None:
    """Let this process use so many cores at most, for one of several on a machine."""
    _limits[:] = [n_threads]


def n_cores() -> int:
    """Cores this process may use: those it may run on, no more than a quota allows, as those of
    containers do."""
    there = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return min([there, *_limits, *_quotas()])


@cache
def _quotas() -> tuple[int, ...]:
    """Whole cores by each quota on this process: on its control group, and on those that hold this
    one."""
    groups = [line.split(":", 2)[1:] for line in _lines(_GROUPS)]
    found = []
    for controllers, group in groups:
        if controllers in ("", *_CPU_CONTROLLERS):
            root = _CONTROLS / controllers
            folder = root / group.lstrip("/")
            for place in (folder, *folder.parents[: len(folder.parts) - len(root.parts)]):
                words = [
                    word
                    for name in _QUOTA_FILES
                    for line in _lines(place / name)
                    for word in line.split()
                ]
                if len(words) == 2 and words[0].isdigit():  # without a quota "max" or -1
                    found.append(max(1, int(words[0]) // int(words[1])))
    return tuple(found)


def _lines(file: Path) -> list[str]:
    """The lines of a file; none where it cannot be read."""
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


@cache
def _pool(process: int, n_workers: int) -> ThreadPoolExecutor:  # noqa: ARG001
    """One pool for each process: a forked one cannot use its parent's threads."""
    return ThreadPoolExecutor(n_workers, thread_name_prefix="dualview")


def apply(function: Callable[..., Any], pieces: Iterable[Any]) -> Iterator[Any]:
    """As ``map``, on all cores."""
    n_workers = n_cores()
    return (
        map(function, pieces)
        if n_workers == 1
        else _pool(os.getpid(), n_workers).map(function, pieces)
    )
