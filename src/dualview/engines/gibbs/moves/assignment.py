"""Every user's labels, together with its latent vector, user after user.

Neal's algorithm 8 (2000) with auxiliary components that are kept and reused from user to user
(Favaro and Teh 2013): m of them come from the base distributions before a sweep. A user who leaves
a cluster empty puts its parameters in place of an auxiliary component chosen at random; a user who
takes an auxiliary component makes it a cluster, and a fresh one takes its place.

What the observed views say comes as log likelihoods (G, C, n), for a block of users at a time. A
latent vector is integrated out while its user chooses, and drawn right afterwards: z_u and f_u move
together.

With one group of views, G = 1, a user draws one label. With more, (C19), it is redrawn in parts,
each exact given the rest. The label of each further group: whether it agrees with behavior, and
which it is, given that of behavior. All that agrees at once, where something does. Then, given the
label of each further group, whether behavior agrees with it, and the label of behavior and of all
other groups that agree with behavior. In all but the second, a label that stays is one of the
customers:

    agrees with l        ρ p(vectors | l),
    does not, and is k   (1 − ρ) w_k / W p(vectors | k),

with w_k what column k weighs by its customers, those of a new one included, and W the sum over all
columns. A cluster that has customers in one group only keeps its parameters in the other views
until these are redrawn.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.cluster_noise import (
    draw_noise,
    misfit_of,
    noise_gain,
    set_noise,
)
from dualview.engines.gibbs.working import (
    NO_WEIGHT,
    NOT_FINITE,
    Outcome,
    compacted,
    grown,
    with_results,
)
from dualview.numerics.compiling import compiled, in_place, inlined, standalone
from dualview.numerics.draws import invert_cumulative
from dualview.numerics.messages import Message, new_message, read_message, shift
from dualview.numerics.streams import random
from dualview.partitions.verbs import new_weight, opens, weight
from dualview.views.verbs import (
    add_log_marginal,
    adopt_each,
    complete_by,
    draw_user_latent,
    open_column_each,
    retire_each,
    score_by,
)

# users of one block; not a power of two, so that a user's cells do not share a place in the cache
BLOCK = 6000


@inlined
def room(n_groups):
    """Columns that one user may need: each part of its turn may open a cluster."""
    return 2 * n_groups - 1


@inlined
def all_parts(state):
    """First and end of the parts of a user's turn."""
    return 0, room(state.labels.z.shape[0])


@inlined
def is_marginal(state):
    """Whether what can be integrated out of auxiliary components is: where users have one label,
    and latent vectors are integrated out user by user."""
    return state.labels.z.shape[0] == 1 and not state.tabulated


@in_place
def rescore(log_likelihood, offset, first, end, column, groups, views):
    """In place: one column of log likelihoods (G, C, n) that begin with the user at offset, for
    users from first to end; views are the observed ones."""
    for g in range(log_likelihood.shape[0]):
        for u in range(first, end):
            log_likelihood[g, column, u - offset] = 0.0
    score_by(log_likelihood, offset, first, end, column, groups, views)


@in_place
def fill(log_likelihood, offset, first_column, end_column, state):
    """In place: the columns in use from first_column to end_column, for all users of the block."""
    groups, observed = state.labels.groups, state.views[:-1]
    end = offset + log_likelihood.shape[2]
    for c in range(first_column, end_column):
        if state.counts[c] >= 0:
            rescore(log_likelihood, offset, offset, end, c, groups, observed)


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
def weigh_columns(n_clusters, n_customers, weights, state):
    """In place: what every column weighs before likelihoods; clusters and customers are counted
    without the user at hand."""
    counts, partition, n_auxiliary = state.counts, state.partition, state.n_auxiliary
    new = 0.0
    if n_auxiliary > 0:
        new = new_weight(n_clusters, n_customers, partition) / n_auxiliary
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
    """To work in: weights (C + 1,) and exponents (C + 1,) of the columns and of agreeing; what each
    column says of the user at hand.

    evidence (G, C): ln p of the vectors of each group, and of the observations in the first, but
    for factors (C,) of the latter. message: what the user's observations say of its latent vector.
    tally (3,): the numbers of free columns, of clusters and of customers, as they change. With one
    group of views a user's turn has one part: evidence then is the exponents and factors are the
    weights, in the same memory.
    """

    weights: NDArray[np.float64]
    exponents: NDArray[np.float64]
    evidence: NDArray[np.float64]
    factors: NDArray[np.float64]
    message: Message
    tally: NDArray[np.int64]


@inlined
def gather(u, log_likelihood, offset, scratch, state):
    """In place: what each group of views and the observations say of user u under every column, its
    latent vector integrated out."""
    evidence, factors, latent, counts = (
        scratch.evidence,
        scratch.factors,
        state.views[-1],
        state.counts,
    )
    for g in range(evidence.shape[0]):
        for c in range(evidence.shape[1]):
            evidence[g, c] = log_likelihood[g, c, u - offset]
    if evidence.shape[0] == 1:
        weigh_columns(scratch.tally[1], scratch.tally[2], factors, state)
    else:
        for c in range(factors.shape[0]):
            factors[c] = 1.0 if counts[c] >= 0 else 0.0
    if not state.tabulated and state.noises.shape[0] > 0:
        weigh_noises(u, evidence[0], factors, scratch.message, state)
    if not state.tabulated and latent.vectors.shape[1] > 0:
        read_message(u, latent.vectors, state.terms, scratch.message)
        add_log_marginal(evidence[0], factors, scratch.message, latent)


@inlined
def weigh_part(u, alone, other, scratch, state):
    """In place: weights and exponents of all columns for the part of user u that moves, and of
    agreeing with a label that stays; returns how many there are.

    alone: the group other moves, given the label of behavior. Else behavior does, with the groups
    that agree with it, given the label of the group other; 0: no label is given.
    """
    labels, n_columns, weights, exponents = (
        state.labels,
        state.counts.shape[0],
        scratch.weights,
        scratch.exponents,
    )
    evidence, factors = scratch.evidence, scratch.factors
    if evidence.shape[0] == 1:
        return n_columns
    weigh_columns(scratch.tally[1], scratch.tally[2], weights[:n_columns], state)
    moving = other if alone else 0
    for c in range(n_columns):
        exponents[c] = evidence[moving, c]
    for g in range(1, 1 if alone else labels.z.shape[0]):
        if g != other and labels.agrees[g - 1, u] == 1:
            for c in range(n_columns):
                exponents[c] += evidence[g, c]
    if other > 0:
        share, given, total = labels.shares[other - 1], labels.z[0 if alone else other, u], 0.0
        for c in range(n_columns):
            total += weights[c]
        scale = (1.0 - share) / total
        for c in range(n_columns):
            weights[c] *= scale
        weights[n_columns], exponents[n_columns] = share, exponents[given]
        if not alone:
            weights[n_columns] *= factors[given]
    if not alone:
        for c in range(n_columns):
            weights[c] *= factors[c]
    return n_columns + 1 if other > 0 else n_columns


@in_place
def relabel(u, column, alone, other, labels):
    """In place: the labels of the part of user u that has moved, as in ``weigh_part``."""
    labels.z[other if alone else 0, u] = column
    for g in range(1, 1 if alone else labels.z.shape[0]):
        if g != other and labels.agrees[g - 1, u] == 1:
            labels.z[g, u] = column


@in_place
def any_agrees(u, agrees):
    """Whether some further group of user u agrees with behavior."""
    for g in range(agrees.shape[0]):
        if agrees[g, u] == 1:
            return True
    return False


@inlined
def draw_labels(rng, u, end, log_likelihood, offset, auxiliary, parts, scratch, state):
    """In place: the labels of a user, part after part from the first of parts (2,) to their end.
    Returns how many clusters it has opened; or what is below 0, where it cannot choose."""
    labels, counts, observed = state.labels, state.counts, state.views[:-1]
    z, agrees, tally = labels.z, labels.agrees, scratch.tally
    n_further, n_columns, n_opened, is_stale = agrees.shape[0], counts.shape[0], 0, True
    for part in range(parts[0], parts[1]):
        alone = part < n_further
        other = part + 1 if alone else part - n_further
        if other == 0 and n_further > 0 and not any_agrees(u, agrees):
            continue
        if other == 0 or agrees[other - 1, u] == 0:
            own = z[other if alone else 0, u]
            freed = leave(rng, own, counts, auxiliary) >= 0
            tally[0] += freed
            tally[1] -= counts[own] == 0
            tally[2] -= 1
            if freed and is_marginal(state):
                retire_each(own, state.views)
                rescore(log_likelihood, offset, u, end, own, labels.groups, observed)
                is_stale = True
        if is_stale:
            gather(u, log_likelihood, offset, scratch, state)
            is_stale = False
        n_choices = weigh_part(u, alone, other, scratch, state)
        chosen = choose(scratch.weights[:n_choices], scratch.exponents[:n_choices], random(rng))
        if chosen < 0:
            return chosen
        if chosen < n_columns:
            tally[1] += counts[chosen] == 0
            if counts[chosen] == 0 and auxiliary.shape[0] > 0:
                fresh = open_cluster(rng, chosen, auxiliary, state)
                tally[0] -= 1
                n_opened += 1
                if not state.tabulated:
                    rescore(log_likelihood, offset, u, end, fresh, labels.groups, observed)
                    is_stale = True
            counts[chosen] += 1
            tally[2] += 1
        if other > 0:
            agrees[other - 1, u] = 1 if chosen == n_columns else 0
        if chosen == n_columns:
            chosen = z[0 if alone else other, u]
        relabel(u, chosen, alone, other, labels)
    return n_opened


@compiled
def assign(rng, first, end, log_likelihood, offset, auxiliary, parts, state):
    """In place on log likelihoods, auxiliary columns and state: redraw the labels and f_u of u =
    first, first + 1, …, (C11) and (C19), by some parts of each user's turn.

    Returns the next user and the outcome. It is end when all are done; less when free columns run
    short for that user, when a cluster was opened and log likelihoods hold what observations say,
    or when that user cannot choose a column.
    """
    n_groups, n_columns = state.labels.z.shape[0], state.counts.shape[0]
    n_latent = 0 if state.tabulated else state.views[-1].vectors.shape[1]
    evidence, factors = np.empty((n_groups, n_columns)), np.empty(n_columns)
    weights = np.empty(n_columns + 1) if n_groups > 1 else factors
    exponents = np.empty(n_columns + 1) if n_groups > 1 else evidence[0]
    message = new_message(n_latent, state.noises.shape[0])
    scratch = Scratch(weights, exponents, evidence, factors, message, tally_of(state.counts))
    return assign_in_turn(rng, first, end, log_likelihood, offset, auxiliary, parts, scratch, state)


@in_place
def assign_in_turn(rng, first, end, log_likelihood, offset, auxiliary, parts, scratch, state):
    """``assign``, with something to work in."""
    z, groups, terms = state.labels.z, state.labels.groups, state.terms
    observed, latent, message = state.views[:-1], state.views[-1], scratch.message
    by_user, n_opened = not state.tabulated, 0
    for u in range(first, end):
        if auxiliary.shape[0] > 0 and (
            scratch.tally[0] < room(z.shape[0]) or (n_opened > 0 and not by_user)
        ):
            return u, Outcome(n_opened, -1, NO_WEIGHT)
        opened = draw_labels(rng, u, end, log_likelihood, offset, auxiliary, parts, scratch, state)
        if opened < 0:
            return u, Outcome(n_opened, u, opened)
        n_opened += opened
        own = z[0, u]
        if by_user and state.noises.shape[0] > 0:
            set_noise(u, state.noises[own], terms)
        complete_by(rng, u, z[:, u], groups, observed)
        if by_user and latent.vectors.shape[1] > 0:
            draw_user_latent(rng, u, own, message, latent)
            if terms.gram.shape[0] == 0:
                shift(u, message.step, terms, terms.residual)
        if opened > 0 and is_marginal(state):
            adopt_each(rng, u, own, state.views)
            rescore(log_likelihood, offset, u + 1, end, own, groups, observed)
    return end, Outcome(n_opened, -1, NO_WEIGHT)


@compiled
def tally_of(counts):
    """The numbers of free columns, of columns that have customers, and of customers, (3,)."""
    tally = np.zeros(3, dtype=np.int64)
    for c in range(counts.shape[0]):
        tally[0] += counts[c] < 0
        tally[1] += counts[c] > 0
        tally[2] += max(counts[c], 0)
    return tally


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
def widened(log_likelihood):
    """With as many columns again."""
    n_groups, n, n_users = log_likelihood.shape
    wide = np.empty((n_groups, 2 * n, n_users))
    for g in range(n_groups):
        for c in range(n):
            for u in range(n_users):
                wide[g, c, u] = log_likelihood[g, c, u]
    return wide


@inlined
def assign_block(rng, log_likelihood, offset, auxiliary, state):
    """``assign`` for all users of a block, with more columns as they are needed; returns the
    state."""
    u, end = offset, offset + log_likelihood.shape[2]
    while True:
        n_before = state.outcome.n_opened
        u, outcome = assign(rng, u, end, log_likelihood, offset, auxiliary, all_parts(state), state)
        outcome = Outcome(n_before + outcome.n_opened, outcome.user_without_weight, outcome.verdict)
        state = with_results(state, state.partition, outcome)
        if outcome.user_without_weight >= 0 or u == end:
            return state
        state, log_likelihood = grown(state), widened(log_likelihood)


@inlined
def settled(state):
    """The state after all users have chosen: without empty clusters, where users can open them."""
    if opens(state.partition) and state.outcome.user_without_weight < 0:
        return compacted(state)
    return state


@standalone(returns="state", work=12)
def run(rng, state):
    """In place on labels, latent vectors, residuals and noise: all users, block after block."""
    (n_groups, n_users), first = state.labels.z.shape, np.int64(0)
    state = with_results(state, state.partition, Outcome(0, -1, NO_WEIGHT))
    auxiliary = auxiliary_columns(state)
    while first < n_users and state.outcome.user_without_weight < 0:
        n_block = min(BLOCK, n_users - first)
        log_likelihood = np.empty((n_groups, state.counts.shape[0], n_block))
        fill(log_likelihood, first, np.int64(0), log_likelihood.shape[1], state)
        state = assign_block(rng, log_likelihood, first, auxiliary, state)
        first += BLOCK
    return settled(state)
