"""Independent normal numbers in a known order: the probability of the order, and draws of the
numbers given it.

u_j ~ N(means_j, 1), with u_1 > u_2 > … > u_m and all others below u_m. With g_i(t) the probability
that the numbers from the i-th on are in this order and all below t,

    g_i(t) = ∫_{−∞}^t φ(s − means_i) g_{i+1}(s) ds,   g_{m+1}(t) = Π_{j > m} Φ(t − means_j),

and the probability is g_1(∞). Given the order, u_1 has a density ∝ φ(s − means_1) g_2(s), then u_2
below u_1 one ∝ φ(s − means_2) g_3(s), and so on. The logarithm of every integrand is concave, with
a second derivative between −n and 0 for n numbers. So on a grid with a step well below n^{−1/2} it
is as good as a cubic between two points, however steep it is, and integrals are right to six
digits. Points are needed only about the most probable u: those of an isotonic regression.
"""

import math
from typing import NamedTuple

import numpy as np

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.streams import random
from dualview.numerics.truncated import truncated_normal

_STEP = 0.5  # of the grid, times √n
_MARGIN = 6.0  # of the grid beyond the modes, and some more with n
_STEEP = 1.0  # a difference of logarithms from which exponentials are integrated in closed form
_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_2 = math.sqrt(2.0)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(14)  # about the peak of one integrand
_LOG_WEIGHTS = np.log(_WEIGHTS) + 0.5 * _NODES**2
_CLOSE = 0.02  # a step to the peak, in its widths, that is short enough
_TINY = 1000.0  # from this sum of squares on probabilities are multiplied as logarithms


class Point(NamedTuple):
    """An integrand at a point: its value (over that at some scale), its logarithm and the
    derivatives of the logarithm."""

    value: float
    log: float
    slope: float
    curvature: float


class Stages(NamedTuple):
    """On points (p,), for stages i = 1 to m: ln g_i, (m + 1, p), and ln of the integrand with its
    derivatives, (m, p)."""

    points: np.ndarray
    log_below: np.ndarray
    log: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray


@in_place
def log_normal_cdf(x):
    """ln Φ(x), with its digits in the lower tail."""
    if x > -30.0:
        return math.log(0.5 * math.erfc(-x / _ROOT_2))
    square = 1.0 / (x * x)
    series = 1.0 - square * (1.0 - 3.0 * square * (1.0 - 5.0 * square))
    return -0.5 * x * x - _LOG_ROOT_2PI - math.log(-x) + math.log(series)


@in_place
def _with_rest(total, count, rest):
    """The mean of some numbers with given total and count, and of those of the rest that are above
    it."""
    value, before = total / count, math.inf
    while value != before:
        before, sums, n = value, total, count
        for x in rest:
            if x > before:
                sums += x
                n += 1.0
        value = max(before, sums / n)  # it only rises: against round-off
    return value


@compiled
def modes(means, n_top):
    """The most probable u_1 ≥ … ≥ u_m given the order, by pooling adjacent violators from the last
    one up."""
    result, totals, counts = np.empty(n_top), np.empty(n_top), np.empty(n_top)
    values, firsts, n = np.empty(n_top), np.empty(n_top, dtype=np.int64), 0
    for i in range(n_top - 1, -1, -1):
        total, count, value = means[i], 1.0, means[i]
        if n == 0:
            value = _with_rest(total, count, means[n_top:])
        while n > 0 and value <= values[n - 1]:
            n -= 1
            total += totals[n]
            count += counts[n]
            value = total / count if n > 0 else _with_rest(total, count, means[n_top:])
        totals[n], counts[n], values[n], firsts[n] = total, count, value, i
        n += 1
    last = n_top
    for block in range(n):
        result[firsts[block] : last] = values[block]
        last = firsts[block]
    return result


@compiled
def grid(centers, step, margin):
    """Points at most a step apart within a margin of the centers, which fall; where centers are far
    apart there is a gap."""
    n_centers, n = centers.shape[0], 0
    lows, highs = np.empty(n_centers), np.empty(n_centers)
    for center in centers[::-1]:
        if n > 0 and center - margin <= highs[n - 1]:
            highs[n - 1] = center + margin
        else:
            lows[n], highs[n] = center - margin, center + margin
            n += 1
    total = 0
    for i in range(n):
        total += int((highs[i] - lows[i]) / step) + 2
    points, place = np.empty(total), 0
    for i in range(n):
        cells = int((highs[i] - lows[i]) / step) + 1
        for j in range(cells + 1):
            points[place] = lows[i] + j * (highs[i] - lows[i]) / cells
            place += 1
    return points


@in_place
def _bends(left, right, width):
    """κ and γ of the cubic d y + κ q/2 + γ y q, q = y² − ¼, on y from −½ to ½, that the logarithm
    is in a cell.

    On a cell of the grid −``_STEP``² ≤ κ ≤ 0. Elsewhere, in gaps and where the digits of slopes are
    lost, a line is taken. It is below a concave function: such places count for nothing, and for
    even less this way.
    """
    rise = right.log - left.log
    kappa = (right.slope - left.slope) * width
    gamma = (right.slope + left.slope) * width - 2.0 * rise
    if -1.2 * _STEP * _STEP < kappa < 0.05 and abs(gamma) < _STEP * _STEP:
        return kappa, gamma
    return 0.0, 0.0


@in_place
def _steep_cell(left, right, width, kappa, gamma):
    """The integral over a cell of exp(cubic), as exp(line) times a series in κ and γ; d > 0, if
    need be after a reflection."""
    rise = right.log - left.log
    top = right.value
    if rise < 0.0:
        top, gamma = left.value, -gamma
    d = abs(rise)
    ratio = math.exp(-d)
    m0 = (1.0 - ratio) / d
    m1 = (0.5 + 0.5 * ratio - m0) / d
    m2 = (0.25 - 0.25 * ratio - 2.0 * m1) / d
    m3 = (0.125 + 0.125 * ratio - 3.0 * m2) / d
    m4 = (0.0625 - 0.0625 * ratio - 4.0 * m3) / d
    first = 0.5 * kappa * (m2 - 0.25 * m0) + gamma * (m3 - 0.25 * m1)
    second = 0.125 * kappa * kappa * (m4 - 0.5 * m2 + 0.0625 * m0)
    return top * width * (m0 + first + second)


@in_place
def _cell(left, right, width):
    """The integral between two points, by values and two derivatives at both ends."""
    rise = right.log - left.log
    kappa, gamma = _bends(left, right, width)
    if abs(rise) > _STEEP:
        return _steep_cell(left, right, width, kappa, gamma)
    if kappa == 0.0 and gamma == 0.0:
        return left.value * width * (math.expm1(rise) / rise if rise != 0.0 else 1.0)
    second_left = left.slope * left.slope + left.curvature
    second_right = right.slope * right.slope + right.curvature
    first = left.value * left.slope - right.value * right.slope
    second = left.value * second_left + right.value * second_right
    return width * (
        0.5 * (left.value + right.value) + width * (0.1 * first + width * second / 120.0)
    )


@compiled
def _rest(points, means, log_below, slope, bend):
    """In place: ln Π Φ(t − mean), its derivative and its second derivative."""
    log_below[:], slope[:], bend[:] = 0.0, 0.0, 0.0
    for mean in means:
        for p in range(points.shape[0]):
            x = points[p] - mean
            log_cdf = log_normal_cdf(x)
            ratio = math.exp(-0.5 * x * x - _LOG_ROOT_2PI - log_cdf)
            log_below[p] += log_cdf
            slope[p] += ratio
            bend[p] -= min(
                max(ratio * (ratio + x), 0.0), 1.0
            )  # digits are lost far out in the tail


@in_place
def _integrate(points, stages, i, slope, bend, steepest):
    """In place: ln g_i from the integrand of stage i; slope and bend become its derivatives.

    steepest: n, the most that a second derivative can be below 0.
    """
    scale, total, n_points = stages.log[i, 0], 0.0, points.shape[0]
    left = Point(1.0, scale, stages.slope[i, 0], stages.curvature[i, 0])
    for p in range(n_points):
        log = stages.log[i, p]
        if log - scale > 300.0:
            shrink = math.exp(scale - log)
            total, scale = total * shrink, log
            left = Point(left.value * shrink, left.log, left.slope, left.curvature)
        right = Point(math.exp(log - scale), log, stages.slope[i, p], stages.curvature[i, p])
        if p == 0:
            total = 1.0 / max(right.slope, 1.0)  # below all points
        else:
            total += _cell(left, right, points[p] - points[p - 1])
        stages.log_below[i, p] = scale + math.log(total)
        slope[p] = right.value / total
        bend[p] = min(
            max(slope[p] * (right.slope - slope[p]), -steepest), 0.0
        )  # where slopes lose their digits
        left = right


@compiled
def step_of(n):
    """The step of the grid for n numbers."""
    return _STEP / math.sqrt(n)


@compiled
def stages_of(means, n_top):
    """The recursion for means (n,) of the numbers in their order, of which the first n_top < n are
    ordered."""
    n = means.shape[0]
    points = grid(modes(means, n_top), step_of(n), _MARGIN + math.sqrt(2.0 * math.log(n)))
    n_points = points.shape[0]
    parts = np.empty((3, n_top, n_points))
    stages = Stages(points, np.empty((n_top + 1, n_points)), parts[0], parts[1], parts[2])
    slope, bend = np.empty(n_points), np.empty(n_points)
    _rest(points, means[n_top:], stages.log_below[n_top], slope, bend)
    for i in range(n_top - 1, -1, -1):
        for p in range(n_points):
            x = points[p] - means[i]
            stages.log[i, p] = stages.log_below[i + 1, p] - 0.5 * x * x - _LOG_ROOT_2PI
            stages.slope[i, p] = slope[p] - x
            stages.curvature[i, p] = bend[p] - 1.0
        _integrate(points, stages, i, slope, bend, float(n))
    return stages


@compiled
def log_probabilities(means, starts, n_top):
    """Of orders in S draws: means (S, n), those of order r being starts[r] to starts[r + 1], from
    the first down; (S, R)."""
    result = np.empty((means.shape[0], n_top.shape[0]))
    for s in range(means.shape[0]):
        for r in range(n_top.shape[0]):
            stages = stages_of(means[s, starts[r] : starts[r + 1]], n_top[r])
            result[s, r] = min(stages.log_below[0, -1], 0.0)
    return result


@in_place
def _cut(left, right, width, x):
    """Both ends of the part of a cell up to a share x of it: a cubic, or a line."""
    rise, y = right.log - left.log, x - 0.5
    kappa, gamma = _bends(left, right, width)
    q = y * y - 0.25
    log = 0.5 * (left.log + right.log) + rise * y + 0.5 * kappa * q + gamma * y * q
    slope = rise + kappa * y + gamma * (3.0 * y * y - 0.25)
    end = Point(0.0, log, slope / width, (kappa + 6.0 * gamma * y) / (width * width))
    if kappa == 0.0 and gamma == 0.0:
        return Point(0.0, left.log, rise / width, 0.0), end
    return left, end


@in_place
def _share(rng, left, right, width):
    """A share of a cell with a density ∝ exp(cubic): exponential proposals along the chord, almost
    all accepted."""
    rise = right.log - left.log
    kappa, gamma = _bends(left, right, width)
    bound, d = 0.125 * abs(kappa) + 0.0482 * abs(gamma), abs(rise)
    while True:
        x = random(rng)
        if d > 1e-9:
            low = math.exp(-d)
            x = 1.0 + math.log(low + x * (1.0 - low)) / d
            x = min(max(x if rise > 0.0 else 1.0 - x, 0.0), 1.0)
        y = x - 0.5
        if random(rng) <= math.exp((0.5 * kappa + gamma * y) * (y * y - 0.25) - bound):
            return x


@in_place
def _last_at_most(values, value, n):
    """The last place p < n with values[p] ≤ value, of values that do not fall; −1 where there is
    none."""
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        if values[middle] <= value:
            low = middle
        else:
            high = middle
    return low


@in_place
def _point(stages, i, p):
    return Point(0.0, stages.log[i, p], stages.slope[i, p], stages.curvature[i, p])


@in_place
def _below(rng, stages, i, ceiling):
    """A draw from the density ∝ the integrand of stage i below a ceiling."""
    points = stages.points
    n = points.shape[0]
    cell = _last_at_most(points, ceiling, n)
    if cell < 0:
        return ceiling + math.log(1.0 - random(rng)) / max(stages.slope[i, 0], 1.0)
    level, part, width = stages.log_below[i, cell], -math.inf, 0.0
    left, right = _point(stages, i, cell), _point(stages, i, cell)
    if cell < n - 1 and ceiling > points[cell]:  # the part of a cell below the ceiling
        whole, width = points[cell + 1] - points[cell], ceiling - points[cell]
        left, right = _cut(left, _point(stages, i, cell + 1), whole, width / whole)
        top = max(left.log, right.log)
        lower = Point(math.exp(left.log - top), left.log, left.slope, left.curvature)
        upper = Point(math.exp(right.log - top), right.log, right.slope, right.curvature)
        part = top + math.log(_cell(lower, upper, width))
    most = max(level, part)
    chosen = most + math.log((1.0 - random(rng)) * (math.exp(level - most) + math.exp(part - most)))
    if chosen <= level:
        cell = _last_at_most(stages.log_below[i], chosen, cell + 1)
        if cell < 0:
            return points[0] + math.log(1.0 - random(rng)) / max(stages.slope[i, 0], 1.0)
        if cell == n - 1:
            return points[cell]
        left, right, width = (
            _point(stages, i, cell),
            _point(stages, i, cell + 1),
            points[cell + 1] - points[cell],
        )
    return min(points[cell] + width * _share(rng, left, right, width), ceiling)


@compiled
def draw_in_order(rng, means, starts, n_top):
    """Numbers u (n,) given the orders: those of order r are starts[r] to starts[r + 1], from the
    first down."""
    result = np.empty(means.shape[0])
    for r in range(n_top.shape[0]):
        first, m = starts[r], n_top[r]
        own = means[first : starts[r + 1]]
        stages, ceiling = stages_of(own, m), math.inf
        for i in range(m):
            ceiling = _below(rng, stages, i, ceiling)
            result[first + i] = ceiling
        for j in range(m, own.shape[0]):
            result[first + j] = truncated_normal(rng, own[j], 1.0, -math.inf, ceiling)
    return result


@in_place
def _peak_of_first(away, low):
    """Where φ(t) Π_i Φ(t + away_i) is highest, and its width there, by Newton's method; the second
    derivative of its logarithm is below −1."""
    t, width = -0.5 * min(low, 0.0), 1.0
    for _ in range(50):
        slope, bend = -t, 1.0
        for d in away:
            x = t + d
            hazard = math.exp(-0.5 * x * x - _LOG_ROOT_2PI - log_normal_cdf(x))
            slope += hazard
            bend += hazard * (hazard + x)
        width = 1.0 / math.sqrt(bend)
        t += slope / bend
        if abs(slope) * width < _CLOSE:
            break
    return t, width


@in_place
def _log_first(away):
    """ln ∫ φ(t) Π_i Φ(t + away_i) dt: that a number is above others whose means are lower by away
    (K − 1,)."""
    low = away[0]
    for d in away:
        low = min(low, d)
    if away.shape[0] == 1:
        return log_normal_cdf(low / _ROOT_2)
    center, width = _peak_of_first(away, low)
    top, total = -math.inf, 0.0
    nearest, farthest = center - _NODES[-1] * width, center + _NODES[-1] * width
    lowest = min(nearest + low, 0.0)
    is_far = away.shape[0] * lowest * lowest + max(nearest**2, farthest**2) > _TINY
    for node in range(_NODES.shape[0]):
        t = center + width * _NODES[node]
        log = _LOG_WEIGHTS[node] - 0.5 * t * t
        if is_far:
            for d in away:
                log += log_normal_cdf(t + d)
            total = total * math.exp(top - max(log, top)) + math.exp(log - max(log, top))
            top = max(log, top)
        else:
            product = 1.0
            for d in away:
                product *= 0.5 * math.erfc(-(t + d) / _ROOT_2)
            total, top = total + product * math.exp(log), 0.0
    return top + math.log(total * width) - _LOG_ROOT_2PI


@compiled
def log_first_probabilities(means, chosen):
    """ln of the probability that one number of each set is the highest, in S draws: means (S, R K)
    of R sets of K numbers; chosen (R,): its place in the set; (S, R)."""
    n_sets = chosen.shape[0]
    result = np.empty((means.shape[0], n_sets))
    n = means.shape[1] // max(n_sets, 1)
    away = np.empty(n - 1)
    for s in range(means.shape[0]):
        for r in range(n_sets):
            own = means[s, r * n : (r + 1) * n]
            for j in range(n - 1):
                away[j] = own[chosen[r]] - own[j if j < chosen[r] else j + 1]
            result[s, r] = min(_log_first(away), 0.0)
    return result


@compiled
def first_probabilities(means, starts):
    """Probability that each number is the highest of its set in S draws, (S, n): sets are starts[r]
    to starts[r + 1].

    ∫ φ(t − mean_j) Π_{i ≠ j} Φ(t − mean_i) dt by the trapezoidal rule, about where the highest
    number can be.
    """
    result = np.empty(means.shape)
    for s in range(means.shape[0]):
        for r in range(starts.shape[0] - 1):
            first, last = starts[r], starts[r + 1]
            own = means[s, first:last]
            top, step = own.max(), step_of(own.shape[0])
            chances = result[s, first:last]
            chances[:] = 0.0
            for p in range(int(14.0 / step) + 1):
                t = top - 6.5 + p * step
                log_all = 0.0
                for mean in own:
                    log_all += log_normal_cdf(t - mean)
                for j in range(own.shape[0]):
                    x = t - own[j]
                    chances[j] += math.exp(log_all - log_normal_cdf(x) - 0.5 * x * x)
            chances /= chances.sum()
    return result
