"""Search for the partition with the least expected loss over the draws of a posterior, without a
users × users matrix; and that matrix, which shows which users are together.

z (N, U) holds N different drawn partitions with labels below L, counts (N,) how often each was
drawn; candidate (U,) is the partition that moves. tables (N, L, C) counts the users that are in
cluster l of a draw and in cluster c of the candidate, sizes (C,) those in c; C is the candidate's
capacity.

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
_COUNTS = np.ones(1)


@called_soon(_LABELS)
def renumbered(z):
    """Partitions (N, U) with the clusters of each numbered 0, 1, … by their first members."""
    result = np.empty(z.shape, dtype=np.int32)
    number = np.empty(z.max() + 1, dtype=np.int32)
    seen_in = np.full(z.max() + 1, -1)
    for n in range(z.shape[0]):
        n_seen = 0
        for u in range(z.shape[1]):
            if seen_in[z[n, u]] != n:
                seen_in[z[n, u]] = n
                number[z[n, u]] = n_seen
                n_seen += 1
            result[n, u] = number[z[n, u]]
    return result


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


@called_soon(_LABELS, _COUNTS, 1, _GROWTH, 0, 1)
def overlaps(z, counts, n_labels, growth, first, step):
    """Overlaps of draws first, first + step, … with all later ones: sums by draw over all that were
    drawn, (N,), and each draw's with itself, (N,)."""
    n_draws = z.shape[0]
    sums, own = np.zeros(n_draws), np.zeros(n_draws)
    table = np.zeros((n_labels, n_labels), dtype=np.int64)
    for i in range(first, n_draws, step):
        own[i] = overlap(z[i], z[i], table, growth)
        sums[i] += counts[i] * own[i]
        for n in range(i + 1, n_draws):
            shared = overlap(z[i], z[n], table, growth)
            sums[i] += counts[n] * shared
            sums[n] += counts[i] * shared
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


@called_soon(_LABELS, _COUNTS, _PLACES, _TABLES, _GROWTHS, _GROWTH)
def fill(z, counts, candidate, tables, growths, growth):
    """In place: count a whole candidate into tables; growths (N, L, C) holds the growth of each
    cell, as often as its draw was drawn."""
    n_draws, n_users = z.shape
    for n in range(n_draws):
        for u in range(n_users):
            if candidate[u] >= 0:
                tables[n, z[n, u], candidate[u]] += 1
    for n in range(n_draws):
        for m in range(tables.shape[1]):
            for c in range(tables.shape[2]):
                growths[n, m, c] = counts[n] * growth[tables[n, m, c]]


@compiled
def _shift(labels, counts, tables, growths, growth, cluster, by):
    """In place: count a user, whose label in each draw is given, into (by = 1) or out of (by = −1)
    a cluster."""
    for n in range(labels.shape[0]):
        tables[n, labels[n], cluster] += by
        growths[n, labels[n], cluster] = counts[n] * growth[tables[n, labels[n], cluster]]


@compiled
def _costs_of_joining(labels, n_drawn, growths, sizes, n_open, growth):
    """What a user, taken out, adds to the expected loss by joining each of the first clusters."""
    costs = np.zeros(n_open)
    for n in range(labels.shape[0]):
        row = growths[n, labels[n]]
        for c in range(n_open):
            costs[c] -= row[c]
    for c in range(n_open):
        costs[c] = growth[sizes[c]] + 2.0 * costs[c] / n_drawn
    return costs


@compiled
def _n_open(sizes):
    """Clusters worth a look: those up to the last that has members, and the empty one after it."""
    last = sizes.shape[0]
    while last > 0 and sizes[last - 1] == 0:
        last -= 1
    return min(last + 1, sizes.shape[0])


@called_soon(_PLACES, _LABELS, _COUNTS, _PLACES, _TABLES, _GROWTHS, _PLACES, _GROWTH)
def improve(order, by_user, counts, candidate, tables, growths, sizes, growth):
    """In place on candidate, tables, growths and sizes: move each user in turn to where the
    expected loss is least.

    by_user (U, N) is z turned round. candidate[u] = −1 stands for a user who is nowhere yet.
    Returns how many places of the tables were looked at.
    """
    n_drawn, places = counts.sum(), 0
    for u in order:
        own = candidate[u]
        if own >= 0:
            sizes[own] -= 1
            _shift(by_user[u], counts, tables, growths, growth, own, -1)
        n_open = max(_n_open(sizes), own + 1)
        costs = _costs_of_joining(by_user[u], n_drawn, growths, sizes, n_open, growth)
        best = max(own, 0)
        for c in range(n_open):
            if costs[c] < costs[best] - (1e-9 if best == own else 0.0):
                best = c
        sizes[best] += 1
        _shift(by_user[u], counts, tables, growths, growth, best, 1)
        candidate[u] = best
        places += n_open * by_user.shape[1]
    return places


@compiled
def memberships(z, counts, labels, sizes, n_labels):
    """Sums over all that were drawn, (U,): the share of the other members of each user's cluster
    that are with it; whether it is alone, for a cluster of one."""
    n_draws, n_users = z.shape
    sums = np.zeros(n_users)
    for n in range(n_draws):
        table = np.zeros((sizes.shape[0], n_labels), dtype=np.int64)
        for u in range(n_users):
            table[labels[u], z[n, u]] += 1
        together = table.sum(axis=0)
        for u in range(n_users):
            own, there = labels[u], z[n, u]
            if sizes[own] > 1:
                sums[u] += counts[n] * (table[own, there] - 1.0) / (sizes[own] - 1.0)
            elif together[there] == 1:
                sums[u] += counts[n]
    return sums


@compiled
def similarity(z, counts):
    """Share of all that were drawn in which two users are together, (U, U)."""
    n_draws, n_users = z.shape
    n_drawn = counts.sum()
    together = np.zeros((n_users, n_users))
    for n in range(n_draws):
        for i in range(n_users):
            for j in range(i + 1):
                if z[n, i] == z[n, j]:
                    together[i, j] += counts[n]
    for i in range(n_users):
        for j in range(i + 1):
            together[i, j] /= n_drawn
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
