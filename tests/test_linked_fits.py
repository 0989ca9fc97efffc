"""Fits with a linear link, and the comparison of fits."""

import numpy as np
import pytest

import dualview as dv
from dualview.errors import InputError

SETTINGS = {"n_warmup": 200, "n_draws": 400, "n_chains": 2}


def users(seed=0, slope=3.0, n_users=60, n_threads=300):
    """One cluster whose behavior follows the first of two features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(5.0, [2.0, 0.1], (n_users, 2))
    latent = 10.0 + slope * (X[:, 0] - 5.0) + rng.normal(size=n_users)
    participation = (rng.random((n_threads, n_users)) < 0.1).astype(float)
    participation[participation.sum(axis=1) == 0, 0] = 1.0
    outcome = participation @ latent + 2.0 * rng.normal(size=n_threads)
    return X, latent, dv.SharedOutcome(participation, outcome)


@pytest.fixture(scope="module")
def linked():
    X, latent, behavior = users()
    return dv.DualViewMixture(1, link="linear", **SETTINGS).fit(X, behavior), X, latent, behavior


def test_slopes_are_found_in_the_users_units(linked):
    model = linked[0]
    mean, sd = (f(model.posterior_.flat("slopes"), axis=0) for f in (np.mean, np.std))
    assert abs(mean[0] - 3.0) < 4 * sd[0]
    assert sd[0] < 0.5
    assert abs(mean[1]) < 4 * sd[1]


def test_one_cluster_is_a_mixed_model_with_a_fixed_slope(linked):
    """With normal effects and a common slope the posterior mean is the generalised least-squares
    one, given the variances."""
    model, X, _, behavior = linked
    post = model.posterior_
    noise = 1.0 / post["noise_precision"].mean()
    latent = post.flat("latent")
    slopes = post.flat("slopes")
    left = latent - np.einsum("sd,ud->su", slopes, X - X.mean(axis=0))
    spread = left.var(axis=1).mean()
    design = np.column_stack([np.ones(len(X)), X - X.mean(axis=0)])
    participation, outcome = behavior.participation, behavior.observed
    covariance = noise * np.eye(len(outcome)) + spread * participation @ participation.T
    fixed = participation @ design
    precision = fixed.T @ np.linalg.solve(covariance, fixed)
    estimate = np.linalg.solve(precision, fixed.T @ np.linalg.solve(covariance, outcome))
    errors = np.sqrt(np.diagonal(np.linalg.inv(precision)))
    assert abs(slopes[:, 0].mean() - estimate[1]) < 0.4 * errors[1]
    assert slopes[:, 0].std() == pytest.approx(errors[1], rel=0.3)


def test_new_users_follow_the_slopes(linked):
    model = linked[0]
    near, far = (model.predict_latent(np.array([[x, 5.0]])) for x in (5.0, 7.0))
    slope = model.posterior_.flat("slopes")[:, 0].mean()
    assert far.mean[0] - near.mean[0] == pytest.approx(2.0 * slope, rel=0.1)
    n_users = len(model.latent_)
    alone = np.zeros((1, n_users + 1))
    alone[0, -1] = 1.0
    outcome = model.predict_outcome(alone, X_new=np.array([[7.0, 5.0]]))
    assert outcome.mean[0] == pytest.approx(far.mean[0], abs=1.0)


def test_a_saved_posterior_predicts_the_same(linked, tmp_path):
    model = linked[0]
    model.posterior_.save(tmp_path / "run.nc")
    again = dv.DualViewMixture.from_posterior(dv.load(tmp_path / "run.nc"))
    assert again.link == "linear"
    X_new = np.array([[6.0, 5.0]])
    np.testing.assert_array_equal(
        again.predict_latent(X_new).mean, model.predict_latent(X_new).mean
    )


@pytest.mark.slow
def test_slopes_vanish_where_behavior_ignores_features():
    X, _, behavior = users(seed=1, slope=0.0)
    model = dv.DualViewMixture(1, link="linear", **SETTINGS).fit(X, behavior)
    slopes = model.posterior_.flat("slopes")[:, 0]
    assert abs(slopes.mean()) < 3 * slopes.std()
    assert abs(slopes.mean()) < 0.3


def test_a_checkpointed_run_goes_on_to_the_same_draws(tmp_path):
    X, _, behavior = users(n_users=12, n_threads=30)
    short = {"n_warmup": 5, "n_chains": 1, "link": "linear"}
    whole = dv.DualViewMixture(n_draws=12, **short).fit(X, behavior)
    dv.DualViewMixture(n_draws=5, checkpoint=tmp_path / "run", **short).fit(X, behavior)
    resumed = dv.DualViewMixture(n_draws=12, checkpoint=tmp_path / "run", **short).fit(X, behavior)
    np.testing.assert_array_equal(resumed.posterior_["slopes"], whole.posterior_["slopes"])
    np.testing.assert_array_equal(resumed.posterior_["latent"], whole.posterior_["latent"])


@pytest.mark.parametrize("pooling", [None, "cluster"])
def test_vectors_have_slopes_for_each_number(pooling):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 3))
    behavior = dv.UserRegression(
        rng.integers(0, 15, 80), rng.normal(size=(80, 2)), rng.normal(size=80), n_users=15
    )
    model = dv.DualViewMixture(
        link="linear", pooling=pooling, n_warmup=10, n_draws=10, n_chains=2
    ).fit(X, behavior)
    assert model.posterior_["slopes"].shape == (2, 10, 2, 3)
    assert "slopes[1, 2]" in model.posterior_.scalars()


def test_what_is_wrong_is_said():
    X, _, behavior = users(n_users=12, n_threads=30)
    with pytest.raises(InputError, match='link must be None or "linear"; got True'):
        dv.DualViewMixture(link=True).fit(X, behavior)
    with pytest.raises(InputError, match="this fit lacks features X"):
        dv.DualViewMixture(link="linear").fit(None, behavior)
    with pytest.raises(InputError, match="this fit lacks a behavior"):
        dv.DualViewMixture(link="linear").fit(X)


class TestCompare:
    def test_the_link_is_seen(self, linked):
        model, _, _, behavior = linked
        none = dv.DualViewMixture(1, **SETTINGS).fit(None, behavior)
        table = dv.compare({"none": none, "linear": model})
        assert table.index[0] == "linear"
        assert table.loc["linear", "difference"] == 0.0
        assert table.loc["none", "difference"] > 0.0

    def test_log_likelihoods_are_the_behaviors(self, linked):
        from dualview.evaluation.comparison import log_likelihoods

        model, _, _, behavior = linked
        values = log_likelihoods(model)
        post = model.posterior_
        mean = behavior.participation @ post["latent"][1, 7]
        precision = post["noise_precision"][1, 7]
        expected = (
            0.5 * np.log(precision / (2 * np.pi))
            - 0.5 * precision * (behavior.observed - mean) ** 2
        )
        np.testing.assert_allclose(values[1, 7], expected)

    def test_what_is_wrong_is_said(self, linked):
        model, _, _, behavior = linked
        with pytest.raises(InputError, match="two or more fitted models"):
            dv.compare({"one": model})
        fewer = dv.DualViewMixture(1, n_warmup=5, n_draws=10, n_chains=2).fit(
            None, behavior.take(np.arange(50))
        )
        with pytest.raises(InputError, match="linked: 300, fewer: 50"):
            dv.compare({"linked": model, "fewer": fewer})
