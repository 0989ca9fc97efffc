"""Every user's cluster, together with its latent vector, user after user.

Neal's algorithm 8 (2000) with auxiliary components that are kept and reused from user to user
(Favaro and Teh 2013): m of them come from the base distributions before a sweep. A user who leaves
a cluster empty puts its parameters in place of an auxiliary component chosen at random; a user who
takes an auxiliary component makes it a cluster, and a fresh one takes its place.

What the observed views say comes as a table (C, n), for a block of users at a time. A latent vector
is integrated out while its user chooses, and drawn right afterwards: z_u and f_u move together.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.noise import draw_noise, misfit_of, noise_gain, set_noise
from dualview.engines.gibbs.working import (
    NO_WEIGHT,
    NOT_FINITE,
    Outcome,
    compacted,
    grown,
    with_outcome,
)
from dualview.numerics.compiling import compiled, in_place, inlined, standalone
from dualview.numerics.draws import invert_cumulative
from dualview.numerics.messages import Message, listen, new_message, shift
from dualview.numerics.streams import random
from dualview.partitions.verbs import new_weight, opens, weight
from dualview.views.verbs import (
    adopt_each,
    complete_each,
    open_column_each,
    retire_each,
    score_each,
    settle,
    weigh,
)

# users of one table; not a power of two, so that a user's cells do not share a place in the cache
BLOCK = 6000


@in_place
def rescore(table, offset, first, end, column, views):
    """In place: the row of one column, for users from first to end; the table begins with the user
    at offset."""
    for u in range(first, end):
        table[column, u - offset] = 0.0
    score_each(table, offset, first, end, column, views)


@in_place
def fill(table, offset, first_column, end_column, state):
    """In place: the rows of the columns in use from first_column to end_column."""
    for c in range(first_column, end_column):
        if state.counts[c] >= 0:
            rescore(table, offset, offset, offset + table.shape[1], c, state.views[:-1])


@inlined
def choose(weights, exponents, uniform):
    """Index i with probability ∝ weights[i] exp(exponents[i]), by inversion of one uniform number.

    An exponent of −inf leaves an index out: a density that has run below all numbers. NO_WEIGHT if
    that leaves none. An exponent of NaN or +inf is no density: NOT_FINITE − i for the first such i.
    The weights are used up.
    """
    top, chosen = -math.inf, NO_WEIGHT
    for i in range(weights.shape[0]):
        if weights[i] != 0.0 and not exponents[i] <= top:
            top = exponents[i]
            if chosen == NO_WEIGHT and not top < math.inf:
                chosen = NOT_FINITE - i
    if chosen == NO_WEIGHT and top > -math.inf:
        total = 0.0
        for i in range(weights.shape[0]):
            if weights[i] != 0.0:
                weights[i] *= math.exp(exponents[i] - top)
                total += weights[i]
        if 0.0 < total < math.inf:
            chosen = invert_cumulative(uniform * total, weights)
    return chosen


@inlined
def leave(rng, own, counts, auxiliary):
    """In place: one user less in its cluster; an emptied one becomes auxiliary. Returns the column
    that became free, or −1."""
    counts[own] -= 1
    freed = -1
    if counts[own] == 0 and auxiliary.shape[0] > 0:
        slot = min(int(random(rng) * auxiliary.shape[0]), auxiliary.shape[0] - 1)
        freed = auxiliary[slot]
        counts[freed] = -1
        auxiliary[slot] = own
    return freed


@in_place
def replace_auxiliary(chosen, counts, auxiliary):
    """In place: a free column takes the chosen one's place among the auxiliary ones; returns it."""
    slot = fresh = 0
    while auxiliary[slot] != chosen:
        slot += 1
    while counts[fresh] >= 0:
        fresh += 1
    auxiliary[slot] = fresh
    counts[fresh] = 0
    return fresh


@in_place
def weigh_columns(n_clusters, weights, state):
    """In place: what every column weighs before likelihoods; n_clusters without the user at
    hand."""
    counts, partition, n_auxiliary = state.counts, state.partition, state.n_auxiliary
    new = new_weight(n_clusters, partition) / n_auxiliary if n_auxiliary > 0 else 0.0
    for c in range(counts.shape[0]):
        if counts[c] < 0:
            weights[c] = 0.0
        elif counts[c] == 0 and n_auxiliary > 0:
            weights[c] = new
        else:
            weights[c] = weight(counts[c], partition)


@in_place
def weigh_noises(u, exponents, weights, message, state):
    """In place on exponents and the message's ratios: what the columns' noises bring to user u's
    observations."""
    terms, misfit = state.terms, misfit_of(u, state.terms)
    for c in range(weights.shape[0]):
        if weights[c] != 0.0:
            message.ratios[c] = state.noises[c] / terms.noise[u]
            exponents[c] += noise_gain(
                message.ratios[c], terms.starts[u + 1] - terms.starts[u], misfit
            )


@in_place
def open_cluster(rng, chosen, auxiliary, state):
    """In place: the chosen auxiliary component becomes a cluster; returns the column of the fresh
    one in its place."""
    fresh = replace_auxiliary(chosen, state.counts, auxiliary)
    open_column_each(rng, fresh, state.views)
    if state.noises.shape[0] > 0:
        state.noises[fresh] = draw_noise(rng, 0.0, 0.0, state.terms.noise_dof)
    return fresh


class Scratch(NamedTuple):
    """To work in: weights (C,) and exponents (C,) of the columns, and the message of the user at
    hand."""

    weights: NDArray[np.float64]
    exponents: NDArray[np.float64]
    message: Message


@compiled
def assign(rng, first, end, table, offset, auxiliary, state):
    """In place on table, auxiliary columns and state: redraw z_u and f_u for u = first, first + 1,
    …, (C11).

    Returns the next user and the outcome. It is end when all are done; less when there is no free
    column left for that user, when a cluster was opened and tables hold what observations say, or
    when that user cannot choose a column.
    """
    n_columns, n_latent = (
        state.counts.shape[0],
        0 if state.tabulated else state.views[-1].vectors.shape[1],
    )
    scratch = Scratch(
        np.empty(n_columns), np.empty(n_columns), new_message(n_latent, state.noises.shape[0])
    )
    return assign_in_turn(rng, first, end, table, offset, auxiliary, scratch, state)


@in_place
def assign_in_turn(rng, first, end, table, offset, auxiliary, scratch, state):
    """``assign``, with something to work in."""
    z, counts, terms, observed, latent = (
        state.z,
        state.counts,
        state.terms,
        state.views[:-1],
        state.views[-1],
    )
    n_columns, n_auxiliary = counts.shape[0], auxiliary.shape[0]
    by_user, n_latent = not state.tabulated, 0 if state.tabulated else latent.vectors.shape[1]
    by_cluster = by_user and state.noises.shape[0] > 0
    weights, exponents, message = scratch.weights, scratch.exponents, scratch.message
    n_free = n_clusters = n_opened = 0
    for c in range(n_columns):
        n_free += counts[c] < 0
        n_clusters += counts[c] > 0
    for u in range(first, end):
        if n_auxiliary > 0 and (n_free == 0 or (n_opened > 0 and not by_user)):
            return u, Outcome(n_opened, -1, NO_WEIGHT)
        own = z[u]
        if leave(rng, own, counts, auxiliary) >= 0:
            n_free += 1
            retire_each(own, state.views)
            if by_user:
                rescore(table, offset, u, end, own, observed)
        n_clusters -= counts[own] == 0
        weigh_columns(n_clusters, weights, state)
        for c in range(n_columns):
            exponents[c] = table[c, u - offset]
        if by_cluster:
            weigh_noises(u, exponents, weights, message, state)
        if n_latent > 0:
            listen(u, latent.vectors, terms, message)
            weigh(exponents, weights, message, latent)
        chosen = choose(weights, exponents, random(rng))
        if chosen < 0:
            return u, Outcome(n_opened, u, chosen)
        is_new = counts[chosen] == 0 and n_auxiliary > 0
        n_clusters += counts[chosen] == 0
        if is_new:
            fresh = open_cluster(rng, chosen, auxiliary, state)
            n_free -= 1
            n_opened += 1
            if by_user:
                rescore(table, offset, u + 1, end, fresh, observed)
        counts[chosen] += 1
        z[u] = chosen
        if by_cluster:
            set_noise(u, state.noises[chosen], terms)
        complete_each(rng, u, chosen, observed)
        if n_latent > 0:
            settle(rng, u, chosen, message, latent)
            if terms.gram.shape[0] == 0:
                shift(u, message.step, terms, terms.residual)
        if is_new:
            adopt_each(rng, u, chosen, state.views)
            if by_user:
                rescore(table, offset, u + 1, end, chosen, observed)
    return end, Outcome(n_opened, -1, NO_WEIGHT)


@inlined
def auxiliary_columns(state):
    """The columns of auxiliary components."""
    columns, n = np.empty(state.n_auxiliary, dtype=np.int64), 0
    for c in range(state.counts.shape[0] if state.n_auxiliary > 0 else 0):
        if state.counts[c] == 0:
            columns[n] = c
            n += 1
    return columns


@compiled
def widened(table):
    """With as many rows again."""
    n = table.shape[0]
    wide = np.empty((2 * n, table.shape[1]))
    for c in range(n):
        for u in range(table.shape[1]):
            wide[c, u] = table[c, u]
    return wide


@inlined
def assign_table(rng, table, offset, auxiliary, state):
    """``assign`` for all users of a table, with more columns as they are needed; returns the
    state."""
    u, end = offset, offset + table.shape[1]
    while True:
        n_before = state.outcome.n_opened
        u, outcome = assign(rng, u, end, table, offset, auxiliary, state)
        state = with_outcome(
            state,
            Outcome(n_before + outcome.n_opened, outcome.user_without_weight, outcome.verdict),
        )
        if outcome.user_without_weight >= 0 or u == end:
            return state
        state, table = grown(state), widened(table)


@inlined
def settled(state):
    """The state after all users have chosen: without empty clusters, where users can open them."""
    if opens(state.partition) and state.outcome.user_without_weight < 0:
        return compacted(state)
    return state


@standalone(returns="state", work=12)
def run(rng, state):
    """In place on z, latent vectors, residuals and noise: all users, block after block."""
    n_users, first = state.z.shape[0], np.int64(0)
    state = with_outcome(state, Outcome(0, -1, NO_WEIGHT))
    auxiliary = auxiliary_columns(state)
    while first < n_users and state.outcome.user_without_weight < 0:
        table = np.empty((state.counts.shape[0], min(BLOCK, n_users - first)))
        fill(table, first, np.int64(0), table.shape[0], state)
        state = assign_table(rng, table, first, auxiliary, state)
        first += BLOCK
    return settled(state)
