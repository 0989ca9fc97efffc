"""A conjugate likelihood inside the sampler's call: normal observations with one noise, and
coefficients e ~ N(0, I)."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.likelihoods.cluster_noise import draw_noise
from dualview.numerics.compiling import compiled, in_place, standalone
from dualview.numerics.regression import TILES, draw_by_coefficients
from dualview.numerics.streams import random, standard_normal

Array = NDArray[np.float64]


class Conjugate(NamedTuple):
    """What it takes to redraw the parameters inside the sweep's call: normal observations, s ~ G(ν,
    1/ν), e ~ N(0, I).

    outcome (N,) = design · latent + covariates (N, C) · coefficients e (C,) + noise of one
    precision s, the terms'. gram and weighted: the normal equations of latent numbers and
    coefficients together, (U + C, U + C) and (U + C,), or empty. share: how often all of them are
    drawn together; where the equations are empty or lose digits the call ends there, for
    ``redraw_together``.
    """

    outcome: Array
    covariates: Array
    coefficients: Array
    gram: Array
    weighted: Array
    share: float

    @classmethod
    def none(cls) -> "Conjugate":
        """Nothing to redraw in the call."""
        return cls(np.empty(0), np.empty((0, 0)), np.empty(0), np.empty((0, 0)), np.empty(0), 0.0)


@in_place
def refresh(latent, terms, conjugate):
    """In place: residuals, and what the gram matrix's way needs, from the latent vectors and
    coefficients as they stand."""
    starts, rows, loads, residual = terms.starts, terms.rows, terms.loads, terms.residual
    outcome, covariates, coefficients = (
        conjugate.outcome,
        conjugate.covariates,
        conjugate.coefficients,
    )
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
    for u in range(terms.gram.shape[0]):
        known = 0.0
        for c in range(coefficients.shape[0]):
            known += conjugate.gram[u, n_users + c] * coefficients[c]
        terms.weighted[u] = conjugate.weighted[u] - known


@compiled
def draw_together(rng, z, precision, conjugate, view):
    """In place: all latent numbers and coefficients from their joint distribution, (C7).

    False, and nothing has changed, where there are no normal equations, or too many, or their
    factor would lose digits.
    """
    latent, means, factors = view.vectors, view.components.means, view.components.factors
    n, n_users = conjugate.gram.shape[0], z.shape[0]
    if n == 0 or n > TILES:
        return False
    prior_mean, prior_precision, noise = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        prior_mean[i], prior_precision[i] = 0.0, 1.0
        if i < n_users:
            prior_mean[i], prior_precision[i] = means[z[i], 0], factors[z[i], 0, 0] ** 2
        noise[i] = standard_normal(rng)
    draw = draw_by_coefficients(
        conjugate.gram, conjugate.weighted, precision, prior_mean, prior_precision, noise
    )
    if not math.isfinite(draw[0]):
        return False
    for i in range(n):
        if i < n_users:
            latent[i, 0] = draw[i]
        else:
            conjugate.coefficients[i - n_users] = draw[i]
    return True


@in_place
def misfit(residual):
    """Σ r²."""
    total = 0.0
    for t in range(residual.shape[0]):
        total += residual[t] * residual[t]
    return total


@standalone(returns=True)
def redraw_conjugate(rng, z, terms, conjugate, view):
    """In place: now and then everything together, (C7); then the noise, (C8), and fresh residuals.

    False where the joint draw has to be made elsewhere; then only the stream has moved.
    """
    residual, precision, share = terms.residual, terms.precision, conjugate.share
    if (
        share > 0.0
        and random(rng) < share
        and not draw_together(rng, z, precision[0], conjugate, view)
    ):
        return False
    refresh(view.vectors, terms, conjugate)
    precision[0] = draw_noise(rng, float(residual.shape[0]), misfit(residual), terms.noise_dof)
    return True


@in_place
def log_conjugate(terms, conjugate):
    """ln p(outcome, s, e | latent) up to a constant, (M8) and (M9), from fresh residuals."""
    residual, precision, coefficients = terms.residual, terms.precision[0], conjugate.coefficients
    total = 0.5 * (residual.shape[0] * math.log(precision) - precision * misfit(residual))
    for c in range(coefficients.shape[0]):
        total -= 0.5 * coefficients[c] * coefficients[c]
    half = 0.5 * terms.noise_dof
    return (
        total
        + half * math.log(half)
        - math.lgamma(half)
        + (half - 1.0) * math.log(precision)
        - half * precision
    )
