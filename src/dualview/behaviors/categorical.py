"""Outcomes that are one of several levels without an order, such as kinds of purchases.

user (n,), design (n, p), outcome (n,) of K levels, latent (U, p (K − 1)).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior, Likelihood
from dualview.behaviors.effects import Effects, Factor
from dualview.behaviors.families.base import Outcome
from dualview.behaviors.families.categorical import CategoricalOutcome, first_of
from dualview.behaviors.families.levels import Levels
from dualview.behaviors.families.ranking import Orders
from dualview.behaviors.leave_one_out import LeftOutPart
from dualview.behaviors.panel import COMMON_SD, PerUser, design_matrix
from dualview.behaviors.rankings import Rankings
from dualview.behaviors.records import Array, Evidence, Forecast, Panel, Params, SampledEvidence
from dualview.checks import as_array, index_names, varies
from dualview.errors import InputError, InputTypeError
from dualview.units import GaussianPrior, Whitening

_MOST_LEVELS = 50


class CategoricalOutcomes(PerUser):
    """One of K levels without an order, by the multinomial probit: the level with the highest
    utility x_iᵀ f_{u(i), k} + ε_ik, ε_ik ~ N(0, 1).

    Parameters
    ----------
    user : array (n,)
        Whose observation it is: ids, or rows of X counted from 0.
    design : array or DataFrame (n, p)
        What the outcome depends on: a column for each part of what a level is worth to a user.
    outcome : array (n,), optional
        The levels: text, a pandas categorical, or whole numbers. Leave it out for observations to
        be predicted.
    levels : sequence, optional
        All levels, two or more, those that nobody gave included. By default the categories of a
        pandas categorical, else what is in ``outcome``, sorted. The latent vectors compare each
        level with the first.
    common, groups : as in :class:`BinaryOutcomes`
        A column of ``common`` has a coefficient for each level but the first, and each level of a
        group an effect on each level of the outcome.
    coefficient_prior : GaussianPrior, optional
        Over the coefficients of ``common``, those of the second level first.
    intercept : bool
        Put a column of ones before the design, so that f_u begins with how much the user prefers
        each level.
    users, n_users : as in :class:`UserRegression`

    Notes
    -----
    Only differences between utilities matter. The latent vector has those between each level and
    the first, "b: x0" for level b and column x0. Its constants are m = 0 and, for columns scaled to
    a standard deviation of 1, variances of 1 and correlations of ½: so the difference between any
    two levels has the same prior, and which level is the first changes nothing but the names.

    Numbers count as themselves, names as 0, 1, 2, …: in ``outcome`` here, and in draws of
    predictions.

    Examples
    --------
    >>> design = [[1.0], [2.0], [1.0], [3.0]]
    >>> behavior = CategoricalOutcomes([0, 0, 1, 1], design, ["bus", "car", "walk", "car"])
    >>> behavior.levels.names, behavior.n_dims, behavior.coords()["function"]
    (('bus', 'car', 'walk'), 2, ['car: x0', 'walk: x0'])
    """

    levels: Levels | None

    def __init__(
        self,
        user: Any,
        design: Any,
        outcome: Any = None,
        *,
        levels: Sequence[Any] | None = None,
        common: Any = None,
        groups: Any = None,
        coefficient_prior: GaussianPrior | None = None,
        intercept: bool = False,
        users: Sequence[Any] | None = None,
        n_users: int | None = None,
    ) -> None:
        matrix, names = design_matrix(design, intercept)
        self.levels = _levels_of(outcome, levels)
        values = None
        if outcome is not None and self.levels is not None:
            place = self.levels.places(_plain(outcome))
            if len(place) != len(matrix):
                raise InputError(
                    f"outcome must have a level per row of design, {len(matrix)}; got {len(place)}."
                )
            values = self.levels.values[place]
        self._set(user, matrix, values, names, users, n_users)
        self._set_effects(common, groups)
        self.observation_ids = index_names(design)
        self.coefficient_prior = coefficient_prior

    def _copy(self) -> Self:
        other = super()._copy()
        other.__dict__.pop("_utilities", None)
        return other

    @property
    def _known_levels(self) -> Levels:
        """The levels; an error where nobody has said them."""
        if self.levels is None:
            raise InputError(
                "The levels are not known here: give levels=[...], or outcomes to read them from."
            )
        return self.levels

    @property
    def n_dims(self) -> int:
        """q, the parts of a latent vector: one for each column and each level but the first."""
        return int(self.design.shape[1]) * (len(self._known_levels.names) - 1)

    @cached_property
    def _utilities(self) -> "_Utilities":
        """The levels of each observation as items that are ranked, of which the first is known."""
        return _Utilities.of(self)

    @property
    def scored_as(self) -> str:
        return "categories"

    def coords(self) -> dict[str, Any]:
        """Names of the parts of a latent vector, of coefficients and of effects, by level."""
        if self.levels is None:
            return {}
        return self._utilities.coords() | {"level": list(self._known_levels.names)}

    def constant_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """Columns of the design and of ``common``, which are the same for all levels."""
        renamed = {"function": "column", "coefficient": "common_column"}
        return {
            name: (tuple(renamed.get(dim, dim) for dim in dims), values)
            for name, (dims, values) in super().constant_data().items()
        }

    def described(self) -> dict[str, Any]:
        levels = self._known_levels
        return super().described() | {
            "levels": list(levels.names),
            "level_values": levels.values.tolist(),
        }

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Self:
        behavior = super().from_description(description)
        values = np.array(description["level_values"], dtype=float)
        behavior.levels, behavior.coefficient_prior = (
            Levels(tuple(description["levels"]), values),
            None,
        )
        return behavior

    def fingerprint(self) -> dict[str, Any]:
        prior = self.coefficient_prior
        told = {} if prior is None else {"coefficient_prior": prior.covariance.tolist()}
        return super().fingerprint() | {"levels": list(self._known_levels.names)} | told

    def like(self, new: Any, n_new: int) -> Self:
        """New observations, with the levels of the fit."""
        matched = super().like(new, n_new)
        matched.outcome, matched.levels = self.outcome_of(matched), self.levels
        return matched

    def outcome_of(self, new: Behavior) -> Array | None:
        """Levels by their names: of other levels, or in another order, they count as other
        numbers."""
        if new.outcome is None or not isinstance(new, CategoricalOutcomes):
            return new.outcome
        mine, theirs = self._known_levels, new._known_levels
        strange = [name for name in theirs.names if name not in mine.names]
        if strange:
            raise InputError(
                f"New observations must have the levels of the fit, {', '.join(mine.names)}; got "
                f"{strange[0]}."
            )
        names = np.array(theirs.names)[theirs.places(new.outcome)]
        return np.asarray(mine.values[mine.places(names)])

    def extended(self, new: Any, n_new: int, users: Sequence[str] | None = None) -> Self:
        """These observations and new ones, which are known too."""
        return self._joined(new, n_new, users)

    def _check_fit(self) -> None:
        super()._check_fit()
        if not varies(self.observed):
            name = self._known_levels.names[int(self._known_levels.places(self.observed)[0])]
            raise InputError(f"outcome is {name} throughout: there is nothing to explain.")
        self.effects.check_columns()

    def prepare(self, prior: GaussianPrior | None) -> tuple[Whitening, Likelihood]:
        """Units of the latent vectors, and the likelihood in working units."""
        self._check_fit()
        return self._utilities.prepare(prior)

    def likely_prior(self, features: Array | None = None) -> GaussianPrior:
        return self._utilities.likely_prior(features)

    def ridge_estimate(self) -> Array:
        """A quick estimate of each user's vector, (U,) or (U, q)."""
        return self._utilities.ridge_estimate()

    def forecast(self, new: Any, latent: Array, params: Params, n_new: int) -> Forecast:
        """The distribution of new levels given S draws; a location for each level."""
        self.check_who_is_new(new, n_new)
        found = self.like(new, n_new)
        return self._utilities.forecast(found._utilities, latent, params, n_new)

    def evidence(
        self, new: Any, latent: Array, params: Params, n_new: int
    ) -> Evidence | SampledEvidence:
        """What observations of new users say of each one's vector."""
        found = self.like(new, n_new)
        return self._utilities.evidence(found._utilities, latent, params, n_new)

    def left_out(self) -> None:
        """The utilities of an observation have one density together."""

    def checked_parts(self) -> list[LeftOutPart]:
        """Levels are checked given the latent vectors."""
        return self._utilities._given_vectors()


class _Utilities(Rankings):
    """Observed levels as rankings of all levels: a row for each level of each observation.

    The design of level k of an observation is its columns at the place of k in the latent vector,
    zeros elsewhere; that of the first level has zeros alone.
    """

    levels: Levels

    @classmethod
    def of(cls, behavior: CategoricalOutcomes) -> Self:
        levels, n = behavior._known_levels, behavior.n_observations
        each = len(levels.names)
        rows = cls(
            np.repeat(behavior.user, each),
            np.repeat(np.arange(n), each),
            _by_level(behavior.design, each),
            n_users=len(behavior),
        )
        rows = rows.with_users(range(len(behavior)), behavior.users, len(behavior))
        rows.levels, rows.names = levels, _names(behavior.names, levels)
        rows._share_vectors = behavior._share_vectors
        rows.outcome = None if behavior.outcome is None else np.repeat(behavior.outcome, each)
        rows.effects = _effects_by_level(behavior.effects, levels, behavior.coefficient_prior)
        told = behavior.effects.names and all(map(varies, behavior.effects.columns.T))
        if rows.effects.prior is None and told:
            variances = COMMON_SD**2 / behavior.effects.columns.var(axis=0, ddof=1)
            rows.effects = replace(rows.effects, prior=rows._prior(variances))
        return rows

    @property
    def _n_levels(self) -> int:
        return len(self.levels.names)

    @property
    def observed(self) -> Array:
        """The level of each observation, (n,)."""
        return super().observed[:: self._n_levels]

    def _panel_in(self, order: NDArray[np.intp], factor: Array) -> tuple[Panel, Orders]:
        design, level = self._rows_design[order] @ factor, super().observed[order]
        panel = Panel.of(self.user[order], design, np.zeros(len(order)), len(self))
        return panel, first_of(self.levels.places(level[:: self._n_levels]), self._n_levels)

    def _prior(self, variances: Array) -> GaussianPrior:
        """Of differences between each level and the first, by the variances of those between any
        two."""
        contrast = 0.5 * (np.eye(self._n_levels - 1) + 1.0)
        covariance = np.kron(contrast, np.diag(variances))
        return GaussianPrior(np.zeros(len(covariance)), covariance)

    def like(self, new: Any, n_new: int) -> Self:  # noqa: ARG002
        """The behavior that new rows are of has matched them."""
        matched: Self = new
        return matched

    def _latent_prior(self) -> GaussianPrior:
        """By the columns of the observations, which every level but the first has once."""
        n_columns = self.n_dims // (self._n_levels - 1)
        columns = self.design[1 :: self._n_levels, :n_columns]
        scale = [column.std(ddof=1) if varies(column) else 1.0 for column in columns.T]
        return self._prior(np.array(scale) ** -2.0)

    def family(self, new: Self, params: Params, n_draws: int) -> Outcome:  # noqa: ARG002
        """Locations are expected utilities."""
        return CategoricalOutcome(self.levels)


def _by_level(columns: Array, n_levels: int) -> Array:
    """Columns (n, p) at the place of each level, (n K, p (K − 1)); none for the first."""
    n, p = columns.shape
    result = np.zeros((n, n_levels, n_levels - 1, p))
    for k in range(1, n_levels):
        result[:, k, k - 1] = columns
    return result.reshape(n * n_levels, (n_levels - 1) * p)


def _names(columns: Sequence[str], levels: Levels) -> list[str]:
    return [f"{level}: {name}" for level in levels.names[1:] for name in columns]


def _effects_by_level(effects: Effects, levels: Levels, prior: GaussianPrior | None) -> Effects:
    """Effects with a row for each level of each observation: coefficients of each level but the
    first, effects of groups on each level."""
    each = len(levels.names)
    names = _names(effects.names, levels)
    if prior is not None:
        if not isinstance(prior, GaussianPrior):
            raise InputTypeError(
                "coefficient_prior must be a GaussianPrior(mean, covariance) or None; got "
                f"{type(prior).__name__}."
            )
        prior.check_size(len(names), f"coefficient_prior over ({', '.join(names)})")
    factors = tuple(
        Factor(
            factor.name,
            [f"{own}, {level}" for own in factor.levels for level in levels.names],
            (each * factor.places[:, None, :] + np.arange(each)[:, None]).reshape(
                each * len(factor.places), -1
            ),
            factor.signs,
        )
        for factor in effects.factors
    )
    offset = np.zeros(each * len(effects.offset))
    return Effects(_by_level(effects.columns, each), names, factors, offset, prior)


def _plain(outcome: Any) -> Any:
    """A categorical as names, anything else as it is."""
    values = getattr(outcome, "array", outcome)
    if not hasattr(values, "categories"):
        return as_array(outcome, "outcome")
    return np.asarray(values, dtype=object).astype(str)


def _levels_of(outcome: Any, levels: Sequence[Any] | None) -> Levels | None:
    """The levels that are given, or those that the outcomes say; None where neither is there."""
    values = getattr(outcome, "array", outcome)
    if levels is None and hasattr(values, "categories"):
        if np.asarray(outcome.isna() if hasattr(outcome, "isna") else values.isna()).any():
            raise InputError("outcome must hold levels; some are missing. Leave these rows out.")
        levels = list(values.categories)
    if levels is None and outcome is None:
        return None
    is_given = levels is not None
    if levels is None:
        levels = _found(as_array(outcome, "outcome"))
    elif isinstance(levels, str | bytes) or not isinstance(levels, Sequence | np.ndarray):
        raise InputTypeError(
            f'levels must list names or whole numbers, as in levels=["bus", "car"]; got '
            f"{levels!r:.80}."
        )
    listed = [level.item() if isinstance(level, np.generic) else level for level in levels]
    numeric = all(
        isinstance(level, int | float) and not isinstance(level, bool) for level in listed
    )
    if numeric:
        listed = sorted(listed)
    names = tuple(f"{level:g}" if numeric else str(level) for level in listed)
    if is_given and (len(names) < 2 or len(set(names)) < len(names)):
        raise InputError(
            f"levels must be two or more that differ; got {', '.join(names) or 'none'}."
        )
    return Levels(names, np.array(listed if numeric else range(len(listed)), dtype=float))


def _found(outcome: NDArray[Any]) -> list[Any]:
    """The levels in outcomes, sorted; an error where they are none."""
    texts = outcome.tolist() if outcome.ndim == 1 else []
    if outcome.ndim == 1 and any(value is None or value != value for value in texts):
        raise InputError("outcome must hold levels; some are missing. Leave these rows out.")
    fractions = outcome[outcome != np.round(outcome)] if outcome.dtype.kind == "f" else []
    if len(fractions):
        raise InputError(
            f"outcome must hold names or whole numbers; got {fractions[0]:g}. For numbers use "
            "UserRegression."
        )
    found = list(np.unique(outcome if outcome.dtype.kind in "iuf" else outcome.astype(str)))
    if len(found) > _MOST_LEVELS:
        raise InputError(
            f"outcome has {len(found)} different values, where at most {_MOST_LEVELS} levels make "
            "sense. Give levels= if that is meant."
        )
    return found
