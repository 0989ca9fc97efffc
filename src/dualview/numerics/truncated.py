"""Draws from a normal distribution restricted to an interval, by rejection from whichever proposal
accepts often (Robert 1995).

Nothing is evaluated that could lose its digits far out in a tail, and every proposal is accepted
with a probability that is bounded away from 0, whatever the interval.
"""

import math

import numpy as np

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.streams import random, standard_normal

_SQRT_2PI = math.sqrt(2.0 * math.pi)


@in_place
def _uniform(rng, low, high, peak):
    """Uniform proposals for an interval on which the density varies little; peak: the point of
    highest density."""
    while True:
        point = low + (high - low) * random(rng)
        if random(rng) < math.exp(0.5 * (peak - point) * (peak + point)):
            return point


@in_place
def _tail(rng, low, high):
    """An interval on the positive side: exponential proposals, or uniform ones where it is
    short."""
    root = math.sqrt(low * low + 4.0)
    rate = 0.5 * (low + root)
    if high - low < math.exp(0.25 * (low * low - low * root) + 0.5) / rate:
        return _uniform(rng, low, high, low)
    while True:
        point = low - math.log(1.0 - random(rng)) / rate
        if point <= high and random(rng) < math.exp(-0.5 * (point - rate) * (point - rate)):
            return point


@in_place
def _standard(rng, low, high):
    """The standard normal distribution on (low, high)."""
    if low > 0.0:
        return _tail(rng, low, high)
    if high < 0.0:
        return -_tail(rng, -high, -low)
    if high - low < _SQRT_2PI:
        return _uniform(rng, low, high, 0.0)
    while True:
        point = standard_normal(rng)
        if low <= point <= high:
            return point


@in_place
def truncated_normal(rng, mean, sd, low, high):
    """One draw from N(mean, sd²) on [low, high], which may be infinite on either side."""
    point = mean + sd * _standard(rng, (low - mean) / sd, (high - mean) / sd)
    return min(max(point, low), high)  # against round-off


@compiled
def draw_between(rng, low, high, sds):
    """Numbers from N(0, sd²) between the ends (n,); the ends themselves where they are equal."""
    result = np.empty(low.shape[0])
    for i in range(low.shape[0]):
        result[i] = (
            low[i] if low[i] == high[i] else truncated_normal(rng, 0.0, sds[i], low[i], high[i])
        )
    return result
