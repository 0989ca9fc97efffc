"""Every user's labels, whether they agree, and its latent vector, user after user, (C19).

Behavior has a label, and every table of features has one, which is that of behavior where the two
agree. A user is redrawn in parts, each exact given the rest. The look of each table: whether it
agrees and its label, given how the user acts. All that agrees at once, where something does. Then,
given each table's label, whether behavior agrees with it, and the label of behavior and of all
other tables that agree with behavior. In all but the second, a label that stays is one of the
customers:

    agrees with l        ρ p(vectors | l),
    does not, and is k   (1 − ρ) w_k / W p(vectors | k),

with w_k what column k weighs by its customers, those of a new one included, and W the sum over all
columns. New clusters are opened as in ``moves.assignment``, from auxiliary components with
parameters from the base distributions for all views; a cluster that has customers in one view only
keeps its parameters in the other until these are redrawn. The latent vector is integrated out while
its user chooses, and drawn at the end.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.noise import set_noise
from dualview.engines.gibbs.moves.assignment import (
    choose,
    leave,
    open_cluster,
    weigh_columns,
    weigh_noises,
)
from dualview.engines.gibbs.working import NO_WEIGHT, Outcome
from dualview.numerics.compiling import compiled, in_place, inlined, standalone
from dualview.numerics.draws import log_root
from dualview.numerics.messages import Message, listen, new_message, shift
from dualview.numerics.streams import random
from dualview.views.verbs import complete_by, score_by, settle, weigh


class Scratch(NamedTuple):
    """To work in: weights (C + 1,) and exponents (C + 1,) of the columns and of agreeing; what each
    column says of the user.

    looks (T, C) and behaves (C,): ln p of each table's vectors and of the observations; pieces
    (C,): factors of the latter.
    """

    weights: NDArray[np.float64]
    exponents: NDArray[np.float64]
    looks: NDArray[np.float64]
    behaves: NDArray[np.float64]
    pieces: NDArray[np.float64]
    message: Message


@inlined
def room(n_tables):
    """Columns that one user may need: each part of its turn may open a cluster."""
    return 2 * n_tables + 1


@compiled
def new_scratch(n_tables, state):
    """Room for the columns there are."""
    n = state.counts.shape[0]
    message = new_message(state.views[-1].vectors.shape[1], state.noises.shape[0])
    return Scratch(
        np.empty(n + 1), np.empty(n + 1), np.empty((n_tables, n)), np.empty(n), np.empty(n), message
    )


@compiled
def rescore(tables, offset, first, end, column, apart):
    """In place: one column of tables (T, C, n) that begin with the user at offset, for users from
    first to end."""
    for t in range(tables.shape[0]):
        for u in range(first, end):
            tables[t, column, u - offset] = 0.0
    score_by(tables, offset, first, end, column, apart.places, apart.state.views[:-1])


@compiled
def fill(tables, offset, first_column, end_column, apart):
    """In place: the columns in use from first_column to end_column, for all users of the tables."""
    for c in range(first_column, end_column):
        if apart.state.counts[c] >= 0:
            rescore(tables, offset, offset, offset + tables.shape[2], c, apart)


@in_place
def hear(u, first, end, scratch, state):
    """In place: ln p(observations of user u | column), f_u integrated out, for the columns in use
    from first to end."""
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
def total_score(u, but, agrees, scratch):
    """In place on exponents: what columns say of behavior and of the tables that agree with it, but
    a certain one."""
    n_tables, n_columns = scratch.looks.shape
    for c in range(n_columns):
        scratch.exponents[c] = scratch.behaves[c]
    for t in range(n_tables):
        if t != but and agrees[t, u] == 1:
            for c in range(n_columns):
                scratch.exponents[c] += scratch.looks[t, c]


@in_place
def choose_alone(rng, other, share, scratch, state):
    """A column by its exponent, given the label that stays; the number of columns where the two are
    to agree."""
    weights, n_columns = scratch.weights, state.counts.shape[0]
    scale = (1.0 - share) / weigh_customers(scratch, state)
    for c in range(n_columns):
        weights[c] *= scale
    weights[n_columns], scratch.exponents[n_columns] = share, scratch.exponents[other]
    return choose(weights, scratch.exponents, random(rng))


@in_place
def choose_all(rng, scratch, state):
    """A column by its exponent, for a user's behavior and all tables that agree with it."""
    n_columns = state.counts.shape[0]
    weigh_customers(scratch, state)
    scratch.weights[n_columns], scratch.exponents[n_columns] = 0.0, 0.0
    return choose(scratch.weights, scratch.exponents, random(rng))


@compiled
def open_for(rng, u, chosen, tables, offset, auxiliary, scratch, apart):
    """In place: the chosen auxiliary component becomes a cluster, and a fresh one is scored for
    this user and the next."""
    fresh = open_cluster(rng, chosen, auxiliary, apart.state)
    rescore(tables, offset, u, offset + tables.shape[2], fresh, apart)
    for t in range(tables.shape[0]):
        scratch.looks[t, fresh] = tables[t, fresh, u - offset]
    hear(u, fresh, fresh + 1, scratch, apart.state)


@in_place
def move(u, column, but, apart):
    """In place: the label of behavior and of the tables that agree with it, but a certain one."""
    apart.acts[u] = column
    for t in range(apart.looks.shape[0]):
        if t != but and apart.agrees[t, u] == 1:
            apart.looks[t, u] = column


@in_place
def choose_part(rng, u, t, is_look, scratch, apart):
    """The column of a table's look, given how the user acts; or of how it acts, given that. t = −1:
    all that agrees at once."""
    if not is_look:
        total_score(u, t, apart.agrees, scratch)
    if t < 0:
        return choose_all(rng, scratch, apart.state)
    if is_look:
        for c in range(scratch.looks.shape[1]):
            scratch.exponents[c] = scratch.looks[t, c]
    other = apart.acts[u] if is_look else apart.looks[t, u]
    return choose_alone(rng, other, apart.shares[t], scratch, apart.state)


@in_place
def turn(rng, u, tables, offset, auxiliary, scratch, apart):
    """In place: a user's labels. Returns how many clusters it has opened; or what is below 0, where
    it cannot choose.

    The parts: each table's look; all that agrees; how the user acts given each table's label.
    """
    n_tables, n_columns = scratch.looks.shape
    counts, agrees, acts, looks, n_opened = (
        apart.state.counts,
        apart.agrees,
        apart.acts,
        apart.looks,
        0,
    )
    for part in range(2 * n_tables + 1):
        is_look, t = part < n_tables, part if part < n_tables else part - n_tables - 1
        if t < 0:
            n_agree = 0
            for other in range(n_tables):
                n_agree += agrees[other, u]
            if n_agree == 0:
                continue
        if t < 0 or agrees[t, u] == 0:
            leave(rng, looks[t, u] if is_look else acts[u], counts, auxiliary)
        chosen = choose_part(rng, u, t, is_look, scratch, apart)
        if chosen < 0:
            return chosen
        if chosen < n_columns:
            if counts[chosen] == 0 and auxiliary.shape[0] > 0:
                open_for(rng, u, chosen, tables, offset, auxiliary, scratch, apart)
                n_opened += 1
            counts[chosen] += 1
        if t >= 0:
            agrees[t, u] = 1 if chosen == n_columns else 0
        if chosen == n_columns:
            chosen = acts[u] if is_look else looks[t, u]
        if is_look:
            looks[t, u] = chosen
        else:
            move(u, chosen, t, apart)
    return n_opened


@in_place
def look_up(u, tables, scratch, counts):
    """In place: what tables (T, C, n) say of their user u; returns the number of free columns."""
    n_free = 0
    for c in range(counts.shape[0]):
        n_free += counts[c] < 0
        for t in range(tables.shape[0]):
            scratch.looks[t, c] = tables[t, c, u]
    return n_free


@standalone(returns=(0, Outcome(0, -1, NO_WEIGHT)), work=12)
def assign(rng, first, end, tables, offset, auxiliary, apart):
    """In place on tables (T, C, n), auxiliary columns and labels: all users from first to end.

    Returns the next user and the outcome. It is end when all are done; less when free columns run
    short for that user, or when it cannot choose a column.
    """
    state, acts, n_tables = apart.state, apart.acts, apart.looks.shape[0]
    counts, terms, latent, n_columns = (
        state.counts,
        state.terms,
        state.views[-1],
        state.counts.shape[0],
    )
    scratch, n_opened = new_scratch(n_tables, state), 0
    for u in range(first, end):
        if look_up(u - offset, tables, scratch, counts) < room(n_tables) and auxiliary.shape[0] > 0:
            return u, Outcome(n_opened, -1, NO_WEIGHT)
        listen(u, latent.vectors, terms, scratch.message)
        hear(u, np.int64(0), n_columns, scratch, state)
        opened = turn(rng, u, tables, offset, auxiliary, scratch, apart)
        if opened < 0:
            return u, Outcome(n_opened, u, opened)
        n_opened += opened
        if state.noises.shape[0] > 0:
            set_noise(u, state.noises[acts[u]], terms)
        complete_by(rng, u, apart.looks[:, u], apart.places, state.views[:-1])
        settle(rng, u, acts[u], scratch.message, latent)
        if terms.gram.shape[0] == 0:
            shift(u, scratch.message.step, terms, terms.residual)
    return end, Outcome(n_opened, -1, NO_WEIGHT)
