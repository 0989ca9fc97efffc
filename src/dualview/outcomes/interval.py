"""Outcomes with normal noise that are recorded as intervals: censored or rounded numbers, and
counts.

A number y lies about its location with normal noise, on the scale of the location. What is recorded
of it is an interval that holds it; numbers that are recorded exactly are intervals without a width.
Counts are recorded on a scale of their own.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from dualview.errors import InputError
from dualview.numerics.streams import stream_of
from dualview.numerics.truncated import draw_between
from dualview.outcomes.base import Array, Mixture, Parts
from dualview.outcomes.normal import NormalMixture, NormalOutcome
from dualview.outcomes.truncated_normal import log_mass

_EXACT_COUNTS = (
    100  # counts below it have their own probabilities in means; from it on a count is a number
)


class Record(Protocol):
    """How numbers are recorded, and what is recorded of counts."""

    @property
    def is_count(self) -> bool:
        """Whether counts are recorded."""

    @property
    def lowest(self) -> float:
        """The lowest count that is possible."""

    def checked(self, y: Any, n: int) -> Array:
        """What was recorded of n outcomes, (n,) or ends (n, 2); an error where it cannot be."""

    def intervals(self, recorded: Array) -> tuple[Array, Array]:
        """Lower and upper ends (n,) of what was recorded, on the scale of the locations."""

    def values(self, x: Array) -> Array:
        """What is recorded of numbers (…) on the scale of the locations."""

    def observed_again(self, x: Array, low: Array, high: Array) -> tuple[Array, Array]:
        """Ends of other numbers x (n,), where those that were recorded had these ends."""

    def scaled(self, values: Array) -> Array:
        """Numbers in the user's units on the scale of the locations."""

    @property
    def is_logarithmic(self) -> bool:
        """Whether that scale is log1p."""


def log_probability(low: Array, high: Array, locations: Array, sds: Any) -> Array:
    """ln P(low ≤ y ≤ high) of y ~ N(location, sd²), and its log density where the ends are equal;
    shapes broadcast."""
    low, high, locations, sds = np.broadcast_arrays(low, high, locations, sds)
    exact = low == high
    if exact.all():
        return _log_density(low, locations, sds)
    if not exact.any():
        return _log_mass(low, high, locations, sds)
    found = np.empty(locations.shape)
    found[exact] = _log_density(low[exact], locations[exact], sds[exact])
    wide = ~exact
    found[wide] = _log_mass(low[wide], high[wide], locations[wide], sds[wide])
    return found


def _log_density(values: Array, locations: Array, sds: Array) -> Array:
    return np.asarray(
        -0.5 * np.log(2 * np.pi) - np.log(sds) - 0.5 * ((values - locations) / sds) ** 2
    )


def _log_mass(low: Array, high: Array, locations: Array, sds: Array) -> Array:
    return log_mass((low - locations) / sds, (high - locations) / sds, (high - low) / sds)


class IntervalOutcome(NormalOutcome):
    """Numbers with normal noise about their locations, of which intervals are recorded; sds as in
    :class:`NormalOutcome`."""

    def __init__(self, sds: ArrayLike | Callable[[slice], Array], record: Record) -> None:
        super().__init__(sds)
        self.record = record

    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:
        """Log probabilities of what was recorded, log densities of exact numbers, (S, cases)."""
        low, high = self.record.intervals(np.asarray(values))
        return log_probability(low, high, locations, self.spread(cases))

    def augment(
        self, rng: np.random.Generator, values: Array, locations: Array
    ) -> tuple[Array, Array]:
        """Numbers are drawn between the ends of the intervals."""
        low, high = self.record.intervals(values)
        sds = np.broadcast_to(self.spread(slice(0, len(locations)))[0], locations.shape)
        drawn = draw_between(stream_of(rng), low - locations, high - locations, sds)
        return np.asarray(drawn), sds**-2.0

    def draw(self, rng: np.random.Generator, locations: Array, cases: slice) -> Array:
        """What is recorded of numbers about the locations, (S, cases)."""
        return self.record.values(super().draw(rng, locations, cases))

    def draw_again(self, rng: np.random.Generator, values: Array, locations: Array) -> Array:
        numbers = super().draw(rng, locations[None], slice(0, len(locations)))[0]
        if values.ndim == 1:
            return self.record.values(numbers)
        ends = self.record.observed_again(numbers, *self.record.intervals(values))
        return np.column_stack(ends)

    def predictive(self, n: int, n_components: int, parts: Callable[[slice], Parts]) -> Mixture:
        """Of counts themselves; of other numbers as they are before they are recorded."""
        kind = CountMixture if self.record.is_count else IntervalMixture
        return kind(n, n_components, parts, self.record)


class IntervalMixture(NormalMixture):
    """Σ_s w_s N(y; location_s, sd_s²) for each of n cases: numbers as they are, of which something
    is recorded.

    Means, intervals and draws are of the numbers; ``log_density`` is that of what was recorded.
    """

    has_gaps = True

    def __init__(
        self, n: int, n_components: int, parts: Callable[[slice], Parts], record: Record
    ) -> None:
        super().__init__(n, n_components, parts)
        self._record = record

    def _besides(self, sources: Sequence[Mixture]) -> tuple[Any, ...]:  # noqa: ARG002
        return (self._record,)

    def log_density(self, y: Any) -> Array:
        """Log probability of what was recorded: rounded numbers (n,), or ``Censored``; log density
        of exact numbers."""
        low, high = self._record.intervals(self._record.checked(y, self._n))
        return mixed_log_probability(self, low, high)

    def _tails(self, y: Any) -> tuple[Array, Array]:
        return self.beyond(*self._record.intervals(self._record.checked(y, self._n)))


def mixed_log_probability(mixture: Mixture, low: Array, high: Array) -> Array:
    """ln Σ_s w_s P(low ≤ y ≤ high) of each case, (n,); densities where the ends are equal."""
    result = np.empty(len(mixture))
    for cases, (log_weights, locations, sds) in mixture._batches():
        own = log_weights + log_probability(low[cases], high[cases], locations, sds)
        top = own.max(axis=0)
        with np.errstate(divide="ignore"):
            result[cases] = top + np.log(
                np.exp(own - np.where(np.isfinite(top), top, 0.0)).sum(axis=0)
            )
    return result


class CountMixture(Mixture):
    """Counts in each of n cases: a mixture of normal numbers, on the scale of the locations, is
    recorded as counts."""

    has_gaps = True

    def __init__(
        self, n: int, n_components: int, parts: Callable[[slice], Parts], record: Record
    ) -> None:
        super().__init__(n, n_components, parts)
        self._record = record
        self._numbers = NormalMixture(n, n_components, parts)

    def _besides(self, sources: Sequence[Mixture]) -> tuple[Any, ...]:
        records = [own._record for own in sources if isinstance(own, CountMixture)]
        if len({own.is_logarithmic for own in records}) > 1:
            raise InputError(
                "Predictions of counts on the scale of log1p and on their own cannot be mixed: fit "
                "them all on one scale."
            )
        return (self._record,)

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """Means and standard deviations, to within rounding of counts from ``_EXACT_COUNTS`` on."""
        first, second = np.zeros(self._n), np.zeros(self._n)
        for cases, (log_weights, locations, sds) in self._batches():
            weights = np.exp(log_weights)
            weights = weights / weights.sum(axis=0)
            for power, total in ((1, first), (2, second)):
                moment = np.where(
                    weights > 0.0, self._raw_moment(power, locations, sds), 0.0
                )  # it may be infinite
                total[cases] = (weights * moment).sum(axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            variance = second - first**2
        return first, np.where(np.isfinite(second), np.sqrt(np.maximum(variance, 0.0)), np.inf)

    def _raw_moment(self, power: int, locations: Array, sds: Array) -> Array:
        """E countᵖ of each component: counts below ``_EXACT_COUNTS`` by their probabilities, others
        as numbers."""
        counts = np.arange(self._record.lowest, _EXACT_COUNTS)
        bounds = self._record.scaled(counts + 0.5)
        below = ndtr((bounds[0] - locations) / sds)
        total = counts[0] ** power * below
        for count, bound in zip(counts[1:], bounds[1:], strict=True):
            now = ndtr((bound - locations) / sds)
            total += count**power * (now - below)
            below = now
        part = _exponential_part if self._record.is_logarithmic else _normal_part
        return np.asarray(total + part(power, float(bounds[-1]), locations, sds))

    @property
    def mean(self) -> Array:
        """Expected count of each case; infinite where it is beyond the range of numbers."""
        return self._moments[0]

    @property
    def std(self) -> Array:
        """Standard deviation of each count."""
        return self._moments[1]

    def quantile(self, probability: float) -> Array:
        """The count that has this probability at or below it."""
        return self._counts(self._numbers.quantile(probability))

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent counts of each case, (n, cases)."""
        return self._counts(self._numbers.draws(n, seed=seed))

    def _counts(self, x: Array) -> Array:
        """What is recorded of numbers; infinite beyond the range of numbers."""
        with np.errstate(over="ignore"):
            return self._record.values(x)

    def log_density(self, y: ArrayLike) -> Array:
        """Log probability of the counts y (n,)."""
        low, high = self._record.intervals(self._record.checked(y, self._n))
        return mixed_log_probability(self, low, high)

    def _tails(self, y: ArrayLike) -> tuple[Array, Array]:
        return self._numbers.beyond(*self._record.intervals(self._record.checked(y, self._n)))


def _normal_part(power: int, bound: float, locations: Array, sds: Array) -> Array:
    """E xᵖ 1(x ≥ bound) of normal x."""
    place = (bound - locations) / sds
    above, height = ndtr(-place), sds * np.exp(-0.5 * place**2) / np.sqrt(2 * np.pi)
    if power == 1:
        return np.asarray(locations * above + height)
    return np.asarray((locations**2 + sds**2) * above + (bound + locations) * height)


def _exponential_part(power: int, bound: float, locations: Array, sds: Array) -> Array:
    """E (eˣ − 1)ᵖ 1(x ≥ bound) of normal x."""

    def moment(j: int) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(
                np.exp(
                    j * locations
                    + 0.5 * (j * sds) ** 2
                    + log_ndtr((locations - bound) / sds + j * sds),
                    dtype=float,
                )
            )

    if power == 1:
        return moment(1) - moment(0)
    with np.errstate(over="ignore", invalid="ignore"):
        total = moment(2) - 2.0 * moment(1) + moment(0)
    return np.where(np.isfinite(total), total, np.inf)


def whole_counts(values: Array, name: str) -> None:
    """Raise where numbers are not whole or below 0."""
    wrong = (values != np.round(values)) | (values < 0)
    if wrong.any():
        raise InputError(
            f"{name} must hold counts, whole numbers from 0; got {values[wrong][0]:g}."
        )
