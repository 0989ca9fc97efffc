"""Intervals have one shape in the whole library: that of what they are about, then low and high."""

import numpy as np
import pytest

import dualview as dv
from dualview.behaviors.families.base import Parts
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.behaviors.families.levels import Levels
from dualview.behaviors.families.logit import ChoiceMixture
from dualview.behaviors.families.ordinal import LevelMixture, OrdinalOutcome
from dualview.errors import InputError
from dualview.posterior.prediction.predictive import VectorMixture, VectorParts, WeightedDraws

S, N, Q = 30, 2, 3  # two cases, where a wrong order of axes would not be seen in the number of rows
RNG = np.random.default_rng(0)
LOCATIONS = RNG.normal(0, 3, (S, N, Q))
EVEN = np.full((S, 1), -np.log(S))


def _parts(cases: slice) -> Parts:
    return Parts(EVEN, LOCATIONS[:, cases, 0], np.ones((S, 1)))


def _vector_parts(cases: slice) -> VectorParts:
    return VectorParts(
        EVEN,
        LOCATIONS[:, cases],
        np.broadcast_to(np.eye(Q), (S, LOCATIONS[:, cases].shape[1], Q, Q)),
    )


PREDICTIONS = [
    pytest.param(NormalMixture(N, S, _parts), id="NormalMixture"),
    pytest.param(ChoiceMixture(N, S, _parts), id="ChoiceMixture"),
    pytest.param(VectorMixture(N, Q, S, _vector_parts), id="VectorMixture"),
    pytest.param(
        WeightedDraws(LOCATIONS[..., 0], np.broadcast_to(EVEN, (S, N))), id="WeightedDraws"
    ),
    pytest.param(
        WeightedDraws(LOCATIONS, np.broadcast_to(EVEN, (S, N))), id="WeightedDraws of vectors"
    ),
]


@pytest.fixture(scope="module")
def posterior() -> dv.Posterior:
    forum = dv.datasets.agreement(n_users=20, n_threads=30, seed=1)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    return (
        dv.DualViewMixture(n_warmup=20, n_draws=50, n_chains=1)
        .fit(forum.features, behavior)
        .posterior_
    )


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_of_predictions(prediction) -> None:
    wide, narrow = prediction.interval(0.9), prediction.interval(0.5)
    assert wide.shape == narrow.shape == (*prediction.median.shape, 2)
    for inner, outer in (
        (prediction.median, narrow),
        (narrow[..., 0], wide),
        (narrow[..., 1], wide),
    ):
        assert np.all(outer[..., 0] < inner)
        assert np.all(inner < outer[..., 1])


@pytest.mark.parametrize(
    "name", ["alpha", "latent", "features.base_mean", "features.base_covariance"]
)
def test_of_the_posterior(posterior: dv.Posterior, name: str) -> None:
    draws = posterior.flat(name)
    found = posterior.interval(name, 0.8)
    assert found.shape == (*draws.shape[1:], 2)
    np.testing.assert_allclose(found[..., 0], np.quantile(draws, 0.1, axis=0))
    np.testing.assert_allclose(found[..., 1], np.quantile(draws, 0.9, axis=0))


@pytest.mark.parametrize("probability", [0.0, 2.0, np.nan, True, "wide", None, [0.1, 0.9]])
def test_quantiles_are_of_one_probability(probability) -> None:
    outcome = OrdinalOutcome(np.zeros((S, 1)), Levels(("low", "high"), np.arange(2.0)))
    levels = LevelMixture(N, S, _parts, outcome)
    for prediction in (PREDICTIONS[0].values[0], levels):
        with pytest.raises(InputError, match="A quantile's probability lies between 0 and 1; got"):
            prediction.quantile(probability)


@pytest.mark.parametrize("probability", [0.0, 1.0, 1.5, -0.1, np.nan, True, "wide", None])
def test_need_a_probability(posterior: dv.Posterior, probability) -> None:
    for interval in (
        PREDICTIONS[0].values[0].interval,
        PREDICTIONS[3].values[0].interval,
        lambda p: posterior.interval("z", p),
    ):
        with pytest.raises(InputError, match="An interval's probability lies between 0 and 1; got"):
            interval(probability)
