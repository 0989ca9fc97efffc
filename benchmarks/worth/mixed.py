"""Mixed models: random effects of users, fixed effects of features and of what observations depend
on."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp

from benchmarks.worth.history import plain_columns
from benchmarks.worth.problem import Problem, Question, Rows
from benchmarks.worth.scores import Forecast, normal, yes_or_no
from benchmarks.worth.sets import Array

N_NODES = 41


def mixed(problem: Problem) -> Callable[[Question], Forecast]:
    """Linear, with random coefficients of the design; or logistic, with a random intercept."""
    return _logistic(problem) if problem.study.is_binary else _linear(problem)


class Linear(NamedTuple):
    """Estimates of a linear mixed model: effects (p,) and their covariance, random covariance (q,
    q), noise variance."""

    effects: Array
    effects_covariance: Array
    random_covariance: Array
    noise_variance: float

    def predict(
        self, fixed: Array, design: Array, seen: tuple[Array, Array, Array]
    ) -> tuple[Array, Array]:
        """Means and variances of rows of one user, given rows seen: fixed (m, p), design (m, q),
        outcome (m,).

        They are those of the best linear unbiased prediction; the variances have the effects'
        uncertainty.
        """
        seen_fixed, seen_design, outcome = seen
        covariance = (
            seen_design @ self.random_covariance @ seen_design.T
            + self.noise_variance * np.eye(len(outcome))
        )
        cross = design @ self.random_covariance @ seen_design.T
        gain = np.linalg.solve(covariance, cross.T).T
        mean = fixed @ self.effects + gain @ (outcome - seen_fixed @ self.effects)
        random = np.einsum("nq,qr,nr->n", design, self.random_covariance, design) - (
            gain * cross
        ).sum(axis=1)
        rest = fixed - gain @ seen_fixed
        return mean, self.noise_variance + random + np.einsum(
            "np,pr,nr->n", rest, self.effects_covariance, rest
        )


def _linear(problem: Problem) -> Callable[[Question], Forecast]:
    study = problem.study
    fixed = np.column_stack(
        [np.ones(len(study.outcome)), plain_columns(problem, np.arange(len(study.outcome)))]
    )
    design = np.column_stack(
        [np.ones(len(fixed)), problem.observation_columns[:, : study.design.shape[1] - 1]]
    )
    n_products = (design.shape[1] - 1) * problem.feature_columns.shape[1]
    candidates = [fixed[:, : fixed.shape[1] - n_products], fixed] if n_products else [fixed]
    columns, model = _best_linear(problem, candidates, design)

    def predict(question: Question) -> Forecast:
        y, asked = study.outcome, question.asked
        mean, variance = np.empty(len(asked)), np.empty(len(asked))
        for u in np.unique(study.user[asked]):
            own = study.user[asked] == u
            seen = question.history[study.user[question.history] == u]
            rows = asked[own]
            mean[own], variance[own] = model.predict(
                columns[rows], design[rows], (columns[seen], design[seen], y[seen])
            )
        return normal(y[asked], mean, variance)

    return predict


def _best_linear(problem: Problem, candidates: list[Array], design: Array) -> tuple[Array, Linear]:
    """The fixed effects with the least AIC under maximum likelihood, and their model by REML
    (statsmodels)."""
    import statsmodels.api as sm  # type: ignore[import-untyped, unused-ignore]

    rows = problem.training
    y, user = problem.study.outcome[rows], problem.study.user[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [
            sm.MixedLM(y, columns[rows], user, exog_re=design[rows]) for columns in candidates
        ]
        likelihoods = [model.fit(reml=False).llf for model in models] if len(models) > 1 else [0.0]
        best = int(
            np.argmin(
                [
                    columns.shape[1] - log
                    for columns, log in zip(candidates, likelihoods, strict=False)
                ]
            )
        )
        fit = models[best].fit(reml=True)
    n = candidates[best].shape[1]
    covariance = np.asarray(fit.cov_params())[:n, :n]
    return candidates[best], Linear(
        np.asarray(fit.fe_params), covariance, np.asarray(fit.cov_re), float(fit.scale)
    )


def _logistic(problem: Problem) -> Callable[[Question], Forecast]:
    """Maximum likelihood, the random intercept integrated out by Gauss–Hermite quadrature; also
    given a history."""
    study = problem.study
    fixed = np.column_stack(
        [np.ones(len(study.outcome)), plain_columns(problem, np.arange(len(study.outcome)))]
    )
    nodes, weights = hermegauss(N_NODES)
    log_weights = np.log(weights / weights.sum())
    signs = 2.0 * study.outcome - 1.0

    def user_logs(rows: Rows, effects: Array, spread: float) -> Array:
        """Log joint of each user's answers and each node, (U, nodes)."""
        each = log_expit(signs[rows, None] * ((fixed[rows] @ effects)[:, None] + spread * nodes))
        return log_weights + _sums(each, study.user[rows], study.n_users)

    def objective(theta: Array) -> tuple[float, Array]:
        effects, spread, rows = theta[:-1], float(np.exp(theta[-1])), problem.training
        logs = user_logs(rows, effects, spread)
        total = logsumexp(logs, axis=1)
        posterior = np.exp(logs - total[:, None])[study.user[rows]]
        slopes = (
            posterior
            * signs[rows, None]
            * expit(-signs[rows, None] * ((fixed[rows] @ effects)[:, None] + spread * nodes))
        )
        gradient = np.append(fixed[rows].T @ slopes.sum(axis=1), spread * (slopes @ nodes).sum())
        return float(-total.sum()), -gradient

    found = minimize(objective, np.zeros(fixed.shape[1] + 1), jac=True, method="L-BFGS-B").x
    effects, spread = found[:-1], float(np.exp(found[-1]))

    def predict(question: Question) -> Forecast:
        logs = user_logs(question.history, effects, spread)
        posterior = np.exp(logs - logsumexp(logs, axis=1)[:, None])[study.user[question.asked]]
        chances = expit((fixed[question.asked] @ effects)[:, None] + spread * nodes)
        return yes_or_no(study.outcome[question.asked], (posterior * chances).sum(axis=1))

    return predict


def _sums(values: Array, user: Rows, n_users: int) -> Array:
    """Sums of rows by user."""
    result = np.zeros((n_users, values.shape[1]))
    np.add.at(result, user, values)
    return result
