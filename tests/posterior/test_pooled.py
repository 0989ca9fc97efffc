"""A fit whose clusters share their users' behavior, after the sampler: names, files, resuming,
commands, new users."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from dualview import cli
from dualview.behaviors.families.base import Parts
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.errors import DataWarning, InputError
from dualview.posterior.prediction.new_users import NewUsers
from dualview.views.features import ClusterRows
from posterior.test_new_users import FEATURES, N_USERS, OUTCOME, PARTICIPATION, PRIORS, compare

pytestmark = pytest.mark.filterwarnings(
    "ignore::dualview.errors.ConvergenceWarning", "ignore::dualview.errors.DataWarning"
)

FORUM = dv.datasets.agreement(20, 40, latent_sd=0, seed=1)
SHORT = {"n_warmup": 30, "n_draws": 40, "n_chains": 2}


def behavior(**options: Any) -> dv.SharedOutcome:
    return dv.SharedOutcome(FORUM.participation, FORUM.outcome, **options)


def fit(**options: Any) -> dv.DualViewMixture:
    return dv.DualViewMixture(**SHORT | {"pooling": "cluster"} | options).fit(
        FORUM.features, behavior()
    )


@pytest.fixture(scope="module")
def fitted() -> dv.DualViewMixture:
    return fit()


def test_users_of_a_cluster_have_one_coefficient_and_there_is_no_spread(
    fitted: dv.DualViewMixture,
) -> None:
    post = fitted.posterior_
    assert {"behavior.base_mean", "behavior.base_precision"} <= set(post.names)
    assert not {"behavior.base_covariance", "behavior.base_dof"} & set(post.names)
    assert "features.base_dof" in post
    assert post.spec.pooling == "cluster"
    for z, latent in zip(post.flat("z"), post.flat("latent"), strict=True):
        assert len(np.unique(latent)) == len(np.unique(z))
        assert len(np.unique(np.column_stack([z, latent]), axis=0)) == len(np.unique(z))
    assert not any("behavior.base_dof" in name for name in post.diagnostics().index)


def test_files_are_read_again_and_predict_the_same(
    fitted: dv.DualViewMixture, tmp_path: Path
) -> None:
    fitted.posterior_.save(tmp_path / "run.nc")
    again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    assert again.pooling == "cluster"
    new = np.hstack([FORUM.test.participation[:5], np.full((5, 2), 0.2)])
    for model in (fitted, again):
        assert model.predict_outcome(FORUM.test.participation[:5]).std.min() > 0
    np.testing.assert_array_equal(again.latent_, fitted.latent_)
    predicted = [model.predict_outcome(new, FORUM.features[:2]) for model in (fitted, again)]
    np.testing.assert_array_equal(predicted[0].mean, predicted[1].mean)
    assert np.isfinite(predicted[0].log_density(np.full(5, 50.0))).all()
    probabilities = [model.predict_proba(FORUM.features[:3]) for model in (fitted, again)]
    np.testing.assert_array_equal(*probabilities)


def test_a_summary_has_the_same_draws(fitted: dv.DualViewMixture) -> None:
    summary = fit(keep="summary", n_whole=10).posterior_
    np.testing.assert_array_equal(
        summary.summary["behavior.base_precision"], fitted.posterior_["behavior.base_precision"]
    )
    np.testing.assert_allclose(summary.latent_mean, fitted.posterior_.latent_mean)


def test_a_run_goes_on_where_it_stopped_and_stays_pooled(
    fitted: dv.DualViewMixture, tmp_path: Path
) -> None:
    fit(checkpoint=tmp_path, n_draws=15)
    resumed = fit(checkpoint=tmp_path).posterior_
    for name in resumed.names:
        np.testing.assert_array_equal(resumed[name], fitted.posterior_[name])
    assert json.loads((tmp_path / "manifest.json").read_text())["made_with"]["pooling"] == "cluster"
    with pytest.raises(InputError, match="pooling was 'cluster', now None"):
        fit(checkpoint=tmp_path, pooling=None)


def test_covariates(fitted: dv.DualViewMixture) -> None:
    model = dv.DualViewMixture(pooling="cluster", **SHORT).fit(
        FORUM.features, behavior(intercept=True)
    )
    assert model.posterior_["coefficients"].shape == (2, 40, 1)
    assert model.posterior_["coefficients"].std() > 0
    assert "coefficients" not in fitted.posterior_


def test_arguments() -> None:
    for wrong in ("user", True, 1):
        with pytest.raises(InputError, match='pooling must be None, "auto" or "cluster"'):
            fit(pooling=wrong)
    with pytest.warns(DataWarning, match="pooling is not used"):
        dv.DualViewMixture(pooling="cluster", **SHORT).fit(FORUM.features)


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    users, threads, run = tmp_path / "users.csv", tmp_path / "threads.csv", tmp_path / "run"
    users.write_text("user,a\n" + "".join(f"{u},{x}\n" for u, x in enumerate(FORUM.features[:, 0])))
    rows = [
        f"{t},{u},{w},{FORUM.outcome[t]}\n"
        for t, row in enumerate(FORUM.participation)
        for u, w in enumerate(row)
        if w
    ]
    threads.write_text("thread,user,weight,outcome\n" + "".join(rows))
    sizes = ["--warmup", "20", "--draws", "20", "--chains", "1", "--quiet"]
    assert (
        cli.main(
            ["fit", str(users), str(threads), "--out", str(run), "--pooling", "cluster", *sizes]
        )
        == 0
    )
    assert dv.load(run / "posterior.nc").spec.pooling == "cluster"
    assert cli.main(["resume", str(run), "--draws", "30", "--quiet"]) == 0
    assert dv.load(run / "posterior.nc").n_draws == 30
    assert cli.main(["predict", str(run), str(threads)]) == 0
    assert "40 threads predicted" in capsys.readouterr().out
    assert (
        cli.main(["fit", str(users), str(threads), "--out", str(run), "--pooling", "user", *sizes])
        == 2
    )


# Users new to the fit.


def small_fit(
    seed: int, n_users: int, threads: slice, n_clusters: int | None
) -> dv.DualViewMixture:
    model = dv.DualViewMixture(
        n_clusters,
        pooling="cluster",
        n_warmup=300,
        n_draws=1200,
        n_chains=1,
        init="one",
        random_state=seed,
        **PRIORS,
    )
    outcomes = dv.SharedOutcome(
        PARTICIPATION[threads, :n_users], OUTCOME[threads], noise_variance=4.0
    )
    return model.fit(FEATURES[:n_users], outcomes)


THRESHOLDS = np.array([-2.5, -1.5, 0.0, 1.5])


@pytest.mark.slow
@pytest.mark.parametrize("n_clusters", [None, 3], ids=["inferred", "fixed"])
def test_prediction_with_outcomes_equals_a_fit_that_includes_them(n_clusters: int | None) -> None:
    def predicted(seed: int) -> np.ndarray:
        model = small_fit(seed, N_USERS, slice(2, None), n_clusters)
        latent = model.predict_latent(
            FEATURES[-1:], dv.SharedOutcome(PARTICIPATION[:2], OUTCOME[:2])
        )
        alone = model.predict_latent(FEATURES[-1:])
        return np.array([mixture.cdf([t])[0] for mixture in (latent, alone) for t in THRESHOLDS])

    def refitted(seed: int) -> np.ndarray:
        posts = [
            small_fit(200 + seed, N_USERS + 1, threads, n_clusters).posterior_
            for threads in (slice(None), slice(2, None))
        ]
        return np.concatenate(
            [(post.flat("latent")[:, -1:] < THRESHOLDS).mean(axis=0) for post in posts]
        )

    assert compare(predicted, refitted) < 4.5


@pytest.mark.slow
def test_outcome_with_a_new_user_equals_a_fit_that_includes_it() -> None:
    thread = np.ones((1, N_USERS + 1))
    thresholds = [-3.0, 0.0, 3.0]

    def outcome_below(model: dv.DualViewMixture, *features: Any) -> np.ndarray:
        outcome = model.predict_outcome(thread, *features)
        return np.array([outcome.cdf([threshold])[0] for threshold in thresholds])

    def predicted(seed: int) -> np.ndarray:
        return outcome_below(small_fit(seed, N_USERS, slice(2, None), None), FEATURES[-1:])

    def refitted(seed: int) -> np.ndarray:
        return outcome_below(small_fit(300 + seed, N_USERS + 1, slice(2, None), None))

    assert compare(predicted, refitted) < 4.5


def test_newcomers_who_meet_in_a_new_cluster_share_its_coefficient() -> None:
    n_draws, n_fresh, alpha = 4000, 3, 5.0
    rows = ClusterRows(np.arange(n_draws), n_draws, n_fresh)
    vars(rows).update(
        weight=np.tile([3.0] + [alpha / n_fresh] * n_fresh, n_draws),
        offset=np.zeros(n_draws),
        new_weight=lambda *_: np.full(n_draws, alpha),
        total=np.full(n_draws, 3.0 + alpha),
        share=None,
        customers=lambda *_: None,
        has_labels_by_table=False,
        log_features=lambda _x, _n: np.zeros((1, len(rows))),
        features=SimpleNamespace(opened=lambda *_: None),
        latent=SimpleNamespace(
            n_dims=1,
            is_shared=True,
            means=np.tile([7.0] + [1.0] * n_fresh, n_draws)[:, None],
            covariances=np.tile([0.0] + [4.0] * n_fresh, n_draws)[:, None, None],
            roots=np.tile([0.0] + [2.0] * n_fresh, n_draws)[:, None, None],
            opened=lambda *_: None,
        ),
        link=SimpleNamespace(by_draw=lambda _x: np.zeros((1, 1, 1))),
    )
    users = NewUsers(rows, None, 2)  # type: ignore[arg-type]
    _, means, variances, _ = users.impute(np.random.default_rng(0), np.array([0, 1]))
    assert (variances == 0.0).all()
    means = means[..., 0]
    opened = means[0] != 7.0
    probability = alpha / (3 + alpha)
    assert abs(opened.mean() - probability) < 4.5 * np.sqrt(
        probability * (1 - probability) / n_draws
    )
    together = opened & (means[0] == means[1])
    assert abs(together[opened].mean() - 1 / (4 + alpha)) < 4.5 * np.sqrt(
        1 / (4 + alpha) / opened.sum()
    )
    drawn = means[0][opened]
    assert abs(drawn.mean() - 1.0) < 4.5 * 2.0 / np.sqrt(len(drawn))
    assert abs(drawn.var() - 4.0) < 4.5 * 4.0 * np.sqrt(2 / len(drawn))


def test_a_mixture_with_single_values_has_everything_but_a_density() -> None:
    log_weights = np.log([[0.2], [0.5], [0.3]])
    parts = Parts(log_weights, np.array([[0.0], [1.0], [5.0]]), np.array([[0.0], [0.0], [2.0]]))
    mixture = NormalMixture(1, 3, lambda _: parts)
    at = {-0.1: 0.0, 0.0: 0.2, 0.5: 0.2, 1.0: 0.7}
    for value, known in at.items():
        tail = NormalMixture(
            1, 1, lambda _: Parts(np.zeros((1, 1)), np.array([[5.0]]), np.array([[2.0]]))
        ).cdf([value])[0]
        assert mixture.cdf([value])[0] == pytest.approx(known + 0.3 * tail)
    assert mixture.quantile(0.1)[0] == pytest.approx(0.0, abs=1e-6)
    assert mixture.quantile(0.5)[0] == pytest.approx(1.0, abs=1e-6)
    assert mixture.mean[0] == pytest.approx(2.0)
    assert mixture.std[0] == pytest.approx(np.sqrt(0.2 * 4 + 0.5 * 1 + 0.3 * (9 + 4)))
    with pytest.raises(InputError, match="no density here"):
        mixture.log_density([1.0])


def test_latent_behavior_of_newcomers(fitted: dv.DualViewMixture) -> None:
    latent = fitted.predict_latent(FORUM.features[:4])
    low, high = latent.interval(0.9).T
    assert (low <= high).all()
    assert latent.draws(50).shape == (50, 4)
    with pytest.raises(InputError, match="no density here"):
        latent.log_density(np.zeros(4))


@pytest.mark.filterwarnings("ignore::dualview.errors.ConvergenceWarning")
def test_clusters_without_spread_are_recovered() -> None:
    """Users are put where they belong, and coefficients are those of a regression that knows who
    belongs together."""
    forum = dv.datasets.agreement(40, 300, latent_sd=0, seed=2)
    model = dv.DualViewMixture(pooling="cluster", n_warmup=200, n_draws=500, n_chains=2)
    model.fit(forum.features, dv.SharedOutcome(forum.participation, forum.outcome))
    assert adjusted_rand_score(forum.labels, model.labels_) == 1.0
    effects = forum.participation @ np.eye(5)[forum.labels]
    known, (residue,), *_ = np.linalg.lstsq(effects, forum.outcome)
    errors = np.sqrt(np.diag(np.linalg.inv(effects.T @ effects)) * residue / (300 - 5))
    # A user may stray to another cluster in a few draws.
    assert np.median(np.abs(model.latent_ - known[forum.labels]) / errors[forum.labels]) < 0.2
    assert np.abs(model.latent_ - forum.latent).max() < 4 * errors.max()
