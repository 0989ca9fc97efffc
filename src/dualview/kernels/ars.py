"""Adaptive rejection sampling of a log-concave density (Gilks and Wild 1992), from its value and derivative.

The hull is made of tangents. Every proposal becomes a new tangent, so the hull tightens until a proposal is accepted;
the accepted value is an exact draw whatever the starting point. There is no squeezing below the density: the targets here
cost about as much as the squeeze.
"""

import math

import numpy as np

from dualview.kernels.compiling import uncached

_CAPACITY = 200
_LOOSE = 4.0  # a starting hull may peak this far above the density in logs
_TOLERANCE = 1e-8  # relative rounding error granted to a target


@uncached
def _crossing(x0, h0, d0, x1, h1, d1):
    """Where the tangents at x0 < x1 meet."""
    if d0 - d1 <= 1e-14 * (abs(d0) + abs(d1)):
        return 0.5 * (x0 + x1)
    crossing = x0 + (h1 - h0 - d1 * (x1 - x0)) / (d0 - d1)
    return min(max(crossing, x0), x1)


@uncached
def _rises(d_left, d_right):
    """Whether the slope grows from left to right beyond rounding: then the density is not log-concave."""
    return d_right - d_left > _TOLERANCE * (1.0 + abs(d_left) + abs(d_right))


@uncached
def _segment_log_mass(height, slope, left, right, at):
    """Log of the integral of exp(height + slope (x − at)) from left to right."""
    width = right - left
    if abs(slope) * width < 1e-12:
        return height + slope * (left - at) + math.log(width) if width > 0.0 else -math.inf
    top = right if slope > 0.0 else left
    return height + slope * (top - at) + math.log(-math.expm1(-abs(slope) * width)) - math.log(abs(slope))


@uncached
def _propose(rng, x, h, d, n, lower):
    """A draw from the hull of n tangents and the hull's height there."""
    log_mass = np.empty(n)
    edges = np.empty(n + 1)
    edges[0], edges[n] = lower, math.inf
    for i in range(1, n):
        edges[i] = _crossing(x[i - 1], h[i - 1], d[i - 1], x[i], h[i], d[i])
    for i in range(n):
        log_mass[i] = _segment_log_mass(h[i], d[i], edges[i], edges[i + 1], x[i])
    mass = np.exp(log_mass - log_mass.max())
    threshold = rng.random() * mass.sum()
    i = 0
    while i < n - 1 and threshold >= mass[i]:
        threshold -= mass[i]
        i += 1
    left, right, slope = edges[i], edges[i + 1], d[i]
    share = rng.random()
    if abs(slope) * (right - left) < 1e-12:
        point = left + share * (right - left)
    else:
        top = right if slope > 0.0 else left
        point = top + math.log1p(share * math.expm1(-abs(slope) * (right - left))) / slope
    return point, h[i] + slope * (point - x[i])


@uncached
def _insert(x, h, d, n, x_new, h_new, d_new):
    """In place: add a tangent in order. False when it shows that the density is not log-concave."""
    i = n
    while i > 0 and x[i - 1] > x_new:
        x[i], h[i], d[i] = x[i - 1], h[i - 1], d[i - 1]
        i -= 1
    x[i], h[i], d[i] = x_new, h_new, d_new
    return not ((i > 0 and _rises(d[i - 1], d_new)) or (i < n and _rises(d_new, d[i + 1])))


def sampler(target):
    """Compile ``sample(rng, parameters, start, lower)`` for one target.

    ``target(x, parameters)`` is a compiled function that returns (log density up to a constant, its derivative); the support is
    (lower, ∞). ``sample`` raises ValueError when it meets a point where the target is not log-concave or has no mode.
    """

    @uncached
    def outwards(parameters, start, lower):
        """Points x0 < x1 with a rising and a falling density, stepping out from the start."""
        anchor = lower if math.isfinite(lower) else 0.0
        x = start
        h, d = target(x, parameters)
        while not (math.isfinite(d) and math.isfinite(h)):
            if x == anchor + 1.0:
                raise ValueError("adaptive rejection sampling: the density is not finite near its start")
            x = anchor + 0.5 * (x - anchor) if abs(x - anchor) > 1e-3 else anchor + 1.0
            h, d = target(x, parameters)
        rising = d > 0.0
        step = 1.0
        while step < 1e300:
            x1 = x + step if rising else x - step
            if not rising and math.isfinite(lower):
                x1 = lower + (x - lower) / (1.0 + step)
            h1, d1 = target(x1, parameters)
            while not (math.isfinite(h1) and math.isfinite(d1)) and x1 != x:
                x1 = 0.5 * (x + x1)
                h1, d1 = target(x1, parameters)
            if x1 == x:
                break
            if rising and d1 <= 0.0:
                return x, h, d, x1, h1, d1
            if not rising and d1 >= 0.0:
                return x1, h1, d1, x, h, d
            x, h, d = x1, h1, d1
            step *= 2.0
        raise ValueError("adaptive rejection sampling: no mode found; the density has no finite integral")

    @uncached
    def first_hull(x, h, d, parameters, start, lower):
        """In place: tangents with a low peak and short tails; returns their number."""
        x[0], h[0], d[0], x[1], h[1], d[1] = outwards(parameters, start, lower)
        n = 2
        rising = 0
        while n < _CAPACITY // 2:
            width = x[n - 1] - x[0]
            while d[rising + 1] > 0.0:
                rising += 1
            i = rising
            crossing = _crossing(x[i], h[i], d[i], x[i + 1], h[i + 1], d[i + 1])
            edge = x[n - 1]
            if -d[n - 1] * width < 1.0:
                point = edge + width
            elif d[0] * width < 1.0 and not math.isfinite(lower):
                edge = x[0]
                point = edge - width
                rising = 0
            elif h[i] + d[i] * (crossing - x[i]) - max(h[i], h[i + 1]) > _LOOSE:
                point = 0.5 * (x[i] + x[i + 1])
            else:
                break
            h_new, d_new = target(point, parameters)
            while not (math.isfinite(h_new) and math.isfinite(d_new)) and point != edge:
                point = 0.5 * (point + edge)
                h_new, d_new = target(point, parameters)
            if point == edge or not _insert(x, h, d, n, point, h_new, d_new):
                raise ValueError("adaptive rejection sampling: the density is not log-concave")
            n += 1
        if not (d[n - 1] < 0.0 and (d[0] > 0.0 or math.isfinite(lower))):
            raise ValueError("adaptive rejection sampling: a tail does not fall; the density has no finite integral")
        return n

    @uncached
    def sample(rng, parameters, start, lower):
        """One exact draw from the target on (lower, ∞)."""
        x, h, d = np.empty(_CAPACITY), np.empty(_CAPACITY), np.empty(_CAPACITY)
        n = first_hull(x, h, d, parameters, start, lower)
        for _ in range(_CAPACITY):
            point, hull = _propose(rng, x, h, d, n, lower)
            h_new, d_new = target(point, parameters)
            if h_new == -math.inf:  # no density, and no tangent to learn from
                continue
            if not (n < _CAPACITY and h_new - hull <= _TOLERANCE * (1.0 + abs(hull))):
                raise ValueError("adaptive rejection sampling: the density is not log-concave")
            if math.isfinite(d_new):
                if not _insert(x, h, d, n, point, h_new, d_new):
                    raise ValueError("adaptive rejection sampling: the density is not log-concave")
                n += 1
            if math.log1p(-rng.random()) <= h_new - hull:
                return point
        raise ValueError("adaptive rejection sampling: no proposal was accepted; the density is not smooth")

    return sample
