"""The logistic function of a normal number, on average."""

import math

import numpy as np

from dualview.numerics.compiling import compiled

MOST_SD = 4.0  # with more the nodes would be many
_STEP = 0.5  # of the trapezoidal rule, in units of the narrower of the two curves
_REACH = 8.5
_FAR = -600.0  # log odds below which σ(x) is e^x to rounding, and odds may underflow on the way


@compiled
def expected_shares(locations, sds):
    """E σ(x) and E σ(−x) of x ~ N(location, sd²), sd < 4: (n,) each, right to rounding.

    By the trapezoidal rule, which is exact to rounding for functions that are analytic in a strip.
    """
    yes, no = np.empty(locations.shape[0]), np.empty(locations.shape[0])
    for i in range(locations.shape[0]):
        sd, low = sds[i], -abs(locations[i])
        step = _STEP / max(sd, 1.0)
        n_steps = int((_REACH + sd) / step) + 1 if sd > 0.0 else 0
        start = -n_steps * step
        odds, ratio = math.exp(low + sd * start), math.exp(sd * step)
        # the normal density at equal steps is a product of ratios, too
        weight, total = math.exp(-0.5 * start * start), 0.0
        growth, shrinking = math.exp(-step * (start + 0.5 * step)), math.exp(-step * step)
        below, above = 0.0, 0.0
        for _ in range(2 * n_steps + 1):
            share = weight / (1.0 + odds)
            total += weight
            below += share
            above += odds * share
            odds *= ratio
            weight *= growth
            growth *= shrinking
        below, above = below / total, above / total
        if low < _FAR:
            below, above = 1.0, math.exp(low + 0.5 * sd * sd)
        yes[i], no[i] = (above, below) if locations[i] <= 0.0 else (below, above)
    return yes, no
