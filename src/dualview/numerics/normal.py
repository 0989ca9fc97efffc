"""The standard normal distribution in compiled code: tails, quantiles, and intervals however far
out or narrow they are.

A probability is a pair (value, exponent), value e^exponent, where it may be below the smallest
floating-point number.
"""

import math
from statistics import NormalDist

import numpy as np

from dualview.numerics.compiling import compiled, inlined

_EDGE = 8.0  # tails up to here are in a table, others are continued fractions
_PER_UNIT = 64.0
_PLACES = np.arange(int(_EDGE * _PER_UNIT) + 2) / _PER_UNIT
_TAILS = np.array([0.5 * math.erfc(x / math.sqrt(2.0)) for x in _PLACES])
_ROOT_2PI = math.sqrt(2.0 * math.pi)
_HEIGHTS = np.exp(-0.5 * _PLACES**2) / _ROOT_2PI
_TERMS = 24  # of the continued fraction
_NARROW = 0.05  # below it three nodes are right to 13 digits
_NODE = math.sqrt(0.6)
_LEAST = 1e-300
_WIDE = 1e-3  # above it a difference of tails has 13 digits


@compiled
def mills(x):
    """(1 − Φ(x)) / φ(x) at x ≥ 8."""
    below = x
    for k in range(_TERMS, 0, -1):
        below = x + k / below
    return 1.0 / below


@compiled
def _far_tail(away):
    """1 − Φ(x) at x ≥ 8."""
    return math.exp(-0.5 * away * away) / _ROOT_2PI * mills(away) if away < 40.0 else 0.0


@inlined
def upper_tail(x):
    """1 − Φ(x), by Taylor's series about the nearest place of a table."""
    away = abs(x)
    if away < _EDGE:
        place = int(away * _PER_UNIT + 0.5)
        at = place * (1.0 / _PER_UNIT)
        d, square = away - at, at * at
        series = (square * (square - 6.0) + 3.0) * (1.0 / 120.0)
        series = d * series - at * (square - 3.0) * (1.0 / 24.0)
        series = 1.0 + d * (-0.5 * at + d * ((square - 1.0) * (1.0 / 6.0) + d * series))
        tail = _TAILS[place] - _HEIGHTS[place] * d * series
    else:
        tail = _far_tail(away)
    return tail if x > 0.0 else 1.0 - tail


@inlined
def lower_tail_and_height(x):
    """Φ(x), and about the density at x, to seven digits."""
    away = abs(x)
    if away < _EDGE:
        place = int(away * _PER_UNIT + 0.5)
        at = place * (1.0 / _PER_UNIT)
        d, square = away - at, at * at
        series = 0.5 * (square - 1.0) - d * at * (square - 3.0) * (1.0 / 6.0)
        height = _HEIGHTS[place] * (1.0 + d * (d * series - at))
    else:
        height = 0.0
    return upper_tail(-x), height


@compiled
def _ratio(small, coefficients):
    """Two polynomials of degree 7 over each other, coefficients (2, 8) from the highest."""
    above, below = coefficients[0, 0], coefficients[1, 0]
    for i in range(1, 8):
        above = above * small + coefficients[0, i]
        below = below * small + coefficients[1, i]
    return above / below


_INNER = 0.48  # shares this far from a half have their quantiles in a table
_SHARES = 512
_LEVELS = np.clip(np.arange(_SHARES + 1) / _SHARES, 1e-3, 1.0 - 1e-3)
_QUANTILES = np.array([NormalDist().inv_cdf(level) for level in _LEVELS])
_SLOPES = _ROOT_2PI * np.exp(0.5 * _QUANTILES**2)

# Wichura (1988), algorithm AS 241: the tails, and the far tails.
_OUTER = np.array(
    [
        [
            7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
            1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
            4.63033784615654529590e0, 1.42343711074968357734e0,
        ],
        [
            1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
            1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
            2.05319162663775882187e0, 1.0,
        ],
    ]
)  # fmt: skip
_FAR = np.array(
    [
        [
            2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
            2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
            5.46378491116411436990e0, 6.65790464350110377720e0,
        ],
        [
            2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
            7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
            5.99832206555887937690e-1, 1.0,
        ],
    ]
)  # fmt: skip


@compiled
def _outer_quantile(tail):
    """x with 1 − Φ(x) = tail where that is near 0 or 1, by AS 241."""
    root = math.sqrt(-math.log(max(min(tail, 1.0 - tail), _LEAST)))
    found = _ratio(root - 1.6, _OUTER) if root <= 5.0 else _ratio(root - 5.0, _FAR)
    return found if tail < 0.5 else -found


@inlined
def tail_quantile(tail):
    """x with 1 − Φ(x) = tail, 0 < tail < 1: Taylor's series about the nearest place of a table."""
    level = 1.0 - tail
    if abs(level - 0.5) < _INNER:
        place = int(level * _SHARES + 0.5)
        at = _QUANTILES[place]
        t, square = (level - place * (1.0 / _SHARES)) * _SLOPES[place], at * at
        series = (square * (24.0 * square + 46.0) + 7.0) * (1.0 / 120.0)
        series = t * series + at * (6.0 * square + 7.0) * (1.0 / 24.0)
        series = 0.5 * at + t * ((2.0 * square + 1.0) * (1.0 / 6.0) + t * series)
        found = at + t * (1.0 + t * series)
    else:
        found = _outer_quantile(tail)
    return found


@compiled
def _narrow_mass(low, width):
    """Φ(low + width) − Φ(low) of a narrow interval, as a pair."""
    half = 0.5 * width
    middle, away = low + half, _NODE * half
    # φ(m ± a) = φ(m) e^{−a²/2} e^{∓ m a}
    side = math.exp(-0.5 * away * away) * math.cosh(middle * away)
    return width * (8.0 + 10.0 * side) / (18.0 * _ROOT_2PI), -0.5 * middle * middle


@compiled
def upper_mass(low, high, width):
    """Φ(high) − Φ(low) where low + high ≥ 0, as a pair."""
    if width * (1.0 + high) < _NARROW:
        return _narrow_mass(low, width)
    if low < _EDGE:
        return upper_tail(low) - upper_tail(high), 0.0
    far = mills(high) * math.exp(-0.5 * width * (low + high)) if high < math.inf else 0.0
    return (mills(low) - far) / _ROOT_2PI, -0.5 * low * low


@compiled
def _careful_mass(low, high, width):
    if low + high >= 0.0:
        return upper_mass(low, high, width)
    return upper_mass(-high, -low, width)


@inlined
def interval_mass(low, high, width):
    """Φ(high) − Φ(low), as a pair, and 1 − Φ(low); width is high − low, which may be below the
    rounding of the two."""
    above = upper_tail(low)
    mass, exponent = above - upper_tail(high), 0.0
    if mass < _WIDE:
        mass, exponent = _careful_mass(low, high, width)
    return mass, exponent, above


@compiled
def _far_quantile(level, low, mass):
    """Where the probability above low ≥ 8 has fallen by level × mass, in units of e^{−low²/2}."""
    height = mills(low)
    log_left = math.log1p(-min(level * mass * _ROOT_2PI / height, 1.0 - 1e-16))
    x = math.sqrt(low * low - 2.0 * log_left)
    for _ in range(3):  # Newton's method in the logarithm of the tail
        own = mills(x)
        x += own * (math.log(own / height) - 0.5 * (x - low) * (x + low) - log_left)
    return x


@compiled
def _narrow_step(level, low, width):
    """How far from low the quantile is inside a narrow interval: one step of Newton's method from
    that of a linear density."""
    tilt = width * (low + 0.5 * width)
    step = width * (level + 0.5 * tilt * level * (level - 1.0))
    whole, exponent = _narrow_mass(low, width)
    own, other = _narrow_mass(low, step)
    x = low + step
    density = math.exp(-0.5 * x * x - exponent) / _ROOT_2PI
    return step + (level * whole - own * math.exp(other - exponent)) / density


@compiled
def _upper_quantile(level, low, high, width, mass):
    """As below, where low + high ≥ 0."""
    if width * (1.0 + high) < _NARROW:
        x = low + _narrow_step(level, low, width)
    elif low < _EDGE:
        x = tail_quantile(upper_tail(low) - level * mass)
    else:
        x = _far_quantile(level, low, mass)
    return min(max(x, low), high)


@compiled
def _careful_quantile(level, low, high, width, mass):
    if low + high >= 0.0:
        return _upper_quantile(level, low, high, width, mass)
    return -_upper_quantile(1.0 - level, -high, -low, width, mass)


@inlined
def interval_quantile(level, low, high, width, probability):
    """The quantile of the standard normal distribution between two bounds; probability: what
    ``interval_mass`` says."""
    mass, exponent, above = probability
    if exponent == 0.0 and mass >= _WIDE:
        found = min(max(tail_quantile(above - level * mass), low), high)
    else:
        found = _careful_quantile(level, low, high, width, mass)
    return found
