"""Which of several fits predicts best: leave-one-out scores over observations, by Pareto-smoothed importance sampling.

log likelihoods (chain, draw, n) of n observations.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from arviz_stats.base import array_stats  # type: ignore[attr-defined]
from numpy.typing import NDArray
from scipy.special import logsumexp

from dualview.behaviors.base import Forecast
from dualview.errors import InputError
from dualview.mixture import DualViewMixture

Array = NDArray[np.float64]

_FEWEST = 25  # draws, for the tail of a Pareto distribution
_UNSURE = (
    0.7  # Pareto shapes above it make an observation's score unreliable, with few draws smaller ones (Vehtari and others 2024)
)


class Scores(NamedTuple):
    """Leave-one-out scores of n observations.

    elpd (n,): log density of each given all others. lppd (n,): given all. shape (n,): of the Pareto distribution in the tail
    of its importance ratios. unsure (n,): whether the score cannot be relied on.
    """

    elpd: Array
    lppd: Array
    shape: Array
    unsure: NDArray[np.bool_]

    @property
    def total(self) -> float:
        return float(self.elpd.sum())


def compare(models: Mapping[str, DualViewMixture], behavior: Any = None) -> pd.DataFrame:
    """Rank fits to the same observations by how well each predicts an observation it has not seen.

    Leave-one-out cross-validation without fitting again (PSIS-LOO): the score of an observation is its log density given all
    others. Every fit must be to the same observations with the same outcomes. Draws of a chain depend on each other: each
    observation's tail is smoothed by its own relative effective sample size.

    Parameters
    ----------
    models : dict of name to fitted DualViewMixture
    behavior : behaviour, optional
        The observations, for models that were read from files and do not hold them.

    Returns
    -------
    DataFrame, the highest score first, by name: elpd (sum of scores, more is better), se, p (effective number of parameters),
    difference to the first with its standard error, unsure (observations whose score is unreliable), and note, in words. A
    place in the order is sure only where neither the fit nor the first has unsure observations: the note says so otherwise.

    Examples
    --------
    >>> import dualview as dv
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=60, seed=1)
    >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    >>> settings = {"n_warmup": 100, "n_draws": 200, "n_chains": 2}
    >>> table = dv.compare({
    ...     "dual": dv.DualViewMixture(**settings).fit(forum.features, behavior),
    ...     "single": dv.DualViewMixture(1, **settings).fit(None, behavior),
    ... })
    >>> table.index[0], list(table.columns[:3])
    ('dual', ['elpd', 'se', 'p'])
    """
    if len(models) < 2:
        raise InputError(f"compare takes two fitted models or more, by name; got {len(models)}.")
    values = {name: log_likelihoods(model, behavior) for name, model in models.items()}
    if len({part.shape[2] for part in values.values()}) > 1:
        text = ", ".join(f"{name}: {part.shape[2]}" for name, part in values.items())
        raise InputError(f"The fits must be to the same observations; they have {text}.")
    if behavior is None:
        behaviors: dict[str, Any] = {name: model.behavior_ for name, model in models.items()}
        _check_outcomes({name: np.asarray(part.observed) for name, part in behaviors.items()})
    short = [name for name, part in values.items() if part.shape[0] * part.shape[1] < _FEWEST]
    if short:
        raise InputError(
            f"compare needs at least {_FEWEST} draws of each fit; too few in {', '.join(short)}. Draw more, or keep more whole."
        )
    scores = {name: leave_one_out(part) for name, part in values.items()}
    ranked = sorted(scores, key=lambda name: -scores[name].total)
    rows = {name: _row(scores[name], scores[ranked[0]]) for name in ranked}
    return pd.DataFrame.from_dict(rows, orient="index")


def log_likelihoods(model: DualViewMixture, behavior: Any = None) -> Array:
    """ln p(observation | draw) of every observation of the fit, (chain, draw, n)."""
    behavior = getattr(model, "behavior_", None) if behavior is None else behavior
    if behavior is None:
        raise InputError("compare needs fits with a behaviour: it is the observations of behaviour that are predicted.")
    forecast: Forecast = behavior.forecast(behavior, *model._known, 0)
    everything = slice(0, forecast.n)
    values = forecast.outcome.log_density(behavior.observed, forecast.known(everything), everything)
    post = model.posterior_
    return values.reshape(post.n_chains, post.n_draws, -1)


def _check_outcomes(outcomes: dict[str, Array]) -> None:
    (name, first), *others = outcomes.items()
    for other, outcome in others:
        n = int((outcome != first).sum())
        if n:
            raise InputError(f"The fits must be to the same observations; {name} and {other} have {n} different outcomes.")


def leave_one_out(values: Array) -> Scores:
    """Scores from log likelihoods (chain, draw, n), by Pareto-smoothed importance sampling of dependent draws."""
    n_draws, n = values.shape[0] * values.shape[1], values.shape[2]
    elpd, shape, unsure = np.empty(n), np.empty(n), np.empty(n, dtype=bool)
    for i in range(n):
        own = values[:, :, i]
        efficiency = _relative_efficiency(own)
        log_weights, shape[i] = _smoothed(own.ravel(), efficiency)
        elpd[i] = logsumexp(log_weights + own.ravel())
        unsure[i] = not shape[i] <= min(_UNSURE, 1.0 - 1.0 / np.log10(max(n_draws * efficiency, 10.0)))
    lppd = logsumexp(values.reshape(n_draws, n), axis=0) - np.log(n_draws)
    return Scores(elpd, np.asarray(lppd), shape, unsure)


def _smoothed(values: Array, efficiency: float) -> tuple[Array, float]:
    """Log weights (S,) that sum to one, of a fit without an observation with log likelihoods (S,), and their Pareto shape."""
    n_tail = int(np.ceil(min(0.2 * len(values), 3.0 * np.sqrt(len(values) / efficiency))))
    if np.ptp(np.sort(values)[:n_tail]) == 0.0:  # weights that are bounded, as far as draws tell
        return -values - logsumexp(-values), -np.inf
    log_weights, shape = array_stats.psislw(values, r_eff=efficiency)  # type: ignore[no-untyped-call]
    return np.asarray(log_weights), float(shape)


def _relative_efficiency(values: Array) -> float:
    """Effective sample size of a likelihood over the number of draws, from its logarithm (chain, draw); 1 if constant."""
    likelihood = np.exp(values - values.max())
    if likelihood.shape[1] < 4 or np.ptp(likelihood) == 0.0:  # too short a chain to tell
        return 1.0
    effective = float(array_stats.ess(likelihood, method="mean", chain_axis=0, draw_axis=1))  # type: ignore[no-untyped-call]
    known = np.isfinite(effective) and effective > 0.0
    return (effective if known else 1.0) / float(likelihood.size)


def _row(score: Scores, best: Scores) -> dict[str, Any]:
    n, behind = len(score.elpd), best.elpd - score.elpd
    difference, error = float(behind.sum()), float(np.sqrt(n * behind.var(ddof=1)))
    return {
        "elpd": score.total,
        "se": float(np.sqrt(n * score.elpd.var())),
        "p": float((score.lppd - score.elpd).sum()),
        "difference": difference,
        "difference_se": error,
        "unsure": int(score.unsure.sum()),
        "note": _note(standing(difference, error, bool((score.unsure | best.unsure).any())), int(score.unsure.sum()), n),
    }


def standing(difference: float, error: float, unsure: bool = False) -> str:
    """What a difference to the first fit means, given its standard error and whether it rests on unreliable scores."""
    if unsure:
        return "highest score, not sure" if difference == 0.0 else "place not sure"
    return "best" if difference == 0.0 else "clearly behind" if difference > 2 * error else "not told apart from the best"


def _note(standing: str, unsure: int, n: int) -> str:
    """The row in words."""
    if unsure:
        return f"{standing}; {unsure} of {n} observations have unreliable scores: check on held-out ones"
    return standing
