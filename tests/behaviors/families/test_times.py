"""Families of times: their distributions against SciPy, derivatives, predictions against integrals,
the augmentation of log-logistic ones and the conditional of the shape."""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import dualview as dv
from dualview.behaviors.families import times
from dualview.behaviors.families.base import Given, Parts, Rows
from dualview.behaviors.families.interval import Ends
from dualview.behaviors.families.noise import NoisePrior, SharedNoise
from dualview.behaviors.families.times import ERRORS, FAMILIES, TimeFamily, TimeOutcome, outcome_of
from dualview.behaviors.recorded import RecordedTimes
from dualview.errors import InputError

Array = Any
CENSORED = tuple(ERRORS)
LOW = np.array([0.4, 3.0, 0.0, 0.5, 1e-9, 2.0, 7.0])
HIGH = np.array([0.4, 3.0, 2.5, 0.9, 30.0, np.inf, np.inf])
ENDS = np.column_stack([LOW, HIGH])


def frozen(family: str, location: float, precision: float) -> Any:
    """The same distribution of SciPy's."""
    if family == "log-normal":
        return stats.lognorm(precision**-0.5, scale=np.exp(location))
    shape = ERRORS[family].sd * precision**0.5
    kind = stats.weibull_min if family == "weibull" else stats.fisk
    return kind(shape, scale=np.exp(location))


def log_probability(law: Any, low: float, high: float) -> float:
    if low == high:
        return float(law.logpdf(low))
    if not np.isfinite(high):
        return float(law.logsf(low))
    return float(np.log(max(law.sf(low) - law.sf(high), law.cdf(high) - law.cdf(low))))


@pytest.mark.parametrize("family", FAMILIES)
def test_densities_are_those_of_scipy(family: str) -> None:
    precisions, eta = np.array([0.3, 2.0]), np.linspace(-1.0, 1.5, 14).reshape(2, 7)
    outcome = outcome_of(family, precisions, RecordedTimes())
    found = outcome.log_density(ENDS, eta, slice(0, 7))
    for s in range(2):
        for i in range(7):
            law = frozen(family, eta[s, i], precisions[s])
            assert found[s, i] == pytest.approx(log_probability(law, LOW[i], HIGH[i]), abs=1e-8)


@pytest.mark.parametrize("family", CENSORED)
def test_derivatives_are_differences(family: str) -> None:
    eta = np.linspace(-1.0, 1.5, 7)
    outcome = TimeOutcome(np.array([1.7]), ERRORS[family], RecordedTimes())
    slope, bend = outcome.derivatives(ENDS, eta)
    low, middle, high = (
        outcome.log_density(ENDS, (eta + step)[None], slice(0, 7))[0] for step in (-1e-4, 0.0, 1e-4)
    )
    np.testing.assert_allclose(slope, (high - low) / 2e-4, atol=1e-5)
    np.testing.assert_allclose(bend, (2.0 * middle - low - high) / 1e-8, rtol=1e-3, atol=1e-5)
    fall = outcome.fall(np.full(7, 1.3), eta)
    below = [outcome.below(np.full(7, 1.3), eta + step) for step in (-1e-5, 1e-5)]
    np.testing.assert_allclose(np.exp(fall.value), (below[0] - below[1]) / 2e-5, rtol=1e-6)
    steps = [outcome.fall(np.full(7, 1.3), eta + step).value for step in (-1e-4, 1e-4)]
    np.testing.assert_allclose(fall.slope, (steps[1] - steps[0]) / 2e-4, atol=1e-6)


@pytest.mark.parametrize("family", CENSORED)
def test_densities_have_their_digits_far_out(family: str) -> None:
    """Where probabilities are no numbers any more their logarithms still are."""
    errors = ERRORS[family]
    with np.errstate(all="raise", under="ignore"):
        ends = np.array([[-900.0, -899.0], [-np.inf, -800.0], [5.0, np.inf], [-1e-9, 1e-9]]).T
        found = errors.log_mass(*ends)
        slope, bend = errors.mass_derivatives(*ends)
    assert np.isfinite(found).all()
    assert np.isfinite(slope).all()
    assert (bend >= 0.0).all()
    assert found[0] == pytest.approx(-899.0 + np.log(1.0 - np.exp(-1.0)), rel=1e-9)
    assert found[3] == pytest.approx(np.log(2e-9) + errors.log_density(np.zeros(1))[0], rel=1e-6)


LOCATIONS, SDS = np.array([[0.5, 1.0], [1.0, -1.0]]), np.array([[0.4, 0.0], [0.4, 1.5]])


def mixture(family: str, precisions: Array) -> Any:
    even, outcome = np.full((2, 1), np.log(0.5)), outcome_of(family, precisions, RecordedTimes())

    def parts(cases: slice) -> Parts:
        noise = outcome.spread(cases) ** 2
        return Parts(even, LOCATIONS[:, cases], np.sqrt(SDS[:, cases] ** 2 + noise))

    return outcome.predictive(2, 2, parts)


@pytest.mark.parametrize("family", FAMILIES)
def test_predictions_integrate_over_unsure_locations(family: str) -> None:
    precisions = np.array([1.5, 2.5])
    predicted = mixture(family, precisions)

    def expected(function: Any, case: int) -> float:
        total = 0.0
        for s in range(2):
            m, sd, own = LOCATIONS[s, case], SDS[s, case], precisions[s]
            if sd == 0.0:
                total += 0.5 * function(frozen(family, m, own))
                continue

            def value(u: float, m: float = m, sd: float = sd, own: float = own) -> float:
                with np.errstate(divide="ignore"):  # inside SciPy, far out
                    return float(function(frozen(family, m + sd * u, own)) * stats.norm.pdf(u))

            total += 0.5 * quad(value, -8.5, 8.5, limit=200)[0]
        return total

    y = np.array([2.0, 1.1])
    wanted = [expected(lambda law, t=t: law.pdf(t), i) for i, t in enumerate(y)]
    np.testing.assert_allclose(np.exp(predicted.log_density(y)), wanted, rtol=1e-6)
    beyond = np.array(
        [[expected(lambda law, t=t: law.sf(t), i) for t in (0.5, 4.0)] for i in (0, 1)]
    )
    np.testing.assert_allclose(predicted.survival([0.5, 4.0]), beyond, rtol=1e-6)
    np.testing.assert_allclose(predicted.survival(0.5), beyond[:, 0], rtol=1e-6)
    assert (predicted.survival([0.0, 1e90])[:, 0] == 1.0).all()
    known = predicted.log_density(dv.Censored([0.5, 4.0], [4.0, np.inf]))
    np.testing.assert_allclose(
        np.exp(known), [beyond[0, 0] - beyond[0, 1], beyond[1, 1]], rtol=1e-6
    )
    np.testing.assert_allclose(
        predicted.mean, [expected(lambda law: law.mean(), i) for i in (0, 1)], rtol=1e-6
    )
    for probability in (0.1, 0.5, 0.95):
        found = predicted.quantile(probability)
        np.testing.assert_allclose(predicted.cdf(found), probability, rtol=1e-7)
    drawn = predicted.draws(4000, seed=1)
    share = (drawn > 1.5).mean(axis=0)
    error = np.sqrt(share * (1.0 - share) / 4000)
    assert (np.abs(share - predicted.survival(1.5)) < 4.5 * error).all()
    for bad in (-1.0, [[1.0]]):
        with pytest.raises(InputError, match="must be a time from 0"):
            predicted.survival(bad)


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_and_what_is_recorded_of_them(family: str) -> None:
    rng, eta = np.random.default_rng(4), np.full(3000, 0.3)
    outcome = outcome_of(family, np.array([1.4]), RecordedTimes())
    drawn = outcome.draw(rng, eta[None], slice(0, 3000))[0]
    assert stats.kstest(drawn, frozen(family, 0.3, 1.4).cdf).pvalue > 1e-4
    again = outcome.draw_again(rng, drawn, eta)
    assert stats.ks_2samp(drawn, again).pvalue > 1e-4
    ends = np.column_stack([np.full(3000, 1.0), np.full(3000, np.inf)])
    low, high = outcome.draw_again(rng, ends, eta).T
    assert (low <= 1.0).all()
    np.testing.assert_array_equal(np.isinf(high), low == 1.0)
    np.testing.assert_array_equal(low[low < 1.0], high[low < 1.0])


def rows(family: str) -> tuple[TimeFamily, Rows]:
    rng = np.random.default_rng(3)
    low, high = np.log(np.maximum(LOW, 1e-300)), np.log(HIGH)
    low = np.where(LOW == 0.0, -np.inf, low)
    y = Ends(low, high, np.where(np.isfinite(low), low, 0.0))
    made = TimeFamily(SharedNoise(NoisePrior(0.7, 2.0)), errors=ERRORS[family])
    return made, Rows(y, 0.5 * rng.standard_normal(7), np.zeros(7, dtype=np.int64), 1)


def test_the_augmentation_has_the_score_of_the_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    """On average over the augmentation given the rows, slopes are those of the log likelihood: so
    it is with the Pólya–Gamma variables at their means, in which they are linear."""
    made, own = rows("log-logistic")
    phi = {"noise_precision": 1.3}

    def means(_: Any, odds: Array, result: Array) -> None:
        result[:] = np.tanh(0.5 * odds) / (2.0 * odds)

    monkeypatch.setattr(times.polya_gamma, "draw_into", means)
    residual, precision = made.augment(np.random.default_rng(0), own, phi)
    slope, _ = made.outcome(phi, own).derivatives(own.y, own.eta)
    np.testing.assert_allclose(residual * precision, slope, rtol=1e-10)


@pytest.mark.parametrize("family", CENSORED)
def test_the_conditional_of_the_precision_is_the_joint(family: str) -> None:
    """Log joint − log conditional is constant; the joint is from SciPy's distributions."""
    made, own = rows(family)
    density = made.noise.prior.log_density(
        lambda noise: made.noise_likelihood(own)(noise, np.arange(7))
    )
    differences = []
    for precision in (0.3, 0.9, 1.6, 4.0):
        laws = [frozen(family, eta, precision) for eta in own.eta]
        likelihood = sum(log_probability(law, *ends) for law, ends in zip(laws, ENDS, strict=True))
        prior = stats.gamma.logpdf(precision, 0.5 * 2.0, scale=1.0 / (0.5 * 2.0))
        differences.append(likelihood + prior + np.log(precision) - density(np.log(precision)))
    np.testing.assert_allclose(differences, differences[0], atol=1e-8)
    given = Given(own, {"noise_precision": 1.0}, None, own.user)  # type: ignore[arg-type]
    assert made.redraw(np.random.default_rng(0), given)["noise_precision"] > 0.0
