"""The latent vectors of all users, together with what their view says about them: their scale, then
the clusters' location."""

from dualview.engines.gibbs.working import with_views
from dualview.numerics.compiling import inlined
from dualview.views.verbs import rescale_and_shift


@inlined
def run(rng, state):
    """In place on latent vectors and residuals."""
    latent = rescale_and_shift(rng, state.labels.z[0], state.terms, state.views[-1])
    return with_views(state, state.views[:-1] + (latent,))  # noqa: RUF005  (Numba has no other way)
