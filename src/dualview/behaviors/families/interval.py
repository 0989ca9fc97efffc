"""The interval family: normal numbers that are recorded as intervals, as censored or rounded ones
and counts are.

A number y lies about its location with normal noise, on the scale of the location. What is recorded
of it is an interval that holds it; numbers that are recorded exactly are intervals without a width.
Counts are recorded on a scale of their own. Before each sweep y is drawn from its normal
distribution between the ends, and it is forgotten after it. The noise is drawn with y integrated
out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from dualview.behaviors.families.base import (
    Array,
    Given,
    Mixture,
    Moments,
    Params,
    Parts,
    Rows,
)
from dualview.behaviors.families.gaussian import (
    GaussianFamily,
    NoiseFactor,
    NormalMixture,
    NormalOutcome,
)
from dualview.behaviors.recorded import Recorded
from dualview.distributions import log_normal_mass
from dualview.errors import InputError
from dualview.interval_gaussian import truncated_moments
from dualview.numerics.hyperprior import FINITE_VARIANCES, PUBLISHED, Hyperprior
from dualview.numerics.streams import stream_of
from dualview.numerics.truncated import draw_between

_EXACT_COUNTS = (
    100  # counts below it have their own probabilities in means; from it on a count is a number
)


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
    return log_normal_mass((low - locations) / sds, (high - locations) / sds, (high - low) / sds)


class IntervalOutcome(NormalOutcome):
    """Numbers with normal noise about their locations, of which intervals are recorded; sds as in
    :class:`NormalOutcome`."""

    def __init__(self, sds: ArrayLike | Callable[[slice], Array], record: Recorded) -> None:
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
        self, n: int, n_components: int, parts: Callable[[slice], Parts], record: Recorded
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
        self, n: int, n_components: int, parts: Callable[[slice], Parts], record: Recorded
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


class Ends(NamedTuple):
    """Lower and upper ends of what was recorded, (n,), and a number between them to start from."""

    low: Array
    high: Array
    inside: Array


@dataclass(frozen=True)
class IntervalFamily(GaussianFamily):
    """Normal numbers that are known to lie between two ends, y being :class:`Ends`.

    is_open: some intervals have one end only, so that rows may leave latent vectors the tails of
    their prior. record(numbers): the ends that other numbers (n,) would have.
    """

    is_open: bool = True
    record: Callable[[Array], tuple[Array, Array]] | None = None

    is_conjugate = False

    @property
    def hyperprior(self) -> Hyperprior:
        """With lighter tails where intervals are open."""
        return FINITE_VARIANCES if self.is_open else PUBLISHED

    def rows_of(self, y: Any, rows: Any) -> Any:
        return Ends(*(part[rows] for part in y))

    def _numbers(self, y: Any) -> Array:
        return np.asarray(y.inside)

    def _sds(self, rows: Rows, phi: Params) -> Array:
        precision = np.broadcast_to(self.noise.precision(phi, rows.user), rows.eta.shape)
        return np.asarray(1.0 / np.sqrt(precision))

    def augment(self, rng: np.random.Generator, rows: Rows, phi: Params) -> tuple[Array, Array]:
        """Numbers are drawn between the ends."""
        low, high = rows.y.low - rows.eta, rows.y.high - rows.eta
        residual = draw_between(stream_of(rng), low, high, self._sds(rows, phi))
        return np.asarray(residual), self.noise.precision(phi, rows.user)

    def redraw(self, rng: np.random.Generator, given: Given) -> Params:
        """The noise with the numbers integrated out."""
        return self.noise.redraw(rng, given, self.noise_likelihood(given.rows))

    @staticmethod
    def noise_likelihood(rows: Rows) -> Callable[[float, NDArray[np.intp]], float]:
        """Log likelihood of s, of some rows."""
        (low, high, _), eta = rows.y, rows.eta

        def log_likelihood(noise: float, own: NDArray[np.intp]) -> float:
            return float(log_probability(low[own], high[own], eta[own], noise**-0.5).sum())

        return log_likelihood

    def log_likelihood(self, rows: Rows, phi: Params) -> float:
        sds = self._sds(rows, phi)
        return float(log_probability(rows.y.low, rows.y.high, rows.eta, sds).sum())

    def sample(self, rng: np.random.Generator, rows: Rows, phi: Params) -> Ends:
        """Other numbers, and what is recorded of them."""
        assert self.record is not None
        numbers = super().sample(rng, rows, phi)
        return Ends(*self.record(numbers), numbers)

    def expect(self, y: Any) -> "IntervalFactor | None":
        of_noise = super().expect(y)
        if of_noise is None:
            return None
        return IntervalFactor(of_noise.prior, of_noise.noise, y.inside, np.zeros(len(y.low)))


@dataclass(frozen=True)
class IntervalFactor(NoiseFactor):
    """q(s) Π_i q(y_i): numbers y_i have normal distributions about E η_i with precision E s between
    their ends.

    numbers_mean, numbers_variance (n,): of the y_i. entropy: of all of them that are not exact.
    """

    numbers_mean: Array = field(default_factory=lambda: np.empty(0))
    numbers_variance: Array = field(default_factory=lambda: np.empty(0))
    entropy: float = 0.0

    def messages(self, y: Any) -> tuple[Array | float, Array]:  # noqa: ARG002
        return self.noise.mean, self.numbers_mean

    def _misfit(self, y: Any, moments: Moments) -> float:  # noqa: ARG002
        return super()._misfit(self.numbers_mean, moments) + float(self.numbers_variance.sum())

    def updated(self, y: Any, moments: Moments) -> Self:
        return self._completed(y, moments.mean)._with_noise(y, moments)

    def _completed(self, y: Ends, eta: Array) -> Self:
        """q(y) given that of the locations and of the noise."""
        sd, wide = self.noise.mean**-0.5, y.low < y.high
        low, high = (y.low[wide] - eta[wide]) / sd, (y.high[wide] - eta[wide]) / sd
        away, spread = truncated_moments(low, high)
        mean, variance = np.array(y.low), np.zeros(len(wide))
        mean[wide], variance[wide] = eta[wide] + sd * away, sd**2 * spread
        log_mass = log_normal_mass(low, high, (y.high - y.low)[wide] / sd)
        own = log_mass + 0.5 * (np.log(2.0 * np.pi * sd**2) + spread + away**2)
        return replace(self, numbers_mean=mean, numbers_variance=variance, entropy=float(own.sum()))

    def bound(self, y: Any, moments: Moments) -> float:
        return super().bound(y, moments) + self.entropy
