"""Families of times until something happens: log-normal, Weibull and log-logistic.

The logarithm of a time is its location plus an error over the shape k, ln t = η + Z/k: so a
location is the logarithm of a typical time, and what acts on it makes all times longer by one
factor (accelerated failure times). With z = k (ln t − η),

    Weibull:       P(T > t) = exp(−e^z)
    log-logistic:  P(T > t) = σ(−z)
    log-normal:    P(T > t) = Φ(−z)

What is recorded of a time is an interval that holds it: from the time when it was last known not to
have happened, on, for right-censored ones. The precision of ln t is s = k²/Var Z, the noise
precision of all three. Log-normal times are normal numbers known to intervals (``interval``). The
log-logistic distribution has an augmentation: with l and h the ends, its likelihood is that of two
answers by yes or no, "above l" and "below h", with log odds k(η − l) and k(h − η). The Weibull
distribution has none, so that its latent vectors move by Metropolis steps.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, gammaln, log_expit, logit

from dualview.behaviors.families.base import Array, Family, Mixture, Outcome, Params, Parts, Rows
from dualview.behaviors.families.expected import ExpectedFactor, Parameter
from dualview.behaviors.families.interval import (
    Ends,
    IntervalFamily,
    IntervalMixture,
    IntervalOutcome,
)
from dualview.behaviors.families.ordinal import log_gap
from dualview.behaviors.families.quadrature import Bend, QuadratureMixture, QuadratureOutcome
from dualview.behaviors.recorded import RecordedTimes
from dualview.checks import numbers
from dualview.errors import InputError
from dualview.numerics import polya_gamma
from dualview.numerics.streams import stream_of

_HIGHEST = 700.0  # of logarithms that are numbers


class Errors(ABC):
    """The distribution of Z, standardized in its own way; z broadcast. Second derivatives have the
    sign changed."""

    sd: ClassVar[float]
    highest_bend: ClassVar[float] = 0.0  # of log_density, where it is not towards an end
    has_augmentation: ClassVar[bool] = False

    @abstractmethod
    def log_density(self, z: Array) -> Array:
        """Of exact z."""

    @abstractmethod
    def derivatives(self, z: Array) -> tuple[Array, Array]:
        """Of :meth:`log_density`."""

    @abstractmethod
    def log_mass(self, low: Array, high: Array) -> Array:
        """ln P(low < Z < high)."""

    @abstractmethod
    def mass_derivatives(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Of :meth:`log_mass` by a shift of both ends."""

    @abstractmethod
    def below(self, z: Array) -> Array:
        """P(Z < z)."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Draws of Z."""

    @abstractmethod
    def moment(self, power: Array) -> Array:
        """E e^{power Z}; infinite where it does not exist."""


class WeibullErrors(Errors):
    """Z = ln E of an exponential variable E."""

    sd = math.pi / math.sqrt(6.0)

    def log_density(self, z: Array) -> Array:
        with np.errstate(over="ignore"):  # far above there is no density
            return np.asarray(z - np.exp(z))

    def derivatives(self, z: Array) -> tuple[Array, Array]:
        hazard = np.exp(np.minimum(z, _HIGHEST))
        return 1.0 - hazard, hazard

    def log_mass(self, low: Array, high: Array) -> Array:
        """With a = e^low and d = e^high − a, −a + ln(1 − e^{−d})."""
        with np.errstate(over="ignore", divide="ignore"):
            start, log_rest = np.exp(low), _log_difference(low, high)
            rest = np.log(-np.expm1(-np.exp(log_rest)))
        return np.asarray(np.where(log_rest < -30.0, log_rest, rest) - start)

    def mass_derivatives(self, low: Array, high: Array) -> tuple[Array, Array]:
        start = np.exp(np.minimum(low, _HIGHEST))
        rest = np.exp(np.minimum(_log_difference(low, high), _HIGHEST))
        small, large = rest < 1e-8, rest > _HIGHEST
        kept = np.where(small | large, 1.0, rest)
        hazard = kept / np.expm1(kept)
        bend = hazard * (kept / -np.expm1(-kept) - 1.0)
        hazard = np.where(small, 1.0, np.where(large, 0.0, hazard))
        return hazard - start, start + np.where(small, 0.5 * rest, np.where(large, 0.0, bend))

    def below(self, z: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(-np.expm1(-np.exp(z)))

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.log(rng.standard_exponential(shape))

    def moment(self, power: Array) -> Array:
        return np.asarray(np.exp(np.minimum(gammaln(1.0 + power), _HIGHEST)))


class LogisticErrors(Errors):
    """Z has the logistic distribution."""

    sd = math.pi / math.sqrt(3.0)
    highest_bend = 0.5
    has_augmentation = True

    def log_density(self, z: Array) -> Array:
        return np.asarray(log_expit(z) + log_expit(-z))

    def derivatives(self, z: Array) -> tuple[Array, Array]:
        level = expit(z)
        return 1.0 - 2.0 * level, 2.0 * level * expit(-z)

    def log_mass(self, low: Array, high: Array) -> Array:
        """σ(h) − σ(l) = σ(h) σ(−l) (1 − e^{−(h − l)})."""
        return np.asarray(log_expit(high) + log_expit(-low) + log_gap(high - low))

    def mass_derivatives(self, low: Array, high: Array) -> tuple[Array, Array]:
        bend = expit(high) * expit(-high) + expit(low) * expit(-low)
        return expit(-high) - expit(low), bend

    def below(self, z: Array) -> Array:
        return np.asarray(expit(z))

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.asarray(logit(rng.random(shape)))

    def moment(self, power: Array) -> Array:
        angle = math.pi * np.minimum(power, 0.5)  # half of it, to be replaced from 1 on
        angle = np.where(power < 1.0, math.pi * power, angle)
        return np.asarray(np.where(power < 1.0, angle / np.sin(angle), np.inf))


_WEIBULL = WeibullErrors()


def _log_difference(low: Array, high: Array) -> Array:
    """ln(e^high − e^low)."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return np.where(np.isneginf(low), high, high + np.log(-np.expm1(low - high)))


class TimeOutcome(QuadratureOutcome):
    """Times with shapes (S,) about their locations, of which intervals are recorded.

    record: None where observations are :class:`Ends` of logarithms of times, as in a sweep; then
    densities are those of logarithms.
    """

    has_gaps = True

    def __init__(self, shapes: Array, errors: Errors, record: RecordedTimes | None) -> None:
        self.shapes, self.errors, self.record = np.asarray(shapes, dtype=float), errors, record

    def _log_ends(self, values: Any) -> tuple[Array, Array]:
        if self.record is None:
            return values.low, values.high
        return self.record.intervals(np.asarray(values))

    def _shape(self, locations: Array) -> Any:
        return self.shapes[:, None] if locations.ndim == 2 else self.shapes[0]

    def log_density(self, values: Any, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """Log probabilities of intervals, log densities of exact times, (S, cases)."""
        low, high = self._log_ends(values)
        shape, exact = self._shape(locations), low == high
        found = np.empty(np.broadcast_shapes(locations.shape, low.shape))
        z = shape * (low - locations)
        wide, own = ~exact, self.errors
        found[:, exact] = np.log(shape) + own.log_density(z[:, exact])
        if self.record is not None:
            found[:, exact] -= low[exact]
        ends = z[:, wide], shape * (high[wide] - locations[:, wide])
        found[:, wide] = own.log_mass(*ends)
        return found

    def derivatives(self, values: Any, locations: Array) -> tuple[Array, Array]:
        low, high = self._log_ends(values)
        shape, exact = self._shape(locations), low == high
        z = shape * (np.where(exact, low, 0.0) - locations)
        of_exact = self.errors.derivatives(z)
        ends = (
            shape * (np.where(exact, own, end) - locations)
            for own, end in ((0.0, low), (1.0, high))
        )
        of_mass = self.errors.mass_derivatives(*ends)
        slope, bend = (np.where(exact, *pair) for pair in zip(of_exact, of_mass, strict=True))
        return -shape * slope, shape**2 * bend

    def of_draws(self, draws: NDArray[np.intp]) -> "TimeOutcome":
        return TimeOutcome(self.shapes[draws], self.errors, self.record)

    def joined(self, others: Sequence[QuadratureOutcome]) -> "TimeOutcome":
        shapes = [own.shapes for own in (self, *others) if isinstance(own, TimeOutcome)]
        if any(type(getattr(own, "errors", None)) is not type(self.errors) for own in others):
            raise InputError("Predictions of times of different families cannot be mixed.")
        return TimeOutcome(np.concatenate(shapes), self.errors, self.record)

    def numbers(self, rng: np.random.Generator, locations: Array) -> Array:
        """Logarithms of times, one for each location."""
        return np.asarray(
            locations + self.errors.draw(rng, locations.shape) / self._shape(locations)
        )

    def draw(self, rng: np.random.Generator, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """Times, (S, cases)."""
        return _times(self.numbers(rng, locations))

    def draw_again(self, rng: np.random.Generator, values: Array, locations: Array) -> Array:
        assert self.record is not None
        return self.record.recorded_again(self.numbers(rng, locations[None])[0], values)

    def augment(
        self, rng: np.random.Generator, values: Any, locations: Array
    ) -> tuple[Array, Array]:
        """Two answers each, with Pólya–Gamma variables; none of an end that is open."""
        if not self.errors.has_augmentation:
            return super().augment(rng, values, locations)
        shape, ends = float(self.shapes[0]), np.column_stack(self._log_ends(values))
        signs = np.where(np.isfinite(ends), [1.0, -1.0], 0.0)
        odds = shape * (locations[:, None] - np.where(signs == 0.0, 0.0, ends))
        weights = np.empty(odds.size)
        polya_gamma.draw_into(stream_of(rng), odds.ravel(), weights)
        weights = np.where(signs == 0.0, 0.0, weights.reshape(odds.shape))
        linear = (0.5 * signs - weights * odds).sum(axis=1)
        precision = weights.sum(axis=1)
        return linear / (shape * precision), shape**2 * precision

    def moments(self, locations: Array) -> tuple[Array, Array]:
        mean, square = self.mixed_moments(locations, np.zeros(1))
        return mean, square - mean**2

    def mixed_moments(self, locations: Array, sds: Array) -> tuple[Array, Array]:
        power = 1.0 / self._shape(locations)
        with np.errstate(over="ignore"):
            mean = np.exp(locations + 0.5 * sds**2) * self.errors.moment(power)
            return mean, np.exp(2.0 * (locations + sds**2)) * self.errors.moment(2.0 * power)

    def below(self, values: Array, locations: Array) -> Array:
        return self.errors.below(self._z(values, locations))

    def _z(self, values: Array, locations: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(self._shape(locations) * (np.log(values) - locations))

    def fall(self, values: Array, locations: Array) -> Bend:
        """k times the density of Z."""
        z, shape = self._z(values, locations), self._shape(locations)
        slope, bend = self.errors.derivatives(z)
        value = np.log(shape) + self.errors.log_density(z)
        return Bend(np.asarray(value), -shape * slope, shape**2 * bend)

    def highest_bend(self, locations: Array) -> Array:
        return np.asarray(self.errors.highest_bend * self._shape(locations) ** 2)

    def checked(self, y: Any, n: int) -> Array:
        assert self.record is not None
        return self.record.checked(y, n)

    def ends(self, values: Array) -> tuple[Array, Array]:
        return (values, values) if values.ndim == 1 else (values[:, 0], values[:, 1])

    def predictive(
        self, n: int, n_components: int, parts: Callable[[slice], Parts]
    ) -> "TimeMixture":
        return TimeMixture(n, n_components, parts, self)


def _times(logarithms: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.exp(logarithms)


def checked_times(t: ArrayLike) -> Array:
    """Times from 0 at which a survival curve is asked for, a number or (T,)."""
    given = np.asarray(t)
    values = numbers(given.reshape(-1), "t", n_dims=1)
    if given.ndim > 1 or (values < 0.0).any():
        raise InputError(f"t must be a time from 0, or several (T,); got {t!r:.60}.")
    return values.reshape(given.shape)


class TimeMixture(QuadratureMixture):
    """Σ_s w_s E p(t | N(location_s, sd_s²)) of times in each of n cases."""

    def survival(self, t: ArrayLike) -> Array:
        """Probability of a time beyond t, (n,); beyond each of several, (n, T)."""
        times = checked_times(t)
        columns = [self._sides(np.full(self._n, value))[1] for value in times.ravel()]
        return columns[0] if times.ndim == 0 else np.column_stack(columns)


class LogNormalOutcome(IntervalOutcome):
    """Times whose logarithms are normal about their locations."""

    record: RecordedTimes

    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:
        """Log probabilities of intervals, log densities of exact times, (S, cases)."""
        return super().log_density(values, locations, cases) - self.record.log_stretch(values)

    def draw(self, rng: np.random.Generator, locations: Array, cases: slice) -> Array:
        return _times(super().draw(rng, locations, cases))

    def draw_again(self, rng: np.random.Generator, values: Array, locations: Array) -> Array:
        logarithms = super().draw(rng, locations[None], slice(0, len(locations)))[0]
        return self.record.recorded_again(logarithms, values)

    def predictive(self, n: int, n_components: int, parts: Callable[[slice], Parts]) -> Mixture:
        return LogNormalMixture(n, n_components, parts, self.record)


class LogNormalMixture(Mixture):
    """Σ_s w_s of log-normal distributions of times in each of n cases."""

    has_gaps = True

    def __init__(
        self, n: int, n_components: int, parts: Callable[[slice], Parts], record: RecordedTimes
    ) -> None:
        super().__init__(n, n_components, parts)
        self._record = record
        self._logarithms = IntervalMixture(n, n_components, parts, record)

    def _besides(self, sources: Sequence[Mixture]) -> tuple[Any, ...]:  # noqa: ARG002
        return (self._record,)

    def _moment(self, power: float) -> Array:
        result = np.empty(self._n)
        for cases, (log_weights, locations, sds) in self._batches():
            with np.errstate(over="ignore"):
                own = np.exp(log_weights + power * locations + 0.5 * (power * sds) ** 2)
            result[cases] = own.sum(axis=0)
        return result

    @property
    def mean(self) -> Array:
        """Expected value of each case; infinite where it is beyond the range of numbers."""
        return self._moment(1.0)

    @property
    def std(self) -> Array:
        """Standard deviation of each case; infinite where it is beyond the range of numbers."""
        first, second = self._moment(1.0), self._moment(2.0)
        with np.errstate(over="ignore", invalid="ignore"):
            variance = second - first**2
        known = np.isfinite(second) & np.isfinite(variance)
        return np.where(known, np.sqrt(np.maximum(variance, 0.0)), np.inf)

    def quantile(self, probability: float) -> Array:
        """Quantile of each case."""
        return _times(self._logarithms.quantile(probability))

    def interval(self, probability: float = 0.95) -> Array:
        """Central interval of each case, (n, 2)."""
        return _times(self._logarithms.interval(probability))

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent draws of each case, (n, cases)."""
        return _times(self._logarithms.draws(n, seed=seed))

    def log_density(self, y: Any) -> Array:
        """Log density of times (n,), log probability of ``Censored`` ones."""
        values = self._record.checked(y, self._n)
        return self._logarithms.log_density(values) - self._record.log_stretch(values)

    def survival(self, t: ArrayLike) -> Array:
        """Probability of a time beyond t, (n,); beyond each of several, (n, T)."""
        times = checked_times(t)
        with np.errstate(divide="ignore"):
            places = np.log(times)
        columns = [
            self._logarithms.beyond(*[np.full(self._n, place)] * 2)[1] for place in places.ravel()
        ]
        return columns[0] if times.ndim == 0 else np.column_stack(columns)

    def _tails(self, y: Any) -> tuple[Array, Array]:
        return self._logarithms._tails(y)


@dataclass(frozen=True)
class TimeFamily(IntervalFamily):
    """Logarithms of times with a shape that all rows share, y being :class:`Ends`; what is learned
    is the precision s of the logarithms."""

    errors: Errors = _WEIBULL

    @property
    def has_augmentation(self) -> bool:  # type: ignore[override]
        return self.errors.has_augmentation

    def outcome(self, phi: Params, rows: Rows) -> TimeOutcome:  # noqa: ARG002
        return TimeOutcome(shapes_of(phi["noise_precision"], self.errors), self.errors, None)

    def augment(self, rng: np.random.Generator, rows: Rows, phi: Params) -> tuple[Array, Array]:
        return self.outcome(phi, rows).augment(rng, rows.y, rows.eta)

    def noise_likelihood(  # type: ignore[override]
        self, rows: Rows
    ) -> Callable[[float, NDArray[np.intp]], float]:
        """Log likelihood of s, of some rows."""

        def log_likelihood(noise: float, own: NDArray[np.intp]) -> float:
            outcome = TimeOutcome(shapes_of(noise, self.errors), self.errors, None)
            ends = self.rows_of(rows.y, own)
            return float(outcome.log_density(ends, rows.eta[None, own], slice(0, len(own))).sum())

        return log_likelihood

    def log_likelihood(self, rows: Rows, phi: Params) -> float:
        return Family.log_likelihood(self, rows, phi)

    def sample(self, rng: np.random.Generator, rows: Rows, phi: Params) -> Ends:
        """Other times, and what is recorded of them."""
        assert self.record is not None
        logarithms = self.outcome(phi, rows).numbers(rng, rows.eta)
        return Ends(*self.record(logarithms), logarithms)

    def expect(self, y: Any) -> ExpectedFactor | None:  # type: ignore[override]
        """With one noise for all."""
        if not self.noise.is_shared:
            return None
        return ExpectedFactor.start(self, y, len(y.low), Parameter("noise_precision"))


def shapes_of(noise_precision: Any, errors: Errors) -> Array:
    """Shapes k by the precisions of logarithms of times, (S,)."""
    return np.atleast_1d(errors.sd * np.sqrt(np.asarray(noise_precision, dtype=float)))


def outcome_of(family: str, noise_precision: Array, record: RecordedTimes) -> Outcome:
    """The distribution of times of one of ``FAMILIES`` in S draws."""
    if family == "log-normal":
        return LogNormalOutcome(noise_precision**-0.5, record)
    errors = ERRORS[family]
    return TimeOutcome(shapes_of(noise_precision, errors), errors, record)


ERRORS: dict[str, Errors] = {"weibull": _WEIBULL, "log-logistic": LogisticErrors()}
FAMILIES = ("weibull", "log-logistic", "log-normal")
