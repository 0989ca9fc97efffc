"""What observations say of one user's latent vector, given everybody else's.

Observation i is normal with mean Σ_u d_iu · f_u and its own precision w_i. terms = (starts, rows, loads, squares, residual,
precision, gram, weighted, noise, noise_dof): starts (U + 1,) into rows (n,), the observations of user u being
rows[starts[u]:starts[u + 1]] with loads (n, q); residual (N,) of all observations; precision (N,), or (1,) when it is the same
for all; squares (U, q, q) the sums of d dᵀ of each user, used in the second case. Moving f_u by δ changes the log likelihood by
δᵀ pull − δᵀ grip δ / 2.

Few users who share most observations (q = 1, one precision) have a shorter way: gram (U, U) = dᵀ d and weighted (U,) = dᵀ
(observations − what is known of them); then residuals are not looked at and do not move. noise as in ``noise``: empty where
clusters share it; noise_dof: ν of its prior.
"""

import math

import numpy as np

from dualview.numerics.compiling import compiled, inlined, reordered
from dualview.numerics.linalg import factorise, solve_lower, solve_lower_transposed
from dualview.numerics.streams import standard_normal


@reordered
def row_times(matrix, u, latent):
    """Row u of the matrix times the latent numbers (U, 1)."""
    total = 0.0
    for v in range(matrix.shape[1]):
        total += matrix[u, v] * latent[v, 0]
    return total


@inlined
def pull_of_one(start, end, rows, loads, residual, precision):
    """``pull_of`` for q = 1: a plain number."""
    total = 0.0
    if precision.shape[0] == 1:
        for k in range(start, end):
            total += loads[k, 0] * residual[rows[k]]
        total *= precision[0]
    else:
        for k in range(start, end):
            total += precision[rows[k]] * loads[k, 0] * residual[rows[k]]
    return total


@inlined
def grip_of_one(u, start, end, rows, loads, squares, precision):
    """``grip_of`` for q = 1: a plain number."""
    total = 0.0
    if precision.shape[0] == 1:
        total = precision[0] * squares[u, 0, 0]
    else:
        for k in range(start, end):
            total += precision[rows[k]] * loads[k, 0] * loads[k, 0]
    return total


@inlined
def pull_of(start, end, rows, loads, residual, precision, pull):
    """In place: pull (q,) of one user."""
    n_dims = pull.shape[0]
    for i in range(n_dims):
        pull[i] = 0.0
    for k in range(start, end):
        weighted = residual[rows[k]] * (precision[0] if precision.shape[0] == 1 else precision[rows[k]])
        for i in range(n_dims):
            pull[i] += loads[k, i] * weighted


@inlined
def grip_of(u, start, end, rows, loads, squares, precision, grip):
    """In place: grip (q, q) of user u."""
    n_dims = grip.shape[0]
    for i in range(n_dims):
        for j in range(n_dims):
            grip[i, j] = precision[0] * squares[u, i, j] if precision.shape[0] == 1 else 0.0
    if precision.shape[0] > 1:
        for k in range(start, end):
            for i in range(n_dims):
                for j in range(n_dims):
                    grip[i, j] += precision[rows[k]] * loads[k, i] * loads[k, j]


@inlined
def shift(start, end, rows, loads, residual, step):
    """In place on the residual: one user's latent vector has moved by step (q,)."""
    if step.shape[0] == 1:
        by = step[0]
        for k in range(start, end):
            residual[rows[k]] -= loads[k, 0] * by
    else:
        for k in range(start, end):
            for i in range(step.shape[0]):
                residual[rows[k]] -= loads[k, i] * step[i]


@inlined
def gain(mean, latent, pull, grip):
    """By how much the log likelihood grows when a user's latent vector becomes the mean."""
    total = 0.0
    for i in range(mean.shape[0]):
        slope = pull[i]
        for j in range(mean.shape[0]):
            slope -= 0.5 * grip[i, j] * (mean[j] - latent[j])
        total += slope * (mean[i] - latent[i])
    return total


@compiled
def evidence(mean, factor, latent, ratio, pull, grip, gap, matrix):
    """Log of the integral over f of N(f; mean, (T Tᵀ)⁻¹) times the observations' likelihood, relative to that at latent.

    ratio: what the observations' precision is to be multiplied by, and so pull and grip. Leaves in gap and matrix what
    ``draw_latent`` needs: C⁻¹ (pull − grip δ) and lower C with C Cᵀ = T Tᵀ + grip, where δ = mean − latent. −inf where the
    factor has a 0 on its diagonal, as ``wishart_factor`` says.
    """
    n_dims = mean.shape[0]
    if factor[0, 0] == 0.0:
        return -math.inf
    towards, prior = np.empty(n_dims), np.empty(n_dims)  # C⁻¹ pull and C⁻¹ T Tᵀ δ, from which nothing large cancels
    for i in range(n_dims):
        towards[i] = ratio * pull[i]
        gap[i] = prior[i] = 0.0
        for j in range(n_dims):
            gap[i] += ratio * grip[i, j] * (mean[j] - latent[j])
            matrix[i, j] = ratio * grip[i, j]
            for k in range(max(i, j), n_dims):
                matrix[i, j] += factor[i, k] * factor[j, k]
                prior[i] += factor[i, k] * factor[j, k] * (mean[j] - latent[j])
    factorise(matrix)
    solve_lower(matrix, towards)
    solve_lower(matrix, prior)
    solve_lower(matrix, gap)
    value = 0.0
    for i in range(n_dims):
        value += 0.5 * (towards[i] * towards[i] + prior[i] * (2.0 * towards[i] - gap[i]))
        value += math.log(factor[i, i] / matrix[i, i])
        gap[i] = towards[i] - gap[i]
    return value


@inlined
def evidence_of_one(mean, factor, latent, pull, grip):
    """``evidence`` for q = 1, from plain numbers: its exponent, and the factor before the exponential."""
    away = mean - latent
    prior = factor * factor
    inverse = 1.0 / (prior + grip) if factor != 0.0 else 0.0
    return 0.5 * inverse * (pull * pull + prior * away * (2.0 * pull - grip * away)), factor * math.sqrt(inverse)


@inlined
def draw_one(rng, mean, factor, latent, pull, grip):
    """``draw_latent`` for q = 1, from plain numbers: the new value."""
    inverse = 1.0 / (factor * factor + grip)
    return mean + (pull - grip * (mean - latent)) * inverse + standard_normal(rng) * math.sqrt(inverse)


@compiled
def draw_latent(rng, mean, latent, gap, matrix, step):
    """In place: a new latent vector from prior and observations, and the step it took; after ``evidence`` of its cluster."""
    for i in range(gap.shape[0]):
        gap[i] += standard_normal(rng)
    solve_lower_transposed(matrix, gap)
    for i in range(gap.shape[0]):
        step[i] = mean[i] + gap[i] - latent[i]
        latent[i] += step[i]


@compiled
def along_gram(z, means, latent, precision, gram, weighted):
    """``along`` for terms that have a gram matrix; there is no effect to keep."""
    away = np.empty((z.shape[0], 1))
    for u in range(z.shape[0]):
        away[u, 0] = latent[u, 0] - means[z[u], 0]
    slope = curvature = 0.0
    for u in range(z.shape[0]):
        slope += away[u, 0] * (weighted[u] - row_times(gram, u, latent))
        curvature += away[u, 0] * row_times(gram, u, away)
    return precision[0] * slope, precision[0] * curvature


@compiled
def along(z, means, latent, starts, rows, loads, residual, precision):
    """Slope and curvature of the log likelihood when all f_u − μ_{z_u} grow by a common factor, and its effect (N,)."""
    effect = np.zeros(residual.shape[0])
    step = np.empty(latent.shape[1])
    for u in range(z.shape[0]):
        for i in range(latent.shape[1]):
            step[i] = means[z[u], i] - latent[u, i]
        shift(starts[u], starts[u + 1], rows, loads, effect, step)
    slope = curvature = 0.0
    for t in range(effect.shape[0]):
        weight = precision[0] if precision.shape[0] == 1 else precision[t]
        slope += weight * effect[t] * residual[t]
        curvature += weight * effect[t] * effect[t]
    return slope, curvature, effect
