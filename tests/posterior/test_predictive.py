"""Mixtures of normals: densities, quantiles and moments against direct formulas."""

import numpy as np
import pytest
from scipy.stats import norm

import dualview as dv
from dualview.behaviors.families import base
from dualview.behaviors.families.base import Parts
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.behaviors.families.logit import ChoiceMixture
from dualview.errors import InputError
from dualview.posterior.prediction.predictive import VectorMixture, VectorParts, WeightedDraws

RNG = np.random.default_rng(0)
S, N = 40, 7
LOCATIONS = RNG.normal(0, 5, (S, N))
SDS = RNG.gamma(2.0, 1.0, S)
WEIGHTS = RNG.dirichlet(np.ones(S), N).T


def even() -> NormalMixture:
    return NormalMixture.over_draws(N, lambda cases: LOCATIONS[:, cases], SDS)


def weighted() -> NormalMixture:
    return NormalMixture(
        N, S, lambda cases: Parts(np.log(WEIGHTS[:, cases]), LOCATIONS[:, cases], SDS[:, None])
    )


@pytest.mark.parametrize(
    ("mixture", "weights"), [(even(), np.full((S, N), 1 / S)), (weighted(), WEIGHTS)]
)
def test_against_direct_formulas(mixture: NormalMixture, weights: np.ndarray) -> None:
    y = RNG.normal(0, 5, N)
    density = (weights * norm.pdf(y, LOCATIONS, SDS[:, None])).sum(axis=0)
    np.testing.assert_allclose(mixture.log_density(y), np.log(density), rtol=1e-12)
    assert mixture.nll(y) == pytest.approx(-np.log(density).mean())
    np.testing.assert_allclose(
        mixture.cdf(y), (weights * norm.cdf(y, LOCATIONS, SDS[:, None])).sum(axis=0)
    )
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
    """Half at −10 and half at 10 with sd 1: the central 95 % ends near ±11.6, a normal
    approximation would end near ±19.7."""
    mixture = NormalMixture.over_draws(1, lambda _: np.array([[-10.0], [10.0]]), np.ones(2))
    np.testing.assert_allclose(
        mixture.interval(0.95)[0], [-10 - norm.ppf(0.95), 10 + norm.ppf(0.95)], rtol=1e-6
    )


def test_log_of_the_mean_density_not_mean_of_logs() -> None:
    mixture = NormalMixture.over_draws(1, lambda _: np.array([[0.0], [30.0]]), np.ones(2))
    assert mixture.log_density([0.0])[0] == pytest.approx(np.log(0.5) + norm.logpdf(0.0))


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    y = RNG.normal(0, 5, N)
    whole = weighted()
    expected = whole.mean, whole.std, whole.log_density(y), whole.interval(0.5)
    monkeypatch.setattr(base, "_CELLS", 2 * S)
    small = weighted()
    for a, b in zip(
        expected, (small.mean, small.std, small.log_density(y), small.interval(0.5)), strict=True
    ):
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


def heavy_tailed() -> tuple[np.ndarray, dv.SharedOutcome]:
    """Ten users, of whom the last three took part in nothing."""
    rng = np.random.default_rng(0)
    took_part = np.zeros((14, 10))
    for row in took_part:
        row[rng.choice(7, 3, replace=False)] = 1.0
    return rng.standard_normal((10, 1)), dv.SharedOutcome(
        took_part, took_part @ rng.standard_normal(10) + 0.5 * rng.standard_normal(14)
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_seeds_agree_on_users_without_observations() -> None:
    """Medians agree within their Monte-Carlo error, which chains tell; means of such heavy tails do
    not exist."""
    features, behavior = heavy_tailed()
    models = [
        dv.DualViewMixture(n_warmup=300, n_draws=2000, n_chains=4, random_state=seed).fit(
            features, behavior
        )
        for seed in range(5)
    ]
    silent = slice(7, None)
    of_chains = np.array(
        [np.median(model.posterior_["latent"][..., silent], axis=1) for model in models]
    )  # (seed, chain, user)
    error = np.sqrt(of_chains.var(axis=1, ddof=1).mean(axis=0) / 4)
    medians = np.array([model.latent_[silent] for model in models])
    assert (np.abs(medians - medians.mean(axis=0)) < 4.5 * error).all()
    means = np.array([model.posterior_.latent_mean[silent] for model in models])
    assert np.ptp(means, axis=0).max() > 10 * np.ptp(medians, axis=0).max()
    thread = np.eye(10)[[9]]
    predicted = np.array([model.predict_outcome(thread).median[0] for model in models])
    assert (np.abs(predicted - medians[:, 2]) < 9 * error[2]).all()


@pytest.mark.parametrize("wide", [1.0, 1e10, 1e150])
def test_quantiles_do_not_mind_components_of_any_width(wide: float) -> None:
    """A tenth of the probability is in a component that may be as wide as numbers go."""
    parts = Parts(np.log([[0.9], [0.1]]), np.array([[3.0], [0.0]]), np.array([[1.0], [wide]]))
    mixture = NormalMixture(1, 2, lambda _: parts)
    for probability in (0.03, 0.5, 0.9):
        found = mixture.quantile(probability)[0]
        assert 0.9 * norm.cdf(found, 3.0) + 0.1 * norm.cdf(found / wide) == pytest.approx(
            probability, abs=1e-9
        )
    assert mixture.median[0] == pytest.approx(mixture.quantile(0.5)[0])


def test_every_prediction_has_a_median() -> None:
    values = np.random.default_rng(1).standard_normal((999, 2, 3))
    weights = np.full((999, 2), -np.log(999))
    np.testing.assert_allclose(
        WeightedDraws(values, weights).median, np.median(values, axis=0), atol=1e-12
    )
    np.testing.assert_allclose(
        WeightedDraws(values[..., 0], weights).median, np.median(values[..., 0], axis=0), atol=1e-12
    )
    vectors = VectorMixture(
        1,
        2,
        1,
        lambda _: VectorParts(np.zeros((1, 1)), np.array([[[1.0, 5.0]]]), np.eye(2)[None, None]),
    )
    np.testing.assert_allclose(vectors.median, [[1.0, 5.0]])
    odds = ChoiceMixture(
        1,
        3,
        lambda _: Parts(
            np.log([[0.3], [0.4], [0.3]]), np.array([[-1.0], [0.5], [9.0]]), np.zeros((1, 1))
        ),
    )
    np.testing.assert_allclose(odds.median, 1 / (1 + np.exp(-0.5)), rtol=1e-4)


def test_quantiles_of_single_values() -> None:
    """As latent coefficients have that the users of a cluster share: the least value with enough
    probability up to it."""
    mixture = NormalMixture(
        1,
        3,
        lambda _: Parts(
            np.log([[0.2], [0.5], [0.3]]), np.array([[0.0], [1.0], [5.0]]), np.zeros((1, 1))
        ),
    )
    for probability, value in ((0.1, 0.0), (0.3, 1.0), (0.5, 1.0), (0.9, 5.0)):
        assert mixture.quantile(probability)[0] == pytest.approx(value, abs=1e-9)
