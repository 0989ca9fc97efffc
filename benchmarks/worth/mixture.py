"""dualview: the mixture over users, with features of every kind."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import dualview as dv
from benchmarks.worth.problem import Problem, Question, Rows
from benchmarks.worth.scores import Forecast, yes_or_no
from benchmarks.worth.sets import Places
from dualview.evaluation.stacking import Stack

CHAINS: dict[str, Any] = {
    "engine": dv.Gibbs(n_warmup=400, thin=4),
    "n_draws": 150,
    "n_chains": 2,
    "n_jobs": 1,
}


def dual(problem: Problem) -> Callable[[Question], Forecast]:
    """Default priors, the number of clusters inferred."""
    return predictor(problem, fit(problem, random_state=problem.fold, **CHAINS))


def linked(problem: Problem) -> Callable[[Question], Forecast]:
    """The same with slopes of the users' coefficients on their features."""
    return predictor(problem, fit(problem, link="linear", random_state=problem.fold, **CHAINS))


def fit(problem: Problem, **settings: Any) -> dv.DualViewMixture:
    """The model with these settings, fitted to the training rows of the known users; without
    features, if all users are in one cluster."""
    features = None if settings.get("n_clusters") == 1 else _features(problem, problem.known)
    model = dv.DualViewMixture(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of chains of a fixed length, and of ties
        return model.fit(features, _behavior(problem, problem.training, len(problem.known)))


def predictor(
    problem: Problem, model: dv.DualViewMixture | Stack
) -> Callable[[Question], Forecast]:
    """Answers of a model that was fitted to the problem, or of several of them together."""
    study, n_known, n_new = problem.study, len(problem.known), len(problem.new)

    def predict(question: Question) -> Forecast:
        n_all = n_known + n_new if question.is_new else n_known
        given: dict[str, Any] = (
            {"X_new": _features(problem, problem.new), "unknown": "missing"}
            if question.is_new
            else {}
        )
        if question.n_known:
            given["behavior_new"] = _behavior(problem, question.history, n_new, n_known)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predicted = model.predict_outcome(
                _behavior(problem, question.asked, n_all, with_outcome=False), **given
            )
        truth = study.outcome[question.asked]
        if study.is_binary:
            return yes_or_no(truth, predicted.mean)
        return Forecast(predicted.mean, predicted.log_density(truth), predicted.cdf(truth))

    return predict


def _features(problem: Problem, users: Places) -> pd.DataFrame:
    return problem.study.features.iloc[users].reset_index(drop=True)


def _behavior(
    problem: Problem, rows: Rows, n_users: int, first: int = 0, with_outcome: bool = True
) -> Any:
    """Rows as a behavior of n_users users from the place ``first`` on: known users come first, then
    new ones."""
    study = problem.study
    place = np.empty(study.n_users, dtype=np.int64)
    place[np.concatenate([problem.known, problem.new])] = np.arange(study.n_users)
    kind = dv.BinaryOutcomes if study.is_binary else dv.UserRegression
    more = {"common": study.common[rows]} if study.common.shape[1] else {}
    outcome = study.outcome[rows] if with_outcome else None
    return kind(
        place[study.user[rows]] - first, study.design[rows], outcome, n_users=n_users, **more
    )
