"""The Gaussian kind with heavy tails: its record, and what it does otherwise than the kind with
cells that are known to an interval.

The weights λ_u of (M19) live inside a step only. ν is drawn with them integrated out; they are
drawn right afterwards, and components are redrawn, split and merged given them. Users choose their
clusters with their own weight integrated out, so that it is drawn anew where cells are drawn from
it. An auxiliary component keeps its mean: without it, and without a weight, there is no closed
form.
"""

import math
from typing import NamedTuple

import numpy as np

from dualview.numerics.compiling import compiled, in_place, standalone
from dualview.numerics.draws import log_root
from dualview.numerics.hyperprior import Hyperprior
from dualview.numerics.kinds import register
from dualview.numerics.linalg import scaled
from dualview.views.base import Array, Base, Components
from dualview.views.gaussian import density, kind
from dualview.views.gaussian.cells import (
    Cells,
    data_row,
    dot,
    draw_cells,
    project,
    project_seen,
    score_seen,
    take_out,
)
from dualview.views.gaussian.conditionals import cluster_sums, redraw_view
from dualview.views.gaussian.splitting import start_split
from dualview.views.gaussian.tails import draw_tail_dof, draw_weight, log_tails


class StudentGaussian(NamedTuple):
    """A Gaussian view with heavy tails as the sampler sees it. weights (U,): the λ_u, once
    components have been redrawn; tail_dof: ν."""

    vectors: Array
    rows: Array
    components: Components
    cores: Array
    base: Base
    hyperprior: Hyperprior
    cells: Cells
    weights: Array
    tail_dof: float


@compiled
def with_tails(components, cores, base, tail_dof, view):
    """The view with other components, cores, base and ν."""
    return StudentGaussian(
        view.vectors,
        view.rows,
        components,
        cores,
        base,
        view.hyperprior,
        view.cells,
        view.weights,
        tail_dof,
    )


@compiled
def renewed(components, cores, base, view):
    return with_tails(components, cores, base, view.tail_dof, view)


@compiled
def squares_of(z, view):
    """(x_u − μ_k)ᵀ S_k (x_u − μ_k) of every user in its component, (U,)."""
    vectors, components, squares = view.vectors, view.components, np.empty(z.shape[0])
    projection = np.empty(vectors.shape[1])
    for u in range(z.shape[0]):
        k = z[u]
        project(vectors[u], components.means[k], components.factors[k], projection)
        squares[u] = dot(projection, projection)
    return squares


@compiled
def draw_weights(rng, z, tail_dof, squares, view):
    """In place: the weights of all users given their vectors, (C23)."""
    n_dims = view.vectors.shape[1]
    for u in range(z.shape[0]):
        view.weights[u] = draw_weight(rng, squares[u], n_dims, tail_dof)


@standalone(returns="view", work=6)
def redraw(rng, z, view):
    if view.vectors.shape[1] == 0:
        return view
    squares = squares_of(z, view)
    tail_dof = draw_tail_dof(rng, squares, view.vectors.shape[1], view.tail_dof)
    draw_weights(rng, z, tail_dof, squares, view)
    sums = cluster_sums(view.vectors, z, view.components.means, view.weights)
    components, base = redraw_view(rng, sums, view.base, view.hyperprior)
    return with_tails(components, view.cores, base, tail_dof, view)


@compiled
def open_columns(rng, n_auxiliary, n_room, marginal, view):  # noqa: ARG001
    return kind.open_columns(rng, n_auxiliary, n_room, False, view)


@compiled
def score(table, offset, first, end, column, view):
    n_dims, n_missing = view.vectors.shape[1], view.cells.n_missing
    mean, factor = view.components.means[column], view.components.factors[column]
    scores, halves = table[column, first - offset : end - offset], np.zeros(end - first)
    kind.subtract_halves(halves, first, mean, factor, view.rows)
    constant = -0.5 * n_dims * math.log(2.0 * math.pi)
    for i in range(n_dims):
        constant += log_root(factor[i, i])
    for u in range(end - first):
        if n_missing[first + u] == 0:
            scores[u] += constant + log_tails(-2.0 * halves[u], n_dims, view.tail_dof)
    score_seen(scores, first, mean, factor, view.vectors, view.cells, view.tail_dof)


@compiled
def draw_own_weight(rng, u, mean, factor, view):
    """λ of user u given its cells that are not missing, (C23)."""
    cells, n_dims = view.cells, view.vectors.shape[1]
    projection, rows = np.empty(n_dims), np.empty((n_dims, n_dims))
    for d in range(n_dims):
        data_row(d, cells.inverse, factor, rows[d])
    directions, pivots = np.empty((n_dims, n_dims)), np.empty((n_dims, n_dims))
    project_seen(u, mean, factor, view.vectors, cells, rows, directions, pivots, projection)
    n_seen = n_dims - cells.n_missing[u]
    return draw_weight(rng, dot(projection, projection), n_seen, view.tail_dof)


@compiled
def complete(rng, u, column, view):
    if view.cells.starts[u + 1] > view.cells.starts[u]:
        mean, factor = view.components.means[column], view.components.factors[column]
        weight = draw_own_weight(rng, u, mean, factor, view)
        own = scaled(factor, math.sqrt(weight))
        draw_cells(rng, u, mean, own, view.cells, view.vectors, view.rows)


@standalone(returns=0.0, work=2)
def log_density(z, start, view):
    if view.vectors.shape[1] == 0:
        return start
    return start + density.log_view(
        view.vectors, z, view.components, view.base, view.hyperprior, view.tail_dof
    )


@in_place
def base_width(view):
    n_dims = view.vectors.shape[1]
    return kind.base_width(view) + view.cells.columns.shape[0] + (1 if n_dims > 0 else 0)


@in_place
def put_base(row, at, view):
    if view.vectors.shape[1] == 0:
        return at
    at = kind.put_base(row, at, view)
    row[at] = view.tail_dof
    return take_out(row, at + 1, view.cells)


@compiled
def split_start(z, counts, view):
    return start_split(z, counts, view.weights, view)


FUNCTIONS = kind.FUNCTIONS | {
    "renewed": renewed,
    "redraw": redraw,
    "open_columns": open_columns,
    "score": score,
    "complete": complete,
    "log_density": log_density,
    "base_width": base_width,
    "put_base": put_base,
    "split_start": split_start,
}
# They are of sums without weights: blocks of users redraw the whole at once.
register(
    StudentGaussian,
    **{name: own for name, own in FUNCTIONS.items() if name not in ("sums", "redraw_from")},
)
