"""Draws of the Pólya–Gamma distributions PG(b, z) (Polson, Scott and Windle 2013), exact for b = 1.

With x = 4ω and h = |z|/2 the density is cosh(h) exp(−h² x/2) f(x), and f is either of two series
(Devroye 2009),

    f(x) = a(x) Σ_n (−1)ⁿ (2n + 1) r^(n(n+1)/2),

with a(x) = √(2/(π x³)) exp(−1/(2x)) and r = exp(−4/x), or with a(x) = (π/2) exp(−π² x/8) and r =
exp(−π² x). The two meet at x = 2/π. Below it the first, above it the second has r ≤ exp(−2π): the
sum lies between 1 − 3r and 1 and is compared with a uniform number term by term. No mass of a
truncated distribution is needed, so no normal distribution function.

PG(b, z) is the distribution of a sum of b of them where b is a small whole number. Else it is that
of

    ω = Σ_k g_k / (2π² ((k − ½)² + c²)),   g_k ~ Gamma(b), c = z/(2π),

of which 64 terms are drawn one by one. The rest is drawn from the gamma distribution that has its
mean and its variance; the third cumulant of ω is then right to 3e-6 of itself at |z| = 40, and to
1e-9 below 8. Beyond 40 ω has an inverse Gaussian distribution, but for a share b exp(−z).
"""

import math

from dualview.numerics.compiling import compiled, inlined
from dualview.numerics.streams import random, standard_gamma, standard_normal

_MEETING = 2.0 / math.pi
_HEAD_MASS = (
    4.0 / math.pi * math.exp(-math.pi / 4.0)
)  # of the bound below the meeting point, an exponential distribution of e
_SURE = 1.0 - 3.0 * math.exp(-2.0 * math.pi)
_STRONG = 1.0  # where both ways of drawing cost the same
_MOST_SUMMED = 12  # draws of PG(1, z) that are added up for one of PG(b, z)
_N_TERMS = 64
_INVERSE_GAUSSIAN = 40.0  # tilts from which the rest of the series is nothing
_SMALL = 0.1  # below it 3r is less than half a step of uniform numbers


@compiled
def _below_series(level, ratio):
    """Whether level ≤ Σ_n (−1)ⁿ (2n + 1) ratio^(n(n+1)/2), from its partial sums, which close in
    from both sides."""
    total = odd = power = product = sign = 1.0
    while True:
        odd += 2.0
        power *= ratio
        product *= power
        sign = -sign
        total += sign * odd * product
        if sign < 0.0 and not level > total:
            return True
        if sign > 0.0 and level > total:
            return False


@inlined
def _weakly_tilted(rng, half):
    """x by an exponential distribution above 2/π; below it by x = (2/π)/(1 + 2e/π)² with an
    exponential e. For small h."""
    rate = 0.125 * math.pi * math.pi + 0.5 * half * half
    tail_mass = 0.5 * math.pi / rate * math.exp(-_MEETING * rate)
    while True:
        place = (tail_mass + _HEAD_MASS) * (1.0 - random(rng))
        level = random(rng)
        if place <= tail_mass:
            x = _MEETING - math.log(place / tail_mass) / rate
            if level < _SURE or _below_series(level, math.exp(-math.pi * math.pi * x)):
                return x
        else:
            e = -math.log((place - tail_mass) / _HEAD_MASS)
            root = 1.0 + _MEETING * e
            x = _MEETING / (root * root)
            level *= math.exp(e * e / math.pi + 0.5 * half * half * x)
            if level < _SURE or _below_series(level, math.exp(-4.0 / x)):
                return x


@inlined
def _inverse_gaussian(rng, mean):
    """Inverse Gaussian with shape 1, by Michael, Schucany and Haas (1976), with roots that do not
    cancel."""
    normal = standard_normal(rng)
    excess = 0.5 * mean * normal * normal
    root = 1.0 + excess + math.sqrt(excess * (2.0 + excess))
    return mean / root if random(rng) * (1.0 + root) < root else mean * root


@inlined
def _strongly_tilted(rng, half):
    """x from an inverse Gaussian: the first a(x) bounds f everywhere. One in 1 + exp(−2h) is taken,
    so not for small h."""
    while True:
        x = _inverse_gaussian(rng, 1.0 / half)
        if x < _SMALL:
            return x
        level = random(rng)
        if x < _MEETING:
            if level < _SURE or _below_series(level, math.exp(-4.0 / x)):
                return x
        else:
            scaled = 0.5 * math.pi * x
            level *= math.exp(0.125 * math.pi * math.pi * x - 0.5 / x) / (
                scaled * math.sqrt(scaled)
            )
            if level < _SURE or _below_series(level, math.exp(-math.pi * math.pi * x)):
                return x


@inlined
def draw_one(rng, tilt):
    """ω ~ PG(1, tilt) for any real tilt: 0 where it is infinite, NaN where it is NaN."""
    half = 0.5 * abs(tilt)
    return 0.25 * (_weakly_tilted(rng, half) if half < _STRONG else _strongly_tilted(rng, half))


@compiled
def draw_into(rng, tilts, out):
    """In place: out (N,) becomes draws of PG(1, tilts[i])."""
    for i in range(tilts.shape[0]):
        out[i] = draw_one(rng, tilts[i])


@compiled
def draw_series(rng, shape, tilt):
    """ω ~ PG(shape, tilt) for any shape above 0, by a sum of gamma variables; by an inverse
    Gaussian one where the tilt is large."""
    tilt = abs(tilt)
    if tilt > _INVERSE_GAUSSIAN:
        return 0.25 * shape * shape * _inverse_gaussian(rng, 2.0 / (shape * tilt))
    place = tilt / (2.0 * math.pi)
    scale, square = 0.5 / (math.pi * math.pi), place * place
    total = 0.0
    for k in range(_N_TERMS):
        total += standard_gamma(rng, shape) / ((k + 0.5) * (k + 0.5) + square)
    # the sums over all further k, as integrals with the first correction of the midpoint rule
    near = square / (_N_TERMS * _N_TERMS)
    edge = 1.0 / (_N_TERMS * _N_TERMS * (1.0 + near))
    mean = (1.0 - near * (1.0 / 3.0 - near * (0.2 - near / 7.0))) / _N_TERMS
    mean -= _N_TERMS * edge * edge / 12.0
    spread = 1.0 / 3.0 - near * (0.4 - near * (3.0 / 7.0 - near * (4.0 / 9.0)))
    spread = spread / (_N_TERMS * _N_TERMS * _N_TERMS) - _N_TERMS * edge * edge * edge / 6.0
    return scale * (total + standard_gamma(rng, shape * mean * mean / spread) * spread / mean)


@inlined
def draw_of_shape(rng, shape, tilt):
    """ω ~ PG(shape, tilt): by draws of PG(1, tilt) where the shape is a small whole number."""
    if shape > _MOST_SUMMED or shape != math.floor(shape):
        return draw_series(rng, shape, tilt)
    total = 0.0
    for _ in range(int(shape)):
        total += draw_one(rng, tilt)
    return total


@compiled
def draw_shapes_into(rng, shapes, tilts, out):
    """In place: out (N,) becomes draws of PG(shapes[i], tilts[i])."""
    for i in range(tilts.shape[0]):
        out[i] = draw_of_shape(rng, shapes[i], tilts[i])
