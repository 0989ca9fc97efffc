"""Noise of each cluster's own: s_k ~ G(ν, 1/ν) is the precision of its users' observations, each of
one user.

noise (U,): every user's, that of its cluster. noises (C,): every column's. Where clusters share the
noise, both are empty.
"""

import math

import numpy as np

from dualview.numerics.compiling import compiled, inlined
from dualview.numerics.streams import standard_gamma


@inlined
def noise_law(count, misfit, prior_dof):
    """s_k | rest, as (C8): degrees of freedom and inverse scale, from its observations' number and
    sum of squared residuals."""
    return prior_dof + count, prior_dof + misfit


@inlined
def draw_noise(rng, count, misfit, prior_dof):
    """One s_k; from the prior when there are no observations."""
    dof, inverse_scale = noise_law(count, misfit, prior_dof)
    return 2.0 * standard_gamma(rng, 0.5 * dof) / inverse_scale


@inlined
def set_noise(u, value, terms):
    """In place: user u's noise, and the precision of its observations."""
    terms.noise[u] = value
    for k in range(terms.starts[u], terms.starts[u + 1]):
        terms.precision[terms.rows[k]] = value


@compiled
def redraw_noises(rng, z, terms, n_columns):
    """The noise of every column, new ones from the prior; in place on noise and precision."""
    starts, rows, residual = terms.starts, terms.rows, terms.residual
    if terms.noise.shape[0] == 0:
        return np.empty(0)
    counts, misfits = np.zeros(n_columns), np.zeros(n_columns)
    for u in range(z.shape[0]):
        for k in range(starts[u], starts[u + 1]):
            counts[z[u]] += 1.0
            misfits[z[u]] += residual[rows[k]] * residual[rows[k]]
    noises = np.empty(n_columns)
    for c in range(n_columns):
        noises[c] = draw_noise(rng, counts[c], misfits[c], terms.noise_dof)
    for u in range(z.shape[0]):
        set_noise(u, noises[z[u]], terms)
    return noises


@inlined
def misfit_of(u, terms):
    """Σ w r² of one user's observations."""
    total = 0.0
    rows, residual = terms.rows, terms.residual
    for k in range(terms.starts[u], terms.starts[u + 1]):
        total += terms.precision[rows[k]] * residual[rows[k]] * residual[rows[k]]
    return total


@inlined
def noise_gain(ratio, n_observations, misfit):
    """By how much the log likelihood at the same latent vector grows when a user's noise becomes
    ratio times what it was."""
    return 0.5 * (n_observations * math.log(ratio) - (ratio - 1.0) * misfit)
