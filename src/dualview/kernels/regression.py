"""Draws of many regression coefficients with independent priors, one number each."""

import numpy as np

from dualview.kernels.compiling import compiled
from dualview.kernels.linalg import loses_digits, solve_lower, solve_lower_transposed


@compiled
def draw_by_coefficients(gram, weighted_outcome, noise_precision, prior_mean, prior_precision, noise):
    """(C7) by a factorisation of size coefficients: Λ = diag(prior_precision) + noise_precision · gram.

    weighted_outcome is designᵀ outcome, noise a standard normal vector. NaN when the factorisation loses digits.
    """
    n = prior_mean.shape[0]
    precision = noise_precision * gram
    for i in range(n):
        precision[i, i] += prior_precision[i]
    factor = np.linalg.cholesky(precision)
    if loses_digits(factor, precision):
        return np.full(n, np.nan)
    linear = prior_precision * prior_mean + noise_precision * weighted_outcome
    return solve_lower_transposed(factor, solve_lower(factor, linear) + noise)


@compiled
def draw_by_observations(design, outcome, noise_precision, prior_mean, prior_precision, noise, outcome_noise):
    """(C7) by a factorisation of size observations: a prior draw, corrected by the residual it leaves.

    NaN when the factorisation loses digits.
    """
    n_observations = design.shape[0]
    covariance = 1.0 / prior_precision
    prior_draw = prior_mean + np.sqrt(covariance) * noise
    residual = outcome - design @ prior_draw - outcome_noise / np.sqrt(noise_precision)
    system = (design * covariance) @ design.T
    for t in range(n_observations):
        system[t, t] += 1.0 / noise_precision
    factor = np.linalg.cholesky(system)
    if loses_digits(factor, system):
        return np.full(prior_mean.shape[0], np.nan)
    solution = solve_lower_transposed(factor, solve_lower(factor, residual))
    return prior_draw + covariance * (design.T @ solution)


@compiled
def draw_by_rotations(design, outcome, noise_precision, prior_mean, prior_precision, noise):
    """(C7) by a QR factorisation of the design stacked on the prior: slower, and keeps digits where the others lose them."""
    n_observations, n = design.shape
    stacked = np.zeros((n_observations + n, n))
    target = np.empty(n_observations + n)
    stacked[n:] = np.sqrt(noise_precision) * design
    target[n:] = np.sqrt(noise_precision) * outcome
    for i in range(n):
        stacked[i, i] = np.sqrt(prior_precision[i])
        target[i] = stacked[i, i] * prior_mean[i]
    basis, factor = np.linalg.qr(stacked)
    return solve_lower_transposed(np.ascontiguousarray(factor.T), np.ascontiguousarray(basis.T) @ target + noise)
