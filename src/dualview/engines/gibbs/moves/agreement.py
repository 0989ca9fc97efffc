"""The probability that a further group of views agrees with behavior."""

from dualview.numerics.compiling import compiled, inlined
from dualview.numerics.streams import standard_gamma


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
def run(rng, state):
    """In place: a new ρ of every further group where it is learned."""
    labels = state.labels
    for g in range(labels.shares.shape[0]):
        a, b = labels.priors[g]
        if a > 0.0:
            labels.shares[g] = draw_share(rng, labels.agrees[g], a, b)
    return state
