"""Users whose observations are their own: what these say of every cluster as a table, and latent vectors given the clusters.

Given the components such users do not depend on each other, so some can be done on one thread and some on another. table
(C, U), counts (C,) as in ``assign``, terms as in ``messages``, noises (C,) as in ``noise``; users from first to end.
"""

import numpy as np

from dualview.behaviors.likelihoods.noise import misfit_of, noise_gain, set_noise
from dualview.numerics.compiling import compiled
from dualview.numerics.draws import log_root
from dualview.numerics.messages import draw_latent, evidence, evidence_of_one, grip_of, pull_of, shift


@compiled
def tell(table, first, end, first_column, end_column, counts, latent, latent_means, latent_factors, terms, noises):
    """In place: add to the table what observations say of columns from first_column to end_column, latent vectors out."""
    starts, rows, loads, squares, residual, precision, _, _, noise, _ = terms
    n_latent, by_cluster, ratio = latent.shape[1], noise.shape[0] > 0, 1.0
    pull, gap = np.empty(n_latent), np.empty(n_latent)
    grip, matrix = np.empty((n_latent, n_latent)), np.empty((n_latent, n_latent))
    for u in range(first, end):
        pull_of(starts[u], starts[u + 1], rows, loads, residual, precision, pull)
        grip_of(u, starts[u], starts[u + 1], rows, loads, squares, precision, grip)
        misfit = misfit_of(starts[u], starts[u + 1], rows, residual, precision) if by_cluster else 0.0
        for c in range(first_column, end_column):
            if counts[c] >= 0:
                if by_cluster:
                    ratio = noises[c] / noise[u]
                    table[c, u] += noise_gain(ratio, starts[u + 1] - starts[u], misfit)
                if n_latent == 1:
                    exponent, factor = evidence_of_one(
                        latent_means[c, 0], latent_factors[c, 0, 0], latent[u, 0], ratio * pull[0], ratio * grip[0, 0]
                    )
                    table[c, u] += exponent + log_root(factor)
                else:
                    table[c, u] += evidence(latent_means[c], latent_factors[c], latent[u], ratio, pull, grip, gap, matrix)


@compiled
def draw_given(rng, first, end, z, latent, latent_means, latent_factors, terms, noises):
    """In place on latent vectors, residuals and noise: the vectors given the clusters, (C7)."""
    starts, rows, loads, squares, residual, precision, _, _, noise, _ = terms
    n_latent, by_cluster, ratio = latent.shape[1], noise.shape[0] > 0, 1.0
    pull, gap, step = np.empty(n_latent), np.empty(n_latent), np.empty(n_latent)
    grip, matrix = np.empty((n_latent, n_latent)), np.empty((n_latent, n_latent))
    for u in range(first, end):
        pull_of(starts[u], starts[u + 1], rows, loads, residual, precision, pull)
        grip_of(u, starts[u], starts[u + 1], rows, loads, squares, precision, grip)
        if by_cluster:
            ratio = noises[z[u]] / noise[u]
            set_noise(u, noises[z[u]], noise, starts, rows, precision)
        evidence(latent_means[z[u]], latent_factors[z[u]], latent[u], ratio, pull, grip, gap, matrix)
        draw_latent(rng, latent_means[z[u]], latent[u], gap, matrix, step)
        shift(starts[u], starts[u + 1], rows, loads, residual, step)
