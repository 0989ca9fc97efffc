"""The negative binomial family: its distribution, its augmentation, the draw of its dispersion, and
joint tests with mutants."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import nbinom, t

from behaviors.families.known_prior import N_USERS, PRIOR, Q, joint_scores, rows
from checks import ACCEPT, REJECT, worst
from dualview.behaviors.families import negative_binomial as families
from dualview.behaviors.families.base import Parts
from dualview.behaviors.families.negative_binomial import (
    NegativeBinomialFamily,
    NegativeBinomialOutcome,
    dispersion_density,
    log_rising,
)
from dualview.behaviors.families.poisson import PoissonOutcome
from dualview.behaviors.likelihoods.user_rows import UserRows
from yardsticks import check_mean

DISPERSIONS = (0.05, 0.7, 3.0, 50.0, 2e4)
ETA = np.linspace(-3.0, 5.0, 9)
COUNTS = np.array([0, 1, 2, 5, 9, 20, 30, 100, 400.0])


@pytest.mark.parametrize("r", DISPERSIONS)
def test_the_distribution_is_negative_binomial(r: float) -> None:
    outcome, every, chances = NegativeBinomialOutcome([r]), slice(0, 9), r / (r + np.exp(ETA))
    np.testing.assert_allclose(
        outcome.log_density(COUNTS, ETA[None], every)[0],
        nbinom.logpmf(COUNTS, r, chances),
        rtol=1e-10,
    )
    np.testing.assert_allclose(
        outcome.below(COUNTS, ETA[None])[0], nbinom.cdf(COUNTS, r, chances), atol=1e-11
    )
    mean, variance = outcome.moments(ETA[None])
    np.testing.assert_allclose([mean[0], variance[0]], nbinom.stats(r, chances), rtol=1e-9)
    step = 1e-5
    low, high = (outcome.log_density(COUNTS, (ETA + by)[None], every)[0] for by in (-step, step))
    slope, bend = outcome.derivatives(COUNTS, ETA)
    np.testing.assert_allclose(slope, (high - low) / (2.0 * step), rtol=1e-5, atol=1e-5)
    after, before = (outcome.derivatives(COUNTS, ETA + by)[0] for by in (step, -step))
    np.testing.assert_allclose(bend, (before - after) / (2.0 * step), rtol=1e-5, atol=1e-5)
    fall = outcome.fall(COUNTS, ETA[None])
    low, high = (outcome.below(COUNTS, (ETA + by)[None])[0] for by in (-step, step))
    np.testing.assert_allclose(np.exp(fall.value[0]), (low - high) / (2.0 * step), atol=1e-6)


def test_it_is_poisson_where_the_dispersion_is_large() -> None:
    found = NegativeBinomialOutcome([1e13]).log_density(COUNTS, ETA[None], slice(0, 9))
    wanted = PoissonOutcome().log_density(COUNTS, ETA[None], slice(0, 9))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    products = [np.log(r + np.arange(7.0)).sum() for r in (0.3, 5e3, 2e4, 1e15)]
    found = [float(log_rising(np.array(7.0), r)) for r in (0.3, 5e3, 2e4, 1e15)]
    np.testing.assert_allclose(found, products, rtol=1e-12)


def test_draws_have_the_moments_of_the_distribution() -> None:
    outcome, rng = NegativeBinomialOutcome([0.8, 30.0]), np.random.default_rng(0)
    locations = np.tile([[0.4], [2.0]], (1, 40_000))
    drawn = outcome.draw(rng, locations, slice(0, 40_000))
    mean, variance = outcome.moments(locations[:, :1])
    check_mean(drawn.T, mean[:, 0])
    check_mean((drawn - mean).T ** 2, variance[:, 0])


def test_predictions_have_the_dispersion_of_each_draw() -> None:
    outcome, locations = NegativeBinomialOutcome([0.5, 20.0]), np.array([[0.5, 2.0], [1.0, -1.0]])
    even = np.full((2, 1), np.log(0.5))
    mixture = outcome.predictive(
        2, 2, lambda cases: Parts(even, locations[:, cases], np.full((2, 1), 0.7))
    )
    rng = np.random.default_rng(1)
    places = locations[:, None] + 0.7 * rng.standard_normal((2, 200_000, 2))
    r = np.array([0.5, 20.0])[:, None, None]
    values = np.array([3.0, 1.0])
    for found, wanted in (
        (np.exp(mixture.log_density(values)), nbinom.pmf),
        (mixture.cdf(values), nbinom.cdf),
    ):
        check_mean(wanted(values, r, r / (r + np.exp(places))).mean(axis=0), found)
    twice = mixture.joined([mixture], np.array([0.3, 0.7]))
    np.testing.assert_allclose(twice.log_density(values), mixture.log_density(values))
    check_mean(mixture.draws(20_000), mixture.mean)


def test_given_the_augmentation_counts_are_normal() -> None:
    """ω ~ PG(y + r, ψ) has the mean (y + r) tanh(ψ/2)/(2ψ), and precision · (residual + ψ) = (y −
    r)/2."""
    r, rng = 1.7, np.random.default_rng(2)
    outcome, odds = NegativeBinomialOutcome([r]), ETA - np.log(r)
    drawn = [outcome.augment(rng, COUNTS, ETA) for _ in range(3000)]
    for residual, precision in drawn[:3]:
        np.testing.assert_allclose(precision * (residual + odds), 0.5 * (COUNTS - r))
    check_mean(
        [precision for _, precision in drawn], (COUNTS + r) * np.tanh(0.5 * odds) / (2.0 * odds)
    )


def test_the_dispersion_has_the_density_of_the_joint() -> None:
    likelihood, rng = rows(NegativeBinomialFamily()), np.random.default_rng(3)
    latent = rng.standard_normal((N_USERS, Q))
    log_density = dispersion_density(likelihood.rows(latent, {"dispersion": 1.0}))
    differences = [
        likelihood.log_density(latent, {"dispersion": np.exp(x)}) + x - log_density(x)
        for x in (-2.0, 0.0, 1.5, 6.0, 12.0)
    ]
    np.testing.assert_allclose(differences, differences[0], atol=1e-7)


def test_the_prior_is_that_of_its_draws() -> None:
    """r^{-½} is half-t with three degrees of freedom."""
    family, rng = NegativeBinomialFamily(), np.random.default_rng(4)
    drawn = np.array([family.draw_prior(rng, PRIOR.z)["dispersion"] for _ in range(4000)])
    check_mean(drawn**-0.5 < 1.0, 2.0 * t(3).cdf(1.0) - 1.0)
    spread = np.array([0.2, 1.0, 4.0])
    wanted = np.log(t(3).pdf(spread)) - 1.5 * np.log(spread**-2.0)
    found = [family.log_prior({"dispersion": r}) for r in spread**-2.0]
    np.testing.assert_allclose(np.diff(found), np.diff(wanted))


def test_vectors_do_not_creep_where_counts_are_poisson() -> None:
    """Precisions of the augmentation are then far above what counts tell."""
    likelihood, rng = rows(NegativeBinomialFamily()), np.random.default_rng(5)
    latent, params = likelihood.start(rng)
    params["dispersion"], seen = 1e7, []
    for _ in range(300):
        terms = likelihood.terms(rng, latent, params)
        latent, _ = likelihood.redraw(rng, latent, params, terms, PRIOR)
        seen.append(latent[2])
    series = np.array(seen) - np.mean(seen, axis=0)
    assert (series[1:] * series[:-1]).mean() < 0.4 * (series**2).mean()


def family() -> UserRows:
    return rows(NegativeBinomialFamily())


@pytest.mark.slow
@pytest.mark.parametrize("pooled", [False, True])
def test_steps_leave_the_joint_prior_as_it_is(pooled: bool) -> None:
    which, size = worst(joint_scores(family(), pooled=pooled))
    assert size < ACCEPT, which


def no_jacobian(monkeypatch: pytest.MonkeyPatch) -> None:
    """The density of r taken for that of ln r."""
    right = families.dispersion_density

    def wrong(rows: Any) -> Any:
        log_density = right(rows)
        return lambda x: log_density(x) - x

    monkeypatch.setattr(families, "dispersion_density", wrong)


def shape_of_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """PG(y + 1, ψ), as if r were 1; without the step that would make good for it."""
    monkeypatch.setattr(NegativeBinomialFamily, "also_steps", False)
    right = families.polya_gamma.draw_shapes_into

    class Wrong:
        @staticmethod
        def draw_shapes_into(rng: Any, shapes: Any, odds: Any, out: Any) -> None:
            right(rng, shapes - shapes.min() + 1.0, odds, out)

    monkeypatch.setattr(families, "polya_gamma", Wrong)


def gammas_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """r as if the ratio of gamma functions did not depend on it."""
    monkeypatch.setattr(families, "log_rising", lambda y, r: 0.0 * y * r)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [no_jacobian, shape_of_counts, gammas_do_not_count])
def test_a_mutant_is_rejected(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    _, size = worst(joint_scores(family(), n_chains=400, n_prior=20_000))
    assert size > REJECT
