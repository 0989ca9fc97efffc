"""Counts over pairs of users: which draws put two users together."""

import numpy as np

from dualview.numerics.compiling import compiled


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
