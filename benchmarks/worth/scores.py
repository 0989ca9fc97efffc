"""Predictive distributions of outcomes, the same for every method, and their scores by user."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from benchmarks.worth.sets import Array, Places

COVERAGE = 0.8


class Forecast(NamedTuple):
    """Of each outcome, (n,): the predicted mean, the log density of the truth, and the probability
    of less than the truth.

    A yes-or-no outcome has its probability of yes as mean, and no probability of less: NaN.
    """

    mean: Array
    log_density: Array
    level: Array


def normal(truth: Array, mean: Array, variance: Array | float) -> Forecast:
    """Normal predictive distributions."""
    standard = (truth - mean) / np.sqrt(variance)
    return Forecast(mean, -0.5 * standard**2 - 0.5 * np.log(2.0 * np.pi * variance), ndtr(standard))


def yes_or_no(truth: Array, probability: Array) -> Forecast:
    """Probabilities of yes."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.where(truth == 1.0, probability, 1.0 - probability))
    return Forecast(probability, logs, np.full(len(truth), np.nan))


class UserScores(NamedTuple):
    """Means over the outcomes of each user, (U,), NaN where none was asked: negative log density,
    squared error, coverage."""

    nll: Array
    square: Array
    covered: Array


def by_user(user: Places, n_users: int, truth: Array, forecast: Forecast) -> UserScores:
    """Scores of the outcomes of each user, averaged."""
    counts = np.bincount(user, minlength=n_users).astype(float)
    counts[counts == 0.0] = np.nan
    inside = np.where(
        np.isnan(forecast.level), np.nan, np.abs(forecast.level - 0.5) < 0.5 * COVERAGE
    )
    parts = (-forecast.log_density, (truth - forecast.mean) ** 2, inside)
    return UserScores(*(np.bincount(user, part, n_users) / counts for part in parts))


def over_folds(scores: list[UserScores]) -> UserScores:
    """Means over the folds in which a user was asked, of the users who ever were."""
    return UserScores(*(mean_when_asked(np.array(part)) for part in zip(*scores, strict=True)))


def mean_when_asked(values: Array) -> Array:
    """Means of values (folds, U) over the folds in which a user was asked (others are NaN), of the
    users who ever were."""
    asked: NDArray[np.bool_] = ~np.isnan(values)
    ever = asked.any(axis=0)
    return np.asarray(np.where(asked, values, 0.0).sum(axis=0)[ever] / asked.sum(axis=0)[ever])


class Gap(NamedTuple):
    """A mean difference over users, and its standard error."""

    mean: float
    error: float

    @classmethod
    def between(cls, one: Array, other: Array) -> "Gap":
        """one − other, user by user."""
        away = one - other
        return cls(float(away.mean()), float(away.std(ddof=1) / np.sqrt(len(away))))

    @property
    def is_clear(self) -> bool:
        """Whether it is more than two standard errors from 0."""
        return abs(self.mean) > 2.0 * self.error
