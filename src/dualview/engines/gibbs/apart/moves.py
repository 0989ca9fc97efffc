"""The moves of a step for users with several labels: a twin for each move of ``steps.MOVES``, and
ρ."""

import numpy as np

from dualview.behaviors.likelihoods.noise import redraw_noises
from dualview.engines.gibbs.apart.assignment import assign, fill, room
from dualview.engines.gibbs.apart.labels import compacted, with_state
from dualview.engines.gibbs.apart.split_merge import split_and_merge
from dualview.engines.gibbs.moves import assignment, split_merge
from dualview.engines.gibbs.working import (
    NO_WEIGHT,
    Outcome,
    grown,
    with_columns,
    with_outcome,
    with_partition,
    with_views,
)
from dualview.numerics.compiling import compiled, inlined
from dualview.numerics.dispatch import selected, supports
from dualview.numerics.streams import standard_gamma
from dualview.partitions.verbs import opens, redraw
from dualview.views.verbs import open_columns_each, redraw_by, redraw_latent, rescale_and_shift


@inlined
def together(rng, apart):
    """In place on latent vectors and residuals: all latent vectors with what their view says about
    them."""
    state = apart.state
    latent = rescale_and_shift(rng, apart.acts, state.terms, state.views[-1])
    return with_state(apart, with_views(state, state.views[:-1] + (latent,)))  # noqa: RUF005  (Numba has no other way)


@inlined
def components(rng, apart):
    """The components of every view, given the labels of that view."""
    state = apart.state
    observed = redraw_by(rng, apart.looks, apart.places, state.views[:-1])
    latent = redraw_latent(rng, apart.acts, state.terms, state.views[-1])
    return with_state(apart, with_views(state, observed + (latent,)))  # noqa: RUF005


@inlined
def with_new_columns(rng, n_moves, apart):
    """With auxiliary components and free columns, where users can open clusters."""
    state = apart.state
    if not opens(state.partition):
        return apart
    n, n_auxiliary, n_room = (
        state.counts.shape[0],
        state.n_auxiliary,
        split_merge.ROOM + room(apart.looks.shape[0]) + n_moves,
    )
    views = open_columns_each(rng, n_auxiliary, n_room, False, state.views)
    counts = np.empty(n + n_auxiliary + n_room, dtype=np.int64)
    for c in range(counts.shape[0]):
        counts[c] = state.counts[c] if c < n else (0 if c < n + n_auxiliary else -1)
    return with_state(apart, with_columns(state, counts, views, state.noises))


@compiled
def with_splits(rng, apart):
    """``splits`` where every view can be split."""
    n_moves = split_merge.draw_moves(rng, apart.state) if opens(apart.state.partition) else 0
    apart = with_new_columns(rng, n_moves, apart)
    if n_moves > 0:
        split_and_merge(rng, n_moves, apart)
    return apart


@compiled
def without_splits(rng, apart):
    """``splits`` where some view cannot."""
    return with_new_columns(rng, 0, apart)


def choose_splits(kinds):
    """In place on labels and the clusters' parameters: splits and merges, where users can open
    clusters."""
    return with_splits if all(supports(kind, "split_start") for kind in kinds) else without_splits


splits = selected(choose_splits, within=("state",))


@inlined
def noises(rng, apart):
    """In place on the terms' noise and precision: the noise of every cluster, where each has its
    own."""
    state = apart.state
    if state.terms.noise.shape[0] == 0:
        return apart
    own = redraw_noises(rng, apart.acts, state.terms, state.counts.shape[0])
    return with_state(apart, with_columns(state, state.counts, state.views, own))


@compiled
def widened(tables):
    """With as many columns again."""
    n_tables, n, n_users = tables.shape
    wide = np.empty((n_tables, 2 * n, n_users))
    for t in range(n_tables):
        for c in range(n):
            for u in range(n_users):
                wide[t, c, u] = tables[t, c, u]
    return wide


@inlined
def assign_tables(rng, tables, offset, auxiliary, apart):
    """``assign`` for all users of tables (T, C, n), with more columns as they are needed."""
    u, end = offset, offset + tables.shape[2]
    while True:
        n_before = apart.state.outcome.n_opened
        u, outcome = assign(rng, u, end, tables, offset, auxiliary, apart)
        outcome = Outcome(n_before + outcome.n_opened, outcome.user_without_weight, outcome.verdict)
        apart = with_state(apart, with_outcome(apart.state, outcome))
        if outcome.user_without_weight >= 0 or u == end:
            return apart
        apart, tables = with_state(apart, grown(apart.state)), widened(tables)


@inlined
def settled(apart):
    """After all users have chosen: without empty clusters, where users can open them."""
    if opens(apart.state.partition) and apart.state.outcome.user_without_weight < 0:
        return compacted(apart)
    return apart


@inlined
def assignments(rng, apart):
    """In place on labels, latent vectors, residuals and noise: all users, of whom there are no more
    than fit into a block."""
    apart = with_state(apart, with_outcome(apart.state, Outcome(0, -1, NO_WEIGHT)))
    auxiliary = assignment.auxiliary_columns(apart.state)
    tables = np.empty((apart.looks.shape[0], apart.state.counts.shape[0], apart.acts.shape[0]))
    fill(tables, np.int64(0), np.int64(0), tables.shape[1], apart)
    return settled(assign_tables(rng, tables, np.int64(0), auxiliary, apart))


@inlined
def concentration(rng, apart):
    """A new concentration given the customers, unless a user had nowhere to go."""
    partition = apart.state.partition
    if apart.state.outcome.user_without_weight < 0:
        partition = redraw(rng, apart.state.counts, partition)
    return with_state(apart, with_partition(apart.state, partition))


@compiled
def draw_share(rng, agrees, a, b):
    """ρ given who agrees, (C19)."""
    n_agree = 0
    for u in range(agrees.shape[0]):
        n_agree += agrees[u]
    agree = standard_gamma(rng, a + n_agree)
    differ = standard_gamma(rng, b + agrees.shape[0] - n_agree)
    return agree / (agree + differ)


@inlined
def shares(rng, apart):
    """In place: a new ρ of every table where it is learnt."""
    for t in range(apart.shares.shape[0]):
        a, b = apart.priors[t]
        if a > 0.0:
            apart.shares[t] = draw_share(rng, apart.agrees[t], a, b)
    return apart


MOVES = (together, components, splits, noises, assignments, concentration, shares)
