"""A step: the list of its moves, and many steps in one compiled call."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dualview.behaviors.likelihoods.conjugate import redraw_conjugate, refresh
from dualview.engines.gibbs.moves import assignment, shared, split_merge
from dualview.engines.gibbs.packing import Pack, new_pack, pack
from dualview.engines.gibbs.working import WorkingState
from dualview.numerics.compiling import compiled, composite, uncached
from dualview.views.verbs import degenerate_each

Move = Callable[[Any, Any], Any]

MOVES: tuple[Move, ...] = (
    shared.rescale_and_shift_latent,
    shared.redraw_components,
    split_merge.run,
    shared.redraw_noise,
    assignment.run,
    shared.redraw_concentration,
    shared.redraw_agreement,
)


def composed(moves: Sequence[Move]) -> Move:
    """One compiled function that makes the moves in turn."""
    scope, text = {f"move_{i}": move for i, move in enumerate(moves)}, "state"
    for name in scope:
        text = f"{name}(rng, {text})"
    run: Move = uncached(eval(f"lambda rng, state: {text}", scope), inline="always")
    return run


step = composed(MOVES)


class Steps(NamedTuple):
    """What some steps have left: how many there were, the state, and the draws among them.

    collapsed: the first view whose clusters have shrunk onto single points, −1 for none.
    unfinished: the last step lacks the joint draw of latent vectors and coefficients, which has to
    be made elsewhere, and is not kept.
    """

    n_steps: int
    state: WorkingState
    collapsed: int
    unfinished: bool
    kept: Pack
    n_kept: int


@compiled
def first_collapsed(views):
    """The first view that has collapsed, −1 for none."""
    place = 0
    for value in degenerate_each(views):
        if value:
            return place
        place += 1
    return -1


@composite
def run_steps(streams, keep, state, conjugate):
    """Steps with all that a conjugate likelihood redraws, one for each of the streams; those in
    keep (n,) are draws.

    Other likelihoods redraw their parameters themselves: for them there is one stream, and nothing
    to keep. Arrays of state and conjugate change in place. Ends early when a user has nowhere to
    go, when a view has collapsed, or when a joint draw has to be made elsewhere.
    """
    n_kept, draw, done, stuck, unfinished = 0, 0, 0, -1, False
    for i in range(streams.shape[0]):
        n_kept += keep[i]
    kept = new_pack(n_kept, conjugate, state)
    is_conjugate = conjugate.outcome.shape[0] > 0
    if is_conjugate:
        refresh(state.views[-1].vectors, state.terms, conjugate)
    for i in range(streams.shape[0]):
        state = step(streams[i], state)
        done = i + 1
        stuck = first_collapsed(state.views)
        if state.outcome.user_without_weight >= 0 or stuck >= 0:
            break
        if is_conjugate and not redraw_conjugate(
            streams[i], state.labels.z[0], state.terms, conjugate, state.views[-1]
        ):
            unfinished = True
            break
        if keep[i]:
            kept = pack(draw, kept, state, conjugate)
            draw += 1
    return Steps(done, state, stuck, unfinished, kept, draw)
