"""Search for the partition with the least expected loss over the draws of a posterior, without a
users × users matrix; and that matrix, which shows which users are together.

z (N, U) holds N drawn partitions with labels below L; candidate (U,) is the partition that moves.
tables (N, L, C) counts the users that are in cluster l of a draw and in cluster c of the candidate,
sizes (C,) those in c; C is the candidate's capacity.

Both losses are sums of a function g over table cells: Σ_c g(n_c) + Σ_l g(m_l) − 2 Σ_cl g(n_cl),
with g(n) = n² for Binder's loss (ordered pairs on which two partitions disagree) and g(n) = n ln n
for the variation of information (times U). ``growth[n]`` is g(n + 1) − g(n).
"""

import math

import numpy as np

from dualview.numerics.compiling import called_soon, compiled

_LABELS, _TABLES, _GROWTH = (
    np.empty((1, 1), dtype=np.int32),
    np.empty((1, 1, 1), dtype=np.int32),
    np.empty(1),
)
_PLACES, _GROWTHS = np.empty(1, dtype=np.int64), np.empty((1, 1, 1))


@called_soon(1, True)
def growth_of(n_users, entropy):
    """g(n + 1) − g(n) for n = 0..n_users."""
    growth = np.empty(n_users + 1)
    for n in range(n_users + 1):
        if entropy:
            growth[n] = (n + 1.0) * math.log1p(1.0 / n) + math.log(float(n)) if n > 0 else 0.0
        else:
            growth[n] = 2.0 * n + 1.0
    return growth


@compiled
def overlap(a, b, table, growth):
    """Σ_kl g(n_kl) over the contingency table of two partitions; table (L, L) to count in, all 0
    before and after."""
    total = 0.0
    for u in range(a.shape[0]):
        total += growth[table[a[u], b[u]]]
        table[a[u], b[u]] += 1
    for u in range(a.shape[0]):
        table[a[u], b[u]] = 0
    return total


@called_soon(_LABELS, 1, _GROWTH, 0, 1)
def overlaps(z, n_labels, growth, first, step):
    """Overlaps of draws first, first + step, … with all later ones: sums by draw, (N,), and each
    draw's with itself, (N,)."""
    n_draws = z.shape[0]
    sums, own = np.zeros(n_draws), np.zeros(n_draws)
    table = np.zeros((n_labels, n_labels), dtype=np.int64)
    for i in range(first, n_draws, step):
        own[i] = overlap(z[i], z[i], table, growth)
        sums[i] += own[i]
        for n in range(i + 1, n_draws):
            shared = overlap(z[i], z[n], table, growth)
            sums[i] += shared
            sums[n] += shared
    return sums, own


@called_soon(_LABELS[0], _LABELS, 1, _GROWTH)
def distances(candidate, z, n_labels, growth):
    """The loss between a candidate with labels below L and every draw, (N,), as a sum of g."""
    result = np.empty(z.shape[0])
    table = np.zeros((n_labels, n_labels), dtype=np.int64)
    own = overlap(candidate, candidate, table, growth)
    for n in range(z.shape[0]):
        result[n] = (
            own + overlap(z[n], z[n], table, growth) - 2.0 * overlap(candidate, z[n], table, growth)
        )
    return result


@called_soon(_LABELS, _PLACES, _TABLES, _GROWTHS, _GROWTH)
def fill(z, candidate, tables, growths, growth):
    """In place: count a whole candidate into tables; growths (N, L, C) holds the growth of each
    cell."""
    n_draws, n_users = z.shape
    for n in range(n_draws):
        for u in range(n_users):
            if candidate[u] >= 0:
                tables[n, z[n, u], candidate[u]] += 1
    for n in range(n_draws):
        for m in range(tables.shape[1]):
            for c in range(tables.shape[2]):
                growths[n, m, c] = growth[tables[n, m, c]]


@compiled
def _shift(labels, tables, growths, growth, cluster, by):
    """In place: count a user, whose label in each draw is given, into (by = 1) or out of (by = −1)
    a cluster."""
    for n in range(labels.shape[0]):
        tables[n, labels[n], cluster] += by
        growths[n, labels[n], cluster] = growth[tables[n, labels[n], cluster]]


@compiled
def _costs_of_joining(labels, growths, sizes, growth):
    """What a user, taken out, adds to the expected loss by joining each cluster."""
    n_draws = labels.shape[0]
    costs = np.zeros(sizes.shape[0])
    for n in range(n_draws):
        row = growths[n, labels[n]]
        for c in range(sizes.shape[0]):
            costs[c] -= row[c]
    for c in range(sizes.shape[0]):
        costs[c] = growth[sizes[c]] + 2.0 * costs[c] / n_draws
    return costs


@called_soon(_PLACES, _LABELS, _PLACES, _TABLES, _GROWTHS, _PLACES, _GROWTH)
def improve(order, by_user, candidate, tables, growths, sizes, growth):
    """In place on candidate, tables, growths and sizes: move each user in turn to where the
    expected loss is least.

    by_user (U, N) is z turned round. candidate[u] = −1 stands for a user who is nowhere yet.
    Returns how many moved.
    """
    moved = 0
    for u in order:
        own = candidate[u]
        if own >= 0:
            sizes[own] -= 1
            _shift(by_user[u], tables, growths, growth, own, -1)
        costs = _costs_of_joining(by_user[u], growths, sizes, growth)
        best = max(own, 0)
        for c in range(sizes.shape[0]):
            if costs[c] < costs[best] - (1e-9 if best == own else 0.0):
                best = c
        sizes[best] += 1
        _shift(by_user[u], tables, growths, growth, best, 1)
        candidate[u] = best
        moved += best != own
    return moved


@compiled
def similarity(z):
    """Share of the draws z (N, U) in which two users are together, (U, U)."""
    n_draws, n_users = z.shape
    together = np.zeros((n_users, n_users))
    for n in range(n_draws):
        for i in range(n_users):
            for j in range(i + 1):
                if z[n, i] == z[n, j]:
                    together[i, j] += 1.0
    for i in range(n_users):
        for j in range(i + 1):
            together[i, j] /= n_draws
            together[j, i] = together[i, j]
    return together


@compiled
def squared_losses(z, together):
    """Σ_ij (1[z_i = z_j] − π_ij)² of each draw z (N, U) against a similarity π (U, U), less the
    constant Σ π²."""
    n_draws, n_users = z.shape
    losses = np.zeros(n_draws)
    for n in range(n_draws):
        for i in range(n_users):
            for j in range(n_users):
                if z[n, i] == z[n, j]:
                    losses[n] += 1.0 - 2.0 * together[i, j]
    return losses
