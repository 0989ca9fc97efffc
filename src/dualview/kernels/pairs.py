"""Counts over pairs of users: which draws put two users together."""

import numpy as np

from dualview.kernels.compiling import compiled


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
    """Σ_ij (1[z_i = z_j] − π_ij)² of each draw z (N, U) against a similarity π (U, U), less the constant Σ π²."""
    n_draws, n_users = z.shape
    losses = np.zeros(n_draws)
    for n in range(n_draws):
        for i in range(n_users):
            for j in range(n_users):
                if z[n, i] == z[n, j]:
                    losses[n] += 1.0 - 2.0 * together[i, j]
    return losses


@compiled
def pairs_in_both(a, b, n_labels):
    """Σ_kl n_kl²: ordered pairs of users (each with itself too) that are together in both partitions; labels < n_labels."""
    table = np.zeros((n_labels, n_labels), dtype=np.int64)
    total = 0
    for u in range(a.shape[0]):
        total += 2 * table[a[u], b[u]] + 1
        table[a[u], b[u]] += 1
    return total


@compiled
def squared_losses_by_draws(z, n_labels):
    """The same as ``squared_losses`` against the draws' own similarity, without a users × users matrix."""
    n_draws = z.shape[0]
    both = np.zeros(n_draws)
    own = np.zeros(n_draws)
    for n in range(n_draws):
        own[n] = pairs_in_both(z[n], z[n], n_labels)
        both[n] += own[n]
        for m in range(n):
            shared = pairs_in_both(z[n], z[m], n_labels)
            both[n] += shared
            both[m] += shared
    return own - 2.0 * both / n_draws
