"""Cells of users that are known to an interval: their probability in components, and draws.

Cells are taken one after the other, y = c + L ε: s that are exact, i intervals, then others. The
probability of the intervals given the exact cells is estimated without bias by the sequential
sampler of Geweke, Hajivassiliou and Keane (GHK): each interval's probability given the cells before
it, which are drawn inside their own.

Where components have heavy tails, (M19), a point has a weight λ as well, given the exact cells:
Gamma((ν + s)/2, rate (ν + q)/2), q = |ε|² of these. What is left of the cells is then ε/√λ, and
roots are the √λ, 1 of a normal component.

Shapes: n components in blocks of B, k cells, r dimensions in working units, m users.
"""

import math
from typing import NamedTuple

import numpy as np

from dualview.numerics.compiling import compiled, in_place, inlined
from dualview.numerics.normal import interval_mass, interval_quantile
from dualview.numerics.streams import random, standard_gamma, standard_normal
from dualview.numerics.truncated import truncated_normal
from dualview.views.base import Array
from dualview.views.gaussian.tails import log_tails, weight_law

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_BLOCK = 20
_TOGETHER = 100  # components of several draws in a block at least
_SWEEPS = 20  # Gibbs sweeps over interval cells, from one of the points
_DEPENDENT = 1e-12  # of its size is new in a cell that follows from those before it

# How far behind the most probable component of its draw, in logarithms, one has fewer points.
_NEAR, _FAR = 3.0, 6.0
_FEW = 4


class Gaussians(NamedTuple):
    """Means (n, r) of components in working units, square roots (n, r, r) of their covariances, or
    of their scale matrices, and their ν (n,): ∞ of a normal one, empty where all are normal."""

    means: Array
    roots: Array
    dofs: Array = np.empty(0)


class Known(NamedTuple):
    """What is known of m users: exact (m, s), low and high (m, i)."""

    exact: Array
    low: Array
    high: Array


class Block(NamedTuple):
    """Cells y = c + L ε in some components: centres c (k, B), lower L (k, k, B), and ln of its
    diagonal (k, B). rows (k, r, B) and sizes (B,): to work in."""

    centres: Array
    lower: Array
    log_scales: Array
    rows: Array
    sizes: Array


class Work(NamedTuple):
    """One user in a block: ε of exact cells (s, B), centres of intervals given these (i, B), ln of
    the density of exact cells (B,), the squares q (B,) of these, ln of about the probability (B,),
    ε of intervals (i,), and roots (P,) of weights at the points."""

    standard: Array
    centres: Array
    log_exact: Array
    squares: Array
    guess: Array
    drawn: Array
    roots: Array


@compiled
def new_block(n_cells, n_dims, size):
    return Block(
        np.empty((n_cells, size)),
        np.zeros((n_cells, n_cells, size)),
        np.empty((n_cells, size)),
        np.empty((n_cells, n_dims, size)),
        np.empty(size),
    )


@compiled
def new_work(n_exact, n_intervals, n_points, size):
    return Work(
        np.empty((n_exact, size)),
        np.empty((n_intervals, size)),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(n_intervals),
        np.ones(n_points),
    )


@in_place
def _spread(loading, gaussians, first, size, block):
    """In place: centres, and rows of loading times the roots, of components from first on."""
    n_cells, n_dims = loading.shape
    for i in range(n_cells):
        for b in range(size):
            total = 0.0
            for d in range(n_dims):
                total += loading[i, d] * gaussians.means[first + b, d]
            block.centres[i, b] = total
        for j in range(n_dims):
            row = block.rows[i, j]
            for b in range(size):
                row[b] = 0.0
    for d in range(n_dims):
        for j in range(n_dims):
            for b in range(size):
                block.sizes[b] = gaussians.roots[first + b, d, j]
            for i in range(n_cells):
                weight, row = loading[i, d], block.rows[i, j]
                for b in range(size):
                    row[b] += weight * block.sizes[b]


@inlined
def _add_products(one, other, size, total):
    """In place: the products of two rows (r, B) of several components."""
    for d in range(one.shape[0]):
        left, right = one[d], other[d]
        for b in range(size):
            total[b] += left[b] * right[b]


@in_place
def factorise(loading, n_known, gaussians, first, size, block):
    """In place: L by orthogonalising the rows one after the other. A cell from n_known on may
    follow from those before it, and has then no ε of its own."""
    _spread(loading, gaussians, first, size, block)
    n_cells, n_dims = loading.shape
    sizes = block.sizes
    for i in range(n_cells):
        scale = block.lower[i, i]
        for b in range(size):
            sizes[b] = 0.0
        _add_products(block.rows[i], block.rows[i], size, sizes)
        for j in range(i):
            before, weight = block.rows[j], block.lower[i, j]
            for b in range(size):
                weight[b] = 0.0
            _add_products(block.rows[i], before, size, weight)
            for d in range(n_dims):
                row, other = block.rows[i, d], before[d]
                for b in range(size):
                    row[b] -= weight[b] * other[b]
        for b in range(size):
            scale[b] = 0.0
        _add_products(block.rows[i], block.rows[i], size, scale)
        for b in range(size):
            follows = i >= n_known and scale[b] <= _DEPENDENT**2 * sizes[b]
            scale[b] = 0.0 if follows else math.sqrt(scale[b])
            sizes[b] = 0.0 if follows else 1.0 / scale[b]
            block.log_scales[i, b] = math.log(scale[b])
        for d in range(n_dims):
            row = block.rows[i, d]
            for b in range(size):
                row[b] *= sizes[b]


@in_place
def settle(user, known, block, size, work):
    """In place: what a user's exact cells say in a block."""
    n_exact, n_intervals = known.exact.shape[1], known.low.shape[1]
    standard, lower, log_exact = work.standard, block.lower, work.log_exact
    for b in range(size):
        log_exact[b] = -n_exact * _HALF_LOG_2PI
    for i in range(n_exact):
        value = known.exact[user, i]
        for b in range(size):
            standard[i, b] = value - block.centres[i, b]
        for j in range(i):
            for b in range(size):
                standard[i, b] -= lower[i, j, b] * standard[j, b]
        for b in range(size):
            standard[i, b] /= lower[i, i, b]
            log_exact[b] -= 0.5 * standard[i, b] * standard[i, b] + block.log_scales[i, b]
    for i in range(n_intervals):
        for b in range(size):
            work.centres[i, b] = block.centres[n_exact + i, b]
        for j in range(n_exact):
            for b in range(size):
                work.centres[i, b] += lower[n_exact + i, j, b] * standard[j, b]


@in_place
def settle_tails(known, gaussians, first, block, size, work):
    """In place, after ``settle``: the squares, and the t density of the exact cells, where
    components from first on have heavy tails."""
    n_exact, standard = known.exact.shape[1], work.standard
    for b in range(size if gaussians.dofs.shape[0] > 0 else 0):
        work.squares[b], height = 0.0, -n_exact * _HALF_LOG_2PI
        for i in range(n_exact):
            work.squares[b] += standard[i, b] * standard[i, b]
            height -= block.log_scales[i, b]
        tails = log_tails(work.squares[b], n_exact, gaussians.dofs[first + b])
        work.log_exact[b] = height + tails


@in_place
def guess(user, known, log_widths, block, size, work):
    """In place: about the probability of a user's cells. Each interval cell is taken to be at the
    likeliest place given those before it."""
    n_exact, n_intervals = known.exact.shape[1], known.low.shape[1]
    found, lower = work.guess, block.lower
    for b in range(size):
        found[b] = work.log_exact[b]
        for i in range(n_intervals):
            middle, cell = work.centres[i, b], n_exact + i
            for j in range(i):
                middle += lower[cell, n_exact + j, b] * work.drawn[j]
            place = min(max(middle, known.low[user, i]), known.high[user, i])
            work.drawn[i] = (place - middle) / lower[cell, cell, b]
            narrow = log_widths[i] - block.log_scales[cell, b] - _HALF_LOG_2PI
            found[b] += min(narrow, 0.0) - 0.5 * work.drawn[i] * work.drawn[i]


@inlined
def _joined(total, top, value, exponent):
    """A pair total e^top and another one in one."""
    if exponent > top:
        total, top = total * math.exp(top - exponent), exponent
    return total + (value if exponent == top else value * math.exp(exponent - top)), top


@inlined
def draw_point(user, known, levels, root, b, block, work):
    """In place: ε of a user's interval cells, drawn at levels (i or i − 1,) of their intervals; the
    weight of this point as a pair."""
    n_exact, n_intervals = known.exact.shape[1], known.low.shape[1]
    weight, exponent = 1.0, 0.0
    for i in range(n_intervals):
        cell = n_exact + i
        middle, scale = work.centres[i, b], root / block.lower[cell, cell, b]
        for j in range(i):
            middle += block.lower[cell, n_exact + j, b] * work.drawn[j]
        low, high = (known.low[user, i] - middle) * scale, (known.high[user, i] - middle) * scale
        width = (known.high[user, i] - known.low[user, i]) * scale
        probability = interval_mass(low, high, width)
        weight *= probability[0]
        exponent += probability[1]
        if 0.0 < weight < 1e-100:
            exponent += math.log(weight)
            weight = 1.0
        if i < levels.shape[0]:
            work.drawn[i] = interval_quantile(levels[i], low, high, width, probability) / root
    return weight, exponent


@inlined
def log_probability(user, known, shift, points, n_used, b, block, levels, work):
    """ln of the estimated probability of a user's interval cells given the exact ones."""
    total, top = 0.0, 0.0
    for p in range(n_used):
        for i in range(levels.shape[0]):
            level = points[p, i] + shift[i]
            levels[i] = level - 1.0 if level >= 1.0 else level
        value, exponent = draw_point(user, known, levels, work.roots[p], b, block, work)
        if p == 0:
            total, top = value, exponent
        else:
            total, top = _joined(total, top, value, exponent)
    return math.log(total / n_used) + top


@in_place
def _set_roots(row, b, gaussians, chi_squares, work):
    """In place: the roots of a row's points; returns whether they differ."""
    dof = gaussians.dofs[row] if gaussians.dofs.shape[0] > 0 else math.inf
    for p in range(work.roots.shape[0]):
        work.roots[p] = (
            math.sqrt(chi_squares[row, p] / (dof + work.squares[b])) if dof < math.inf else 1.0
        )
    return dof < math.inf


@in_place
def _estimate(
    user,
    known,
    gaussians,
    first,
    begin,
    end,
    shifts,
    points,
    chi_squares,
    block,
    levels,
    work,
    found,
):
    """In place: a user's interval cells in some draws, added to found (n,)."""
    for draw in range(begin, end):
        best = -math.inf
        for row in range(first[draw], first[draw + 1]):
            best = max(best, work.guess[row - first[begin]])
        for row in range(first[draw], first[draw + 1]):
            b = row - first[begin]
            behind = best - work.guess[b]
            n_points = points.shape[0] if behind < _NEAR else _FEW if behind < _FAR else 1
            if _set_roots(row, b, gaussians, chi_squares, work):
                n_points = points.shape[0]  # the guess knows no tails
            elif levels.shape[0] == 0:
                n_points = 1
            found[row] += log_probability(
                user, known, shifts[row], points, n_points, b, block, levels, work
            )


@compiled
def log_densities(known, loading, gaussians, first, log_weights, shifts, points, chi_squares):
    """ln p(known cells of user j | component), (m, n), by the volume of what is exact.

    first (N + 1,): where the components of each draw begin, and where all end. log_weights (m, n):
    of components in their draw, besides. Those that weigh little, as far as can be told
    beforehand, have fewer points: their estimates are without bias, too. shifts (n, i − 1 or more):
    where the points (P, i − 1 or more) begin. chi_squares (n, P): with ν + s degrees of freedom at
    each point, of components with heavy tails.
    """
    n_users, n_exact = known.exact.shape
    n_intervals, n_dims = known.low.shape[1], loading.shape[1]
    size = max(_TOGETHER, np.max(np.diff(first)) if first.shape[0] > 1 else 0)
    block = new_block(loading.shape[0], n_dims, size)
    work = new_work(n_exact, n_intervals, points.shape[0], size)
    levels = np.empty(max(n_intervals - 1, 0))
    log_widths = np.log(known.high - known.low)
    found = np.empty((n_users, gaussians.means.shape[0]))
    draw = 0
    while draw < first.shape[0] - 1:
        begin, end = draw, draw + 1
        while end < first.shape[0] - 1 and first[end + 1] - first[begin] <= size:
            end += 1
        n = first[end] - first[begin]
        factorise(loading, loading.shape[0], gaussians, first[begin], n, block)
        for user in range(n_users):
            settle(user, known, block, n, work)
            settle_tails(known, gaussians, first[begin], block, n, work)
            guess(user, known, log_widths[user], block, n, work)
            for b in range(n):
                work.guess[b] += log_weights[user, first[begin] + b]
                found[user, first[begin] + b] = work.log_exact[b]
            if n_intervals > 0:
                _estimate(
                    user,
                    known,
                    gaussians,
                    first,
                    begin,
                    end,
                    shifts,
                    points,
                    chi_squares,
                    block,
                    levels,
                    work,
                    found[user],
                )
        draw = end
    return found


@in_place
def _inverse_of_lower(lower, inverse):
    for j in range(lower.shape[0]):
        for i in range(j):
            inverse[i, j] = 0.0
        inverse[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, lower.shape[0]):
            total = 0.0
            for k in range(j, i):
                total += lower[i, k] * inverse[k, j]
            inverse[i, j] = -total / lower[i, i]


@compiled
def _draw_root(stream, square, n_cells, dof):
    """√λ given cells with this square; 1 of a normal component."""
    if dof == math.inf:
        return 1.0
    shape, rate = weight_law(square, n_cells, dof)
    return math.sqrt(standard_gamma(stream, shape) / rate)


@compiled
def _sweep(stream, user, known, root, dof, b, block, work, away):
    """In place: Gibbs sweeps over interval cells, (C16), and then their ε; returns √λ, which has
    been drawn with them.

    away (i,): the cells less their centres.
    """
    n_exact, n = known.exact.shape[1], away.shape[0]
    own, inverse = np.empty((n, n)), np.empty((n, n))
    for i in range(n):
        away[i] = 0.0
        for j in range(i + 1):
            own[i, j] = block.lower[n_exact + i, n_exact + j, b]
            away[i] += own[i, j] * work.drawn[j]
    _inverse_of_lower(own, inverse)
    precision = inverse.T @ inverse
    for sweep in range(_SWEEPS):
        if sweep > 0 and dof < math.inf:
            square = work.squares[b]
            for i in range(n):
                for j in range(n):
                    square += away[i] * precision[i, j] * away[j]
            root = _draw_root(stream, square, n_exact + n, dof)
        for i in range(n):
            pull = 0.0
            for j in range(n):
                pull += precision[i, j] * away[j]
            middle = away[i] - pull / precision[i, i]
            sd = 1.0 / (root * math.sqrt(precision[i, i]))
            centre = work.centres[i, b]
            low, high = known.low[user, i] - centre, known.high[user, i] - centre
            away[i] = truncated_normal(stream, middle, sd, low, high)
    for i in range(n):
        work.drawn[i] = 0.0
        for j in range(i + 1):
            work.drawn[i] += inverse[i, j] * away[j]
    return root


@compiled
def _draw_inside(stream, user, known, dof, n_points, b, block, levels, work, away):
    """In place: ε of one draw of a user's interval cells. One of the points is taken by its weight;
    Gibbs sweeps begin there. Returns √λ."""
    n, n_exact = levels.shape[0], known.exact.shape[1]
    chosen, total, top, chosen_root = np.empty(n), 0.0, 0.0, 1.0
    is_sampled = n > 1 or dof < math.inf
    for p in range(n_points if is_sampled else 1):
        root = _draw_root(stream, work.squares[b], n_exact, dof)
        for i in range(n):
            levels[i] = random(stream)
        value, exponent = draw_point(user, known, levels, root, b, block, work)
        total, top = (value, exponent) if p == 0 else _joined(total, top, value, exponent)
        if p == 0 or random(stream) * total < value * math.exp(exponent - top):
            chosen_root = root
            for i in range(n):
                chosen[i] = work.drawn[i]
    for i in range(n):
        work.drawn[i] = chosen[i]
    if is_sampled:
        return _sweep(stream, user, known, chosen_root, dof, b, block, work, away)
    return chosen_root


@compiled
def draw_cells(stream, user, known, loading, gaussians, n_points):
    """The interval cells and the others of one of the users, one draw for each of n components, (n,
    k − s)."""
    n_exact, n_intervals = known.exact.shape[1], known.low.shape[1]
    n, n_cells = gaussians.means.shape[0], loading.shape[0]
    block = new_block(n_cells, loading.shape[1], _BLOCK)
    work, levels = new_work(n_exact, n_intervals, 0, _BLOCK), np.empty(n_intervals)
    standard, away = np.empty(n_cells), np.empty(n_intervals)
    found = np.empty((n, n_cells - n_exact))
    for begin in range(0, n, _BLOCK):
        size = min(_BLOCK, n - begin)
        factorise(loading, n_exact + n_intervals, gaussians, begin, size, block)
        settle(user, known, block, size, work)
        settle_tails(known, gaussians, begin, block, size, work)
        for b in range(size):
            dof = gaussians.dofs[begin + b] if gaussians.dofs.shape[0] > 0 else math.inf
            if n_intervals > 0:
                root = _draw_inside(
                    stream, user, known, dof, n_points, b, block, levels, work, away
                )
            else:
                root = _draw_root(stream, work.squares[b], n_exact, dof)
            for i in range(n_cells):
                if i < n_exact:
                    standard[i] = work.standard[i, b]
                elif i < n_exact + n_intervals:
                    standard[i] = work.drawn[i - n_exact]
                else:
                    standard[i] = standard_normal(stream) / root
            for i in range(n_exact, n_cells):
                value = block.centres[i, b]
                for j in range(i + 1):
                    value += block.lower[i, j, b] * standard[j]
                found[begin + b, i - n_exact] = value
    return found
