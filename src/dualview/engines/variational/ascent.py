"""Coordinate ascent until the bound has converged, with extrapolation along the slow directions.

Coordinate ascent is slow where factors hold each other: the spread of clusters and the spread of
their users' coefficients, for one. After two steps the slow numbers are extrapolated (SQUAREM;
Varadhan and Roland 2008), and a step from there is taken where its bound is no lower than that of
the two steps. So the bound never falls.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dualview.engines.variational.mean_field import MeanField

_LONGEST = 200.0  # an extrapolation, in steps
_SLOW = 0.98  # of a gain that the next one is, at least
_ROUNDING = 1e-12  # of the bound
_PER_USER = 1e-6  # nats of the bound for each user that may be missing where it counts as converged

Watch = Callable[[MeanField, int], None]


class Ascent(NamedTuple):
    """Where an ascent has come to, in how many steps, and whether the bound has converged."""

    q: MeanField
    n_steps: int
    converged: bool


def ascend(q: MeanField, tolerance: float, max_steps: int, watch: Watch | None = None) -> Ascent:
    """Steps until the bound would grow by less than the tolerance, in nats, if they went on without
    end.

    The tolerance is a little larger for very many users.
    """
    tolerance += _PER_USER * q.model.n_users
    n_steps = 0
    while n_steps < max_steps:
        first = q.step()
        second = first.step()
        n_steps += 2
        if not np.isfinite(second.bound):
            raise np.linalg.LinAlgError("the bound is no number")
        little = max(tolerance, _ROUNDING * abs(second.bound))
        if second.bound - q.bound < little and _left(q, first, second) < little:
            return Ascent(second, n_steps, True)
        q = _extrapolated(q, first, second)
        n_steps += 1
        if watch is not None:
            watch(q, n_steps)
    return Ascent(q, n_steps, False)


def _left(q: MeanField, first: MeanField, second: MeanField) -> float:
    """What gains of the bound add up to after these two steps, if each is the same share of the one
    before, and not a small one.

    At first gains fall quickly, and those that remain in the end fall slowly.
    """
    before, last = first.bound - q.bound, second.bound - first.bound
    share = min(max(last / before, _SLOW), 1.0 - 1.0 / _LONGEST) if before > 0.0 else _SLOW
    return max(last, 0.0) * share / (1.0 - share)


def _extrapolated(q: MeanField, first: MeanField, second: MeanField) -> MeanField:
    """A step from where the slow numbers of three states in a row point to, or the last state where
    that is worse."""
    numbers = []
    for start, one, two in zip(q.numbers(), first.numbers(), second.numbers(), strict=True):
        change, bend = one - start, two - 2.0 * one + start
        sizes = float(np.linalg.norm(change)), float(np.linalg.norm(bend))
        length = min(max(sizes[0] / sizes[1], 1.0), _LONGEST) if sizes[1] > 0.0 else 1.0
        numbers.append(start + 2.0 * length * change + length * length * bend)
    try:
        tried = second.with_numbers(numbers).step()
    except np.linalg.LinAlgError:  # it went too far
        return second
    return tried if tried.bound >= second.bound else second
