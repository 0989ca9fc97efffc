"""dualview: the mixture over users, with features of every kind."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import dualview as dv
from benchmarks.worth.problem import Problem, Question, Rows
from benchmarks.worth.scores import Forecast, yes_or_no

CHAINS: dict[str, Any] = {
    "engine": dv.Gibbs(n_warmup=400, thin=4),
    "n_draws": 150,
    "n_chains": 2,
    "n_jobs": 1,
}


def dual(problem: Problem) -> Callable[[Question], Forecast]:
    """Default priors, the number of clusters inferred."""
    return _fitted(problem, None)


def linked(problem: Problem) -> Callable[[Question], Forecast]:
    """The same with slopes of the users' coefficients on their features."""
    return _fitted(problem, "linear")


def _fitted(problem: Problem, link: str | None) -> Callable[[Question], Forecast]:
    study, n_known = problem.study, len(problem.known)
    place = np.empty(study.n_users, dtype=np.int64)  # known users first, then new ones
    place[problem.known], place[problem.new] = (
        np.arange(n_known),
        n_known + np.arange(len(problem.new)),
    )

    def behavior(rows: Rows, n_users: int, first: int = 0, with_outcome: bool = True) -> Any:
        kind = dv.BinaryOutcomes if study.is_binary else dv.UserRegression
        more = {"common": study.common[rows]} if study.common.shape[1] else {}
        outcome = study.outcome[rows] if with_outcome else None
        return kind(
            place[study.user[rows]] - first, study.design[rows], outcome, n_users=n_users, **more
        )

    features = [
        study.features.iloc[users].reset_index(drop=True) for users in (problem.known, problem.new)
    ]
    model = dv.DualViewMixture(link=link, random_state=problem.fold, **CHAINS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of chains of a fixed length, and of ties
        model.fit(features[0], behavior(problem.training, n_known))

    def predict(question: Question) -> Forecast:
        n_all = n_known + len(problem.new) if question.is_new else n_known
        given: dict[str, Any] = (
            {"X_new": features[1], "unknown": "missing"} if question.is_new else {}
        )
        if question.n_known:
            given["behavior_new"] = behavior(question.history, len(problem.new), n_known)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predicted = model.predict_outcome(
                behavior(question.asked, n_all, with_outcome=False), **given
            )
        truth = study.outcome[question.asked]
        if study.is_binary:
            return yes_or_no(truth, predicted.mean)
        return Forecast(predicted.mean, predicted.log_density(truth), predicted.cdf(truth))

    return predict
