"""Leave-one-out scores: by hand, by ArviZ, and by fits without the observation."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import arviz_base
import numpy as np
import pandas as pd
import pytest
from arviz_stats import loo
from scipy.special import log_expit, logsumexp
from scipy.stats import multivariate_normal, norm

import dualview as dv
from checks import ACCEPT
from dualview.behaviors.records import LatentPrior
from dualview.evaluation import comparison
from dualview.evaluation.comparison import (
    _is_sure,
    _relative_efficiency,
    leave_one_out,
    log_likelihoods,
    observation_scores,
    standing,
    user_scores,
)
from dualview.posterior.observations import observations_digest
from dualview.posterior.prediction.influence import Influence, mutual_information, shared_variance
from dualview.posterior.prediction.left_out import left_out_pairs
from dualview.posterior.prediction.user_features import Features

USER = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
PRIOR = dv.GaussianPrior(0.3, 0.5)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def behavior(kind: str) -> Any:
    rng = np.random.default_rng(1)
    design = rng.uniform(0.5, 2.0, (len(USER), 1))
    latent = np.array([1.0, -1.0, 0.5, -0.5])[USER]
    if kind == "binary":
        return dv.BinaryOutcomes(
            USER, design, rng.random(len(USER)) < 1 / (1 + np.exp(-2.0 * design[:, 0] * latent))
        )
    outcome = design[:, 0] * latent + 0.8 * rng.standard_normal(len(USER))
    return dv.UserRegression(USER, design, outcome, noise_variance=0.5)


def fit(observations: Any, seed: int, n_draws: int = 200) -> dv.DualViewMixture:
    settings = {
        "n_warmup": 100,
        "n_draws": n_draws,
        "n_chains": 2,
        "behavior_prior": PRIOR,
        "random_state": seed,
    }
    return dv.DualViewMixture(1, **settings).fit(None, observations)


@pytest.mark.parametrize("kind", ["binary", "normal"])
def test_log_likelihoods_are_those_of_the_outcomes(kind: str) -> None:
    observations = behavior(kind)
    model = fit(observations, 0, 30)
    expected = model.posterior_["latent"][..., USER] * observations.design[:, 0]
    if kind == "binary":
        chance = 1 / (1 + np.exp(-expected))
        wanted = np.log(np.where(observations.outcome == 1, chance, 1 - chance))
    else:
        precision = model.posterior_["noise_precision"][..., None]
        wanted = (
            0.5 * np.log(precision / (2 * np.pi))
            - 0.5 * precision * (observations.outcome - expected) ** 2
        )
    np.testing.assert_allclose(log_likelihoods(model), wanted, rtol=1e-9, atol=1e-14)


def test_table_adds_up_the_scores() -> None:
    observations = behavior("normal")
    models = {"one": fit(observations, 0, 100), "other": fit(observations, 5, 100)}
    table = dv.compare(models)
    scores = {name: observation_scores(model) for name, model in models.items()}
    first, second = table.index
    behind = scores[first].elpd - scores[second].elpd
    n = len(behind)
    row = table.loc[second]
    assert row["difference"] == pytest.approx(behind.sum())
    shared = shared_variance(scores[first].influence, scores[second].influence)
    assert row["difference_se"] == pytest.approx(
        np.sqrt(n / (n - 1) * ((behind - behind.mean()) ** 2).sum() + shared)
    )
    assert row["elpd"] == pytest.approx(scores[second].elpd.sum())
    own = shared_variance(scores[second].influence)
    assert own > 0.0
    assert row["se"] == pytest.approx(np.sqrt(n * scores[second].elpd.var(ddof=1) + own))


def autoregressive(rho: float, shape: tuple[int, ...]) -> np.ndarray:
    """Stationary chains (chain, draw, n) of unit variance."""
    noise = np.random.default_rng(3).standard_normal(shape)
    for t in range(1, shape[1]):
        noise[:, t] = rho * noise[:, t - 1] + np.sqrt(1 - rho**2) * noise[:, t]
    return noise


def test_dependent_draws_are_not_taken_for_independent_ones() -> None:
    rho = 0.9
    values = 0.5 * autoregressive(rho, (4, 2000, 3))
    efficiencies = [_relative_efficiency(values[..., i]) for i in range(3)]
    np.testing.assert_allclose(efficiencies, (1 - rho) / (1 + rho), rtol=0.4)
    found = leave_one_out(values)
    for i, efficiency in enumerate(efficiencies):
        data = {
            "posterior": {"unused": np.zeros((4, 2000))},
            "log_likelihood": {"y": values[..., [i, i - 1]]},
        }
        theirs = loo(arviz_base.from_dict(data), pointwise=True, reff=efficiency)
        assert found.elpd[i] == pytest.approx(float(theirs.elpd_i[0]))
        assert found.shape[i] == pytest.approx(float(theirs.pareto_k[0]))
        assert found.elpd[i] != pytest.approx(
            float(loo(arviz_base.from_dict(data), pointwise=True, reff=1.0).elpd_i[0]), rel=1e-9
        )


def test_few_effective_draws_make_a_score_unsure_sooner() -> None:
    """The same values, each held for a hundred draws: a shape that thousands of draws can bear is
    too much for a few dozen."""
    rng = np.random.default_rng(4)
    values = (
        np.log(rng.pareto(1 / 0.58, (4, 2000, 1)) + 1.0) * -1.0
    )  # ratios 1/p with a Pareto tail of shape 0.58
    held = np.repeat(values[:, :20], 100, axis=1)
    assert not leave_one_out(values).unsure[0]
    assert leave_one_out(held).unsure[0]


def test_weights_that_hardly_differ_are_sure_with_few_effective_draws() -> None:
    """A shape of 0.4 is too much for 30 effective draws, unless weights differ by little; one above
    ½ has no variance."""
    noise = np.random.default_rng(5).standard_normal(1000)

    def sure(spread: float, shape: float, n_effective: float) -> bool:
        return _is_sure(spread * noise - logsumexp(spread * noise), shape, n_effective)

    assert sure(0.5, 0.4, 2000)
    assert not sure(0.5, 0.4, 30)
    assert sure(0.05, 0.4, 30)
    assert not sure(0.05, 0.6, 30)


def test_constant_likelihoods_and_short_chains_have_scores() -> None:
    found = leave_one_out(np.full((2, 30, 2), -1.5))
    np.testing.assert_allclose(found.elpd, -1.5)
    assert _relative_efficiency(np.zeros((1, 3))) == 1.0


def test_unsure_scores_are_no_ranking() -> None:
    assert standing(0.0, 0.0) == "best"
    assert standing(9.0, 1.0) == "clearly behind"
    assert (
        standing(3.9, 0.1) == "not distinguishable from the best"
    )  # models much alike, whose errors are not normal
    assert standing(9.0, 1.0, few=True) == standing(9.0, 5.0) == "not distinguishable from the best"
    assert standing(0.0, 0.0, unsure=True) == "highest score, uncertain"
    assert standing(9.0, 1.0, unsure=True) == "rank uncertain"


def test_scores_of_users_are_of_the_same_users_in_whatever_order_a_fit_has_them() -> None:
    """One fit has the order of X, the other that of the observations; the third is the second with
    the order of X."""
    users, rng = list("abcdef"), np.random.default_rng(3)
    owner = np.repeat(users[::-1], 4)
    size = np.repeat([5.0, -5.0, 3.0, -3.0, 1.0, -1.0], 4)
    rows = dv.UserRegression(
        owner, np.ones((24, 1)), size + 0.3 * rng.standard_normal(24), noise_variance=0.1
    )
    X = pd.DataFrame({"x": rng.standard_normal(6)}, index=users)
    settings: dict[str, Any] = {"n_warmup": 50, "n_draws": 100, "n_chains": 2, "random_state": 0}
    first = dv.DualViewMixture(1, **settings).fit(X, rows)
    other = dv.DualViewMixture(1, **settings).fit(None, rows)
    assert first.posterior_.user_ids == users == other.posterior_.user_ids[::-1]
    found = comparison.scores_of({"first": first, "other": other}, by="user")
    own = user_scores(other)
    np.testing.assert_array_equal(found["other"].elpd, own.elpd[::-1])
    np.testing.assert_array_equal(found["other"].influence.first, own.influence.first[::-1, ::-1])
    np.testing.assert_array_equal(found["first"].elpd, user_scores(first).elpd)
    with pytest.warns(dv.errors.DataWarning, match="unreliable leave-one-out scores"):
        stacked = dv.stack({"first": first, "other": other}, by="user")
    assert stacked.weights.sum() == pytest.approx(1.0)
    more = pd.concat([X, pd.DataFrame({"x": [0.0]}, index=["g"])])
    third = dv.DualViewMixture(1, **settings).fit(more, rows)
    with pytest.raises(dv.errors.InputError, match="their numbers are third: 7, other: 6"):
        dv.compare({"third": third, "other": other}, by="user")


def test_observations_that_are_not_those_of_the_fit_are_refused(tmp_path: Path) -> None:
    """As many, and of the same users; the order does not matter."""
    own = behavior("normal")
    models = {str(seed): fit(own, seed, 30) for seed in (0, 1)}
    models["1"].posterior_.save(tmp_path / "fit.nc")
    models["loaded"] = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "fit.nc"))
    table = dv.compare(models, own)
    assert table["elpd"]["1"] == table["elpd"]["loaded"]
    order = np.arange(len(USER))[::-1]
    again = dv.compare(models, own.take(order))
    np.testing.assert_allclose(again["elpd"], table["elpd"])
    others = [
        (USER, own.design, own.outcome + 1.0),
        (USER, own.design, own.outcome[order]),
        (USER, own.design[order], own.outcome),
        (USER[order], own.design, own.outcome),
    ]
    for user, design, outcome in others:
        other = dv.UserRegression(user, design, outcome, noise_variance=0.5)
        for known in (models["0"], models["loaded"]):
            with pytest.raises(dv.errors.InputError, match="must hold the observations of the fit"):
                dv.compare({"a": known, "b": known}, other)
    with pytest.raises(dv.errors.InputError, match="pass them as behavior="):
        dv.compare({"a": models["loaded"], "b": models["loaded"]})


def test_threads_that_are_not_those_of_the_fit_are_refused() -> None:
    forum = dv.datasets.agreement(10, 20, seed=1)
    own = dv.SharedOutcome(forum.participation, forum.outcome)
    order = np.arange(20)[::-1]
    known = observations_digest(own)
    assert observations_digest(own.take(order)) == known
    others = [
        (forum.participation, forum.outcome[order]),
        (np.asarray(forum.participation)[:, ::-1], forum.outcome),
        (2.0 * np.asarray(forum.participation), forum.outcome),
    ]
    for participation, outcome in others:
        assert observations_digest(dv.SharedOutcome(participation, outcome)) != known


def test_notes_tell_unsure_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two fits has a heavy tail: neither place is sure, and the table says why."""
    rng = np.random.default_rng(6)
    good = -1.0 + 0.1 * rng.standard_normal((2, 500, 4))
    bad = good - 2.0
    bad[..., 1] = -4.0 - np.log(rng.pareto(1 / 1.5, (2, 500)) + 1.0)
    monkeypatch.setattr(
        comparison, "observation_scores", lambda model, _: leave_one_out(model.values)
    )

    def table(**values: np.ndarray) -> Any:
        fitted = SimpleNamespace(
            posterior_=SimpleNamespace(n_chains=2, n_draws=500),
            behavior_=SimpleNamespace(observed=np.zeros(4), outcome=(), scored_as="density"),
        )
        models: Any = {
            name: SimpleNamespace(values=part, **vars(fitted)) for name, part in values.items()
        }
        return dv.compare(models)

    found = table(good=good, bad=bad)
    assert found["unsure"].tolist() == [0, 1]
    assert found.loc["good", "note"] == "best"
    assert found.loc["bad", "note"].startswith("rank uncertain; 1 of 4 observations")
    worse = table(good=good - 9.0, bad=bad)
    assert worse.loc["bad", "note"].startswith("highest score, uncertain")
    assert worse.loc["good", "note"] == "rank uncertain"


def test_what_normal_outcomes_tell_about_each_other() -> None:
    """ln p(y_i, y_j | rest) − ln p(y_i | rest) − ln p(y_j | rest), from conditional
    distributions."""
    rng = np.random.default_rng(8)
    root, y = rng.standard_normal((5, 7)), rng.standard_normal(5)
    covariance = root @ root.T
    precision = np.linalg.inv(covariance)
    found = mutual_information(precision, precision @ y)

    def log_density(own: list[int], given: list[int]) -> float:
        gain = covariance[np.ix_(own, given)] @ np.linalg.inv(covariance[np.ix_(given, given)])
        spread = covariance[np.ix_(own, own)] - gain @ covariance[np.ix_(given, own)]
        return float(multivariate_normal(gain @ y[given], spread).logpdf(y[own]))

    rest = [0, 2, 4]
    wanted = log_density([1, 3], rest) - log_density([1], rest) - log_density([3], rest)
    assert found[1, 3] == pytest.approx(wanted)
    np.testing.assert_allclose(found, found.T)
    np.testing.assert_array_equal(np.diagonal(found), 0.0)


@pytest.mark.parametrize("n_threads", [8, 30])  # fewer than unknowns, and more
def test_threads_tell_about_each_other_through_users(n_threads: int) -> None:
    """The joint distribution of threads is that of the model, and conditional ones are those of the
    scores."""
    rng = np.random.default_rng(9)
    rows = np.arange(n_threads)
    threads = dv.SharedOutcome(
        rng.dirichlet(np.ones(6), n_threads), rng.standard_normal(n_threads), intercept=True
    )
    left_out = threads.left_out()
    prior = LatentPrior(
        np.zeros(6, dtype=int),
        np.zeros((1, 1)),
        np.ones((1, 1, 1)),
        np.zeros(1),
        np.ones((1, 1)),
        np.zeros((6, 1)),
    )
    params = {"noise_precision": 2.0, "coefficients": np.zeros(1)}
    precision, pull = left_out.joint(prior, params, rows)
    laws = left_out.predictive(prior, params, np.zeros((6, 1)))
    np.testing.assert_allclose(np.diagonal(precision) ** -0.5, laws.std)
    np.testing.assert_allclose(threads.observed - pull / np.diagonal(precision), laws.mean)
    design = np.hstack([threads.participation @ np.eye(6), left_out._covariates])
    spread = np.block([[np.eye(6) + 1.0, np.zeros((6, 1))], [np.zeros((1, 6)), np.eye(1)]])
    np.testing.assert_allclose(
        np.linalg.inv(precision), design @ spread @ design.T + np.eye(n_threads) / 2.0
    )
    some, other = left_out.joint(prior, params, rows[::3])
    np.testing.assert_allclose(some, precision[::3, ::3])
    np.testing.assert_allclose(other, pull[::3])


def standardized_errors(rng: np.random.Generator) -> list[float]:
    """(difference − truth) / error of two normal models of 60 threads of 40 users, with known
    noise; and without pairs."""
    z = rng.permutation(np.arange(40) % 5)
    latent = 25.0 * z + 5.0 * rng.standard_normal(40)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        takes_part = rng.random((n, 40)) < 0.1
        takes_part[np.arange(n), rng.integers(0, 40, n)] = True
        participation = takes_part / takes_part.sum(axis=1, keepdims=True)
        return participation, participation @ latent - 50.0 + np.sqrt(5.0) * rng.standard_normal(n)

    (threads, y), (new, y_new) = draw(60), draw(500)
    found = []
    for prior in (25.0 * np.eye(40) + 35.0**2 * (z[:, None] == z), 35.0**2 * np.eye(40)):
        precision = np.linalg.inv(threads @ prior @ threads.T + 5.0 * np.eye(60))
        pull, across = precision @ y, new @ prior @ threads.T
        variance = (
            5.0
            + np.einsum("ij,ij->i", new @ prior, new)
            - np.einsum("ij,ij->i", across @ precision, across)
        )
        scores = norm(y - pull / np.diagonal(precision), np.diagonal(precision) ** -0.5).logpdf(y)
        expected = norm(across @ pull, np.sqrt(variance)).logpdf(y_new).mean()
        found.append((scores, mutual_information(precision, pull), 60 * expected))
    (one, g_one, true_one), (other, g_other, true_other) = found
    terms, common = (
        one - other,
        shared_variance(Influence(g_one, g_one, 60), Influence(g_other, g_other, 60)),
    )
    away = terms.sum() - (true_one - true_other)
    return [away / comparison._error(terms, common), away / comparison._error(terms, 0.0)]


def test_errors_know_that_threads_share_users() -> None:
    """Over 100 worlds, standardized errors have a standard deviation of one; without pairs it is
    nearly two."""
    rng = np.random.default_rng(11)
    ours, independent = np.std([standardized_errors(rng) for _ in range(100)], axis=0)
    assert ours == pytest.approx(1.0, abs=ACCEPT / np.sqrt(200))
    assert ours < 1.2
    assert independent > 1.5


def test_draws_tell_what_closed_forms_do() -> None:
    """Where the outcomes are jointly normal, covariances of draws with leverages estimate the same
    variance."""
    forum = dv.datasets.agreement(12, 60, seed=1)
    threads = dv.SharedOutcome(forum.participation, forum.outcome)
    model = dv.DualViewMixture(1, n_warmup=200, n_draws=2000, n_chains=2).fit(None, threads)
    first, second = left_out_pairs(model.posterior_, threads, np.arange(60))
    exact = shared_variance(Influence(first, second, 60))
    given = log_likelihoods(model)
    assert shared_variance(
        comparison._influence(model.posterior_, threads, given, None)
    ) == pytest.approx(exact, rel=0.3)
    assert shared_variance(Influence.of_draws(given)) != pytest.approx(exact, rel=0.3)


def test_pairs_of_many_observations_are_sampled() -> None:
    """Independent likelihoods share nothing; common ones share a variance that grows with the
    number of pairs."""
    rng = np.random.default_rng(10)
    common = rng.standard_normal((2, 400, 1))
    values = 0.1 * common + np.zeros((1, 1, 1500))
    assert shared_variance(Influence.of_draws(values)) == pytest.approx(
        1500 * 1499 * 0.01**2, rel=0.2
    )
    alone = shared_variance(Influence.of_draws(0.1 * rng.standard_normal((2, 400, 1500))))
    assert alone < 0.01 * 1500 * 1499 * 0.01**2


def test_folds_fit_again() -> None:
    observations = behavior("normal")
    models = {"one": fit(observations, 0, 100), "other": fit(observations, 5, 100)}
    table = dv.compare(models, folds=3)
    assert table["unsure"].tolist() == [0, 0]
    by_hand = 0.0
    for training, held_out in observations.split(3):
        again = fit(training, 0, 100)
        by_hand += float(again.predict_outcome(held_out).log_density(held_out.outcome).sum())
    assert table.loc["one", "elpd"] == pytest.approx(by_hand)
    for folds in (1, 2.5, True, "5", 13):
        with pytest.raises(dv.errors.InputError, match="folds must be"):
            dv.compare(models, folds=folds)
    with pytest.raises(dv.errors.InputError, match='folds=3\\) goes with by="observation"'):
        dv.compare(models, by="user", folds=3)
    loaded = dv.DualViewMixture.from_posterior(models["one"].posterior_)
    loaded.posterior_ = type(loaded.posterior_)(loaded.posterior_.tree)
    with pytest.raises(dv.errors.InputError, match="'loaded' came from a file or from shards"):
        dv.compare({"one": models["one"], "loaded": loaded}, observations, folds=3)


def test_observations_that_are_given_are_those_of_the_fit(tmp_path: Path) -> None:
    """A file of a fit has no observations. Those that are given have the users in their own order,
    not in that of the fit."""
    given = behavior("normal")
    names = np.array(["ann", "bob", "cid", "dan"])[USER]
    users = {
        order: dv.UserRegression(names, given.design, given.outcome, users=list(order))
        for order in (("ann", "bob", "cid", "dan"), ("dan", "cid", "bob", "ann"))
    }
    there, back = users.values()
    model = fit(there, 0, 50)
    model.posterior_.save(tmp_path / "fit.nc")
    loaded = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "fit.nc"))
    expected = observation_scores(model)
    for own in (there, back):
        found = observation_scores(loaded, own)
        np.testing.assert_allclose(found.elpd, expected.elpd)
        np.testing.assert_allclose(found.lppd, expected.lppd)
    with pytest.raises(dv.errors.InputError, match="that of the fit, with 12 observations; got 11"):
        dv.compare({"a": model, "b": loaded}, back.take(np.arange(11)))
    with pytest.raises(dv.errors.InputError, match="a UserRegression with outcomes; got 'x'"):
        dv.compare({"a": model, "b": loaded}, "x")


def test_what_is_no_dict_of_fits_is_refused() -> None:
    model = dv.DualViewMixture()
    with pytest.raises(dv.errors.InputError, match=r"by name, such as compare.*; got a list"):
        dv.compare([model, model])
    with pytest.raises(dv.errors.InputError, match=r"by name, such as compare.*; got 'x'"):
        dv.compare("x")
    with pytest.raises(dv.errors.InputError, match="got None"):
        dv.compare(None)
    with pytest.raises(
        dv.errors.InputError, match="'a' is a DualViewMixture, which is not fitted: call fit first"
    ):
        dv.compare({"a": model, "b": model})
    with pytest.raises(dv.errors.InputError, match="'a' is 3"):
        dv.compare({"a": 3, "b": model})


def test_bad_requests() -> None:
    models = {"one": fit(behavior("normal"), 0, 30), "other": fit(behavior("normal"), 1, 30)}
    with pytest.raises(
        dv.errors.InputError, match='by must be "observation" or "user"; got \'thread\''
    ):
        dv.compare(models, by="thread")
    other = behavior("normal").take(np.arange(11))
    with pytest.raises(
        dv.errors.InputError, match="same observations; they have one: 12, other: 11"
    ):
        dv.compare(models | {"other": fit(other, 1, 30)})


def test_coefficients_of_their_own_are_integrated_out() -> None:
    """With one cluster and fewer than two threads a user, scores given the coefficients are unsure;
    integrated ones are not."""
    forum = dv.datasets.agreement(30, 40, seed=1)
    threads = dv.SharedOutcome(forum.participation, forum.outcome, noise_variance="paper")
    model = dv.DualViewMixture(1, n_warmup=200, n_draws=400, n_chains=2).fit(None, threads)
    given, integrated = leave_one_out(log_likelihoods(model)), observation_scores(model)
    assert given.unsure.sum() >= 5
    assert integrated.unsure.sum() <= 1
    assert integrated.total < given.total  # those given the coefficients are optimistic
    np.testing.assert_allclose(integrated.lppd, given.lppd)


def known_user(kind: str) -> tuple[Any, Any]:
    """Two clusters far apart, all parameters as good as known; users 0 and 1 are in the first, 2
    and 3 in the second."""
    rng = np.random.default_rng(7)
    features = np.array([[-5.0], [-5.1], [5.0], [5.2], [-4.9], [5.1]]) + 0.01 * rng.standard_normal(
        (6, 1)
    )
    user = np.repeat(np.arange(6), 5)
    latent = np.where(features[:, 0] < 0, -2.0, 2.0)
    if kind == "binary":
        return features, dv.BinaryOutcomes(
            user, np.ones((30, 1)), rng.random(30) < 1 / (1 + np.exp(-latent[user]))
        )
    return features, dv.UserRegression(
        user, np.ones((30, 1)), latent[user] + 0.3 * rng.standard_normal(30)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "binary"])
def test_scores_of_users_are_those_of_fits_without_them(kind: str) -> None:
    features, observations = known_user(kind)
    prior = {
        "feature_prior": dv.GaussianPrior(0.0, 25.0),
        "behavior_prior": dv.GaussianPrior(0.0, 4.0),
    }
    settings: dict[str, Any] = {
        "n_clusters": 2,
        "n_warmup": 300,
        "n_draws": 2000,
        "n_chains": 2,
        **prior,
    }
    options: dict[str, Any] = {} if kind == "binary" else {"noise_variance": 0.1}

    def cut(rows: np.ndarray, users: np.ndarray) -> Any:
        place = np.cumsum(users) - 1
        return type(observations)(
            place[observations.user[rows]],
            observations.design[rows],
            observations.outcome[rows],
            n_users=users.sum(),
            **options,
        )

    everybody = np.ones(6, dtype=bool)
    whole = cut(np.arange(30), everybody)

    def without(u: int, seed: int) -> float:
        others = np.arange(6) != u
        rest = cut(np.flatnonzero(observations.user != u), others)
        model = dv.DualViewMixture(random_state=seed, **settings).fit(features[others], rest)
        own = np.flatnonzero(observations.user == u)
        new = type(observations)(
            np.zeros(5, dtype=int), observations.design[own], observations.outcome[own], **options
        )
        rows = _rows_of(model, features[u : u + 1], new)
        return float(rows)

    ours = np.array(
        [
            user_scores(dv.DualViewMixture(random_state=s, **settings).fit(features, whole)).elpd
            for s in range(4)
        ]
    )
    theirs = np.array([[without(u, 50 + s) for u in range(6)] for s in range(4)])
    error = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / 4) + 0.01
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / error).max() < 2 * ACCEPT


def _rows_of(model: Any, x: np.ndarray, new: Any) -> float:
    """ln p(observations | features) of a new user, its vector drawn many times in each draw and
    cluster."""
    rows = model._candidates()
    seen = Features.of(model.posterior_, {"features": x})
    log_weights = rows.log_prior + rows.log_features(seen, 1)[0]
    means, roots = rows.latent.means, rows.latent.roots
    rng = np.random.default_rng(0)
    densities = []
    for _ in range(200):
        vectors = means + (roots @ rng.standard_normal((*means.shape, 1)))[..., 0]
        location = vectors @ new.design.T
        if "noise_precision" in model.posterior_:
            s = model.posterior_.flat("noise_precision")[rows.draw][:, None]
            densities.append(
                (0.5 * np.log(s / (2 * np.pi)) - 0.5 * s * (new.outcome - location) ** 2).sum(
                    axis=1
                )
            )
        else:
            densities.append(log_expit((2 * new.outcome - 1) * location).sum(axis=1))
    density = logsumexp(np.array(densities), axis=0) - np.log(200)
    return float(logsumexp(log_weights + density) - logsumexp(log_weights))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "normal"])
def test_scores_are_those_of_fits_without_the_observation(kind: str) -> None:
    observations = behavior(kind)
    n, seeds = observations.n_observations, range(5)

    def without(i: int, seed: int) -> float:
        rest, one = observations.take(np.arange(n) != i), observations.take([i])
        return float(fit(rest, 100 + seed, 1000).predict_outcome(one).log_density(one.outcome)[0])

    ours = np.array([observation_scores(fit(observations, seed, 2000)).elpd for seed in seeds])
    theirs = np.array([[without(i, 10 * i + seed) for i in range(n)] for seed in seeds])
    error = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / len(seeds))
    total = np.sqrt((ours.sum(axis=1).var(ddof=1) + theirs.sum(axis=1).var(ddof=1)) / len(seeds))
    assert (
        np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / error
    ).max() < 2 * ACCEPT  # five runs: errors are rough
    assert abs(ours.sum(axis=1).mean() - theirs.sum(axis=1).mean()) < 2 * ACCEPT * total
