"""Steps for users with a label for each view: many in one compiled call, or move by move with very many users."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.conjugate import log_conjugate, redraw_conjugate, refresh
from dualview.engines.gibbs import blocks, steps
from dualview.engines.gibbs.apart import moves
from dualview.engines.gibbs.apart.labels import Apart
from dualview.engines.gibbs.moves import assignment
from dualview.engines.gibbs.packing import Pack, new_pack, pack_with
from dualview.engines.gibbs.working import Outcome
from dualview.numerics.compiling import compiled
from dualview.partitions.verbs import log_density
from dualview.views.verbs import log_densities

step = steps.composed(moves.MOVES)


class ApartSteps(NamedTuple):
    """What some steps have left, as ``steps.Steps``; of the draws that are kept, acts (n, U), agrees (n, U), shares (n,)."""

    n_steps: int
    apart: Apart
    collapsed: int
    unfinished: bool
    kept: Pack
    n_kept: int
    acts: NDArray[np.int32]
    agrees: NDArray[np.bool_]
    shares: NDArray[np.float64]


@compiled
def log_agreement(agrees, share, a, b):
    """ln p(who agrees | ρ) + ln p(ρ)."""
    n_agree, total = 0, 0.0
    for u in range(agrees.shape[0]):
        n_agree += agrees[u]
    n_differ = agrees.shape[0] - n_agree
    if n_agree > 0:
        total += n_agree * math.log(share)
    if n_differ > 0:
        total += n_differ * math.log1p(-share)
    if a > 0.0:
        total += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        total += (a - 1.0) * math.log(share) + (b - 1.0) * math.log1p(-share)
    return total


@compiled
def log_joint(apart, conjugate):
    """ln p(data, state) up to a constant that depends on nothing learnt."""
    state = apart.state
    total = log_densities(state.z, log_density(state.counts, state.partition), state.views[:-1])
    total = log_densities(apart.acts, total, state.views[-1:])
    return total + log_conjugate(state.terms, conjugate) + log_agreement(apart.agrees, apart.share, apart.a, apart.b)


@compiled
def run_steps(streams, keep, apart, conjugate):
    """``steps.run_steps`` for users with a label for each view."""
    n_kept, draw, done, stuck, unfinished = 0, 0, 0, -1, False
    for i in range(streams.shape[0]):
        n_kept += keep[i]
    kept, n_users = new_pack(n_kept, conjugate, apart.state), apart.acts.shape[0]
    acts, agrees, shares = np.empty((n_kept, n_users), np.int32), np.empty((n_kept, n_users), np.bool_), np.empty(n_kept)
    is_conjugate = conjugate.outcome.shape[0] > 0
    if is_conjugate:
        refresh(apart.state.views[-1].vectors, apart.state.terms, conjugate)
    for i in range(streams.shape[0]):
        apart = step(streams[i], apart)
        state = apart.state
        done = i + 1
        stuck = steps.first_collapsed(state.views)
        if state.outcome.user_without_weight >= 0 or stuck >= 0:
            break
        if is_conjugate and not redraw_conjugate(streams[i], apart.acts, state.terms, conjugate, state.views[-1]):
            unfinished = True
            break
        if keep[i]:
            kept = pack_with(draw, kept, log_joint(apart, conjugate), state, conjugate)
            for u in range(n_users):
                acts[draw, u] = apart.acts[u]
                agrees[draw, u] = apart.agrees[u] == 1
            shares[draw] = apart.share
            draw += 1
    return ApartSteps(done, apart, stuck, unfinished, kept, draw, acts, agrees, shares)


def _redraw_components(rng: Any, apart: Apart) -> Apart:
    views = blocks.redrawn_views(rng, apart.state.z, apart.acts, apart.state)
    return apart._replace(state=apart.state._replace(views=views))


def _assign(rng: Any, apart: Apart) -> Apart:
    apart = apart._replace(state=apart.state._replace(outcome=Outcome.none()))
    auxiliary = assignment.auxiliary_columns(apart.state)
    for first, end in blocks.blocks_of(len(apart.acts)):
        apart = moves.assign_table(rng, blocks.table_of(apart.state, first, end), first, auxiliary, apart)
        if apart.state.outcome.user_without_weight >= 0:
            break
    result: Apart = moves.settled(apart)
    return result


BY_BLOCKS = {moves.components: _redraw_components, moves.assignments: _assign}


def run_by_blocks(rng: Any, apart: Apart) -> tuple[Apart, int]:
    """The moves of a step one by one, on threads where they allow it; and the first view that has collapsed, or −1."""
    for move in moves.MOVES:
        apart = BY_BLOCKS.get(move, move)(rng, apart)
    return apart, int(steps.first_collapsed(apart.state.views))
