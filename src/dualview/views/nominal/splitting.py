"""Splits and merges of clusters in nominal columns: θ is integrated out of all that is compared,
and drawn at the end."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.kinds import register
from dualview.views.base import Array
from dualview.views.nominal.conditionals import count_levels, draw_shares, log_evidence
from dualview.views.nominal.kind import Nominal


class NominalSplit(NamedTuple):
    """clusters (C, Σ L_j): every column's levels. sets (3, Σ L_j): those of A, B and C."""

    codes: NDArray[np.int64]
    starts: NDArray[np.int64]
    shares: Array
    logs: Array
    concentrations: Array
    clusters: Array
    sets: Array


@compiled
def split_start(z, counts, view):
    clusters = count_levels(z, np.int64(0), z.shape[0], view.codes, view.starts, counts.shape[0])
    sets = np.zeros((3, view.shares.shape[0]))
    return NominalSplit(
        view.codes, view.starts, view.shares, view.logs, view.concentrations, clusters, sets
    )


@in_place
def splittable(split):  # noqa: ARG001
    return True


@in_place
def set_user(s, u, split):
    for i in range(split.shares.shape[0]):
        split.sets[s, i] = 0.0
    add_user(u, split.sets[s], split)


@in_place
def add_user(u, levels, split):
    """In place: one user more."""
    for j in range(split.codes.shape[0]):
        if split.codes[j, u] >= 0:
            levels[split.starts[j] + split.codes[j, u]] += 1.0


@in_place
def set_column(s, column, split):
    for i in range(split.shares.shape[0]):
        split.sets[s, i] = split.clusters[column, i]


@in_place
def set_both(n, column, n_column, split):  # noqa: ARG001
    for i in range(split.shares.shape[0]):
        split.sets[2, i] = split.sets[0, i] + split.clusters[column, i]


@in_place
def join(u, s, n, split):  # noqa: ARG001
    add_user(u, split.sets[s], split)


@in_place
def learn(column, z, split):
    for i in range(split.shares.shape[0]):
        split.clusters[column, i] = 0.0
    for u in range(z.shape[0]):
        if z[u] == column:
            add_user(u, split.clusters[column], split)


@in_place
def propose(rng, s, n, split):
    """Nothing: a set has no parameters until it is accepted."""


@in_place
def log_weight(s, n, split):  # noqa: ARG001
    total = 0.0
    for j in range(split.codes.shape[0]):
        first, end = split.starts[j], split.starts[j + 1]
        total += log_evidence(
            split.sets[s, first:end], split.shares[first:end], split.concentrations[j]
        )
    return total


@in_place
def level(s, n, split):  # noqa: ARG001
    return 0.0


@in_place
def predicted(level, j, levels, split):
    """The probability of a level in column j, given the levels of some users."""
    n = split.concentrations[j]
    for i in range(split.starts[j], split.starts[j + 1]):
        n += levels[i]
    i = split.starts[j] + level
    return (split.concentrations[j] * split.shares[i] + levels[i]) / n


@in_place
def distance(u, s, n, split):  # noqa: ARG001
    total = 0.0
    for j in range(split.codes.shape[0]):
        if split.codes[j, u] >= 0:
            total -= math.log(predicted(split.codes[j, u], j, split.sets[s], split))
    return total


@in_place
def squared_distance(own, is_set, column, to_set, split):
    levels = split.sets[own] if is_set else split.clusters[own]
    others = split.sets[column] if to_set else split.clusters[column]
    total = 0.0
    for j in range(split.codes.shape[0]):
        for i in range(split.starts[j + 1] - split.starts[j]):
            gap = predicted(i, j, levels, split) - predicted(i, j, others, split)
            total += gap * gap / split.shares[split.starts[j] + i]
    return total


@in_place
def accept(rng, column, s, n, split):  # noqa: ARG001
    draw_shares(
        rng, split.sets[s], split.starts, split.shares, split.concentrations, split.logs[column]
    )


register(Nominal, split_start=split_start)
register(
    NominalSplit,
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
