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

from dualview.behaviors import SeveralBehaviors
from dualview.behaviors.records import Forecast
from dualview.errors import InputError
from dualview.mixture import DualViewMixture
from dualview.posterior.left_out import left_out_densities
from dualview.posterior.left_out_users import user_densities

Array = NDArray[np.float64]

_FEWEST = 25  # draws, for the tail of a Pareto distribution
_UNSURE = (
    0.7  # Pareto shapes above it make an observation's score unreliable, with few draws smaller ones (Vehtari and others 2024)
)
_FINITE_VARIANCE = 0.5
_SMALL_ERROR = 0.02  # of a score, in nats


class Scores(NamedTuple):
    """Leave-one-out scores of n observations, or users.

    elpd (n,): log density of each given all others. lppd (n,): given all. shape (n,): of the Pareto distribution in the tail
    of its importance ratios. unsure (n,): whether the score is unreliable.
    """

    elpd: Array
    lppd: Array
    shape: Array
    unsure: NDArray[np.bool_]

    @property
    def total(self) -> float:
        return float(self.elpd.sum())


def compare(models: Mapping[str, DualViewMixture], behavior: Any = None, *, by: str = "observation") -> pd.DataFrame:
    """Rank fits to the same data by leave-one-out cross-validation.

    The scores are computed from the draws without fitting again (PSIS-LOO): the score of an observation is its log density
    given all others. Latent coefficients are integrated out before draws are weighted, so that no observation is predicted by
    a coefficient that it has influenced. Every fit must be to the same observations with the same outcomes. Draws of a chain
    are dependent: each tail is smoothed with its own relative effective sample size. With several behaviors the observations
    of all of them count.

    Parameters
    ----------
    models : dict of name to fitted DualViewMixture
    behavior : behavior, optional
        The observations, for models that were loaded from files and do not contain them.
    by : "observation" or "user"
        What is left out. "user": all observations of a user, predicted from the user's features and the other users' data. This
        is the score that matters for future users. With many observations per user, importance sampling is unreliable, and
        many users are then unsure.

    Returns
    -------
    DataFrame, the highest score first, by name: elpd (sum of scores, higher is better), se, p (effective number of parameters),
    difference from the first with its standard error, unsure (number of observations, or users, with an unreliable score), and
    note, in words. A rank is certain only if neither the fit nor the first one has unsure observations; otherwise the note says
    so.

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
        raise InputError(f"compare takes two or more fitted models, by name; got {len(models)}.")
    if by not in _SCORED:
        raise InputError(f"by must be {' or '.join(map(repr, _SCORED))}; got {by!r}.")
    behaviors = {name: _observations(model, behavior) for name, model in models.items()}
    _check_scored_alike({name: part.scored_as for name, part in behaviors.items()})
    _check_same({name: np.asarray(part.observed) for name, part in behaviors.items()})
    _check_draws({name: model.posterior_.n_chains * model.posterior_.n_draws for name, model in models.items()})
    scores = {name: _SCORED[by](model, behaviors[name]) for name, model in models.items()}
    ranked = sorted(scores, key=lambda name: -scores[name].total)
    rows = {name: _row(scores[name], scores[ranked[0]], f"{by}s") for name in ranked}
    return pd.DataFrame.from_dict(rows, orient="index")


def _observations(model: DualViewMixture, behavior: Any) -> Any:
    fitted = getattr(model, "behavior_", None)
    found = fitted if behavior is None else behavior
    if behavior is not None and isinstance(fitted, SeveralBehaviors):
        found = fitted.observations(behavior)
    if found is None:
        raise InputError("compare needs fits with a behavior: it predicts the observations of the behavior.")
    return found


def _check_scored_alike(scored: dict[str, str]) -> None:
    """Raise where log densities of one fit are not of the same as those of another: probabilities and densities, say."""
    if len(set(scored.values())) > 1:
        text = ", ".join(f"{name}: {what}" for name, what in scored.items())
        raise InputError(
            f"The fits must see outcomes as the same; they have {text}. A probability of what was recorded cannot be compared "
            "with a density."
        )


def _check_same(outcomes: dict[str, Array]) -> None:
    """Raise unless all fits have the same outcomes."""
    if len({len(outcome) for outcome in outcomes.values()}) > 1:
        text = ", ".join(f"{name}: {len(outcome)}" for name, outcome in outcomes.items())
        raise InputError(f"The fits must be to the same observations; they have {text}.")
    (name, first), *others = outcomes.items()
    for other, outcome in others:
        n = int((outcome != first).sum())
        if n:
            raise InputError(f"The fits must be to the same observations; {name} and {other} have {n} different outcomes.")


def _check_draws(n_draws: dict[str, int]) -> None:
    short = [name for name, n in n_draws.items() if n < _FEWEST]
    if short:
        raise InputError(
            f"compare needs at least {_FEWEST} draws of each fit; too few in {', '.join(short)}. Draw more, or keep more whole."
        )


def observation_scores(model: DualViewMixture, behavior: Any = None) -> Scores:
    """Leave-one-out scores of the observations of a fit, with latent vectors integrated out where the behavior can do that."""
    observations = _observations(model, behavior)
    given = log_likelihoods(model, observations)
    integrated = left_out_densities(model.posterior_, observations)
    scores = leave_one_out(given if integrated is None else integrated)
    return scores._replace(lppd=_mean_density(given))


def user_scores(model: DualViewMixture, behavior: Any = None) -> Scores:
    """Leave-one-out scores of users: ln p(observations of u | features of u, everything of all others).

    lppd is the same given the draws as they are, in which u has a part.
    """
    densities = user_densities(model.posterior_, _observations(model, behavior))
    scores = leave_one_out(densities.joint, densities.features)
    return scores._replace(lppd=_mean_density(densities.joint) - _mean_density(densities.features))


_SCORED = {"observation": observation_scores, "user": user_scores}


def _mean_density(values: Array) -> Array:
    """ln of the mean over draws of densities with logarithms (chain, draw, n), (n,)."""
    flat = values.reshape(-1, values.shape[2])
    return np.asarray(logsumexp(flat, axis=0) - np.log(len(flat)))


def log_likelihoods(model: DualViewMixture, behavior: Any = None) -> Array:
    """ln p(observation | draw) of every observation of the fit, (chain, draw, n)."""
    behavior = _observations(model, behavior)
    if isinstance(behavior, SeveralBehaviors):
        forecasts, parts = behavior.forecasts(behavior, *model._known(), 0), behavior.parts
    else:
        forecasts, parts = {"": behavior.forecast(behavior, *model._known(), 0)}, {"": behavior}
    post = model.posterior_
    values = [_given_vectors(forecast, parts[name].observed) for name, forecast in forecasts.items()]
    return np.hstack(values).reshape(post.n_chains, post.n_draws, -1)


def _given_vectors(forecast: Forecast, observed: Array) -> Array:
    """ln p(observation | draw), (S, n)."""
    everything = slice(0, forecast.n)
    return forecast.outcome.log_density(observed, forecast.known(everything), everything)


def leave_one_out(values: Array, known: Array | None = None) -> Scores:
    """Scores from log densities (chain, draw, n) of what is left out, by Pareto-smoothed importance sampling.

    known: log densities of a part of it that the rest is predicted from; the score is then of the rest.
    """
    n_draws, n = values.shape[0] * values.shape[1], values.shape[2]
    elpd, shape, unsure = np.empty(n), np.empty(n), np.empty(n, dtype=bool)
    for i in range(n):
        own = values[:, :, i]
        efficiency = _relative_efficiency(own)
        log_weights, shape[i] = _smoothed(own.ravel(), efficiency)
        elpd[i] = logsumexp(log_weights + own.ravel())
        if known is not None:
            elpd[i] -= logsumexp(log_weights + known[:, :, i].ravel())
        unsure[i] = not _is_sure(log_weights, float(shape[i]), n_draws * efficiency)
    return Scores(elpd, _mean_density(values), shape, unsure)


def _is_sure(log_weights: Array, shape: float, n_effective: float) -> bool:
    """Whether a score can be relied on: by the Pareto shape that is reliable for its number of effective draws (Vehtari 2024).

    With fewer it can be, too, where weights have a finite variance (a shape up to ½) and differ so little that the standard
    error of the score is small: draws that move slowly, and hardly matter.
    """
    if shape <= min(_UNSURE, 1.0 - 1.0 / np.log10(max(n_effective, 10.0))):
        return True
    weights = np.exp(log_weights) * len(log_weights)  # of mean 1
    return bool(shape <= _FINITE_VARIANCE and weights.std() / np.sqrt(n_effective) < _SMALL_ERROR)


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


def _row(score: Scores, best: Scores, what: str) -> dict[str, Any]:
    n, behind = len(score.elpd), best.elpd - score.elpd
    difference, error = float(behind.sum()), float(np.sqrt(n * behind.var(ddof=1)))
    return {
        "elpd": score.total,
        "se": float(np.sqrt(n * score.elpd.var())),
        "p": float((score.lppd - score.elpd).sum()),
        "difference": difference,
        "difference_se": error,
        "unsure": int(score.unsure.sum()),
        "note": _note(standing(difference, error, bool((score.unsure | best.unsure).any())), int(score.unsure.sum()), n, what),
    }


def standing(difference: float, error: float, unsure: bool = False) -> str:
    """What a difference from the best fit means, given its standard error and whether it depends on unreliable scores."""
    if unsure:
        return "highest score, uncertain" if difference == 0.0 else "rank uncertain"
    return "best" if difference == 0.0 else "clearly behind" if difference > 2 * error else "not distinguishable from the best"


def _note(standing: str, unsure: int, n: int, what: str) -> str:
    """The row in words."""
    if unsure:
        return f"{standing}; {unsure} of {n} {what} have unreliable scores: check on held-out ones"
    return standing
