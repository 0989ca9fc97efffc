"""Compiled normal distributions, and what is made of them, against SciPy."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from dualview.distributions import log_normal_mass, normal_quantiles_between
from dualview.numerics.compiling import compiled
from dualview.numerics.logistic import expected_shares
from dualview.numerics.mixtures import quantiles
from dualview.numerics.normal import interval_mass, interval_quantile, tail_quantile, upper_tail


@compiled
def tails_and_back(x):
    found = np.empty((2, x.shape[0]))
    for i in range(x.shape[0]):
        found[0, i] = upper_tail(x[i])
        found[1, i] = tail_quantile(found[0, i])
    return found


@compiled
def between(levels, low, high, width):
    found = np.empty((2, low.shape[0]))
    for i in range(low.shape[0]):
        probability = interval_mass(low[i], high[i], width[i])
        found[0, i] = np.log(probability[0]) + probability[1]
        found[1, i] = interval_quantile(levels[i], low[i], high[i], width[i], probability)
    return found


def test_tails_and_their_quantiles() -> None:
    x = np.concatenate([np.linspace(-8.0, 37.0, 4001), [-37.0, 0.0]])
    tails, back = tails_and_back(x)
    np.testing.assert_allclose(tails, ndtr(-x), rtol=1e-10)
    inside = x > -5.0
    np.testing.assert_allclose(back[inside], -ndtri(ndtr(-x[inside])), rtol=1e-8, atol=1e-9)


def test_intervals_however_far_out_or_narrow() -> None:
    rng, n = np.random.default_rng(0), 20_000
    low = rng.choice([0.1, 1.0, 8.0, 60.0], n) * rng.standard_normal(n)
    width = 10.0 ** rng.uniform(-9.0, 2.0, n)
    width[:500], low[500:1000] = np.inf, -np.inf
    high = np.where(np.isinf(low), rng.standard_normal(n) * 20.0, low + width)
    width[500:1000], levels = np.inf, rng.random(n)
    log_mass, places = between(levels, low, high, width)
    expected = log_normal_mass(low, high, width)
    np.testing.assert_allclose(log_mass, expected, rtol=1e-8, atol=1e-8)
    assert ((low <= places) & (places <= high)).all()
    wanted = normal_quantiles_between(levels, low, high, width)
    np.testing.assert_allclose(places, wanted, rtol=1e-6, atol=1e-6)


def test_expected_shares_against_quadrature() -> None:
    nodes, weights = np.polynomial.hermite_e.hermegauss(180)
    grid = np.meshgrid([0.0, 1e-6, 0.3, 1.0, 3.9], [-40.0, -3.0, 0.0, 0.7, 40.0])
    sds, locations = (part.ravel() for part in grid)
    yes, no = expected_shares(locations, sds)
    x = locations[:, None] + sds[:, None] * nodes
    for found, sign in ((yes, 1.0), (no, -1.0)):
        expected = (weights / weights.sum() / (1.0 + np.exp(-sign * x))).sum(axis=1)
        wide = sds > 3.0  # where the quadrature is not as good
        np.testing.assert_allclose(found[~wide], expected[~wide], rtol=1e-12)
        np.testing.assert_allclose(found[wide], expected[wide], rtol=1e-4)
    np.testing.assert_allclose(yes + no, 1.0, rtol=1e-14)


@pytest.mark.parametrize("n_components", [1, 7, 3000])
@pytest.mark.parametrize("spread", [0.0, 8.0])
def test_quantiles_are_roots_of_the_distribution_function(n_components: int, spread: float) -> None:
    """Of components that may be many orders of magnitude wider than others."""
    rng = np.random.default_rng(n_components)
    weights = rng.dirichlet(np.ones(n_components), 5)
    sds = np.exp(spread * rng.standard_normal((5, n_components)))
    parts = np.stack([weights, 3.0 * rng.standard_normal((5, n_components)), sds], axis=1)
    levels = np.array([0.025, 0.5, 0.9])
    found = quantiles(levels, parts)
    for (own, locations, scales), places in zip(parts, found, strict=True):
        below = [own @ ndtr((y - locations) / scales) for y in places]
        np.testing.assert_allclose(below, levels, rtol=0.0, atol=1e-11)


@pytest.mark.parametrize(
    ("location", "sd"), [(1e6, 10.0), (1e6, 0.01), (1.7e9, 3600.0), (-3.0, 1e-9)]
)
def test_quantiles_of_one_narrow_component(location: float, sd: float) -> None:
    levels = np.array([0.025, 0.5, 0.975])
    found = quantiles(levels, np.array([[[1.0], [location], [sd]]]))[0]
    rounding = 4e-13 * abs(location) / sd + 1e-9
    np.testing.assert_allclose((found - location) / sd, ndtri(levels), atol=rounding)


@pytest.mark.parametrize(("n_components", "spread"), [(400, 0.1), (4000, 0.5)])
def test_quantiles_among_spikes(n_components: int, spread: float) -> None:
    """Draws that have no spread of their own, which count as very narrow components."""
    rng = np.random.default_rng(n_components)
    levels = np.linspace(0.02, 0.98, 30)
    for _ in range(3):
        locations = rng.normal(1.0, spread, n_components)
        weights = np.full(n_components, 1.0 / n_components)
        sds = 1e-6 * (1.0 + abs(locations))
        found = quantiles(levels, np.array([[weights, locations, sds]]))[0]
        below = ndtr((found[:, None] - locations) / sds).mean(axis=1)
        np.testing.assert_allclose(below, levels, atol=1e-6)


def test_single_values_have_quantiles_too() -> None:
    parts = np.array([[[0.3, 0.3, 0.4], [1.0, 2.0, 5.0], [0.0, 0.0, 0.0]]])
    np.testing.assert_allclose(quantiles(np.array([0.1, 0.5, 0.9]), parts), [[1.0, 2.0, 5.0]])


def test_a_gap_of_the_distribution_has_its_quantile_inside() -> None:
    parts = np.array([[[0.5, 0.5], [-10.0, 10.0], [0.1, 0.1]]])
    (low, high) = quantiles(np.array([0.4, 0.6]), parts)[0]
    expected = brentq(lambda y: 0.5 * ndtr((y + 10.0) / 0.1) - 0.4, -11.0, -9.0, xtol=1e-13)
    assert low == pytest.approx(expected, rel=1e-9)
    assert high == pytest.approx(-expected, rel=1e-9)


def test_expected_shares_far_out() -> None:
    locations, sds = np.array([-698.0, -690.0, 650.0]), np.array([3.9, 3.9, 2.0])
    yes, no = expected_shares(locations, sds)
    small = np.where(locations < 0.0, yes, no)
    np.testing.assert_allclose(np.log(small), -abs(locations) + 0.5 * sds**2, rtol=1e-12)
    np.testing.assert_allclose(yes + no, 1.0)
