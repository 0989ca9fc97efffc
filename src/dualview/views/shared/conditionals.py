"""Clusters whose users share one latent vector: the draw of these vectors given the clusters.

Component k has f_k ~ N(μ_0, R_0⁻¹), and f_u = f_{z_u}: the users' vectors (U, q) are rows of means
(K, q). Observation i then has mean Σ_k e_ik · f_k with e_ik = Σ_{u∈k} d_iu. Moving some of the f_k
by δ changes the log likelihood by δᵀ gradient − δᵀ curvature δ / 2, with gradient = Σ_i w_i e_i r_i
and curvature = Σ_i w_i e_i e_iᵀ.

Clusters that have a part in the same observations hold each other, so components are drawn in
groups, a group jointly. A group is the components from first to end.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.draws import normal
from dualview.numerics.hyperprior import PUBLISHED
from dualview.numerics.linalg import by_component, cholesky, loses_digits
from dualview.numerics.messages import row_times
from dualview.views.gaussian.density import HALF_LOG_2PI, log_scale_prior

WIDTH = 16  # numbers drawn jointly; more would mix a little better, and the work grows with it


class Members(NamedTuple):
    """users (U,) sorted by component, those of component k being users[begins[k]:begins[k + 1]]; z
    (U,): who is where."""

    users: NDArray[np.int64]
    begins: NDArray[np.int64]
    z: NDArray[np.int64]


class Effects(NamedTuple):
    """values (N, numbers of a group): the e_i; touched (N,): observations in which they are not
    zero; seen (N,): which."""

    values: NDArray[np.float64]
    touched: NDArray[np.int64]
    seen: NDArray[np.bool_]


@in_place
def gather(first, end, members, terms, effects):
    """In place: effects of a group, which were zero; returns the number of observations touched."""
    n_dims, n_touched, seen = terms.loads.shape[1], 0, effects.seen
    for k in range(first, end):
        column = (k - first) * n_dims
        for place in range(members.begins[k], members.begins[k + 1]):
            u = members.users[place]
            for j in range(terms.starts[u], terms.starts[u + 1]):
                row = terms.rows[j]
                if not seen[row]:
                    seen[row] = True
                    effects.touched[n_touched] = row
                    n_touched += 1
                for i in range(n_dims):
                    effects.values[row, column + i] += terms.loads[j, i]
    return n_touched


@in_place
def equations(n_touched, terms, effects, gradient, curvature):
    """In place: gradient and the lower half of curvature, which were zero."""
    values, precision = effects.values, terms.precision
    for place in range(n_touched):
        row = effects.touched[place]
        weight = precision[0] if precision.shape[0] == 1 else precision[row]
        for i in range(gradient.shape[0]):
            weighted = weight * values[row, i]
            if weighted != 0.0:
                gradient[i] += weighted * terms.residual[row]
                for j in range(i + 1):
                    curvature[i, j] += weighted * values[row, j]


@in_place
def equations_of_gram(first, end, members, vectors, terms, gradient, curvature):
    """``equations`` for terms that have a gram matrix."""
    users, begins, z, precision = members.users, members.begins, members.z, terms.precision[0]
    for place in range(begins[first], begins[end]):
        u = users[place]
        own = z[u] - first
        gradient[own] += precision * (terms.weighted[u] - row_times(terms.gram, u, vectors))
        for other in range(begins[first], begins[first + own + 1]):
            v = users[other]
            curvature[own, z[v] - first] += precision * terms.gram[u, v]


@in_place
def add_prior(first, end, means, view, linear, precision):
    """In place: the distribution of a group's step δ, (C16): linear term and precision from
    gradient and curvature."""
    n_dims = means.shape[1]
    for k in range(first, end):
        column = (k - first) * n_dims
        for i in range(n_dims):
            for j in range(n_dims):
                linear[column + i] += view.precision[i, j] * (view.mean[j] - means[k, j])
                precision[column + i, column + j] += view.precision[i, j]


@in_place
def clear(n_touched, step, terms, effects):
    """In place: residuals after a group's step; effects are zero again."""
    for place in range(n_touched):
        row = effects.touched[place]
        for i in range(step.shape[0]):
            terms.residual[row] -= effects.values[row, i] * step[i]
            effects.values[row, i] = 0.0
        effects.seen[row] = False


@compiled
def draw_group(rng, first, end, members, means, view, terms, effects):
    """In place on means, vectors and residuals: a group's vectors, jointly. False, and nothing
    drawn, where digits are lost."""
    n_dims, vectors = means.shape[1], view.vectors
    size, n_touched = (end - first) * n_dims, 0
    step, matrix = np.zeros(size), np.zeros((size, size))
    if terms.gram.shape[0] > 0:
        equations_of_gram(first, end, members, vectors, terms, step, matrix)
    else:
        n_touched = gather(first, end, members, terms, effects)
        equations(n_touched, terms, effects, step, matrix)
    add_prior(first, end, means, view, step, matrix)
    possible = end - first == 1 or not loses_digits(cholesky(matrix), np.diag(matrix))
    if possible:
        normal(rng, step, matrix)
        for k in range(first, end):
            for i in range(n_dims):
                means[k, i] += step[(k - first) * n_dims + i]
        for place in range(members.begins[first], members.begins[end]):
            u = members.users[place]
            for i in range(n_dims):
                vectors[u, i] = means[members.z[u], i]
    else:
        step[:] = 0.0
    clear(n_touched, step, terms, effects)
    return possible


@compiled
def draw_vectors(rng, z, terms, view):
    """In place on the users' vectors and residuals: the f_k group after group; returns them.

    A group whose joint draw would lose digits is taken one component after the other: which of the
    two depends on nothing that is drawn.
    """
    n_components, n_dims = view.means.shape
    n_rows, group, means = terms.residual.shape[0], max(1, WIDTH // n_dims), view.means.copy()
    users, begins = by_component(z, n_components)
    members, width = Members(users, begins, z), min(group, n_components) * n_dims
    seen = np.zeros(n_rows, dtype=np.bool_)
    effects = Effects(np.zeros((n_rows, width)), np.empty(n_rows, dtype=np.int64), seen)
    first = 0
    while first < n_components:
        end = min(first + group, n_components)
        if not draw_group(rng, first, end, members, means, view, terms, effects):
            for k in range(first, end):
                draw_group(rng, k, k + 1, members, means, view, terms, effects)
        first = end
    return means


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


@compiled
def log_shared(means, base_mean, base_precision, hyperprior=PUBLISHED):
    """ln p(f_1, …, f_K, μ_0, R_0) of vectors that users share, up to a constant, (M2), (M4) and
    (M5)."""
    n_components, n_dims = means.shape
    total = (
        log_scale_prior(base_precision, n_dims - 1 + hyperprior.of_means)
        - n_components * n_dims * HALF_LOG_2PI
    )
    factor = cholesky(base_precision)
    for i in range(n_dims):
        total += n_components * math.log(factor[i, i]) - 0.5 * base_mean[i] ** 2
        for k in range(n_components):
            projection = 0.0
            for j in range(i, n_dims):
                projection += factor[j, i] * (means[k, j] - base_mean[j])
            total -= 0.5 * projection * projection
    return total
