"""Checks of the model: statistics, p-values and verdicts; what breaks the model is seen by the
check made for it."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import dualview as dv
from dualview.errors import InputError
from dualview.posterior.checks import model_checks, residuals
from dualview.posterior.checks.model_checks import (
    Check,
    Statistic,
    combined,
    judged,
    rand_index,
    verdict_of,
    view_check,
)
from dualview.posterior.checks.residuals import residuals_of

FORUM = dv.datasets.agreement(24, 60, n_clusters=3, seed=2)
NOISE = 3.0 * np.random.default_rng(0).standard_normal(60)
LENGTH: dict[str, Any] = {"n_warmup": 200, "n_draws": 150, "n_chains": 2}


def fitted(
    noise: np.ndarray, latent: np.ndarray = FORUM.latent, **options: Any
) -> dv.DualViewMixture:
    behavior = dv.SharedOutcome(FORUM.participation, FORUM.participation @ latent + noise)
    return dv.DualViewMixture(**LENGTH, **options).fit(FORUM.features, behavior)


@pytest.fixture(scope="module")
def good() -> dv.DualViewMixture:
    return fitted(NOISE)


@pytest.fixture
def enough_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as p-values below 0.001 take."""
    monkeypatch.setattr(model_checks, "_N_NULL", 1200)
    monkeypatch.setattr(residuals, "_N_REPLICATES", 1200)


@pytest.fixture(scope="module")
def checks(good: dv.DualViewMixture) -> Any:
    return good.check(refit=False)


def test_statistics_are_those_of_the_books() -> None:
    x = np.random.default_rng(0).exponential(size=200)
    assert model_checks.skewness(x) == pytest.approx(abs(stats.skew(x)))
    assert model_checks.kurtosis(x) == pytest.approx(stats.kurtosis(x, fisher=False))
    assert model_checks.rank_correlation(x, x**2) == pytest.approx(1.0)
    y = x + np.random.default_rng(1).standard_normal(200)
    assert model_checks.explained(y[:, None], x[:, None]) == pytest.approx(
        stats.linregress(x, y).rvalue ** 2
    )
    levels = np.sort(np.random.default_rng(2).random(50))
    place = np.arange(1, 51)
    wanted = -50 - np.sum((2 * place - 1) / 50 * (np.log(levels) + np.log(1 - levels[::-1])))
    assert model_checks.anderson_darling(levels) == pytest.approx(wanted)
    vectors = np.random.default_rng(3).standard_normal((30, 2))
    centred = vectors - vectors.mean(axis=0)
    inverse = np.linalg.inv(np.cov(vectors.T, bias=True))
    assert model_checks.mardia(vectors) == pytest.approx(
        np.mean([(a @ inverse @ b) ** 3 for a in centred for b in centred])
    )


def test_gain_of_own_noise_is_that_of_each_residual_given_the_users_others() -> None:
    rng = np.random.default_rng(5)
    user = np.repeat(np.arange(6), [1, 2, 5, 9, 3, 10])
    x = rng.standard_normal(30) * np.exp(rng.standard_normal(6))[user]
    precisions = np.exp(np.linspace(-12.0, 8.0, 20_001))
    best = -np.inf
    for a in 0.5 * 2.0 ** np.arange(7):
        gains = []
        for i, own in enumerate(x):
            others = x[(user == user[i]) & (np.arange(30) != i)]
            weight = stats.gamma(a, scale=1 / a).logpdf(precisions) + np.log(precisions)
            weight += sum(stats.norm(0, precisions**-0.5).logpdf(other) for other in others)
            weight = np.exp(weight - weight.max())
            density = weight @ stats.norm(0, precisions**-0.5).pdf(own) / weight.sum()
            gains.append(np.log(density) - stats.norm.logpdf(own))
        best = max(best, float(np.mean(gains)))
    assert model_checks.gain_of_own_noise(x, user) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("by_user", [False, True])
def test_noises_of_users_own_are_seen_and_said_by_name(by_user: bool) -> None:
    rng = np.random.default_rng(6)
    user = np.repeat(np.arange(24), 12)
    sds = np.exp(0.8 * rng.standard_normal(24)) if by_user else np.ones(24)
    outcome = FORUM.latent[user] + sds[user] * rng.standard_normal(len(user))
    behavior = dv.UserRegression(user, np.ones((len(user), 1)), outcome)
    found = dv.DualViewMixture(**LENGTH, random_state=1).fit(FORUM.features, behavior)
    check = found.check(refit=False)["outcomes: noise by user"]
    if not by_user:
        assert check.verdict == "fine"
        return
    assert check.verdict != "fine"
    assert 'noise="user"' in check.advice
    own = dv.UserRegression(user, np.ones((len(user), 1)), outcome, noise="user")
    names = [
        one.name
        for one in found.set_params(random_state=2).fit(FORUM.features, own).check(refit=False)
    ]
    assert "outcomes: noise by user" not in names


def test_p_values_are_combined_as_they_should_be() -> None:
    assert combined(np.full(7, 0.03)) == pytest.approx(0.03)
    assert combined(np.array([0.02])) == pytest.approx(0.02)
    assert combined(np.array([0.001, 0.9, 0.9])) > 0.1  # one draw of several is not enough
    rng = np.random.default_rng(4)
    shared = rng.standard_normal(2000)
    for rho in (0.0, 0.3, 0.6, 0.99):  # p-values of draws that depend on each other
        z = np.sqrt(rho) * shared[:, None] + np.sqrt(1 - rho) * rng.standard_normal((2000, 100))
        p = np.array([combined(row) for row in stats.norm.sf(z)])
        if rho == 0.0:  # draws that share nothing with each other say nothing
            assert (p < 0.05).mean() < 0.01
        else:
            assert stats.kstest(p, "uniform").pvalue > 1e-3
            assert (p < 0.01).mean() < 0.02


def test_verdicts_follow_the_p_value() -> None:
    assert [verdict_of(p) for p in (0.5, 0.011, 0.009, 0.0005)] == [
        "fine",
        "fine",
        "look here",
        "the model is wrong here",
    ]
    null = np.random.default_rng(5).standard_normal(5000)
    one = Statistic("name", "about it", "something else", lambda x: float(x[0]))
    check = judged(one, np.full(10, 9.0), null)
    assert check.verdict == "the model is wrong here"
    assert "Try: something else." in check.text
    assert "p below 0.001" in check.text
    assert judged(one, np.zeros(10), null).verdict == "fine"
    assert "Try" not in judged(one, np.zeros(10), null).text


def test_residuals_of_a_right_model_are_standard_normal(good: dv.DualViewMixture) -> None:
    found = residuals_of(good.posterior_, good.behavior_)
    assert found.features is not None
    assert found.latent is not None
    outcomes, replicates = found.outcomes["outcomes"], found.replicates["outcomes"]
    assert outcomes.shape == (100, 60)
    assert abs(replicates.mean()) < 0.02
    assert abs(replicates.std() - 1) < 0.02
    assert abs(outcomes.std() - 1) < 0.35
    assert abs(found.features.std() - 1) < 0.35


def test_a_right_model_is_fine(checks: Any) -> None:
    tested = [check for check in checks if np.isfinite(check.p)]
    assert len(tested) >= 12
    assert sum(check.verdict != "fine" for check in tested) <= 1
    assert "outcomes: fine." in checks.text()
    assert list(checks.table.columns) == [
        "verdict",
        "p",
        "value",
        "usual_low",
        "usual_high",
        "about",
        "advice",
    ]
    assert set(checks.levels()) == {"outcomes", "features", "behavior"}


@pytest.mark.usefixtures("enough_replicates")
def test_outliers_and_tails_are_seen() -> None:
    noise = NOISE.copy()
    noise[7] += 40.0
    found = fitted(noise).check(refit=False)
    assert found["outcomes: outliers"].verdict == "the model is wrong here"
    assert found.worst == "the model is wrong here"


@pytest.mark.usefixtures("enough_replicates")
def test_dependence_in_time_is_seen() -> None:
    noise = 3.0 * np.sin(np.arange(60) / 3.0) + 0.3 * np.random.default_rng(1).standard_normal(60)
    assert fitted(3 * noise).check(refit=False)["outcomes: order"].verdict != "fine"


@pytest.mark.slow
def test_slopes_are_seen_and_the_link_mends_it() -> None:
    centres = np.array([FORUM.features[FORUM.labels == k].mean(axis=0) for k in range(3)])[
        FORUM.labels
    ]
    latent = FORUM.latent + 300.0 * (FORUM.features - centres)[:, 0]
    user = np.repeat(np.arange(24), 6)
    outcome = latent[user] + np.random.default_rng(3).standard_normal(len(user))
    behavior = dv.UserRegression(user, np.ones((len(user), 1)), outcome)
    plain = dv.DualViewMixture(3, **LENGTH).fit(FORUM.features, behavior)
    linked = dv.DualViewMixture(3, link="linear", **LENGTH).fit(FORUM.features, behavior)
    assert plain.check(refit=False)["link"].verdict == "the model is wrong here"
    assert plain.check(refit=False)["link"].advice == 'link="linear"'
    assert linked.check(refit=False)["link"].verdict == "fine"


@pytest.mark.usefixtures("enough_replicates")
def test_noise_by_cluster_is_seen() -> None:
    rng, user = np.random.default_rng(4), np.repeat(np.arange(24), 12)
    sds = np.array([1.0, 8.0, 1.0])[FORUM.labels]
    behavior = dv.UserRegression(
        user,
        np.ones((len(user), 1)),
        FORUM.latent[user] + sds[user] * rng.standard_normal(len(user)),
    )
    found = dv.DualViewMixture(3, **LENGTH).fit(FORUM.features, behavior).check(refit=False)
    assert found["outcomes: noise by cluster"].verdict == "the model is wrong here"


@pytest.mark.usefixtures("few_replicates")
def test_yes_or_no_outcomes_and_features_alone_are_checked() -> None:
    rng, user = np.random.default_rng(5), np.repeat(np.arange(24), 8)
    chance = 1 / (1 + np.exp(-np.array([-2.0, 0.0, 2.0])[FORUM.labels][user]))
    behavior = dv.BinaryOutcomes(user, np.ones((len(user), 1)), rng.random(len(user)) < chance)
    found = (
        dv.DualViewMixture(pooling="cluster", **LENGTH)
        .fit(FORUM.features, behavior)
        .check(refit=False)
    )
    assert found["outcomes"].verdict == "fine"
    assert "outcomes: tails" not in found.table.index
    alone = dv.DualViewMixture(**LENGTH).fit(FORUM.features).check()
    assert "features inside clusters" in alone.table.index
    assert "outcomes" not in alone.table.index


@pytest.mark.slow
def test_views_that_ask_for_other_clusters_are_seen() -> None:
    one = np.tile(np.repeat([0, 1, 2], 8), (2, 50, 1))
    other = one[..., np.random.default_rng(6).permutation(24)]
    assert view_check(one, one, one)[0].verdict == "fine"
    assert view_check(one, other, one)[0].verdict == "the model is wrong here"
    vague = np.random.default_rng(7).integers(0, 3, (2, 50, 24))
    assert "too vague to tell" in view_check(one, vague, one)[0].about
    assert view_check(one, vague, one)[0].verdict == "fine"
    assert rand_index(np.random.default_rng(0), one, one, apart=True) == 1.0


@pytest.mark.slow
def test_views_are_fitted_by_themselves(good: dv.DualViewMixture) -> None:
    found = good.check(refit=True)["views"]
    assert "adjusted Rand index" in found.about
    assert found.value > 0.0


def test_a_prior_that_decides_is_seen() -> None:
    """Few threads and a prior of the noise far from the data: the answer moves with the prior."""
    rng = np.random.default_rng(8)
    behavior = dv.SharedOutcome(FORUM.participation[:6], rng.standard_normal(6), noise_variance=1e4)
    model = dv.DualViewMixture(1, n_warmup=300, n_draws=500, n_chains=2).fit(None, behavior)
    assert model.check(refit=False)["prior: noise_precision"].verdict == "look here"


@pytest.mark.usefixtures("few_replicates")
def test_bad_requests(good: dv.DualViewMixture) -> None:
    loaded = dv.DualViewMixture.from_posterior(dv.Posterior(good.posterior_.tree))
    with pytest.raises(InputError, match="pass them as behavior="):
        loaded.check()
    again = loaded.check(good.behavior_, refit=False)
    assert again["outcomes"] == good.check(refit=False)["outcomes"]
    with pytest.raises(InputError, match="seed must be a whole number"):
        good.check(seed=-1)
    assert isinstance(again["outcomes"], Check)


def test_very_small_fits_have_the_checks_that_they_have_data_for() -> None:
    behavior = dv.SharedOutcome(np.eye(3), [1.0, 2.0, 4.0])
    model = dv.DualViewMixture(n_warmup=5, n_draws=2, n_chains=1).fit(
        [[0.0], [1.0], [3.0]], behavior
    )
    found = model.check(refit=False)
    assert [check.name for check in found] == ["sizes"]
    assert np.isfinite(found["sizes"].p)
