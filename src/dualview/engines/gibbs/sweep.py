"""Sweeps in one compiled call, for users who fit in one table.

Clusters whose users share one vector have no such call: the code would be compiled for everybody and is for a few.

Both views are always there; one of no dimensions is no view. base = (μ_0, R_0, W_0, β) of a view, terms as in ``messages``,
columns as in ``assign``.
"""

import math

import numpy as np

from dualview.behaviors.likelihoods.conjugate import redraw_plain, refresh
from dualview.behaviors.likelihoods.noise import redraw_noises
from dualview.engines.gibbs.assignment import NO_WEIGHT, Lost, assign, column_counts, compact, fill, with_room
from dualview.engines.gibbs.packing import pack, row_widths
from dualview.engines.gibbs.split_merge import draw_moves, split_and_merge
from dualview.numerics.compiling import compiled, inlined
from dualview.numerics.linalg import scaled, trace
from dualview.numerics.messages import along, along_gram
from dualview.partitions.concentration import draw_alpha, draw_table_counts
from dualview.views.gaussian.auxiliary import cover
from dualview.views.gaussian.conditionals import cluster_sums, collapsed, draw_into, redraw_view
from dualview.views.gaussian.location import relocate_in_turn
from dualview.views.gaussian.scale import draw_latent_scale

ROOM = 3  # free columns beside clusters and pool; more are made when they run out


@compiled
def doubled(core):
    """With as many rows again."""
    n, n_dims = core.shape[:2]
    tall = np.empty((2 * n, n_dims, n_dims))
    for c in range(n):
        for i in range(n_dims):
            for j in range(n_dims):
                tall[c, i, j] = core[c, i, j]
    return tall


@inlined
def grow(counts, table, columns, noises, cores):
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
    columns = (means, factors, latent_means, latent_factors)
    return more, tall, columns, wide_noises, (doubled(cores[0]), doubled(cores[1]))


@inlined
def reassign(rng, z, counts, pool, table, weights, x, latent, terms, columns, noises, cores, bases):
    """``assign`` for all users of the table, with more columns as they are needed.

    Returns counts, columns, their noises and cores, clusters opened and who is lost.
    """
    first = n_opened = np.int64(0)
    while True:
        first, opened, lost = assign(
            rng, first, z, counts, pool, table, weights, x, latent, terms, columns, noises, cores, bases, -1
        )
        n_opened += opened
        if lost.user >= 0 or first == z.shape[0]:
            return counts, columns, noises, cores, n_opened, lost
        counts, table, columns, noises, cores = grow(counts, table, columns, noises, cores)


@inlined
def rescale_latent(rng, z, means, base_covariance, latent, terms):
    """In place on latent and residuals: the joint move of W_0, the S_k and the latent vectors; returns the new W_0."""
    starts, rows, loads, _, residual, precision, gram, weighted, _, _ = terms
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
def redraw_from(rng, z, vectors, means, base, hyperprior):
    """``redraw_view`` from the vectors."""
    counts, totals, scatters = cluster_sums(vectors, z, means)
    return redraw_view(rng, counts, totals, scatters, base[0], base[1], base[2], base[3], hyperprior)


@compiled
def with_pool(rng, means, factors, n_pool, n_room, base, covered):
    """Components as columns: the clusters', n_pool from the base, and room; and the core of their pool, with rows if covered.

    Vectors that users share have nothing to be covered.
    """
    first, n_dims = means.shape
    means, factors = with_room(means, factors, n_pool + n_room)
    draw_into(rng, first, first + n_pool, means, factors, base[0], base[1], base[2], base[3])
    core = np.empty((means.shape[0] if covered and n_pool > 0 and 0 < n_dims <= factors.shape[1] else 0, n_dims, n_dims))
    for c in range(first, first + n_pool):
        cover(c, means, factors, core, base)
    return means, factors, core


@compiled
def collapsed_view(covariance, latent_covariance):
    """The first view whose clusters have shrunk onto single points: 0, 1, or −1 for none."""
    if collapsed(covariance):
        return 0
    return 1 if collapsed(latent_covariance) else -1


@inlined
def weights_of(alpha, n_fixed, n_pool):
    """What a component weighs beyond its count, and what each of the pool weighs."""
    if n_fixed == 0:
        weights = 0.0, alpha / n_pool
    elif n_fixed == 1:
        weights = 1.0, 0.0
    else:
        weights = alpha / n_fixed, 0.0
    return weights


@compiled
def columns_in_use(counts):
    """The columns up to the last that is not free."""
    n = counts.shape[0]
    while n > 0 and counts[n - 1] < 0:
        n -= 1
    return n


@inlined
def sweep(
    rng, z, alpha, n_fixed, alpha_prior, n_pool, features, x, means, base, latent, latent_means, latent_base, terms, hyperpriors
):
    """Scale and location of the latent vectors, views, splits and merges, clusters' noise, assignments, α.

    n_fixed: the number of components, 0 when it is inferred; then there is a pool, n_pool as in ``assign``. features (U, D) and
    x (D, U) are the same numbers; hyperpriors, those of features and of latent vectors. z, latent and the residuals change in
    place. Returns α, the users of the components, clusters opened, who is lost, columns, and the base of each view.
    """
    if latent.shape[1] > 0:
        covariance = rescale_latent(rng, z, latent_means, latent_base[2], latent, terms)
        latent_base = (latent_base[0], latent_base[1], covariance, latent_base[3])
        latent_means = relocate_in_turn(rng, z, latent_means, latent_base, latent, terms)
    means, factors, mean, precision, covariance, dof = redraw_from(rng, z, features, means, base, hyperpriors[0])
    base = (mean, precision, covariance, dof)
    drawn = redraw_from(rng, z, latent, latent_means, latent_base, hyperpriors[1])
    latent_means, latent_factors, mean, precision, covariance, dof = drawn
    latent_base = (mean, precision, covariance, dof)
    n_moves = draw_moves(rng, n_fixed, terms[8])
    room = 0 if n_fixed else ROOM + n_moves
    n_components = means.shape[0]
    means, factors, core = with_pool(rng, means, factors, n_pool, room, base, True)
    latent_means, latent_factors, latent_core = with_pool(rng, latent_means, latent_factors, n_pool, room, latent_base, True)
    columns = (means, factors, latent_means, latent_factors)
    counts = column_counts(z, n_components, n_pool, means.shape[0])
    split_and_merge(rng, n_moves, z, counts, alpha, features, latent, columns, (base, latent_base))
    n_columns = min(columns_in_use(counts) + (0 if n_fixed else ROOM), counts.shape[0])
    counts, means, factors = counts[:n_columns], means[:n_columns], factors[:n_columns]
    columns = (means, factors, latent_means[:n_columns], latent_factors[:n_columns])
    table = np.empty((n_columns, z.shape[0]))
    fill(table, 0, n_columns, x, counts, means, factors)
    pool = np.empty(n_pool, dtype=np.int64)
    for j in range(n_pool):
        pool[j] = n_components + j
    noises = redraw_noises(rng, z, terms, n_columns)
    weights = weights_of(alpha, n_fixed, n_pool)
    cores, bases = (core, latent_core), (base, latent_base)
    counts, columns, _, _, n_opened, lost = reassign(
        rng, z, counts, pool, table, weights, x, latent, terms, columns, noises, cores, bases
    )
    if n_fixed > 1:
        alpha = draw_alpha(rng, draw_table_counts(rng, counts, weights[0]), z.shape[0], alpha, alpha_prior)
    elif n_fixed == 0:
        columns = compact(z, counts, columns)
        counts = column_counts(z, columns[0].shape[0], 0, columns[0].shape[0])
        alpha = draw_alpha(rng, columns[0].shape[0], z.shape[0], alpha, alpha_prior)
    return alpha, counts, n_opened, lost, columns, base, latent_base


@compiled
def sweeps(
    streams,
    keep,
    z,
    alpha,
    n_fixed,
    alpha_prior,
    n_pool,
    features,
    x,
    columns,
    base,
    latent,
    latent_base,
    terms,
    plain,
    hyperpriors,
):
    """Sweeps with all that a plain likelihood redraws, one for each of the streams; those in keep (n,) are draws.

    Other likelihoods redraw their parameters themselves: for them there is one stream, and nothing to keep. z, latent, terms
    and plain change in place. Ends early when a user is lost (see ``assign``), when a view has collapsed, or when a
    joint draw has to be made elsewhere (then the last sweep is unfinished, and not kept).

    Returns how many sweeps there were; α; users of the components; clusters opened; who is lost; the
    collapsed view (or −1); whether the last sweep is unfinished; columns; the base of each view; and, as in ``packing``, rows
    and labels of the draws, how many components each has, and the components.
    """
    n_users = z.shape[0]
    width, component_width = row_widths(n_users, features.shape[1], latent.shape[1], plain[2].shape[0])
    n_kept = 0
    for i in range(streams.shape[0]):
        n_kept += keep[i]
    rows, labels = np.empty((n_kept, width)), np.empty((n_kept, n_users), dtype=np.int32)
    n_components = np.empty(n_kept, dtype=np.int64)
    components = np.empty((n_kept * (columns[0].shape[0] + 2), component_width))
    done = n_opened = 0
    draw = used = np.int64(0)
    lost, stuck = Lost(-1, NO_WEIGHT), -1
    unfinished = False
    counts = np.empty(0, dtype=np.int64)
    if plain[0].shape[0] > 0:
        refresh(latent, terms, plain)
    for i in range(streams.shape[0]):
        alpha, counts, opened, lost, columns, base, latent_base = sweep(
            streams[i],
            z,
            alpha,
            n_fixed,
            alpha_prior,
            n_pool,
            features,
            x,
            columns[0],
            base,
            latent,
            columns[2],
            latent_base,
            terms,
            hyperpriors,
        )
        done, n_opened = i + 1, n_opened + opened
        stuck = collapsed_view(base[2], latent_base[2])
        if lost.user >= 0 or stuck >= 0:
            break
        if plain[0].shape[0] > 0 and not redraw_plain(streams[i], z, latent, columns[2], columns[3], terms, plain):
            unfinished = True
            break
        if keep[i]:
            state = (z, counts, alpha, columns, base, latent, latent_base)
            components, used = pack(
                draw, rows, labels, used, components, state, n_fixed, alpha_prior, features, terms, plain, hyperpriors
            )
            n_components[draw] = counts.shape[0]
            draw += 1
    kept = (rows[:draw], labels[:draw], n_components[:draw], components[:used])
    return done, alpha, counts, n_opened, lost, stuck, unfinished, columns, base, latent_base, kept
