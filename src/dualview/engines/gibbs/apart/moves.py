"""The moves of a step for users with a label for each view: a twin for every move of ``steps.MOVES``, and ρ.

Moves are made one by one, the components and the tables of observed views on threads where users are many.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dualview.behaviors.likelihoods.noise import redraw_noises
from dualview.engines.gibbs import blocks, steps
from dualview.engines.gibbs.apart.assignment import ROOM, assign
from dualview.engines.gibbs.apart.labels import Apart, compacted
from dualview.engines.gibbs.apart.split_merge import split_and_merge
from dualview.engines.gibbs.moves import assignment, components, concentration, noise, split_merge, together
from dualview.engines.gibbs.working import Outcome, grown
from dualview.numerics.dispatch import supports
from dualview.partitions.verbs import opens, redraw
from dualview.views.verbs import move_together, open_columns_each


def _move_together(rng: Any, apart: Apart) -> Apart:
    state = apart.state
    latent = move_together(rng, apart.acts, state.terms, state.views[-1])
    return apart._replace(state=state._replace(views=(*state.views[:-1], latent)))


def _redraw_components(rng: Any, apart: Apart) -> Apart:
    state = apart.state
    views = blocks.redrawn_views(rng, state.z, apart.acts, state)
    return apart._replace(state=state._replace(views=views))


def _split_and_merge(rng: Any, apart: Apart) -> Apart:
    """With auxiliary components and free columns, where users can open clusters."""
    state = apart.state
    if not opens(state.partition):
        return apart
    can = all(supports(type(view), "split_start") for view in state.views)
    n_moves = int(split_merge.draw_moves(rng, state)) if can else 0
    room = split_merge.ROOM + ROOM + n_moves
    views = open_columns_each(rng, state.n_auxiliary, room, False, state.views)
    fresh = np.repeat(np.array([0, -1]), [state.n_auxiliary, room])
    apart = apart._replace(state=state._replace(counts=np.append(state.counts, fresh), views=views))
    if n_moves:
        split_and_merge(rng, n_moves, apart)
    return apart


def _redraw_noises(rng: Any, apart: Apart) -> Apart:
    state = apart.state
    if len(state.terms.noise) == 0:
        return apart
    return apart._replace(state=state._replace(noises=redraw_noises(rng, apart.acts, state.terms, len(state.counts))))


def _assign(rng: Any, apart: Apart) -> Apart:
    apart = apart._replace(state=apart.state._replace(outcome=Outcome.none()))
    auxiliary = assignment.auxiliary_columns(apart.state)
    for first, end in blocks.blocks_of(len(apart.acts)):
        table = blocks.table_of(apart.state, first, end)
        u = first
        while u < end:
            n_before = apart.state.outcome.n_opened
            u, outcome = assign(rng, u, end, table, first, auxiliary, apart)
            outcome = outcome._replace(n_opened=n_before + outcome.n_opened)
            apart = apart._replace(state=apart.state._replace(outcome=outcome))
            if outcome.user_without_weight >= 0:
                return apart
            if u < end:
                apart, table = apart._replace(state=grown(apart.state)), assignment.widened(table)
    return compacted(apart) if opens(apart.state.partition) else apart


def _redraw_concentration(rng: Any, apart: Apart) -> Apart:
    state = apart.state
    if state.outcome.user_without_weight >= 0:
        return apart
    return apart._replace(state=state._replace(partition=redraw(rng, state.counts, state.partition)))


TWINS: Mapping[steps.Move, Callable[[Any, Apart], Apart]] = {
    together.run: _move_together,
    components.run: _redraw_components,
    split_merge.run: _split_and_merge,
    noise.run: _redraw_noises,
    assignment.run: _assign,
    concentration.run: _redraw_concentration,
}


def run(rng: Any, apart: Apart) -> tuple[Apart, int]:
    """A step but for ρ: its moves in turn; and the first view that has collapsed, or −1."""
    for move in steps.MOVES:
        apart = TWINS[move](rng, apart)
    return apart, int(steps.first_collapsed(apart.state.views))
