"""Scores of predictions, and what is said of them."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

import dualview as dv
from dualview.forum import scores
from dualview.forum.example import example_posts
from dualview.forum.scores import Difference, Score, evaluate, fit_baselines, gaussian, verdict


@pytest.fixture(scope="module")
def data() -> dv.forum.ForumData:
    return dv.forum.read_forum(example_posts(n_users=60, n_threads=600, seed=1))


def test_scores_are_those_of_the_textbook(data: dv.forum.ForumData) -> None:
    outcome = data.test.outcome
    rng = np.random.default_rng(0)
    mean, other = outcome + rng.normal(0, 0.5, len(outcome)), np.full(len(outcome), 2.0)
    found = evaluate(data, {"mean": gaussian(other, 1.0), "dual": gaussian(mean, 0.5)})
    assert [score.name for score in found.scores] == ["dual", "mean"]
    dual = found.scores[0]
    density = -0.5 * np.log(2 * np.pi * 0.25) - (outcome - mean) ** 2 / 0.5
    assert dual.nll == pytest.approx(-density.mean())
    assert dual.r2 == pytest.approx(r2_score(outcome, mean))
    assert dual.rmse == pytest.approx(np.sqrt(((outcome - mean) ** 2).mean()))
    assert dual.coverage["0.95"] == pytest.approx(np.mean(np.abs(outcome - mean) < 1.959964 * 0.5))
    gain = density + 0.5 * np.log(2 * np.pi) + (outcome - 2.0) ** 2 / 2
    assert found.differences == [
        Difference(
            "mean", pytest.approx(gain.mean()), pytest.approx(gain.std(ddof=1) / len(gain) ** 0.5)
        )
    ]


def test_baselines_use_what_they_say(
    data: dv.forum.ForumData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scores, "_PENALTIES", np.array([10.0]))
    predictive = fit_baselines(data)
    train, test = data.training, data.test
    assert set(predictive) == {"ridge", "mean", "covariates", "ridge_covariates"}
    np.testing.assert_allclose(predictive["mean"].mean, train.outcome.mean())
    alone = dataclasses.replace(
        data,
        training=dataclasses.replace(train, covariates=train.covariates[[]]),
        test=dataclasses.replace(test, covariates=test.covariates[[]]),
    )
    plain = fit_baselines(alone)
    assert set(plain) == {"ridge", "mean"}
    wanted = (
        Ridge(alpha=10.0)
        .fit(train.participation.toarray(), train.outcome)
        .predict(test.participation.toarray())
    )
    np.testing.assert_allclose(plain["ridge"].mean, wanted, rtol=1e-6)
    design = np.column_stack([np.ones(len(train.ids)), train.covariates])
    # The names and the number of rare participants are not among what linear regression knows.
    with_rare = np.linalg.lstsq(design, train.outcome, rcond=None)[0]
    assert not np.allclose(
        predictive["covariates"].mean,
        np.column_stack([np.ones(len(test.ids)), test.covariates]) @ with_rare,
    )


def test_the_penalty_is_chosen_without_the_test(data: dv.forum.ForumData) -> None:
    changed = dataclasses.replace(
        data, test=dataclasses.replace(data.test, outcome=data.test.outcome + 100.0)
    )
    np.testing.assert_array_equal(
        fit_baselines(data)["ridge"].mean, fit_baselines(changed)["ridge"].mean
    )


def score(name: str, r2: float) -> Score:
    return Score(name, name, 1.0, 0.1, 1.0, r2, {})


@pytest.mark.parametrize(
    ("r2", "gain", "error", "words"),
    [
        (
            0.09,
            0.01,
            0.02,
            ["adds little (+0.010)", "cannot be distinguished from the single model"],
        ),
        (
            0.30,
            0.05,
            0.01,
            ["adds (+0.220)", "better than the single model, by 0.0500 ± 0.0100 nats"],
        ),
        (0.02, -0.05, 0.01, ["adds little (-0.060)", "worse than the single model"]),
    ],
)
def test_the_verdict_is_honest(r2: float, gain: float, error: float, words: list[str]) -> None:
    said: Any = verdict(
        [score("dual", r2), score("covariates", 0.08)], [Difference("single", gain, error)]
    )
    assert all(word in said for word in words)
    assert "very little" in verdict([score("dual", 0.01)], [])


def test_the_verdict_tells_of_test_threads_that_are_unlike_the_others() -> None:
    assert "differ from the training threads" in verdict(
        [score("dual", -0.4), score("mean", -1.9)], []
    )
    assert "differ from the training threads" not in verdict(
        [score("dual", 0.1), score("mean", -0.004)], []
    )
