"""One sweep over everything but the likelihood's own parameters, in one compiled call, for users who fit in one table.

Clusters whose users share one vector have no such call: the code would be compiled for everybody and is for a few.

Both views are always there; one of no dimensions is no view. base = (μ_0, R_0, W_0, β) of a view, terms as in ``messages``,
columns as in ``assign``.
"""

import math

import numpy as np

from dualview.kernels.assign import assign, column_counts, compact, fill, with_room
from dualview.kernels.compiling import compiled, inlined
from dualview.kernels.concentration import draw_alpha, draw_table_counts
from dualview.kernels.gaussian import cluster_sums, collapsed, draw_into, redraw_view
from dualview.kernels.linalg import scaled, trace
from dualview.kernels.messages import along, along_gram
from dualview.kernels.noise import redraw_noises
from dualview.kernels.scales import draw_latent_scale

ROOM = 3  # free columns beside clusters and pool; more are made when they run out


@inlined
def grow(counts, table, columns, noises):
    """Everything with as many columns again, all free."""
    n, n_users = table.shape
    tall, more = np.empty((2 * n, n_users)), np.empty(2 * n, dtype=np.int64)
    for c in range(2 * n):
        more[c] = counts[c] if c < n else -1
        for u in range(n_users if c < n else 0):
            tall[c, u] = table[c, u]
    means, factors = with_room(columns[0], columns[1], n)
    latent_means, latent_factors = with_room(columns[2], columns[3], n)
    wide_noises = np.empty(2 * noises.shape[0])
    for c in range(noises.shape[0]):
        wide_noises[c] = noises[c]
    return more, tall, (means, factors, latent_means, latent_factors), wide_noises


@inlined
def reassign(rng, z, counts, pool, table, weights, x, latent, terms, columns, noises, bases):
    """``assign`` for all users of the table, with more columns as they are needed.

    Returns counts, columns, their noises, clusters opened and the user without a column of positive weight, or −1.
    """
    first = n_opened = np.int64(0)
    while True:
        first, opened = assign(rng, first, z, counts, pool, table, weights, x, latent, terms, columns, noises, bases, -1)
        n_opened += opened
        if first < 0 or first == z.shape[0]:
            return counts, columns, noises, n_opened, -1 - first if first < 0 else -1
        counts, table, columns, noises = grow(counts, table, columns, noises)


@inlined
def rescale_latent(rng, z, means, base_covariance, latent, terms):
    """In place on latent and residuals: the joint move of W_0, the S_k and the latent vectors; returns the new W_0."""
    starts, rows, loads, _, residual, precision, gram, weighted, _ = terms
    if gram.shape[0] > 0:
        slope, curvature = along_gram(z, means, latent, precision, gram, weighted)
        effect = np.empty(0)
    else:
        slope, curvature, effect = along(z, means, latent, starts, rows, loads, residual, precision)
    scale = draw_latent_scale(rng, slope, curvature, trace(base_covariance), latent.shape[1])
    root = math.sqrt(scale)
    for u in range(z.shape[0]):
        for i in range(latent.shape[1]):
            latent[u, i] = means[z[u], i] + root * (latent[u, i] - means[z[u], i])
    for t in range(effect.shape[0]):
        residual[t] -= (root - 1.0) * effect[t]
    return scaled(base_covariance, scale)


@inlined
def redraw_from(rng, z, vectors, means, base):
    """``redraw_view`` from the vectors."""
    counts, totals, scatters = cluster_sums(vectors, z, means)
    return redraw_view(rng, counts, totals, scatters, base[0], base[1], base[2], base[3])


@compiled
def with_pool(rng, means, factors, n_pool, n_room, base):
    """Components as columns: the clusters', n_pool from the base, and room."""
    first = means.shape[0]
    means, factors = with_room(means, factors, n_pool + n_room)
    draw_into(rng, first, first + n_pool, means, factors, base[0], base[1], base[2], base[3])
    return means, factors


@compiled
def collapsed_view(covariance, latent_covariance):
    """The first view whose clusters have shrunk onto single points: 0, 1, or −1 for none."""
    if collapsed(covariance):
        return 0
    return 1 if collapsed(latent_covariance) else -1


@compiled
def sweep(rng, z, alpha, n_fixed, n_pool, weights, features, x, means, base, latent, latent_means, latent_base, terms):
    """Scale of the latent vectors, views, clusters' noise, assignments, α; n_fixed: components, 0 when inferred.

    n_pool and weights as in ``assign``: there is a pool when the number of components is inferred. features (U, D) and x (D, U)
    are the same numbers. z, latent and the residuals change in place. Returns α, the number of clusters and of those opened, a
    user without a column of positive weight (or −1), a view that has collapsed (or −1), columns, and the base of each view.
    """
    if latent.shape[1] > 0:
        covariance = rescale_latent(rng, z, latent_means, latent_base[2], latent, terms)
        latent_base = (latent_base[0], latent_base[1], covariance, latent_base[3])
    means, factors, mean, precision, covariance, dof = redraw_from(rng, z, features, means, base)
    base = (mean, precision, covariance, dof)
    latent_means, latent_factors, mean, precision, covariance, dof = redraw_from(rng, z, latent, latent_means, latent_base)
    latent_base = (mean, precision, covariance, dof)
    room = 0 if n_fixed else ROOM
    n_components = means.shape[0]
    means, factors = with_pool(rng, means, factors, n_pool, room, base)
    latent_means, latent_factors = with_pool(rng, latent_means, latent_factors, n_pool, room, latent_base)
    columns = (means, factors, latent_means, latent_factors)
    n_columns = means.shape[0]
    counts = column_counts(z, n_components, n_pool, n_columns)
    table = np.empty((n_columns, z.shape[0]))
    fill(table, 0, n_columns, x, counts, means, factors)
    pool = np.empty(n_pool, dtype=np.int64)
    for j in range(n_pool):
        pool[j] = n_components + j
    noises = redraw_noises(rng, z, terms, n_columns)
    counts, columns, _, n_opened, lost = reassign(
        rng, z, counts, pool, table, weights, x, latent, terms, columns, noises, (base, latent_base)
    )
    if n_fixed:
        alpha = draw_alpha(rng, draw_table_counts(rng, counts, weights[0]), z.shape[0], alpha) if n_fixed > 1 else alpha
    else:
        columns = compact(z, counts, columns)
        alpha = draw_alpha(rng, columns[0].shape[0], z.shape[0], alpha)
    n_clusters = 0
    for c in range(counts.shape[0]):
        n_clusters += counts[c] > 0
    return alpha, n_clusters, n_opened, lost, collapsed_view(base[2], latent_base[2]), columns, base, latent_base
