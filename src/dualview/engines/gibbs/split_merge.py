"""Splits and merges of clusters, by Metropolis and Hastings, while latent vectors stay where they are.

After Jain and Neal (2007), with users allocated one after the other as by Dahl (2003).
A user i is chosen at random, and a coin says what may happen to its cluster. It may fall into two, i's and that of j, another
of its users; or it may become one with another cluster, which is chosen by how near it is, and j is one of its users.
For a split the other users come in a random order and are told one by one to which side they go, by how near they are to those
already there; q_z is the probability of the sides. For a merge it is that of the sides as they are. The precisions of each new
cluster are drawn in both views from q(S) = W(β + n − 1, M⁻¹), M = β W_0 + scatter of its vectors about their average, and its
means, which are integrated out of all that is compared, at the end.

A split of C into A, which has i, and B is accepted with the chance min(1, r), a merge with min(1, 1/r),

    r = α Γ(n_A) Γ(n_B) / Γ(n_C) · w_A w_B / w_C · c (n_C − 1) / n_B / q_z,    w = p(S) p(vectors | S) / q(S), for both views,

where c is the chance that B would be chosen for A among all clusters but A.

A view is (vectors, base, root, known, sets, constant): vectors (U, D); base as in ``sweep``; root the lower factor of β W_0;
known = (average (C, D), lower factors of the scatter about it (C, D, D)) of every cluster; sets = (average (3, D), lower
factors of M (3, D, D), precision factors (3, D, D), work (4, D)) of A, B and C, s = 0, 1, 2; constant is what every w has,
ln|R_0|/2 − (D/2) ln 2. One of no dimensions adds nothing.
"""

import math

import numpy as np

from dualview.numerics.compiling import compiled
from dualview.numerics.draws import log_root, normal, place_of, wishart_factor
from dualview.numerics.linalg import add_to_cholesky, cholesky, factorise, join_cholesky, multiply, outer_square, solve_lower
from dualview.numerics.special import log_gamma
from dualview.numerics.streams import random
from dualview.partitions.concentration import log_rising
from dualview.views.gaussian.conditionals import component_mean

MOVES = 8  # in a sweep that has any
SHARE = 0.25  # of sweeps that have
_LARGEST_DOF = 1e10  # of β: beyond it the weights would lose digits, and there are no moves, which never change β


@compiled
def join(u, s, n, vectors, average, spread, work):
    """In place: user u joins a set of n users."""
    share = 1.0 / (n + 1.0)
    root = math.sqrt(n * share)
    for i in range(average.shape[1]):
        away = vectors[u, i] - average[s, i]
        work[i] = root * away
        average[s, i] += share * away
    add_to_cholesky(spread[s], work)


@compiled
def view_of(vectors, base, z, counts):
    """A view with what is known of every cluster."""
    n_columns, n_dims = counts.shape[0], vectors.shape[1]
    root, base_root, constant = cholesky(base[2]), cholesky(base[1]), 0.0
    for i in range(n_dims):
        constant += math.log(base_root[i, i]) - 0.5 * math.log(2.0)
        for j in range(i + 1):
            root[i, j] *= math.sqrt(base[3])
    known = np.zeros((n_columns, n_dims)), np.zeros((n_columns, n_dims, n_dims))
    sets = np.empty((3, n_dims)), np.empty((3, n_dims, n_dims)), np.empty((3, n_dims, n_dims)), np.empty((4, n_dims))
    seen = np.zeros(n_columns, dtype=np.int64)
    for u in range(z.shape[0]):
        join(u, z[u], seen[z[u]], vectors, known[0], known[1], sets[3][0])
        seen[z[u]] += 1
    return vectors, base, root, known, sets, constant


@compiled
def learn(column, z, view):
    """In place: what is known of a cluster that has changed."""
    vectors, known, sets = view[0], view[3], view[4]
    n = 0
    for i in range(vectors.shape[1]):
        known[0][column, i] = 0.0
        for j in range(vectors.shape[1]):
            known[1][column, i, j] = 0.0
    for u in range(z.shape[0]):
        if z[u] == column:
            join(u, column, n, vectors, known[0], known[1], sets[3][0])
            n += 1


@compiled
def of_one(s, u, view):
    """In place: set s has one user."""
    vectors, root, sets = view[0], view[2], view[4]
    for i in range(vectors.shape[1]):
        sets[0][s, i] = vectors[u, i]
        for j in range(vectors.shape[1]):
            sets[1][s, i, j] = root[i, j]


@compiled
def of_column(s, column, factors, view):
    """In place: set s is a cluster, and has its precision."""
    root, known, sets = view[2], view[3], view[4]
    for i in range(root.shape[0]):
        sets[0][s, i] = known[0][column, i]
        for j in range(root.shape[0]):
            sets[1][s, i, j] = root[i, j]
            sets[2][s, i, j] = factors[column, i, j]
    join_cholesky(sets[1][s], known[1][column], sets[3][0])


@compiled
def of_both(n, column, n_second, view):
    """In place: C is A, of n users, with a cluster of n_second users."""
    known, sets = view[3], view[4]
    share = n_second / (n + n_second)
    for i in range(sets[0].shape[1]):
        for j in range(sets[0].shape[1]):
            sets[1][2, i, j] = sets[1][0, i, j]
    join_cholesky(sets[1][2], known[1][column], sets[3][0])
    work = sets[3][0]
    for i in range(sets[0].shape[1]):
        away = known[0][column, i] - sets[0][0, i]
        sets[0][2, i] = sets[0][0, i] + share * away
        work[i] = math.sqrt(n * share) * away
    add_to_cholesky(sets[1][2], work)


@compiled
def propose(rng, s, n, view):
    """In place: the precision of a new set."""
    wishart_factor(rng, view[1][3] + n - 1.0, view[4][1][s], view[4][2][s])


@compiled
def log_weight(s, n, view):
    """ln w of a set of n users in one view, without the power of π, n D/2 of them: these add up over users."""
    _, (base_mean, base_precision, _, dof), root, _, (average, spread, factors, work), total = view
    n_dims = root.shape[0]
    away, pulled, held, matrix = work[0], work[1], work[2], np.empty((n_dims, n_dims))
    for i in range(n_dims):
        total += log_root(factors[s, i, i]) + log_rising(0.5 * (dof - i), 0.5 * (n - 1.0))
        total -= (n - 1.0) * math.log(root[i, i]) + (dof + n - 1.0) * math.log(spread[s, i, i] / root[i, i])
        away[i] = average[s, i] - base_mean[i]
    outer_square(factors[s], float(n), matrix)  # n S
    for i in range(n_dims):  # the average's covariance about μ_0 is (n S)⁻¹ + R_0⁻¹, its precision n S Λ⁻¹ R_0, Λ = R_0 + n S
        pulled[i] = held[i] = 0.0
        for j in range(n_dims):
            pulled[i] += matrix[i, j] * away[j]
            held[i] += base_precision[i, j] * away[j]
    for i in range(n_dims):
        for j in range(n_dims):
            matrix[i, j] += base_precision[i, j]
    factorise(matrix)
    solve_lower(matrix, pulled)
    solve_lower(matrix, held)
    for i in range(n_dims):
        total -= math.log(matrix[i, i]) + 0.5 * pulled[i] * held[i]
    return total


@compiled
def level(s, n, view):
    """The part of a set's attraction that does not depend on who is attracted."""
    dof, spread = view[1][3], view[4][1]
    product, total = (dof + n) * n / (n + 1.0), 0.0
    for i in range(spread.shape[1]):
        total += 0.5 * math.log(product) - math.log(spread[s, i, i])
    return total


@compiled
def squared_distance(vectors, u, average, s, factor, work):
    """|C⁻¹ (x_u − a_s)|², C = factor lower."""
    square = 0.0
    for i in range(average.shape[1]):
        rest = vectors[u, i] - average[s, i]
        for k in range(i):
            rest -= factor[i, k] * work[k]
        work[i] = rest / factor[i, i]
        square += work[i] * work[i]
    return square


@compiled
def distance(u, s, n, view):
    """The part of a set's attraction that does."""
    average, spread, _, work = view[4]
    square = squared_distance(view[0], u, average, s, spread[s], work[0])
    return 0.5 * (view[1][3] + n) * math.log1p(square * n / (n + 1.0))


@compiled
def allocate(rng, drawn, i, j, z, others, sides, sizes, features, latent):
    """In place on the sets A and B, others and, when they are drawn, sides: all join i or j in turn; returns ln q_z."""
    n_others = members(rng, z, i, j, others)
    levels = np.empty(2)
    for s in range(2):
        of_one(s, j if s == 1 else i, features)
        of_one(s, j if s == 1 else i, latent)
        sizes[s] = 1
        levels[s] = level(s, sizes[s], features) + level(s, sizes[s], latent)
    total = 0.0
    for t in range(n_others):
        u, odds = others[t], levels[0] - levels[1]
        for s in range(2):
            away = distance(u, s, sizes[s], features) + distance(u, s, sizes[s], latent)
            odds += away if s == 1 else -away
        less = math.exp(-abs(odds))  # the less likely side against the other
        likely = 0 if odds > 0.0 else 1
        if drawn:
            sides[t] = 1 - likely if random(rng) * (1.0 + less) < less else likely
        else:
            sides[t] = 0 if z[u] == z[i] else 1
        s = sides[t]
        total -= math.log1p(less) + (0.0 if s == likely else abs(odds))
        join(u, s, sizes[s], features[0], features[4][0], features[4][1], features[4][3][0])
        join(u, s, sizes[s], latent[0], latent[4][0], latent[4][1], latent[4][3][0])
        sizes[s] += 1
        levels[s] = level(s, sizes[s], features) + level(s, sizes[s], latent) + math.log(sizes[s])
    return total


@compiled
def settle(rng, column, s, n, means, factors, view):
    """In place: a column becomes the cluster of set s, with the precision it was proposed with and a mean, (C2)."""
    (base_mean, base_precision, _, _), (average, _, proposed, work) = view[1], view[4]
    n_dims = means.shape[1]
    matrix, linear = np.empty((n_dims, n_dims)), multiply(base_precision, base_mean)
    for i in range(n_dims):
        work[3, i] = n * average[s, i]
        for j in range(n_dims):
            factors[column, i, j] = proposed[s, i, j]
    component_mean(linear, base_precision, float(n), work[3], factors[column], means[column], matrix)
    normal(rng, means[column], matrix)


@compiled
def members(rng, z, i, j, others):
    """In place: the others of the clusters of i and j, in a uniformly random order; returns their number."""
    n = 0
    for u in range(z.shape[0]):
        if (z[u] == z[i] or z[u] == z[j]) and u != i and u != j:
            place = min(int(random(rng) * (n + 1)), n)
            others[n] = others[place]
            others[place] = u
            n += 1
    return n


@compiled
def draw_moves(rng, n_fixed, noise):
    """How many moves a sweep has; none where the number of clusters is fixed or clusters have a noise of their own."""
    return MOVES if n_fixed == 0 and noise.shape[0] == 0 and random(rng) < SHARE else 0


@compiled
def nearness(average, latent_average, s, other, latent_other, c, features, latent):
    """What a cluster weighs when one is chosen to merge with, by the distance of averages s and c in the metric W_0⁻¹."""
    square = features[1][3] * squared_distance(average, s, other, c, features[2], features[4][3][0])
    square += latent[1][3] * squared_distance(latent_average, s, latent_other, c, latent[2], latent[4][3][0])
    return 1e-6 + 1.0 / (1.0 + 0.1 * square) ** 4


@compiled
def choose_other(rng, first, counts, near, features, latent):
    """A cluster other than the first, by how near it is, or −1 if there is none; and the chance that it has."""
    known, latent_known, total = features[3][0], latent[3][0], 0.0
    for c in range(counts.shape[0]):
        near[c] = 0.0
        if c != first and counts[c] > 0:
            near[c] = nearness(known, latent_known, first, known, latent_known, c, features, latent)
            total += near[c]
    chosen = place_of(random(rng) * total, near)
    return chosen, near[chosen] / total if chosen >= 0 else 0.0


@compiled
def chance_of_other(column, counts, features, latent):
    """That B would be chosen for A, were A and B there instead of the column."""
    average, latent_average, known, latent_known = features[4][0], latent[4][0], features[3][0], latent[3][0]
    own = nearness(average, latent_average, 0, average, latent_average, 1, features, latent)
    total = own
    for c in range(counts.shape[0]):
        if c != column and counts[c] > 0:
            total += nearness(average, latent_average, 0, known, latent_known, c, features, latent)
    return own / total


@compiled
def choose_member(rng, column, n, i, z):
    """One of the n users of a column who are not i."""
    place, j = min(int(random(rng) * n), n - 1), 0
    while True:
        if z[j] == column and j != i:
            if place == 0:
                return j
            place -= 1
        j += 1


@compiled
def weight_of_column(s, column, n, log_weights, factors, latent_factors, features, latent):
    """ln w + lnΓ(n) of a cluster that there is, by set s where it is not yet in log_weights."""
    if math.isnan(log_weights[column]):
        of_column(s, column, factors, features)
        of_column(s, column, latent_factors, latent)
        log_weights[column] = log_weight(s, n, features) + log_weight(s, n, latent) + log_gamma(float(n))
    return log_weights[column]


@compiled
def relabel(splitting, first, second, j, others, sides, sizes, z, counts):
    """In place: the clusters of A and B, or of C, in place of what there was. Returns the columns of A (or C) and B."""
    if splitting:
        second = 0
        while counts[second] >= 0:
            second += 1
        counts[first], counts[second] = sizes[0], sizes[1]
        z[j] = second
    else:
        counts[first], counts[second] = sizes[2], -1
        z[j] = first
    for t in range(sizes[0] + sizes[1] - 2):
        z[others[t]] = second if splitting and sides[t] == 1 else first
    return first, second


@compiled
def split_and_merge(rng, n_moves, z, counts, alpha, features, latent, columns, bases):
    """In place on z, counts (as in ``assign``) and columns: some moves. For each there must be a free column.

    Returns how many splits and how many merges were accepted.
    """
    means, factors, latent_means, latent_factors = columns
    n_users, n_columns, n_splits, n_merges = z.shape[0], counts.shape[0], 0, 0
    if n_moves == 0 or n_users < 2 or bases[0][3] > _LARGEST_DOF or bases[1][3] > _LARGEST_DOF:
        return n_splits, n_merges
    x, f = view_of(features, bases[0], z, counts), view_of(latent, bases[1], z, counts)
    sizes, weights = np.empty(3, dtype=np.int64), np.empty(3)
    others, sides = np.empty(n_users, dtype=np.int64), np.empty(n_users, dtype=np.int64)
    near, log_weights = np.empty(n_columns), np.full(n_columns, math.nan)
    for _ in range(n_moves):
        i = min(int(random(rng) * n_users), n_users - 1)
        splitting, first, chance = random(rng) < 0.5, z[i], 1.0
        second = first
        if not splitting:
            second, chance = choose_other(rng, first, counts, near, x, f)
        n_choices = counts[second] - splitting if second >= 0 else 0
        if n_choices == 0:
            continue
        j, log_uniform, log_sides = choose_member(rng, second, n_choices, i, z), math.log(1.0 - random(rng)), 0.0
        old, new = ((2, 3), (0, 2)) if splitting else ((0, 2), (2, 3))  # sets that are clusters, and that may become some
        if splitting:
            log_sides = allocate(rng, splitting, i, j, z, others, sides, sizes, x, f)
        for s in range(old[0], old[1]):
            column = second if s == 1 else first
            sizes[s] = counts[column]
            weights[s] = weight_of_column(s, column, sizes[s], log_weights, factors, latent_factors, x, f)
        if not splitting:
            of_column(0, first, factors, x)
            of_column(0, first, latent_factors, f)
            of_both(sizes[0], second, sizes[1], x)
            of_both(sizes[0], second, sizes[1], f)
            sizes[2] = sizes[0] + sizes[1]
        for s in range(new[0], new[1]):
            propose(rng, s, sizes[s], x)
            propose(rng, s, sizes[s], f)
            weights[s] = log_weight(s, sizes[s], x) + log_weight(s, sizes[s], f) + log_gamma(float(sizes[s]))
        ratio = math.log(alpha) + weights[0] + weights[1] - weights[2]
        ratio += math.log(chance * (sizes[2] - 1.0) / sizes[1])
        # A split still lacks c, and a merge q_z. Both are at most 1, so what is refused without them would be with them.
        if splitting and log_uniform < ratio - log_sides:
            ratio += math.log(chance_of_other(first, counts, x, f))
        elif not splitting and log_uniform < -ratio:
            log_sides = allocate(rng, splitting, i, j, z, others, sides, sizes, x, f)
        if not log_uniform < (ratio - log_sides if splitting else log_sides - ratio):
            continue
        n_splits, n_merges = n_splits + splitting, n_merges + (not splitting)
        places = relabel(splitting, first, second, j, others, sides, sizes, z, counts)
        for s in range(new[0], new[1]):
            column = places[s % 2]
            log_weights[column] = math.nan
            settle(rng, column, s, sizes[s], means, factors, x)
            settle(rng, column, s, sizes[s], latent_means, latent_factors, f)
            learn(column, z, x)
            learn(column, z, f)
    return n_splits, n_merges
