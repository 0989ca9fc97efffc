"""Tables for regressions that know a user's history through its means."""

import numpy as np

from benchmarks.worth.problem import Problem, Question, Rows
from benchmarks.worth.sets import Array


def plain_columns(problem: Problem, rows: Rows) -> Array:
    """What rows depend on, features of their users, and products of features with what users may
    differ in."""
    own, features = (
        problem.observation_columns[rows],
        problem.feature_columns[problem.study.user[rows]],
    )
    n_slopes = problem.study.design.shape[1] - 1
    products = [own[:, [j]] * features for j in range(n_slopes)]
    return np.column_stack([own, features, *products])


def history_columns(problem: Problem, rows: Rows, chosen: list[Rows]) -> Array:
    """Means of outcomes and columns over the history of each row, chosen (one array of rows each),
    and its size."""
    study, overall = problem.study, problem.study.outcome[problem.training].mean()
    sizes = np.array([len(part) for part in chosen])
    owner, flat = (
        np.repeat(np.arange(len(rows)), sizes),
        np.concatenate([*chosen, np.empty(0, dtype=np.int64)]),
    )
    values = np.column_stack([study.outcome - overall, problem.observation_columns])[flat]
    sums = np.column_stack([np.bincount(owner, column, len(rows)) for column in values.T])
    return np.column_stack([sums / np.maximum(sizes, 1)[:, None], sizes])


def asked_histories(problem: Problem, question: Question) -> list[Rows]:
    """The history of each row that is asked."""
    user = problem.study.user
    of = {u: question.history[user[question.history] == u] for u in np.unique(user[question.asked])}
    return [of[u] for u in user[question.asked]]


def training_histories(problem: Problem, question: Question) -> list[Rows]:
    """For each training row as many other ones of its user as the question has, drawn at random, or
    all that there are."""
    user, rng = problem.study.user, np.random.default_rng([problem.fold, 2])
    of = {u: problem.training[user[problem.training] == u] for u in problem.known}
    chosen = []
    for row in problem.training:
        others = of[user[row]][of[user[row]] != row]
        n = len(others) if question.n_known is None else min(question.n_known, len(others))
        chosen.append(rng.permutation(others)[:n])
    return chosen
