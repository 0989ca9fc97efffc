"""A plain likelihood inside the sweep's call: normal observations with one noise, s ~ G(ν, 1/ν), and coefficients e ~ N(0, I).

plain = (outcome, covariates, coefficients, gram, weighted, share): outcome (N,), covariates (N, C), coefficients e (C,); gram
(U + C, U + C) and weighted (U + C,) are the normal equations of latent numbers and coefficients together, where they are small,
else empty; share: how often all of them are drawn together. terms as in ``messages``. Without outcomes there is no such
likelihood.
"""

import math

import numpy as np

from dualview.behaviors.likelihoods.noise import draw_noise
from dualview.numerics.compiling import compiled
from dualview.numerics.regression import TILES, draw_by_coefficients
from dualview.numerics.streams import random, standard_normal


@compiled
def refresh(latent, terms, plain):
    """In place: residuals, and what the gram matrix's way needs, from the latent vectors and coefficients as they stand."""
    starts, rows, loads, _, residual, _, small_gram, rest, _, _ = terms
    outcome, covariates, coefficients, gram, weighted, _ = plain
    n_users, n_dims = latent.shape
    for t in range(outcome.shape[0]):
        expected = 0.0
        for c in range(coefficients.shape[0]):
            expected += covariates[t, c] * coefficients[c]
        residual[t] = outcome[t] - expected
    for u in range(n_users):
        for k in range(starts[u], starts[u + 1]):
            for i in range(n_dims):
                residual[rows[k]] -= loads[k, i] * latent[u, i]
    for u in range(small_gram.shape[0]):
        known = 0.0
        for c in range(coefficients.shape[0]):
            known += gram[u, n_users + c] * coefficients[c]
        rest[u] = weighted[u] - known


@compiled
def draw_together(rng, z, latent, means, factors, precision, plain):
    """In place: all latent numbers and coefficients from their joint law, (C7).

    False, and nothing has changed, where there are no normal equations, or too many, or their factor would lose digits.
    """
    _, _, coefficients, gram, weighted, _ = plain
    n, n_users = gram.shape[0], z.shape[0]
    if n == 0 or n > TILES:
        return False
    prior_mean, prior_precision, noise = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        prior_mean[i], prior_precision[i] = 0.0, 1.0
        if i < n_users:
            prior_mean[i], prior_precision[i] = means[z[i], 0], factors[z[i], 0, 0] ** 2
        noise[i] = standard_normal(rng)
    draw = draw_by_coefficients(gram, weighted, precision, prior_mean, prior_precision, noise)
    if not math.isfinite(draw[0]):
        return False
    for i in range(n):
        if i < n_users:
            latent[i, 0] = draw[i]
        else:
            coefficients[i - n_users] = draw[i]
    return True


@compiled
def misfit(residual):
    """Σ r²."""
    total = 0.0
    for t in range(residual.shape[0]):
        total += residual[t] * residual[t]
    return total


@compiled
def redraw_plain(rng, z, latent, means, factors, terms, plain):
    """In place: now and then everything together, (C7); then the noise, (C8), and fresh residuals.

    False where the joint draw has to be made elsewhere; then only the stream has moved.
    """
    residual, precision = terms[4], terms[5]
    share = plain[5]
    if share > 0.0 and random(rng) < share and not draw_together(rng, z, latent, means, factors, precision[0], plain):
        return False
    refresh(latent, terms, plain)
    precision[0] = draw_noise(rng, float(residual.shape[0]), misfit(residual), terms[9])
    return True


@compiled
def log_plain(terms, plain):
    """ln p(outcome, s, e | latent) up to a constant, (M8) and (M9), from fresh residuals."""
    residual, precision, prior_dof, coefficients = terms[4], terms[5][0], terms[9], plain[2]
    total = 0.5 * (residual.shape[0] * math.log(precision) - precision * misfit(residual))
    for c in range(coefficients.shape[0]):
        total -= 0.5 * coefficients[c] * coefficients[c]
    half = 0.5 * prior_dof
    return total + half * math.log(half) - math.lgamma(half) + (half - 1.0) * math.log(precision) - half * precision
