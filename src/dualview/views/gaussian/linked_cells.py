"""Cells of a table known to an interval only, where latent vectors follow features by a link, f_u =
g_u + Γ x̃_u + …, (M12).

A cell is then in the mean of f_u too. Users choose their clusters while all cells stay where they
are, and cells are drawn afterwards, (C16), in one of two ways. With f_u held, g_u moves against the
cells: to the projection on the features' component comes that of g_u on its own, and precisions are
S_dd + Γ_dᵀ S^f Γ_d. Where users share the vectors of their clusters g_u cannot move; then f_u does,
and with it the expectations of the user's observations.

weights (U,): of users, where clusters have heavy tails, (M19): their precision is λ_u S; empty
where all are 1.
"""

import math
from typing import NamedTuple

import numpy as np

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.linalg import scaled
from dualview.numerics.messages import Terms
from dualview.views.base import Array, Components, Labels
from dualview.views.gaussian.cells import data_row, draw_along, project, whiten


class Followers(NamedTuple):
    """Latent vectors that follow features: Γ (q, D) of the features, g (U, q), and what speaks for
    the cells besides them.

    That is the prior of g in each cluster or, where users share the vectors of their clusters,
    their observations. acts (U,): the clusters that latent vectors belong to.
    """

    slopes: Array
    deviations: Array
    prior: Components | None
    terms: Terms | None
    acts: Labels


@in_place
def slope(column, slopes, inverse, row):
    """In place: by what a link's shift changes for a unit of one column of the data, Γ L⁻¹ e_d
    (q,)."""
    for i in range(row.shape[0]):
        row[i] = 0.0
        for j in range(column, inverse.shape[0]):
            row[i] += slopes[i, j] * inverse[j, column]


@compiled
def own_factor(u, column, components, weights):
    """The factor of the precision of user u's vector in a component."""
    weight = weights[u] if weights.shape[0] > 0 else 1.0
    return scaled(components.factors[column], math.sqrt(weight))


@compiled
def draw_with_latent(rng, z, acts, view, weights, slopes, prior, deviations):
    """In place on cells, vectors and g (U, q): the cells of all users, with f held; prior: that of
    g in each cluster."""
    cells, components, vectors = view.cells, view.components, view.vectors
    n_dims, q = vectors.shape[1], slopes.shape[0]
    shift = np.empty(q)
    for u in range(vectors.shape[0]):
        start, n = cells.starts[u], cells.starts[u + 1] - cells.starts[u]
        if n == 0:
            continue
        k, own = z[u], acts[u]
        projection, directions, before = (
            np.empty(n_dims + q),
            np.empty((n, n_dims + q)),
            np.empty(n),
        )
        factor = own_factor(u, k, components, weights)
        project(vectors[u], components.means[k], factor, projection[:n_dims])
        project(deviations[u], prior.means[own], prior.factors[own], projection[n_dims:])
        for i in range(n):
            d = cells.columns[start + i]
            before[i] = cells.values[u, d]
            data_row(d, cells.inverse, factor, directions[i, :n_dims])
            slope(d, slopes, cells.inverse, shift)
            for a in range(q):
                directions[i, n_dims + a] = 0.0
                for b in range(a + 1):
                    directions[i, n_dims + a] -= prior.factors[own][b, a] * shift[b]
        draw_along(rng, u, cells, projection, directions)
        for i in range(n):
            d = cells.columns[start + i]
            slope(d, slopes, cells.inverse, shift)
            for a in range(q):
                deviations[u, a] -= shift[a] * (cells.values[u, d] - before[i])
        whiten(u, cells, vectors, view.rows)


@compiled
def draw_with_observations(rng, z, view, weights, slopes, terms):
    """In place on cells, vectors and residuals: the cells of all users, with g held."""
    cells, components, vectors = view.cells, view.components, view.vectors
    n_dims, q = vectors.shape[1], slopes.shape[0]
    shift = np.empty(q)
    for u in range(vectors.shape[0]):
        start, n = cells.starts[u], cells.starts[u + 1] - cells.starts[u]
        if n == 0:
            continue
        k, first, n_seen = z[u], terms.starts[u], terms.starts[u + 1] - terms.starts[u]
        projection, directions = np.empty(n_dims + n_seen), np.empty((n, n_dims + n_seen))
        factor = own_factor(u, k, components, weights)
        project(vectors[u], components.means[k], factor, projection[:n_dims])
        for t in range(n_seen):
            projection[n_dims + t] = (
                root_precision(first + t, terms) * terms.residual[terms.rows[first + t]]
            )
        for i in range(n):
            d = cells.columns[start + i]
            data_row(d, cells.inverse, factor, directions[i, :n_dims])
            slope(d, slopes, cells.inverse, shift)
            for t in range(n_seen):
                directions[i, n_dims + t] = 0.0
                for a in range(q):
                    directions[i, n_dims + t] -= terms.loads[first + t, a] * shift[a]
                directions[i, n_dims + t] *= root_precision(first + t, terms)
        draw_along(rng, u, cells, projection, directions)
        for t in range(n_seen):
            terms.residual[terms.rows[first + t]] = projection[n_dims + t] / root_precision(
                first + t, terms
            )
        whiten(u, cells, vectors, view.rows)


@in_place
def root_precision(at, terms):
    """√w of the observation at a place of the users' rows."""
    precision = terms.precision
    return math.sqrt(precision[terms.rows[at]] if precision.shape[0] > 1 else precision[0])
