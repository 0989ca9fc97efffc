"""Scores of predictions of the test threads, of the model and of its baselines.

Every competitor gives a predictive distribution, so that all have the same scores. Penalties are
chosen by cross-validation over blocks of training threads that follow each other in time; the test
threads are looked at once.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.families.gaussian import NormalMixture
from dualview.behaviors.likelihoods.ridge import ridge_estimate
from dualview.forum.data import RARE, ForumData, ForumThreads

Array = NDArray[np.float64]

PROBABILITIES = (0.5, 0.8, 0.95)
WORDS = {
    "dual": "dual-view mixture: participants with roles, and covariates",
    "single": "single model: participants without roles, and covariates",
    "ridge_covariates": "ridge regression on participants and covariates",
    "ridge": "ridge regression on participants",
    "covariates": "linear regression on covariates, without participants",
    "mean": "the mean of the training threads",
}
_PENALTIES = np.logspace(-1, 5, 13)
_FOLDS = 5
_LITTLE = 0.02
_DRIFT = 0.05


@dataclass(frozen=True)
class Score:
    """Of one competitor on the test threads. Negative log-likelihood and its standard error are per
    thread."""

    name: str
    words: str
    nll: float
    nll_error: float
    rmse: float
    r2: float
    coverage: dict[str, float]


@dataclass(frozen=True)
class Difference:
    """How much better (above zero) the dual model's log density is than another's, per thread, with
    a paired standard error."""

    than: str
    gain: float
    error: float


@dataclass(frozen=True)
class Evaluation:
    """All scores, the dual model against each other one, and what to think of it."""

    n_training: int
    n_test: int
    scores: list[Score]
    differences: list[Difference]
    verdict: str


def fit_baselines(data: ForumData) -> dict[str, NormalMixture]:
    """Predictive distributions of the test threads by everything but the mixtures."""
    train, test = data.training, data.test
    predictive = {"ridge": _ridge(train, test, [RARE]), "mean": _mean(train, test)}
    if train.covariates.shape[1]:
        predictive["covariates"] = _linear(train, test)
        predictive["ridge_covariates"] = _ridge(train, test, list(train.covariates))
    return predictive


def evaluate(data: ForumData, predictive: dict[str, NormalMixture]) -> Evaluation:
    """Scores of these predictive distributions on the test threads, in the order of ``WORDS``."""
    outcome = data.test.outcome
    names = [name for name in WORDS if name in predictive]
    densities = {name: predictive[name].log_density(outcome) for name in names}
    scores = [_score(name, predictive[name], densities[name], outcome) for name in names]
    differences = [
        Difference(name, *_mean_and_error(densities["dual"] - densities[name]))
        for name in names
        if name != "dual"
    ]
    return Evaluation(
        len(data.training.ids), len(outcome), scores, differences, verdict(scores, differences)
    )


def _score(name: str, predicted: NormalMixture, density: Array, outcome: Array) -> Score:
    nll, error = _mean_and_error(-density)
    # a mean need not exist where rare users take part
    rmse, r2, inside = accuracy(predicted.median, predicted.cdf(outcome), outcome)
    coverage = {str(p): share for p, share in inside}
    return Score(name, WORDS[name], nll, error, rmse, r2, coverage)


def accuracy(
    median: Array, levels: Array, outcome: Array
) -> tuple[float, float, list[tuple[float, float]]]:
    """Root mean squared error, R² against the mean of these outcomes, and the share of them inside
    central intervals of some probabilities. levels: distribution functions at the outcomes."""
    error = float(((outcome - median) ** 2).mean())
    spread = float(((outcome - outcome.mean()) ** 2).mean())
    held_from = np.abs(2 * levels - 1)
    inside = [(p, float(np.mean(held_from <= p))) for p in PROBABILITIES]
    return float(np.sqrt(error)), 1.0 - error / spread if spread > 0 else float("nan"), inside


def _mean_and_error(values: Array) -> tuple[float, float]:
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return float(values.mean()), error


def verdict(scores: list[Score], differences: list[Difference]) -> str:
    """The conclusion in plain words. Two standard errors count as a difference."""
    by_name = {score.name: score for score in scores}
    dual = by_name["dual"]
    sentences = [
        f"The dual model explains {max(dual.r2, 0.0):.1%} of the variance of the test threads "
        f"(R² {dual.r2:.3f})."
    ]
    if "covariates" in by_name:
        plain = by_name["covariates"].r2
        gain = dual.r2 - plain
        what = "adds little" if gain < _LITTLE else "adds"
        sentences.append(
            f"Covariates alone reach R² {plain:.3f}: knowing the early participants {what} "
            f"({gain:+.3f})."
        )
    if "mean" in by_name and by_name["mean"].r2 < -_DRIFT:
        sentences.append(
            "The test threads differ from the training threads in their mean (the training mean "
            f"has R² {by_name['mean'].r2:.3f} on them): the forum changed, or its threads are not "
            "in order of time. This alone explains a low R²."
        )
    if "covariates" not in by_name and dual.r2 < _LITTLE:
        sentences.append(
            "That is very little: early participants say hardly anything about the outcome of a "
            "thread here."
        )
    for name, words in (
        ("single", "the single model"),
        ("ridge_covariates", "ridge regression on the same"),
        ("ridge", "ridge regression on participants"),
    ):
        found = next((d for d in differences if d.than == name), None)
        if found is not None:
            sentences.append(_compared(found, words))
    return " ".join(sentences)


def _compared(difference: Difference, words: str) -> str:
    size = f"{abs(difference.gain):.4f} ± {difference.error:.4f} nats per thread"
    if abs(difference.gain) <= 2 * difference.error:
        return (
            f"It cannot be distinguished from {words} ({difference.gain:+.4f} ± "
            f"{difference.error:.4f} nats per thread)."
        )
    return f"It predicts {'better' if difference.gain > 0 else 'worse'} than {words}, by {size}."


def gaussian(mean: Array, sd: float) -> NormalMixture:
    return NormalMixture.over_draws(len(mean), lambda cases: mean[None, cases], np.array([sd]))


def _mean(train: ForumThreads, test: ForumThreads) -> NormalMixture:
    return gaussian(
        np.full(len(test.outcome), train.outcome.mean()), float(train.outcome.std(ddof=1))
    )


def _design(threads: ForumThreads, columns: list[str]) -> Array:
    chosen = threads.covariates[[name for name in columns if name in threads.covariates]].to_numpy(
        dtype=float
    )
    return np.column_stack([np.ones(len(threads.ids)), chosen])


def _linear(train: ForumThreads, test: ForumThreads) -> NormalMixture:
    columns = [str(name) for name in train.covariates if name != RARE]
    design = _design(train, columns)
    slopes = np.linalg.lstsq(design, train.outcome, rcond=None)[0]
    residual = train.outcome - design @ slopes
    freedom = max(len(residual) - design.shape[1], 1)
    return gaussian(_design(test, columns) @ slopes, float(np.sqrt((residual**2).sum() / freedom)))


def _ridge(train: ForumThreads, test: ForumThreads, columns: list[str]) -> NormalMixture:
    """Ridge regression with unpenalized covariates; noise from the held-out residuals of the chosen
    penalty."""
    design, matrix, outcome = _design(train, columns), train.participation, train.outcome
    fold = np.arange(len(outcome)) * _FOLDS // len(outcome)
    residuals = np.empty((len(_PENALTIES), len(outcome)))
    for k in range(_FOLDS):
        out = fold == k
        for p, penalty in enumerate(_PENALTIES):
            fitted = _fitted(matrix[~out], outcome[~out], design[~out], float(penalty))
            residuals[p, out] = outcome[out] - _predicted(fitted, matrix[out], design[out])
    best = int(np.argmin((residuals**2).mean(axis=1)))
    fitted = _fitted(matrix, outcome, design, float(_PENALTIES[best]))
    return gaussian(
        _predicted(fitted, test.participation, _design(test, columns)),
        float(np.sqrt((residuals[best] ** 2).mean())),
    )


def _fitted(matrix: Any, outcome: Array, design: Array, penalty: float) -> tuple[Array, Array]:
    coefficients = ridge_estimate(matrix, outcome, design, penalty)
    return coefficients, np.linalg.lstsq(design, outcome - matrix @ coefficients, rcond=None)[0]


def _predicted(fitted: tuple[Array, Array], matrix: Any, design: Array) -> Array:
    return np.asarray(matrix @ fitted[0] + design @ fitted[1])
