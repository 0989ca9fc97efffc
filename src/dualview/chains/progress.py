"""Progress display: one line for all chains on a terminal or in a notebook, or one line per
convergence check in a log."""

import math
import shutil
import sys
import time
from abc import ABC, abstractmethod
from threading import Lock
from typing import Self, TextIO

import numpy as np

from dualview.chains.schedule import ConvergenceStatus, Length, Schedule

_CELLS = 10


class Watcher(ABC):
    """Interface of progress displays: called after every few iterations of a chain, and after each
    check of all of them."""

    @abstractmethod
    def __call__(self, chain: int, iteration: int, n_clusters: int) -> None:
        """Called by a chain: the iterations it has made, and the clusters it has now."""

    @abstractmethod
    def looked(self, look: ConvergenceStatus, length: Length) -> None:
        """All chains were looked at."""

    def failed(self, chain: int) -> None:  # noqa: B027
        """Take notice of a chain that has failed; the others continue without it."""


def slowest_text(look: ConvergenceStatus | None) -> str:
    """What the chains have to run for, if they have to."""
    return "" if look is None or not look.slowest else f", slowest: {look.slowest}"


def look_text(look: ConvergenceStatus | None) -> str:
    """Largest R̂ and least effective size in words; nothing before the first look."""
    if look is None or math.isnan(look.r_hat):
        return ""
    r_hat = (
        "above 100"
        if look.r_hat > 100
        else f"{look.r_hat:.3f}"
        if look.r_hat < 1.1
        else f"{look.r_hat:.2f}"
    )
    return f"R-hat {r_hat}, {look.ess:.0f} effective draws, "


class Bar(Watcher):
    """One line that is written over and over, at most ten times a second, to standard error by
    default.

    It has an estimate of the seconds to go and those so far, iterations, the largest R̂ and the
    least effective size at the last look, clusters of each chain now, and the quantity that the
    chains have to run for. Time counts from the first call:
    before it a first fit compiles.
    """

    def __init__(
        self,
        n_chains: int,
        schedule: Schedule,
        max_time: float | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._schedule, self._max_time = schedule, math.inf if max_time is None else max_time
        self._iterations = np.zeros(n_chains, dtype=np.int64)
        self._first = np.full(
            n_chains, -1, dtype=np.int64
        )  # where each chain was at its first call
        self._clusters = np.zeros(n_chains, dtype=np.int64)
        self._runs = np.ones(n_chains, dtype=bool)  # not those that have failed
        self._look: ConvergenceStatus | None = None
        self._wanted = math.inf  # iterations of a chain, by the last look
        self._began, self._written = math.inf, time.monotonic()
        self._width = 0
        self._lock = Lock()

    def __enter__(self) -> Self:
        self._write(
            f"{self._count()}; the first fit on a machine compiles for half a minute", 0.0, "\r"
        )
        return self

    def __call__(self, chain: int, iteration: int, n_clusters: int) -> None:
        self._iterations[chain], self._clusters[chain] = iteration, n_clusters
        now = time.monotonic()
        if self._first[chain] < 0:
            self._first[chain] = iteration
        self._began = min(self._began, now)
        if now - self._written > 0.1 and self._lock.acquire(blocking=False):
            self._written = now
            self._show(now, "\r")
            self._lock.release()

    def looked(self, look: ConvergenceStatus, length: Length) -> None:
        """Keep what the look has found, and how long the chains will have to be if it continues
        like this."""
        self._look, self._wanted = look, look.times * length.n_iterations
        self._show(time.monotonic(), "\r")

    def failed(self, chain: int) -> None:
        """Count and wait for the others alone."""
        self._runs[chain] = False

    def __exit__(self, *_: object) -> None:
        self._show(time.monotonic(), "\n")

    def _show(self, now: float, end: str) -> None:
        seconds = max(0.0, now - self._began)
        left, words = self._left(seconds)
        running = self._clusters[self._runs & (self._iterations > 0)]
        clusters = ", ".join(str(k) for k in running[:8]) or "–"
        took = f"{words}{seconds:.0f} s, " if math.isfinite(self._began) else ""
        done = seconds / (seconds + left) if seconds + left > 0 and math.isfinite(left) else 0.0
        now_there = f"clusters {clusters}{slowest_text(self._look)}"
        self._write(f"{took}{self._count()}, {look_text(self._look)}{now_there}", done, end)

    def _count(self) -> str:
        """How far the chain is that has made the least, and where it ends, if that is known."""
        total = "" if self._schedule.grows else f" of {self._schedule.n_iterations:,}"
        return f"{int(self._iterations[self._runs].min()):,}{total} iterations"

    def _left(self, seconds: float) -> tuple[float, str]:
        """Seconds to go as far as can be told, and in words."""
        done = int(self._iterations[self._runs].sum())
        new = done - int(self._first[self._runs].clip(0).sum())
        if new <= 0 or seconds <= 0.0:
            return math.inf, ""
        limit = self._schedule.n_iterations
        wanted = min(self._wanted if self._schedule.grows else limit, limit)
        at_most = self._schedule.grows and self._wanted >= limit
        left = max(0.0, (wanted * int(self._runs.sum()) - done) * seconds / new)
        if self._max_time - seconds < left:
            left, at_most = max(0.0, self._max_time - seconds), True
        return left, f"{'at most' if at_most else 'about'} {left:.0f} s to go after "

    def _write(self, words: str, done: float, end: str) -> None:
        filled = int(_CELLS * done)
        line = f"{'█' * filled}{'░' * (_CELLS - filled)} {words}"
        if self._stream.isatty():  # a line that is broken in two cannot be written over
            line = line[: shutil.get_terminal_size().columns - 1]
        self._stream.write(f"\r{line:<{self._width}}{end}")
        self._stream.flush()
        self._width = len(line)


class Lines(Watcher):
    """A line after each look, for a log."""

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        self._name, self._stream = name, sys.stderr if stream is None else stream

    def __call__(self, chain: int, iteration: int, n_clusters: int) -> None:
        """Nothing: logs are read later."""

    def looked(self, look: ConvergenceStatus, length: Length) -> None:
        text = f"{self._name}: {length.n_iterations:,} iterations, {look_text(look)}"
        print(text.removesuffix(", ") + slowest_text(look), file=self._stream, flush=True)
