"""Special functions that keep their digits where the plain formulas cancel."""

import math

from dualview.numerics.compiling import compiled

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@compiled
def log1pmx(x):
    """log(1 + x) − x, accurate near 0 (where it is about −x²/2)."""
    if x < -0.25 or x > 0.25:
        return math.log1p(x) - x
    ratio = x / (2.0 + x)
    square = ratio * ratio
    series = 0.0
    for power in range(19, 1, -2):
        series = series * square + 1.0 / power
    return ratio * (2.0 * square * series - x)


@compiled
def stirling_remainder(x):
    """lnΓ(x) − [(x − ½) ln x − x + ½ ln 2π] for x > 0: about 1/(12x)."""
    if x < 10.0:
        return math.lgamma(x) - ((x - 0.5) * math.log(x) - x + _HALF_LOG_2PI)
    inverse = 1.0 / x
    square = inverse * inverse
    series = 1.0 / 1188.0 - square * (691.0 / 360360.0 - square / 156.0)
    series = 1.0 / 1260.0 - square * (1.0 / 1680.0 - square * series)
    return inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * series))


@compiled
def log_gamma(x):
    """lnΓ(x) for x > 0, quicker than the library's."""
    product = 1.0
    while x < 10.0:
        product *= x
        x += 1.0
    value = (x - 0.5) * math.log(x) - x + _HALF_LOG_2PI + stirling_remainder(x)
    return value if product == 1.0 else value - math.log(product)


@compiled
def log_gamma_ratio(x, h):
    """lnΓ(x + h) − lnΓ(x) − h ln x for x > 0, with its digits at large x."""
    ratio = h / x
    return (
        x * log1pmx(ratio)
        + (h - 0.5) * math.log1p(ratio)
        + stirling_remainder(x + h)
        - stirling_remainder(x)
    )


@compiled
def log_rising(start, n):
    """lnΓ(start + n) − lnΓ(start), with its digits at large start."""
    if start < 1e4:
        return log_gamma(start + n) - log_gamma(start)
    return n * math.log(start) + log_gamma_ratio(start, n)
