"""Splits and merges of clusters of customers, by Metropolis and Hastings: ``moves.split_merge`` with a label for each view.

Users i and j are chosen among those who agree, so that every cluster that is split or merged, and every one that comes of it,
has users in all views. All other customers of the cluster go to one side: those of users who agree with both views, those of
the others with the view they belong to. Who agrees does not change. With n the users of a cluster who agree, a split of C into
A and B is accepted with probability min(1, r), a merge with min(1, 1/r),

    r = p(A, B) / p(C) · w_A w_B / w_C · c (n_C − 1) / n_B / q_z,

where the first ratio counts customers, and c is over the clusters but A that have users who agree.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.engines.gibbs.moves.split_merge import all_of, chance_of_other, choose_other, free_column
from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.streams import random
from dualview.partitions.verbs import log_another, log_cluster
from dualview.views.verbs import (
    accept_each,
    join_each,
    learn_each,
    propose_each,
    set_both_each,
    set_column_each,
    set_user_each,
    split_start_each,
    splittable_each,
    total_distance,
    total_level,
    total_log_weight,
)

WHOLE, SEEN, ACTING = 0, 1, 2  # what there is of a customer: both views, the observed ones, behavior
N_COUNTS = 4


class Counts(NamedTuple):
    """Of every column (C,), or of the sets A, B and C: customers, users by their look, by their acts, users who agree."""

    customers: NDArray[np.int64]
    seen: NDArray[np.int64]
    acting: NDArray[np.int64]
    agreeing: NDArray[np.int64]


class Proposal(NamedTuple):
    """users (n,), pieces (n,) and sides (n,) of the customers but i and j, in the order of allocation; sizes of the sets."""

    users: NDArray[np.int64]
    pieces: NDArray[np.int64]
    sides: NDArray[np.int64]
    sizes: Counts


class Splits(NamedTuple):
    """Records of the observed views, and of behavior alone."""

    seen: Any
    acting: Any


@compiled
def no_counts(n):
    """Zeros."""
    zeros = np.zeros((N_COUNTS, n), dtype=np.int64)
    return Counts(zeros[0], zeros[1], zeros[2], zeros[3])


@in_place
def add(place, piece, counts):
    """In place: one more customer."""
    counts.customers[place] += 1
    if piece != ACTING:
        counts.seen[place] += 1
    if piece != SEEN:
        counts.acting[place] += 1
    if piece == WHOLE:
        counts.agreeing[place] += 1


@in_place
def copy_counts(source, place, target, column):
    """In place: the counts of one place become those of another."""
    target.customers[column] = source.customers[place]
    target.seen[column] = source.seen[place]
    target.acting[column] = source.acting[place]
    target.agreeing[column] = source.agreeing[place]


@compiled
def count_columns(n_columns, apart):
    """The counts of every column."""
    counts, z = no_counts(n_columns), apart.state.z
    for u in range(z.shape[0]):
        if apart.agrees[u] == 1:
            add(z[u], WHOLE, counts)
        else:
            add(z[u], SEEN, counts)
            add(apart.acts[u], ACTING, counts)
    return counts


@compiled
def members(rng, i, j, proposal, apart):
    """In place: the customers of the clusters of i and j but these two, in a uniformly random order; returns their number."""
    z, acts, first, second, n = apart.state.z, apart.acts, apart.state.z[i], apart.state.z[j], 0
    for u in range(z.shape[0]):
        if u == i or u == j:
            continue
        for piece in range(WHOLE if apart.agrees[u] == 1 else SEEN, WHOLE + 1 if apart.agrees[u] == 1 else ACTING + 1):
            own = acts[u] if piece == ACTING else z[u]
            if own == first or own == second:
                place = min(int(random(rng) * (n + 1)), n)
                proposal.users[n], proposal.pieces[n] = proposal.users[place], proposal.pieces[place]
                proposal.users[place], proposal.pieces[place] = u, piece
                n += 1
    return n


@in_place
def attraction(u, s, piece, sizes, splits):
    """ln of how much set s attracts a customer."""
    total = math.log(sizes.customers[s])
    if piece != ACTING:
        n = sizes.seen[s]
        total += total_level(s, n, splits.seen) - total_distance(u, s, n, splits.seen)
    if piece != SEEN:
        n = sizes.acting[s]
        total += total_level(s, n, splits.acting) - total_distance(u, s, n, splits.acting)
    return total


@compiled
def allocate(rng, drawn, i, j, proposal, splits, apart):
    """In place on the sets A and B, customers and, when they are drawn, sides: all join i or j; returns ln q_z."""
    sizes, sides = proposal.sizes, proposal.sides
    n_others = members(rng, i, j, proposal, apart)
    for s in range(2):
        set_user_each(s, j if s == 1 else i, splits.seen)
        set_user_each(s, j if s == 1 else i, splits.acting)
        sizes.customers[s] = sizes.seen[s] = sizes.acting[s] = sizes.agreeing[s] = 0
        add(s, WHOLE, sizes)
    total = 0.0
    for t in range(n_others):
        u, piece = proposal.users[t], proposal.pieces[t]
        odds = attraction(u, 0, piece, sizes, splits) - attraction(u, 1, piece, sizes, splits)
        less = math.exp(-abs(odds))  # the less likely side against the other
        likely = 0 if odds > 0.0 else 1
        if drawn:
            sides[t] = 1 - likely if random(rng) * (1.0 + less) < less else likely
        else:
            own = apart.acts[u] if piece == ACTING else apart.state.z[u]
            sides[t] = 0 if own == apart.state.z[i] else 1
        s = sides[t]
        total -= math.log1p(less) + (0.0 if s == likely else abs(odds))
        if piece != ACTING:
            join_each(u, s, sizes.seen[s], splits.seen)
        if piece != SEEN:
            join_each(u, s, sizes.acting[s], splits.acting)
        add(s, piece, sizes)
    return total


@in_place
def choose_agreeing(rng, column, n, but, apart):
    """One of n users who agree: of a column, or of all columns if it is −1, and not a certain one."""
    place, j = min(int(random(rng) * n), n - 1), 0
    while True:
        if apart.agrees[j] == 1 and j != but and (column < 0 or apart.state.z[j] == column):
            if place == 0:
                return j
            place -= 1
        j += 1


@in_place
def log_weight(s, sizes, partition, splits):
    """ln w of a set, with what it adds to the partition's prior."""
    total = total_log_weight(s, sizes.seen[s], splits.seen) + total_log_weight(s, sizes.acting[s], splits.acting)
    return total + log_cluster(sizes.customers[s], partition)


@in_place
def set_column(s, column, splits):
    """In place: set s is a cluster, and has its parameters."""
    set_column_each(s, column, splits.seen)
    set_column_each(s, column, splits.acting)


@in_place
def relabel(splitting, first, second, j, proposal, apart):
    """In place: the labels of A and B, or of C."""
    sizes, column = proposal.sizes, second if splitting else first
    apart.state.z[j] = apart.acts[j] = column
    for t in range(sizes.customers[0] + sizes.customers[1] - 2):
        column = second if splitting and proposal.sides[t] == 1 else first
        if proposal.pieces[t] != ACTING:
            apart.state.z[proposal.users[t]] = column
        if proposal.pieces[t] != SEEN:
            apart.acts[proposal.users[t]] = column


@in_place
def settle(rng, new, first, second, counts, proposal, splits, apart):
    """In place: the new sets become clusters, in the columns first and second."""
    sizes = proposal.sizes
    for s in new:
        column = second if s == 1 else first
        copy_counts(sizes, s, counts, column)
        apart.state.counts[column] = sizes.customers[s]
        accept_each(rng, column, s, sizes.seen[s], splits.seen)
        accept_each(rng, column, s, sizes.acting[s], splits.acting)
        learn_each(column, apart.state.z, splits.seen)
        learn_each(column, apart.acts, splits.acting)


@in_place
def weigh_old(splitting, first, second, counts, weights, proposal, splits, partition):
    """In place: ln w of C, or of A and B, that are clusters; these become C, where they are to be merged."""
    sizes = proposal.sizes
    for s in range(2, 3) if splitting else range(2):
        column = second if s == 1 else first
        copy_counts(counts, column, sizes, s)
        set_column(s, column, splits)
        weights[s] = log_weight(s, sizes, partition, splits)
    if not splitting:
        set_column(0, first, splits)
        set_both_each(sizes.seen[0], second, sizes.seen[1], splits.seen)
        set_both_each(sizes.acting[0], second, sizes.acting[1], splits.acting)
        for count in sizes:
            count[2] = count[0] + count[1]


@in_place
def weigh_new(rng, new, weights, sizes, splits, partition):
    """In place: parameters of the sets that may become clusters, and ln w of these."""
    for s in new:
        propose_each(rng, s, sizes.seen[s], splits.seen)
        propose_each(rng, s, sizes.acting[s], splits.acting)
        weights[s] = log_weight(s, sizes, partition, splits)


@in_place
def begin_splits(apart):
    """Records of the views of both kinds."""
    state = apart.state
    seen = split_start_each(state.z, state.counts, state.views[:-1])
    return Splits(seen, split_start_each(apart.acts, state.counts, state.views[-1:]))


@compiled
def split_and_merge(rng, n_moves, apart):
    """In place on labels, counts and columns: some moves. For each there must be a free column.

    Returns how many splits and how many merges were accepted.
    """
    state, partition = apart.state, apart.state.partition
    n_users, n_columns, n_splits, n_merges = state.z.shape[0], state.counts.shape[0], 0, 0
    counts = count_columns(n_columns, apart)
    n_agreeing, n_clusters = counts.agreeing.sum(), (counts.customers > 0).sum()
    if n_moves == 0 or n_agreeing < 2:
        return n_splits, n_merges
    splits = begin_splits(apart)
    if not all_of(splittable_each(splits.seen)) or not all_of(splittable_each(splits.acting)):
        return n_splits, n_merges
    weights, near, room = np.empty(3), np.empty(n_columns), np.empty((3, 2 * n_users), dtype=np.int64)
    proposal = Proposal(room[0], room[1], room[2], no_counts(3))
    sizes = proposal.sizes
    for _ in range(n_moves):
        i = choose_agreeing(rng, -1, n_agreeing, -1, apart)
        splitting, first, chance = random(rng) < 0.5, state.z[i], 1.0
        second = first
        if not splitting:
            second, chance = choose_other(rng, first, counts.agreeing, near, splits.seen + splits.acting)
        n_choices = counts.agreeing[second] - splitting if second >= 0 else 0
        if n_choices == 0:
            continue
        j = choose_agreeing(rng, second, n_choices, i, apart)
        log_uniform, log_sides = math.log(1.0 - random(rng)), 0.0
        new = range(2) if splitting else range(2, 3)  # sets that may become clusters
        if splitting:
            log_sides = allocate(rng, splitting, i, j, proposal, splits, apart)
        weigh_old(splitting, first, second, counts, weights, proposal, splits, partition)
        weigh_new(rng, new, weights, sizes, splits, partition)
        ratio = log_another(n_clusters if splitting else n_clusters - 1, partition) + weights[0] + weights[1] - weights[2]
        ratio += math.log(chance * (sizes.agreeing[2] - 1.0) / sizes.agreeing[1])
        # A split still lacks c, and a merge q_z. Both are at most 1, so what is refused without them would be with them.
        if splitting and log_uniform < ratio - log_sides:
            ratio += math.log(chance_of_other(first, counts.agreeing, splits.seen + splits.acting))
        elif not splitting and log_uniform < -ratio:
            log_sides = allocate(rng, splitting, i, j, proposal, splits, apart)
        if not log_uniform < (ratio - log_sides if splitting else log_sides - ratio):
            continue
        n_splits, n_merges, n_clusters = n_splits + splitting, n_merges + (not splitting), n_clusters + 2 * splitting - 1
        if splitting:
            second = free_column(state.counts)
        else:
            state.counts[second] = -1
            copy_counts(no_counts(1), 0, counts, second)
        relabel(splitting, first, second, j, proposal, apart)
        settle(rng, new, first, second, counts, proposal, splits, apart)
    return n_splits, n_merges
