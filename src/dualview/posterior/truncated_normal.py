"""The standard normal distribution between two bounds, in logarithms: nothing underflows, however far out the bounds are."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtri_exp

Array = NDArray[np.float64]

_NARROW = 1e-5  # below it the density is flat between the bounds, to ten digits
_FAR = -1e5
_LEAST, _MOST = np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg


def log_mass(low: Array, high: Array, width: Array) -> Array:
    """ln(Φ(high) − Φ(low)). width is high − low, which may be below the rounding of the two."""
    low, high, _ = _in_lower_half(low, high)
    flat = _is_flat(low, high, width)
    with np.errstate(divide="ignore", invalid="ignore"):
        upper = log_ndtr(high)
        wide = upper + np.log1p(-np.exp(log_ndtr(low) - upper))
        far = upper + np.log(-np.expm1(width * (high - 0.5 * width)))  # exponential, to ten digits
        middle = np.where(flat, 0.5 * low + 0.5 * high, 0.0)
        narrow = np.log(width) - 0.5 * middle**2 - 0.5 * np.log(2.0 * np.pi)
    return np.asarray(np.where(flat, narrow, np.where(high < _FAR, far, wide)))


def quantiles(levels: ArrayLike, low: Array, high: Array, width: Array) -> Array:
    """Quantiles of the distribution between the bounds."""
    levels = np.clip(levels, _LEAST, _MOST)
    low, high, flipped = _in_lower_half(low, high)
    levels = np.where(flipped, 1.0 - levels, levels)
    flat = _is_flat(low, high, width)
    with np.errstate(divide="ignore", invalid="ignore"):
        wide = ndtri_exp(np.logaddexp(log_ndtr(low) + np.log1p(-levels), log_ndtr(high) + np.log(levels)))
        narrow = low + levels * width
    found = np.clip(np.where(flat, narrow, wide), low, high)
    return np.where(flipped, -found, found)


def _in_lower_half(low: Array, high: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """The bounds, mirrored where more of the interval is above zero than below."""
    flipped = np.asarray(low + high > 0.0)
    return np.where(flipped, -high, low), np.where(flipped, -low, high), flipped


def _is_flat(low: Array, high: Array, width: Array) -> NDArray[np.bool_]:
    return np.asarray(width * (1.0 + np.maximum(np.abs(low), np.abs(high))) < _NARROW)
