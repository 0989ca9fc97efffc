"""What is measured of a fit, by hand and by a real one."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import invgamma, norm

from reproduction.cells import Cell, Effort
from reproduction.extras import EXTRAS, prior_ratio, sizes
from reproduction.forums import forum_of
from reproduction.models import MODELS, fit
from reproduction.scores import SCORES, measure, nll_by_mean_of_logs

CELL = Cell("agreement", "dual-DP", 30, 0, 1, Effort(2, 100, 150, 1), n_users=20)


@pytest.fixture(scope="module")
def forum():
    return forum_of(CELL)


@pytest.fixture(scope="module")
def model(forum):
    return fit(CELL, forum)


@pytest.fixture(scope="module")
def scores(model, forum):
    return measure(model, forum)


def test_mean_of_logs_by_hand():
    locations, precisions, y = (
        np.array([[0.0, 1.0], [2.0, 1.0]]),
        np.array([1.0, 4.0]),
        np.array([0.5, 0.0]),
    )
    terms = [
        norm.logpdf(y[j], locations[s, j], precisions[s] ** -0.5)
        for s in range(2)
        for j in range(2)
    ]
    assert nll_by_mean_of_logs(locations, precisions, y) == pytest.approx(-np.mean(terms))


def test_nll_is_the_predictions_own_and_the_mean_of_logs_is_never_less(model, forum, scores):
    predicted = model.predict_outcome(forum.test.participation)
    assert scores["nll"] == predicted.nll(forum.test.outcome)
    assert scores["nll_mean_of_logs"] > scores["nll"]


def test_partition_scores_are_those_of_the_estimate(model, scores):
    assert scores["n_clusters"] == model.posterior_["n_clusters"].mean()
    assert scores["n_clusters_estimate"] == len(np.unique(model.labels_))
    assert 0.5 < scores["ari"] <= 1
    assert scores["features_ratio"] <= 0
    assert scores["behavior_ratio"] <= 0


def test_diagnostics_are_the_worst(model, scores):
    table = model.posterior_.diagnostics()
    assert scores["r_hat"] == table["r_hat"].max()
    assert scores["ess"] == min(table["ess_bulk"].min(), table["ess_tail"].min())


@pytest.mark.parametrize("name", MODELS)
def test_each_model_has_its_scores_and_no_others(name):
    cell = Cell("iris", name, 10, 0, 0, Effort(1, 5, 10, 1), n_users=12)
    forum = forum_of(cell)
    model = fit(cell, forum)
    found = measure(model, forum)
    assert tuple(found) == SCORES
    assert math.isnan(found["nll"]) != MODELS[name].behavior
    assert math.isnan(found["ari"]) == (name == "single")
    assert ("features" in model.posterior_.spec.units) == MODELS[name].features
    assert model.n_clusters == {"inferred": None, "true": 3, "one": 1}[MODELS[name].clusters]


def test_scaled_constants_reach_the_fit(forum):
    cell = Cell(
        "agreement",
        "dual-DP",
        30,
        0,
        1,
        Effort(1, 2, 4, 1),
        n_users=20,
        fit=(("feature_scale", 4.0),),
    )
    scaled = fit(cell, forum)
    assert np.allclose(scaled.feature_prior.covariance, 4 * np.cov(forum.features, rowvar=False))
    assert np.allclose(
        scaled.posterior_.spec.units["features"].prior[1], scaled.feature_prior.covariance
    )


def test_chains_can_start_at_the_truth(forum):
    started = fit(replace(CELL, effort=Effort(1, 0, 4, 1), fit=(("init", "truth"),)), forum)
    assert started.engine.init is forum.labels


def test_sizes_of_known_draws():
    z = np.array([[0, 0, 0, 1], [1, 1, 1, 1], [2, 2, 0, 1]])
    draws = {"z": z, "n_clusters": np.array([2, 1, 3])}
    found = sizes(SimpleNamespace(posterior_=SimpleNamespace(flat=draws.__getitem__)), None)
    assert found["n_clusters"] == [1, 2, 3]
    assert found["probability"] == pytest.approx([1 / 3] * 3)
    assert found["size_mean"] == pytest.approx([3, 2 / 3, 1 / 3])


def test_the_ratio_of_priors_of_alpha_is_that_of_their_densities():
    alpha = np.array([0.1, 0.7, 3.0, 40.0])
    for scale in (0.25, 4.0):  # 1/α ~ Gamma(1/2, scale 2s), so α is inverse gamma
        densities = invgamma(0.5, scale=1 / (2 * scale)).logpdf(alpha) - invgamma(
            0.5, scale=1 / 2
        ).logpdf(alpha)
        assert np.ptp(prior_ratio(alpha, scale) - densities) == pytest.approx(0.0, abs=1e-12)


def test_alpha_prior_left_as_it_is_changes_nothing(model, forum, scores):
    found = EXTRAS["alpha_prior"](model, forum)
    assert found["1.0"]["nll"] == pytest.approx(scores["nll"])
    assert found["1.0"]["n_clusters"] == pytest.approx(scores["n_clusters"])
    assert found["1.0"]["effective_share"] == pytest.approx(1.0)
    assert found["0.25"]["n_clusters"] > found["4.0"]["n_clusters"]


def test_predictions_and_similarity_are_sorted(model, forum):
    shown = EXTRAS["predictions"](model, forum)
    assert shown["outcome"] == sorted(forum.test.outcome.tolist())
    low, high = np.array(shown["most"]).T
    assert ((low < shown["mean"]) & (shown["mean"] < high)).all()
    matrix = EXTRAS["similarity"](model, forum)
    assert matrix["labels"] == sorted(forum.labels.tolist())
    assert np.diag(matrix["matrix"]).tolist() == [1.0] * 20
