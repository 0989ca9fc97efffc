"""The normal distribution between two bounds, against numbers of many digits and by its own
definition."""

import numpy as np
import pytest
from scipy.special import ndtr

from dualview.distributions import log_normal_mass, normal_quantiles_between

BOUNDS = [
    (-1.0, 0.5),
    (-np.inf, -40.0),
    (40.0, np.inf),
    (30.0, 30.001),
    (-8.0, 9.0),
    (2.0, 2.0 + 1e-9),
    (-50.0, -49.0),
]


def by_nodes(low: float, high: float) -> float:
    """By Gauss and Legendre's rule on the part that has mass."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    peak = float(np.clip(0.0, low, high))
    reach = np.sqrt(peak**2 + 90.0) - abs(peak)
    low, high = max(low, peak - reach - 5.0), min(high, peak + reach + 5.0)
    points = low + 0.5 * (high - low) * (nodes + 1.0)
    total = 0.5 * (high - low) * (weights * np.exp(-0.5 * (points - peak) * (points + peak))).sum()
    return float(np.log(total) - 0.5 * peak**2 - 0.5 * np.log(2.0 * np.pi))


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_mass_far_out_and_between_close_bounds(low: float, high: float) -> None:
    width = 1e-9 if high - low < 1e-6 else high - low
    found = log_normal_mass(np.array([low]), np.array([high]), np.array([width]))[0]
    expected = (
        by_nodes(low, high) if width != 1e-9 else -2.0 - 0.5 * np.log(2.0 * np.pi) + np.log(1e-9)
    )
    assert found == pytest.approx(expected, rel=1e-9)


def test_bounds_that_rounding_has_joined_have_a_mass() -> None:
    found = log_normal_mass(np.array([1e8, -1e8]), np.array([1e8, -1e8]), np.full(2, 1e-9))
    np.testing.assert_allclose(found, -0.5e16 + np.log(1e-9), rtol=1e-12)


def test_mass_of_two_formulas_meets() -> None:
    """On either side of where the far tail begins, the mass per density changes as 1/bound."""
    bounds = np.array([-0.99999e5, -1.00001e5])
    found = log_normal_mass(bounds - 1e-5, bounds, np.full(2, 1e-5)) + 0.5 * bounds**2
    np.testing.assert_allclose(np.exp(found[1] - found[0]), 1.0, atol=1e-4)


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_quantiles_lie_between_the_bounds_in_order(low: float, high: float) -> None:
    levels = np.array([0.0, 1e-12, 0.2, 0.5, 0.9, 1.0])
    found = normal_quantiles_between(
        levels, *(np.full(6, bound) for bound in (low, high, high - low))
    )
    assert np.isfinite(found).all()
    assert (np.diff(found) >= 0).all()
    assert low <= found.min() <= found.max() <= high


def test_quantiles_are_the_inverse_of_the_distribution_function() -> None:
    low, high, levels = (
        np.array([-2.0, 0.3, 3.0]),
        np.array([0.7, np.inf, 5.0]),
        np.array([0.1, 0.6, 0.8]),
    )
    found = normal_quantiles_between(levels, low, high, high - low)
    np.testing.assert_allclose(
        (ndtr(found) - ndtr(low)) / (ndtr(high) - ndtr(low)), levels, rtol=1e-9
    )
