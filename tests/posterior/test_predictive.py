"""Mixtures of normals: densities, quantiles and moments against direct formulas."""

import numpy as np
import pytest
from scipy.stats import norm

from dualview.errors import InputError
from dualview.posterior import predictive
from dualview.posterior.predictive import NormalMixture, Parts

RNG = np.random.default_rng(0)
S, N = 40, 7
LOCATIONS = RNG.normal(0, 5, (S, N))
SDS = RNG.gamma(2.0, 1.0, S)
WEIGHTS = RNG.dirichlet(np.ones(S), N).T


def even() -> NormalMixture:
    return NormalMixture.over_draws(N, lambda cases: LOCATIONS[:, cases], SDS)


def weighted() -> NormalMixture:
    return NormalMixture(N, S, lambda cases: Parts(np.log(WEIGHTS[:, cases]), LOCATIONS[:, cases], SDS[:, None]))


@pytest.mark.parametrize(("mixture", "weights"), [(even(), np.full((S, N), 1 / S)), (weighted(), WEIGHTS)])
def test_against_direct_formulas(mixture: NormalMixture, weights: np.ndarray) -> None:
    y = RNG.normal(0, 5, N)
    density = (weights * norm.pdf(y, LOCATIONS, SDS[:, None])).sum(axis=0)
    np.testing.assert_allclose(mixture.log_density(y), np.log(density), rtol=1e-12)
    assert mixture.nll(y) == pytest.approx(-np.log(density).mean())
    np.testing.assert_allclose(mixture.cdf(y), (weights * norm.cdf(y, LOCATIONS, SDS[:, None])).sum(axis=0))
    mean = (weights * LOCATIONS).sum(axis=0)
    np.testing.assert_allclose(mixture.mean, mean)
    second = (weights * (LOCATIONS**2 + SDS[:, None] ** 2)).sum(axis=0)
    np.testing.assert_allclose(mixture.std, np.sqrt(second - mean**2))


def test_interval_is_central_in_the_mixture() -> None:
    mixture = weighted()
    interval = mixture.interval(0.8)
    np.testing.assert_allclose(mixture.cdf(interval[:, 0]), 0.1, atol=1e-7)
    np.testing.assert_allclose(mixture.cdf(interval[:, 1]), 0.9, atol=1e-7)


def test_interval_of_two_modes_is_no_normal_approximation() -> None:
    """Half at −10 and half at 10 with sd 1: the central 95 % ends near ±11.6, a normal approximation would end near ±19.7."""
    mixture = NormalMixture.over_draws(1, lambda _: np.array([[-10.0], [10.0]]), np.ones(2))
    np.testing.assert_allclose(mixture.interval(0.95)[0], [-10 - norm.ppf(0.95), 10 + norm.ppf(0.95)], rtol=1e-6)


def test_log_of_the_mean_density_not_mean_of_logs() -> None:
    mixture = NormalMixture.over_draws(1, lambda _: np.array([[0.0], [30.0]]), np.ones(2))
    assert mixture.log_density([0.0])[0] == pytest.approx(np.log(0.5) + norm.logpdf(0.0))


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    y = RNG.normal(0, 5, N)
    whole = weighted()
    expected = whole.mean, whole.std, whole.log_density(y), whole.interval(0.5)
    monkeypatch.setattr(predictive, "_CELLS", 2 * S)
    small = weighted()
    for a, b in zip(expected, (small.mean, small.std, small.log_density(y), small.interval(0.5)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)


def test_draws_follow_the_mixture() -> None:
    mixture = weighted()
    draws = mixture.draws(20_000, seed=3)
    scores = (draws.mean(axis=0) - mixture.mean) / (mixture.std / np.sqrt(20_000))
    assert np.abs(scores).max() < 4.5
    below = (draws < mixture.quantile(0.3)).mean(axis=0)
    assert (np.abs(below - 0.3) / np.sqrt(0.21 / 20_000)).max() < 4.5
    np.testing.assert_array_equal(draws, mixture.draws(20_000, seed=3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.interval(1.0), "between 0 and 1; got 1.0"),
        (lambda m: m.quantile(0.0), "between 0 and 1; got 0.0"),
        (lambda m: m.log_density([1.0]), "one value per case, 7; got 1"),
        (lambda m: m.nll(np.full(N, np.nan)), "y must be finite"),
    ],
)
def test_bad_arguments(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(even())  # type: ignore[operator]
