"""The noise of every cluster, where each has its own."""

from dualview.behaviors.likelihoods.noise import redraw_noises
from dualview.engines.gibbs.working import with_columns
from dualview.numerics.compiling import inlined


@inlined
def run(rng, state):
    """In place on the terms' noise and precision."""
    if state.terms.noise.shape[0] == 0:
        return state
    noises = redraw_noises(rng, state.labels.z[0], state.terms, state.counts.shape[0])
    return with_columns(state, state.counts, state.views, noises)
