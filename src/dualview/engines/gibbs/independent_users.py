"""Users whose observations are their own: the log likelihoods of these under every cluster, and
latent vectors given the clusters.

Given the components such users do not depend on each other, so some can be done on one thread and
some on another.
"""

import numpy as np

from dualview.behaviors.likelihoods.noise import set_noise
from dualview.engines.gibbs.moves.assignment import weigh_noises
from dualview.numerics.compiling import compiled
from dualview.numerics.draws import log_root
from dualview.numerics.messages import listen, new_message, shift
from dualview.views.verbs import settle, weigh


@compiled
def tabulate(log_likelihood, offset, first, end, columns, state):
    """In place on log likelihoods (G, C, n): add what the observations of users from first to end
    say about columns, latent vectors integrated out."""
    latent, by_cluster, n_columns = (
        state.views[-1],
        state.noises.shape[0] > 0,
        state.counts.shape[0],
    )
    weights, exponents = np.zeros(n_columns), np.zeros(n_columns)
    message = new_message(latent.vectors.shape[1], n_columns if by_cluster else 0)
    for u in range(first, end):
        for c in columns:
            weights[c], exponents[c] = 1.0 if state.counts[c] >= 0 else 0.0, 0.0
        if by_cluster:
            weigh_noises(u, exponents, weights, message, state)
        listen(u, latent.vectors, state.terms, message)
        weigh(exponents, weights, message, latent)
        for c in columns:
            if state.counts[c] >= 0:
                log_likelihood[0, c, u - offset] += exponents[c] + log_root(weights[c])


@compiled
def draw_latents(rng, first, end, state):
    """In place on latent vectors, residuals and noise: the vectors of users from first to end given
    their clusters, (C7)."""
    z, terms, latent, by_cluster = (
        state.labels.z[0],
        state.terms,
        state.views[-1],
        state.noises.shape[0] > 0,
    )
    message = new_message(latent.vectors.shape[1], state.noises.shape[0])
    for u in range(first, end):
        listen(u, latent.vectors, terms, message)
        if by_cluster:
            message.ratios[z[u]] = state.noises[z[u]] / terms.noise[u]
            set_noise(u, state.noises[z[u]], terms)
        settle(rng, u, z[u], message, latent)
        shift(u, message.step, terms, terms.residual)
