"""The components of every view, and what they share."""

from dualview.engines.gibbs.working import with_views
from dualview.numerics.compiling import inlined
from dualview.views.verbs import redraw_by, redraw_latent


@inlined
def run(rng, state):
    """In place on latent vectors and residuals, where users share the vectors of their clusters."""
    labels = state.labels
    observed = redraw_by(rng, labels.z, labels.groups, state.views[:-1])
    latent = redraw_latent(rng, labels.z[0], state.terms, state.views[-1])
    return with_views(state, observed + (latent,))  # noqa: RUF005  (Numba has no other way)
