"""Distributions of an outcome given its location, as designs simulate them and score them.

Locations (n,), of categories (n, L). risk: what is expected of a person at a location, without
effects outside the profile and for an exposure, or a trial, of 1; (n, R).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, softmax

Array = NDArray[np.float64]
Rows = Mapping[str, Array]  # what belongs to people beside their outcomes, (n,) each

SHAPE, CENSORED_AT = 2.4, 50.0


class Bernoulli:
    """0 or 1."""

    def rows(self, rng: np.random.Generator, n: int) -> dict[str, Array]:  # noqa: ARG002
        return {}

    def draw(self, rng: np.random.Generator, eta: Array, rows: Rows) -> Array:  # noqa: ARG002
        return (rng.random(len(eta)) < expit(eta)).astype(float)

    def log_density(self, y: Array, eta: Array, rows: Rows) -> Array:  # noqa: ARG002
        return np.asarray(-np.logaddexp(0.0, np.where(y > 0, -eta, eta)))

    def risk(self, eta: Array) -> Array:
        return np.asarray(expit(eta))[..., None]


class Binomial(Bernoulli):
    """How many of 5 to 15 trials."""

    def rows(self, rng: np.random.Generator, n: int) -> dict[str, Array]:
        return {"trials": rng.integers(5, 16, n).astype(float)}

    def draw(self, rng: np.random.Generator, eta: Array, rows: Rows) -> Array:
        return rng.binomial(rows["trials"].astype(int), expit(eta)).astype(float)

    def log_density(self, y: Array, eta: Array, rows: Rows) -> Array:
        return np.asarray(stats.binom.logpmf(y, rows["trials"], expit(eta)))


class Poisson:
    """Counts, over exposures of 0.9 to 1.1."""

    def rows(self, rng: np.random.Generator, n: int) -> dict[str, Array]:
        return {"exposure": rng.uniform(0.9, 1.1, n)}

    def draw(self, rng: np.random.Generator, eta: Array, rows: Rows) -> Array:
        return rng.poisson(rows["exposure"] * np.exp(eta)).astype(float)

    def log_density(self, y: Array, eta: Array, rows: Rows) -> Array:
        return np.asarray(stats.poisson.logpmf(y, rows["exposure"] * np.exp(eta)))

    def risk(self, eta: Array) -> Array:
        return np.exp(eta)[..., None]


class Normal:
    """Numbers with a variance of 1 about their location."""

    def rows(self, rng: np.random.Generator, n: int) -> dict[str, Array]:  # noqa: ARG002
        return {}

    def draw(self, rng: np.random.Generator, eta: Array, rows: Rows) -> Array:  # noqa: ARG002
        return np.asarray(eta + rng.standard_normal(len(eta)))

    def log_density(self, y: Array, eta: Array, rows: Rows) -> Array:  # noqa: ARG002
        return np.asarray(stats.norm.logpdf(y, eta))

    def risk(self, eta: Array) -> Array:
        return np.asarray(eta)[..., None]


class Categorical:
    """One of several categories, whose log odds against the first are the locations."""

    def rows(self, rng: np.random.Generator, n: int) -> dict[str, Array]:  # noqa: ARG002
        return {}

    def draw(self, rng: np.random.Generator, eta: Array, rows: Rows) -> Array:  # noqa: ARG002
        ends = np.cumsum(softmax(eta, axis=1), axis=1)
        return (rng.random((len(eta), 1)) > ends[:, :-1]).sum(axis=1).astype(float)

    def log_density(self, y: Array, eta: Array, rows: Rows) -> Array:  # noqa: ARG002
        own = np.take_along_axis(eta, y.astype(int)[:, None], axis=1)[:, 0]
        return np.asarray(own - np.logaddexp.reduce(eta, axis=1))

    def risk(self, eta: Array) -> Array:
        return np.asarray(softmax(eta, axis=-1))


class Survival:
    """Weibull times of one shape, the cumulative hazard at t is exp(location) t^shape; censored
    late. The risk is the chance of an event by the time 10."""

    time = 10.0

    def rows(self, rng: np.random.Generator, n: int) -> dict[str, Array]:  # noqa: ARG002
        return {"event": np.ones(n)}

    def draw(self, rng: np.random.Generator, eta: Array, rows: Rows) -> Array:
        times = (rng.exponential(size=len(eta)) * np.exp(-eta)) ** (1.0 / SHAPE)
        np.less(times, CENSORED_AT, out=rows["event"], casting="unsafe")
        return np.asarray(np.minimum(times, CENSORED_AT))

    def log_density(self, y: Array, eta: Array, rows: Rows) -> Array:
        hazard = np.log(SHAPE) + eta + (SHAPE - 1.0) * np.log(y)
        return np.asarray(rows["event"] * hazard - np.exp(eta) * y**SHAPE)

    def risk(self, eta: Array) -> Array:
        return -np.expm1(-np.exp(eta) * self.time**SHAPE)[..., None]


OUTCOMES: dict[str, Any] = {
    "Bernoulli": Bernoulli(),
    "binomial": Binomial(),
    "Poisson": Poisson(),
    "normal": Normal(),
    "categorical": Categorical(),
    "survival": Survival(),
}
