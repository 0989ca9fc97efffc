"""Quantiles of mixtures of normal distributions: each case is a column of S components."""

import math

import numpy as np

from dualview.numerics.compiling import compiled, in_place, inlined
from dualview.numerics.normal import lower_tail_and_height

_PRECISION = 2e-13  # of quantiles, in units of themselves or of the smallest component
# A step of Halley's method this short leaves an error below that, if it is also a small part of the
# narrowest component: the error grows like the square of location over standard deviation.
_CUBIC, _OF_NARROWEST = 3e-6, 1e-3
_MOST_STEPS = 200
_FEW = 256  # components, drawn by their weights, that say where to begin


@inlined
def _level(y, components):
    """The distribution function of components (3, S), weights, locations and standard deviations,
    its slope, and the change of that."""
    level, slope, bend = 0.0, 0.0, 0.0
    for s in range(components.shape[1]):
        weight, away, sd = components[0, s], y - components[1, s], components[2, s]
        if sd > 0.0:
            z, rate = away / sd, weight / sd
            below, height = lower_tail_and_height(z)
            level += weight * below
            slope += rate * height
            bend -= rate * height * z / sd
        elif away >= 0.0:
            level += weight
    return level, slope, bend


@compiled
def _solve(probability, components, scale, narrowest, low, high, start):
    """t = asinh(y / scale) between two bounds where the distribution function has a value: Halley's
    method, and bisection where that leads astray. narrowest: the smallest standard deviation above
    0."""
    t = start
    for _ in range(_MOST_STEPS):
        y, unit = scale * math.sinh(t), scale * math.cosh(t)
        level, slope, bend = _level(y, components)
        excess = level - probability
        if excess < 0.0:
            low = t
        else:
            high = t
        first = slope * unit
        second = bend * unit * unit + slope * y
        step = -2.0 * excess * first / (2.0 * first * first - excess * second)
        after = t + step
        short = max(_PRECISION, min(_CUBIC, _OF_NARROWEST * narrowest / unit))
        if abs(step) < short and low <= after <= high:
            return after
        if not low < after < high or abs(step) > 0.5 * (high - low):
            after = 0.5 * (low + high)
        if high - low < _PRECISION or after == t:
            return after
        t = after
    return t


@in_place
def _put_few(components, few):
    """In place: some of the components (3, S), evenly by their weights, with equal ones."""
    share, total, k = components[0].sum() / few.shape[1], 0.0, 0
    for s in range(components.shape[1]):
        total += components[0, s]
        while k < few.shape[1] and (k + 0.5) * share < total:
            few[0, k], few[1, k], few[2, k] = share, components[1, s], components[2, s]
            k += 1
    for rest in range(k, few.shape[1]):  # by rounding
        few[0, rest], few[1, rest], few[2, rest] = share, components[1, -1], components[2, -1]


@compiled
def quantiles(probabilities, parts):
    """Quantiles (n, P) of n mixtures, parts (n, 3, S): weights that sum to one, locations and
    standard deviations, some of which may be 0.

    Components may be many orders of magnitude wider than others, and the scale is that of the
    smallest.
    """
    n_components = parts.shape[2]
    found, few = np.empty((parts.shape[0], probabilities.shape[0])), np.empty((3, _FEW))
    for i in range(parts.shape[0]):
        own, scale, low, high = parts[i], math.inf, math.inf, -math.inf
        narrowest = math.inf
        for s in range(n_components):
            narrowest = min(narrowest, own[2, s]) if own[2, s] > 0.0 else narrowest
            size = abs(own[1, s]) + own[2, s]
            scale = min(scale, size) if size > 0.0 else scale
            # practically no probability is outside
            low = min(low, own[1, s] - 40.0 * own[2, s])
            high = max(high, own[1, s] + 40.0 * own[2, s])
        scale = scale if scale < math.inf else 1.0
        # a single value at an end has the probability on one side of it only
        low, high = math.asinh(low / scale) - 1.0, math.asinh(high / scale) + 1.0
        if n_components > 2 * _FEW:
            _put_few(own, few)
        for p in range(probabilities.shape[0]):
            start = 0.5 * (low + high)
            if n_components > 2 * _FEW:
                start = _solve(probabilities[p], few, scale, narrowest, low, high, start)
            t = _solve(probabilities[p], own, scale, narrowest, low, high, start)
            found[i, p] = scale * math.sinh(t)
    return found
