"""Weights of a stack: the mixture of M predictive distributions that predicts n left-out outcomes
best.

density (n, M): of each outcome under each fit, divided by the largest of its row. shares (n,): what
each outcome counts for, summing to one.
"""

import numpy as np
from numpy.typing import NDArray

from dualview.errors import DegenerateError, InputError

Array = NDArray[np.float64]

TOLERANCE = 1e-8  # nats per outcome by which the best weights may be better
_REPLICATE_TOLERANCE = 1e-4
_NEGLIGIBLE = 1e-6  # a weight that is 0, if the others predict as well without it
_SHRINK = 0.1  # of the barrier, from one center to the next
_LEAST_BARRIER = 1e-14  # the gap is at most that many times the number of fits
_DECREASE = 0.25  # of what the slope promises, for a step to be taken
_MOST_STEPS = 500  # towards one center


def relative_densities(log_density: Array) -> Array:
    """Densities (n, M) from their logarithms, each row divided by its largest."""
    largest = log_density.max(axis=1, keepdims=True)
    impossible = np.flatnonzero(~np.isfinite(largest[:, 0]))
    if len(impossible):
        raise InputError(
            f"No fit gives outcome {impossible[0]} a finite log density, so there are no weights "
            f"for them ({len(impossible)} such outcomes)."
        )
    return np.asarray(np.exp(log_density - largest))


def stacking_weights(
    density: Array, shares: Array | None = None, tolerance: float = TOLERANCE
) -> Array:
    """Weights w (M,) on the simplex that maximize Σ_i shares_i ln Σ_m w_m density_im.

    The objective is concave. At its maximum over w ≥ 0, with Σ w subtracted, w sums to one; a
    barrier −μ Σ ln w keeps it positive while Newton steps find the maximum for smaller and smaller
    μ. ``duality_gap`` bounds what is left to gain, and ends the search. Fits that predict alike get
    the same weight.
    """
    n, n_fits = density.shape
    shares = np.full(n, 1.0 / n) if shares is None else shares
    weights, barrier = np.full(n_fits, 1.0 / n_fits), 1.0
    while duality_gap(density, shares, weights / weights.sum()) > tolerance:
        barrier *= _SHRINK
        if barrier < _LEAST_BARRIER:
            raise DegenerateError("The weights of a stack cannot be found to their precision.")
        weights = _center(density, shares, weights, barrier)
    weights = weights / weights.sum()
    kept = np.where(weights < _NEGLIGIBLE, 0.0, weights)
    kept /= kept.sum()
    return kept if duality_gap(density, shares, kept) <= tolerance else weights


def duality_gap(density: Array, shares: Array, weights: Array) -> float:
    """A bound on how much higher the objective is at its maximum: max_m g_m − 1 with its slopes
    g_m = Σ_i shares_i density_im / Σ_j w_j density_ij.

    The objective is concave, so no point of the simplex is above the tangent plane at w, whose
    slopes satisfy Σ w_m g_m = 1.
    """
    return float((density.T @ (shares / (density @ weights))).max() - 1.0)


def _center(density: Array, shares: Array, weights: Array, barrier: float) -> Array:
    """The weights, positive and not quite of sum one, that minimize −Σ_i shares_i ln Σ_m w_m
    density_im + Σ w − μ Σ ln w, up to a small part of μ."""

    def objective(w: Array) -> float:
        return float(w.sum() - shares @ np.log(density @ w) - barrier * np.log(w).sum())

    for _ in range(_MOST_STEPS):
        ratio = density * weights / (density @ weights)[:, None]
        slope = weights - shares @ ratio - barrier  # by ln w, as the curvature
        curvature = ratio.T @ (shares[:, None] * ratio) + barrier * np.eye(len(weights))
        step = -np.linalg.solve(curvature, slope)
        promise = float(-slope @ step)
        if promise < 1e-3 * barrier:
            return weights
        length = 1.0
        if promise > barrier / 16.0:  # closer, whole steps converge, and no digits are left to tell
            length = min(1.0, 0.9 / max(float(-step.min()), 1e-300))
            now = objective(weights)
            while objective(weights * (1.0 + length * step)) > now - _DECREASE * length * promise:
                length *= 0.5
                if length < 1e-12:
                    return weights
        weights = weights * (1.0 + length * step)
    return weights


def bootstrapped_weights(
    density: Array, design_effect: float, n_replicates: int, seed: int = 0
) -> Array:
    """Weights of replicates of the outcomes by a Bayesian bootstrap (Rubin 1981), (n_replicates,
    M).

    Shares of the outcomes are drawn from a Dirichlet distribution. design_effect: by what factor
    the variance of a sum of scores is larger than that of independent ones; parameters 1 /
    design_effect make that of the shares larger by the same factor.
    """
    rng, parameters = np.random.default_rng(seed), np.full(len(density), 1.0 / design_effect)
    shares = (rng.dirichlet(parameters) for _ in range(n_replicates))
    return np.array([stacking_weights(density, own, _REPLICATE_TOLERANCE) for own in shares])
