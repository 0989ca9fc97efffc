"""Slice sampling of one number (Neal 2003): steps out from where it stands, then shrinks.

Leaves any density as it is, log-concave or not, from its value alone.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from dualview.numerics.compiling import uncached
from dualview.numerics.streams import random

_MOST_STEPS = (
    2000  # outwards to either side: more than any density with an integral needs in logarithms
)


def sampler(target, reach=0):
    """Compile ``sample(rng, parameters, start, width)`` for one target.

    ``target(x, parameters)`` is a compiled function that returns the log density up to a constant;
    −inf and NaN are outside its support. width: about the spread of the density; any width is
    right. reach: widths that one step may span at most, split at random between the two sides; 0
    for no limit. From a start that is very unlikely a slice is very wide, and a limit keeps the
    step from landing far out in a tail. ``sample`` raises ValueError where the density is not
    finite at its start or, without a limit, does not fall.
    """

    in_place = partial(uncached, _nrt=False)

    @in_place
    def edge(parameters, point, step, height):
        """Outwards by steps until the density is below height."""
        for _ in range(_MOST_STEPS):
            if not target(point, parameters) > height:
                return point
            point += step
        raise ValueError("slice sampling: a tail does not fall; the density has no finite integral")

    @in_place
    def near_edge(parameters, point, step, height, n_steps):
        """The same by at most this many steps."""
        for _ in range(n_steps):
            if not target(point, parameters) > height:
                return point
            point += step
        return point

    @in_place
    def sample(rng, parameters, start, width):
        """The next value of a chain that leaves the target as it is."""
        height = target(start, parameters) + math.log1p(-random(rng))
        if not math.isfinite(height):
            raise ValueError("slice sampling: the density is not finite at its start")
        left = start - width * random(rng)
        if reach > 0:
            n_left = min(int(random(rng) * reach), reach - 1)
            right = near_edge(parameters, left + width, width, height, reach - 1 - n_left)
            left = near_edge(parameters, left, -width, height, n_left)
        else:
            right = edge(parameters, left + width, width, height)
            left = edge(parameters, left, -width, height)
        while True:
            point = left + (right - left) * random(rng)
            if target(point, parameters) >= height or not left < right:
                return point
            if point < start:
                left = point
            else:
                right = point

    return sample


def slice_sample(
    rng: np.random.Generator, log_density: Callable[[float], float], start: float, width: float
) -> float:
    """The next value of a chain that leaves a log density in NumPy code as it is; −inf is outside
    its support.

    width: about the spread of the density; any width is right.
    """
    height = log_density(start) + math.log1p(-rng.random())
    if not math.isfinite(height):
        raise ValueError("slice sampling: the density is not finite at its start")
    left = start - width * rng.random()
    right = left + width
    for step, outwards in ((-width, True), (width, False)):
        for _ in range(_MOST_STEPS):
            point = left if outwards else right
            if not log_density(point) > height:
                break
            left, right = (left + step, right) if outwards else (left, right + step)
        else:
            raise ValueError(
                "slice sampling: a tail does not fall; the density has no finite integral"
            )
    while True:
        point = left + (right - left) * rng.random()
        if log_density(point) >= height or not left < right:
            return point
        left, right = (point, right) if point < start else (left, point)
