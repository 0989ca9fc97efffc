"""Means, ridge regression and boosting: methods without a model of users."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import expit, xlogy
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold

from benchmarks.worth.history import (
    asked_histories,
    history_columns,
    plain_columns,
    training_histories,
)
from benchmarks.worth.problem import Problem, Question
from benchmarks.worth.scores import Forecast, normal, yes_or_no
from benchmarks.worth.sets import Array, Places

Predictor = Callable[[Question], Forecast]

PENALTIES = np.logspace(-2, 4, 9)
N_INNER = 4  # folds of users that choose penalties, numbers of trees and the spread of errors
TREES: dict[str, Any] = {
    "learning_rate": 0.1,
    "max_leaf_nodes": 6,
    "max_iter": 150,
    "early_stopping": False,
    "random_state": 0,
}
PRIOR_ANSWERS = 2.0


def means(problem: Problem) -> Predictor:
    """The mean of a user's known outcomes; of all training outcomes for who has none. Shares of yes
    are shrunk a little."""
    study, training = problem.study, problem.training
    user, y = study.user, study.outcome
    overall, spread = float(y[training].mean()), float(y[training].var(ddof=1))
    _, place, counts = np.unique(user[training], return_inverse=True, return_counts=True)
    own = np.bincount(place, y[training]) / counts
    within = float(((y[training] - own[place]) ** 2).sum() / (len(training) - len(counts)))

    def predict(question: Question) -> Forecast:
        n, sums = (
            np.bincount(user[question.history], weights, study.n_users)
            for weights in (None, y[question.history])
        )
        n, sums = n[user[question.asked]], sums[user[question.asked]]
        truth = y[question.asked]
        if study.is_binary:
            return yes_or_no(truth, (sums + PRIOR_ANSWERS * overall) / (n + PRIOR_ANSWERS))
        some = np.maximum(n, 1)
        mean = np.where(n > 0, sums / some, overall)
        return normal(truth, mean, np.where(n > 0, within * (1.0 + 1.0 / some), spread))

    return predict


def ridge(problem: Problem) -> Predictor:
    """Ridge regression on what an observation depends on and on features; it does not know a user's
    history."""
    return _regression(problem, _best_ridge, with_history=False)


def ridge_with_history(problem: Problem) -> Predictor:
    """The same with the mean of the user's known outcomes; a regression of its own for each number
    of them."""
    return _regression(problem, _best_ridge, with_history=True)


def boosting(problem: Problem) -> Predictor:
    """Gradient boosted trees on the same columns, the history's among them."""
    return _regression(problem, _best_trees, with_history=True)


Guess = tuple[
    Callable[[Array], Array], float
]  # from columns to means or probabilities; mean square of its errors


def _regression(
    problem: Problem, best: Callable[[Array, Array, Places, bool], Guess], with_history: bool
) -> Predictor:
    study, training = problem.study, problem.training

    def predict(question: Question) -> Forecast:
        table, asked = plain_columns(problem, training), plain_columns(problem, question.asked)
        if with_history and question.n_known != 0:
            table = np.column_stack(
                [table, history_columns(problem, training, training_histories(problem, question))]
            )
            asked = np.column_stack(
                [
                    asked,
                    history_columns(problem, question.asked, asked_histories(problem, question)),
                ]
            )
        guess, square = best(table, study.outcome[training], study.user[training], study.is_binary)
        truth = study.outcome[question.asked]
        return (
            yes_or_no(truth, guess(asked))
            if study.is_binary
            else normal(truth, guess(asked), square)
        )

    return predict


def _loss(truth: Array, guess: Array, is_binary: bool) -> float:
    if not is_binary:
        return float(np.mean((truth - guess) ** 2))
    return float(-np.mean(xlogy(truth, guess) + xlogy(1.0 - truth, 1.0 - guess)))


def _chosen(
    table: Array,
    outcome: Array,
    user: Places,
    is_binary: bool,
    paths: Callable[[Array, Array, Array], Sequence[Array]],
) -> tuple[int, float]:
    """The place on a path of predictions that does best for users left out, and its loss."""
    found: list[Array] | None = None
    for fit, left in GroupKFold(N_INNER).split(table, outcome, user):
        guesses = paths(table[fit], outcome[fit], table[left])
        found = [np.empty(len(outcome)) for _ in guesses] if found is None else found
        for whole, part in zip(found, guesses, strict=True):
            whole[left] = part
    assert found is not None
    losses = [_loss(outcome, guess, is_binary) for guess in found]
    return int(np.argmin(losses)), min(losses)


def _best_ridge(table: Array, outcome: Array, user: Places, is_binary: bool) -> Guess:
    def fitted(columns: Array, y: Array, penalty: float) -> Callable[[Array], Array]:
        if not is_binary:
            return Ridge(penalty).fit(columns, y).predict
        model = LogisticRegression(C=1.0 / penalty, max_iter=1000).fit(columns, y)
        return lambda asked: expit(model.decision_function(asked))

    best, loss = _chosen(
        table,
        outcome,
        user,
        is_binary,
        lambda x, y, asked: [fitted(x, y, penalty)(asked) for penalty in PENALTIES],
    )
    return fitted(table, outcome, PENALTIES[best]), loss


def _best_trees(table: Array, outcome: Array, user: Places, is_binary: bool) -> Guess:
    plan = (
        HistGradientBoostingClassifier(**TREES)
        if is_binary
        else HistGradientBoostingRegressor(**TREES)
    )

    def path(columns: Array, y: Array, asked: Array) -> list[Array]:
        model = clone(plan).fit(columns, y)
        if is_binary:
            return [stage[:, 1] for stage in model.staged_predict_proba(asked)]
        return list(model.staged_predict(asked))

    best, loss = _chosen(table, outcome, user, is_binary, path)
    final = plan.set_params(max_iter=best + 1).fit(table, outcome)
    return (lambda asked: final.predict_proba(asked)[:, 1]) if is_binary else final.predict, loss
