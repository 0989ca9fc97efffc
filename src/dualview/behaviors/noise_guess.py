"""A first guess of the noise of regressions of single users, for its prior."""

import numpy as np

from dualview.behaviors.panel import Panel
from dualview.behaviors.records import Array

_LEAST_LEFT = 0.05  # of the observations, as degrees of freedom after the users' own estimates
_LEAST_SHARE = 1e-10  # of the outcome's variance; less is rounding


def residual_variance(panel: Panel, estimates: Array, penalty: float) -> float:
    """The variance around the users' own ridge estimates (U, q); with little left of it, half of
    that around a common one."""
    residual = panel.outcome - panel.expected(estimates)
    ridge = penalty * np.eye(estimates.shape[1])
    spent = np.trace(np.linalg.solve(panel.squares + ridge, panel.squares), axis1=1, axis2=2)
    left, variance = len(residual) - float(spent.sum()), float(np.var(panel.outcome, ddof=1))
    enough = left >= max(2.0, _LEAST_LEFT * len(residual))
    guess = float(residual @ residual) / left if enough else 0.5 * common_variance(panel)
    return guess if guess > _LEAST_SHARE * variance else variance


def common_variance(panel: Panel) -> float:
    """The variance around one regression for everybody, or the outcome's where that leaves no
    degrees of freedom."""
    coefficients, _, rank, _ = np.linalg.lstsq(panel.design, panel.outcome)
    residual, left = panel.outcome - panel.design @ coefficients, len(panel.outcome) - int(rank)
    return float(residual @ residual) / left if left >= 1 else float(np.var(panel.outcome, ddof=1))


def worth(panel: Panel, low: Array, high: Array) -> float:
    """How many observations the prior of the noise is worth, ν, for outcomes in the intervals from
    low to high (n,).

    Each user's own vector can fit up to q of its observations exactly; they say nothing about the
    noise. Where outcomes repeat, clusters can fit them exactly too, and the likelihood grows
    without bound as the noise vanishes. So the surplus of such observations over all others counts
    in ν, times the share of outcomes that repeat. Where all do, this keeps the noise variance near
    σ_0²/2 or above however well clusters fit. Intervals do not count: their likelihood is bounded.
    """
    n_exact = int(np.minimum(panel.counts, panel.design.shape[1]).sum())
    _, place, counts = np.unique(low, return_inverse=True, return_counts=True)
    repeated = float(((counts[place] > 1) & (low == high)).mean()) if len(place) else 0.0
    return 1.0 + repeated * max(0, 2 * n_exact - len(place))
