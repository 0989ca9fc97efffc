"""The assignment sweep over columns: clusters, a pool of auxiliary components, and free room.

Neal's algorithm 8 (2000) with auxiliary components that are kept and reused from user to user (Favaro and Teh 2013): m of them
come from the base distributions before a sweep. A user who leaves a cluster empty puts its parameters in place of a pool member
chosen at random; a user who takes a pool member makes it a cluster, and a fresh one takes its place. The means of pool members
are integrated out, see ``pool``.

The features' log likelihoods come as a table. A latent vector is integrated out while its user chooses, and drawn right
afterwards: z_u and f_u move together. Where the users of a cluster share one vector, f_u is that of the cluster chosen.

Shapes: counts (C,) of every column: users of a cluster, 0 for a pool member (m > 0) or an empty component (m = 0), −1 for free
room; pool (m,) columns; table (C, U); columns = (means, factors) of both views, (C, D) and (C, D, D). A view of no dimensions
adds nothing. Latent means (C, q) with factors (C, 0, 0) are vectors that users share. terms as in ``messages``, noises (C,) as
in ``noise``, cores as in ``pool`` and bases those of the two views.
"""

import math
from typing import NamedTuple

import numpy as np

from dualview.behaviors.likelihoods.noise import draw_noise, misfit_of, noise_gain, set_noise
from dualview.numerics.compiling import compiled, inlined
from dualview.numerics.draws import log_root, place_of
from dualview.numerics.linalg import copy_into
from dualview.numerics.messages import (
    draw_latent,
    draw_one,
    evidence,
    evidence_of_one,
    gain,
    grip_of,
    grip_of_one,
    pull_of,
    pull_of_one,
    row_times,
    shift,
)
from dualview.numerics.streams import random
from dualview.views.gaussian.auxiliary import cover, uncover
from dualview.views.gaussian.conditionals import draw_into

NO_WEIGHT = -1  # what ``choose`` returns where no column has any weight
NOT_FINITE = -2  # and less by i, where the exponent of column i is NaN or +inf


class Lost(NamedTuple):
    """A user without a column to go to, −1 for nobody, and what ``choose`` returned for it."""

    user: int
    verdict: int

    @property
    def column(self) -> int | None:
        """The column whose exponent is NaN or +inf; None where there is none."""
        return NOT_FINITE - self.verdict if self.verdict <= NOT_FINITE else None


@compiled
def tabulate(table, first, column, x, mean, factor):
    """In place: ln p(x_u | column) for users u from first on."""
    n_dims, n_users = x.shape
    constant = -0.5 * n_dims * math.log(2.0 * math.pi)
    for i in range(n_dims):
        constant += log_root(factor[i, i])
    for u in range(first, n_users):
        table[column, u] = constant
    projection = np.empty(n_users)
    for i in range(n_dims):
        for j in range(i + 1):
            weight, centre = factor[j, i], mean[j]
            if j == 0:
                for u in range(first, n_users):
                    projection[u] = weight * (x[j, u] - centre)
            else:
                for u in range(first, n_users):
                    projection[u] += weight * (x[j, u] - centre)
        for u in range(first, n_users):
            table[column, u] -= 0.5 * projection[u] * projection[u]


@inlined
def fill(table, first, end, x, counts, means, factors):
    """In place: the table of the columns in use from first to end."""
    for c in range(first, end):
        if counts[c] >= 0:
            tabulate(table, np.int64(0), c, x, means[c], factors[c])


@inlined
def _weight(count, spread, new_weight, n_pool):
    """What a column weighs before likelihoods."""
    if count < 0:
        weight = 0.0
    elif count == 0 and n_pool > 0:
        weight = new_weight
    else:
        weight = count + spread
    return weight


@inlined
def choose(weights, exponents, uniform):
    """Index i with probability ∝ weights[i] exp(exponents[i]), by inversion of one uniform number.

    An exponent of −inf leaves an index out: a density that has run below all numbers. NO_WEIGHT if that leaves none. An
    exponent of NaN or +inf is no density: NOT_FINITE − i for the first such i. The weights are used up.
    """
    top, chosen = -math.inf, NO_WEIGHT
    for i in range(weights.shape[0]):
        if weights[i] != 0.0 and not exponents[i] <= top:
            top = exponents[i]
            if chosen == NO_WEIGHT and not top < math.inf:
                chosen = NOT_FINITE - i
    if chosen == NO_WEIGHT and top > -math.inf:
        total = 0.0
        for i in range(weights.shape[0]):
            if weights[i] != 0.0:
                weights[i] *= math.exp(exponents[i] - top)
                total += weights[i]
        if 0.0 < total < math.inf:
            chosen = place_of(uniform * total, weights)
    return chosen


@inlined
def leave(rng, own, counts, pool):
    """In place: one user less in its cluster; an emptied one goes to the pool. Returns the column that became free, or −1."""
    counts[own] -= 1
    freed = -1
    if counts[own] == 0 and pool.shape[0] > 0:
        slot = min(int(random(rng) * pool.shape[0]), pool.shape[0] - 1)
        freed = pool[slot]
        counts[freed] = -1
        pool[slot] = own
    return freed


@compiled
def replace_in_pool(chosen, counts, pool):
    """In place: a free column takes the chosen one's place in the pool; returns it."""
    slot = fresh = 0
    while pool[slot] != chosen:
        slot += 1
    while counts[fresh] >= 0:
        fresh += 1
    pool[slot] = fresh
    counts[fresh] = 0
    return fresh


@compiled
def assign(rng, first, z, counts, pool, table, weights, x, latent, terms, columns, noises, cores, bases, most):
    """In place on all but weights, x and bases: redraw z_u and f_u for u = first, first + 1, …, (C11).

    weights = (spread, new_weight): a cluster weighs its count + spread, a pool member new_weight. Returns (u, opened, lost):
    u = U when all are done, less when there is no free column left for user u, when most clusters have been opened (−1: no
    limit), or when user u cannot choose a column; lost says that, a ``Lost``.
    """
    means, factors, latent_means, latent_factors = columns
    starts, rows, loads, squares, residual, precision, gram, weighted, noise, noise_dof = terms
    apart, by_cluster = gram.shape[0] == 0, noise.shape[0] > 0
    core, latent_core = cores
    base, latent_base = bases
    spread, new_weight = weights
    n_columns, n_users = table.shape
    n_latent, n_pool = latent.shape[1], pool.shape[0]
    pooled = latent_factors.shape[1] < n_latent
    column_weights, exponents, seen = np.empty(n_columns), np.empty(n_columns), np.empty(x.shape[0])
    pull, gap, step = np.empty(n_latent), np.empty(n_latent), np.empty(n_latent)
    grip, matrix = np.empty((n_latent, n_latent)), np.empty((n_latent, n_latent))
    n_free = n_opened = 0
    for c in range(n_columns):
        n_free += counts[c] < 0
    for u in range(first, n_users):
        if (n_pool > 0 and n_free == 0) or n_opened == most:
            return u, n_opened, Lost(-1, NO_WEIGHT)
        own = z[u]
        if leave(rng, own, counts, pool) >= 0:
            n_free += 1
            cover(own, means, factors, core, base)
            cover(own, latent_means, latent_factors, latent_core, latent_base)
            if core.shape[0] > 0:
                tabulate(table, u, own, x, means[own], factors[own])
        pull_one = grip_one = latent_one = 0.0
        if n_latent == 1:
            latent_one = latent[u, 0]
            if apart:
                pull_one = pull_of_one(starts[u], starts[u + 1], rows, loads, residual, precision)
            else:
                pull_one = precision[0] * (weighted[u] - row_times(gram, u, latent))
            grip_one = grip_of_one(u, starts[u], starts[u + 1], rows, loads, squares, precision)
            pull[0], grip[0, 0] = pull_one, grip_one
        elif n_latent > 1:
            pull_of(starts[u], starts[u + 1], rows, loads, residual, precision, pull)
            grip_of(u, starts[u], starts[u + 1], rows, loads, squares, precision, grip)
        ratio = 1.0
        misfit = misfit_of(starts[u], starts[u + 1], rows, residual, precision) if by_cluster else 0.0
        for c in range(n_columns):
            column_weights[c] = _weight(counts[c], spread, new_weight, n_pool)
            if column_weights[c] != 0.0:
                exponents[c] = table[c, u]
                if by_cluster:
                    ratio = noises[c] / noise[u]
                    exponents[c] += noise_gain(ratio, starts[u + 1] - starts[u], misfit)
                if pooled:
                    exponents[c] += ratio * gain(latent_means[c], latent[u], pull, grip)
                elif n_latent == 1:
                    exponent, factor = evidence_of_one(
                        latent_means[c, 0], latent_factors[c, 0, 0], latent_one, ratio * pull_one, ratio * grip_one
                    )
                    exponents[c] += exponent
                    column_weights[c] *= factor
                elif n_latent > 1:
                    exponents[c] += evidence(latent_means[c], latent_factors[c], latent[u], ratio, pull, grip, gap, matrix)
        chosen = choose(column_weights, exponents, random(rng))
        if chosen < 0:
            return u, n_opened, Lost(u, chosen)
        opens = counts[chosen] == 0 and n_pool > 0
        if opens:
            fresh = replace_in_pool(chosen, counts, pool)
            n_free -= 1
            n_opened += 1
            renew(rng, fresh, columns, noises, noise_dof, cores, bases)
            tabulate(table, u + 1, fresh, x, means[fresh], factors[fresh])
        counts[chosen] += 1
        z[u] = chosen
        if by_cluster:
            ratio = noises[chosen] / noise[u]
            set_noise(u, noises[chosen], noise, starts, rows, precision)
        if pooled:
            for i in range(n_latent):
                step[i] = latent_means[chosen, i] - latent[u, i]
                latent[u, i] = latent_means[chosen, i]
        elif n_latent == 1:
            mean, factor = latent_means[chosen, 0], latent_factors[chosen, 0, 0]
            latent[u, 0] = draw_one(rng, mean, factor, latent_one, ratio * pull_one, ratio * grip_one)
            step[0] = latent[u, 0] - latent_one
        elif n_latent > 1:
            evidence(latent_means[chosen], latent_factors[chosen], latent[u], ratio, pull, grip, gap, matrix)
            draw_latent(rng, latent_means[chosen], latent[u], gap, matrix, step)
        if opens:
            for i in range(x.shape[0]):
                seen[i] = x[i, u]
            uncover(rng, chosen, seen, means, factors, core, base)
            uncover(rng, chosen, latent[u], latent_means, latent_factors, latent_core, latent_base)
            if core.shape[0] > 0:
                tabulate(table, u + 1, chosen, x, means[chosen], factors[chosen])
        if apart and n_latent > 0 and not (pooled and chosen == own):
            shift(starts[u], starts[u + 1], rows, loads, residual, step)
    return n_users, n_opened, Lost(-1, NO_WEIGHT)


@inlined
def renew(rng, column, columns, noises, noise_dof, cores, bases):
    """In place: a column becomes a pool member, its parameters from the base of both views, and fresh noise."""
    means, factors, latent_means, latent_factors = columns
    base, latent_base = bases
    draw_into(rng, column, column + 1, means, factors, base[0], base[1], base[2], base[3])
    cover(column, means, factors, cores[0], base)
    mean, precision, covariance, dof = latent_base
    draw_into(rng, column, column + 1, latent_means, latent_factors, mean, precision, covariance, dof)
    cover(column, latent_means, latent_factors, cores[1], latent_base)
    if noises.shape[0] > 0:
        noises[column] = draw_noise(rng, 0.0, 0.0, noise_dof)


@inlined
def column_counts(z, n_components, n_pool, n_columns):
    """Users of every column: clusters, the pool (0), free room (−1)."""
    counts = np.empty(n_columns, dtype=np.int64)
    for c in range(n_columns):
        counts[c] = 0 if c < n_components + n_pool else -1
    for u in range(z.shape[0]):
        counts[z[u]] += 1
    return counts


@compiled
def with_room(means, factors, n):
    """Components with room for n more."""
    n_wide, n_dims, n_spread = means.shape[0] + n, means.shape[1], factors.shape[1]
    wide_means, wide_factors = np.empty((n_wide, n_dims)), np.empty((n_wide, n_spread, n_spread))
    copy_into(means, factors, wide_means, wide_factors)
    return wide_means, wide_factors


@compiled
def compact(z, counts, columns):
    """z in place: labels of the occupied columns in their order; returns those columns."""
    means, factors, latent_means, latent_factors = columns
    label = np.empty(counts.shape[0], dtype=np.int64)
    n_kept = 0
    for c in range(counts.shape[0]):
        label[c] = n_kept
        n_kept += counts[c] > 0
    for u in range(z.shape[0]):
        z[u] = label[z[u]]
    kept_means, kept_factors = only_used(counts, n_kept, means, factors)
    kept_latent_means, kept_latent_factors = only_used(counts, n_kept, latent_means, latent_factors)
    return kept_means, kept_factors, kept_latent_means, kept_latent_factors


@inlined
def only_used(counts, n_kept, means, factors):
    """Components of the occupied columns."""
    n_dims, n_spread = means.shape[1], factors.shape[1]
    kept_means, kept_factors = np.empty((n_kept, n_dims)), np.empty((n_kept, n_spread, n_spread))
    k = 0
    for c in range(counts.shape[0]):
        if counts[c] > 0:
            for i in range(n_dims):
                kept_means[k, i] = means[c, i]
            for i in range(n_spread):
                for j in range(n_spread):
                    kept_factors[k, i, j] = factors[c, i, j]
            k += 1
    return kept_means, kept_factors
