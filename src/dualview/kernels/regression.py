"""Draws of many regression coefficients with independent priors, one number each."""

import numpy as np

from dualview.kernels.compiling import compiled
from dualview.kernels.linalg import solve_lower, solve_lower_transposed


@compiled
def draw_by_coefficients(gram, weighted_outcome, noise_precision, prior_mean, prior_precision, noise):
    """(C7) by a factorisation of size coefficients: Λ = diag(prior_precision) + noise_precision · gram.

    weighted_outcome is designᵀ outcome, noise a standard normal vector.
    """
    n = prior_mean.shape[0]
    precision = noise_precision * gram
    for i in range(n):
        precision[i, i] += prior_precision[i]
    factor = np.linalg.cholesky(precision)
    linear = prior_precision * prior_mean + noise_precision * weighted_outcome
    return solve_lower_transposed(factor, solve_lower(factor, linear) + noise)


@compiled
def draw_by_observations(design, outcome, noise_precision, prior_mean, prior_precision, noise, outcome_noise):
    """(C7) by a factorisation of size observations: a prior draw, corrected by the residual it leaves."""
    n_observations = design.shape[0]
    covariance = 1.0 / prior_precision
    prior_draw = prior_mean + np.sqrt(covariance) * noise
    residual = outcome - design @ prior_draw - outcome_noise / np.sqrt(noise_precision)
    system = (design * covariance) @ design.T
    for t in range(n_observations):
        system[t, t] += 1.0 / noise_precision
    factor = np.linalg.cholesky(system)
    solution = solve_lower_transposed(factor, solve_lower(factor, residual))
    return prior_draw + covariance * (design.T @ solution)
