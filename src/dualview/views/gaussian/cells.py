"""Cells of a table that are known to an interval only, (M14): missing, censored, rounded, counts,
ordered levels.

The view's vectors are complete; cells that are not exact are drawn with the rest. Intervals belong
to columns of the data, while vectors are in working units: x̃ = L⁻¹(x − m). So cells are drawn in
the data's units, and their users' vectors are made from them again.

Missing cells are integrated out while a user chooses its cluster, and drawn together right
afterwards, so that both move as one. Other cells stay where they are while it chooses, and are
drawn one after the other, (C16).

With T the upper factor of a component's precision in working units, A = L⁻ᵀ T is one in the data's:
S = A Aᵀ.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.draws import log_root
from dualview.numerics.streams import standard_normal
from dualview.numerics.truncated import truncated_normal
from dualview.views.base import Array
from dualview.views.gaussian.tails import log_tails


class Cells(NamedTuple):
    """The cells of user u: from starts[u] to starts[u + 1], the missing ones first.

    columns (n,), lows (n,), highs (n,): where cells are and the bounds of their intervals.
    n_missing (U,). values (U, D): the whole table. Bounds and values are in the data's units. mean
    (D,): m. inverse (D, D): L⁻¹.
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.int64]
    lows: Array
    highs: Array
    n_missing: NDArray[np.int64]
    values: Array
    mean: Array
    inverse: Array


@in_place
def whiten(u, cells, vectors, rows):
    """In place: the vector of user u, from its values."""
    for i in range(vectors.shape[1]):
        total = 0.0
        for j in range(i + 1):
            total += cells.inverse[i, j] * (cells.values[u, j] - cells.mean[j])
        vectors[u, i] = total
        rows[i, u] = total


@compiled
def put_in(drawn, cells, vectors, rows):
    """In place: drawn values (n,) into the cells, and the vectors of their users."""
    for u in range(vectors.shape[0]):
        for i in range(cells.starts[u], cells.starts[u + 1]):
            cells.values[u, cells.columns[i]] = drawn[i]
        if cells.starts[u + 1] > cells.starts[u]:
            whiten(u, cells, vectors, rows)


@in_place
def take_out(row, at, cells):
    """In place: the cells' values into a row from a place on; returns the place after them."""
    for u in range(cells.starts.shape[0] - 1):
        for i in range(cells.starts[u], cells.starts[u + 1]):
            row[at + i] = cells.values[u, cells.columns[i]]
    return at + cells.columns.shape[0]


@in_place
def project(vector, mean, factor, projection):
    """In place: projection = Tᵀ(x̃ − μ)."""
    for i in range(vector.shape[0]):
        projection[i] = 0.0
        for j in range(i + 1):
            projection[i] += factor[j, i] * (vector[j] - mean[j])


@in_place
def data_row(column, inverse, factor, row):
    """In place: the row of A of one column of the data."""
    for i in range(row.shape[0]):
        row[i] = 0.0
        for j in range(column, i + 1):  # L⁻¹ is lower triangular, T upper
            row[i] += inverse[j, column] * factor[j, i]


@in_place
def dot(first, second):
    """Σ a_i b_i."""
    total = 0.0
    for i in range(first.shape[0]):
        total += first[i] * second[i]
    return total


@in_place
def orthogonalize(directions, factor):
    """In place: A = F Q with F = factor upper, (n, n), and Q orthonormal, (n, …), which takes the
    place of A = directions.

    From the last row upwards. The rows of a component's A begin with zeros, the more the later they
    are, so that a tiny pivot of the component stays exact, where a product A Aᵀ would round it
    away.
    """
    n, width = directions.shape
    for i in range(n - 1, -1, -1):
        for j in range(n - 1, i, -1):
            factor[i, j] = dot(directions[i], directions[j])
            for k in range(width):
                directions[i, k] -= factor[i, j] * directions[j, k]
        factor[i, i] = math.sqrt(dot(directions[i], directions[i]))
        for k in range(width):
            directions[i, k] /= factor[i, i]


@in_place
def remove(projection, directions):
    """In place: the part of a projection that orthonormal directions do not span."""
    for i in range(directions.shape[0]):
        part = dot(directions[i], projection)
        for k in range(projection.shape[0]):
            projection[k] -= part * directions[i, k]


@in_place
def project_seen(u, mean, factor, vectors, cells, rows, directions, pivots, projection):
    """In place: projection = p − Qᵀ Q p, what user u's cells that are not missing say, and pivots =
    F, as in ``score_seen``.

    rows (D, D): those of A. directions (D, D): to work in.
    """
    n, n_dims = cells.n_missing[u], vectors.shape[1]
    project(vectors[u], mean, factor, projection)
    for i in range(n):
        for k in range(n_dims):
            directions[i, k] = rows[cells.columns[cells.starts[u] + i], k]
    orthogonalize(directions[:n], pivots)
    remove(projection, directions[:n])


@compiled
def score_seen(scores, first, mean, factor, vectors, cells, tail_dof):
    """In place on the scores (n,) of users from the first on: + ln p(what is not missing |
    component), where they miss cells.

    Up to a constant of the user. tail_dof: ν, ∞ of a normal distribution.

    With F Q the rows of A that are missing: ln |T| − ln |F| − |p − Qᵀ Q p|²/2 + (|M| − D) ln 2π /
    2, p = Tᵀ(x̃ − μ). What the missing cells hold has no part in it: it is taken out of p, not out
    of the square of p, which may be larger by far.
    """
    n_dims = vectors.shape[1]
    projection, rows, directions = (
        np.empty(n_dims),
        np.empty((n_dims, n_dims)),
        np.empty((n_dims, n_dims)),
    )
    pivots, height = np.empty((n_dims, n_dims)), 0.0
    for d in range(n_dims):
        data_row(d, cells.inverse, factor, rows[d])
        height += log_root(factor[d, d])
    for u in range(first, first + scores.shape[0]):
        n = cells.n_missing[u]
        if n == 0:
            continue
        total = height - 0.5 * (n_dims - n) * math.log(2.0 * math.pi)
        if height > -math.inf:
            project_seen(u, mean, factor, vectors, cells, rows, directions, pivots, projection)
            for i in range(n):
                total -= math.log(pivots[i, i])
            total += log_tails(dot(projection, projection), n_dims - n, tail_dof)
        scores[u - first] += total


@compiled
def draw_cells(rng, u, mean, factor, cells, vectors, rows):
    """In place: the cells of user u, whose component has this mean and this factor; its vector from
    them."""
    start, n_dims = cells.starts[u], vectors.shape[1]
    n = cells.starts[u + 1] - start
    projection, directions = np.empty(n_dims), np.empty((n, n_dims))
    project(vectors[u], mean, factor, projection)
    for i in range(n):
        data_row(cells.columns[start + i], cells.inverse, factor, directions[i])
    draw_along(rng, u, cells, projection, directions)
    whiten(u, cells, vectors, rows)


@compiled
def draw_along(rng, u, cells, projection, directions):
    """In place on values, projection and directions: the cells of user u, whose log density is
    −|projection|²/2.

    directions (n, …): by what the projection changes for a unit of each cell.
    """
    start, n, n_missing = cells.starts[u], directions.shape[0], cells.n_missing[u]
    draw_missing(rng, u, cells, projection, directions[:n_missing])
    for i in range(n_missing, n):
        at, d = start + i, cells.columns[start + i]
        precision, before = dot(directions[i], directions[i]), cells.values[u, d]
        centre = before - dot(directions[i], projection) / precision
        drawn = truncated_normal(
            rng, centre, 1.0 / math.sqrt(precision), cells.lows[at], cells.highs[at]
        )
        cells.values[u, d] = drawn
        for j in range(projection.shape[0]):
            projection[j] += directions[i, j] * (drawn - before)


@compiled
def draw_missing(rng, u, cells, projection, directions):
    """In place on values, projection and directions: the missing cells of user u, together;
    directions: their rows of A."""
    n = directions.shape[0]
    factor, step = np.empty((n, n)), np.empty(n)
    orthogonalize(directions, factor)
    for i in range(n):
        step[i] = standard_normal(rng) - dot(directions[i], projection)
        for k in range(projection.shape[0]):
            projection[k] += step[i] * directions[i, k]
    for i in range(n):  # the projection moves by Aᵀ δ = Qᵀ Fᵀ δ
        for j in range(i):
            step[i] -= factor[j, i] * step[j]
        step[i] /= factor[i, i]
        cells.values[u, cells.columns[cells.starts[u] + i]] += step[i]
