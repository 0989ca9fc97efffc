"""Runs that keep a summary instead of every draw: the same chains, in less room, that can be killed
and resumed."""

from pathlib import Path

import numpy as np
import pytest

import dualview as dv
from dualview.errors import InputError

FORUM = dv.datasets.agreement(30, 60, seed=0)
BEHAVIOR = dv.SharedOutcome(FORUM.participation, FORUM.outcome)
SETTINGS = {"n_warmup": 20, "n_draws": 100, "n_chains": 2}


@pytest.fixture(scope="module")
def whole() -> dv.DualViewMixture:
    return dv.DualViewMixture(**SETTINGS).fit(FORUM.features, BEHAVIOR)


@pytest.fixture(scope="module")
def summary() -> dv.DualViewMixture:
    return dv.DualViewMixture(**SETTINGS, keep="summary", n_whole=20).fit(FORUM.features, BEHAVIOR)


def test_chains_are_the_same(whole: dv.DualViewMixture, summary: dv.DualViewMixture) -> None:
    full, short = whole.posterior_, summary.posterior_
    np.testing.assert_array_equal(short["z"], full["z"][:, 4::5])
    for name in ("alpha", "n_clusters", "log_joint", "noise_precision", "features.base_covariance"):
        np.testing.assert_array_equal(short.summary[name].values, full[name])


def test_moments_are_over_all_draws(whole: dv.DualViewMixture, summary: dv.DualViewMixture) -> None:
    latent = whole.posterior_.flat("latent")
    np.testing.assert_allclose(summary.posterior_.latent_mean, latent.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(
        summary.posterior_.summary["latent_sd"].values, latent.std(axis=0, ddof=1), rtol=1e-10
    )
    assert whole.posterior_.summary is None


def test_medians_are_over_the_whole_draws(
    whole: dv.DualViewMixture, summary: dv.DualViewMixture
) -> None:
    kept = whole.posterior_["latent"][:, 4::5]
    np.testing.assert_array_equal(summary.latent_, np.median(kept, axis=(0, 1)))


@pytest.mark.parametrize("link", [None, "linear"])
def test_vectors_and_links_have_moments_in_the_user_s_units(link: str | None) -> None:
    """Two numbers of different units for a user; under a link what is summed up is the whole of
    each, slopes included."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(15), 4)
    design = rng.standard_normal((60, 2)) * [1.0, 0.1]
    features = rng.standard_normal((15, 2)) + 5.0
    latent = features @ [[2.0, 30.0], [-1.0, 5.0]] + rng.standard_normal((15, 2)) * [1.0, 9.0]
    outcome = np.einsum("nq,nq->n", design, latent[user]) + 0.3 * rng.standard_normal(60)
    behavior = dv.UserRegression(user, design, outcome)
    prior = dv.GaussianPrior(
        [5.0, 150.0], [[9.0, 60.0], [60.0, 900.0]]
    )  # working units mix the two
    settings = {"n_warmup": 10, "n_draws": 30, "n_chains": 2, "link": link, "behavior_prior": prior}
    draws = dv.DualViewMixture(**settings).fit(features, behavior).posterior_.flat("latent")
    post = (
        dv.DualViewMixture(**settings, keep="summary", n_whole=10)
        .fit(features, behavior)
        .posterior_
    )
    np.testing.assert_allclose(post.latent_mean, draws.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(
        post.summary["latent_sd"].values, draws.std(axis=0, ddof=1), rtol=1e-9
    )


def test_diagnostics_look_at_every_draw(
    whole: dv.DualViewMixture, summary: dv.DualViewMixture
) -> None:
    ours, theirs = (
        model.posterior_.diagnostics().loc["log alpha", "ess_bulk"] for model in (summary, whole)
    )
    assert ours == theirs


def test_it_predicts_from_the_whole_draws(summary: dv.DualViewMixture) -> None:
    prediction = summary.predict_outcome(FORUM.test.participation)
    assert np.isfinite(prediction.nll(FORUM.test.outcome))
    assert summary.predict(FORUM.features[:3]).shape == (3,)


def test_it_survives_a_file_and_a_stop(summary: dv.DualViewMixture, tmp_path: Path) -> None:
    """A run of 40 draws that is gone on with to 100: every fifth draw is whole in both."""
    options = SETTINGS | {
        "keep": "summary",
        "checkpoint": tmp_path / "run",
        "checkpoint_interval": 1e-3,
    }
    dv.DualViewMixture(**options | {"n_draws": 40, "n_whole": 8}).fit(FORUM.features, BEHAVIOR)
    resumed = dv.DualViewMixture(**options, n_whole=20).fit(FORUM.features, BEHAVIOR)
    np.testing.assert_array_equal(resumed.latent_, summary.latent_)
    np.testing.assert_array_equal(resumed.posterior_["latent"], summary.posterior_["latent"])
    resumed.posterior_.save(tmp_path / "run.nc")
    loaded = dv.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(loaded.latent_median, summary.latent_)
    np.testing.assert_array_equal(loaded.latent_mean, summary.posterior_.latent_mean)
    np.testing.assert_array_equal(
        loaded.summary["alpha"].values, summary.posterior_.summary["alpha"].values
    )


def test_another_spacing_of_whole_draws_is_refused(tmp_path: Path) -> None:
    options = SETTINGS | {"keep": "summary", "checkpoint": tmp_path}
    dv.DualViewMixture(**options, n_whole=20).fit(FORUM.features, BEHAVIOR)
    with pytest.raises(InputError, match="whole draws, every"):
        dv.DualViewMixture(**options, n_whole=50).fit(FORUM.features, BEHAVIOR)


@pytest.mark.parametrize("keep", ["all", None, 2.5, True])
def test_what_keep_can_be(keep: object) -> None:
    with pytest.raises(InputError, match='"draws" or "summary"'):
        dv.DualViewMixture(keep=keep).fit(FORUM.features, BEHAVIOR)
