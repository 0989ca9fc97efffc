"""Moves of what users share, given their labels: components and their base, the noise of clusters,
the concentration, the probabilities of agreeing; and of all latent vectors at once."""

from dualview.behaviors.likelihoods.cluster_noise import redraw_noises
from dualview.engines.gibbs.working import with_columns, with_results, with_views
from dualview.numerics.compiling import compiled, inlined
from dualview.numerics.streams import standard_gamma
from dualview.partitions.verbs import redraw
from dualview.views.verbs import redraw_by, redraw_latent, rescale_and_shift


@inlined
def rescale_and_shift_latent(rng, state):
    """In place on latent vectors and residuals: all latent vectors together with what their view
    says about them, their scale, then the clusters' location."""
    latent = rescale_and_shift(rng, state.labels.z[0], state.terms, state.views[-1])
    return with_views(state, state.views[:-1] + (latent,))  # noqa: RUF005  (Numba has no other way)


@inlined
def redraw_components(rng, state):
    """The components of every view, and what they share. In place on latent vectors and residuals,
    where users share the vectors of their clusters."""
    labels = state.labels
    observed = redraw_by(rng, labels.z, labels.groups, state.views[:-1])
    latent = redraw_latent(rng, labels.z[0], state.terms, state.views[-1])
    return with_views(state, observed + (latent,))  # noqa: RUF005  (Numba has no other way)


@inlined
def redraw_noise(rng, state):
    """In place on the terms' noise and precision: the noise of every cluster, where each has its
    own."""
    if state.terms.noise.shape[0] == 0:
        return state
    noises = redraw_noises(rng, state.labels.z[0], state.terms, state.counts.shape[0])
    return with_columns(state, state.counts, state.views, noises)


@inlined
def redraw_concentration(rng, state):
    """The state with a new concentration given the customers, unless a user had nowhere to go."""
    partition = state.partition
    if state.outcome.user_without_weight < 0:
        partition = redraw(rng, state.counts, partition)
    return with_results(state, partition, state.outcome)


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
def redraw_agreement(rng, state):
    """In place: a new ρ of every further group of views, where it is learned."""
    labels = state.labels
    for g in range(labels.shares.shape[0]):
        a, b = labels.priors[g]
        if a > 0.0:
            labels.shares[g] = draw_share(rng, labels.agrees[g], a, b)
    return state
