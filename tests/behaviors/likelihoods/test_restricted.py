"""Constants of the behavior view by restricted likelihood."""

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import null_space
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import dualview as dv
from dualview.behaviors.likelihoods import restricted
from dualview.behaviors.likelihoods.restricted import Columns, fit_restricted
from dualview.errors import InputError

N_USERS = 60


def forum(n_threads=400, seed=0, slope=0.0, mean=2.0, level=0.0, sd=1.5, noise=3.0):
    """Coefficients N(mean + slope ã_1, sd²), four of sixty users in a thread."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_USERS, 2)) * [1.0, 50.0] + [0.0, 7.0]
    power = mean + slope * X[:, 0] + sd * rng.normal(size=N_USERS)
    took_part = np.zeros((n_threads, N_USERS))
    for row in took_part:
        row[rng.choice(N_USERS, size=rng.integers(2, 7), replace=False)] = 1.0
    return X, took_part, level + took_part @ power + noise * rng.normal(size=n_threads)


def test_it_finds_the_law_of_the_coefficients():
    _, took_part, outcome = forum(n_threads=3000)
    prior = dv.SharedOutcome(took_part, outcome).likely_prior()
    assert prior.mean[0] == pytest.approx(2.0, abs=0.5)
    assert prior.covariance[0, 0] == pytest.approx(1.5**2, rel=0.4)


def test_few_threads_do_not_make_it_large():
    """Where the variance of ridge estimates is mostly the noise's."""
    _, took_part, outcome = forum(n_threads=80, noise=10.0)
    behavior = dv.SharedOutcome(took_part, outcome)
    by_ridge, by_likelihood = (
        behavior.prepare(None)[0].prior[1][0, 0],
        behavior.likely_prior().covariance[0, 0],
    )
    assert by_likelihood < 0.3 * by_ridge


def test_slopes_on_features_are_part_of_the_variance():
    X, took_part, outcome = forum(n_threads=3000, slope=4.0, sd=0.5)
    prior = dv.SharedOutcome(took_part, outcome).likely_prior(X)
    assert prior.covariance[0, 0] == pytest.approx(4.0**2 + 0.5**2, rel=0.9)
    assert dv.SharedOutcome(took_part, outcome).likely_prior().covariance[0, 0] == pytest.approx(
        16.25, rel=0.5
    )


@pytest.mark.parametrize(("weight", "unit"), [(1000.0, 1.0), (1e-3, 1.0), (1.0, 1e4)])
def test_units_do_not_matter(weight, unit):
    X, took_part, outcome = forum()
    plain = dv.SharedOutcome(took_part, outcome, intercept=True).likely_prior(X)
    other = dv.SharedOutcome(weight * took_part, unit * outcome, intercept=True).likely_prior(
        3.0 * X - 1.0
    )
    assert other.mean[0] == pytest.approx(plain.mean[0] * unit / weight, rel=1e-3)
    assert other.covariance[0, 0] == pytest.approx(
        plain.covariance[0, 0] * (unit / weight) ** 2, rel=1e-3
    )


def test_a_mean_that_cannot_be_told_from_the_intercept_is_zero():
    _, took_part, outcome = forum()
    shares = took_part / took_part.sum(axis=1, keepdims=True)
    assert dv.SharedOutcome(shares, outcome, intercept=True).likely_prior().mean[0] == 0.0
    assert dv.SharedOutcome(shares, outcome).likely_prior().mean[0] != 0.0


def test_coefficients_that_do_not_vary_have_a_small_variance_all_the_same():
    _, took_part, outcome = forum(sd=0.0)
    prior = dv.SharedOutcome(took_part, outcome).likely_prior()
    assert 0.0 < prior.covariance[0, 0] < 0.2


def test_sparse_and_dense_agree():
    X, took_part, outcome = forum()
    dense, thin = (
        dv.SharedOutcome(form(took_part), outcome).likely_prior(X)
        for form in (np.asarray, sparse.csr_array)
    )
    np.testing.assert_allclose(dense.covariance, thin.covariance)


def test_nothing_to_estimate_leaves_the_noise():
    rng = np.random.default_rng(2)
    y = 3.0 + rng.normal(size=50)
    nothing = np.empty((50, 0))
    found = fit_restricted(Columns(np.ones((50, 1)), nothing, nothing), y)
    assert found.noise == pytest.approx(y.var(ddof=1))
    assert found.coefficients[0][0] == pytest.approx(y.mean())
    assert (found.slope_variance, found.effect_variance) == (0.0, 0.0)


class TestFit:
    def test_it_is_an_option_of_the_mixture(self):
        X, took_part, outcome = forum(n_threads=60, noise=10.0)
        behavior = dv.SharedOutcome(took_part, outcome, intercept=True)
        settings = {"n_warmup": 20, "n_draws": 20, "n_chains": 1, "random_state": 0}
        by_name = dv.DualViewMixture(behavior_prior="likelihood", **settings).fit(X, behavior)
        by_hand = dv.DualViewMixture(behavior_prior=behavior.likely_prior(X), **settings).fit(
            X, behavior
        )
        np.testing.assert_array_equal(by_name.posterior_["latent"], by_hand.posterior_["latent"])
        default = dv.DualViewMixture(**settings).fit(X, behavior)
        assert not np.array_equal(default.posterior_["latent"], by_hand.posterior_["latent"])

    def test_what_is_wrong_is_said(self, monkeypatch):
        X, took_part, outcome = forum(n_threads=20)
        behavior = dv.SharedOutcome(took_part, outcome)
        with pytest.raises(
            InputError, match=r"behavior_prior must be .*\"likelihood\" or None; got 'guess'"
        ):
            dv.DualViewMixture(behavior_prior="guess").fit(X, behavior)
        with pytest.raises(
            InputError, match=r"feature_prior must be a GaussianPrior.*or None; got 'likelihood'"
        ):
            dv.DualViewMixture(feature_prior="likelihood").fit(X, behavior)
        monkeypatch.setattr(restricted, "_MOST_USERS", 50)
        with pytest.raises(InputError, match="up to 50 users; there are 60"):
            behavior.likely_prior()


def test_variances_are_those_of_the_most_likely_contrasts():
    """Against the likelihood of error contrasts written out as one multivariate normal, maximised
    by itself."""
    rng = np.random.default_rng(3)
    fixed, slopes, effects = (
        np.ones((30, 1)),
        rng.standard_normal((30, 3)),
        rng.integers(0, 2, (30, 6)) * 0.2,
    )
    outcome = (
        4.0
        + slopes @ rng.normal(0, 2.0, 3)
        + effects @ rng.normal(0, 15.0, 6)
        + 3.0 * rng.standard_normal(30)
    )
    contrasts = null_space(fixed.T).T

    def minus_log_likelihood(logs):
        noise, slope, effect = np.exp(logs)
        covariance = noise * np.eye(30) + slope * slopes @ slopes.T + effect * effects @ effects.T
        return -multivariate_normal(np.zeros(29), contrasts @ covariance @ contrasts.T).logpdf(
            contrasts @ outcome
        )

    best = minimize(
        minus_log_likelihood,
        np.log([9.0, 4.0, 200.0]),
        method="Nelder-Mead",
        options={"maxiter": 2000, "xatol": 1e-6},
    )
    found = fit_restricted(Columns(fixed, slopes, effects), outcome)
    wanted = np.exp(best.x)
    np.testing.assert_allclose(
        [found.noise, found.slope_variance, found.effect_variance], wanted, rtol=2e-3
    )
