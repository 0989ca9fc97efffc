"""Slice sampling of one number (Neal 2003) for log densities that are NumPy code;
``slice_sampling`` has the compiled one."""

import math
from collections.abc import Callable

import numpy as np

_MOST_STEPS = 2000


def slice_sample(
    rng: np.random.Generator, log_density: Callable[[float], float], start: float, width: float
) -> float:
    """The next value of a chain that leaves the density as it is; −inf is outside its support.

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
