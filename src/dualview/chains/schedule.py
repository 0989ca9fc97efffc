"""Schedules: how long chains run, when convergence is checked, and which states are kept.

A chain of fixed length keeps every thin-th state after its warm-up. A chain that grows keeps states
that lie ever further apart, so that their number stays below a limit: whenever there would be too
many, every second one is dropped. All of this follows from numbers of iterations alone, so that
neither the number of workers nor a kill in between changes anything.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.errors import InputError
from dualview.settings import Settings

_MOST_ITERATIONS = 10**9  # of a chain; that takes hours even for the smallest data
_MOST_CHAINS = 10_000
_MOST_TIMES = 100  # n_draws: how many draws a chain makes at most, by default
_MOST_WORK = 50_000_000  # users × iterations of a chain, by default; minutes
_LEAST_TIMES = 2  # n_draws, however many users there are
_LOOKS = 4  # while the length of a chain doubles
# chains wait for each other after 1/16 of n_draws, 4/16, ...: a time limit then does not find some
# without draws
_EARLY = 16

Ended = Literal["length", "converged", "max_draws", "max_time", "interrupted"]


class Round(NamedTuple):
    """All chains run up to an iteration, keeping states that lie stride iterations apart; then they
    may be looked at."""

    stop: int
    stride: int
    look: bool


class ConvergenceStatus(NamedTuple):
    """What the diagnostics say of all chains: whether they are good enough, the largest R̂ and the
    least effective size.

    times: how many times as long the chains would have to be, roughly. slowest: the quantity that
    they would have to be so long for, in words; nothing where they are good enough.
    """

    good: bool
    r_hat: float
    ess: float
    times: float
    slowest: str = ""


class Length(NamedTuple):
    """How long the chains of a fit were in the end: iterations, those of the warm-up among them,
    iterations for each draw that was kept, and why they ended."""

    n_iterations: int
    n_warmup: int
    stride: int
    ended: Ended


@dataclass(frozen=True)
class Schedule(ABC):
    """What all schedules have in common.

    n_warmup: iterations before the first state that can be kept. n_whole: None to keep n_draws
    states whole; else a summary of them with about n_whole of them whole.
    """

    n_warmup: int
    n_draws: int
    thin: int = 1
    n_whole: int | None = None

    @property
    def every(self) -> int | None:
        """Which of the draws are kept whole in a summary."""
        return None if self.n_whole is None else max(1, self.n_draws // self.n_whole)

    @property
    def spacing(self) -> "Spacing":
        """Where draws lie."""
        return Spacing(self.n_warmup, self.thin, self.every or 1)

    @property
    @abstractmethod
    def grows(self) -> bool:
        """Whether a look at the chains can end them."""

    @property
    @abstractmethod
    def n_iterations(self) -> int:
        """The most iterations that a chain can make."""

    @abstractmethod
    def rounds(self) -> Iterator[Round]:
        """The rounds of a fit that nothing ends before its time."""

    @abstractmethod
    def dropped(self, n: int, stride: int) -> int:
        """How many of the first n draws of a chain, stride iterations apart, are warm-up that was
        not known beforehand."""


class Spacing(NamedTuple):
    """Where the draws of a chain lie: at n_warmup + m × stride; one of every few is whole."""

    n_warmup: int
    thin: int
    every: int = 1

    def n_by(self, iteration: int, stride: int) -> int:
        """Draws that lie stride iterations apart, by an iteration."""
        return max(0, iteration - self.n_warmup) // stride

    def numbers(self, start: int, stop: int, stride: int) -> NDArray[np.int64]:
        """The numbers m of those after start, up to stop."""
        return np.arange(self.n_by(start, stride), self.n_by(stop, stride)) + 1

    def mask(self, iteration: int, n: int, stride: int) -> NDArray[np.bool_]:
        """Whether the states after each of the n iterations that follow this one are draws."""
        after = iteration - self.n_warmup + 1 + np.arange(n)
        return np.asarray((after > 0) & (after % stride == 0))


@dataclass(frozen=True)
class FixedLength(Schedule):
    """n_warmup iterations, then n_draws × thin. looks: how often chains are looked at on the way,
    for somebody who watches."""

    looks: int = 0
    grows = False

    @property
    def n_iterations(self) -> int:
        return self.n_warmup + self.n_draws * self.thin

    def rounds(self) -> Iterator[Round]:
        """One, or as many as there are looks."""
        for i in range(1, self.looks):
            yield Round(
                self.n_warmup + i * self.n_draws // self.looks * self.thin, self.thin, look=True
            )
        yield Round(self.n_iterations, self.thin, look=self.looks > 0)

    def dropped(self, n: int, stride: int) -> int:  # noqa: ARG002
        """None: the warm-up is known."""
        return 0


@dataclass(frozen=True)
class UntilGood(Schedule):
    """Chains that run until a look at them finds them good, or until they have made max_draws
    draws, thin iterations apart.

    They are looked at four times while their length doubles. chosen: the warm-up is not known
    beforehand (n_warmup is 0), and a chain keeps up to twice n_draws states, of which the last
    n_draws count: a fifth to a half of a chain is dropped, another share at each look. Otherwise
    all states after n_warmup count, n_draws of them or up to half as many.
    """

    max_draws: int = 0
    chosen: bool = True
    grows = True

    @property
    def n_iterations(self) -> int:
        return self.n_warmup + self.max_draws * self.thin

    @property
    def _room(self) -> int:
        """States that a chain keeps at most."""
        return 2 * self.n_draws if self.chosen else self.n_draws

    def _looks(self) -> Iterator[int]:
        """Draws that a chain has made when it is looked at, without end."""
        yield from self._sizes() if self.chosen else [self._room]
        for doublings in count(1):
            yield from (size << doublings for size in self._sizes())

    def _sizes(self) -> list[int]:
        return [-(-self._room * (_LOOKS + j) // (2 * _LOOKS)) for j in range(1, _LOOKS + 1)]

    def rounds(self) -> Iterator[Round]:
        """Some rounds without a look, then a look in each."""
        first = min(next(self._looks()), self.max_draws)
        stop = max(1, self.n_draws // _EARLY) * self.thin
        while stop < self.n_warmup + first * self.thin:
            yield Round(stop, self._stride(first), look=False)
            stop *= 4
        for n in self._looks():
            n = min(n, self.max_draws)
            yield Round(self.n_warmup + n * self.thin, self._stride(n), look=True)
            if n == self.max_draws:
                return

    def _stride(self, n: int) -> int:
        """Iterations between two states that are kept by a chain that makes n draws."""
        doublings = 0
        while n >> doublings > self._room:
            doublings += 1
        return self.thin << doublings

    def dropped(self, n: int, stride: int) -> int:
        """All but the last n_draws, and a fifth at least; half before the first look."""
        if not self.chosen:
            return 0
        if n * stride < next(self._looks()) * self.thin:
            return n // 2
        return max(n - self.n_draws, n // 5)


def schedule_of(settings: Settings, n_users: int, looks: int = 0) -> Schedule:
    """Chains of fixed length, looked at this many times on the way, or chains that run until they
    are good.

    The moments of a summary cannot be taken apart afterwards, so that its warm-up is known from the
    start: n_draws × thin by default.
    """
    n_draws, thin, n_warmup = settings.n_draws, settings.thin, settings.n_warmup
    n_whole = int(settings.n_whole) if settings.keep == "summary" else None
    if settings.is_fixed:
        return FixedLength(n_warmup or 0, n_draws, thin, n_whole, looks)
    limit = (
        most_draws(n_draws, thin, n_users)
        if settings.max_draws is None
        else int(settings.max_draws)
    )
    if n_warmup is None and n_whole is None:
        return UntilGood(0, n_draws, thin, max_draws=limit)
    return UntilGood(
        n_draws * thin if n_warmup is None else n_warmup,
        n_draws,
        thin,
        n_whole,
        limit,
        chosen=False,
    )


def most_draws(n_draws: int, thin: int, n_users: int) -> int:
    """Draws that a chain makes at most where nobody says: a hundred times those it keeps, fewer
    with more than 500 users."""
    return min(_MOST_TIMES * n_draws, max(_LEAST_TIMES * n_draws, _MOST_WORK // (n_users * thin)))


def check_length(
    n_warmup: int | None, n_draws: int, thin: int, n_chains: int, max_draws: int | None = None
) -> None:
    """Raise where a fit would never end."""
    made, name = (n_draws, "n_draws") if max_draws is None else (max_draws, "max_draws")
    warmup = 0 if n_warmup is None else int(n_warmup)
    n_iterations = warmup + int(made) * int(thin)
    if n_iterations > _MOST_ITERATIONS:
        raise InputError(
            f"n_warmup + {name} × thin must be at most {_MOST_ITERATIONS:,} iterations per "
            f"chain; got {warmup:,} + "
            f"{made:,} × {thin:,} = {n_iterations:,}. Draw fewer, or thin less."
        )
    if n_chains > _MOST_CHAINS:
        raise InputError(
            f"n_chains must be at most {_MOST_CHAINS:,}; got {n_chains:,}. Two to eight are usual."
        )
