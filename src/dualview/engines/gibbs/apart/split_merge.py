"""Splits and merges of clusters of customers, by Metropolis and Hastings: ``moves.split_merge``
with several labels.

Users i and j are chosen among those all of whose tables agree with their behavior, so that every
cluster that is split or merged, and every one that comes of it, has users in all views. All other
customers of the cluster go to one side: a user's behavior with all tables that agree with it, every
other table by itself. Who agrees does not change. With n the users of a cluster who agree in
everything, a split of C into A and B is accepted with probability min(1, r), a merge with min(1,
1/r),

    r = p(A, B) / p(C) · w_A w_B / w_C · c (n_C − 1) / n_B / q_z,

where the first ratio counts customers, and c is over the clusters but A that have users who agree
in everything.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.engines.gibbs.moves.split_merge import (
    all_of,
    chance_of_other,
    choose_other,
    free_column,
)
from dualview.numerics.compiling import compiled, in_place, standalone
from dualview.numerics.streams import random
from dualview.partitions.verbs import log_another, log_cluster
from dualview.views.verbs import (
    accept_by,
    accept_each,
    distance_where,
    join_each,
    join_where,
    learn_by,
    learn_each,
    level_where,
    log_weight_where,
    propose_by,
    propose_each,
    set_both_by,
    set_both_each,
    set_column_each,
    set_user_each,
    split_start_by,
    split_start_each,
    splittable_each,
    total_distance,
    total_level,
    total_log_weight,
)

# the piece of a user that has its behavior and the tables that agree with it; table t alone is
# piece t + 1
BEHAVIOR = 0


class Counts(NamedTuple):
    """Of every column (C,), or of the sets A, B and C: customers, users by their acts, users who
    agree in everything.

    seen (T, C): users by their look in each table.
    """

    customers: NDArray[np.int64]
    acting: NDArray[np.int64]
    agreeing: NDArray[np.int64]
    seen: NDArray[np.int64]


class Proposal(NamedTuple):
    """users (n,), pieces (n,) and sides (n,) of the customers but i and j, in the order of
    allocation; sizes of the sets.

    part (T,): 1 for the tables that the customer at hand has. whole (T,): 1 for all.
    """

    users: NDArray[np.int64]
    pieces: NDArray[np.int64]
    sides: NDArray[np.int64]
    sizes: Counts
    part: NDArray[np.int64]
    whole: NDArray[np.int64]


class Splits(NamedTuple):
    """Records of the observed views, and of behavior alone."""

    seen: Any
    acting: Any


@compiled
def no_counts(n_tables, n):
    """Zeros."""
    zeros = np.zeros((3, n), dtype=np.int64)
    return Counts(zeros[0], zeros[1], zeros[2], np.zeros((n_tables, n), dtype=np.int64))


@compiled
def new_proposal(n_tables, n_users):
    """Room for the customers of all users."""
    room, part = (
        np.empty((3, (n_tables + 1) * n_users), dtype=np.int64),
        np.zeros(n_tables, dtype=np.int64),
    )
    return Proposal(
        room[0], room[1], room[2], no_counts(n_tables, 3), part, np.ones(n_tables, dtype=np.int64)
    )


@in_place
def find_part(u, piece, part, apart):
    """In place: which tables a customer has; returns whether that is all of them."""
    is_all = True
    for t in range(part.shape[0]):
        has = apart.agrees[t, u] == 1 if piece == BEHAVIOR else t == piece - 1
        part[t] = 1 if has else 0
        is_all &= has
    return is_all and piece == BEHAVIOR


@in_place
def add(place, piece, is_all, part, counts):
    """In place: one more customer."""
    counts.customers[place] += 1
    counts.agreeing[place] += is_all
    if piece == BEHAVIOR:
        counts.acting[place] += 1
    for t in range(part.shape[0]):
        counts.seen[t, place] += part[t]


@in_place
def copy_counts(source, place, target, column):
    """In place: the counts of one place become those of another."""
    target.customers[column] = source.customers[place]
    target.acting[column] = source.acting[place]
    target.agreeing[column] = source.agreeing[place]
    for t in range(source.seen.shape[0]):
        target.seen[t, column] = source.seen[t, place]


@in_place
def is_customer(u, piece, apart):
    """Whether a user has this piece as a customer: behavior always, a table where it does not
    agree."""
    return piece == BEHAVIOR or apart.agrees[piece - 1, u] == 0


@in_place
def label_of(u, piece, apart):
    """The column of a piece of a user."""
    return apart.acts[u] if piece == BEHAVIOR else apart.looks[piece - 1, u]


@compiled
def count_columns(n_columns, proposal, apart):
    """The counts of every column."""
    n_tables, n_users = apart.looks.shape
    counts, part = no_counts(n_tables, n_columns), proposal.part
    for u in range(n_users):
        for piece in range(n_tables + 1):
            if is_customer(u, piece, apart):
                is_all = find_part(u, piece, part, apart)
                add(label_of(u, piece, apart), piece, is_all, part, counts)
    return counts


@compiled
def members(rng, i, j, proposal, apart):
    """In place: the customers of the clusters of i and j but these two, in a uniformly random
    order; returns their number."""
    n_tables, first, second, n = apart.looks.shape[0], apart.acts[i], apart.acts[j], 0
    for u in range(apart.acts.shape[0]):
        if u == i or u == j:
            continue
        for k in range(n_tables + 1):
            piece = k + 1 if k < n_tables else BEHAVIOR
            own = label_of(u, piece, apart)
            if is_customer(u, piece, apart) and (own == first or own == second):
                place = min(int(random(rng) * (n + 1)), n)
                proposal.users[n], proposal.pieces[n] = (
                    proposal.users[place],
                    proposal.pieces[place],
                )
                proposal.users[place], proposal.pieces[place] = u, piece
                n += 1
    return n


@in_place
def attraction(u, s, piece, proposal, splits, apart):
    """ln of how much set s attracts a customer, which has the tables of proposal.part."""
    sizes, part = proposal.sizes, proposal.part
    total, n_seen = math.log(sizes.customers[s]), sizes.seen[:, s]
    level = level_where(s, n_seen, part, apart.places, splits.seen)
    total += level - distance_where(u, s, n_seen, part, apart.places, splits.seen)
    if piece == BEHAVIOR:
        n = sizes.acting[s]
        total += total_level(s, n, splits.acting) - total_distance(u, s, n, splits.acting)
    return total


@in_place
def join(u, s, piece, is_all, proposal, splits, apart):
    """In place: a customer joins a set."""
    sizes, part = proposal.sizes, proposal.part
    join_where(u, s, sizes.seen[:, s], part, apart.places, splits.seen)
    if piece == BEHAVIOR:
        join_each(u, s, sizes.acting[s], splits.acting)
    add(s, piece, is_all, part, sizes)


@compiled
def allocate(rng, drawn, i, j, proposal, splits, apart):
    """In place on the sets A and B, customers and, when they are drawn, sides: all join i or j;
    returns ln q_z."""
    sizes, sides, none = proposal.sizes, proposal.sides, no_counts(apart.looks.shape[0], 1)
    n_others = members(rng, i, j, proposal, apart)
    for s in range(2):
        set_user_each(s, j if s == 1 else i, splits.seen)
        set_user_each(s, j if s == 1 else i, splits.acting)
        copy_counts(none, 0, sizes, s)
        add(s, BEHAVIOR, True, proposal.whole, sizes)
    total = 0.0
    for t in range(n_others):
        u, piece = proposal.users[t], proposal.pieces[t]
        is_all = find_part(u, piece, proposal.part, apart)
        odds = attraction(u, 0, piece, proposal, splits, apart) - attraction(
            u, 1, piece, proposal, splits, apart
        )
        less = math.exp(-abs(odds))  # the less likely side against the other
        likely = 0 if odds > 0.0 else 1
        if drawn:
            sides[t] = 1 - likely if random(rng) * (1.0 + less) < less else likely
        else:
            sides[t] = 0 if label_of(u, piece, apart) == apart.acts[i] else 1
        s = sides[t]
        total -= math.log1p(less) + (0.0 if s == likely else abs(odds))
        join(u, s, piece, is_all, proposal, splits, apart)
    return total


@in_place
def agrees_in_all(u, apart):
    """Whether all tables of a user agree with its behavior."""
    for t in range(apart.agrees.shape[0]):
        if apart.agrees[t, u] == 0:
            return False
    return True


@in_place
def choose_agreeing(rng, column, n, but, apart):
    """One of n users who agree in everything: of a column, or of all columns if it is −1, and not a
    certain one."""
    place, j = min(int(random(rng) * n), n - 1), 0
    while True:
        if j != but and (column < 0 or apart.acts[j] == column) and agrees_in_all(j, apart):
            if place == 0:
                return j
            place -= 1
        j += 1


@in_place
def log_weight(s, proposal, splits, apart):
    """ln w of a set, with what it adds to the partition's prior."""
    sizes = proposal.sizes
    total = log_weight_where(s, sizes.seen[:, s], proposal.whole, apart.places, splits.seen)
    total += total_log_weight(s, sizes.acting[s], splits.acting)
    return total + log_cluster(sizes.customers[s], apart.state.partition)


@in_place
def set_column(s, column, splits):
    """In place: set s is a cluster, and has its parameters."""
    set_column_each(s, column, splits.seen)
    set_column_each(s, column, splits.acting)


@in_place
def set_label(u, piece, column, part, apart):
    """In place: the column of a customer."""
    find_part(u, piece, part, apart)
    for t in range(part.shape[0]):
        if part[t] == 1:
            apart.looks[t, u] = column
    if piece == BEHAVIOR:
        apart.acts[u] = column


@in_place
def relabel(splitting, first, second, j, proposal, apart):
    """In place: the labels of A and B, or of C."""
    sizes, part = proposal.sizes, proposal.part
    set_label(j, BEHAVIOR, second if splitting else first, part, apart)
    for t in range(sizes.customers[0] + sizes.customers[1] - 2):
        column = second if splitting and proposal.sides[t] == 1 else first
        set_label(proposal.users[t], proposal.pieces[t], column, part, apart)


@compiled
def settle(rng, new, first, second, counts, proposal, splits, apart):
    """In place: the new sets become clusters, in the columns first and second."""
    sizes = proposal.sizes
    for s in new:
        column = second if s == 1 else first
        copy_counts(sizes, s, counts, column)
        apart.state.counts[column] = sizes.customers[s]
        accept_by(rng, column, s, sizes.seen[:, s], apart.places, splits.seen)
        accept_each(rng, column, s, sizes.acting[s], splits.acting)
        learn_by(column, apart.looks, apart.places, splits.seen)
        learn_each(column, apart.acts, splits.acting)


@in_place
def weigh_old(splitting, first, second, counts, weights, proposal, splits, apart):
    """In place: ln w of C, or of A and B, that are clusters; these become C, where they are to be
    merged."""
    sizes = proposal.sizes
    for s in range(2, 3) if splitting else range(2):
        column = second if s == 1 else first
        copy_counts(counts, column, sizes, s)
        set_column(s, column, splits)
        weights[s] = log_weight(s, proposal, splits, apart)
    if not splitting:
        set_column(0, first, splits)
        set_both_by(sizes.seen[:, 0], second, sizes.seen[:, 1], apart.places, splits.seen)
        set_both_each(sizes.acting[0], second, sizes.acting[1], splits.acting)
        for count in (sizes.customers, sizes.acting, sizes.agreeing):
            count[2] = count[0] + count[1]
        for t in range(sizes.seen.shape[0]):
            sizes.seen[t, 2] = sizes.seen[t, 0] + sizes.seen[t, 1]


@in_place
def weigh_new(rng, new, weights, proposal, splits, apart):
    """In place: parameters of the sets that may become clusters, and ln w of these."""
    sizes = proposal.sizes
    for s in new:
        propose_by(rng, s, sizes.seen[:, s], apart.places, splits.seen)
        propose_each(rng, s, sizes.acting[s], splits.acting)
        weights[s] = log_weight(s, proposal, splits, apart)


@compiled
def begin_splits(apart):
    """Records of the views of both kinds."""
    state = apart.state
    seen = split_start_by(apart.looks, state.counts, apart.places, state.views[:-1])
    return Splits(seen, split_start_each(apart.acts, state.counts, state.views[-1:]))


@standalone(returns=(0, 0), work=12)
def split_and_merge(rng, n_moves, apart):
    """In place on labels, counts and columns: some moves. For each there must be a free column.

    Returns how many splits and how many merges were accepted.
    """
    state, partition = apart.state, apart.state.partition
    (n_tables, n_users), n_columns, n_splits, n_merges = (
        apart.looks.shape,
        state.counts.shape[0],
        0,
        0,
    )
    proposal = new_proposal(n_tables, n_users)
    counts = count_columns(n_columns, proposal, apart)
    n_agreeing, n_clusters = counts.agreeing.sum(), (counts.customers > 0).sum()
    if n_moves == 0 or n_agreeing < 2:
        return n_splits, n_merges
    splits = begin_splits(apart)
    if not all_of(splittable_each(splits.seen)) or not all_of(splittable_each(splits.acting)):
        return n_splits, n_merges
    weights, near, sizes = np.empty(3), np.empty(n_columns), proposal.sizes
    for _ in range(n_moves):
        i = choose_agreeing(rng, -1, n_agreeing, -1, apart)
        splitting, first, chance = random(rng) < 0.5, apart.acts[i], 1.0
        second = first
        if not splitting:
            second, chance = choose_other(
                rng, first, counts.agreeing, near, splits.seen + splits.acting
            )
        n_choices = counts.agreeing[second] - splitting if second >= 0 else 0
        if n_choices == 0:
            continue
        j = choose_agreeing(rng, second, n_choices, i, apart)
        log_uniform, log_sides = math.log(1.0 - random(rng)), 0.0
        new = range(2) if splitting else range(2, 3)  # sets that may become clusters
        if splitting:
            log_sides = allocate(rng, splitting, i, j, proposal, splits, apart)
        weigh_old(splitting, first, second, counts, weights, proposal, splits, apart)
        weigh_new(rng, new, weights, proposal, splits, apart)
        ratio = (
            log_another(n_clusters if splitting else n_clusters - 1, partition)
            + weights[0]
            + weights[1]
            - weights[2]
        )
        ratio += math.log(chance * (sizes.agreeing[2] - 1.0) / sizes.agreeing[1])
        # A split still lacks c, and a merge q_z. Both are at most 1, so what is refused without
        # them would be with them.
        if splitting and log_uniform < ratio - log_sides:
            ratio += math.log(chance_of_other(first, counts.agreeing, splits.seen + splits.acting))
        elif not splitting and log_uniform < -ratio:
            log_sides = allocate(rng, splitting, i, j, proposal, splits, apart)
        if not log_uniform < (ratio - log_sides if splitting else log_sides - ratio):
            continue
        n_splits, n_merges, n_clusters = (
            n_splits + splitting,
            n_merges + (not splitting),
            n_clusters + 2 * splitting - 1,
        )
        if splitting:
            second = free_column(state.counts)
        else:
            state.counts[second] = -1
            copy_counts(no_counts(n_tables, 1), 0, counts, second)
        relabel(splitting, first, second, j, proposal, apart)
        settle(rng, new, first, second, counts, proposal, splits, apart)
    return n_splits, n_merges
