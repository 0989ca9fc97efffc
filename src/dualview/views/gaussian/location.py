"""The move of location: the means of clusters together with the latent vectors of their users.

δ_k is added to μ_k and to f_u of every user u with z_u = k. The deviations f_u − μ_k stay, and with
them (M1). What changes is the prior (M2) of the means and the likelihood. Observation i has the
mean Σ_k e_ik · μ_k plus what deviations and covariates bring, with e_ik = Σ_{u∈k} d_iu; r_i is its
residual and w_i its precision. So

    δ ~ N(A⁻¹ b, A⁻¹),   A = I ⊗ R_0 + Σ_i w_i e_i e_iᵀ,   b_k = R_0 (μ_0 − μ_k) + Σ_i w_i e_ik r_i.

A component without users moves to a draw from its prior. Where each observation is of one user, A
has a block for each cluster; otherwise up to ``WIDTH`` numbers move jointly, and more of them in
groups put together at random, one group after the other.

Arrays: terms, Terms of ``messages``; group: the components that move jointly; places (K,): where
the
numbers of a component begin among those of the group, −1 for components outside it; linear and
matrix: b and the lower half of A.
"""

import numpy as np

from dualview.numerics.compiling import compiled, in_place, reordered
from dualview.numerics.linalg import factorise, loses_digits, solve_lower, solve_lower_transposed
from dualview.numerics.messages import curvature_of, gradient_of, row_times, shift
from dualview.numerics.streams import random, standard_normal

WIDTH = 16  # numbers that move jointly
# of the steps in which clusters of users who share observations move, where there is no gram
# matrix: it is costly
SHARE = 0.25

# The e_i are tabulated for a piece of the observations at a time. A piece that fits in the cache is
# quickest; there are at most PIECES of them because every piece looks at every user once.
TABLE = 1 << 17
PIECES = 16


@in_place
def one_user_each(rows):
    """Whether the observations stand in the order of their users, so that none of them is of two
    users."""
    for j in range(1, rows.shape[0]):
        if rows[j] <= rows[j - 1]:
            return False
    return True


@in_place
def add_prior(group, means, base, linear, matrix):
    """In place: b and A of a group gain what the prior (M2) of its means brings."""
    n_dims = means.shape[1]
    for g in range(group.shape[0]):
        for i in range(n_dims):
            for j in range(n_dims):
                linear[g * n_dims + i] += base.precision[i, j] * (base.mean[j] - means[group[g], j])
                matrix[g * n_dims + i, g * n_dims + j] += base.precision[i, j]


@compiled
def add_gram(places, z, latent, terms, linear, matrix):
    """In place: b and A of a group gain what the observations bring, from the gram matrix."""
    n_users, precision = z.shape[0], terms.precision[0]
    merged = np.zeros((linear.shape[0], n_users))  # Σ_{u∈k} of the rows of the gram matrix
    for u in range(n_users):
        place = places[z[u]]
        if place >= 0:
            linear[place] += precision * terms.weighted[u]
            for v in range(n_users):
                merged[place, v] += terms.gram[u, v]
    for i in range(linear.shape[0]):
        linear[i] -= precision * row_times(merged, i, latent)
        for v in range(n_users):
            place = places[z[v]]
            if 0 <= place <= i:
                matrix[i, place] += precision * merged[i, v]


@in_place
def tabulate_effects(begin, end, places, z, terms, heads, effects):
    """In place: effects (numbers, observations of a piece) become the e_i of the observations from
    begin to end.

    heads (U,): how far the observations of each user have been gone through, moved on.
    """
    rows, loads = terms.rows, terms.loads
    n_dims = loads.shape[1]
    for i in range(effects.shape[0]):
        for row in range(end - begin):
            effects[i, row] = 0.0
    for u in range(z.shape[0]):
        place, head = places[z[u]], heads[u]
        if place >= 0:
            while head < terms.starts[u + 1] and rows[head] < end:
                for i in range(n_dims):
                    effects[place + i, rows[head] - begin] += loads[head, i]
                head += 1
            heads[u] = head


@reordered
def product(first, second, offset, n):
    """Σ of first times second, n numbers each; those of the second from the offset on."""
    total = 0.0
    for t in range(n):
        total += first[t] * second[offset + t]
    return total


@compiled
def add_effects(begin, end, effects, terms, linear, matrix):
    """In place: b and A of a group gain what the observations from begin to end bring."""
    n, precision = end - begin, terms.precision
    weighted = np.empty(n)
    for i in range(linear.shape[0]):
        for t in range(n):
            weighted[t] = effects[i, t] * (
                precision[0] if precision.shape[0] == 1 else precision[begin + t]
            )
        linear[i] += product(weighted, terms.residual, begin, n)
        for j in range(i + 1):
            matrix[i, j] += product(weighted, effects[j], 0, n)


@compiled
def add_observations(places, z, terms, linear, matrix):
    """In place: b and A of a group gain what the observations bring, piece by piece; each user's
    must be in ascending order."""
    n_rows, size = terms.residual.shape[0], linear.shape[0]
    height = min(n_rows, max(TABLE // size, (n_rows + PIECES - 1) // PIECES))
    effects, heads = np.empty((size, height)), terms.starts[:-1].copy()
    begin = 0
    while begin < n_rows:
        end = min(begin + height, n_rows)
        tabulate_effects(begin, end, places, z, terms, heads, effects)
        add_effects(begin, end, effects, terms, linear, matrix)
        begin = end


@compiled
def draw_step(rng, linear, matrix):
    """In place: b becomes a draw δ of N(A⁻¹ b, A⁻¹), or zero where the factor of A would lose
    digits; A is used up.

    A depends on nothing that moves, so leaving the move out there keeps the posterior.
    """
    n = linear.shape[0]
    diagonal = np.empty(n)
    for i in range(n):
        diagonal[i] = matrix[i, i]
    factorise(matrix)
    if loses_digits(matrix, diagonal):
        for i in range(n):
            linear[i] = 0.0
    else:
        solve_lower(matrix, linear)
        for i in range(n):
            linear[i] += standard_normal(rng)
        solve_lower_transposed(matrix, linear)


@compiled
def add_independent(z, terms, linears, matrices):
    """In place: b (K q,) and A (K, q, q) of every component gain what the observations bring, which
    are of one user each."""
    n_dims = terms.loads.shape[1]
    gradient, curvature = np.empty(n_dims), np.empty((n_dims, n_dims))
    for u in range(z.shape[0]):
        gradient_of(u, terms, gradient)
        curvature_of(u, terms, curvature)
        for i in range(n_dims):
            linears[z[u] * n_dims + i] += gradient[i]
            for j in range(n_dims):
                matrices[z[u], i, j] += curvature[i, j]


@compiled
def independent_steps(rng, z, means, base, terms):
    """The steps of all components (K q,) where each observation is of one user: a component's
    depends on no other's."""
    n_components, n_dims = means.shape
    steps, matrices = np.zeros(n_components * n_dims), np.zeros((n_components, n_dims, n_dims))
    add_independent(z, terms, steps, matrices)
    group = np.empty(1, dtype=np.int64)
    for k in range(n_components):
        group[0], step = k, steps[k * n_dims : (k + 1) * n_dims]
        add_prior(group, means, base, step, matrices[k])
        draw_step(rng, step, matrices[k])
    return steps


@compiled
def step_of_group(rng, group, places, z, means, base, latent, terms):
    """The joint step of a group (numbers,)."""
    size = group.shape[0] * means.shape[1]
    step, matrix = np.zeros(size), np.zeros((size, size))
    if terms.gram.shape[0] > 0:
        add_gram(places, z, latent, terms, step, matrix)
    else:
        add_observations(places, z, terms, step, matrix)
    add_prior(group, means, base, step, matrix)
    draw_step(rng, step, matrix)
    return step


@in_place
def take_step(step, places, z, means, latent, terms):
    """In place on means, latent and, where there is no gram matrix, residuals: the components with
    a place take their step."""
    n_components, n_dims = means.shape
    for k in range(n_components):
        for i in range(n_dims if places[k] >= 0 else 0):
            means[k, i] += step[places[k] + i]
    for u in range(z.shape[0]):
        place = places[z[u]]
        if place >= 0:
            own = step[place : place + n_dims]
            for i in range(n_dims):
                latent[u, i] += own[i]
            if terms.gram.shape[0] == 0:
                shift(u, own, terms, terms.residual)


@compiled
def random_order(rng, n):
    """The numbers below n in an order of which all are alike probable."""
    order = np.arange(n)
    for last in range(n - 1, 0, -1):
        place = min(int(random(rng) * (last + 1)), last)
        order[last], order[place] = order[place], order[last]
    return order


@compiled
def relocate(rng, z, means, base, latent, terms):
    """In place on latent and residuals: the move of location. Returns the new means."""
    n_components, n_dims = means.shape
    moved, places = means.copy(), n_dims * np.arange(n_components)
    if terms.gram.shape[0] == 0 and one_user_each(terms.rows):
        take_step(independent_steps(rng, z, moved, base, terms), places, z, moved, latent, terms)
        return moved
    n_group = max(1, WIDTH // n_dims)
    order = random_order(rng, n_components) if n_components > n_group else np.arange(n_components)
    for first in range(0, n_components, n_group):
        group = order[first : first + n_group]
        places[:] = -1
        for g in range(group.shape[0]):
            places[group[g]] = g * n_dims
        take_step(
            step_of_group(rng, group, places, z, moved, base, latent, terms),
            places,
            z,
            moved,
            latent,
            terms,
        )
    return moved


@compiled
def relocate_in_turn(rng, z, means, base, latent, terms):
    """``relocate``, in some of the steps only where it is costly; whether in this one is chance.
    Returns the means."""
    uniform = random(rng)
    if terms.gram.shape[0] > 0 or uniform < SHARE or one_user_each(terms.rows):
        return relocate(rng, z, means, base, latent, terms)
    return means
