"""Every user's two labels, whether they agree, and its latent vector, user after user, (C19).

A user is redrawn in three parts, each exact given the rest. Its look: whether it agrees and its label of the observed views,
given how it acts. Both at once, where it agrees. Its act: whether it agrees and its label of behavior, given how it looks. In
the first and the last, the user's other label is one of the customers:

    agrees with l        ρ p(vector | l),
    does not, and is k   (1 − ρ) w_k / W p(vector | k),

with w_k what column k weighs by its customers, those of a new one included, and W the sum over all columns. New clusters are
opened as in ``moves.assignment``, from auxiliary components with parameters from the base distributions for all views; a
cluster that has customers in one view only keeps its parameters in the other until these are redrawn. The latent vector is
integrated out while its user chooses, and drawn at the end.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.noise import set_noise
from dualview.engines.gibbs.moves.assignment import choose, leave, open_cluster, rescore, weigh_columns, weigh_noises
from dualview.engines.gibbs.working import NO_WEIGHT, Outcome
from dualview.numerics.compiling import compiled, in_place
from dualview.numerics.draws import log_root
from dualview.numerics.messages import Message, listen, new_message, shift
from dualview.numerics.streams import random
from dualview.views.verbs import complete_each, settle, weigh

LOOK, BOTH, ACT = 0, 1, 2  # the parts of a user's turn
ROOM = 3  # columns that one user may need


class Scratch(NamedTuple):
    """To work in: weights (C + 1,) and exponents (C + 1,) of the columns and of agreeing; what each column says of the user.

    looks (C,) and behaves (C,): ln p of its observed vectors and of its observations; pieces (C,): factors of the latter.
    """

    weights: NDArray[np.float64]
    exponents: NDArray[np.float64]
    looks: NDArray[np.float64]
    behaves: NDArray[np.float64]
    pieces: NDArray[np.float64]
    message: Message


@compiled
def new_scratch(state):
    """Room for the columns there are."""
    n = state.counts.shape[0]
    message = new_message(state.views[-1].vectors.shape[1], state.noises.shape[0])
    return Scratch(np.empty(n + 1), np.empty(n + 1), np.empty(n), np.empty(n), np.empty(n), message)


@in_place
def hear(u, first, end, scratch, state):
    """In place: ln p(observations of user u | column), f_u integrated out, for the columns in use from first to end."""
    behaves, pieces = scratch.behaves, scratch.pieces
    for c in range(behaves.shape[0]):
        pieces[c] = 1.0 if first <= c < end and state.counts[c] >= 0 else 0.0
    for c in range(first, end):
        behaves[c] = 0.0
    if state.noises.shape[0] > 0:
        weigh_noises(u, behaves, pieces, scratch.message, state)
    weigh(behaves, pieces, scratch.message, state.views[-1])
    for c in range(first, end):
        behaves[c] += log_root(pieces[c]) if pieces[c] != 0.0 else 0.0


@in_place
def weigh_customers(scratch, state):
    """In place: what every column weighs by its customers; returns the sum."""
    n_columns, n_clusters, total = state.counts.shape[0], 0, 0.0
    for c in range(n_columns):
        n_clusters += state.counts[c] > 0
    weigh_columns(n_clusters, scratch.weights[:n_columns], state)
    for c in range(n_columns):
        total += scratch.weights[c]
    return total


@in_place
def choose_alone(rng, other, share, scores, scratch, state):
    """One view's column, given that of the other view; the number of columns where the user is to agree with it."""
    weights, exponents, n_columns = scratch.weights, scratch.exponents, state.counts.shape[0]
    scale = (1.0 - share) / weigh_customers(scratch, state)
    for c in range(n_columns):
        weights[c] *= scale
        exponents[c] = scores[c]
    weights[n_columns], exponents[n_columns] = share, scores[other]
    return choose(weights, exponents, random(rng))


@in_place
def choose_both(rng, scratch, state):
    """The column of a user who agrees."""
    weights, exponents, n_columns = scratch.weights, scratch.exponents, state.counts.shape[0]
    weigh_customers(scratch, state)
    for c in range(n_columns):
        exponents[c] = scratch.looks[c] + scratch.behaves[c]
    weights[n_columns], exponents[n_columns] = 0.0, 0.0
    return choose(weights, exponents, random(rng))


@in_place
def join(rng, u, chosen, table, offset, auxiliary, scratch, state):
    """In place: one more customer of a column; returns whether it has opened a cluster."""
    is_new = state.counts[chosen] == 0 and auxiliary.shape[0] > 0
    if is_new:
        fresh = open_cluster(rng, chosen, auxiliary, state)
        rescore(table, offset, u, offset + table.shape[1], fresh, state.views[:-1])
        scratch.looks[fresh] = table[fresh, u - offset]
        hear(u, fresh, fresh + 1, scratch, state)
    state.counts[chosen] += 1
    return is_new


@in_place
def choose_part(rng, u, part, scratch, apart):
    """The column that a user takes in one of the three parts of its turn; the number of columns stands for agreeing."""
    if part == BOTH:
        return choose_both(rng, scratch, apart.state)
    if part == LOOK:
        return choose_alone(rng, apart.acts[u], apart.share, scratch.looks, scratch, apart.state)
    return choose_alone(rng, apart.state.z[u], apart.share, scratch.behaves, scratch, apart.state)


@in_place
def label(u, part, column, agrees, apart):
    """In place: what the user has chosen in one part of its turn."""
    if part != ACT:
        apart.state.z[u] = column
    if part != LOOK:
        apart.acts[u] = column
    apart.agrees[u] = agrees


@compiled
def assign(rng, first, end, table, offset, auxiliary, apart):
    """In place on table, auxiliary columns and labels: all users from first to end.

    Returns the next user and the outcome. It is end when all are done; less when free columns run short for that user, or when
    it cannot choose a column.
    """
    state, acts, agrees = apart.state, apart.acts, apart.agrees
    z, counts, terms, latent, n_columns = state.z, state.counts, state.terms, state.views[-1], state.counts.shape[0]
    scratch, n_opened = new_scratch(state), 0
    for u in range(first, end):
        n_free = 0
        for c in range(n_columns):
            n_free += counts[c] < 0
            scratch.looks[c] = table[c, u - offset]
        if auxiliary.shape[0] > 0 and n_free < ROOM:
            return u, Outcome(n_opened, -1, NO_WEIGHT)
        listen(u, latent.vectors, terms, scratch.message)
        hear(u, np.int64(0), n_columns, scratch, state)
        for part in range(3):
            if part == BOTH and agrees[u] == 0:
                continue
            if part == BOTH or agrees[u] == 0:
                leave(rng, acts[u] if part == ACT else z[u], counts, auxiliary)
            chosen = choose_part(rng, u, part, scratch, apart)
            if chosen < 0:
                return u, Outcome(n_opened, u, chosen)
            if chosen == n_columns:
                label(u, part, acts[u] if part == LOOK else z[u], 1, apart)
            else:
                n_opened += join(rng, u, chosen, table, offset, auxiliary, scratch, state)
                label(u, part, chosen, 1 if part == BOTH else 0, apart)
        if state.noises.shape[0] > 0:
            set_noise(u, state.noises[acts[u]], terms)
        complete_each(rng, u, z[u], state.views[:-1])
        settle(rng, u, acts[u], scratch.message, latent)
        if terms.gram.shape[0] == 0:
            shift(u, scratch.message.step, terms, terms.residual)
    return end, Outcome(n_opened, -1, NO_WEIGHT)
