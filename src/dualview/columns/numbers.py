"""How numbers were recorded, told from their values: rounded to a step, counted, shared by many."""

import numpy as np
from numpy.typing import NDArray

from dualview.columns.column import Scale

Array = NDArray[np.float64]

SKEWED = 1.0  # skewness above which counts are seen on the scale of log1p
MOST_DECIMALS = 8
_DOUBLE = float(np.finfo(float).eps)
_MOST_ERROR = 0.01  # of a step, in numbers that differ by multiples of it but for rounding
# of steps that are no decimal number: how many from lowest to highest, and rounding of that range
_MOST_STEPS, _ROUNDING = 1e5, 1e-9


def are_whole(values: Array) -> bool:
    """Whether all numbers are whole ones."""
    return bool(np.all(values == np.round(values)))


def count_scale(values: Array) -> Scale:
    """That on which counts are seen: log1p where they are skewed and less so on it."""
    if values.min() == values.max():
        return "identity"
    skewness = _skewness(values)
    return (
        "log1p" if skewness > SKEWED and abs(_skewness(np.log1p(values))) < skewness else "identity"
    )


def _skewness(values: Array) -> float:
    away = values - values.mean()
    return float(np.mean((away / np.sqrt(np.mean(away**2))) ** 3))


def lowest_count(values: Array) -> float:
    """The lowest count that is possible: 0, or 1 where it is the lowest; ages from 22 have no end
    at 22."""
    return 1.0 if values.min() == 1 else 0.0


def tied_share(values: Array) -> float:
    """The share of numbers (n,) that are there more than once."""
    counts = np.unique(values, return_counts=True)[1]
    return float(counts[counts > 1].sum() / len(values))


def common_step(values: Array, precision: float = _DOUBLE) -> float | None:
    """The largest step by multiples of which all numbers differ; None where none of eight decimals
    or fewer is found.

    Steps that are no decimal number, as in standardized columns, are found when two of the numbers
    are neighbors. ``precision`` is the relative one in which the numbers were stored.
    """
    distinct = np.unique(values)
    largest = float(np.abs(distinct).max())
    for decimals in range(MOST_DECIMALS + 1):
        units = distinct * 10.0**decimals
        error = 4.0 * precision * largest * 10.0**decimals
        if error > _MOST_ERROR:
            break
        whole = np.round(units)
        if np.abs(units - whole).max() <= error:
            return float(np.gcd.reduce((whole - whole[0]).astype(np.int64)) / 10.0**decimals)
    return _smallest_gap(distinct)


def _smallest_gap(distinct: Array) -> float | None:
    """The smallest gap between sorted numbers, but for rounding, where all gaps are multiples of
    it."""
    away = distinct - distinct[0]
    gaps = np.diff(distinct)
    gap = float(gaps[gaps > _ROUNDING * away[-1]].min())
    gap = float(away[-1] / np.round(away[-1] / gap))
    multiples = away / gap
    is_step = np.abs(multiples - np.round(multiples)).max() < _MOST_ERROR
    return gap if is_step and multiples[-1] < _MOST_STEPS else None
