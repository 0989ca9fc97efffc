"""Steps for users with several labels: many in one compiled call, or move by move with very many
users."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.conjugate import log_conjugate, redraw_conjugate, refresh
from dualview.engines.gibbs import blocks, steps
from dualview.engines.gibbs.apart import moves
from dualview.engines.gibbs.apart.assignment import fill
from dualview.engines.gibbs.apart.labels import Apart
from dualview.engines.gibbs.moves import assignment
from dualview.engines.gibbs.packing import Pack, new_pack, pack_with
from dualview.engines.gibbs.working import Outcome
from dualview.numerics import parallel
from dualview.numerics.compiling import compiled, composite
from dualview.partitions.verbs import log_density
from dualview.views.verbs import log_densities, log_densities_by

step = steps.composed(moves.MOVES)


class ApartSteps(NamedTuple):
    """What some steps have left, as ``steps.Steps``; of the n draws that are kept, the labels and
    ρ.

    acts (n, U), looks (n, T, U), agrees (n, T, U), shares (n, T).
    """

    n_steps: int
    apart: Apart
    collapsed: int
    unfinished: bool
    kept: Pack
    n_kept: int
    acts: NDArray[np.int32]
    looks: NDArray[np.int32]
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
    total = log_densities_by(
        apart.looks, log_density(state.counts, state.partition), apart.places, state.views[:-1]
    )
    total = log_densities(apart.acts, total, state.views[-1:]) + log_conjugate(
        state.terms, conjugate
    )
    for t in range(apart.shares.shape[0]):
        total += log_agreement(
            apart.agrees[t], apart.shares[t], apart.priors[t, 0], apart.priors[t, 1]
        )
    return total


@composite
def run_steps(streams, keep, apart, conjugate):
    """``steps.run_steps`` for users with several labels."""
    n_kept, draw, done, stuck, unfinished = 0, 0, 0, -1, False
    for i in range(streams.shape[0]):
        n_kept += keep[i]
    kept, (n_tables, n_users) = new_pack(n_kept, conjugate, apart.state), apart.looks.shape
    acts, looks = (
        np.empty((n_kept, n_users), np.int32),
        np.empty((n_kept, n_tables, n_users), np.int32),
    )
    agrees, shares = np.empty((n_kept, n_tables, n_users), np.bool_), np.empty((n_kept, n_tables))
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
        if is_conjugate and not redraw_conjugate(
            streams[i], apart.acts, state.terms, conjugate, state.views[-1]
        ):
            unfinished = True
            break
        if keep[i]:
            kept = pack_with(draw, kept, log_joint(apart, conjugate), state, conjugate)
            for u in range(n_users):
                acts[draw, u] = apart.acts[u]
            for t in range(n_tables):
                shares[draw, t] = apart.shares[t]
                for u in range(n_users):
                    looks[draw, t, u] = apart.looks[t, u]
                    agrees[draw, t, u] = apart.agrees[t, u] == 1
            draw += 1
    return ApartSteps(done, apart, stuck, unfinished, kept, draw, acts, looks, agrees, shares)


def _redraw_components(rng: Any, apart: Apart) -> Apart:
    labels = [apart.looks[place] for place in apart.places]
    views = blocks.redrawn_views(rng, labels, apart.acts, apart.state)
    return apart._replace(state=apart.state._replace(views=views))


def _tables_of(apart: Apart, first: int, end: int) -> Any:
    """What each table says about users from first to end, (T, C, n), half of the columns at a
    time."""
    n_columns = len(apart.state.counts)
    tables = np.empty((len(apart.looks), n_columns, end - first))
    halves = [(0, n_columns // 2), (n_columns // 2, n_columns)]
    list(parallel.apply(lambda half: fill(tables, first, *half, apart), halves))
    return tables


def _assign(rng: Any, apart: Apart) -> Apart:
    apart = apart._replace(state=apart.state._replace(outcome=Outcome.none()))
    auxiliary = assignment.auxiliary_columns(apart.state)
    for first, end in blocks.blocks_of(len(apart.acts)):
        apart = moves.assign_tables(rng, _tables_of(apart, first, end), first, auxiliary, apart)
        if apart.state.outcome.user_without_weight >= 0:
            break
    result: Apart = moves.settled(apart)
    return result


BY_BLOCKS = {moves.components: _redraw_components, moves.assignments: _assign}


def run_by_blocks(rng: Any, apart: Apart) -> tuple[Apart, int]:
    """The moves of a step one by one, on threads where they allow it; and the first view that has
    collapsed, or −1."""
    for move in moves.MOVES:
        apart = BY_BLOCKS.get(move, move)(rng, apart)
    return apart, int(steps.first_collapsed(apart.state.views))
