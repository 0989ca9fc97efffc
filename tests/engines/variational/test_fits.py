"""Fits by the variational engine through the estimator: a posterior like any other, verdict, files,
errors."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import dualview as dv
from dualview.errors import InputError
from dualview.posterior.draws.approximated import ApproximationFacts, StartFacts

FORUM = dv.datasets.agreement(n_users=15, n_threads=40, n_clusters=3, seed=1)
BEHAVIOR = dv.SharedOutcome(FORUM.participation, FORUM.outcome)


def _fit(**settings) -> dv.DualViewMixture:
    return dv.DualViewMixture(engine="variational", n_chains=2, n_draws=40, **settings).fit(
        FORUM.features, BEHAVIOR
    )


@pytest.fixture(scope="module")
def model() -> dv.DualViewMixture:
    return _fit()


def test_draws_fill_the_posterior(model: dv.DualViewMixture) -> None:
    post = model.posterior_
    assert post["latent"].shape == (2, 40, 15)
    assert post["z"].shape == (2, 40, 15)
    counts = [len(np.unique(z)) for z in post.flat("z")]
    np.testing.assert_array_equal(counts, post.flat("n_clusters"))
    rows = post.components
    np.testing.assert_array_equal(np.bincount(rows["owner"]), counts)
    assert np.isfinite(post["log_joint"]).all()
    assert post.diagnostics()["r_hat"].notna().all()


def test_the_clusters_and_coefficients_are_those_of_the_data(model: dv.DualViewMixture) -> None:
    assert adjusted_rand_score(FORUM.labels, model.labels_) > 0.5
    assert np.corrcoef(model.latent_, FORUM.latent)[0, 1] > 0.9
    predicted = model.predict_outcome(FORUM.test.participation)
    assert predicted.nll(FORUM.test.outcome) < 0.5 + 0.5 * np.log(
        2 * np.pi * np.var(FORUM.test.outcome)
    )
    assert model.predict(FORUM.features[:3]).shape == (3,)


def test_the_verdict_is_about_the_approximation(model: dv.DualViewMixture) -> None:
    facts = model.posterior_.approximation
    assert facts is not None
    assert [start.converged for start in facts.starts] == [True] * len(facts.starts)
    assert facts.bound == max(start.bound for start in facts.starts)
    assert "bound" in model.posterior_.verdict()
    assert "R-hat" not in model.posterior_.verdict()


def test_a_saved_posterior_is_read_as_it_was(model: dv.DualViewMixture, tmp_path: Path) -> None:
    model.posterior_.save(tmp_path / "run.nc")
    post = dv.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(post["latent"], model.posterior_["latent"])
    assert post.approximation == model.posterior_.approximation
    assert post.verdict() == model.posterior_.verdict()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_draws(model: dv.DualViewMixture) -> None:
    np.testing.assert_array_equal(_fit().posterior_["latent"], model.posterior_["latent"])


def test_with_a_fixed_number_every_draw_has_all_components() -> None:
    post = _fit(n_clusters=6).posterior_
    assert (np.bincount(post.components["owner"]) == 6).all()
    assert (post["n_clusters"] <= 6).all()


def test_per_user_regressions_are_fitted() -> None:
    rng = np.random.default_rng(0)
    z, user = np.arange(20) % 2, np.repeat(np.arange(20), 6)
    design = np.column_stack([np.ones(len(user)), rng.standard_normal(len(user))])
    latent = np.where(z[:, None], [3.0, 2.0], [-3.0, 0.0]) + 0.3 * rng.standard_normal((20, 2))
    outcome = (design * latent[user]).sum(axis=1) + 0.5 * rng.standard_normal(len(user))
    features = rng.standard_normal((20, 2)) + 4.0 * z[:, None]
    behavior = dv.UserRegression(user, design, outcome)
    model = dv.DualViewMixture(engine="variational", n_chains=2, n_draws=40).fit(features, behavior)
    assert model.posterior_["latent"].shape == (2, 40, 20, 2)
    assert adjusted_rand_score(z, model.labels_) == 1.0
    assert abs(model.latent_ - latent).max() < 1.0


def test_noise_of_each_cluster_is_refused() -> None:
    behavior = dv.UserRegression(
        np.repeat(np.arange(15), 3), np.ones((45, 1)), np.arange(45.0), noise="cluster"
    )
    with pytest.raises(InputError, match="noise that all share"):
        dv.DualViewMixture(engine="variational").fit(FORUM.features, behavior)


@pytest.mark.slow
def test_a_summary_keeps_moments_and_whole_draws() -> None:
    post = _fit(keep="summary", n_whole=10).posterior_
    assert post.n_draws == 10
    assert post.summary is not None
    assert post.summary.sizes["iteration"] == 40


@pytest.mark.slow
def test_chains_can_start_from_it() -> None:
    fits = [
        dv.DualViewMixture(init="variational", n_warmup=5, n_draws=5, n_chains=n).fit(
            FORUM.features, BEHAVIOR
        )
        for n in (1, 2)
    ]
    np.testing.assert_array_equal(fits[0].posterior_["z"][0], fits[1].posterior_["z"][0])
    assert fits[0].posterior_.approximation is None


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"pooling": "cluster"}, "pooling"),
        ({"link": "linear"}, "LinkedLikelihood"),
        ({"init": "variational"}, "init="),
    ],
)
def test_what_it_does_not_do_is_an_error_that_names_the_other_engine(
    settings: dict, text: str
) -> None:
    with pytest.raises(InputError, match=text) as caught:
        _fit(**settings)
    assert 'engine="gibbs"' in str(caught.value)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(InputError, match='engine must be "gibbs" or "variational"'):
        dv.DualViewMixture(engine="magic").fit(FORUM.features)


def test_verdicts_say_what_is_wrong() -> None:
    good = StartFacts(-10.0, 3, 20, True, 1.0)
    far = StartFacts(-30.0, 5, 20, True, 0.2)
    assert ApproximationFacts([good, good], 1, 0.3).verdict()[0]
    assert "close to the posterior" in ApproximationFacts([good, good], 1, 0.3).verdict()[1]
    assert "too narrow" in ApproximationFacts([good, good], 1, 1.3).verdict()[1]
    assert "too narrow" in ApproximationFacts([good, good], 1, None).verdict()[1]
    found, text = ApproximationFacts([good, far, far], 1, 0.3).verdict()
    assert not found
    assert "2 of 3 starts" in text
    assert not ApproximationFacts([good], 1, 0.3).verdict()[0]
    assert (
        "still growing"
        in ApproximationFacts([good._replace(converged=False), good], 1, 0.3).verdict()[1]
    )
    facts = ApproximationFacts([good, far], 1, None)
    assert ApproximationFacts.from_json(facts.to_json()) == facts
