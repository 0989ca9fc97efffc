"""Views that may disagree, as a user of the library meets them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from dualview import cli
from dualview.errors import InputError
from dualview.evaluation.comparison import user_scores
from dualview.posterior.partition import crosstab
from dualview.posterior.prediction import candidates, left_out_users
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.left_out import LatentPriors
from dualview.posterior.prediction.new_users import NewUsers
from dualview.posterior.prediction.user_features import Features

N_USERS, N_EACH = 60, 5
SHORT: dict[str, Any] = {"n_warmup": 150, "n_draws": 150, "n_chains": 2, "random_state": 1}


def world(
    seed: int = 0, share: float = 0.75, spread: float = 0.4
) -> tuple[Any, dv.UserRegression, Any, Any]:
    """Features of three clusters; behavior of the same clusters, some users acting as another
    one."""
    rng = np.random.default_rng(seed)
    looks = np.arange(N_USERS) % 3
    acts = np.where(rng.random(N_USERS) < share, looks, rng.integers(0, 3, N_USERS))
    x = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])[looks] + 0.7 * rng.standard_normal(
        (N_USERS, 2)
    )
    latent = np.array([-4.0, 0.0, 4.0])[acts] + spread * rng.standard_normal(N_USERS)
    user = np.repeat(np.arange(N_USERS), N_EACH)
    outcome = latent[user] + rng.standard_normal(len(user))
    return x, dv.UserRegression(user, np.ones((len(user), 1)), outcome), looks, acts


@pytest.fixture(scope="module")
def fitted() -> dv.DualViewMixture:
    x, behavior, _, _ = world()
    return dv.DualViewMixture(agreement="learned", **SHORT).fit(x, behavior)


def test_looks_and_acts_are_both_found(fitted: dv.DualViewMixture) -> None:
    _, _, looks, acts = world()
    assert adjusted_rand_score(looks, fitted.labels_) > 0.9
    assert adjusted_rand_score(acts, fitted.behavior_labels_) > 0.8
    post = fitted.posterior_
    low, high = post.interval("agreement")
    assert low < np.mean(looks == acts) < high + 0.1
    apart = (post.flat("z") != post.flat("z_behavior")).mean(axis=0)
    assert apart[looks != acts].mean() > 0.8
    assert apart[looks == acts].mean() < 0.2
    assert not (post["agrees"] & (post["z"] != post["z_behavior"])).any()


def test_who_acts_otherwise(fitted: dv.DualViewMixture) -> None:
    found = fitted.posterior_.disagreements()
    assert list(found.columns) == ["user", "looks", "acts", "probability"]
    assert (found["looks"] != found["acts"]).all()
    assert found["probability"].is_monotonic_decreasing
    text = crosstab.text(fitted.posterior_, "role")
    assert text is not None
    assert f"{len(found)} of {N_USERS} probably do not" in text
    table = fitted.posterior_.crosstab()
    assert table.to_numpy().sum() == N_USERS
    with pytest.warns(FutureWarning, match="is called crosstab now"):
        assert fitted.posterior_.crossings().equals(table)
    assert len(found) <= N_USERS - sum(table.loc[k, k] for k in table.index if k in table.columns)


def test_full_agreement_is_the_model_without(fitted: dv.DualViewMixture) -> None:
    x, behavior, _, _ = world()
    plain = dv.DualViewMixture(**SHORT).fit(x, behavior)
    same = dv.DualViewMixture(agreement=1.0, **SHORT).fit(x, behavior)
    np.testing.assert_array_equal(plain.posterior_["z"], same.posterior_["z"])
    np.testing.assert_array_equal(plain.labels_, plain.behavior_labels_)
    assert "agreement" not in plain.posterior_
    assert not len(plain.posterior_.disagreements())
    assert crosstab.text(plain.posterior_) is None
    assert fitted.posterior_["agreement"].shape == (2, 150)


def test_saved_loaded_and_resumed(fitted: dv.DualViewMixture, tmp_path: Path) -> None:
    fitted.posterior_.save(tmp_path / "draws.nc")
    again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "draws.nc"))
    assert again.agreement == dv.Beta(1, 1)
    np.testing.assert_array_equal(again.behavior_labels_, fitted.behavior_labels_)
    x, behavior, _, _ = world()
    np.testing.assert_allclose(again.predict_latent(x[:2]).mean, fitted.predict_latent(x[:2]).mean)
    run: dict[str, Any] = {"agreement": "learned", "checkpoint": tmp_path / "run", **SHORT}
    dv.DualViewMixture(**run | {"n_draws": 60}).fit(x, behavior)
    longer = dv.DualViewMixture(**run).fit(x, behavior)
    for name in ("z", "z_behavior", "agrees", "agreement", "latent"):
        np.testing.assert_array_equal(longer.posterior_[name], fitted.posterior_[name])
    with pytest.raises(InputError, match="agreement"):
        dv.DualViewMixture(**run | {"agreement": 0.5}).fit(x, behavior)


def test_on_the_command_line_and_in_the_report(tmp_path: Path) -> None:
    x, behavior, _, _ = world()
    pd.DataFrame({"user": np.arange(N_USERS), "a": x[:, 0], "b": x[:, 1]}).to_csv(
        tmp_path / "users.csv", index=False
    )
    answers = pd.DataFrame(
        {"user": np.repeat(np.arange(N_USERS), N_EACH), "one": 1.0, "y": behavior.outcome}
    )
    answers.to_csv(tmp_path / "answers.csv", index=False)
    names = [str(tmp_path / "users.csv"), str(tmp_path / "answers.csv")]
    asked = [
        "--kind",
        "regression",
        "--outcome",
        "y",
        "--by",
        "one",
        "--agreement",
        "learned",
        "--out",
        str(tmp_path / "run"),
    ]
    assert (
        cli.main(
            ["fit", *names, *asked, "--warmup", "100", "--draws", "100", "--chains", "2", "--quiet"]
        )
        == 0
    )
    users = pd.read_csv(tmp_path / "run" / "users.csv")
    assert {"behavior_cluster", "acts_otherwise"} <= set(users.columns)
    assert cli.main(["report", str(tmp_path / "run")]) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Users by the role they look like" in page
    assert "of the users act as they look" in page


def test_a_summary_of_draws() -> None:
    x, behavior, _, _ = world()
    model = dv.DualViewMixture(agreement=0.8, keep="summary", n_whole=10, **SHORT).fit(x, behavior)
    assert model.posterior_["z_behavior"].shape == (2, 10, N_USERS)
    assert (model.posterior_["agreement"] == 0.8).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"n_clusters": 3}, {"link": "linear"}, {"pooling": "cluster"}], ids=str
)
def test_with_other_parts_of_the_model(options: dict[str, Any]) -> None:
    x, behavior, looks, acts = world(2, spread=0.0 if "pooling" in options else 0.4)
    model = dv.DualViewMixture(agreement="learned", **SHORT, **options).fit(x, behavior)
    assert adjusted_rand_score(looks, model.labels_) > 0.9
    assert model.predict_latent(x[:3]).mean.shape == (3,)
    if "link" not in options:
        assert adjusted_rand_score(acts, model.behavior_labels_) > 0.7


@pytest.mark.slow
def test_tables_with_missing_cells_and_categories() -> None:
    x, behavior, looks, _ = world(3)
    users = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "town": np.array(["x", "y", "z"])[looks]})
    users.loc[::7, "a"] = np.nan
    for options in ({}, {"link": "linear"}):
        model = dv.DualViewMixture(agreement="learned", **SHORT, **options).fit(users, behavior)
        assert adjusted_rand_score(looks, model.labels_) > 0.9
    with pytest.raises(InputError, match="give complete rows"):
        model.predict_latent(users[:1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agreement": "some"}, "agreement must be None"),
        ({"agreement": 0.5, "n_clusters": 1}, "no meaning with n_clusters=1"),
        ({"agreement": 0.5, "engine": "variational"}, "does not do agreement"),
    ],
)
def test_bad_settings(options: dict[str, Any], message: str) -> None:
    x, behavior, _, _ = world()
    with pytest.raises(InputError, match=message):
        dv.DualViewMixture(**options).fit(x, behavior)


def test_both_views_are_needed() -> None:
    x, behavior, _, _ = world()
    with pytest.raises(InputError, match="lacks a behavior"):
        dv.DualViewMixture(agreement="learned").fit(x)
    with pytest.raises(InputError, match="lacks features X"):
        dv.DualViewMixture(agreement="learned").fit(None, behavior)


OPTIONS = [
    {},
    {"n_clusters": 4},
    pytest.param({"n_clusters": dv.PitmanYor(0.3)}, marks=pytest.mark.slow),
    pytest.param({"n_clusters": dv.PitmanYor("learned")}, marks=pytest.mark.slow),
    pytest.param({"n_clusters": dv.FiniteMixtures()}, marks=pytest.mark.slow),
]


def naive_joint(rows: Candidates, log_looks: np.ndarray, log_acts: np.ndarray) -> np.ndarray:
    """ln of the weight of every pair (look, act) of rows of a draw, (R, R), −inf across draws, by
    (M16) pair by pair."""
    assert rows.share is not None
    n = len(rows.draw)
    result = np.full((n, n), -np.inf)
    for i in range(n):
        d, fresh = rows.draw[i], not rows.known[i]
        share, here = rows.share[d], np.flatnonzero(rows.draw == d)
        new = rows.new_weight(np.full(rows.n_draws, 1.0 if fresh else 0.0), np.ones(rows.n_draws))[
            d
        ] / max(rows.n_fresh, 1)
        second = np.where(rows.known[here], rows.weight[here], new)
        second[here == i] += 1.0 + rows.offset[d] if fresh else 1.0
        for j, own in zip(here, second, strict=True):
            probability = (share if i == j else 0.0) + (1.0 - share) * own / second.sum()
            result[i, j] = log_looks[i] + np.log(probability) + log_acts[j]
    return result


@pytest.mark.parametrize(
    "options",
    OPTIONS,
    ids=str,
)
def test_weights_of_new_users(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_BASE_DRAWS", 1)
    x, behavior, _, _ = world()
    post = (
        dv.DualViewMixture(agreement=0.7, n_warmup=20, n_draws=4, n_chains=1, **options)
        .fit(x, behavior)
        .posterior_
    )
    rows = Candidates(post)
    log_looks, log_acts = np.random.default_rng(0).standard_normal((2, len(rows.draw)))
    customers = rows.customers(rows.weight)
    assert customers is not None
    joint = naive_joint(rows, log_looks, np.zeros(len(rows.draw)))
    np.testing.assert_allclose(
        customers.acting(log_looks[None])[0], logsumexp(joint, axis=0), atol=1e-10
    )
    joint = naive_joint(rows, log_looks, log_acts)
    np.testing.assert_allclose(
        customers.looking(log_looks[None], log_acts[None])[0], logsumexp(joint, axis=1), atol=1e-10
    )


def test_one_new_user_by_both_roads(fitted: dv.DualViewMixture) -> None:
    """Latent means by weights of all rows, and by rows that were drawn one for each draw of the
    posterior."""
    x, _, _, _ = world()
    post = fitted.posterior_
    new = NewUsers(Candidates(post), Features.of(post, {"features": x[:1]}), 1)
    given = new.given(slice(0, 1))
    exact = float(np.exp(given.log_weights[:, 0]) @ np.arctan(given.means[:, 0, 0]))
    found = []
    for seed in range(60):
        drawn = new.impute(np.random.default_rng(seed), np.array([0]))
        weights = np.exp(drawn.log_density - logsumexp(drawn.log_density))
        found.append(float(weights @ np.arctan(drawn.means[0, :, 0])))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - exact) < 4.5 * error


def weights_of_others(
    post: Any, draw: int, user: int, n_fresh: int
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the look (R,) of a user that a draw has been rid of, and of its act given
    each look (R, R); by (M16)."""
    labels = post.flat("z")[draw], post.flat("z_behavior")[draw], post.flat("agrees")[draw]
    prior, alpha = post.spec.partition_prior, float(post.flat("alpha")[draw])
    prior = prior.given(float(post.flat("discount")[draw])) if "discount" in post else prior
    n_known = int((post.components["owner"] == draw).sum())
    counts = np.zeros(n_known + n_fresh)
    for other, (look, act, agrees) in enumerate(zip(*labels, strict=True)):
        if other != user:
            counts[look] += 1
            counts[act] += not agrees

    def weights(counts: np.ndarray) -> np.ndarray:
        offset, opens = float(prior.offset(alpha)), prior.n_components is None
        result = np.where((counts > 0) | (not opens), counts + offset, 0.0)
        if n_fresh:  # each stands for clusters that nobody is in, whoever has opened one like it
            result[n_known:] += (
                prior.new_weight(alpha, int((counts > 0).sum()), counts.sum()) / n_fresh
            )
        return np.asarray(result / result.sum())

    share = float(post.flat("agreement")[draw])
    acts = np.array(
        [(1.0 - share) * weights(counts + one) for one in np.eye(len(counts))]
    ) + share * np.eye(len(counts))
    return weights(counts), acts


@pytest.mark.parametrize(
    "options",
    OPTIONS,
    ids=str,
)
def test_densities_of_users_left_out(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against weights counted anew for each user, look and act."""
    monkeypatch.setattr(candidates, "_BASE_DRAWS", 1)
    x, behavior, _, _ = world(share=0.3)
    post = (
        dv.DualViewMixture(agreement=0.4, n_warmup=20, n_draws=4, n_chains=1, **options)
        .fit(x, behavior)
        .posterior_
    )
    found, rows = left_out_users.user_densities(post, behavior), Candidates(post)
    features_of_all, priors = Features.of(post, {"features": x}), LatentPriors(post)
    params = {name: post.flat(name) for name in behavior.param_names}
    evidence = behavior.evidence_of_users(
        [priors[draw] for draw in range(4)], post.flat("latent"), params
    )
    own = left_out_users.LeftOutRows(rows, np.arange(4), None)
    constant = post.spec.units["features"].log_volume
    for user in range(N_USERS):
        looking, acting = (
            rows.log_features(features_of_all[user : user + 1], 1)[0],
            own.log_observations(evidence(user), None),
        )
        for draw in range(4):
            here = rows.draw == draw
            looks, acts = weights_of_others(post, draw, user, rows.n_fresh)
            features = np.log(looks @ np.exp(looking[here]))
            joint = np.log((looks * np.exp(looking[here])) @ acts @ np.exp(acting[here]))
            assert found.features[0, draw, user] == pytest.approx(features - constant, abs=1e-8)
            assert found.joint[0, draw, user] == pytest.approx(joint - constant, abs=1e-8)


def test_scores_by_user(fitted: dv.DualViewMixture) -> None:
    x, behavior, _, _ = world()
    plain = dv.DualViewMixture(**SHORT).fit(x, behavior)
    table = dv.compare({"apart": fitted, "together": plain}, by="user")
    assert table.index[0] == "apart"
    assert np.isfinite(table["elpd"]).all()


@pytest.mark.slow
def test_scores_by_user_are_those_of_refits() -> None:
    """A user left out by weights, and by a fit to the others that predicts it as a new user."""
    x, behavior, _, _ = world()
    prior = {
        "feature_prior": dv.GaussianPrior(np.zeros(2), 9.0 * np.eye(2)),
        "behavior_prior": dv.GaussianPrior(0.0, 9.0),
    }
    settings: dict[str, Any] = {
        "n_warmup": 300,
        "n_draws": 1500,
        "n_chains": 2,
        "agreement": 0.7,
        "n_clusters": 3,
        **prior,
    }
    users, places = np.arange(24), [0, 5, 10, 20]

    def cut(chosen: np.ndarray) -> tuple[Any, dv.UserRegression]:
        rows = np.flatnonzero(np.isin(behavior.user, chosen))
        place = np.searchsorted(chosen, behavior.user[rows])
        own = dv.UserRegression(
            place, np.ones((len(rows), 1)), behavior.outcome[rows], n_users=len(chosen)
        )
        return x[chosen], own

    def ours(seed: int) -> np.ndarray:
        scores = user_scores(dv.DualViewMixture(random_state=seed, **settings).fit(*cut(users)))
        return np.asarray(scores.elpd[places])

    def theirs(user: int, seed: int) -> float:
        model = dv.DualViewMixture(random_state=seed, **settings).fit(*cut(users[users != user]))
        rows, post = model._candidates(), model.posterior_
        own, _ = cut(np.array([user]))
        looks = rows.log_prior + rows.log_features(Features.of(post, {"features": own}), 1)[0]
        customers = rows.customers(rows.weight)
        assert customers is not None
        y = behavior.outcome[behavior.user == user]
        means, covariances = rows.latent.means, rows.latent.covariances
        s = post.flat("noise_precision")[rows.draw]
        covariance = covariances[:, :1, :1] + np.eye(len(y)) / s[:, None, None]
        away = y - means
        square = np.einsum("ri,ri->r", away, np.linalg.solve(covariance, away[..., None])[..., 0])
        acting = -0.5 * (np.linalg.slogdet(covariance)[1] + square + len(y) * np.log(2 * np.pi))
        return float(logsumexp(customers.acting(looks[None])[0] + acting) - logsumexp(looks))

    by_weights = np.array([ours(seed) for seed in range(4)])
    by_fits = np.array([[theirs(user, 50 + seed) for user in places] for seed in range(4)])
    error = np.sqrt((by_weights.var(axis=0, ddof=1) + by_fits.var(axis=0, ddof=1)) / 4) + 0.01
    assert (np.abs(by_weights.mean(axis=0) - by_fits.mean(axis=0)) / error).max() < 9.0


@pytest.mark.slow
def test_checks_with_refits(fitted: dv.DualViewMixture) -> None:
    """Each view is fitted by itself, where there is nothing to agree with."""
    checks = fitted.check(refit=True)
    assert checks["views"].verdict in ("fine", "look here", "the model is wrong here")
