"""Slice sampling of one number (Neal 2003): steps out from where it stands, then shrinks.

Leaves any density as it is, log-concave or not, from its value alone.
"""

import math

from dualview.kernels.compiling import uncached
from dualview.kernels.streams import random

_MOST_STEPS = 2000  # outwards to either side: more than any density with an integral needs in logarithms


def sampler(target):
    """Compile ``sample(rng, parameters, start, width)`` for one target.

    ``target(x, parameters)`` is a compiled function that returns the log density up to a constant; −inf and NaN are outside its
    support. width: about the spread of the density; any width is right. ``sample`` raises ValueError where the density is not
    finite at its start or does not fall.
    """

    @uncached
    def edge(parameters, point, step, height):
        """Outwards by steps until the density is below height."""
        for _ in range(_MOST_STEPS):
            if not target(point, parameters) > height:
                return point
            point += step
        raise ValueError("slice sampling: a tail does not fall; the density has no finite integral")

    @uncached
    def sample(rng, parameters, start, width):
        """The next value of a chain that leaves the target as it is."""
        height = target(start, parameters) + math.log1p(-random(rng))
        if not math.isfinite(height):
            raise ValueError("slice sampling: the density is not finite at its start")
        left = start - width * random(rng)
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
