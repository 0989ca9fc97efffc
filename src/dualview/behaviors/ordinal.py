"""Ratings: outcomes that are one of several ordered levels.

user (n,), design (n, q), outcome (n,), latent (U, q).
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit

from dualview.behaviors.base import Behavior
from dualview.behaviors.families.base import Family, Outcome
from dualview.behaviors.families.levels import Levels
from dualview.behaviors.families.ordinal import CutPrior, Known, OrdinalFamily, OrdinalOutcome
from dualview.behaviors.panel import PerUser, design_matrix
from dualview.behaviors.records import Array, Panel, Params
from dualview.checks import as_array, index_names, varies
from dualview.errors import InputError, InputTypeError
from dualview.units import GaussianPrior, Whitening

_MOST_LEVELS = 50
_LEVEL = (str, int, float, np.bool_, np.number)


class OrdinalOutcomes(PerUser):
    """Ordered levels, such as ratings, by cumulative logits: P(y_i ≤ level l) = σ(c_l − x_iᵀ
    f_{u(i)}).

    Parameters
    ----------
    user : array (n,)
        Whose observation it is: ids, or rows of X counted from 0.
    design : array or DataFrame (n, q)
        What the outcome depends on: a column for each part of the latent vector f_u.
    outcome : array (n,), optional
        The levels: numbers, names, or an ordered categorical. Leave it out for observations to be
        predicted.
    levels : sequence, optional
        All levels, the lowest first, those that nobody gave included. Needed for names without an
        order. By default the numbers in ``outcome``, or the categories of an ordered categorical.
    intercept : bool
        Put a column of ones before the design, so that f_u begins with how high the user's levels
        are.
    common, groups, offset, coefficient_prior : as in :class:`BinaryOutcomes`
    users, n_users : as in :class:`UserRegression`

    Notes
    -----
    Cut points c_1 < … < c_{L−1} are learned; their prior is that of ordered draws from the logistic
    distribution. With an intercept, the cut point in the middle stays at the logit of the share of
    levels up to it: users' intercepts say the rest. Latent vectors have the constants m = 0 and Σ =
    I for columns scaled to a standard deviation of 1.

    Levels count as their numbers, names as 0, 1, 2, …: in ``outcome`` here, and in means and
    intervals of predictions.

    Examples
    --------
    >>> design = [[1.0], [2.0], [1.0], [3.0]]
    >>> behavior = OrdinalOutcomes([0, 0, 1, 1], design, [1, 3, 2, 5], levels=[1, 2, 3, 4, 5])
    >>> behavior.n_observations, behavior.levels.names
    (4, ('1', '2', '3', '4', '5'))
    """

    levels: Levels
    _intercept: bool

    def __init__(
        self,
        user: Any,
        design: Any,
        outcome: Any = None,
        *,
        levels: Sequence[Any] | None = None,
        common: Any = None,
        groups: Any = None,
        offset: ArrayLike | None = None,
        coefficient_prior: GaussianPrior | None = None,
        intercept: bool = False,
        users: Sequence[Any] | None = None,
        n_users: int | None = None,
    ) -> None:
        matrix, names = design_matrix(design, intercept)
        self.levels = levels_of(outcome, levels)
        values = None
        if outcome is not None:
            place = self.levels.places(_plain(outcome))
            if len(place) != len(matrix):
                raise InputError(
                    f"outcome must have a level per row of design, {len(matrix)}; got {len(place)}."
                )
            values = self.levels.values[place]
        self._set(user, matrix, values, names, users, n_users)
        self._set_effects(common, groups, offset, coefficient_prior)
        self._intercept = bool(intercept)
        self.observation_ids = index_names(design)

    @property
    def scored_as(self) -> str:
        return "levels"

    @property
    def _values(self) -> Array:
        """Places of the levels."""
        return self.levels.places(self.observed).astype(float)

    def ridge_estimate(self) -> Array:
        """A quick estimate of each user's vector from the places of its levels, (U,) or (U, q)."""
        units = Whitening.of(self._latent_prior())
        scores = self._values - self._values.mean()
        scores = 1.7 * scores / (float(scores.std()) or 1.0)
        panel = Panel.of(self.user, self.design @ units.factor, scores, len(self))
        return self._estimates(units, 0.25 * panel.squares, 0.25 * panel.weighted)

    @property
    def _cut_prior(self) -> CutPrior:
        """With an intercept, the cut point nearest to the middle is known: its logit of a smoothed
        share."""
        n_cuts = len(self.levels.names) - 1
        if not self._intercept:
            return CutPrior(n_cuts)
        counts = np.bincount(self._values.astype(int), minlength=n_cuts + 1) + 0.5
        shares = np.cumsum(counts)[:-1] / counts.sum()
        place = int(np.argmin(np.abs(shares - 0.5)))
        return CutPrior(n_cuts, Known(place, float(logit(shares[place]))))

    def _check_fit(self) -> None:
        super()._check_fit()
        if not varies(self.observed):
            raise InputError(
                f"outcome is {self.observed[0]:g} throughout: there is nothing to explain."
            )

    def _learned(self) -> Family:
        return OrdinalFamily(self._cut_prior)

    @property
    def param_names(self) -> list[str]:
        """What predictions need besides the latent vectors."""
        return ["cut_points", *super().param_names]

    def coords(self) -> dict[str, Any]:
        """Names of the parts of a latent vector, and of the cut points: 1|2 lies between levels 1
        and 2."""
        names = self.levels.names
        return super().coords() | {"cut": [f"{low}|{high}" for low, high in pairwise(names)]}

    def described(self) -> dict[str, Any]:
        return super().described() | {
            "levels": list(self.levels.names),
            "level_values": self.levels.values.tolist(),
        }

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Self:
        behavior = super().from_description(description)
        behavior.levels = Levels(
            tuple(description["levels"]), np.array(description["level_values"], dtype=float)
        )
        behavior._intercept = "intercept" in description["names"][:1]
        return behavior

    def fingerprint(self) -> dict[str, Any]:
        return super().fingerprint() | {
            "levels": list(self.levels.names),
            "intercept": self._intercept,
        }

    def like(self, new: Any, n_new: int) -> Self:
        """New observations, with the levels of the fit where they have outcomes."""
        matched = super().like(new, n_new)
        matched.outcome, matched.levels = self.outcome_of(matched), self.levels
        return matched

    def outcome_of(self, new: Behavior) -> Array | None:
        """Levels by their names: of other levels, or in another order, they count as other
        numbers."""
        if new.outcome is None or not isinstance(new, OrdinalOutcomes):
            return new.outcome
        strange = [name for name in new.levels.names if name not in self.levels.names]
        if strange:
            raise InputError(
                "New observations must have the levels of the fit, "
                f"{', '.join(self.levels.names)}; got {strange[0]}."
            )
        names = np.array(new.levels.names)[new.levels.places(new.outcome)]
        return np.asarray(self.levels.values[self.levels.places(names)])

    def family(self, new: Self, params: Params, n_draws: int) -> Outcome:  # noqa: ARG002
        """Levels by the cut points of each draw."""
        return OrdinalOutcome(np.asarray(params["cut_points"]), self.levels)


def _plain(outcome: Any) -> Any:
    """An ordered categorical as names, anything else as it is."""
    values = getattr(outcome, "array", outcome)
    return (
        np.asarray(values, dtype=object).astype(str)
        if hasattr(values, "categories")
        else as_array(outcome, "outcome")
    )


def level_list(levels: Any) -> list[Any]:
    """The levels that are given, one by one; an error where they have no order or one is none."""
    is_ordered = isinstance(levels, Iterable) and not isinstance(
        levels, str | bytes | Set | Mapping
    )
    found = list(levels) if is_ordered else []
    if not is_ordered or any(not isinstance(level, _LEVEL) or level != level for level in found):
        raise InputTypeError(
            "levels must list names or numbers in order, the lowest first, as in "
            f'levels=["low", "middle", "high"]; got {levels!r:.80}.'
        )
    return found


def levels_of(outcome: Any, levels: Sequence[Any] | None) -> Levels:
    """The levels that are given, or those that the outcomes say."""
    values = getattr(outcome, "array", outcome)
    if levels is None and hasattr(values, "categories") and values.ordered:
        levels = list(values.categories)
    if levels is None:
        given = None if outcome is None else as_array(outcome, "outcome")
        if given is None or given.dtype.kind not in "biuf":
            raise InputError(
                "levels must list the levels in order, the lowest first, where outcome has no "
                "numbers: "
                'levels=["low", "middle", "high"].'
            )
        if given.dtype.kind == "f" and not np.isfinite(given).all():
            raise InputError(
                "outcome must hold levels; got missing or infinite values. Leave these rows out."
            )
        levels = np.unique(given).tolist()
        if len(levels) > _MOST_LEVELS:
            raise InputError(
                f"outcome has {len(levels)} different numbers, where at most {_MOST_LEVELS} "
                "levels make sense: use "
                "UserRegression for numbers, or give levels."
            )
    listed = level_list(levels)
    numeric = all(
        isinstance(level, int | float | np.number) and not isinstance(level, bool)
        for level in listed
    )
    names = tuple(f"{level:g}" if numeric else str(level) for level in listed)
    if len(names) < 3 or len(set(names)) < len(names):
        what = (
            "two levels are yes or no: use BinaryOutcomes"
            if len(set(names)) == 2
            else "list each level once"
        )
        raise InputError(
            f"levels must be three or more that differ; got {', '.join(names) or 'none'}. Note: "
            f"{what}."
        )
    values = np.array(listed, dtype=float) if numeric else np.arange(len(listed), dtype=float)
    if (np.diff(values) <= 0).any():
        raise InputError(f"levels must be in order, the lowest first; got {', '.join(names)}.")
    return Levels(names, values)
