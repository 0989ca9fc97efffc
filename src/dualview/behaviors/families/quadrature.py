"""The predictive distribution of a family whose expectation over a normal location has no closed
form: by quadrature, once for all such families.

Everything is an integral of a log-concave function of the location: the density of an outcome times
that of the location; or the fall of the distribution function, −dP(y ≤ v | η)/dη, which is a
density of η, times the chance of a location above η, or below it. So one routine does them all. It
finds the peak of an integrand, how far it reaches on either side, and integrates panels that are
the narrower the nearer to the peak: locations may be unsure by much more, or by much less, than an
outcome tells about them.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, ndtr, ndtri

from dualview.behaviors.families.base import Array, Mixture, Outcome, Parts
from dualview.checks import checked_probability, draws_generator, numbers
from dualview.errors import InputError

_HERMITE = np.polynomial.hermite_e.hermegauss(20)
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
_ROOT_HALF = np.sqrt(0.5)
_GRID = np.linspace(-9.0, 9.0, 361)  # of a normal distribution, in standard deviations
_SHARES = np.exp(-0.5 * _GRID**2) / np.exp(-0.5 * _GRID**2).sum()
_NEAR = 0.05  # of its width: as near as the peak has to be found
_FALL = (34.0, 60.0)  # by which an integrand has to have fallen where it ends; by at most
_NARROW = 0.5  # of what an outcome tells: locations less unsure are integrated over as normal
_STEPS = 200  # of a search
_EXACT = 1e-10  # relative, of quantiles of numbers that are not whole
_LOG_LARGEST = 700.0


def _panels(n_panels: int, n_nodes: int) -> tuple[Array, Array]:
    """Nodes and weights between 0 and 1: Gauss and Legendre's, in panels of which each is as wide
    as all before it."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    edges = np.append(0.0, 2.0 ** np.arange(1.0 - n_panels, 1.0))
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (nodes + 1.0)).ravel(), (half * weights).ravel()


_PLACES, _SHARES_OF_PLACES = _panels(7, 8)


class Bend(NamedTuple):
    """A function of the location: values, first derivatives, and second ones with the sign
    changed."""

    value: Array
    slope: Array
    bend: Array


class Integrand(NamedTuple):
    """A log-concave function of the location, its logarithm: values; and derivatives, second ones
    with the sign changed."""

    value: Callable[[Array], Array]
    derivatives: Callable[[Array], tuple[Array, Array]]


class QuadratureOutcome(Outcome):
    """A distribution that predictions integrate over unsure locations by quadrature.

    A subclass has ``log_density``, ``derivatives``, ``draw`` and what is here. Probabilities fall
    as locations rise. has_gaps: single outcomes have probabilities. is_whole: outcomes are whole
    numbers.
    """

    has_gaps = False
    is_whole = False

    @property
    def highest(self) -> Any:
        """The highest outcome that there can be, of each observation or of all; none by default."""
        return np.inf

    @abstractmethod
    def moments(self, locations: Array) -> tuple[Array, Array]:
        """Expectation and variance of each observation."""

    @abstractmethod
    def below(self, values: Array, locations: Array) -> Array:
        """Probability of an observation up to each value."""

    def fall(self, values: Array, locations: Array) -> Bend | None:  # noqa: ARG002
        """Logarithm of −d ``below``/dη, which has to be log-concave in η, and its derivatives; None
        by default.

        Without it distribution functions are right to seven digits only where an outcome tells less
        of its location than a tenth of how unsure that is.
        """
        return None

    def highest_bend(self, locations: Array) -> Array | float:  # noqa: ARG002
        """The highest second derivative of ``fall`` where it is inside, and not towards either end
        as by default."""
        return 0.0

    def mixed_moments(self, locations: Array, sds: Array) -> tuple[Array, Array]:
        """Expectations of an observation and of its square over N(location, sd²); by default by a
        grid, for squares that grow by no more than e^{2η}."""
        first, second = np.zeros((2, *locations.shape))
        reach = float(2.0 * sds.max(initial=0.0))
        places = np.arange(_GRID[0], _GRID[-1] + reach, 0.1) if reach > 0.0 else np.zeros(1)
        shares = np.exp(-0.5 * places**2)
        for place, share in zip(places, shares / shares.sum(), strict=True):
            mean, variance = self.moments(locations + place * sds)
            first += share * mean
            second += share * (variance + mean**2)
        return first, second

    def of_cases(self, cases: slice) -> "QuadratureOutcome":  # noqa: ARG002
        """That of some observations; itself by default, where they have nothing of their own."""
        return self

    def joined(self, others: "Sequence[QuadratureOutcome]") -> "QuadratureOutcome":  # noqa: ARG002
        """The same for the components of all, one set after the other; itself by default, where
        draws have nothing of their own."""
        return self

    def checked(self, y: Any, n: int) -> Array:
        """Outcomes of n cases as ``log_density`` takes them."""
        values = numbers(y, "y", n_dims=1)
        if len(values) != n:
            raise InputError(f"y must have one value per case, {n}; got {len(values)}.")
        return values

    def ends(self, values: Array) -> tuple[Array, Array]:
        """Lower and upper end of what is known of outcomes, (n,) each; the outcomes themselves by
        default."""
        return values, values

    def predictive(
        self, n: int, n_components: int, parts: Callable[[slice], Parts]
    ) -> "QuadratureMixture":
        return QuadratureMixture(n, n_components, parts, self)


class CountingOutcome(QuadratureOutcome):
    """The distribution of whole numbers from 0 given their locations."""

    has_gaps = True
    is_whole = True


class QuadratureMixture(Mixture):
    """Σ_s w_s E p(y | N(location_s, sd_s²)) of numbers from 0 in each of n cases."""

    def __init__(
        self,
        n: int,
        n_components: int,
        parts: Callable[[slice], Parts],
        outcome: QuadratureOutcome,
    ) -> None:
        super().__init__(n, n_components, parts)
        self._outcome = outcome
        self.has_gaps = outcome.has_gaps

    def _besides(self, sources: Sequence[Mixture]) -> tuple[Any, ...]:
        first, *others = (own._outcome for own in sources if isinstance(own, QuadratureMixture))
        return (first.joined(others),)

    def _values(self, y: ArrayLike) -> Array:
        return self._outcome.checked(y, self._n)

    def _components(self) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Some cases with their weights, locations and standard deviations, each (S, cases)."""
        for cases, (log_weights, locations, sds) in self._batches():
            weights = np.broadcast_to(np.exp(log_weights), locations.shape)
            sds = np.broadcast_to(sds, locations.shape)
            yield cases, weights / weights.sum(axis=0), locations, sds

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        first, second = np.zeros((2, self._n))
        for cases, weights, locations, sds in self._components():
            with np.errstate(over="ignore"):  # they may be beyond all numbers
                mean, square = self._outcome.of_cases(cases).mixed_moments(locations, sds)
                first[cases] = (weights * mean).sum(axis=0)
                second[cases] = (weights * square).sum(axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            variance = second - first**2
        known = np.isfinite(second) & np.isfinite(variance)
        return first, np.where(known, np.sqrt(np.maximum(variance, 0.0)), np.inf)

    @property
    def mean(self) -> Array:
        """Expected value of each case; infinite where it is beyond the range of numbers."""
        return self._moments[0]

    @property
    def std(self) -> Array:
        """Standard deviation of each case; infinite where it is beyond the range of numbers."""
        return self._moments[1]

    def _sides(self, values: Array) -> tuple[Array, Array]:
        """Probabilities of up to values (n,), and of more."""
        below, above = np.zeros((2, self._n))
        is_whole = self._outcome.is_whole
        nothing = np.zeros(self._n, bool) if is_whole else values <= 0.0
        everything = values >= self._outcome.highest
        inside = np.where(nothing | everything, 0.0 if is_whole else 1.0, values)
        for cases, weights, locations, sds in self._components():
            own = self._outcome.of_cases(cases)
            sides = expected_sides(own, inside[cases], locations, sds)
            below[cases], above[cases] = ((weights * side).sum(axis=0) for side in sides)
        below = np.where(nothing, 0.0, np.where(everything, 1.0, np.minimum(below, 1.0)))
        above = np.where(nothing, 1.0, np.where(everything, 0.0, np.minimum(above, 1.0)))
        return below, above

    def _tails(self, y: ArrayLike) -> tuple[Array, Array]:
        low, high = self._outcome.ends(self._values(y))
        if self._outcome.is_whole:
            low = np.ceil(low) - 1.0
        sides = self._sides(np.maximum(low, 0.0))
        below = np.where(low >= 0.0, sides[0], 0.0)
        return below, sides[1] if high is low else self._sides(high)[1]

    def quantile(self, probability: float) -> Array:
        """The least number that has this probability at or below it."""
        probability = checked_probability(probability, "A quantile's")
        search = _Search(np.full(self._n, -1.0 if self._outcome.is_whole else 0.0), self)
        return search.run(probability)

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent draws of each case, (n, cases)."""
        rng = draws_generator(n, seed, self._n)
        result = np.empty((n, self._n))
        for cases, weights, locations, sds in self._components():
            for i in range(locations.shape[1]):
                chosen = rng.choice(len(weights), n, p=weights[:, i])
                place = locations[chosen, i] + sds[chosen, i] * rng.standard_normal(n)
                case = slice(cases.start + i, cases.start + i + 1)
                own = self._outcome.of_draws(chosen)
                result[:, case] = own.draw(rng, place[:, None], case)
        return result

    def log_density(self, y: ArrayLike) -> Array:
        """Log density, or log probability, of the outcomes y (n,)."""
        values, result = self._values(y), np.empty(self._n)
        for cases, weights, locations, sds in self._components():
            with np.errstate(divide="ignore"):
                own = np.log(weights) + self._log_expected(values[cases], locations, sds, cases)
            result[cases] = np.logaddexp.reduce(own, axis=0)
        return result

    def _log_expected(self, values: Array, locations: Array, sds: Array, cases: slice) -> Array:
        """ln E p(y | N(location, sd²)) of each component, (S, cases)."""
        outcome, own = self._outcome, self._outcome.of_cases(cases)
        exact = outcome.log_density(values, locations, cases)
        if not sds.any():
            return exact
        wide = np.where(sds > 0.0, sds, 1.0)

        def value(place: Array) -> Array:
            normal = -0.5 * ((place - locations) / wide) ** 2
            return np.asarray(outcome.log_density(values, place, cases) + normal)

        def derivatives(place: Array) -> tuple[Array, Array]:
            slope, bend = own.derivatives(values, place)
            return slope - (place - locations) / wide**2, bend + wide**-2.0

        found = log_integral(Integrand(value, derivatives), locations, wide)
        return np.where(sds > 0.0, found - np.log(wide) - _HALF_LOG_2PI, exact)


def expected_sides(
    outcome: QuadratureOutcome, values: Array, locations: Array, sds: Array
) -> tuple[Array, Array]:
    """Probabilities of up to values (cases,), and of more, given N(location, sd²), (S, cases)."""
    below = outcome.below(values, locations)
    if not sds.any():
        return below, 1.0 - below
    wide = np.where(sds > 0.0, sds, 1.0)
    bends = [
        bend
        for place in (0.0, -3.0, 3.0)
        if (bend := outcome.fall(values, locations + place * sds)) is not None
    ]
    if not bends:
        found = _over_grid(outcome, values, locations, sds, _GRID, _SHARES)
        return found, 1.0 - found
    sharpest = np.max([own.bend for own in bends], axis=0)
    sharpest = np.maximum(sharpest, outcome.highest_bend(locations))
    narrow = sds**2 * sharpest < _NARROW**2
    if narrow.any():
        nodes, weights = _HERMITE
        found = _over_grid(outcome, values, locations, sds, nodes, weights / weights.sum())
        below = np.where(narrow, found, below)
    above = 1.0 - below
    if narrow.all():
        return below, above
    # the smaller of the two is integrated: the peak of its integrand is where the normal
    # distribution cuts it off
    sign = np.where(bends[0].slope < 0.0, 1.0, -1.0)
    cut = _cut_off(outcome, values, locations, wide * sign)
    smaller = np.minimum(np.exp(log_integral(cut, locations, wide)), 1.0)
    below = np.where(narrow, below, np.where(sign > 0.0, smaller, 1.0 - smaller))
    return below, np.where(narrow, above, np.where(sign > 0.0, 1.0 - smaller, smaller))


def _over_grid(
    outcome: QuadratureOutcome,
    values: Array,
    locations: Array,
    sds: Array,
    places: Array,
    shares: Array,
) -> Array:
    """Probabilities of up to values given N(location, sd²), by nodes of a normal distribution."""
    total = np.zeros(locations.shape)
    for place, share in zip(places, shares, strict=True):
        total += share * outcome.below(values, locations + place * sds)
    return total


def _cut_off(outcome: QuadratureOutcome, values: Array, locations: Array, sds: Array) -> Integrand:
    """``fall`` times P(N(location, sd²) < place); times P(… > place) where sds are negative."""

    def fall(place: Array) -> Bend:
        own = outcome.fall(values, place)
        assert own is not None
        return own

    def value(place: Array) -> Array:
        away = (place - locations) / sds
        below = np.minimum(away, 0.0)
        tail = np.log(0.5 * erfcx(-below * _ROOT_HALF)) - 0.5 * below**2
        return np.asarray(fall(place).value + np.where(away < 0.0, tail, np.log(ndtr(away))))

    def derivatives(place: Array) -> tuple[Array, Array]:
        own, away = fall(place), (place - locations) / sds
        ratio = np.sqrt(2.0 / np.pi) / erfcx(-away * _ROOT_HALF)
        return own.slope + ratio / sds, own.bend + ratio * (ratio + away) / sds**2

    return Integrand(value, derivatives)


def log_integral(integrand: Integrand, start: Array, reach: Array) -> Array:
    """ln ∫ exp(integrand), one for each number of start; reach: how far the first step of the
    search for their peaks may go."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        peak, width = find_peak(integrand, start, reach)
        top, total = integrand.value(peak), np.zeros(start.shape)

        def height(place: Array) -> Array:
            """Relative to the peak, not NaN where it is beyond all numbers."""
            value = integrand.value(place) - top
            return np.where(np.isnan(value), -np.inf, value)

        for side in (-1.0, 1.0):
            end = _end(height, peak, side * width)
            for node, weight in zip(_PLACES, _SHARES_OF_PLACES, strict=True):
                total += weight * side * end * np.exp(height(peak + node * end))
    return np.asarray(top + np.log(total))


def find_peak(integrand: Integrand, start: Array, reach: Array) -> tuple[Array, Array]:
    """Where log-concave functions are highest, to within a small part of their widths there, and
    these: Newton's steps between bounds, halved where they leave them."""
    place, reach = np.array(start), np.array(reach)
    low, high = np.full(place.shape, -np.inf), np.full(place.shape, np.inf)
    for iteration in range(_STEPS):
        slope, bend = integrand.derivatives(place)
        step, rising = slope / bend, np.where(slope > 0.0, 1.0, -1.0)
        found = np.abs(step) * np.sqrt(bend) < _NEAR
        if found.all():
            break
        low, high = np.where(slope > 0.0, place, low), np.where(slope < 0.0, place, high)
        bounded = np.isfinite(low) & np.isfinite(high)
        step = np.where(np.isfinite(step), step, rising * reach)
        ahead = place + np.where(bounded, step, rising * np.minimum(np.abs(step), reach))
        reach = np.where(bounded, reach, 2.0 * reach)
        halve = bounded & ((ahead <= low) | (ahead >= high) | (iteration % 4 == 3))
        ahead = np.where(halve, 0.5 * (low + high), ahead)
        place = np.where(found, place, ahead)
    return place, bend**-0.5


def _end(height: Callable[[Array], Array], peak: Array, width: Array) -> Array:
    """How far away functions that fall ever faster have fallen by about ``_FALL``; widths are
    negative for the other side."""
    length = 7.0 * width
    for factor, grows in ((1.5, True), (0.8, False)):
        for _ in range(_STEPS):
            fall = -height(peak + length)
            off = fall < _FALL[0] if grows else fall > _FALL[1]
            if not off.any():
                break
            length = np.where(off, factor * length, length)
    return length


class _Search:
    """The least numbers (n,) that have a probability at or below them: bounds by doubling, then by
    interpolation of normal quantiles of the distribution function over ln(1 + y), and halving."""

    def __init__(self, low: Array, mixture: QuadratureMixture) -> None:
        self._mixture, self._whole = mixture, mixture._outcome.is_whole
        self._low, self._high = low, np.ones(len(low))
        self._levels = [np.full(len(low), end) for end in (-np.inf, np.inf)]

    def _level(self, values: Array) -> Array:
        below, above = self._mixture._sides(values)
        return np.asarray(np.where(below < 0.5, ndtri(below), -ndtri(above)))

    def run(self, probability: float) -> Array:
        wanted = float(ndtri(probability))
        reach = 1.0
        for _ in range(_STEPS):
            level = self._level(self._high)
            short = level < wanted
            if not short.any():
                break
            self._low = np.where(short, self._high, self._low)
            self._levels[0] = np.where(short, level, self._levels[0])
            further = np.minimum(np.log(self._high) + reach, _LOG_LARGEST)
            ahead = np.exp(further)
            self._high = np.where(short, np.ceil(ahead) if self._whole else ahead, self._high)
            reach *= 2.0
        self._levels[1] = self._level(self._high)
        for iteration in range(_STEPS):
            if not self._open.any():
                break
            middle = self._middle(wanted, halve=iteration % 3 == 2)
            level, inside = self._level(np.maximum(middle, 0.0)), self._open
            short = inside & (level < wanted)
            full = inside & ~short
            self._low, self._high = (
                np.where(short, middle, self._low),
                np.where(full, middle, self._high),
            )
            for place, moved in enumerate((short, full)):
                self._levels[place] = np.where(moved, level, self._levels[place])
        return self._high

    @property
    def _open(self) -> NDArray[np.bool_]:
        least = 1.0 if self._whole else np.finfo(float).tiny
        gap = np.finfo(float).eps * 4.0 if self._whole else _EXACT
        return np.asarray(self._high - self._low > np.maximum(least, gap * self._high), dtype=bool)

    def _middle(self, wanted: float, halve: bool) -> Array:
        """A number between the bounds."""
        low, high = self._low, self._high
        if halve:
            share = np.full(len(low), 0.5)
        else:
            with np.errstate(invalid="ignore", divide="ignore"):
                share = (wanted - self._levels[0]) / (self._levels[1] - self._levels[0])
            share = np.clip(np.where(np.isfinite(share), share, 0.5), 0.02, 0.98)
        if self._whole:
            ends = np.log1p(np.maximum(low, -0.5)), np.log1p(high)
            middle = np.floor(np.expm1(ends[0] + share * (ends[1] - ends[0])))
            return np.asarray(np.minimum(np.maximum(middle, low + 1.0), high - 1.0))
        ends = np.log(np.maximum(low, high * 1e-30)), np.log(high)
        return np.asarray(np.exp(ends[0] + share * (ends[1] - ends[0])))
