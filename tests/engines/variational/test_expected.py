"""Counts and times in the variational engine: expectations and messages against integrals, the
bound against the evidence, and where steps end."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import gamma, norm

import dualview as dv
from dualview.behaviors.approximation.latent import SoftPrior
from dualview.behaviors.approximation.stepwise import StepwiseRows, stepwise
from dualview.behaviors.families.base import Moments
from dualview.behaviors.families.expected import ExpectedFactor, Grid
from dualview.behaviors.families.negative_binomial import NegativeBinomialFamily
from dualview.behaviors.likelihoods.user_rows import UserRows

FAMILIES = ["poisson", "negative binomial", "weibull", "log-logistic"]
LEARNED = FAMILIES[1:]
COUNTS = np.array([0.0, 1.0, 3.0, 12.0])
TIMES = dv.Censored([0.5, 0.0, 2.0, 1.0], [0.5, 0.7, np.inf, 3.0])  # seen, and known to intervals


def _likelihood(family: str, user: Any = (0, 0, 0, 0), n_users: int = 1) -> UserRows:
    design, users = np.ones((4, 1)), {"n_users": n_users}
    if family in ("poisson", "negative binomial"):
        exposure = [1.0, 0.5, 2.0, 1.0]
        own = dv.CountOutcomes(user, design, COUNTS, exposure=exposure, family=family, **users)
    else:
        own = dv.SurvivalOutcomes(user, design, TIMES, family=family, **users)
    found = own.prepare(dv.GaussianPrior([0.5], [[1.0]]))[1]
    assert isinstance(found, UserRows)
    return found


def _prior(scale: float = 1.0) -> SoftPrior:
    one = np.eye(1)
    return SoftPrior(np.ones((1, 1)), scale * one[None], one, np.zeros(1), np.zeros((1, 1)))


def _solved(family: str) -> StepwiseRows:
    latent = stepwise(_likelihood(family).approximate())
    for _ in range(30):
        latent = latent.with_latent(_prior()).with_params()
    assert isinstance(latent, StepwiseRows)
    return latent


def _log_p(latent: StepwiseRows, eta: np.ndarray, x: float = 0.0) -> np.ndarray:
    """ln p of every row at each of these locations, (S, n)."""
    own = latent.likelihood
    name = latent.factor.parameter
    rows = own.rows(np.zeros((1, 1)), {})
    outcome = own.family.outcome({} if name is None else {name.name: np.exp(x)}, rows)
    return outcome.log_density(own.observed, np.repeat(eta[:, None], 4, axis=1), slice(0, 4))


@pytest.mark.parametrize("family", FAMILIES)
def test_expectations_and_messages_are_integrals(family: str) -> None:
    latent = stepwise(_likelihood(family).approximate())
    mean, sd = np.array([0.3, -0.5, 0.9, 1.8]), np.array([0.4, 0.8, 0.3, 0.6])

    def total(mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
        """E ln p of each row."""

        def value(z: float, i: int) -> float:
            return float(norm.pdf(z) * _log_p(latent, mean[i : i + 1] + sd[i] * z)[0, i])

        return np.array([quad(value, -9.0, 9.0, (i,), epsabs=1e-11)[0] for i in range(4)])

    moments = Moments(mean, lambda: 0.0, lambda: sd**2)
    y = latent.likelihood.observed
    factor = replace(latent.factor, grid=Grid.start())
    told = factor.bound(y, moments)
    if factor.parameter is not None:
        own = {factor.parameter.name: 1.0}
        constants = factor.parameter.log_constant + factor.grid.entropy
        told -= factor.family.log_prior(own) + constants
    assert told == pytest.approx(total(mean, sd).sum(), rel=1e-5)
    toward = factor.towards(y, moments)
    step = 1e-3
    slope = (total(mean + step, sd) - total(mean - step, sd)) / (2.0 * step)
    wider, narrower = np.sqrt(sd**2 + step), np.sqrt(sd**2 - step)
    bend = -(total(mean, wider) - total(mean, narrower)) / step  # d/dv E = E of half the bend
    np.testing.assert_allclose(toward.precision, bend, rtol=1e-3)
    np.testing.assert_allclose(toward.linear - toward.precision * mean, slope, atol=1e-3)


def test_the_prior_of_a_dispersion_has_a_total_of_one() -> None:
    family = NegativeBinomialFamily()
    parameter = family.expect(COUNTS).parameter
    assert parameter is not None

    def density(x: float) -> float:
        log_prior = family.log_prior({"dispersion": float(np.exp(x))})
        return float(np.exp(log_prior + x + parameter.log_constant))

    assert quad(density, -60.0, 90.0, limit=400)[0] == pytest.approx(1.0, rel=1e-8)


def test_a_grid_has_the_shape_of_a_density() -> None:
    """Of the logarithm of a gamma variable, near and far from where the search begins."""
    for shape, start in ((3.0, 0.0), (4000.0, 0.0), (0.5, 20.0)):
        known = gamma(shape)
        grid = Grid.of(lambda x, p=known: float(p.logpdf(np.exp(x)) + x), Grid.start().at(start))
        assert grid.shares.sum() == pytest.approx(1.0)
        assert grid.shares @ np.exp(grid.places) == pytest.approx(shape, rel=1e-4)
        truth = -quad(
            lambda x, p=known: p.pdf(np.exp(x)) * np.exp(x) * (p.logpdf(np.exp(x)) + x),
            np.log(known.ppf(1e-12)),
            np.log(known.isf(1e-12)),
        )[0]
        assert grid.entropy == pytest.approx(truth, abs=1e-4)
        rng, n = np.random.default_rng(0), 1000
        drawn = np.array([grid.draw(rng) for _ in range(n)])
        assert abs(drawn.mean() - grid.mean) < 4.5 * drawn.std() / np.sqrt(n)
        middle = grid.mean
        found = grid.log_density(middle + grid.sd) - grid.log_density(middle)
        heights = known.logpdf(np.exp([middle, middle + grid.sd]))
        assert found == pytest.approx(heights[1] - heights[0] + grid.sd, abs=1e-3)
        assert grid.at(1.0).mean == pytest.approx(1.0)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_bound_is_little_below_the_evidence(family: str) -> None:
    """One user, whose vector is N(0, 2) with the mean of the component integrated out."""
    latent = _solved(family)
    constants = -np.log(2.0 * np.pi)  # of two normal densities with precision 1
    found = latent._objective(_prior()) + constants
    vectors = np.linspace(-9.0, 9.0, 1201)
    constant = latent.likelihood.constant
    shift = np.zeros(4) if constant is None else constant
    rows, one = latent.likelihood.rows(np.zeros((1, 1)), {}), latent.likelihood.family
    log_f = norm(0.0, np.sqrt(2.0)).logpdf(vectors) + np.log(vectors[1] - vectors[0])

    def log_marginal(params: dict[str, float]) -> float:
        eta = vectors[:, None] * latent.likelihood.panel.design[:, 0] + shift
        with np.errstate(over="ignore"):
            own = one.outcome(params, rows).log_density(rows.y, eta, slice(0, 4)).sum(axis=1)
        return float(logsumexp(own + log_f))

    parameter = latent.factor.parameter
    if parameter is None:
        evidence = log_marginal({})
    else:
        places = np.linspace(-12.0, 30.0, 421)
        each = []
        for x in places:
            params = {parameter.name: float(np.exp(x))}
            each.append(log_marginal(params) + one.log_prior(params) + x + parameter.log_constant)
        evidence = float(logsumexp(each) + np.log(places[1] - places[0]))
    assert evidence - 0.4 < found < evidence  # most of it that f is apart from μ, and from φ


@pytest.mark.parametrize("family", FAMILIES)
def test_where_steps_end_no_message_can_be_changed_for_the_better(family: str) -> None:
    latent, prior = _solved(family), _prior()
    best, factor = latent._objective(prior), latent.factor
    assert latent.with_latent(prior)._objective(prior) == pytest.approx(best, abs=1e-6)
    for i in range(4):
        for size in (-0.05, 0.05):
            other = size * (1.0 + abs(factor.linear[i])) * np.eye(4)[i]
            wider = factor.precision * (1.0 + size * np.eye(4)[i])
            changed = [
                replace(factor, linear=factor.linear + other),
                replace(factor, precision=wider),
            ]
            assert all(latent._solved(own, prior)._objective(prior) < best for own in changed)


@pytest.mark.parametrize("family", LEARNED)
def test_at_its_best_no_other_distribution_of_the_parameter_is_better(family: str) -> None:
    latent = _solved(family).with_params()
    best, grid = latent.bound(), latent.factor.grid
    tilted = grid.shares * np.exp(0.1 * np.arange(len(grid.shares)))
    others = [replace(grid, shares=tilted / tilted.sum()), grid.at(grid.mean + 0.2)]
    for other in others:
        assert replace(latent, factor=replace(latent.factor, grid=other)).bound() < best


def test_a_step_that_goes_too_far_is_halved() -> None:
    """From far below, where a count of 12 asks for a rate that no such step can have."""
    latent, prior = stepwise(_likelihood("poisson").approximate()), _prior()
    assert isinstance(latent.factor, ExpectedFactor)
    low = latent._solved(replace(latent.factor, linear=np.full(4, -60.0)), prior)
    full = low._solved(low.factor.towards(low.likelihood.observed, low._moments), prior)
    assert full._objective(prior) < low._objective(prior)
    assert low.with_latent(prior)._objective(prior) > low._objective(prior)
