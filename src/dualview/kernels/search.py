"""Search for the partition with the least expected loss over the draws of a posterior, without a users × users matrix.

z (N, U) holds N drawn partitions with labels below L; candidate (U,) is the partition that moves. tables (N, C, L) counts the users
that are in cluster c of the candidate and in cluster l of a draw, sizes (C,) those in c; C is the candidate's capacity.

Both losses are sums of a function g over table cells: Σ_c g(n_c) + Σ_l g(m_l) − 2 Σ_cl g(n_cl), with g(n) = n² for Binder's loss
(ordered pairs on which two partitions disagree) and g(n) = n ln n for the variation of information (times U). ``growth[n]`` is
g(n + 1) − g(n).
"""

import math

import numpy as np

from dualview.kernels.compiling import compiled


@compiled
def squares_growth(n_users):
    """g(n + 1) − g(n) for g(n) = n², n = 0..n_users."""
    growth = np.empty(n_users + 1)
    for n in range(n_users + 1):
        growth[n] = 2.0 * n + 1.0
    return growth


@compiled
def entropy_growth(n_users):
    """g(n + 1) − g(n) for g(n) = n ln n, n = 0..n_users."""
    growth = np.empty(n_users + 1)
    growth[0] = 0.0
    for n in range(1, n_users + 1):
        growth[n] = (n + 1.0) * math.log1p(1.0 / n) + math.log(float(n))
    return growth


@compiled
def count_tables(z, candidate, capacity, n_labels):
    """tables (N, C, L) of the candidate against every draw."""
    n_draws, n_users = z.shape
    tables = np.zeros((n_draws, capacity, n_labels), dtype=np.int32)
    for n in range(n_draws):
        for u in range(n_users):
            tables[n, candidate[u], z[n, u]] += 1
    return tables


@compiled
def overlap(a, b, n_labels, growth):
    """Σ_kl g(n_kl) over the contingency table of two partitions."""
    table = np.zeros((n_labels, n_labels), dtype=np.int64)
    total = 0.0
    for u in range(a.shape[0]):
        total += growth[table[a[u], b[u]]]
        table[a[u], b[u]] += 1
    return total


@compiled
def expected_losses(z, n_labels, growth, first, last):
    """Expected loss of draws first..last−1 as estimates, less what all share: their own Σ g(n_k), and −2/N Σ_n Σ g(n_kl)."""
    n_draws = z.shape[0]
    losses = np.zeros(last - first)
    for i in range(first, last):
        losses[i - first] = overlap(z[i], z[i], n_labels, growth)
        for n in range(n_draws):
            losses[i - first] -= 2.0 / n_draws * overlap(z[i], z[n], n_labels, growth)
    return losses


@compiled
def _cost_of_joining(tables, z, u, cluster, size, growth):
    """What user u, taken out, adds to the expected loss by joining a cluster of this size."""
    n_draws = z.shape[0]
    shared = 0.0
    for n in range(n_draws):
        shared += growth[tables[n, cluster, z[n, u]]]
    return growth[size] - 2.0 * shared / n_draws


@compiled
def _shift(tables, z, u, cluster, by):
    """In place: count user u into (by = 1) or out of (by = −1) a cluster."""
    for n in range(z.shape[0]):
        tables[n, cluster, z[n, u]] += by


@compiled
def improve(order, z, candidate, tables, sizes, growth):
    """In place on candidate, tables and sizes: move each user in turn to where the expected loss is least.

    candidate[u] = −1 stands for a user who is nowhere yet. Returns the number of users who moved.
    """
    moved = 0
    for u in order:
        own = candidate[u]
        if own >= 0:
            sizes[own] -= 1
            _shift(tables, z, u, own, -1)
        best, least = own, math.inf
        empty_seen = False
        if own >= 0 and sizes[own] > 0:
            least = _cost_of_joining(tables, z, u, own, sizes[own], growth) - 1e-9
        for c in range(sizes.shape[0]):
            if sizes[c] == 0 and empty_seen:
                continue
            empty_seen = empty_seen or sizes[c] == 0
            cost = _cost_of_joining(tables, z, u, c, sizes[c], growth)
            if cost < least:
                best, least = c, cost
        sizes[best] += 1
        _shift(tables, z, u, best, 1)
        candidate[u] = best
        moved += best != own
    return moved
