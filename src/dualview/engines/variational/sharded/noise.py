"""Random numbers that belong to positions among all users or threads, however these are cut into
shards."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Kind = Literal["users", "threads", "signs"]

_BLOCK = 65_536  # positions whose numbers are drawn together
_NUMBERS: dict[Kind, int] = {"users": 0, "threads": 1, "signs": 2}


def normal(kind: Kind, column: int, first: int, stop: int, seed: int = 0) -> Array:
    """Standard normal numbers of the positions from first to stop, (stop − first,)."""
    return _numbers(kind, column, first, stop, seed, lambda rng: rng.standard_normal(_BLOCK))


def signs(column: int, first: int, stop: int) -> Array:
    """Numbers −1 and 1 of the positions from first to stop, (stop − first,)."""
    return _numbers(
        "signs", column, first, stop, 0, lambda rng: rng.integers(0, 2, _BLOCK) * 2.0 - 1.0
    )


def _numbers(kind: Kind, column: int, first: int, stop: int, seed: int, draw) -> Array:  # type: ignore[no-untyped-def]
    found = np.empty(stop - first)
    for block in range(first // _BLOCK, -(-stop // _BLOCK)):
        begin = block * _BLOCK
        own = slice(max(first, begin), min(stop, begin + _BLOCK))
        drawn = draw(np.random.default_rng([seed, _NUMBERS[kind], column, block]))
        found[own.start - first : own.stop - first] = drawn[own.start - begin : own.stop - begin]
    return found


def normals(kind: Kind, columns: slice, first: int, stop: int, seed: int = 0) -> Array:
    """The same for several columns, (stop − first, M)."""
    return np.stack(
        [normal(kind, column, first, stop, seed) for column in range(columns.start, columns.stop)],
        axis=1,
    )
