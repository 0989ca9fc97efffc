"""The time that a fit may take, looked at between the updates of a step and between shards.

A step of very many users takes minutes, so that a look after each step would be too late. What a
step had done when the time is over is lost; the last whole q counts.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_UNTIL: ContextVar[float | None] = ContextVar("until", default=None)


class OutOfTimeError(Exception):
    """The time is over."""


@contextmanager
def ending_at(until: float | None) -> Iterator[None]:
    """Inside, :func:`check` raises from this time on, by ``time.monotonic``; None: never."""
    before = _UNTIL.set(until)
    try:
        yield
    finally:
        _UNTIL.reset(before)


def after(seconds: float | None) -> float | None:
    """The time in so many seconds, by ``time.monotonic``; None: never."""
    return None if seconds is None else time.monotonic() + seconds


def check() -> None:
    """Raise where the time is over."""
    until = _UNTIL.get()
    if until is not None and time.monotonic() >= until:
        raise OutOfTimeError
