"""One line on the terminal for all chains: done, clusters now, speed, time left."""

import math
import sys
import time
from threading import Lock
from types import TracebackType
from typing import Self, TextIO

import numpy as np


class Bar:
    """Call it with (chain, iteration, clusters now); it writes at most ten times a second, to standard error by default.

    Time counts from the first call: before it a first fit compiles.
    """

    def __init__(self, n_chains: int, n_iterations: int, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._iterations = np.zeros(n_chains, dtype=np.int64)
        self._first = np.full(n_chains, -1, dtype=np.int64)  # where each chain was at its first call
        self._clusters = np.zeros(n_chains, dtype=np.int64)
        self._total = n_chains * n_iterations
        self._began, self._written = math.inf, time.monotonic()
        self._width = 0
        self._lock = Lock()

    def __enter__(self) -> Self:
        self._write("; the first fit on a machine compiles for a minute", "\r")
        return self

    def __call__(self, chain: int, iteration: int, n_clusters: int) -> None:
        self._iterations[chain], self._clusters[chain] = iteration, n_clusters
        now = time.monotonic()
        if self._first[chain] < 0:
            self._first[chain] = iteration
        self._began = min(self._began, now)
        if now - self._written > 0.1 and self._lock.acquire(blocking=False):
            self._written = now
            self._write(self._pace(now), "\r")
            self._lock.release()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._write(self._pace(time.monotonic()), "\n")

    def _pace(self, now: float) -> str:
        """Speed and time left, where something tells them, and clusters."""
        done = int(self._iterations.sum())
        new, seconds = done - int(self._first.clip(0).sum()), now - self._began
        words = ""
        if new > 0 and seconds > 0.0:
            words = f", {new / seconds:.0f}/s, {(self._total - done) * seconds / new:.0f} s left"
        running = self._clusters[self._iterations > 0]
        return f"{words}, clusters {', '.join(str(k) for k in running[:8]) or '–'}"

    def _write(self, words: str, end: str) -> None:
        done = int(self._iterations.sum())
        filled = 20 * done // max(self._total, 1)
        line = f"{'█' * filled}{'░' * (20 - filled)} {done}/{self._total} iterations{words}"
        self._stream.write(f"\r{line:<{self._width}}{end}")
        self._stream.flush()
        self._width = len(line)
