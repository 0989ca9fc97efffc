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
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.engines.gibbs.working import columns_in_use, count_users, with_columns
from dualview.numerics.compiling import compiled, in_place, inlined, standalone
from dualview.numerics.dispatch import selected, supports
from dualview.numerics.draws import invert_cumulative
from dualview.numerics.streams import random
from dualview.partitions.verbs import log_another, log_cluster, opens
from dualview.views.verbs import (
    accept_each,
    join_each,
    learn_each,
    open_columns_each,
    propose_each,
    set_both_each,
    set_column_each,
    set_user_each,
    split_start_each,
    splittable_each,
    total_distance,
    total_level,
    total_log_weight,
    total_squared_distance,
)

MOVES = 8  # in a sweep that has any
SHARE = 0.25  # of sweeps that have
ROOM = 3  # free columns beside clusters and auxiliary ones; more are made when they run out


class Sides(NamedTuple):
    """others (U,): the users of the clusters of i and j but these two, in the order of allocation;
    sides (U,): 0 or 1.

    sizes (3,): of the sets A, B and C.
    """

    others: NDArray[np.int64]
    sides: NDArray[np.int64]
    sizes: NDArray[np.int64]


@in_place
def members(rng, z, i, j, others):
    """In place: the others of the clusters of i and j, in a uniformly random order; returns their
    number."""
    n = 0
    for u in range(z.shape[0]):
        if (z[u] == z[i] or z[u] == z[j]) and u != i and u != j:
            place = min(int(random(rng) * (n + 1)), n)
            others[n] = others[place]
            others[place] = u
            n += 1
    return n


@compiled
def allocate(rng, drawn, i, j, z, proposal, splits):
    """In place on the sets A and B, others and, when they are drawn, sides: all join i or j in
    turn; returns ln q_z."""
    others, sides, sizes = proposal.others, proposal.sides, proposal.sizes
    n_others = members(rng, z, i, j, others)
    levels = np.empty(2)
    for s in range(2):
        set_user_each(s, j if s == 1 else i, splits)
        sizes[s] = 1
        levels[s] = total_level(s, sizes[s], splits)
    total = 0.0
    for t in range(n_others):
        u, odds = others[t], levels[0] - levels[1]
        for s in range(2):
            away = total_distance(u, s, sizes[s], splits)
            odds += away if s == 1 else -away
        less = math.exp(-abs(odds))  # the less likely side against the other
        likely = 0 if odds > 0.0 else 1
        if drawn:
            sides[t] = 1 - likely if random(rng) * (1.0 + less) < less else likely
        else:
            sides[t] = 0 if z[u] == z[i] else 1
        s = sides[t]
        total -= math.log1p(less) + (0.0 if s == likely else abs(odds))
        join_each(u, s, sizes[s], splits)
        sizes[s] += 1
        levels[s] = total_level(s, sizes[s], splits) + math.log(sizes[s])
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
def choose_member(rng, column, n, i, z):
    """One of the n users of a column who are not i."""
    place, j = min(int(random(rng) * n), n - 1), 0
    while True:
        if z[j] == column and j != i:
            if place == 0:
                return j
            place -= 1
        j += 1


@in_place
def weight_of_column(s, column, n, log_weights, partition, splits):
    """ln w of a cluster that there is, with what it adds to the prior; by set s where it is not yet
    in log_weights."""
    if math.isnan(log_weights[column]):
        set_column_each(s, column, splits)
        log_weights[column] = total_log_weight(s, n, splits) + log_cluster(n, partition)
    return log_weights[column]


@in_place
def free_column(counts):
    """The first column that is neither a cluster nor an auxiliary component."""
    column = 0
    while counts[column] >= 0:
        column += 1
    return column


@in_place
def relabel(splitting, first, second, j, proposal, state):
    """In place: the clusters of A and B, or of C, in place of what there was. Returns the columns
    of A (or C) and B."""
    z, counts, sizes = state.z, state.counts, proposal.sizes
    if splitting:
        second = free_column(counts)
        counts[first], counts[second] = sizes[0], sizes[1]
        z[j] = second
    else:
        counts[first], counts[second] = sizes[2], -1
        z[j] = first
    for t in range(sizes[0] + sizes[1] - 2):
        z[proposal.others[t]] = second if splitting and proposal.sides[t] == 1 else first
    return first, second


@standalone(returns=(0, 0), work=8)
def split_and_merge(rng, n_moves, state):
    """In place on z, counts and columns: some moves. For each there must be a free column.

    Returns how many splits and how many merges were accepted.
    """
    z, counts, partition = state.z, state.counts, state.partition
    n_users, n_columns, n_splits, n_merges = z.shape[0], counts.shape[0], 0, 0
    if n_moves == 0 or n_users < 2:
        return n_splits, n_merges
    splits = split_start_each(z, counts, state.views)
    if not all_of(splittable_each(splits)):
        return n_splits, n_merges
    weights, near, log_weights = np.empty(3), np.empty(n_columns), np.full(n_columns, math.nan)
    proposal = Sides(
        np.empty(n_users, dtype=np.int64),
        np.empty(n_users, dtype=np.int64),
        np.empty(3, dtype=np.int64),
    )
    sizes, n_clusters = proposal.sizes, 0
    for c in range(n_columns):
        n_clusters += counts[c] > 0
    for _ in range(n_moves):
        i = min(int(random(rng) * n_users), n_users - 1)
        splitting, first, chance = random(rng) < 0.5, z[i], 1.0
        second = first
        if not splitting:
            second, chance = choose_other(rng, first, counts, near, splits)
        n_choices = counts[second] - splitting if second >= 0 else 0
        if n_choices == 0:
            continue
        j, log_uniform, log_sides = (
            choose_member(rng, second, n_choices, i, z),
            math.log(1.0 - random(rng)),
            0.0,
        )
        old, new = (
            (range(2, 3), range(2)) if splitting else (range(2), range(2, 3))
        )  # sets that are clusters, and that may be
        if splitting:
            log_sides = allocate(rng, splitting, i, j, z, proposal, splits)
        for s in old:
            column = second if s == 1 else first
            sizes[s] = counts[column]
            weights[s] = weight_of_column(s, column, sizes[s], log_weights, partition, splits)
        if not splitting:
            set_column_each(0, first, splits)
            set_both_each(sizes[0], second, sizes[1], splits)
            sizes[2] = sizes[0] + sizes[1]
        for s in new:
            propose_each(rng, s, sizes[s], splits)
            weights[s] = total_log_weight(s, sizes[s], splits) + log_cluster(sizes[s], partition)
        ratio = (
            log_another(n_clusters if splitting else n_clusters - 1, partition)
            + weights[0]
            + weights[1]
            - weights[2]
        )
        ratio += math.log(chance * (sizes[2] - 1.0) / sizes[1])
        # A split still lacks c, and a merge q_z. Both are at most 1, so what is refused without
        # them would be with them.
        if splitting and log_uniform < ratio - log_sides:
            ratio += math.log(chance_of_other(first, counts, splits))
        elif not splitting and log_uniform < -ratio:
            log_sides = allocate(rng, splitting, i, j, z, proposal, splits)
        if not log_uniform < (ratio - log_sides if splitting else log_sides - ratio):
            continue
        n_splits, n_merges = n_splits + splitting, n_merges + (not splitting)
        n_clusters += 1 if splitting else -1
        first, second = relabel(splitting, first, second, j, proposal, state)
        for s in new:
            column = second if s == 1 else first
            log_weights[column] = math.nan
            accept_each(rng, column, s, sizes[s], splits)
            learn_each(column, z, splits)
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
    n_components, n_auxiliary, n_room = state.counts.shape[0], state.n_auxiliary, ROOM + n_moves
    views = open_columns_each(rng, n_auxiliary, n_room, not state.tabulated, state.views)
    counts = count_users(state.z, n_components, n_auxiliary, n_components + n_auxiliary + n_room)
    return with_columns(state, counts, views, state.noises)


@compiled
def run_with_moves(rng, state):
    """``run`` where every view can be split."""
    if not opens(state.partition):
        return state
    n_moves = draw_moves(rng, state)
    state = with_new_columns(rng, n_moves, state)
    split_and_merge(rng, n_moves, state)
    n_columns = min(columns_in_use(state.counts) + ROOM, state.counts.shape[0])
    return with_columns(state, state.counts[:n_columns], state.views, state.noises)


@compiled
def run_without_moves(rng, state):
    """``run`` where some view cannot."""
    return with_new_columns(rng, 0, state)


@selected
def run(kinds):
    """In place on z and the clusters' parameters; returns the state with auxiliary and free
    columns."""
    return (
        run_with_moves
        if all(supports(kind, "split_start") for kind in kinds)
        else run_without_moves
    )
