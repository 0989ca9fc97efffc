"""Outcomes: log densities given locations, the predictive distributions they choose, and a kind
from outside the package."""

import importlib

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import logsumexp

import dualview as dv
from dualview.behaviors.families.base import Mixture, Outcome
from dualview.behaviors.families.gaussian import NormalMixture, NormalOutcome
from dualview.behaviors.families.logit import BinaryOutcome, ChoiceMixture
from dualview.behaviors.records import Forecast
from dualview.errors import InputError
from dualview.evaluation.comparison import log_likelihoods
from dualview.posterior.prediction.new_outcomes import outcomes

S, N = 6, 4
RNG = np.random.default_rng(0)
LOCATIONS = RNG.normal(size=(S, N))
SDS = RNG.gamma(2.0, size=(S, N))
ALL = slice(0, N)


def forecast(outcome: Outcome) -> Forecast:
    return Forecast(N, lambda cases: LOCATIONS[:, cases], outcome, sparse.csr_array((N, 0)))


@pytest.mark.parametrize(
    ("outcome", "sds"),
    [(NormalOutcome(SDS[:, 0]), SDS[:, :1]), (NormalOutcome(lambda cases: SDS[:, cases]), SDS)],
    ids=["one sd a draw", "one each"],
)
def test_normal_density_and_prediction(outcome: NormalOutcome, sds: np.ndarray) -> None:
    y = RNG.normal(size=N)
    expected = stats.norm.logpdf(y, LOCATIONS, sds)
    np.testing.assert_allclose(outcome.log_density(y, LOCATIONS, ALL), expected)
    predicted = outcomes(forecast(outcome), S)
    assert isinstance(predicted, NormalMixture)
    np.testing.assert_allclose(predicted.log_density(y), logsumexp(expected, axis=0) - np.log(S))


def test_numbers_without_noise_have_no_density() -> None:
    with pytest.raises(InputError, match="There is no density here"):
        NormalOutcome(np.zeros(S)).log_density(np.zeros(N), LOCATIONS, ALL)


def test_binary_density_and_prediction() -> None:
    y = np.array([0.0, 1.0, 1.0, 0.0])
    probability = 1.0 / (1.0 + np.exp(-LOCATIONS))
    expected = stats.bernoulli.logpmf(y, probability)
    np.testing.assert_allclose(BinaryOutcome().log_density(y, LOCATIONS, ALL), expected)
    np.testing.assert_allclose(
        BinaryOutcome().log_density(np.zeros(1), np.full((1, 1), 800.0), slice(0, 1)), -800.0
    )
    predicted = outcomes(forecast(BinaryOutcome()), S)
    assert isinstance(predicted, ChoiceMixture)
    np.testing.assert_allclose(predicted.mean, probability.mean(axis=0))
    np.testing.assert_allclose(predicted.log_density(y), logsumexp(expected, axis=0) - np.log(S))


def test_a_forecast_takes_an_outcome() -> None:
    with pytest.raises(
        InputError,
        match=r"a dualview.behaviors.families.Outcome, such as NormalOutcome\(sds\).*got ndarray",
    ):
        forecast(np.ones(S))  # type: ignore[arg-type]


class CountOutcome(Outcome):
    """Poisson counts; locations are the logarithms of their rates."""

    def log_density(self, values, locations, cases):  # noqa: ARG002
        return stats.poisson.logpmf(values, np.exp(locations))

    def predictive(self, n, n_components, parts):
        return CountMixture(n, n_components, parts)


class CountMixture(Mixture):
    """Counts of users of the fit, whose log rates have no spread in a draw."""

    def _rates(self):
        log_weights, locations, sds = self._parts(slice(0, self._n))
        assert not sds.any()
        return np.exp(log_weights), np.exp(locations)

    @property
    def mean(self):
        weights, rates = self._rates()
        return (weights * rates).sum(axis=0)

    @property
    def median(self):
        return np.median(self.draws(), axis=0)

    @property
    def std(self):
        weights, rates = self._rates()
        return np.sqrt((weights * (rates + rates**2)).sum(axis=0) - self.mean**2)

    def interval(self, probability=0.95):
        return np.quantile(self.draws(), [0.5 - probability / 2, 0.5 + probability / 2], axis=0).T

    def draws(self, n=1000, *, seed=0):
        rng = np.random.default_rng(seed)
        _, rates = self._rates()
        return rng.poisson(rates[rng.integers(len(rates), size=n)]).astype(float)

    def log_density(self, y):
        weights, rates = self._rates()
        return np.log((weights * stats.poisson.pmf(self._values(y), rates)).sum(axis=0))


class Counts(dv.BinaryOutcomes):
    """A behavior from outside: yes or no for the sampler, whose forecasts are read as counts."""

    def forecast(self, new, latent, params, n_new):
        odds = super().forecast(new, latent, params, n_new)
        return Forecast(odds.n, odds.known, CountOutcome(), odds.loads)


def test_a_kind_from_outside_is_predicted_and_compared() -> None:
    predicted = outcomes(forecast(CountOutcome()), S)
    assert isinstance(predicted, CountMixture)
    np.testing.assert_allclose(predicted.mean, np.exp(LOCATIONS).mean(axis=0))
    y = np.array([0.0, 1.0, 3.0, 2.0])
    rng = np.random.default_rng(1)
    behavior = Counts(np.repeat(np.arange(6), 4), rng.normal(size=(24, 1)), rng.integers(0, 2, 24))
    model = dv.DualViewMixture(1, n_warmup=5, n_draws=10, n_chains=1).fit(None, behavior)
    known = behavior.forecast(behavior, *model._known(), 0).known(slice(0, 24))
    expected = stats.poisson.logpmf(behavior.observed, np.exp(known))
    np.testing.assert_allclose(log_likelihoods(model)[0], expected)
    new = Counts([0, 1, 2, 3], rng.normal(size=(4, 1)), n_users=6)
    assert model.predict_outcome(new).log_density(y).shape == (4,)


def test_means_that_rest_on_few_components_are_told() -> None:
    """One of a thousand draws has a location so far out that the average is its own; a normal
    sample has no such draw."""
    rng = np.random.default_rng(0)
    locations = rng.standard_normal((1000, 2))
    locations[17, 1] = 1e12
    mixture = NormalMixture.over_draws(2, lambda cases: locations[:, cases], np.ones(1000))
    assert mixture.mean_unsure.tolist() == [False, True]
    assert abs(mixture.median[1]) < 0.3
    assert abs(mixture.mean[1]) > 1e8
    few = NormalMixture.over_draws(2, lambda cases: locations[:20, cases], np.ones(20))
    assert not few.mean_unsure.any()


def test_the_former_address_works_and_warns() -> None:
    former = importlib.import_module("dualview.outcomes")
    with pytest.warns(FutureWarning, match=r"is now dualview\.behaviors\.families"):
        assert former.NormalOutcome is NormalOutcome
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        former.Nothing  # noqa: B018
