"""Threads for the parts of a sweep that allow it. Their number never changes a result: work is cut into fixed pieces."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

_limits: list[int] = []


def limit(n_threads: int) -> None:
    """Let this process use so many cores at most, for one of several on a machine."""
    _limits[:] = [n_threads]


def n_cores() -> int:
    """Cores this process may use."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([there, *_limits])


@cache
def _pool(process: int, n_workers: int) -> ThreadPoolExecutor:  # noqa: ARG001
    """One pool for each process: a forked one cannot use its parent's threads."""
    return ThreadPoolExecutor(n_workers, thread_name_prefix="dualview")


def apply(function: Callable[..., Any], pieces: Iterable[Any]) -> Iterator[Any]:
    """As ``map``, on all cores."""
    n_workers = n_cores()
    return map(function, pieces) if n_workers == 1 else _pool(os.getpid(), n_workers).map(function, pieces)
