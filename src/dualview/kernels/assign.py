"""The assignment sweep. It sees log likelihoods and weights, never a model."""

import math

import numpy as np

from dualview.kernels.compiling import compiled


@compiled
def choose(log_weights, uniform):
    """Index i with probability ∝ exp(log_weights[i]), by inversion of one uniform number; −1 if no weight is positive."""
    top = -math.inf
    for i in range(log_weights.shape[0]):
        top = max(top, log_weights[i])
        if math.isnan(log_weights[i]):
            return -1
    if not math.isfinite(top):
        return -1
    total = 0.0
    for i in range(log_weights.shape[0]):
        total += math.exp(log_weights[i] - top)
    threshold = uniform * total
    last = -1
    for i in range(log_weights.shape[0]):
        weight = math.exp(log_weights[i] - top)
        if weight > 0.0:
            last = i
        threshold -= weight
        if threshold < 0.0:
            return i
    return last


@compiled
def assign(start, uniforms, log_likelihood, log_auxiliary, z, counts, spread, new_weight):
    """In place on z and counts: redraw z_u for u = start, start + 1, … until a user opens a new cluster, (C11).

    log_likelihood (U, K) under the components, log_auxiliary (U, m) under each user's own auxiliary components (Neal 2000,
    algorithm 8; m = 0: the number of clusters is fixed). Component k weighs counts[k] + spread, an auxiliary one new_weight; a
    user alone in its cluster brings that cluster as one of the m. Returns (u, j) when user u takes its auxiliary component j
    (then z[u] = −1 and the caller adds the component), (U, −1) when all users are done, (u, −2) when no weight is positive.
    """
    n_users, n_components = log_likelihood.shape
    n_auxiliary = log_auxiliary.shape[1]
    log_weights = np.empty(n_components + n_auxiliary)
    for u in range(start, n_users):
        own = z[u]
        counts[own] -= 1
        alone = n_auxiliary > 0 and counts[own] == 0
        for k in range(n_components):
            weight = new_weight if alone and k == own else counts[k] + spread
            log_weights[k] = math.log(weight) + log_likelihood[u, k] if weight > 0.0 else -math.inf
        for j in range(n_auxiliary):
            log_weights[n_components + j] = math.log(new_weight) + log_auxiliary[u, j]
        if alone:
            log_weights[n_components + n_auxiliary - 1] = -math.inf
        chosen = choose(log_weights, uniforms[u])
        if chosen < 0:
            return u, -2
        if chosen >= n_components:
            z[u] = -1
            return u, chosen - n_components
        z[u] = chosen
        counts[chosen] += 1
    return n_users, -1
