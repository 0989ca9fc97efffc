"""Clusters whose users share one latent vector: the draw of these vectors given the clusters.

Component k has f_k ~ N(μ_0, R_0⁻¹), and f_u = f_{z_u}: latent (U, q) holds the rows of means (K, q). Observation i then has
mean Σ_k e_ik · f_k with e_ik = Σ_{u∈k} d_iu. Moving some of the f_k by δ changes the log likelihood by δᵀ pull − δᵀ grip δ / 2,
with pull = Σ_i w_i e_i r_i and grip = Σ_i w_i e_i e_iᵀ.

Clusters that have a part in the same observations hold each other, so components are drawn in groups, a group jointly. terms as
in ``messages``. users (U,) sorted by component, those of component k being users[begins[k]:begins[k + 1]]. A group is the
components from first to end. effects (N, columns of a group): the e_i; touched (N,): the observations in which they are not
zero.
"""

import math

import numpy as np

from dualview.numerics.compiling import compiled
from dualview.numerics.draws import normal
from dualview.numerics.grouping import by_component
from dualview.numerics.hyperprior import PUBLISHED
from dualview.numerics.linalg import cholesky, loses_digits
from dualview.numerics.messages import row_times
from dualview.views.gaussian.conditionals import draw_base

WIDTH = 16  # numbers drawn jointly; more would mix a little better, and the work grows with it


@compiled
def gather(first, end, users, begins, starts, rows, loads, effects, touched, seen):
    """In place: effects of a group, which were zero; returns the number of observations touched."""
    n_dims, n_touched = loads.shape[1], 0
    for k in range(first, end):
        column = (k - first) * n_dims
        for place in range(begins[k], begins[k + 1]):
            u = users[place]
            for j in range(starts[u], starts[u + 1]):
                row = rows[j]
                if not seen[row]:
                    seen[row] = True
                    touched[n_touched] = row
                    n_touched += 1
                for i in range(n_dims):
                    effects[row, column + i] += loads[j, i]
    return n_touched


@compiled
def equations(effects, touched, n_touched, residual, precision, pull, grip):
    """In place: pull and the lower half of grip, which were zero."""
    for place in range(n_touched):
        row = touched[place]
        weight = precision[0] if precision.shape[0] == 1 else precision[row]
        for i in range(pull.shape[0]):
            weighted = weight * effects[row, i]
            if weighted != 0.0:
                pull[i] += weighted * residual[row]
                for j in range(i + 1):
                    grip[i, j] += weighted * effects[row, j]


@compiled
def equations_of_gram(first, end, users, begins, z, latent, precision, gram, weighted, pull, grip):
    """``equations`` for terms that have a gram matrix."""
    for place in range(begins[first], begins[end]):
        u = users[place]
        own = z[u] - first
        pull[own] += precision[0] * (weighted[u] - row_times(gram, u, latent))
        for other in range(begins[first], begins[first + own + 1]):
            v = users[other]
            grip[own, z[v] - first] += precision[0] * gram[u, v]


@compiled
def add_prior(first, end, means, base_mean, base_precision, linear, precision):
    """In place: the law of a group's step δ, (C16): linear term and precision from pull and grip."""
    n_dims = means.shape[1]
    for k in range(first, end):
        column = (k - first) * n_dims
        for i in range(n_dims):
            for j in range(n_dims):
                linear[column + i] += base_precision[i, j] * (base_mean[j] - means[k, j])
                precision[column + i, column + j] += base_precision[i, j]


@compiled
def settle(effects, touched, n_touched, residual, step, seen):
    """In place: residuals after a group's step; effects are zero again."""
    for place in range(n_touched):
        row = touched[place]
        for i in range(step.shape[0]):
            residual[row] -= effects[row, i] * step[i]
            effects[row, i] = 0.0
        seen[row] = False


@compiled
def draw_group(rng, first, end, z, users, begins, latent, means, base, terms, work):
    """In place on means, latent and residuals: a group's vectors, jointly. False, and nothing drawn, where digits are lost."""
    starts, rows, loads, _, residual, precision, gram, weighted, _, _ = terms
    effects, touched, seen = work
    n_dims = means.shape[1]
    size, n_touched = (end - first) * n_dims, 0
    step, matrix = np.zeros(size), np.zeros((size, size))
    if gram.shape[0] > 0:
        equations_of_gram(first, end, users, begins, z, latent, precision, gram, weighted, step, matrix)
    else:
        n_touched = gather(first, end, users, begins, starts, rows, loads, effects, touched, seen)
        equations(effects, touched, n_touched, residual, precision, step, matrix)
    add_prior(first, end, means, base[0], base[1], step, matrix)
    possible = end - first == 1 or not loses_digits(cholesky(matrix), np.diag(matrix))
    if possible:
        normal(rng, step, matrix)
        for k in range(first, end):
            for i in range(n_dims):
                means[k, i] += step[(k - first) * n_dims + i]
        for place in range(begins[first], begins[end]):
            u = users[place]
            for i in range(n_dims):
                latent[u, i] = means[z[u], i]
    else:
        step[:] = 0.0
    settle(effects, touched, n_touched, residual, step, seen)
    return possible


@compiled
def redraw_pooled(rng, z, latent, means, base, terms, hyperprior=PUBLISHED):
    """In place on latent and residuals: the f_k group after group, then μ_0 and R_0, (C3) and (C4). Returns as ``redraw_view``.

    A group whose joint draw would lose digits is taken one component after the other: which of the two depends on nothing that
    is drawn.
    """
    n_components, n_dims = means.shape
    n_rows, group = terms[4].shape[0], max(1, WIDTH // n_dims)
    means = means.copy()
    users, begins = by_component(z, n_components)
    width = min(group, n_components) * n_dims
    work = (np.zeros((n_rows, width)), np.empty(n_rows, dtype=np.int64), np.zeros(n_rows, dtype=np.bool_))
    first = 0
    while first < n_components:
        end = min(first + group, n_components)
        if not draw_group(rng, first, end, z, users, begins, latent, means, base, terms, work):
            for k in range(first, end):
                draw_group(rng, k, k + 1, z, users, begins, latent, means, base, terms, work)
        first = end
    factors = np.empty((n_components, 0, 0))
    base_mean, base_precision, base_covariance = draw_base(rng, means, factors, base[1], base[3], hyperprior)
    return means, factors, base_mean, base_precision, base_covariance, base[3]


@compiled
def prior_of(n_components, base_mean, base_precision):
    """(M2) of every component: means (K, q), and upper T with T Tᵀ = R_0, (K, q, q)."""
    n_dims = base_mean.shape[0]
    means, factors = np.empty((n_components, n_dims)), np.zeros((n_components, n_dims, n_dims))
    for k in range(n_components):
        means[k] = base_mean
        for j in range(n_dims - 1, -1, -1):
            for i in range(j, -1, -1):
                rest = base_precision[i, j]
                for d in range(j + 1, n_dims):
                    rest -= factors[k, i, d] * factors[k, j, d]
                factors[k, i, j] = math.sqrt(rest) if i == j else rest / factors[k, j, j]
    return means, factors
