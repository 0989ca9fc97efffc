"""Ways of running moves for very many users: on threads, in blocks of users.

Each takes the place of a move that is compiled whole. Neither the number of threads nor that of
blocks changes anything but round-off: work is cut into fixed pieces, and sums over blocks are added
up in their order.

Users whose observations are their own do not depend on each other given the components: the log
likelihoods of their observations, and their latent vectors given the clusters, can be worked out
for some on one thread and for some on another.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dualview.behaviors.likelihoods.cluster_noise import set_noise
from dualview.engines.gibbs.moves import assignment
from dualview.engines.gibbs.moves.assignment import weigh_noises
from dualview.engines.gibbs.working import Outcome, WorkingState, grown
from dualview.numerics import parallel
from dualview.numerics.compiling import compiled
from dualview.numerics.draws import log_root
from dualview.numerics.kinds import supports
from dualview.numerics.messages import new_message, read_message, shift
from dualview.numerics.streams import split
from dualview.views.verbs import (
    add_log_marginal,
    draw_user_latent,
    join_sums,
    redraw,
    redraw_from,
    redraw_latent,
    sums,
)


def blocks_of(n_users: int) -> list[tuple[int, int]]:
    """First and end of every block."""
    return [
        (first, min(first + assignment.BLOCK, n_users))
        for first in range(0, n_users, assignment.BLOCK)
    ]


def _redrawn(rng: Any, z: Any, view: Any) -> Any:
    """A view's components, from sums over blocks where its kind has them."""
    if not supports(type(view), "sums", "redraw_from"):
        return redraw(rng, z, view)
    parts = parallel.apply(lambda block: sums(z, *block, view), blocks_of(len(z)))
    whole = next(parts)
    for part in parts:
        join_sums(whole, part)
    return redraw_from(rng, whole, view)


def redraw_components(rng: Any, state: WorkingState) -> WorkingState:
    """``moves.shared.redraw_components``."""
    (*observed, latent), labels = state.views, state.labels
    own = [labels.z[group] for group in labels.groups]
    views = [_redrawn(rng, z, view) for z, view in zip(own[:-1], observed, strict=True)]
    if supports(type(latent), "redraw_from"):
        latent = _redrawn(rng, own[-1], latent)
    else:
        latent = redraw_latent(rng, own[-1], state.terms, latent)
    return state._replace(views=(*views, latent))


# In place: add what the observations of users from one to another say about columns to their log
# likelihoods, which begin with the user at offset.
Tell = Callable[[Any, int, int, int, Any, WorkingState], None]


def assign(rng: Any, state: WorkingState, tell: Tell | None = None) -> WorkingState:
    """``moves.assignment.run``. tell: for users who share vectors, which no message speaks of."""
    if len(state.terms.gram) > assignment.BLOCK:
        raise ValueError("terms with a gram matrix are for users who fit in one block")
    state = state._replace(outcome=Outcome.none())
    auxiliary = assignment.auxiliary_columns(state)
    for first, end in blocks_of(len(state.z)):
        log_likelihood = log_likelihood_of(state, first, end)
        if state.tabulated:
            for part in range(assignment.room(len(state.labels.z))):
                if part > 0:
                    log_likelihood = log_likelihood_of(state, first, end)
                state = _assign_independent(
                    rng, log_likelihood, first, auxiliary, part, state, tell or tell_by_messages
                )
                if state.outcome.user_without_weight >= 0:
                    break
            _draw_latents_of(rng, first, end, state)
        else:
            state = assignment.assign_block(rng, log_likelihood, first, auxiliary, state)
        if state.outcome.user_without_weight >= 0:
            break
    result: WorkingState = assignment.settled(state)
    return result


def log_likelihood_of(state: WorkingState, first: int, end: int) -> Any:
    """ln p of the vectors of users from first to end under every column, (G, C, n), half of the
    columns at a time."""
    n_columns = len(state.counts)
    log_likelihood = np.empty((len(state.labels.z), n_columns, end - first))
    halves = [(0, n_columns // 2), (n_columns // 2, n_columns)]
    list(parallel.apply(lambda half: assignment.fill(log_likelihood, first, *half, state), halves))
    return log_likelihood


def _assign_independent(
    rng: Any,
    log_likelihood: Any,
    first: int,
    auxiliary: Any,
    part: int,
    state: WorkingState,
    tell: Tell,
) -> WorkingState:
    """What observations say about clusters, then one part of the turn of every user.

    Log likelihoods hold what observations say, so auxiliary components keep their means, and a
    turn ends where a cluster is opened.
    """
    u, end = first, first + log_likelihood.shape[2]
    tell(log_likelihood, first, u, end, np.arange(len(state.counts)), state)
    while True:
        n_before = state.outcome.n_opened
        u, outcome = assignment.assign(
            rng, u, end, log_likelihood, first, auxiliary, (part, part + 1), state
        )
        state = state._replace(outcome=outcome._replace(n_opened=n_before + outcome.n_opened))
        if outcome.user_without_weight >= 0 or u == end:
            return state
        if state.counts.min() >= 0:
            state, log_likelihood = grown(state), assignment.widened(log_likelihood)
        for column in auxiliary:  # one of them is new
            assignment.rescore(
                log_likelihood, first, u, end, column, state.labels.groups, state.views[:-1]
            )
        tell(log_likelihood, first, u, end, auxiliary, state)


def _halves(first: int, end: int) -> list[tuple[int, int]]:
    middle = first + (end - first) // 2
    return [(first, middle), (middle, end)]


def _draw_latents_of(rng: Any, first: int, end: int, state: WorkingState) -> None:
    """In place: ``draw_latents`` of a block, a thread for each half."""
    pieces = list(zip([split(rng), split(rng)], _halves(first, end), strict=True))
    list(parallel.apply(lambda piece: draw_latents(piece[0], *piece[1], state), pieces))


def tell_by_messages(
    log_likelihood: Any, offset: int, first: int, end: int, columns: Any, state: WorkingState
) -> None:
    """What observations say with latent vectors integrated out, on a thread for each half of a
    block."""

    def one(half: tuple[int, int]) -> None:
        tabulate(log_likelihood, offset, max(half[0], first), max(half[1], first), columns, state)

    list(parallel.apply(one, _halves(offset, end)))


def tell_by_density(log_table: Callable[[Any, slice], Any]) -> Tell:
    """What observations say given the vectors that users share; log_table(vectors (C, q), users):
    (users, C)."""

    def tell(
        log_likelihood: Any, offset: int, first: int, end: int, columns: Any, state: WorkingState
    ) -> None:
        used = np.array([column for column in columns if state.counts[column] >= 0])
        own = log_table(state.views[-1].means[used], slice(first, end))
        log_likelihood[0, used, first - offset : end - offset] += own.T

    return tell


@compiled
def tabulate(log_likelihood, offset, first, end, columns, state):
    """In place on log likelihoods (G, C, n): add what the observations of users from first to end
    say about columns, latent vectors integrated out."""
    latent, by_cluster, n_columns = (
        state.views[-1],
        state.noises.shape[0] > 0,
        state.counts.shape[0],
    )
    weights, exponents = np.zeros(n_columns), np.zeros(n_columns)
    message = new_message(latent.vectors.shape[1], n_columns if by_cluster else 0)
    for u in range(first, end):
        for c in columns:
            weights[c], exponents[c] = 1.0 if state.counts[c] >= 0 else 0.0, 0.0
        if by_cluster:
            weigh_noises(u, exponents, weights, message, state)
        read_message(u, latent.vectors, state.terms, message)
        add_log_marginal(exponents, weights, message, latent)
        for c in columns:
            if state.counts[c] >= 0:
                log_likelihood[0, c, u - offset] += exponents[c] + log_root(weights[c])


@compiled
def draw_latents(rng, first, end, state):
    """In place on latent vectors, residuals and noise: the vectors of users from first to end given
    their clusters, (C7)."""
    z, terms, latent, by_cluster = (
        state.labels.z[0],
        state.terms,
        state.views[-1],
        state.noises.shape[0] > 0,
    )
    message = new_message(latent.vectors.shape[1], state.noises.shape[0])
    for u in range(first, end):
        read_message(u, latent.vectors, terms, message)
        if by_cluster:
            message.ratios[z[u]] = state.noises[z[u]] / terms.noise[u]
            set_noise(u, state.noises[z[u]], terms)
        draw_user_latent(rng, u, z[u], message, latent)
        shift(u, message.step, terms, terms.residual)
