"""Predictive distributions of cells, the same for every method, and their scores.

A number's distribution is a mixture of C normal ones on the scale of its column, that of a level
its probabilities.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from dualview.columns import Column
from dualview.distributions import log_normal_mass

Array = NDArray[np.float64]

LEVELS = ("ordinal", "nominal")
COVERAGES = (0.5, 0.8, 0.95)
_N_BINS = 10


class Normals(NamedTuple):
    """Mixtures for n cells: means, standard deviations and weights, each (n, C) or (1, C)."""

    means: Array
    sds: Array
    weights: Array

    def log_mass(self, low: Array, high: Array) -> Array:
        """ln of the probability between two bounds (n,), (n,)."""
        bounds = [(end[:, None] - self.means) / self.sds for end in (low, high)]
        return np.asarray(
            logsumexp(
                log_normal_mass(*bounds, (high - low)[:, None] / self.sds), b=self.weights, axis=1
            )
        )

    def log_density(self, x: Array) -> Array:
        """ln of the density at x (n,)."""
        away = (x[:, None] - self.means) / self.sds
        return np.asarray(
            logsumexp(
                -0.5 * away**2 - np.log(self.sds) - 0.5 * np.log(2.0 * np.pi),
                b=self.weights,
                axis=1,
            )
        )

    def cdf(self, x: Array) -> Array:
        """Probability of less than x (n,)."""
        return np.asarray((self.weights * ndtr((x[:, None] - self.means) / self.sds)).sum(axis=1))

    def shares(self, cuts: Array) -> Array:
        """Probabilities (n, L) of the levels between cuts (L − 1,)."""
        bounds = np.array([-np.inf, *cuts, np.inf])
        n = len(self.means)
        ends = [(np.full(n, low), np.full(n, high)) for low, high in pairwise(bounds)]
        return np.exp(np.column_stack([self.log_mass(*end) for end in ends]))


Prediction = Normals | Array  # numbers; or probabilities (n, L) of levels


class Scored(NamedTuple):
    """Cells of one column: log scores (n,); of numbers how much of each central interval's share
    covers the cell, (n, 3); of levels the probability (n,) of the most probable one, and whether it
    is the true one, (n,)."""

    logs: Array
    covered: Array
    confidence: Array
    right: Array


def scored(column: Column, truth: Array, prediction: Prediction, spread: float) -> Scored:
    """Scores of the cells of a column, truth (n,), of levels their numbers; spread: the unit of
    continuous numbers."""
    if not isinstance(prediction, Normals):
        codes, places = truth.astype(int), np.arange(len(truth))
        best = prediction.argmax(axis=1)
        with np.errstate(divide="ignore"):
            logs = np.log(prediction[places, codes])
        return Scored(
            logs,
            np.empty((0, len(COVERAGES))),
            prediction[places, best],
            (best == codes).astype(float),
        )
    low, high = column.intervals(truth)
    is_exact = column.kind == "continuous"
    logs = (
        prediction.log_density(low) + np.log(spread) if is_exact else prediction.log_mass(low, high)
    )
    return Scored(
        logs, covered(prediction.cdf(low), prediction.cdf(high)), np.empty(0), np.empty(0)
    )


def covered(below: Array, above: Array) -> Array:
    """How much of each cell lies in the central intervals, (n, 3).

    A cell that is an interval has the probabilities from below to above; the share of these between
    the interval's two is how often a number drawn inside the cell is covered. For a calibrated
    prediction its mean is the interval's probability.
    """
    parts = []
    for probability in COVERAGES:
        first, last = 0.5 - 0.5 * probability, 0.5 + 0.5 * probability
        inside = np.clip(np.minimum(above, last) - np.maximum(below, first), 0.0, None)
        wide = above > below
        point = (below >= first) & (below <= last)
        parts.append(np.where(wide, inside / np.where(wide, above - below, 1.0), point))
    return np.column_stack(parts)


def calibration_error(confidence: Array, right: Array) -> float:
    """Mean distance between probability and frequency of the most probable level, over ten bins of
    the probability."""
    bins = np.minimum((confidence * _N_BINS).astype(int), _N_BINS - 1)
    gaps = np.bincount(bins, confidence - right, minlength=_N_BINS)
    return float(np.abs(gaps).sum() / len(confidence))
