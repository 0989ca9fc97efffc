"""Yes or no, and this rather than that: binary outcomes and pairwise choices of each user.

user (n,), design (n, q), outcome (n,) of 0 and 1, latent (U, q).
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dualview.behaviors.base import Likelihood
from dualview.behaviors.effects import Factor
from dualview.behaviors.families.base import Family, Outcome
from dualview.behaviors.families.binomial import BinomialFamily, BinomialOutcome
from dualview.behaviors.families.logit import BinaryOutcome, LogitFamily
from dualview.behaviors.ids import Labeled, checked_ids, counted, id_text, is_labeled
from dualview.behaviors.likelihoods.user_rows import UserRows
from dualview.behaviors.panel import PerUser, design_matrix
from dualview.behaviors.records import Array, Params
from dualview.checks import as_array, column_names, index_names, is_learned, listed, numbers
from dualview.errors import DataWarning, InputError
from dualview.files.digests import digest
from dualview.units import GaussianPrior, Whitening


class BinaryOutcomes(PerUser):
    """Yes or no, with odds of each user's own: P(y_i = 1) = σ(x_iᵀ f_{u(i)}).

    Parameters
    ----------
    user : array (n,)
        Whose observation it is: ids, or rows of X counted from 0.
    design : array or DataFrame (n, q)
        What the odds depend on: a column for each part of the latent vector f_u.
    outcome : array (n,), optional
        0 and 1, or False and True; with ``trials``, numbers of successes. Leave it out for
        observations to be predicted.
    trials : array (n,), optional
        How many trials each row stands for, which have the same odds: outcomes are then binomial,
        P(y_i = k) with n_i trials. Rows to be predicted need theirs, too.
    common, groups, offset : as in :class:`UserRegression`
        Coefficients, effects and offsets are on the scale of the log odds.
    coefficient_prior : GaussianPrior, optional
        Over the coefficients of ``common``; by default N(0, 2.5² / variance of the column).
    intercept : bool
        Put a column of ones before the design.
    users, n_users : as in :class:`UserRegression`

    Notes
    -----
    Latent vectors have the constants m = 0 and Σ = I for columns scaled to a standard deviation of
    1; constant columns are not scaled. ``behavior_prior`` of the estimator gives others.

    Examples
    --------
    >>> behavior = BinaryOutcomes(["ann", "ann", "bob"], [[0.5], [1.0], [1.0]], [True, False, True])
    >>> len(behavior), behavior.users
    (2, ['ann', 'bob'])

    Seven of ten and one of four:

    >>> BinaryOutcomes(["ann", "bob"], [[0.5], [1.0]], [7, 1], trials=[10, 4]).trials
    array([10.,  4.])
    """

    trials: Array | None = None

    def __init__(
        self,
        user: Any,
        design: Any,
        outcome: ArrayLike | None = None,
        *,
        trials: ArrayLike | None = None,
        common: Any = None,
        groups: Any = None,
        offset: ArrayLike | None = None,
        coefficient_prior: GaussianPrior | None = None,
        intercept: bool = False,
        users: Sequence[Any] | None = None,
        n_users: int | None = None,
    ) -> None:
        matrix, names = design_matrix(design, intercept)
        self.trials = None if trials is None else _trials(trials, len(matrix))
        values = None if outcome is None else _yes_or_no(outcome, len(matrix), self.trials)
        self._set(user, matrix, values, names, users, n_users)
        self._set_effects(common, groups, offset, coefficient_prior)
        self.observation_ids = index_names(design)

    @property
    def scored_as(self) -> str:
        return "answers" if self.trials is None else "numbers of successes"

    @property
    def _values(self) -> Array:
        """Successes, with the trials beside them where there are some."""
        if self.trials is None:
            return self.observed
        return np.column_stack([self.observed, self.trials])

    @property
    def advice_on_spread(self) -> str | None:
        if self.trials is None:
            return None
        return "what successes depend on besides: columns in design or common, or groups"

    def _learned(self) -> Family:
        return LogitFamily() if self.trials is None else BinomialFamily()

    def _take_rest(self, rows: NDArray[Any]) -> None:
        self.trials = None if self.trials is None else self.trials[rows]

    def like(self, new: Any, n_new: int) -> Self:
        """New answers, of trials where those of the fit are."""
        found = super().like(new, n_new)
        if (found.trials is None) != (self.trials is None):
            with_them, without = "with trials", "without"
            own, theirs = (with_them, without) if found.trials is None else (without, with_them)
            raise InputError(
                f"The answers of the fit are {own}, and new ones {theirs}: give "
                f"{'each row its trials' if found.trials is None else 'no trials'}."
            )
        return found

    def extended(self, new: Any, n_new: int, users: Sequence[str] | None = None) -> Self:
        """These answers and new ones, which are known too."""
        both = self._joined(new, n_new, users)
        if self.trials is not None and new is not None:
            both.trials = np.concatenate([self.trials, new.trials])
        return both

    def constant_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """The trials of each row besides, where there are some."""
        own = {} if self.trials is None else {"trials": (("observation",), self.trials)}
        return super().constant_data() | own

    def described(self) -> dict[str, Any]:
        return super().described() | ({} if self.trials is None else {"trials": True})

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Self:
        behavior = super().from_description(description)
        behavior.trials = np.empty(0) if description.get("trials") else None
        return behavior

    def fingerprint(self) -> dict[str, Any]:
        return super().fingerprint() | (
            {} if self.trials is None else {"trials": digest(self.trials)}
        )

    def family(self, new: Self, params: Params, n_draws: int) -> Outcome:  # noqa: ARG002
        """Locations are log odds."""
        return BinaryOutcome() if new.trials is None else BinomialOutcome(new.trials)


class PairwiseChoices(BinaryOutcomes):
    """Choices between two items, by what they are: P(u prefers i to j) = σ((x_i − x_j)ᵀ f_u).

    Parameters
    ----------
    user : array (n,)
        Whose choice it is: ids, or rows of X counted from 0.
    winner, loser : array (n,)
        The item that was chosen and the one that was not: rows of ``items`` by position, or by the
        index of a DataFrame unless that is 0, 1, 2, … For choices to be predicted, the item whose
        chances are asked and the other one.
    items : array or DataFrame (n_items, q)
        Features of the items: a column for each part of the latent vector f_u.
    item_intercept : bool or "learned"
        Give each item an appeal of its own, common to all users: True, with prior N(0, 1) on the
        scale of the log odds; "learned", with prior N(0, τ²) and τ learned, as a group called
        ``item``: ``posterior_["group_effects"]``. Predictions for an item that the fit has not seen
        then take its appeal from N(0, τ²).
    common, groups, offset, coefficient_prior : as in :class:`BinaryOutcomes`
        Of each choice, as the winner sees it: an advantage of the winner, such as having been shown
        first, counts as 1, the same of the loser as −1. Not with ``item_intercept=True``.
    users, n_users : as in :class:`BinaryOutcomes`

    Notes
    -----
    Latent vectors have the constants m = 0 and Σ = I for item features scaled to a standard
    deviation of 1.

    Examples
    --------
    >>> items = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    >>> choices = PairwiseChoices([0, 0, 1], winner=[0, 1, 2], loser=[1, 2, 0], items=items)
    >>> len(choices), choices.n_observations, choices.n_dims
    (2, 3, 2)
    """

    observations = "choices"
    _described_items: list[str] | str | None = None  # of a fit that was saved

    def __init__(
        self,
        user: Any,
        winner: Any,
        loser: Any,
        items: Any,
        *,
        item_intercept: bool | str = False,
        common: Any = None,
        groups: Any = None,
        offset: ArrayLike | None = None,
        coefficient_prior: GaussianPrior | None = None,
        users: Sequence[Any] | None = None,
        n_users: int | None = None,
    ) -> None:
        self.items = numbers(items, "items", n_dims=2)
        names = column_names(items) or [f"x{j}" for j in range(self.items.shape[1])]
        self.item_names = _item_names(items)
        self.winner = self._places(winner, "winner")
        self.loser = self._places(loser, "loser")
        if len(self.winner) != len(self.loser):
            raise InputError(
                f"winner and loser must have the same length; got {len(self.winner)} and "
                f"{len(self.loser)}."
            )
        same = np.flatnonzero(self.winner == self.loser)
        if len(same):
            raise InputError(
                f"winner and loser must differ; they are the same item in row {same[0]} "
                f"({len(same)} row(s))."
            )
        learned = is_learned(item_intercept, "item_intercept")
        if not learned and not isinstance(item_intercept, bool | np.bool_):
            raise InputError(
                f'item_intercept must be True, False or "learned"; got {item_intercept!r}.'
            )
        # files have the former spelling
        self.item_intercept: bool | str = "learnt" if learned else bool(item_intercept)
        design = self.items[self.winner] - self.items[self.loser]
        self._set(user, design, np.ones(len(design)), names, users, n_users)
        self._set_effects(common, groups, offset, coefficient_prior)
        if self.item_intercept is True and not self.effects.none:
            raise InputError(
                "item_intercept=True gives items coefficients with a known prior. With common or "
                'groups use "learned", which '
                "also learns how much items differ."
            )
        if self.item_intercept == "learnt":
            self.effects = self.effects.with_factor(self._appeals_as_group())

    @classmethod
    def from_rankings(
        cls, user: Any, rankings: Any, items: Any, *, rule: str = "pairs", **options: Any
    ) -> Self:
        """Choices out of rankings, each a sequence of items from the best down; they may be of
        different lengths.

        rule : "pairs": every item against every one below it; "neighbors": against the next one
        only. Pairs use all of a ranking and count it as if each comparison had been made by itself,
        which overstates what it says: rankings of three items or more warn of it. Neighbors count
        each place once, which is less than the ranking says. :class:`Rankings` takes rankings as
        they are.
        """
        if rule not in ("pairs", "neighbors"):
            raise InputError(f"rule must be 'pairs' or 'neighbors'; got {rule!r}.")
        orders = [list(ranking) for ranking in rankings]
        if len(orders) != len(user):
            raise InputError(
                f"rankings must have one ranking per user given, {len(user)}; got {len(orders)}."
            )
        who, winner, loser = [], [], []
        for owner, order in zip(user, orders, strict=True):
            if len(set(order)) < len(order):
                raise InputError(f"A ranking may hold each item only once; {order} repeats one.")
            for place, item in enumerate(order):
                below = order[place + 1 :] if rule == "pairs" else order[place + 1 : place + 2]
                who += [owner] * len(below)
                winner += [item] * len(below)
                loser += below
        longest = max(map(len, orders), default=0)
        if rule == "pairs" and longest > 2:
            warnings.warn(
                f"Rankings of up to {longest} items were taken apart into {len(who)} choices, as "
                "if each had been made by "
                "itself: a ranking then counts several times, and users seem surer than they "
                "are. Rankings(user, ranking, "
                'design, place) takes rankings as they are. rule="neighbors" compares each item '
                "with the next one only.",
                DataWarning,
                stacklevel=2,
            )
        return cls(Labeled(who) if is_labeled(user) else who, winner, loser, items, **options)

    def _appeals_as_group(self) -> Factor:
        """The winner's appeal counts as it is, the loser's with the sign changed."""
        names = self.item_names or [str(item) for item in range(len(self.items))]
        return Factor(
            "item", names, np.column_stack([self.winner, self.loser]), np.array([1.0, -1.0])
        )

    def _places(self, chosen: Any, name: str) -> NDArray[np.int64]:
        given = as_array(chosen, name)
        if given.ndim != 1:
            raise InputError(
                f"{name} must be one-dimensional, an item per row; got shape {given.shape}."
            )
        if given.dtype.kind in "iu" and self.item_names is None:
            outside = (given < 0) | (given >= len(self.items))
            if outside.any():
                raise InputError(
                    f"{name} must hold rows of items, 0 to {len(self.items) - 1}; got "
                    f"{given[outside][0]} in row "
                    f"{np.flatnonzero(outside)[0]}."
                )
            return given.astype(np.int64)
        if self.item_names is None:
            raise InputError(
                f"{name} must hold rows of items as whole numbers; names need items as a "
                "DataFrame with an index."
            )
        place = {item: i for i, item in enumerate(self.item_names)}
        names = [id_text(item) for item in given.tolist()]
        unknown = [item for item in dict.fromkeys(names) if item not in place]
        if unknown:
            raise InputError(f"{name} must name rows of items; unknown: {listed(unknown)}.")
        return np.array([place[item] for item in names], dtype=np.int64)

    def _take_rest(self, rows: NDArray[Any]) -> None:
        self.winner, self.loser = self.winner[rows], self.loser[rows]

    def _scaled_by(self) -> Array:
        return self.items

    def _likelihood(self, units: Whitening, known: Array) -> Likelihood:
        """With coefficients that count +1 for the winner and −1 for the loser, where items have an
        appeal with a known prior."""
        likelihood = super()._likelihood(units, known)
        if self.item_intercept is not True:
            return likelihood
        assert isinstance(likelihood, UserRows)
        n, order = self.n_observations, self._order
        values = np.concatenate([np.ones(n), -np.ones(n)])
        indices = (np.tile(np.arange(n), 2), np.concatenate([self.winner, self.loser]))
        appeals = sparse.csr_array((values, indices), shape=(n, len(self.items)))
        return replace(likelihood, covariates=appeals[order])

    @property
    def _acts_outside(self) -> bool:
        return self.item_intercept is True or super()._acts_outside

    def outside(self, params: Params, cases: slice = slice(None), drawn: bool = False) -> Array:
        """The items' appeals besides."""
        found = super().outside(params, cases, drawn)
        if self.item_intercept is not True:
            return found
        appeals = np.asarray(params["coefficients"])
        return np.asarray(found + appeals[:, self.winner[cases]] - appeals[:, self.loser[cases]])

    @property
    def param_names(self) -> list[str]:
        return ["coefficients"] if self.item_intercept is True else super().param_names

    def constant_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """The items of each choice besides."""
        names = np.asarray(self.item_names or np.arange(len(self.items)))
        places = {"winner": self.winner, "loser": self.loser}
        return super().constant_data() | {
            name: (("observation",), names[place]) for name, place in places.items()
        }

    def coords(self) -> dict[str, Any]:
        """Names of the parts of a latent vector, and of the items."""
        items = self.item_names or [str(i) for i in range(len(self.items))]
        return super().coords() | ({"coefficient": items} if self.item_intercept is True else {})

    def described(self) -> dict[str, Any]:
        return super().described() | {
            "item_intercept": self.item_intercept,
            "n_items": len(self.items),
            **({"items": self._items_in_words} if self.item_intercept is True else {}),
        }

    @property
    def _items_in_words(self) -> list[str] | str:
        """The items' names; without names a digest of their features, which is empty in files of
        versions that did not store it."""
        if self._described_items is not None:
            return self._described_items
        return digest(self.items) if self.item_names is None else self.item_names

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Self:
        behavior = super().from_description(description)
        behavior.item_intercept, behavior.item_names = description["item_intercept"], None
        behavior._described_items = description.get("items", "")
        behavior.items = np.zeros((description["n_items"], len(description["names"])))
        behavior.winner = behavior.loser = np.empty(0, dtype=np.int64)
        return behavior

    def like(self, new: Any, n_new: int) -> Self:
        """New choices; with an appeal of each item, they are among the items of the fit."""
        matched = super().like(new, n_new)
        if self.item_intercept is True and (
            matched.item_intercept is not True or len(matched.items) != len(self.items)
        ):
            raise InputError(
                f"New choices must be among the {len(self.items)} items of the fit with "
                "item_intercept=True; got "
                f"{len(matched.items)} items, item_intercept={matched.item_intercept}."
            )
        if self.item_intercept is True:
            matched._match_items(self)
        return matched

    def _match_items(self, fitted: Self) -> None:
        """In place: choices among the items of the fit, by their names where both have some."""
        known, items = fitted._items_in_words, self._items_in_words
        if isinstance(known, str) or isinstance(items, str):
            if isinstance(known, str) and known not in ("", digest(self.items)):
                raise InputError(
                    "New choices must be among the items of the fit, with the same features in "
                    "the same order; got other features. Items that have names, by the index of a "
                    "DataFrame, may come in any order."
                )
            return
        place = {name: i for i, name in enumerate(known)}
        strange = [name for name in items if name not in place]
        if strange:
            raise InputError(
                f"New choices must be among the items of the fit; unknown: {listed(strange)}."
            )
        places = np.array([place[name] for name in items], dtype=np.int64)
        self.winner, self.loser = places[self.winner], places[self.loser]
        self.items, self.item_names = self.items[np.argsort(places)], known

    def extended(self, new: Any, n_new: int, users: Sequence[str] | None = None) -> Self:
        """These choices and new ones, among the same items."""
        if isinstance(new, PairwiseChoices) and not np.array_equal(new.items, self.items):
            raise InputError(
                f"New choices must be among the {len(self.items)} items of the fit, with the "
                "same features."
            )
        both = super().extended(new, n_new, users)
        if new is not None:
            both.winner, both.loser = (
                np.concatenate([self.winner, new.winner]),
                np.concatenate([self.loser, new.loser]),
            )
        return both

    def fingerprint(self) -> dict[str, Any]:
        return super().fingerprint() | {
            "item_intercept": self.item_intercept,
            "items": digest(self.items),
        }


def _trials(trials: Any, n: int) -> Array:
    """Numbers of trials, whole and at least 1."""
    values = numbers(trials, "trials", n_dims=1)
    if len(values) != n:
        raise InputError(f"trials must have a value per row of design, {n}; got {len(values)}.")
    odd = values[(values < 1) | (values != np.floor(values))]
    if len(odd):
        raise InputError(
            f"trials must be whole numbers from 1 on; got {odd[0]:g}. Leave out rows without any."
        )
    return values


def _yes_or_no(outcome: Any, n: int, trials: Array | None = None) -> Array:
    values = numbers(outcome, "outcome", n_dims=1)
    if len(values) != n:
        raise InputError(f"outcome must have a value per row of design, {n}; got {len(values)}.")
    if trials is not None:
        strange = np.flatnonzero((values < 0) | (values > trials) | (values != np.floor(values)))
        if len(strange):
            raise InputError(
                "outcome must hold numbers of successes, whole and from 0 to the trials; got "
                f"{values[strange[0]]:g} of {trials[strange[0]]:g} in row {strange[0]}."
            )
        return values
    odd = values[(values != 0) & (values != 1)]
    if len(odd):
        raise InputError(
            f"outcome must hold 0 and 1 only, or False and True; got {odd[0]:g}. For successes out "
            "of several trials give trials, too."
        )
    return values


def _item_names(items: Any) -> list[str] | None:
    """The index of a DataFrame of items, unless it only counts rows from 0."""
    index = getattr(items, "index", None)
    if index is None or callable(index) or getattr(index, "dtype", None) is None:
        return None
    names = checked_ids(index, "The index of items")
    if type(index).__name__ == "RangeIndex" and names == counted(len(names)):
        return None
    if len(set(names)) < len(names):
        raise InputError("The index of items must name each item once.")
    return names
