"""Two means inside a component, and the plane between them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LLOYD = 10  # rounds


class Plane(NamedTuple):
    """A plane through a point (D,) with a normal (D,)."""

    point: Array
    normal: Array

    def is_above(self, x: Array) -> NDArray[np.bool_]:
        """Which of some vectors (U, D) are on the side that the normal points to."""
        return np.asarray((x - self.point) @ self.normal > 0.0)


def two_means(x: Array, weights: Array) -> Plane:
    """The plane between two centres of weighted vectors x (U, D), from a cut across their longest
    direction."""
    total = weights.sum()
    centre = weights @ x / total
    away = x - centre
    plane = Plane(centre, np.linalg.eigh((away * weights[:, None]).T @ away)[1][:, -1])
    for _ in range(_LLOYD):
        side = plane.is_above(x)
        first, second = weights * side, weights * ~side
        if min(first.sum(), second.sum()) <= 1e-6 * total:
            break
        ends = first @ x / first.sum(), second @ x / second.sum()
        plane = Plane(0.5 * (ends[0] + ends[1]), ends[0] - ends[1])
    return plane
