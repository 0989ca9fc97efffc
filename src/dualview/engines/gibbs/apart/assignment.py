"""Every user's labels, whether they agree, and its latent vector, user after user, (C19).

Behavior has a label, and every table of features has one, which is that of behavior where the two agree. A user is redrawn in
parts, each exact given the rest. The look of each table: whether it agrees and its label, given how the user acts. All that
agrees at once, where something does. Then, given each table's label, whether behavior agrees with it, and the label of behavior
and of all other tables that agree with behavior. In all but the second, a label that stays is one of the customers:

    agrees with l        ρ p(vectors | l),
    does not, and is k   (1 − ρ) w_k / W p(vectors | k),

with w_k what column k weighs by its customers, those of a new one included, and W the sum over all columns. New clusters are
opened as in ``moves.assignment``, from auxiliary components with parameters from the base distributions for all views; a
cluster that has customers in one view only keeps its parameters in the other until these are redrawn. The latent vector is
integrated out while its user chooses, and drawn at the end.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.noise import set_noise
from dualview.engines.gibbs.moves.assignment import choose, leave, open_cluster, weigh_columns, weigh_noises
from dualview.engines.gibbs.working import NO_WEIGHT, Outcome
from dualview.numerics.compiling import compiled, in_place, inlined
from dualview.numerics.draws import log_root
from dualview.numerics.messages import Message, listen, new_message, shift
from dualview.numerics.streams import random
from dualview.views.verbs import complete_by, score_by, settle, weigh


class Scratch(NamedTuple):
    """To work in: weights (C + 1,) and exponents (C + 1,) of the columns and of agreeing; what each column says of the user.

    looks (T, C) and behaves (C,): ln p of each table's vectors and of the observations; pieces (C,): factors of the latter.
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
    return Scratch(np.empty(n + 1), np.empty(n + 1), np.empty((n_tables, n)), np.empty(n), np.empty(n), message)


@compiled
def rescore(tables, offset, first, end, column, apart):
    """In place: one column of tables (T, C, n) that begin with the user at offset, for users from first to end."""
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
def total_score(u, but, scratch, apart):
    """In place on exponents: what columns say of behavior and of the tables that agree with it, but a certain one."""
    n_columns = apart.state.counts.shape[0]
    for c in range(n_columns):
        scratch.exponents[c] = scratch.behaves[c]
    for t in range(apart.looks.shape[0]):
        if t != but and apart.agrees[t, u] == 1:
            for c in range(n_columns):
                scratch.exponents[c] += scratch.looks[t, c]


@in_place
def choose_alone(rng, other, share, scratch, state):
    """A column by its exponent, given the label that stays; the number of columns where the two are to agree."""
    weights, n_columns = scratch.weights, state.counts.shape[0]
    scale = (1.0 - share) / weigh_customers(scratch, state)
    for c in range(n_columns):
        weights[c] *= scale
    weights[n_columns], scratch.exponents[n_columns] = share, scratch.exponents[other]
    return choose(weights, scratch.exponents, random(rng))


@in_place
def choose_look(rng, u, t, scratch, apart):
    """The column of a table, given how the user acts."""
    for c in range(apart.state.counts.shape[0]):
        scratch.exponents[c] = scratch.looks[t, c]
    return choose_alone(rng, apart.acts[u], apart.shares[t], scratch, apart.state)


@in_place
def choose_act(rng, u, t, scratch, apart):
    """The column of behavior and of the other tables that agree with it, given a table's label."""
    total_score(u, t, scratch, apart)
    return choose_alone(rng, apart.looks[t, u], apart.shares[t], scratch, apart.state)


@in_place
def choose_all(rng, u, scratch, apart):
    """The column of behavior and of all tables that agree with it."""
    n_columns = apart.state.counts.shape[0]
    weigh_customers(scratch, apart.state)
    total_score(u, -1, scratch, apart)
    scratch.weights[n_columns], scratch.exponents[n_columns] = 0.0, 0.0
    return choose(scratch.weights, scratch.exponents, random(rng))


@compiled
def join(rng, u, chosen, tables, offset, auxiliary, scratch, apart):
    """In place: one more customer of a column; returns whether it has opened a cluster."""
    state = apart.state
    is_new = state.counts[chosen] == 0 and auxiliary.shape[0] > 0
    if is_new:
        fresh = open_cluster(rng, chosen, auxiliary, state)
        rescore(tables, offset, u, offset + tables.shape[2], fresh, apart)
        for t in range(tables.shape[0]):
            scratch.looks[t, fresh] = tables[t, fresh, u - offset]
        hear(u, fresh, fresh + 1, scratch, state)
    state.counts[chosen] += 1
    return is_new


@in_place
def act(u, column, but, apart):
    """In place: the label of behavior and of the tables that agree with it, but a certain one."""
    apart.acts[u] = column
    for t in range(apart.looks.shape[0]):
        if t != but and apart.agrees[t, u] == 1:
            apart.looks[t, u] = column


@in_place
def n_agreeing(u, agrees):
    """How many tables agree with the user's behavior."""
    n = 0
    for t in range(agrees.shape[0]):
        n += agrees[t, u]
    return n


@in_place
def redraw_part(rng, u, part, tables, offset, auxiliary, scratch, apart):
    """In place: one part of a user's turn; returns whether it has opened a cluster, or what is below 0 if it cannot choose.

    The parts: each table's look; all that agrees; how the user acts given each table's label.
    """
    n_tables, n_columns = apart.looks.shape[0], apart.state.counts.shape[0]
    counts, agrees, acts, looks = apart.state.counts, apart.agrees, apart.acts, apart.looks
    if part == n_tables:
        if n_agreeing(u, agrees) == 0:
            return 0
        leave(rng, acts[u], counts, auxiliary)
        chosen = choose_all(rng, u, scratch, apart)
        if chosen < 0:
            return chosen
        opened = join(rng, u, chosen, tables, offset, auxiliary, scratch, apart)
        act(u, chosen, -1, apart)
        return np.int64(opened)
    is_look = part < n_tables
    t = part if is_look else part - n_tables - 1
    if agrees[t, u] == 0:
        leave(rng, looks[t, u] if is_look else acts[u], counts, auxiliary)
    chosen = choose_look(rng, u, t, scratch, apart) if is_look else choose_act(rng, u, t, scratch, apart)
    if chosen < 0:
        return chosen
    agrees[t, u], opened = 1, False
    if chosen < n_columns:
        opened = join(rng, u, chosen, tables, offset, auxiliary, scratch, apart)
        agrees[t, u] = 0
    elif is_look:
        chosen = acts[u]
    else:
        chosen = looks[t, u]
    if is_look:
        looks[t, u] = chosen
    else:
        act(u, chosen, t, apart)
    return np.int64(opened)


@compiled
def assign(rng, first, end, tables, offset, auxiliary, apart):
    """In place on tables (T, C, n), auxiliary columns and labels: all users from first to end.

    Returns the next user and the outcome. It is end when all are done; less when free columns run short for that user, or when
    it cannot choose a column.
    """
    state, acts, n_tables = apart.state, apart.acts, apart.looks.shape[0]
    counts, terms, latent, n_columns = state.counts, state.terms, state.views[-1], state.counts.shape[0]
    scratch, n_opened = new_scratch(n_tables, state), 0
    for u in range(first, end):
        n_free = 0
        for c in range(n_columns):
            n_free += counts[c] < 0
            for t in range(n_tables):
                scratch.looks[t, c] = tables[t, c, u - offset]
        if auxiliary.shape[0] > 0 and n_free < room(n_tables):
            return u, Outcome(n_opened, -1, NO_WEIGHT)
        listen(u, latent.vectors, terms, scratch.message)
        hear(u, np.int64(0), n_columns, scratch, state)
        for part in range(2 * n_tables + 1):
            opened = redraw_part(rng, u, part, tables, offset, auxiliary, scratch, apart)
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
