"""The standard normal distribution between two bounds: nothing underflows, however far out or close
together they are.

Most bounds are neither. Those that are go another way, by logarithms.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_HARD = 1e-6  # a smaller share of what is below the upper bound loses too many digits
_SMALLEST = 1e-290
_NARROW = 1e-5  # below it the density is flat between the bounds, to ten digits
_FAR = -1e5  # below it the tail is exponential, to ten digits
_LEAST, _MOST = np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg


def log_mass(low: Array, high: Array, width: Array) -> Array:
    """ln(Φ(high) − Φ(low)). width is high − low, which may be below the rounding of the two."""
    low, high, _ = _in_lower_half(low, high)
    mass, hard = _masses(low, high)[1:]
    with np.errstate(divide="ignore"):
        found = np.asarray(np.log(mass))
    if hard.any():
        found[hard] = _hard_mass(low[hard], high[hard], np.broadcast_to(width, hard.shape)[hard])
    return found


def quantiles(levels: ArrayLike, low: Array, high: Array, width: Array) -> Array:
    """Quantiles of the distribution between the bounds."""
    levels, low, high, width = np.broadcast_arrays(np.clip(levels, _LEAST, _MOST), low, high, width)
    low, high, flipped = _in_lower_half(low, high)
    levels = np.where(flipped, 1.0 - levels, levels)
    below, mass, hard = _masses(low, high)
    found = np.asarray(ndtri(below + levels * mass))
    if hard.any():
        found[hard] = _hard_quantiles(levels[hard], low[hard], high[hard], width[hard])
    found = np.clip(found, low, high)
    return np.asarray(np.where(flipped, -found, found))


def _in_lower_half(low: Array, high: Array) -> tuple[Array, Array, Mask]:
    """The bounds, mirrored where more of the interval is above zero than below."""
    flipped = np.asarray(low + high > 0.0)
    return np.where(flipped, -high, low), np.where(flipped, -low, high), flipped


def _masses(low: Array, high: Array) -> tuple[Array, Array, Mask]:
    """Φ(low), Φ(high) − Φ(low), and where that is not accurate."""
    below, above = ndtr(low), ndtr(high)
    mass = above - below
    return below, mass, np.asarray((mass < _HARD * above) | (above < _SMALLEST))


def _hard_mass(low: Array, high: Array, width: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        upper, flat = log_ndtr(high), _is_flat(low, high, width)
        wide = upper + np.log1p(-np.exp(log_ndtr(low) - upper))
        far = upper + np.log(-np.expm1(width * (high - 0.5 * width)))
        middle = np.where(flat, 0.5 * low + 0.5 * high, 0.0)
        narrow = np.log(width) - 0.5 * middle**2 - 0.5 * np.log(2.0 * np.pi)
    return np.asarray(np.where(flat, narrow, np.where(high < _FAR, far, wide)))


def _hard_quantiles(levels: Array, low: Array, high: Array, width: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        wide = ndtri_exp(
            np.logaddexp(log_ndtr(low) + np.log1p(-levels), log_ndtr(high) + np.log(levels))
        )
        return np.where(_is_flat(low, high, width), low + levels * width, wide)


def _is_flat(low: Array, high: Array, width: Array) -> Mask:
    return np.asarray(width * (1.0 + np.maximum(np.abs(low), np.abs(high))) < _NARROW)
