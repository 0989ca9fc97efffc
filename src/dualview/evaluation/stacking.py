"""Stacking: several fits to the same data as one predictive distribution (Yao, Vehtari, Simpson and
Gelman 2018)."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.behaviors.families.gaussian import NormalMixture
from dualview.checks import words_text
from dualview.errors import DataWarning, InputError
from dualview.evaluation.comparison import Scores, check_users, is_few, scores_of, unlike_text
from dualview.evaluation.stacking_weights import (
    bootstrapped_weights,
    relative_densities,
    stacking_weights,
)
from dualview.files.html import small_table
from dualview.mixture import DualViewMixture
from dualview.posterior.prediction.influence import shared_variance
from dualview.predictions import Unknown

Array = NDArray[np.float64]

_N_REPLICATES = 400
_INTERVAL = (0.025, 0.975)
_SOME, _HALF, _ALL = 0.05, 0.5, 0.995  # of the weight, for what sentences say of it
# What fits may have or lack, and what it is called in sentences.
_PARTS: dict[str, Callable[[DualViewMixture], bool]] = {
    "features": lambda fit: _has_features(fit),
    "clusters": lambda fit: fit.posterior_.spec.n_clusters != 1,
    "views that may disagree": lambda fit: fit.posterior_.spec.agreement is not None,
    "linear links": lambda fit: fit.posterior_.spec.link is not None,
    "shared vectors inside clusters": lambda fit: fit.posterior_.spec.pooling is not None,
}


def stack(
    fits: Mapping[str, DualViewMixture],
    behavior: Any = None,
    *,
    by: str = "observation",
    folds: int | None = None,
) -> "Stack":
    """Combine fits to the same data into one that predicts by a weighted mixture of all of them.

    The weights maximize the sum of the log densities of outcomes that are left out, Σ_i ln Σ_m w_m
    p_m(y_i | all others): the scores that ``compare`` adds up. A stack is rarely worse than the
    best of its fits. Where fits are right about different outcomes it is better than each of them.

    Parameters
    ----------
    fits : dict of name to fitted DualViewMixture
        Two or more fits to the same observations of the same users. Their features, priors and
        settings may differ.
    behavior : behavior, optional
        The observations, for models that were loaded from files and do not contain them.
    by : "observation" or "user"
        What is left out at a time. "observation": weights for new outcomes of the same users.
        "user": all observations of a user, predicted from the user's features and the other users'
        data; weights for new users.
    folds : int, optional
        Take scores of refits in as many folds in place of leave-one-out scores, as in ``compare``.

    Returns
    -------
    Stack
        ``weights`` by name, ``table`` with their uncertainty, ``verdict()`` in words;
        ``predict_outcome`` and ``predict_latent`` as for a fit.

    Examples
    --------
    >>> import dualview as dv
    >>> forum = dv.datasets.agreement(n_users=20, n_threads=300, seed=1)
    >>> behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    >>> settings = {"engine": dv.Gibbs(n_warmup=100), "n_draws": 200, "n_chains": 2}
    >>> stacked = dv.stack({
    ...     "dual": dv.DualViewMixture(**settings).fit(forum.features, behavior),
    ...     "single": dv.DualViewMixture(1, **settings).fit(None, behavior),
    ... })
    >>> bool(stacked.weights["dual"] > 0.5), float(stacked.weights.sum().round(9))
    (True, 1.0)
    >>> stacked.predict_outcome(forum.test.participation).interval(0.9).shape == (
    ...     len(forum.test.outcome), 2)
    True
    """
    scores = scores_of(fits, behavior, by=by, folds=folds, caller="stack")
    check_users(fits)
    if behavior is None:
        _check_observations(fits)
    _warn_of_unsure(scores, by)
    return stack_scores(fits, scores, by)


def stack_scores(
    fits: Mapping[str, DualViewMixture], scores: Mapping[str, Scores], by: str
) -> "Stack":
    """The stack of fits with these scores by name, in the order of the scores."""
    density = relative_densities(np.column_stack([own.elpd for own in scores.values()]))
    weights = stacking_weights(density)
    replicates = bootstrapped_weights(density, _design_effect(scores), _N_REPLICATES)
    low, high = np.quantile(replicates, _INTERVAL, axis=0)
    table = pd.DataFrame(
        {
            "weight": weights,
            "low": low,
            "high": high,
            "elpd": [own.total for own in scores.values()],
            "unsure": [int(own.unsure.sum()) for own in scores.values()],
        },
        index=list(scores),
    )
    fits = {name: fits[name] for name in scores}
    few = is_few(len(density), by)
    return Stack(fits, table, _verdict(fits, weights, replicates, few), by)


@dataclass(frozen=True, repr=False)
class Stack:
    """Fits to the same data that predict together, each with its weight.

    Attributes
    ----------
    fits : dict of name to DualViewMixture
    table : DataFrame
        A row per fit: weight; low and high, the ends of its 95 % interval; elpd, the sum of its
        scores; unsure, the number of its scores that are unreliable.
    by : "observation" or "user"
        What was left out at a time.
    """

    fits: Mapping[str, DualViewMixture]
    table: pd.DataFrame
    text: str
    by: str

    @property
    def weights(self) -> pd.Series:
        """The weight of each fit by its name; they sum to one."""
        return self.table["weight"]

    def verdict(self) -> str:
        """Which fits the predictions come from, and which parts of the models help, in
        sentences."""
        return self.text

    def __repr__(self) -> str:
        return f"{self._title()}\n{_rounded(self.table).to_string()}\n{self.text}"

    def _repr_html_(self) -> str:
        table = _rounded(self.table)
        return small_table(
            self._title(), table.itertuples(name=None), ("", *table.columns), self.text
        )

    def _title(self) -> str:
        return f"Stack of {len(self.fits)} fits, weights by {self.by}"

    def predict_outcome(
        self, new: Any, X_new: Any = None, behavior_new: Any = None, *, unknown: Unknown = "error"
    ) -> Any:
        """Predictive distribution of new outcomes: the mixture of those of the fits.

        Parameters are those of :meth:`DualViewMixture.predict_outcome`. X_new goes to the fits that
        have features, of a DataFrame the columns that each of them has; fits without features
        know only that there are as many new users. If fits need different inputs, give a dictionary
        by the names of the fits.
        """
        return self._mixed(
            lambda fit, own: fit.predict_outcome(
                own(new), _known_of(fit, own(X_new)), own(behavior_new), unknown=unknown
            )
        )

    def predict_latent(
        self, X_new: Any = None, behavior_new: Any = None, *, unknown: Unknown = "error"
    ) -> Any:
        """Predictive distribution of the latent behavior of new users: the mixture of those of the
        fits.

        Parameters are those of :meth:`DualViewMixture.predict_latent`, and X_new is as in
        :meth:`predict_outcome`. The fits must have the same latent vectors.
        """
        names = {name: self.fits[name].posterior_.latent_names for name in self._used}
        if said := unlike_text({name: " and ".join(own) for name, own in names.items()}):
            raise InputError(
                f"The fits have different latent vectors ({said}), which have no mixture. Ask one "
                "fit: stacked.fits[name].predict_latent."
            )
        return self._mixed(
            lambda fit, own: fit.predict_latent(
                _known_of(fit, own(X_new)), own(behavior_new), unknown=unknown
            )
        )

    @property
    def _used(self) -> list[Any]:
        """Names of the fits with a weight above 0."""
        return list(self.weights.index[self.weights > 0.0])

    def _mixed(self, predict: Callable[[DualViewMixture, Callable[[Any], Any]], Any]) -> Any:
        """The mixture of what the fits predict; by name where there are several behaviors."""

        def own(name: str) -> Callable[[Any], Any]:
            return lambda given: given[name] if self._is_by_fit(given) else given

        found = [predict(self.fits[name], own(name)) for name in self._used]
        weights = self.weights[self._used].to_numpy()
        if isinstance(found[0], dict):
            return {name: mix([each[name] for each in found], weights) for name in found[0]}
        return mix(found, weights)

    def _is_by_fit(self, given: Any) -> bool:
        return isinstance(given, Mapping) and set(given) == set(self.fits)


def mix(predictions: Sequence[Any], weights: Array) -> Any:
    """The mixture of predictive distributions of the same cases, with weights (M,) that sum to
    one."""
    order = sorted(range(len(weights)), key=lambda m: type(predictions[m]) is NormalMixture)
    first, *others = (predictions[m] for m in order)  # every kind of number can hold a normal one
    return first.joined(others, weights[order]) if others else first


def _has_features(fit: DualViewMixture) -> bool:
    return hasattr(fit, "n_features_in_")


def _known_of(fit: DualViewMixture, X: Any) -> Any:
    """What a fit is told of new users with features X: its columns, or a row for each without
    any."""
    if X is None:
        return None
    if not _has_features(fit):
        table = next(iter(X.values())) if isinstance(X, Mapping) else X
        is_frame = isinstance(table, pd.DataFrame)
        return table.iloc[:, :0] if is_frame else np.empty((np.shape(table)[0], 0))
    names = list(getattr(fit, "feature_names_in_", ()))
    is_known = names and isinstance(X, pd.DataFrame) and set(names) <= set(X.columns)
    return X[names] if is_known else X


def _check_observations(fits: Mapping[str, DualViewMixture]) -> None:
    """Raise where fits with their users in one order have different users in their observations."""
    (name, first), *others = fits.items()
    for other, fit in others:
        if fit.posterior_.user_ids != first.posterior_.user_ids:
            continue
        one, two = _participants(first), _participants(fit)
        different = [key for key in one if key in two and one[key] != two[key]]
        if different:
            raise InputError(
                f"The fits must be to the same observations; {name} and {other} differ in "
                f"{', '.join(different)}."
            )


def _participants(fit: DualViewMixture) -> dict[str, Any]:
    """Digests that say whose the observations of a fit are, by name; none where a behavior lacks
    them."""
    assert fit.behavior_ is not None
    try:
        digests = fit.behavior_.fingerprint()
    except InputError:
        return {}
    whose = ("participation", "user", "ranking")
    return {key: value for key, value in digests.items() if key.rpartition(".")[2] in whose}


def _warn_of_unsure(scores: Mapping[str, Scores], by: str) -> None:
    said = [
        f"{int(own.unsure.sum())} of {len(own.unsure)} {by}s in {name!r}"
        for name, own in scores.items()
        if own.unsure.any()
    ]
    if said:
        remedy = " Use folds=5." if by == "observation" else ""
        warnings.warn(
            "The weights of this stack rest on unreliable leave-one-out scores: of "
            f"{', '.join(said)}.{remedy}",
            DataWarning,
            stacklevel=3,
        )


def _design_effect(scores: Mapping[str, Scores]) -> float:
    """By what factor variances of differences of scores are larger than those of independent
    scores: the largest among differences from the best fit, and at least 1."""
    best, effect = max(scores.values(), key=lambda own: own.total), 1.0
    for own in scores.values():
        n, behind = len(own.elpd), best.elpd - own.elpd
        independent = n * float(behind.var())
        if independent > 0.0:
            shared = max(shared_variance(own.influence, best.influence), 0.0)
            effect = max(effect, 1.0 + shared / independent)
    return min(effect, float(len(best.elpd)))


def _verdict(
    fits: Mapping[str, DualViewMixture], weights: Array, replicates: Array, few: bool = False
) -> str:
    """The fits that count, then a sentence for each part of the models that some fits have and
    others lack; parts of the same fits share one. few: whether scores are too few for a verdict."""
    names, order = list(fits), np.argsort(-weights, kind="stable")
    counted = [f"{weights[m]:.2f} for {names[m]!r}" for m in order if weights[m] >= _SOME]
    if weights.max() > _ALL:
        sentences = [f"No mixture of the fits predicts better than {names[order[0]]!r} alone."]
    else:
        sentences = [f"The mixture that predicts best has weights of {words_text(counted)}."]
    owners: dict[tuple[bool, ...], list[str]] = {}
    for part, has in _PARTS.items():
        own = tuple(has(fit) for fit in fits.values())
        if any(own) and not all(own):
            owners.setdefault(own, []).append(part)
    for own, parts in owners.items():
        among = np.array(own)
        share = float(weights[among].sum())
        low, high = np.quantile(replicates[:, among].sum(axis=1), _INTERVAL)
        ends = (0.0, 1.0) if few else (low, high)
        sentences.append(
            f"{_lesson(words_text(parts), share, *ends)}: fits with them have {share:.2f} of the "
            f"weight ({low:.2f} to {high:.2f})."
        )
    return " ".join(sentences)


def _lesson(parts: str, share: float, low: float, high: float) -> str:
    """Whether parts of a model help to predict, by the weight of the fits that have them."""
    if low > _SOME:
        return f"{parts.capitalize()} help"
    if share < _SOME and high < _HALF:
        return f"{parts.capitalize()} do not help"
    return f"It is not clear whether {parts} help"


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    return table.round({"weight": 3, "low": 3, "high": 3, "elpd": 1})
