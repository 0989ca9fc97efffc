"""Splits and merges of clusters in a Gaussian view: what is known about clusters and sets of users,
and their weights.

The precision of a new set of n users is proposed from q(S) = W(β + n − 1, M⁻¹), M = β W_0 + scatter
of its vectors about their average; its mean is integrated out of all that is compared, and drawn at
the end. Its weight is w = p(S) p(vectors | S) / q(S).

Where clusters have heavy tails users keep their weights λ_u, (M19): averages and scatters are
weighted, and for n in the covariance of an average stands the sum of the weights. They cancel in
everything else.
"""

import math
from typing import NamedTuple

import numpy as np

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.draws import log_root, normal, wishart_factor
from dualview.numerics.kinds import register
from dualview.numerics.linalg import (
    add_to_cholesky,
    cholesky,
    factorise,
    join_cholesky,
    multiply,
    outer_square,
    solve_lower,
)
from dualview.numerics.special import log_rising
from dualview.views.base import Array, Base, Components
from dualview.views.gaussian.conditionals import component_mean
from dualview.views.gaussian.kind import Gaussian

# of β: beyond it the weights would lose digits, and there are no moves, which never change β
_LARGEST_DOF = 1e10


class Moments(NamedTuple):
    """averages (n, D) of some sets of vectors, lower factors (n, D, D) of their scatter or of M,
    and the sums (n,) of the users' weights."""

    averages: Array
    spreads: Array
    weights: Array


class GaussianSplit(NamedTuple):
    """root: the lower factor of β W_0. clusters: every column's average and scatter. sets: averages
    and M of A, B and C.

    proposed (3, D, D): the sets' precision factors. work (4, D): to work in. constant: what every
    weight has, ln|R_0|/2 − (D/2) ln 2. weights (U,): of users; empty where all are 1.
    """

    vectors: Array
    weights: Array
    components: Components
    base: Base
    root: Array
    clusters: Moments
    sets: Moments
    proposed: Array
    work: Array
    constant: float


@in_place
def weight_of(u, weights):
    """The weight of user u."""
    return weights[u] if weights.shape[0] > 0 else 1.0


@in_place
def join_moments(u, s, vectors, weights, moments, work):
    """In place: user u joins a set."""
    weight, before = weight_of(u, weights), moments.weights[s]
    share = weight / (before + weight)
    root = math.sqrt(before * share)
    for i in range(vectors.shape[1]):
        away = vectors[u, i] - moments.averages[s, i]
        work[i] = root * away
        moments.averages[s, i] += share * away
    moments.weights[s] += weight
    add_to_cholesky(moments.spreads[s], work)


@compiled
def split_start(z, counts, view):
    return start_split(z, counts, np.empty(0), view)


@compiled
def start_split(z, counts, weights, view):
    """``split_start`` with weights (U,) of users; none where all are 1."""
    n_columns, n_dims, base = counts.shape[0], view.vectors.shape[1], view.base
    root, base_root, constant = cholesky(base.covariance), cholesky(base.precision), 0.0
    for i in range(n_dims):
        constant += math.log(base_root[i, i]) - 0.5 * math.log(2.0)
        for j in range(i + 1):
            root[i, j] *= math.sqrt(base.dof)
    clusters = Moments(
        np.zeros((n_columns, n_dims)), np.zeros((n_columns, n_dims, n_dims)), np.zeros(n_columns)
    )
    sets = Moments(np.empty((3, n_dims)), np.empty((3, n_dims, n_dims)), np.empty(3))
    proposed, work = np.empty((3, n_dims, n_dims)), np.empty((4, n_dims))
    for u in range(z.shape[0]):
        join_moments(u, z[u], view.vectors, weights, clusters, work[0])
    return GaussianSplit(
        view.vectors, weights, view.components, base, root, clusters, sets, proposed, work, constant
    )


@in_place
def splittable(split):
    return split.base.dof <= _LARGEST_DOF


@in_place
def set_user(s, u, split):
    split.sets.weights[s] = weight_of(u, split.weights)
    for i in range(split.vectors.shape[1]):
        split.sets.averages[s, i] = split.vectors[u, i]
        for j in range(split.vectors.shape[1]):
            split.sets.spreads[s, i, j] = split.root[i, j]


@in_place
def set_column(s, column, split):
    split.sets.weights[s] = split.clusters.weights[column]
    for i in range(split.root.shape[0]):
        split.sets.averages[s, i] = split.clusters.averages[column, i]
        for j in range(split.root.shape[0]):
            split.sets.spreads[s, i, j] = split.root[i, j]
            split.proposed[s, i, j] = split.components.factors[column, i, j]
    join_cholesky(split.sets.spreads[s], split.clusters.spreads[column], split.work[0])


@in_place
def set_both(n, column, n_column, split):  # noqa: ARG001
    averages, spreads, work = split.sets.averages, split.sets.spreads, split.work[0]
    weight, more = split.sets.weights[0], split.clusters.weights[column]
    share = more / (weight + more)
    split.sets.weights[2] = weight + more
    for i in range(averages.shape[1]):
        for j in range(averages.shape[1]):
            spreads[2, i, j] = spreads[0, i, j]
    join_cholesky(spreads[2], split.clusters.spreads[column], work)
    for i in range(averages.shape[1]):
        away = split.clusters.averages[column, i] - averages[0, i]
        averages[2, i] = averages[0, i] + share * away
        work[i] = math.sqrt(weight * share) * away
    add_to_cholesky(spreads[2], work)


@in_place
def join(u, s, n, split):  # noqa: ARG001
    join_moments(u, s, split.vectors, split.weights, split.sets, split.work[0])


@in_place
def learn(column, z, split):
    clusters = split.clusters
    clusters.weights[column] = 0.0
    for i in range(split.vectors.shape[1]):
        clusters.averages[column, i] = 0.0
        for j in range(split.vectors.shape[1]):
            clusters.spreads[column, i, j] = 0.0
    for u in range(z.shape[0]):
        if z[u] == column:
            join_moments(u, column, split.vectors, split.weights, clusters, split.work[0])


@in_place
def propose(rng, s, n, split):
    wishart_factor(rng, split.base.dof + n - 1.0, split.sets.spreads[s], split.proposed[s])


@compiled
def log_weight(s, n, split):
    base, root, factors, spreads, dof = (
        split.base,
        split.root,
        split.proposed,
        split.sets.spreads,
        split.base.dof,
    )
    n_dims, total = root.shape[0], split.constant
    away, pulled, held, matrix = (
        split.work[0],
        split.work[1],
        split.work[2],
        np.empty((n_dims, n_dims)),
    )
    for i in range(n_dims):
        total += log_root(factors[s, i, i]) + log_rising(0.5 * (dof - i), 0.5 * (n - 1.0))
        total -= (n - 1.0) * math.log(root[i, i]) + (dof + n - 1.0) * math.log(
            spreads[s, i, i] / root[i, i]
        )
        away[i] = split.sets.averages[s, i] - base.mean[i]
    outer_square(factors[s], split.sets.weights[s], matrix)  # n S
    for i in range(
        n_dims
    ):  # the average's covariance about μ_0 is (n S)⁻¹ + R_0⁻¹, its precision n S Λ⁻¹ R_0, Λ = R_0 + n S  # noqa: E501
        pulled[i] = held[i] = 0.0
        for j in range(n_dims):
            pulled[i] += matrix[i, j] * away[j]
            held[i] += base.precision[i, j] * away[j]
    for i in range(n_dims):
        for j in range(n_dims):
            matrix[i, j] += base.precision[i, j]
    factorise(matrix)
    solve_lower(matrix, pulled)
    solve_lower(matrix, held)
    for i in range(n_dims):
        total -= math.log(matrix[i, i]) + 0.5 * pulled[i] * held[i]
    return total


@in_place
def level(s, n, split):
    product, total = (split.base.dof + n) * n / (n + 1.0), 0.0
    for i in range(split.root.shape[0]):
        total += 0.5 * math.log(product) - math.log(split.sets.spreads[s, i, i])
    return total


@in_place
def squared_length(vector, centre, factor, work):
    """|C⁻¹ (x − a)|², C = factor lower."""
    square = 0.0
    for i in range(vector.shape[0]):
        rest = vector[i] - centre[i]
        for k in range(i):
            rest -= factor[i, k] * work[k]
        work[i] = rest / factor[i, i]
        square += work[i] * work[i]
    return square


@in_place
def distance(u, s, n, split):
    square = squared_length(
        split.vectors[u], split.sets.averages[s], split.sets.spreads[s], split.work[0]
    )
    own, before = weight_of(u, split.weights), split.sets.weights[s]
    return 0.5 * (split.base.dof + n) * math.log1p(square * (own * before) / (before + own))


@in_place
def squared_distance(own, is_set, column, to_set, split):
    average = split.sets.averages[own] if is_set else split.clusters.averages[own]
    other = split.sets.averages[column] if to_set else split.clusters.averages[column]
    return split.base.dof * squared_length(average, other, split.root, split.work[0])


@compiled
def accept(rng, column, s, n, split):  # noqa: ARG001
    means, factors, base = split.components.means, split.components.factors, split.base
    n_dims = means.shape[1]
    matrix, linear = np.empty((n_dims, n_dims)), multiply(base.precision, base.mean)
    weight = split.sets.weights[s]
    for i in range(n_dims):
        split.work[3, i] = weight * split.sets.averages[s, i]
        for j in range(n_dims):
            factors[column, i, j] = split.proposed[s, i, j]
    component_mean(
        linear, base.precision, weight, split.work[3], factors[column], means[column], matrix
    )
    normal(rng, means[column], matrix)


register(Gaussian, split_start=split_start)
register(
    GaussianSplit,
    splittable=splittable,
    set_user=set_user,
    set_column=set_column,
    set_both=set_both,
    join=join,
    learn=learn,
    propose=propose,
    log_weight=log_weight,
    level=level,
    distance=distance,
    squared_distance=squared_distance,
    accept=accept,
)
