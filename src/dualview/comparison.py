"""Which of several fits predicts best: leave-one-out scores over observations, by Pareto-smoothed importance sampling.

log likelihoods (chain, draw, n) of n observations.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import arviz_base
import numpy as np
import pandas as pd
from arviz_stats import loo  # type: ignore[attr-defined]
from numpy.typing import NDArray
from scipy.special import log_expit

from dualview.errors import InputError
from dualview.mixture import DualViewMixture

Array = NDArray[np.float64]

_FEWEST = 25  # draws, for the tail of a Pareto law
_UNSURE = 0.7  # Pareto shapes above it make an observation's score unreliable (Vehtari and others 2024)


def compare(models: Mapping[str, DualViewMixture], behavior: Any = None) -> pd.DataFrame:
    """Rank fits to the same observations by how well each predicts an observation it has not seen.

    Leave-one-out cross-validation without fitting again (PSIS-LOO): the score of an observation is its log density given all
    others. Every fit must be to the same observations with the same outcomes.

    Parameters
    ----------
    models : dict of name to fitted DualViewMixture
    behavior : behaviour, optional
        The observations, for models that were read from files and do not hold them.

    Returns
    -------
    DataFrame, the best first, by name: elpd (sum of scores, more is better), se, p (effective number of parameters), difference
    to the best with its standard error, unsure (observations whose score is unreliable), and note, in words.

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
    scores = {name: _leave_one_out(part) for name, part in values.items()}
    ranked = sorted(scores, key=lambda name: -float(scores[name].elpd))
    best = np.asarray(scores[ranked[0]].elpd_i)
    rows = {name: _row(scores[name], best) for name in ranked}
    return pd.DataFrame.from_dict(rows, orient="index")


def log_likelihoods(model: DualViewMixture, behavior: Any = None) -> Array:
    """ln p(observation | draw) of every observation of the fit, (chain, draw, n)."""
    behavior = getattr(model, "behavior_", None) if behavior is None else behavior
    if behavior is None:
        raise InputError("compare needs fits with a behaviour: it is the observations of behaviour that are predicted.")
    outcome = behavior.observed
    forecast = behavior.forecast(behavior, *model._known, 0)
    locations = forecast.known(slice(0, forecast.n))
    if forecast.sds is None:
        values = log_expit((2.0 * outcome - 1.0) * locations)
    else:
        sds = forecast.spread(slice(0, forecast.n))
        values = -0.5 * np.log(2 * np.pi) - np.log(sds) - 0.5 * ((outcome - locations) / sds) ** 2
    post = model.posterior_
    return np.asarray(values).reshape(post.n_chains, post.n_draws, -1)


def _check_outcomes(outcomes: dict[str, Array]) -> None:
    (name, first), *others = outcomes.items()
    for other, outcome in others:
        n = int((outcome != first).sum())
        if n:
            raise InputError(f"The fits must be to the same observations; {name} and {other} have {n} different outcomes.")


def _leave_one_out(values: Array) -> Any:
    data = arviz_base.from_dict({"posterior": {"unused": np.zeros(values.shape[:2])}, "log_likelihood": {"y": values}})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what it warns of stands in the table
        return loo(data, pointwise=True, reff=1.0)  # type: ignore[no-untyped-call]


def _row(score: Any, best: Array) -> dict[str, Any]:
    own, shapes = np.asarray(score.elpd_i), np.asarray(score.pareto_k)
    behind = best - own
    unsure = int((shapes > _UNSURE).sum())
    difference, error = float(behind.sum()), float(np.sqrt(len(behind) * behind.var(ddof=1)))
    return {
        "elpd": float(score.elpd),
        "se": float(score.se),
        "p": float(score.p),
        "difference": difference,
        "difference_se": error,
        "unsure": unsure,
        "note": _note(difference, error, unsure, len(own)),
    }


def standing(difference: float, error: float) -> str:
    """What a difference to the best fit means, given its standard error."""
    return "best" if difference == 0.0 else "clearly behind" if difference > 2 * error else "not told apart from the best"


def _note(difference: float, error: float, unsure: int, n: int) -> str:
    """The row in words."""
    words = standing(difference, error)
    if unsure:
        words += f"; {unsure} of {n} observations have unreliable scores: check on held-out ones"
    return words
