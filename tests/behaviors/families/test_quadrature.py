"""Predictive distributions by quadrature against SciPy's integrals: locations unsure by much more
and by much less than outcomes tell of them, whole numbers and times."""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import gammaln, log_ndtr, ndtr
from scipy.stats import poisson, weibull_min

from dualview.behaviors.families.base import Parts
from dualview.behaviors.families.poisson import PoissonOutcome
from dualview.behaviors.families.quadrature import (
    Bend,
    CountingOutcome,
    Integrand,
    QuadratureOutcome,
    expected_sides,
    find_peak,
)

Array = NDArray[np.float64]
SDS = (1e-3, 0.05, 0.3, 0.6, 1.0, 2.5, 6.0)


class Times(QuadratureOutcome):
    """Weibull times about their scales e^η, y being ends of intervals (n, 2)."""

    shape = 1.7
    has_gaps = True

    def _hazards(self, values: Array, locations: Array) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(np.exp(np.minimum(self.shape * (np.log(values) - locations), 700.0)))

    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        low, high = values[:, 0], values[:, 1]
        first, last = self._hazards(low, locations), self._hazards(high, locations)
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = np.log(self.shape / low) + np.log(first) - first
            between = -first + np.log(-np.expm1(-(last - first)))
        return np.where(low == high, exact, between)

    def derivatives(self, values: Array, locations: Array) -> tuple[Array, Array]:
        step = 1e-4
        low, middle, high = (
            self.log_density(values, locations + by, slice(None)) for by in (-step, 0.0, step)
        )
        return (high - low) / (2.0 * step), (2.0 * middle - low - high) / step**2

    def moments(self, locations: Array) -> tuple[Array, Array]:
        law = weibull_min(self.shape)
        return law.mean() * np.exp(locations), law.var() * np.exp(2.0 * locations)

    def below(self, values: Array, locations: Array) -> Array:
        return np.asarray(-np.expm1(-self._hazards(values, locations)))

    def fall(self, values: Array, locations: Array) -> Bend:
        hazards = self._hazards(values, locations)
        with np.errstate(divide="ignore"):
            value = np.log(self.shape) + self.shape * (np.log(values) - locations) - hazards
        return Bend(value, self.shape * (hazards - 1.0), self.shape**2 * hazards)

    def checked(self, y: Any, n: int) -> Array:  # noqa: ARG002
        given = np.asarray(y, dtype=float)
        return given if given.ndim == 2 else np.column_stack([given, given])

    def ends(self, values: Array) -> tuple[Array, Array]:
        return values[:, 0], values[:, 1]


def mixture(outcome: QuadratureOutcome, location: float, sd: float) -> Any:
    place, spread = np.array([[location]]), np.array([[sd]])
    return outcome.predictive(1, 1, lambda _: Parts(np.zeros((1, 1)), place, spread))


def log_quad(function: Any, *points: float) -> float:
    """ln ∫ exp(function) of a log-concave function, by SciPy, in pieces about the points."""
    middle, scale = points[0], max(1.0, np.ptp(points))
    grid = middle + scale * np.linspace(-60.0, 60.0, 400_001)
    grid = np.unique(np.concatenate([grid, points]))
    for _ in range(3):
        with np.errstate(over="ignore"):
            height = function(grid)
        kept = np.flatnonzero(height > height.max() - 60.0)
        low, high = grid[max(kept[0] - 1, 0)], grid[min(kept[-1] + 1, len(grid) - 1)]
        grid = np.linspace(low, high, 200_001)
    peak, top = grid[height.argmax()] if len(height) == len(grid) else middle, height.max()
    inner = [point for point in (*points, peak) if low < point < high]
    edges = np.unique([low, *inner, *np.linspace(low, high, 25), high])
    pieces = [
        quad(lambda x: float(np.exp(function(np.array(x)) - top)), *ends, epsabs=1e-13)[0]
        for ends in itertools.pairwise(edges)
    ]
    return float(top + np.log(sum(pieces)))


HOSTILE = list(itertools.product((0, 1, 20, 10**6), (-5.0, 0.0, 12.0, None), SDS))


@pytest.mark.parametrize(("count", "location", "sd"), HOSTILE)
def test_counts_whose_rates_are_unsure(count: int, location: float | None, sd: float) -> None:
    place = np.log(count + 0.5) if location is None else location

    def joint(x: Any) -> Any:
        own = count * x - np.exp(x) - gammaln(count + 1.0)
        return own - 0.5 * ((x - place) / sd) ** 2 - np.log(sd * np.sqrt(2.0 * np.pi))

    own = mixture(PoissonOutcome(), place, sd)
    found, wanted = own.log_density([count])[0], log_quad(joint, place, place + sd, place - sd)
    assert abs(found - wanted) < 1e-6 * max(1.0, abs(wanted))

    def below(x: Any, sign: float) -> Any:
        return (
            (count + 1.0) * x - np.exp(x) - gammaln(count + 1.0) + log_ndtr(sign * (x - place) / sd)
        )

    cut = np.log(count + 1.0), place - 5.0 * sd, place, place + 5.0 * sd
    less = np.exp(log_quad(lambda x: below(x, 1.0), *cut))
    more = np.exp(log_quad(lambda x: below(x, -1.0), *cut))
    np.testing.assert_allclose(own._sides(np.array([1.0 * count])), [[less], [more]], atol=1e-6)


@pytest.mark.parametrize("sd", [0.5, 4.0, 6.0])
def test_means_and_quantiles_where_rates_are_unsure(sd: float) -> None:
    own = mixture(PoissonOutcome(), 1.0, sd)
    mean = np.exp(1.0 + 0.5 * sd**2)
    np.testing.assert_allclose(own.mean, mean)
    np.testing.assert_allclose(own.std**2, mean + mean**2 * np.expm1(sd**2), rtol=1e-6)
    for probability in (0.025, 0.5, 0.975):
        found = own.quantile(probability)
        assert own._sides(found)[0] >= probability
        assert found == 0.0 or own._sides(found - 1.0)[0] < probability
    assert np.isinf(mixture(PoissonOutcome(), 700.0, 30.0).std[0])


@pytest.mark.parametrize("sd", SDS)
def test_times_some_of_them_censored(sd: float) -> None:
    location, outcome = 0.7, Times()
    own = mixture(outcome, location, sd)
    for low, high in ((2.0, 2.0), (1.0, np.inf), (0.0, 0.5), (1.0, 1.2), (40.0, np.inf)):
        values = np.array([[low, high]])

        def joint(x: Any, values: Array = values) -> Any:
            own = outcome.log_density(values, np.atleast_1d(x)[:, None], slice(None))[:, 0]
            normal = -0.5 * ((x - location) / sd) ** 2 - np.log(sd * np.sqrt(2.0 * np.pi))
            return (own + normal) if np.ndim(x) else float((own + normal)[0])

        wanted = log_quad(joint, location, location - sd, location + sd)
        assert abs(own.log_density(values)[0] - wanted) < 1e-6 * max(1.0, abs(wanted))
        below, above = own._tails(values)
        np.testing.assert_allclose(
            1.0 - below - above, np.exp(wanted) if high > low else 0.0, atol=1e-6
        )
    for probability in (0.01, 0.5, 0.99):
        place = own.quantile(probability)
        np.testing.assert_allclose(own._sides(place)[0], probability, atol=1e-8)
    np.testing.assert_allclose(
        own.mean, weibull_min(1.7).mean() * np.exp(location + 0.5 * sd**2), rtol=1e-6
    )


class Plain(CountingOutcome):
    """Poisson counts without what the library's have besides."""

    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:
        return PoissonOutcome().log_density(values, locations, cases)

    def moments(self, locations: Array) -> tuple[Array, Array]:
        return np.exp(locations), np.exp(locations)

    def below(self, values: Array, locations: Array) -> Array:
        return PoissonOutcome().below(values, locations)

    def derivatives(self, values: Array, locations: Array) -> tuple[Array, Array]:
        return PoissonOutcome().derivatives(values, locations)


def test_a_family_with_no_more_than_is_needed_predicts_as_well() -> None:
    own, whole = mixture(Plain(), 1.0, 0.8), mixture(PoissonOutcome(), 1.0, 0.8)
    np.testing.assert_allclose(own.mean, whole.mean, rtol=1e-9)
    np.testing.assert_allclose(own.std, whole.std, rtol=1e-9)
    np.testing.assert_allclose(own.cdf([3.0]), whole.cdf([3.0]), rtol=1e-7)
    np.testing.assert_allclose(own.log_density([3.0]), whole.log_density([3.0]), rtol=1e-9)


def test_sure_locations_have_the_distribution_itself() -> None:
    own = mixture(PoissonOutcome(), 1.2, 0.0)
    np.testing.assert_allclose(own.cdf([4.0]), poisson.cdf(4, np.exp(1.2)))
    np.testing.assert_allclose(own.log_density([4.0]), poisson.logpmf(4, np.exp(1.2)))


def test_draws_and_locations_of_every_kind_together() -> None:
    """Each component of a mixture is what it is by itself."""
    rng = np.random.default_rng(0)
    locations, sds = rng.normal(1.0, 2.0, (8, 3)), rng.choice([0.0, 1e-4, 0.2, 5.0], (8, 3))
    values = np.array([0.0, 4.0, 900.0])
    below, above = expected_sides(PoissonOutcome(), values, locations, sds)
    for s, case in np.ndindex(8, 3):
        alone = expected_sides(
            PoissonOutcome(),
            values[case : case + 1],
            locations[s : s + 1, case : case + 1],
            sds[s : s + 1, case : case + 1],
        )
        np.testing.assert_allclose([below[s, case], above[s, case]], np.ravel(alone), atol=1e-12)


def test_a_peak_is_found_however_far_it_is() -> None:
    start = np.array([-300.0, 0.0, 40.0, 100.0])
    integrand = Integrand(
        lambda x: 3.0 * x - np.exp(x), lambda x: (3.0 - np.exp(x), np.exp(np.minimum(x, 600.0)))
    )
    peak, width = find_peak(integrand, start, np.ones(4))
    np.testing.assert_allclose(peak, np.log(3.0), atol=0.05)
    np.testing.assert_allclose(width, 3.0**-0.5, rtol=0.05)
    assert ndtr(0.0) == 0.5
