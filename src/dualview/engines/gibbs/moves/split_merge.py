"""Splits and merges of clusters, by Metropolis and Hastings, while latent vectors stay where they
are.

After Jain and Neal (2007), with users allocated one after the other as by Dahl (2003).
A user i is chosen at random, and a coin says what may happen to its cluster. It may fall into two,
i's and that of j, another of its users; or it may become one with another cluster, which is chosen
by how near it is, and j is one of its users. For a split the other users come in a random order and
are told one by one to which side they go, by how near they are to those already there; q_z is the
probability of the sides. For a merge it is that of the sides as they are. The parameters of each
new cluster are proposed by every view given its vectors, with density q.

A split of C into A, which has i, and B is accepted with probability min(1, r), a merge with min(1,
1/r),

    r = p(A, B) / p(C) · w_A w_B / w_C · c (n_C − 1) / n_B / q_z,

where the first ratio is that of the partition's prior (for a Dirichlet process α Γ(n_A) Γ(n_B) /
Γ(n_C)), w of a set is the density of its vectors and parameters over q, all views together, and c
is the probability that B would be chosen for A among all clusters but A.

Where groups of views have labels of their own, all this is about customers. Users i and j are
chosen among those who agree in everything, so that every cluster that is split or merged, and every
one that comes of it, has users in all views. All other customers of the cluster go to one side: a
user's behavior with all groups that agree with it, every other group by itself. Who agrees does not
change. The prior's ratio counts customers; n in (n_C − 1) / n_B counts the users who agree in
everything, and c is over the clusters but A that have some.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.engines.gibbs.moves.assignment import is_marginal, room
from dualview.engines.gibbs.working import columns_in_use, extended, with_columns
from dualview.numerics.compiling import compiled, in_place, inlined, standalone
from dualview.numerics.dispatch import selected
from dualview.numerics.draws import invert_cumulative
from dualview.numerics.kinds import supports
from dualview.numerics.streams import random
from dualview.partitions.verbs import log_another, log_cluster, opens
from dualview.views.verbs import (
    accept_by,
    distance_where,
    join_where,
    learn_by,
    level_where,
    log_weight_where,
    open_columns_each,
    propose_by,
    set_both_by,
    set_column_each,
    set_user_each,
    split_start_by,
    splittable_each,
    total_squared_distance,
)

MOVES = 8  # in a sweep that has any
SHARE = 0.25  # of sweeps that have
ROOM = 3  # free columns beside clusters and auxiliary ones; more are made when they run out


class Counts(NamedTuple):
    """Of every column (C,), or of the sets A, B and C: customers, and users who agree in all.

    users (G, C): users by their labels in each group of views.
    """

    customers: NDArray[np.int64]
    agreeing: NDArray[np.int64]
    users: NDArray[np.int64]


class Proposal(NamedTuple):
    """users (n,), groups (n,) and sides (n,) of the customers but i and j, in the order of
    allocation; sizes of the sets A, B and C.

    A customer is a user's behavior, group 0, with all groups that agree with it, or a group that
    does not. part (G,): 1 for the groups that the customer at hand has. whole (G,): 1 for all. only
    (G, G): 1 for one. levels (G + 1, 2): what of the attraction of A and B depends on nobody, for
    each group and for the number of customers.
    """

    users: NDArray[np.int64]
    groups: NDArray[np.int64]
    sides: NDArray[np.int64]
    sizes: Counts
    part: NDArray[np.int64]
    whole: NDArray[np.int64]
    only: NDArray[np.int64]
    levels: NDArray[np.float64]


@compiled
def no_counts(n_groups, n):
    """Zeros."""
    zeros = np.zeros((2, n), dtype=np.int64)
    return Counts(zeros[0], zeros[1], np.zeros((n_groups, n), dtype=np.int64))


@compiled
def new_proposal(n_groups, n_users):
    """Room for the customers of all users."""
    customers, only = (
        np.empty((3, n_groups * n_users), dtype=np.int64),
        np.zeros((n_groups, n_groups), dtype=np.int64),
    )
    for g in range(n_groups):
        only[g, g] = 1
    return Proposal(
        customers[0],
        customers[1],
        customers[2],
        no_counts(n_groups, 3),
        np.empty(n_groups, dtype=np.int64),
        np.ones(n_groups, dtype=np.int64),
        only,
        np.empty((n_groups + 1, 2)),
    )


@in_place
def find_part(u, group, part, agrees):
    """In place: which groups a customer has; returns whether that is all of them."""
    is_all = True
    for g in range(part.shape[0]):
        has = g == group or (group == 0 and agrees[g - 1, u] == 1)
        part[g] = 1 if has else 0
        is_all &= has
    return is_all


@in_place
def is_customer(u, group, agrees):
    """Whether a user is a customer by this group: by behavior always, by another where it does not
    agree."""
    return group == 0 or agrees[group - 1, u] == 0


@in_place
def add(place, is_all, part, counts):
    """In place: one more customer."""
    counts.customers[place] += 1
    counts.agreeing[place] += is_all
    for g in range(part.shape[0]):
        counts.users[g, place] += part[g]


@in_place
def clear(place, counts):
    """In place: no customers."""
    counts.customers[place], counts.agreeing[place] = 0, 0
    for g in range(counts.users.shape[0]):
        counts.users[g, place] = 0


@in_place
def copy_counts(source, place, target, column):
    """In place: the counts of one place become those of another."""
    target.customers[column] = source.customers[place]
    target.agreeing[column] = source.agreeing[place]
    for g in range(source.users.shape[0]):
        target.users[g, column] = source.users[g, place]


@compiled
def count_columns(n_columns, part, labels):
    """The counts of every column."""
    z, agrees = labels.z, labels.agrees
    counts = no_counts(z.shape[0], n_columns)
    for u in range(z.shape[1]):
        for g in range(z.shape[0]):
            if is_customer(u, g, agrees):
                add(z[g, u], find_part(u, g, part, agrees), part, counts)
    return counts


@in_place
def members(rng, i, j, proposal, labels):
    """In place: the customers of the clusters of i and j but these two, in a uniformly random
    order; returns their number."""
    z, users, groups, n = labels.z, proposal.users, proposal.groups, 0
    n_groups, first, second = z.shape[0], z[0, i], z[0, j]
    for u in range(z.shape[1]):
        for k in range(1, n_groups + 1):
            g = k if k < n_groups else 0  # behavior last
            if (
                (z[g, u] == first or z[g, u] == second)
                and u != i
                and u != j
                and is_customer(u, g, labels.agrees)
            ):
                place = min(int(random(rng) * (n + 1)), n)
                users[n], groups[n] = users[place], groups[place]
                users[place], groups[place] = u, g
                n += 1
    return n


@inlined
def set_levels(s, part, proposal, splits, labels):
    """In place: the levels of a set that customers with these groups have joined."""
    sizes, levels = proposal.sizes, proposal.levels
    for g in range(part.shape[0]):
        if part[g] == 1:
            levels[g, s] = level_where(
                s, sizes.users[:, s], proposal.only[g], labels.groups, splits
            )
    levels[part.shape[0], s] = math.log(sizes.customers[s])


@inlined
def odds_of(u, proposal, splits, labels):
    """ln of how much more A attracts a customer, which has the groups of proposal.part, than B."""
    part, users, levels, n = (
        proposal.part,
        proposal.sizes.users,
        proposal.levels,
        proposal.part.shape[0],
    )
    odds = levels[n, 0] - levels[n, 1]
    for g in range(n):
        if part[g] == 1:
            odds += levels[g, 0] - levels[g, 1]
    for s in range(2):
        away = distance_where(u, s, users[:, s], part, labels.groups, splits)
        odds += away if s == 1 else -away
    return odds


@in_place
def allocate(rng, drawn, i, j, proposal, splits, labels):
    """In place on the sets A and B, customers and, when they are drawn, sides: all join i or j in
    turn; returns ln q_z."""
    sizes, sides, part, z = proposal.sizes, proposal.sides, proposal.part, labels.z
    n_others = members(rng, i, j, proposal, labels)
    for s in range(2):
        set_user_each(s, j if s == 1 else i, splits)
        clear(s, sizes)
        add(s, True, proposal.whole, sizes)
        set_levels(s, proposal.whole, proposal, splits, labels)
    total = 0.0
    for t in range(n_others):
        u, group = proposal.users[t], proposal.groups[t]
        is_all = find_part(u, group, part, labels.agrees)
        odds = odds_of(u, proposal, splits, labels)
        less = math.exp(-abs(odds))  # the less likely side against the other
        likely = 0 if odds > 0.0 else 1
        if drawn:
            sides[t] = 1 - likely if random(rng) * (1.0 + less) < less else likely
        else:
            sides[t] = 0 if z[group, u] == z[0, i] else 1
        s = sides[t]
        total -= math.log1p(less) + (0.0 if s == likely else abs(odds))
        join_where(u, s, sizes.users[:, s], part, labels.groups, splits)
        add(s, is_all, part, sizes)
        set_levels(s, part, proposal, splits, labels)
    return total


@in_place
def nearness(own, is_set, column, to_set, splits):
    """What a cluster weighs when one is chosen to merge with, by the distance of the averages."""
    return (
        1e-6 + 1.0 / (1.0 + 0.1 * total_squared_distance(own, is_set, column, to_set, splits)) ** 4
    )


@in_place
def choose_other(rng, first, counts, near, splits):
    """A cluster other than the first, by how near it is, or −1 if there is none; and the
    probability that it has."""
    total = 0.0
    for c in range(counts.shape[0]):
        near[c] = 0.0
        if c != first and counts[c] > 0:
            near[c] = nearness(first, False, c, False, splits)
            total += near[c]
    chosen = invert_cumulative(random(rng) * total, near)
    return chosen, near[chosen] / total if chosen >= 0 else 0.0


@in_place
def chance_of_other(column, counts, splits):
    """The probability that B would be chosen for A, were A and B there instead of the column."""
    own = nearness(0, True, 1, True, splits)
    total = own
    for c in range(counts.shape[0]):
        if c != column and counts[c] > 0:
            total += nearness(0, True, c, False, splits)
    return own / total


@in_place
def agrees_in_all(u, agrees):
    """Whether all groups of a user agree with its behavior."""
    for g in range(agrees.shape[0]):
        if agrees[g, u] == 0:
            return False
    return True


@in_place
def choose_member(rng, column, n, but, labels):
    """One of the n users who agree in everything and are not a certain one: of a column, or of all
    columns if it is −1."""
    z, place, j = labels.z, min(int(random(rng) * n), n - 1), 0
    while True:
        if j != but and (column < 0 or z[0, j] == column) and agrees_in_all(j, labels.agrees):
            if place == 0:
                return j
            place -= 1
        j += 1


@in_place
def log_weight(s, place, counts, whole, groups, partition, splits):
    """ln w of set s, with what it adds to the partition's prior; its users are those of a place in
    counts. whole (G,): 1 for all groups of views; groups (V,): the group of every view."""
    total = log_weight_where(s, counts.users[:, place], whole, groups, splits)
    return total + log_cluster(counts.customers[place], partition)


@in_place
def weight_of_column(s, column, log_weights, counts, whole, groups, partition, splits):
    """``log_weight`` of a cluster that there is; by set s where it is not yet in log_weights."""
    if math.isnan(log_weights[column]):
        set_column_each(s, column, splits)
        log_weights[column] = log_weight(s, column, counts, whole, groups, partition, splits)
    return log_weights[column]


@in_place
def set_both(first, second, proposal, splits, labels):
    """In place: C is A, which is the cluster first, with the cluster second."""
    sizes = proposal.sizes
    set_column_each(0, first, splits)
    set_both_by(sizes.users[:, 0], second, sizes.users[:, 1], labels.groups, splits)
    sizes.customers[2] = sizes.customers[0] + sizes.customers[1]
    sizes.agreeing[2] = sizes.agreeing[0] + sizes.agreeing[1]
    for g in range(sizes.users.shape[0]):
        sizes.users[g, 2] = sizes.users[g, 0] + sizes.users[g, 1]


@in_place
def free_column(counts):
    """The first column that is neither a cluster nor an auxiliary component."""
    column = 0
    while counts[column] >= 0:
        column += 1
    return column


@in_place
def set_label(u, group, column, part, labels):
    """In place: the column of a customer."""
    find_part(u, group, part, labels.agrees)
    for g in range(part.shape[0]):
        if part[g] == 1:
            labels.z[g, u] = column


@in_place
def relabel(splitting, first, second, j, proposal, labels):
    """In place: the labels of A and B, or of C."""
    sizes, part = proposal.sizes, proposal.part
    set_label(j, 0, second if splitting else first, part, labels)
    for t in range(sizes.customers[0] + sizes.customers[1] - 2):
        column = second if splitting and proposal.sides[t] == 1 else first
        set_label(proposal.users[t], proposal.groups[t], column, part, labels)


@in_place
def choose_users(rng, n_agreeing, near, counts, splits, labels):
    """Users i and j, whether their cluster may be split, the cluster of j, and the probability with
    which that was chosen; j is −1 where nothing can happen."""
    i = choose_member(rng, -1, n_agreeing, -1, labels)
    splitting, first, chance = random(rng) < 0.5, labels.z[0, i], 1.0
    second = first
    if not splitting:
        second, chance = choose_other(rng, first, counts.agreeing, near, splits)
    n_choices = counts.agreeing[second] - splitting if second >= 0 else 0
    j = choose_member(rng, second, n_choices, i, labels) if n_choices > 0 else -1
    return i, j, splitting, second, chance


@compiled
def accept(rng, splitting, first, second, j, proposal, counts, log_weights, splits, state):
    """In place on labels, counts and columns: A and B take the place of C, or C that of A and B."""
    labels, sizes = state.labels, proposal.sizes
    if splitting:
        second = free_column(state.counts)
    else:
        state.counts[second] = -1
        clear(second, counts)
    relabel(splitting, first, second, j, proposal, labels)
    for s in range(2) if splitting else range(2, 3):
        column = second if s == 1 else first
        copy_counts(sizes, s, counts, column)
        state.counts[column], log_weights[column] = sizes.customers[s], math.nan
        accept_by(rng, column, s, sizes.users[:, s], labels.groups, splits)
        learn_by(column, labels.z, labels.groups, splits)


@standalone(returns=(0, 0), work=8)
def split_and_merge(rng, n_moves, state):
    """In place on labels, counts and columns: some moves. For each there must be a free column.

    Returns how many splits and how many merges were accepted.
    """
    labels, n_columns, n_splits, n_merges = state.labels, state.counts.shape[0], 0, 0
    if n_moves == 0:
        return n_splits, n_merges
    proposal = new_proposal(labels.z.shape[0], labels.z.shape[1])
    sizes, counts = proposal.sizes, count_columns(n_columns, proposal.part, labels)
    n_agreeing, n_clusters = counts.agreeing.sum(), (counts.customers > 0).sum()
    n_customers = counts.customers.sum()
    if n_agreeing < 2:
        return n_splits, n_merges
    splits = split_start_by(labels.z, state.counts, labels.groups, state.views)
    if not all_of(splittable_each(splits)):
        return n_splits, n_merges
    weights, near, log_weights = np.empty(3), np.empty(n_columns), np.full(n_columns, math.nan)
    whole, groups, partition = proposal.whole, labels.groups, state.partition
    for _ in range(n_moves):
        i, j, splitting, second, chance = choose_users(
            rng, n_agreeing, near, counts, splits, labels
        )
        if j < 0:
            continue
        first, log_uniform, log_sides = labels.z[0, i], math.log(1.0 - random(rng)), 0.0
        # sets that are clusters, and that may be
        old, new = (range(2, 3), range(2)) if splitting else (range(2), range(2, 3))
        if splitting:
            log_sides = allocate(rng, splitting, i, j, proposal, splits, labels)
        for s in old:
            column = second if s == 1 else first
            copy_counts(counts, column, sizes, s)
            weights[s] = weight_of_column(
                s, column, log_weights, counts, whole, groups, partition, splits
            )
        if not splitting:
            set_both(first, second, proposal, splits, labels)
        for s in new:
            propose_by(rng, s, sizes.users[:, s], groups, splits)
            weights[s] = log_weight(s, s, sizes, whole, groups, partition, splits)
        n_others = n_clusters if splitting else n_clusters - 1
        another = log_another(n_others, n_customers, partition)
        ratio = another + weights[0] + weights[1] - weights[2]
        ratio += math.log(chance * (sizes.agreeing[2] - 1.0) / sizes.agreeing[1])
        # A split still lacks c, and a merge q_z. Both are at most 1, so what is refused without
        # them would be with them.
        if splitting and log_uniform < ratio - log_sides:
            ratio += math.log(chance_of_other(first, counts.agreeing, splits))
        elif not splitting and log_uniform < -ratio:
            log_sides = allocate(rng, splitting, i, j, proposal, splits, labels)
        if log_uniform < (ratio - log_sides if splitting else log_sides - ratio):
            accept(rng, splitting, first, second, j, proposal, counts, log_weights, splits, state)
            n_splits, n_merges = n_splits + splitting, n_merges + (not splitting)
            n_clusters += 1 if splitting else -1
    return n_splits, n_merges


@in_place
def all_of(values):
    """Whether all are true."""
    for value in values:
        if not value:
            return False
    return True


@in_place
def draw_moves(rng, state):
    """How many moves a sweep has; none where clusters have a noise of their own."""
    return MOVES if state.terms.noise.shape[0] == 0 and random(rng) < SHARE else 0


@inlined
def with_new_columns(rng, n_moves, state):
    """The state with auxiliary components and free columns, where users can open clusters."""
    if not opens(state.partition):
        return state
    n_room = spare(state) + n_moves
    views = open_columns_each(rng, state.n_auxiliary, n_room, is_marginal(state), state.views)
    n_columns = state.counts.shape[0] + state.n_auxiliary + n_room
    counts = extended(state.counts, state.n_auxiliary, n_columns)
    return with_columns(state, counts, views, state.noises)


@inlined
def spare(state):
    """Free columns at the beginning of an assignment sweep; users with several labels may need more
    than one each."""
    n_groups = state.labels.z.shape[0]
    return ROOM + room(n_groups) if n_groups > 1 else ROOM


@compiled
def run_with_moves(rng, state):
    """``run`` where every view can be split."""
    if not opens(state.partition):
        return state
    n_moves = draw_moves(rng, state)
    state = with_new_columns(rng, n_moves, state)
    split_and_merge(rng, n_moves, state)
    n_columns = min(columns_in_use(state.counts) + spare(state), state.counts.shape[0])
    return with_columns(state, state.counts[:n_columns], state.views, state.noises)


@compiled
def run_without_moves(rng, state):
    """``run`` where some view cannot."""
    return with_new_columns(rng, 0, state)


@selected
def run(kinds):
    """In place on labels and the clusters' parameters; returns the state with auxiliary and free
    columns."""
    return (
        run_with_moves
        if all(supports(kind, "split_start") for kind in kinds)
        else run_without_moves
    )
