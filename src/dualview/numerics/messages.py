"""What observations say about one user's latent vector, given everybody else's: the language of
likelihoods and latent views.

Observation i is normal with mean Σ_u d_iu · f_u and its own precision w_i. Moving f_u by δ changes
the log likelihood by δᵀ gradient − δᵀ curvature δ / 2.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.numerics.compiling import compiled, in_place, inlined, reordered
from dualview.numerics.linalg import (
    factorise,
    is_thin,
    root_of_semidefinite,
    rotate_to_lower,
    solve_lower,
    solve_lower_transposed,
)
from dualview.numerics.streams import standard_normal

Array = NDArray[np.float64]


class Terms(NamedTuple):
    """Observations as the sweep sees them: normal, each linear in the latent vectors of some users.

    User u's observations are rows[starts[u]:starts[u + 1]], ascending, with loads (n, q): how each
    depends on f_u. squares (U, q, q): each user's sum of d dᵀ, used where the precision is one.
    residual (N,): observation minus expectation, changed in place as latent vectors move.
    precision: of every observation, (N,), or (1,) when they share one.

    For few users who share most observations, where q = 1 and the precision is one: gram (U, U) =
    dᵀ d and weighted (U,) = dᵀ times the observations without what is known of them. The residual
    is not used then, and may be empty.

    noise (U,), where each cluster has a noise of its own: the precision of each user's
    observations, which belong to one user each. The sweep draws it, and keeps precision (N,) equal
    to it. noise_dof: ν of the prior G(ν, 1/ν) of a noise precision.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    loads: Array
    squares: Array
    residual: Array
    precision: Array
    gram: Array = np.empty((0, 0))
    weighted: Array = np.empty(0)
    noise: Array = np.empty(0)
    noise_dof: float = 1.0

    @classmethod
    def none(cls, n_users: int) -> "Terms":
        """No observations, and latent vectors of no dimensions."""
        starts, rows = np.zeros(n_users + 1, dtype=np.int64), np.empty(0, dtype=np.uint32)
        return cls(
            starts, rows, np.empty((0, 0)), np.empty((n_users, 0, 0)), np.empty(0), np.ones(1)
        )


class Message(NamedTuple):
    """What one user's observations say about its latent vector, which is at (q,): gradient (q,) and
    curvature (q, q) there.

    ratios (C,): by what the observations' precision, and so both, are to be multiplied in each
    column; empty where clusters share the noise. gap (q,), matrix (q, q) and step (q,) are to work
    in: see ``evidence`` and ``draw_latent``.
    """

    at: Array
    gradient: Array
    curvature: Array
    ratios: Array
    gap: Array
    matrix: Array
    step: Array


@compiled
def new_message(n_dims, n_ratios):
    """Room for a message."""
    matrix = np.empty((n_dims, n_dims))
    at, gradient, gap, step = np.empty(n_dims), np.empty(n_dims), np.empty(n_dims), np.empty(n_dims)
    return Message(at, gradient, np.empty((n_dims, n_dims)), np.empty(n_ratios), gap, matrix, step)


@inlined
def ratio_of(column, message):
    """By what the precision of a user's observations is multiplied in a column."""
    return message.ratios[column] if message.ratios.shape[0] > 0 else 1.0


@reordered
def row_times(matrix, u, latent):
    """Row u of the matrix times the latent numbers (U, 1)."""
    result = 0.0
    for v in range(matrix.shape[1]):
        result += matrix[u, v] * latent[v, 0]
    return result


@in_place
def gradient_of(u, terms, gradient):
    """In place: the gradient (q,) of one user."""
    rows, loads, residual, precision = terms.rows, terms.loads, terms.residual, terms.precision
    n_dims = gradient.shape[0]
    for i in range(n_dims):
        gradient[i] = 0.0
    for k in range(terms.starts[u], terms.starts[u + 1]):
        weighted = residual[rows[k]] * (
            precision[0] if precision.shape[0] == 1 else precision[rows[k]]
        )
        for i in range(n_dims):
            gradient[i] += loads[k, i] * weighted


@in_place
def curvature_of(u, terms, curvature):
    """In place: the curvature (q, q) of user u."""
    rows, loads, precision = terms.rows, terms.loads, terms.precision
    n_dims = curvature.shape[0]
    for i in range(n_dims):
        for j in range(n_dims):
            curvature[i, j] = (
                precision[0] * terms.squares[u, i, j] if precision.shape[0] == 1 else 0.0
            )
    if precision.shape[0] > 1:
        for k in range(terms.starts[u], terms.starts[u + 1]):
            for i in range(n_dims):
                for j in range(n_dims):
                    curvature[i, j] += precision[rows[k]] * loads[k, i] * loads[k, j]


@in_place
def gradient_of_one(u, latent, terms):
    """``gradient_of`` for q = 1: a plain number, by the gram matrix where there is one."""
    rows, loads, residual, precision = terms.rows, terms.loads, terms.residual, terms.precision
    if terms.gram.shape[0] > 0:
        return precision[0] * (terms.weighted[u] - row_times(terms.gram, u, latent))
    result = 0.0
    if precision.shape[0] == 1:
        for k in range(terms.starts[u], terms.starts[u + 1]):
            result += loads[k, 0] * residual[rows[k]]
        result *= precision[0]
    else:
        for k in range(terms.starts[u], terms.starts[u + 1]):
            result += precision[rows[k]] * loads[k, 0] * residual[rows[k]]
    return result


@in_place
def curvature_of_one(u, terms):
    """``curvature_of`` for q = 1: a plain number."""
    if terms.precision.shape[0] == 1:
        return terms.precision[0] * terms.squares[u, 0, 0]
    result = 0.0
    for k in range(terms.starts[u], terms.starts[u + 1]):
        result += terms.precision[terms.rows[k]] * terms.loads[k, 0] * terms.loads[k, 0]
    return result


@in_place
def read_message(u, latent, terms, message):
    """In place: the message of one user, but for its ratios."""
    n_dims = latent.shape[1]
    for i in range(n_dims):
        message.at[i] = latent[u, i]
    if n_dims == 1:
        message.gradient[0] = gradient_of_one(u, latent, terms)
        message.curvature[0, 0] = curvature_of_one(u, terms)
    elif n_dims > 1:
        gradient_of(u, terms, message.gradient)
        curvature_of(u, terms, message.curvature)


@in_place
def shift(u, step, terms, residual):
    """In place on the residual: one user's latent vector has moved by step (q,)."""
    rows, loads = terms.rows, terms.loads
    if step.shape[0] == 1:
        by = step[0]
        for k in range(terms.starts[u], terms.starts[u + 1]):
            residual[rows[k]] -= loads[k, 0] * by
    else:
        for k in range(terms.starts[u], terms.starts[u + 1]):
            for i in range(step.shape[0]):
                residual[rows[k]] -= loads[k, i] * step[i]


@in_place
def gain(mean, message):
    """By how much the log likelihood grows when a user's latent vector becomes the mean."""
    result = 0.0
    for i in range(mean.shape[0]):
        slope = message.gradient[i]
        for j in range(mean.shape[0]):
            slope -= 0.5 * message.curvature[i, j] * (mean[j] - message.at[j])
        result += slope * (mean[i] - message.at[i])
    return result


@compiled
def evidence(mean, factor, ratio, message):
    """Log of the integral over f of N(f; mean, (T Tᵀ)⁻¹) times the observations' likelihood,
    relative to that where f is.

    ratio: what the observations' precision is to be multiplied by. Leaves in gap and matrix what
    ``draw_latent`` needs: C⁻¹ (gradient − curvature δ) and lower C with C Cᵀ = T Tᵀ + curvature,
    where δ = mean − at. −inf where the factor has a 0 on its diagonal, as ``wishart_factor`` says.
    """
    n_dims = mean.shape[0]
    at, gradient, curvature, gap, matrix = (
        message.at,
        message.gradient,
        message.curvature,
        message.gap,
        message.matrix,
    )
    if factor[0, 0] == 0.0:
        return -math.inf
    towards, prior = (
        np.empty(n_dims),
        np.empty(n_dims),
    )  # C⁻¹ gradient and C⁻¹ T Tᵀ δ, from which nothing large cancels
    for i in range(n_dims):
        towards[i] = ratio * gradient[i]
        gap[i] = prior[i] = 0.0
        for j in range(n_dims):
            gap[i] += ratio * curvature[i, j] * (mean[j] - at[j])
            matrix[i, j] = ratio * curvature[i, j]
            for k in range(max(i, j), n_dims):
                matrix[i, j] += factor[i, k] * factor[j, k]
                prior[i] += factor[i, k] * factor[j, k] * (mean[j] - at[j])
    factorise(matrix)
    if is_thin(matrix):
        join_thin(mean, factor, ratio, message, prior)
    else:
        solve_lower(matrix, prior)
        solve_lower(matrix, gap)
    solve_lower(matrix, towards)
    value = 0.0
    for i in range(n_dims):
        value += 0.5 * (towards[i] * towards[i] + prior[i] * (2.0 * towards[i] - gap[i]))
        value += math.log(factor[i, i] / matrix[i, i])
        gap[i] = towards[i] - gap[i]
    return value


@compiled
def join_thin(mean, factor, ratio, message, prior):
    """In place: C, C⁻¹ T Tᵀ δ and C⁻¹ curvature δ for ``evidence``, where T Tᵀ + curvature has lost
    its digits.

    With R Rᵀ = curvature, rotations G take (T, R) to (C, 0), and C⁻¹ T Tᵀ δ is the first part of
    (Tᵀ δ, 0) G.
    """
    n = mean.shape[0]
    wide = np.zeros((n + 2, 2 * n))
    root = root_of_semidefinite(ratio * message.curvature)
    for i in range(n):
        for j in range(
            n
        ):  # a loop: Numba compiles an assignment to a slice with its error messages, for seconds
            wide[i, j], wide[i, n + j] = factor[i, j], root[i, j]
    for j in range(n):
        for i in range(n):
            wide[n, j] += factor[i, j] * (mean[i] - message.at[i])
            wide[n + 1, n + j] += wide[i, n + j] * (mean[i] - message.at[i])
    rotate_to_lower(wide)
    for i in range(n):
        prior[i], message.gap[i] = wide[n, i], wide[n + 1, i]
        for j in range(n):
            message.matrix[i, j] = wide[i, j]


@inlined
def evidence_of_one(mean, factor, latent, gradient, curvature):
    """``evidence`` for q = 1, from plain numbers: its exponent, and the factor before the
    exponential."""
    away = mean - latent
    prior = factor * factor
    inverse = 1.0 / (prior + curvature) if factor != 0.0 else 0.0
    exponent = (
        0.5 * inverse * (gradient * gradient + prior * away * (2.0 * gradient - curvature * away))
    )
    return exponent, factor * math.sqrt(inverse)


@inlined
def draw_one(rng, mean, factor, latent, gradient, curvature):
    """``draw_latent`` for q = 1, from plain numbers: the new value."""
    inverse = 1.0 / (factor * factor + curvature)
    return (
        mean
        + (gradient - curvature * (mean - latent)) * inverse
        + standard_normal(rng) * math.sqrt(inverse)
    )


@in_place
def draw_latent(rng, mean, latent, message):
    """In place: a new latent vector from prior and observations, and the step it took; after
    ``evidence`` of its cluster."""
    gap, step = message.gap, message.step
    for i in range(gap.shape[0]):
        gap[i] += standard_normal(rng)
    solve_lower_transposed(message.matrix, gap)
    for i in range(gap.shape[0]):
        step[i] = mean[i] + gap[i] - latent[i]
        latent[i] += step[i]


@compiled
def along_gram(z, means, latent, terms):
    """``along`` for terms that have a gram matrix; there is no effect to keep."""
    away = np.empty((z.shape[0], 1))
    for u in range(z.shape[0]):
        away[u, 0] = latent[u, 0] - means[z[u], 0]
    slope = curvature = 0.0
    for u in range(z.shape[0]):
        slope += away[u, 0] * (terms.weighted[u] - row_times(terms.gram, u, latent))
        curvature += away[u, 0] * row_times(terms.gram, u, away)
    return terms.precision[0] * slope, terms.precision[0] * curvature


@compiled
def along(z, means, latent, terms):
    """Slope and curvature of the log likelihood when all f_u − μ_{z_u} grow by a common factor, and
    its effect (N,)."""
    effect = np.zeros(terms.residual.shape[0])
    step = np.empty(latent.shape[1])
    for u in range(z.shape[0]):
        for i in range(latent.shape[1]):
            step[i] = means[z[u], i] - latent[u, i]
        shift(u, step, terms, effect)
    slope = curvature = 0.0
    for t in range(effect.shape[0]):
        weight = terms.precision[0] if terms.precision.shape[0] == 1 else terms.precision[t]
        slope += weight * effect[t] * terms.residual[t]
        curvature += weight * effect[t] * effect[t]
    return slope, curvature, effect
