"""The logit family: yes or no, with log odds η.

By Pólya–Gamma augmentation (Polson, Scott and Windle 2013): given ω_i ~ PG(1, η_i), y_i counts as a
normal observation (y_i − ½)/ω_i of the log odds with precision ω_i. The ω are drawn before each
sweep and forgotten after it. Without them, between two sweeps, clusters' means move with their
users' vectors (``likelihoods.logit_location``).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, ndtr

from dualview.behaviors.families.base import (
    Array,
    Family,
    FamilyFactor,
    Mixture,
    Moments,
    Outcome,
    Params,
    Parts,
    RowAnswers,
    Rows,
)
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.checks import draws_generator
from dualview.errors import InputError
from dualview.numerics import polya_gamma
from dualview.numerics.hyperprior import FINITE_VARIANCES
from dualview.numerics.logistic import MOST_SD, expected_shares
from dualview.numerics.streams import stream_of


class BinaryOutcome(Outcome):
    """Yes or no, 1 or 0; locations are log odds."""

    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """ln p(values | log odds), (S, cases)."""
        return np.asarray(log_expit((2.0 * values - 1.0) * locations))

    def augment(
        self, rng: np.random.Generator, values: Array, locations: Array
    ) -> tuple[Array, Array]:
        """By Pólya–Gamma variables ω: (y − ½)/ω with precision ω."""
        precision = np.empty(len(locations))
        polya_gamma.draw_into(stream_of(rng), locations, precision)
        return (values - 0.5) / precision - locations, precision

    def draw(self, rng: np.random.Generator, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """1 with the probability that the log odds say, else 0, (S, cases)."""
        return np.asarray(rng.random(locations.shape) < expit(locations), dtype=float)

    def predictive(
        self, n: int, n_components: int, parts: Callable[[slice], Parts]
    ) -> "ChoiceMixture":
        """Probabilities of 1."""
        return ChoiceMixture(n, n_components, parts)


class ChoiceMixture(Mixture):
    """The probability of 1 in each of n yes-or-no cases: Σ_s w_s E σ(N(location_s, sd_s²)),
    locations being log odds."""

    has_gaps = True

    def _chance(self, sign: Array) -> Array:
        """Probability of 1 in each case where sign (n,) is 1, of 0 where it is −1."""
        result = np.empty(self._n)
        for cases, (log_weights, locations, sds) in self._batches():
            chances = expected_probability(sign[cases] * locations, sds)[0]
            result[cases] = (np.exp(log_weights) * chances).sum(axis=0)
        return result

    @cached_property
    def mean(self) -> Array:
        """Probability of 1 in each case."""
        return np.minimum(self._chance(np.ones(self._n)), 1.0)  # weights sum to one up to rounding

    @cached_property
    def median(self) -> Array:
        """Median of the probability of 1 in each case, over what the posterior leaves open."""
        odds = NormalMixture(self._n, self._n_components, self._spread_parts)
        return np.asarray(expit(odds.median))

    @property
    def std(self) -> Array:
        """Standard deviation of the outcome of each case."""
        return np.asarray(np.sqrt(self.mean * (1.0 - self.mean)))

    def interval(self, probability: float = 0.95) -> Array:
        """Central interval of the probability of 1 in each case, over what the posterior leaves
        open, (n, 2)."""
        odds = NormalMixture(self._n, self._n_components, self._spread_parts)
        return np.asarray(expit(odds.interval(probability)))

    def _spread_parts(self, cases: slice) -> Parts:
        """Log odds with a little spread where a draw leaves none, so that they have a distribution
        function to invert."""
        log_weights, locations, sds = self._parts(cases)
        return Parts(log_weights, locations, np.maximum(sds, 1e-6 * (1.0 + np.abs(locations))))

    def log_density(self, y: ArrayLike) -> Array:
        """Log probability of the outcomes y (n,), 0 or 1."""
        return np.asarray(np.log(self._chance(2.0 * self._answers(y) - 1.0)))

    def _answers(self, y: ArrayLike) -> Array:
        values = self._values(y)
        if not np.isin(values, (0.0, 1.0)).all():
            raise InputError("y must hold 0 and 1 only.")
        return values

    def _tails(self, y: ArrayLike) -> tuple[Array, Array]:
        values = self._answers(y)
        other = self._chance(1.0 - 2.0 * values)
        return values * other, (1.0 - values) * other

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent outcomes of each case, (n, cases)."""
        return np.asarray(
            draws_generator(n, seed, self._n).random((n, self._n)) < self.mean, dtype=float
        )


_STEP = 0.5
_GRID = np.arange(-40.0, 40.0 + _STEP, _STEP)


def expected_probability(locations: Array, sds: Array) -> tuple[Array, Array]:
    """E σ(x) and E σ(−x) of x ~ N(location, sd²): quadrature over the normal where it is narrow,
    else over the logistic.

    The second is P(L < X) = E Φ((location − L)/sd) for a logistic L, by the trapezoidal rule. Both
    are right to rounding.
    """
    if not np.any(sds):
        return np.asarray(expit(locations)), np.asarray(expit(-locations))
    locations, sds = np.broadcast_arrays(locations, sds)
    narrow = sds < MOST_SD
    yes, no = np.zeros((2, *locations.shape))
    yes[narrow], no[narrow] = expected_shares(locations[narrow], sds[narrow])
    for point in _GRID if not narrow.all() else ():
        weight = _STEP * expit(point) * expit(-point)
        away = (locations[~narrow] - point) / sds[~narrow]
        yes[~narrow] += weight * ndtr(away)
        no[~narrow] += weight * ndtr((-locations[~narrow] - point) / sds[~narrow])
    return yes, no


@dataclass(frozen=True)
class LogitFamily(Family):
    """Yes or no, y being 1 or 0; there are no parameters."""

    # answers all alike leave latent vectors the tails of their prior
    hyperprior = FINITE_VARIANCES
    n_answers = 1

    def outcome(self, phi: Params, rows: Rows) -> Outcome:  # noqa: ARG002
        return BinaryOutcome()

    def pull(self, y: Any, eta: Array) -> tuple[Array, float]:  # noqa: ARG002
        """At even odds."""
        return y - 0.5, 0.25

    def answers(self, rows: Rows, phi: Params) -> RowAnswers:  # noqa: ARG002
        return RowAnswers(2.0 * rows.y - 1.0, rows.eta)

    def expect(self, y: Any) -> "TiltFactor":
        return TiltFactor(np.zeros(len(y)))


_SMALL = 1e-4  # log odds below which w is that of a series
_LARGEST = 50.0  # ln ξ that an extrapolation goes to


@dataclass(frozen=True)
class TiltFactor(FamilyFactor):
    """Π_i q(ω_i), by the bound of Jaakkola and Jordan (2000).

    tilts (n,): ξ of every row. Given ω_i the row is normal in η_i. The best q(ω_i) is PG(1, ξ_i),
    and with it

        E ln p(y_i | η_i) ≥ (y_i − ½) E η_i − w(ξ_i) (E η_i² − ξ_i²)/2 − ξ_i/2 + ln σ(ξ_i),
        w(ξ) = E ω = tanh(ξ/2)/(2ξ),

    which is highest at ξ_i² = E η_i². So ω stands in a factor of its own, and the bound of all data
    rises with every update.
    """

    tilts: Array

    @staticmethod
    def _told(y: Any) -> tuple[Array, Any]:
        """Slopes at even odds, and by what weights are multiplied: the answers in a row."""
        return y - 0.5, 1.0

    def _weights(self, y: Any) -> Array:
        return np.asarray(self._told(y)[1] * expected_weights(self.tilts))

    def messages(self, y: Any) -> tuple[Array | float, Array]:
        weights = self._weights(y)
        return weights, self._told(y)[0] / weights

    @staticmethod
    def _squares(moments: Moments) -> Array:
        """E η_i²."""
        return np.asarray(moments.mean**2 + moments.variance)

    def updated(self, y: Any, moments: Moments) -> Self:  # noqa: ARG002
        return replace(self, tilts=np.sqrt(self._squares(moments)))

    def bound(self, y: Any, moments: Moments) -> float:
        slopes, n_answers = self._told(y)
        own = slopes * moments.mean + n_answers * (log_expit(self.tilts) - 0.5 * self.tilts)
        away = self._squares(moments) - self.tilts**2
        return float((own - 0.5 * self._weights(y) * away).sum())

    def numbers(self) -> Array:
        """ln ξ."""
        return np.log(np.maximum(self.tilts, _SMALL))

    def with_numbers(self, numbers: Array) -> Self:
        return replace(self, tilts=np.exp(np.minimum(numbers, _LARGEST)))


def expected_weights(tilts: Array) -> Array:
    """E ω of PG(1, ξ): tanh(ξ/2)/(2ξ), 1/4 at 0."""
    safe = np.maximum(tilts, _SMALL)
    return np.asarray(
        np.where(tilts < _SMALL, 0.25 - tilts**2 / 48.0, np.tanh(0.5 * safe) / (2.0 * safe))
    )
