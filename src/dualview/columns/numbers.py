"""How numbers were recorded, told from their values: rounded to a step, counted, shared by many."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.stats import chi2

from dualview.columns.column import Scale

Array = NDArray[np.float64]

SKEWED = 1.0  # skewness above which counts are seen on the scale of log1p
MOST_DECIMALS = 8
_MOST_CODES, _LEAST_EACH = 30, 5  # numbers that codes can have, users of each on average
_AGAINST, _MOVED = 1e-3, 0.06  # p-value, and share of users, beyond which numbers look like codes
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


def look_like_codes(values: Array) -> bool:
    """Whether whole numbers (n,) look like names that were numbered, as fields of study from 1 to
    18 are: how many users have each goes up and down by turns.

    Amounts have one peak, about. Few different numbers, from the lowest to the highest, are held
    against the best frequencies that rise to a peak and fall from there: the likelihood ratio must
    be large, and so must the share of users who would have to have another number.
    """
    low, high = int(values.min()), int(values.max())
    size = high - low + 1
    if not 4 <= size <= _MOST_CODES or len(values) < _LEAST_EACH * size:
        return False
    counts = np.bincount((values - low).astype(np.int64), minlength=size).astype(float)
    fits = [_with_peak(counts, place) for place in range(size)]
    ratio = min(_deviance(counts, fit) for fit in fits)
    moved = min(float(np.abs(counts - fit).sum()) for fit in fits) / (2.0 * len(values))
    return bool(moved > _MOVED and chi2.sf(ratio, size - 1) < _AGAINST)


def _with_peak(counts: Array, place: int) -> Array:
    """The frequencies nearest to counts that rise up to a place and fall after it."""
    rising = isotonic_regression(counts[: place + 1]).x
    falling = isotonic_regression(counts[place:], increasing=False).x
    peak = max(rising[-1], falling[0])
    return np.concatenate([rising[:-1], [peak], falling[1:]])


def _deviance(counts: Array, expected: Array) -> float:
    """Twice the log likelihood ratio of Poisson counts and their expectations."""
    own = counts > 0
    logs = counts[own] * np.log(counts[own] / expected[own])
    return float(2.0 * (logs.sum() - counts.sum() + expected.sum()))


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
