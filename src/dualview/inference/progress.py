"""One line on the terminal for all chains: done, clusters now, speed, time left."""

import sys
import time
from threading import Lock
from types import TracebackType
from typing import Self, TextIO

import numpy as np


class Bar:
    """Call it with (chain, iteration, clusters now); it writes at most ten times a second, to standard error by default."""

    def __init__(self, n_chains: int, n_iterations: int, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._iterations = np.zeros(n_chains, dtype=np.int64)
        self._first = np.full(n_chains, -1, dtype=np.int64)  # where each chain was taken up
        self._clusters = np.zeros(n_chains, dtype=np.int64)
        self._total = n_chains * n_iterations
        self._began = self._written = time.monotonic()
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __call__(self, chain: int, iteration: int, n_clusters: int) -> None:
        self._iterations[chain], self._clusters[chain] = iteration, n_clusters
        if self._first[chain] < 0:
            self._first[chain] = iteration - 1
        now = time.monotonic()
        if now - self._written > 0.1 and self._lock.acquire(blocking=False):
            self._written = now
            self._write(now, "\r")
            self._lock.release()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._write(time.monotonic(), "\n")

    def _write(self, now: float, end: str) -> None:
        done = int(self._iterations.sum())
        speed = (done - int(self._first.clip(0).sum())) / max(now - self._began, 1e-9)
        left = (self._total - done) / max(speed, 1e-9)
        filled = 20 * done // max(self._total, 1)
        running = self._clusters[self._iterations > 0]
        clusters = ", ".join(str(k) for k in running[:8]) or "–"
        self._stream.write(
            f"\r{'█' * filled}{'░' * (20 - filled)} {done}/{self._total} iterations, {speed:.0f}/s, "
            f"{left:.0f} s left, clusters {clusters}   {end}"
        )
        self._stream.flush()
