"""Special functions against many-digit references and the inequalities they obey."""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualview.numerics.special import log1pmx, log_gamma, stirling_remainder
from yardsticks import EPSILON, PI, precise, precise_log_gamma, python_of

POSITIVE = np.concatenate(
    [np.logspace(-30, 15, 181), np.linspace(0.01, 25, 200), [9.999999, 10.0, 10.000001, 1.0, 2.0]]
)
ANY = st.floats(1e-300, 1e300)
SETTINGS = settings(derandomize=True, deadline=None, max_examples=200)


@precise
def exact_log1pmx(x):
    return (1 + x).ln() - x


@precise
def exact_remainder(x):
    return precise_log_gamma(x) - ((x - Decimal("0.5")) * x.ln() - x + (2 * PI).ln() / 2)


exact_log_gamma = precise(precise_log_gamma)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_log1pmx_has_all_digits_near_zero(sign):
    for x in sign * np.concatenate([np.logspace(-30, -1, 120), np.linspace(0.1, 0.9, 81)]):
        assert log1pmx(x) == pytest.approx(exact_log1pmx(x), rel=64 * EPSILON, abs=0.0)


def test_log1pmx_far_from_zero():
    for x in [*np.logspace(0, 30, 61), -0.999, -1 + 1e-9, -1 + 2**-53]:
        assert log1pmx(x) == pytest.approx(exact_log1pmx(x), rel=8 * EPSILON)
    assert log1pmx(0.0) == 0.0
    assert log1pmx(1e-200) == 0.0
    assert log1pmx(1e-150) == pytest.approx(-0.5e-300)


@SETTINGS
@given(st.floats(-0.999, 1e6))
def test_log1pmx_is_negative_and_below_its_parabola_on_the_left(x):
    value = log1pmx(x)
    assert value <= 0.0
    parabola = -0.5 * x * x
    assert (value - parabola) * x >= -1e-14 * abs(parabola * x)


def test_stirling_remainder_has_all_the_digits_of_log_gamma():
    for x in POSITIVE:
        terms = abs((x - 0.5) * math.log(x)) + x + 1.0 if x < 10.0 else 0.0
        exact = exact_remainder(x)
        assert abs(stirling_remainder(x) - exact) <= 4 * EPSILON * terms + 32 * EPSILON * abs(exact)


@SETTINGS
@given(ANY)
def test_stirling_remainder_lies_within_robbins_bounds(x):
    value = stirling_remainder(x)
    slack = 1e-13 * max(1.0, value) if x < 10.0 else 2 * EPSILON * value
    assert 1.0 / (12.0 * x + 1.0) - slack <= value <= 1.0 / (12.0 * x) + slack


@SETTINGS
@given(st.floats(0.01, 1e6))
def test_stirling_remainder_follows_from_the_recurrence_of_gamma(x):
    difference = stirling_remainder(x) - stirling_remainder(x + 1.0)
    assert difference == pytest.approx((x + 0.5) * math.log1p(1.0 / x) - 1.0, rel=1e-12, abs=4e-14)


def test_log_gamma_has_its_digits():
    """Relative to its terms: near 1 and 2, where it is 0, they cancel."""
    for x in POSITIVE:
        exact = exact_log_gamma(x)
        shifted = max(x, 10.0)
        terms = shifted * math.log(shifted) if x < 10.0 else 0.0
        assert abs(log_gamma(x) - exact) <= 8 * EPSILON * (abs(exact) + terms)
    assert abs(log_gamma(1.0)) <= 1e-14
    assert abs(log_gamma(2.0)) <= 1e-14


@SETTINGS
@given(st.floats(1e-3, 1e6))
def test_log_gamma_follows_the_recurrence_and_the_library(x):
    assert log_gamma(x + 1.0) - log_gamma(x) == pytest.approx(
        math.log(x), rel=1e-13, abs=1e-14 * (20.0 + log_gamma(x + 2.0))
    )
    assert log_gamma(x) == pytest.approx(math.lgamma(x), rel=1e-14, abs=2e-14)


@pytest.mark.parametrize("kernel", [log1pmx, log_gamma, stirling_remainder])
def test_compiled_numbers_are_those_of_python(kernel):
    lowest = (
        10.0 if kernel is stirling_remainder else 1e-8
    )  # below 10 it asks two libraries for lnΓ
    for x in [*np.geomspace(lowest, 1e8, 200), 10.0, 10.5]:
        assert kernel(x) == python_of(kernel)(float(x))
