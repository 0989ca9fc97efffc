"""Which of several fits predicts best: leave-one-out scores by Pareto-smoothed importance sampling,
or scores of refits.

log likelihoods (chain, draw, n) of n observations.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from arviz_stats.base import array_stats  # type: ignore[attr-defined]
from numpy.typing import NDArray
from scipy.special import logsumexp

from dualview.behaviors.base import Behavior
from dualview.behaviors.records import Forecast
from dualview.behaviors.several import SeveralBehaviors
from dualview.checks import whole_number
from dualview.errors import ConvergenceWarning, InputError
from dualview.inputs.fits import fit_again
from dualview.inputs.parameters import Parameters
from dualview.mixture import DualViewMixture
from dualview.posterior import Posterior
from dualview.posterior.observations import observations_of
from dualview.posterior.prediction.influence import (
    Influence,
    leverages,
    sampled_rows,
    shared_variance,
)
from dualview.posterior.prediction.left_out import left_out_densities, left_out_pairs
from dualview.posterior.prediction.left_out_users import user_densities
from dualview.settings import check_choice

Array = NDArray[np.float64]

_SCORED = ("observation", "user")
_FEWEST = 25  # draws, for the tail of a Pareto distribution
# Pareto shapes above it make an observation's score unreliable, with few draws smaller ones
# (Vehtari and others 2024)
_UNSURE = 0.7
_FINITE_VARIANCE = 0.5
_SMALL_ERROR = 0.02  # of a score, in nats
# a difference of elpd below which errors are not normal, and models much alike (Sivula and others
# 2025)
SMALL = 4.0
_FEW_USERS = 100


class Scores(NamedTuple):
    """Scores of n observations, or users, each left out of the fit that predicts it.

    elpd (n,): log density of each given all others. lppd (n,): given all. shape (n,): of the Pareto
    distribution in the tail of its importance ratios. unsure (n,): whether the score is unreliable.
    influence: of the n on each other.
    """

    elpd: Array
    lppd: Array
    shape: Array
    unsure: NDArray[np.bool_]
    influence: Influence

    @property
    def total(self) -> float:
        return float(self.elpd.sum())


def compare(
    models: Mapping[str, DualViewMixture],
    behavior: Any = None,
    *,
    by: str = "observation",
    folds: int | None = None,
) -> pd.DataFrame:
    """Rank fits to the same data by cross-validation: leave-one-out from the draws, or with refits
    in folds.

    By default the scores are computed from the draws without fitting again (PSIS-LOO): the score of
    an observation is its log density given all others. Latent coefficients are integrated out
    before draws are weighted, so that no observation is predicted by a coefficient that it has
    influenced. Every fit must be to the same observations with the same outcomes. Draws of a chain
    are dependent: each tail is smoothed with its own relative effective sample size. With several
    behaviors the observations of all of them count.

    Observations that share users are not independent evidence. Standard errors contain what the
    observations of a fit owe to each other, as its draws show it. A fit is "clearly behind" if the
    difference is more than two standard errors and at least four.

    Parameters
    ----------
    models : dict of name to fitted DualViewMixture
    behavior : behavior, optional
        The observations, for models that were loaded from files and do not contain them.
    by : "observation" or "user"
        What is left out. "user": all observations of a user, predicted from the user's features and
        the other users' data. This is the score that matters for future users. With many
        observations per user, importance sampling is unreliable, and many users are then unsure. No
        fit is called clearly behind with fewer than 100 users.
    folds : int, optional
        Fit every model again this many times, each time without one of as many parts of the
        observations, and score those. It takes as many times longer, and no score is unsure. The
        fits must have been made in this session: a file has not all settings.

    Returns
    -------
    DataFrame, the highest score first, by name: elpd (sum of scores, higher is better), se, p
    (effective number of parameters), difference from the first with its standard error, unsure
    (number of observations, or users, with an unreliable score), and note, in words. A rank is
    certain only if neither the fit nor the first one has unsure observations; otherwise the note
    says so.

    Examples
    --------
    >>> import dualview as dv
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=60, seed=1)
    >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    >>> settings = {"engine": dv.Gibbs(n_warmup=100), "n_draws": 200, "n_chains": 2}
    >>> table = dv.compare({
    ...     "dual": dv.DualViewMixture(**settings).fit(forum.features, behavior),
    ...     "single": dv.DualViewMixture(1, **settings).fit(None, behavior),
    ... })
    >>> table.index[0], list(table.columns[:3])
    ('dual', ['elpd', 'se', 'p'])
    """
    return table_of(scores_of(models, behavior, by=by, folds=folds), by)


def table_of(scores: Mapping[str, Scores], by: str) -> pd.DataFrame:
    ranked = sorted(scores, key=lambda name: -scores[name].total)
    rows = {name: _row(scores[name], scores[ranked[0]], by) for name in ranked}
    return pd.DataFrame.from_dict(rows, orient="index")


def scores_of(
    models: Mapping[str, DualViewMixture],
    behavior: Any = None,
    *,
    by: str = "observation",
    folds: int | None = None,
    caller: str = "compare",
) -> dict[str, Scores]:
    """The scores that ``compare`` adds up, by name of the model; the same observations, in the same
    order, for all. caller: the function that errors name."""
    _check_models(models, caller)
    check_choice("by", by, _SCORED)
    if folds is not None and by != "observation":
        raise InputError(
            f"Folds are parts of the observations: {caller}(models, folds={folds!r}) goes with "
            'by="observation".'
        )
    behaviors = {name: _observations(model, behavior, caller) for name, model in models.items()}
    _check_scored_alike({name: part.scored_as for name, part in behaviors.items()})
    _check_same({name: np.asarray(part.observed) for name, part in behaviors.items()})
    _check_draws(models, caller)
    if folds is not None:
        return _fold_scores(models, behaviors, folds)
    if by == "observation":
        return {name: observation_scores(models[name], own) for name, own in behaviors.items()}
    check_users(models)
    everybody = next(filter(None, map(_user_names, models.values())), [])
    return {name: user_scores(models[name], own, everybody) for name, own in behaviors.items()}


def check_users(models: Mapping[str, DualViewMixture]) -> None:
    """Raise unless all fits have the same users, in whatever order."""
    if said := unlike_text({name: fit.posterior_.n_users for name, fit in models.items()}):
        raise InputError(f"The fits must have the same users; their numbers are {said}.")
    named = filter(None, map(_user_names, models.values()))
    if len({frozenset(own) for own in named}) > 1:
        raise InputError("The fits must have the same users; their ids differ.")


def _user_names(model: DualViewMixture) -> list[str]:
    """Ids of the users of a fit; none where these are known by position."""
    ids = model.posterior_.user_ids
    return [] if ids == list(map(str, range(len(ids)))) else ids


def _check_models(models: Any, caller: str) -> None:
    example = f'{caller}({{"dual": dual, "single": single}})'
    wanted = f"{caller} takes fitted models by name, such as {example}"
    if not isinstance(models, Mapping):
        raise InputError(f"{wanted}; got {_named(models)}.")
    if len(models) < 2:
        raise InputError(f"{caller} takes two or more fitted models, by name; got {len(models)}.")
    for name, model in models.items():
        if isinstance(model, Posterior):
            raise InputError(
                f"{wanted}; {name!r} is a posterior: give "
                "DualViewMixture.from_posterior(posterior)."
            )
        if not hasattr(model, "posterior_"):
            is_ours = isinstance(model, DualViewMixture)
            fitted = ", which is not fitted: call fit first" if is_ours else ""
            raise InputError(f"{wanted}; {name!r} is {_named(model)}{fitted}.")


def _named(given: Any) -> str:
    """What was given in place of something else, in few words."""
    return (
        repr(given) if isinstance(given, str | int | float | None) else f"a {type(given).__name__}"
    )


def _observations(model: DualViewMixture, behavior: Any, caller: str = "compare") -> Any:
    """The observations of a fit with its users in their order: its own, or those that are given,
    checked to be of the fit."""
    fitted = getattr(model, "behavior_", None)
    if fitted is None:
        raise InputError(
            f"{caller} needs fits with a behavior: it predicts the observations of the behavior."
        )
    if behavior is fitted or (behavior is None and fitted.outcome is not None):
        return fitted
    return observations_of(model.posterior_, behavior)


def _check_scored_alike(scored: dict[str, str]) -> None:
    """Raise where log densities of one fit are not of the same as those of another: probabilities
    and densities, say."""
    if text := unlike_text(scored):
        raise InputError(
            f"The fits must see outcomes as the same; they have {text}. A probability of what was "
            "recorded cannot be compared with a density."
        )


def unlike_text(found: Mapping[str, Any]) -> str:
    """What was found of each fit, in words; empty where it is the same of all."""
    texts = [f"{name}: {own}" for name, own in found.items()]
    return ", ".join(texts) if len(set(found.values())) > 1 else ""


def _check_same(outcomes: dict[str, Array]) -> None:
    """Raise unless all fits have the same outcomes."""
    if text := unlike_text({name: len(outcome) for name, outcome in outcomes.items()}):
        raise InputError(f"The fits must be to the same observations; they have {text}.")
    (name, first), *others = outcomes.items()
    for other, outcome in others:
        n = int((outcome != first).sum())
        if n:
            raise InputError(
                f"The fits must be to the same observations; {name} and {other} have {n} "
                "different outcomes."
            )


def _check_draws(models: Mapping[str, DualViewMixture], caller: str) -> None:
    posts = {name: model.posterior_ for name, model in models.items()}
    short = [name for name, post in posts.items() if post.n_chains * post.n_draws < _FEWEST]
    if short:
        raise InputError(
            f"{caller} needs at least {_FEWEST} draws of each fit; too few in {', '.join(short)}. "
            "Draw more, or keep more whole."
        )


def observation_scores(model: DualViewMixture, behavior: Any = None) -> Scores:
    """Leave-one-out scores of the observations of a fit, with latent vectors integrated out where
    the behavior can do that."""
    observations = _observations(model, behavior)
    given = log_likelihoods(model, observations)
    integrated = left_out_densities(model.posterior_, observations)
    influence = _influence(model.posterior_, observations, given, integrated)
    scores = leave_one_out(given if integrated is None else integrated, influence=influence)
    return scores._replace(lppd=_mean_density(given))


def _influence(post: Posterior, behavior: Any, given: Array, integrated: Array | None) -> Influence:
    """Of observations on each other, from log likelihoods (chain, draw, n) given the draws, and
    with vectors integrated out.

    Where outcomes are jointly normal: through the vectors, in closed form, and through clusters and
    parameters, by the covariance of integrated likelihoods. Elsewhere: by the covariance of
    likelihoods that differ by locations only.
    """
    n = given.shape[2]
    rows = sampled_rows(n)
    pairs = None if integrated is None else left_out_pairs(post, behavior, rows)
    if pairs is not None and integrated is not None:
        rest = Influence.of_draws(integrated)
        return Influence(pairs[0] + rest.first, pairs[1] + rest.second, n)
    parts = _forecasts(behavior, behavior, post)
    at_mean = np.hstack([_given_vectors(*part, at_mean=True) for part in parts]).reshape(
        given.shape
    )
    return Influence.of_draws(
        given - at_mean, leverages(given.reshape(-1, n), at_mean.reshape(-1, n))
    )


def _fold_scores(
    models: Mapping[str, DualViewMixture], behaviors: dict[str, Any], folds: int
) -> dict[str, Scores]:
    """Scores of observations by refits without their fold, in the order of the folds, which are the
    same for all models."""
    loaded = [name for name, model in models.items() if model.posterior_.observations is None]
    if loaded:
        raise InputError(
            "folds fits every model again, from the data and the settings of its fit; "
            f"{', '.join(map(repr, loaded))} came from a file or from shards, which do not hold "
            "them. Fit it in this session. For finished runs: dualview compare RUN OTHER --folds "
            f"{folds}."
        )
    cut = _cut(next(iter(behaviors.values())), folds)
    scores, unfinished = {}, 0
    for name, model in models.items():
        given, densities = log_likelihoods(model, behaviors[name]), []
        for training, held_out in cut:
            known, new = behaviors[name].take(training), behaviors[name].take(held_out)
            post = fit_again(Parameters.of(model, warn=False), model.posterior_, known)
            unfinished += not post.converged
            densities.append(_mean_density(_given_draws(known, new, post)))
        integrated = left_out_densities(model.posterior_, behaviors[name])
        influence = _influence(model.posterior_, behaviors[name], given, integrated)
        elpd, lppd = np.concatenate(densities), _mean_density(given)
        n = len(elpd)
        scores[name] = Scores(elpd, lppd, np.full(n, -np.inf), np.zeros(n, bool), influence)
    if unfinished:
        warnings.warn(
            f"{unfinished} of {folds * len(models)} refits have not converged: their scores are "
            "provisional. Draw more.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return scores


def _cut(behavior: Behavior, folds: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Positions of the observations, (training, held out), of each fold."""
    whole_number(folds, "folds", 2)
    try:
        return behavior.folds(folds)
    except InputError as error:
        raise InputError(str(error).replace("n_splits", "folds")) from None


def user_scores(
    model: DualViewMixture, behavior: Any = None, everybody: Sequence[str] = ()
) -> Scores:
    """Leave-one-out scores of users: ln p(observations of u | features of u, everything of all
    others).

    everybody: ids of the users in the order of the scores; by default, and where the fit knows them
    by position, its own order. lppd is the same given the draws as they are, in which u has a part.
    """
    densities = user_densities(model.posterior_, _observations(model, behavior))
    place = {user: row for row, user in enumerate(_user_names(model))}
    rows = [place[user] for user in everybody] if place and everybody else slice(None)
    return leave_one_out(densities.joint[..., rows], densities.features[..., rows])


def _mean_density(values: Array) -> Array:
    """ln of the mean over draws of densities with logarithms (chain, draw, n), (n,)."""
    flat = values.reshape(-1, values.shape[2])
    return np.asarray(logsumexp(flat, axis=0) - np.log(len(flat)))


def log_likelihoods(model: DualViewMixture, behavior: Any = None) -> Array:
    """ln p(observation | draw) of every observation of the fit, (chain, draw, n)."""
    observations = _observations(model, behavior)
    return _given_draws(observations, observations, model.posterior_)


def _given_draws(fitted: Any, new: Any, post: Posterior) -> Array:
    """ln p(observation | draw) of new observations under a fit to others, or to the same, (chain,
    draw, n)."""
    values = [_given_vectors(*part) for part in _forecasts(fitted, new, post)]
    return np.hstack(values).reshape(post.n_chains, post.n_draws, -1)


def _forecasts(fitted: Any, new: Any, post: Posterior) -> list[tuple[Forecast, Array]]:
    """Outcomes given each draw of a fit, and as they were observed; with several behaviors those of
    each."""
    known = post.flat("latent"), {name: post.flat(name) for name in fitted.param_names}
    if isinstance(fitted, SeveralBehaviors):
        return [
            (forecast, new.parts[name].observed)
            for name, forecast in fitted.forecasts(new, *known, 0).items()
        ]
    return [(fitted.forecast(new, *known, 0), new.observed)]


def _given_vectors(forecast: Forecast, observed: Array, at_mean: bool = False) -> Array:
    """ln p(observation | draw), (S, n); at_mean: with the mean location of all draws in place of
    each draw's."""
    everything = slice(0, forecast.n)
    location = forecast.known(everything)
    if at_mean:
        location = np.broadcast_to(location.mean(axis=0), location.shape)
    return forecast.outcome.log_density(observed, location, everything)


def leave_one_out(
    values: Array, known: Array | None = None, influence: Influence | None = None
) -> Scores:
    """Scores from log densities (chain, draw, n) of what is left out, by Pareto-smoothed importance
    sampling.

    known: log densities of a part of it that the rest is predicted from; the score is then of the
    rest. influence: of the n on each other; by default what the draws tell of it.
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
    lppd = _mean_density(values) if known is None else _mean_density(values) - _mean_density(known)
    if influence is None:
        influence = Influence.of_draws(values if known is None else values - known)
    return Scores(elpd, lppd, shape, unsure, influence)


def _is_sure(log_weights: Array, shape: float, n_effective: float) -> bool:
    """Whether a score can be relied on: by the Pareto shape that is reliable for its number of
    effective draws (Vehtari 2024).

    With fewer it can be, too, where weights have a finite variance (a shape up to ½) and differ so
    little that the standard error of the score is small: draws that move slowly, and hardly matter.
    """
    if shape <= min(_UNSURE, 1.0 - 1.0 / np.log10(max(n_effective, 10.0))):
        return True
    weights = np.exp(log_weights) * len(log_weights)  # of mean 1
    return bool(shape <= _FINITE_VARIANCE and weights.std() / np.sqrt(n_effective) < _SMALL_ERROR)


def _smoothed(values: Array, efficiency: float) -> tuple[Array, float]:
    """Log weights (S,) that sum to one, of a fit without an observation with log likelihoods (S,),
    and their Pareto shape."""
    n_tail = int(np.ceil(min(0.2 * len(values), 3.0 * np.sqrt(len(values) / efficiency))))
    if np.ptp(np.sort(values)[:n_tail]) == 0.0:  # weights that are bounded, as far as draws tell
        return -values - logsumexp(-values), -np.inf
    log_weights, shape = array_stats.psislw(values, r_eff=efficiency)  # type: ignore[no-untyped-call]
    return np.asarray(log_weights), float(shape)


def _relative_efficiency(values: Array) -> float:
    """Effective sample size of a likelihood over the number of draws, from its logarithm (chain,
    draw); 1 if constant."""
    likelihood = np.exp(values - values.max())
    if likelihood.shape[1] < 4 or np.ptp(likelihood) == 0.0:  # too short a chain to tell
        return 1.0
    effective = float(array_stats.ess(likelihood, method="mean", chain_axis=0, draw_axis=1))  # type: ignore[no-untyped-call]
    known = np.isfinite(effective) and effective > 0.0
    return (effective if known else 1.0) / float(likelihood.size)


def _row(score: Scores, best: Scores, by: str) -> dict[str, Any]:
    behind, few = best.elpd - score.elpd, is_few(len(score.elpd), by)
    difference = float(behind.sum())
    error = _error(behind, shared_variance(score.influence, best.influence))
    unsure = bool((score.unsure | best.unsure).any())
    return {
        "elpd": score.total,
        "se": _error(score.elpd, shared_variance(score.influence)),
        "p": float((score.lppd - score.elpd).sum()),
        "difference": difference,
        "difference_se": error,
        "unsure": int(score.unsure.sum()),
        "note": _note(standing(difference, error, unsure, few), score, f"{by}s"),
    }


def _error(terms: Array, shared: float) -> float:
    """Standard error of a sum of scores, as an estimate of what new observations of the same users
    would give.

    The terms would be independent if the fit without an observation did not depend on the others.
    It does: their mutual influence adds its own variance.
    """
    return float(np.sqrt(len(terms) * terms.var(ddof=1) + shared))


def is_few(n: int, by: str) -> bool:
    """Whether a standard error of this many scores supports no verdict: with users, of whom its
    benchmark has none."""
    return by == "user" and n < _FEW_USERS


def standing(difference: float, error: float, unsure: bool = False, few: bool = False) -> str:
    """What a difference from the best fit means, given its standard error.

    unsure: whether it depends on unreliable scores; few: whether there are too few of them for a
    verdict.
    """
    if unsure:
        return "highest score, uncertain" if difference == 0.0 else "rank uncertain"
    if difference == 0.0:
        return "best"
    return (
        "clearly behind"
        if difference > max(2 * error, SMALL) and not few
        else "not distinguishable from the best"
    )


def _note(standing: str, score: Scores, what: str) -> str:
    unsure = int(score.unsure.sum())
    if unsure:
        folds = "" if what == "users" else "use folds=5, or "
        return (
            f"{standing}; {unsure} of {len(score.unsure)} {what} have unreliable scores: {folds}"
            "check on held-out ones"
        )
    return standing
