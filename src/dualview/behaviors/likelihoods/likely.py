"""Constants of the behavior view from the data: the prior under which observations of one user each
are most likely.

All users are taken for one cluster, f_u ~ N(m, Σ), with the effects outside the mixture as in the
model. m and Σ maximise the likelihood times a weak prior of Σ, by stochastic approximation of the
EM algorithm (Delyon, Lavielle and Moulines 1999): the likelihood's own draws of vectors and
parameters stand for the expectation. latent (U, q) in working units.
"""

import numpy as np

from dualview.behaviors.base import Likelihood
from dualview.behaviors.likelihoods.effects_draw import redraw_vectors
from dualview.behaviors.records import Array, Prior
from dualview.units import GaussianPrior, Whitening

_SEARCH, _AVERAGE = (
    200,
    200,
)  # iterations that follow the last draw, and that average over all since
_WEIGHT = 2.0  # users whose vectors the prior of Σ is worth
_SEED = 24


def likely_prior(units: Whitening, likelihood: Likelihood) -> GaussianPrior:
    """m and Σ in the user's units; the likelihood is in those of a first guess, which the weak
    prior of Σ is centred at."""
    rng = np.random.default_rng(_SEED)
    latent, params = likelihood.start(rng)
    n_users, n_dims = latent.shape
    mean, covariance = np.zeros(n_dims), np.eye(n_dims)
    first, second = np.zeros(n_dims), np.zeros((n_dims, n_dims))
    for iteration in range(_SEARCH + _AVERAGE):
        prior = _prior(n_users, mean, covariance)
        terms = likelihood.terms(rng, latent, params)
        latent = redraw_vectors(rng, terms, prior, latent)
        latent, params = likelihood.redraw(rng, latent, params, terms, prior)
        gain = 1.0 / max(1, iteration - _SEARCH + 1)
        first += gain * (latent.mean(axis=0) - first)
        second += gain * (latent.T @ latent / n_users - second)
        mean = first.copy()
        spread = second - np.outer(first, first)
        covariance = (n_users * spread + _WEIGHT * np.eye(n_dims)) / (n_users + _WEIGHT)
    return GaussianPrior(units.vectors(mean), units.covariances(covariance))


def _prior(n_users: int, mean: Array, covariance: Array) -> Prior:
    factor = np.linalg.cholesky(np.linalg.solve(covariance, np.eye(len(mean))))
    return Prior(np.zeros(n_users, dtype=np.int64), mean[None], factor[None])
