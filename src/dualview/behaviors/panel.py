"""What behaviors have in common whose observations belong to one user each.

user (n,) positions of users, design (n, q), outcome (n,).
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dualview.behaviors.base import Likelihood
from dualview.behaviors.effects import Effects, Scales
from dualview.behaviors.families.base import Family, Outcome
from dualview.behaviors.ids import (
    Numbers,
    Rows,
    are_numbers,
    check_positions,
    counted,
    distinct_numbers,
    is_labeled,
    joined_ids,
    known_and_new,
    places_among,
    places_of_ids,
    whole_numbers,
)
from dualview.behaviors.leave_one_out import (
    GivenVectors,
    LeaveOneOut,
    LeftOutPart,
    UsersLeaveOneOut,
)
from dualview.behaviors.likelihoods.user_rows import UserRows, likely_prior
from dualview.behaviors.predictor import LinearBehavior
from dualview.behaviors.records import (
    Array,
    Evidence,
    Panel,
    Params,
    SampledEvidence,
    Users,
    posterior_means,
)
from dualview.checks import (
    as_array,
    chosen_rows,
    column_names,
    listed,
    names_text,
    numbers,
    refuse_repeated_columns,
    varies,
    whole_number,
)
from dualview.errors import DataWarning, InputError
from dualview.files.digests import digest
from dualview.units import GaussianPrior, Whitening

_MOST_USERS = 5000  # that constants are estimated from
# Of log odds and utilities: their change for a standard deviation of a common column, a priori, and
# A of (M18)
COMMON_SD = 2.5
GROUP_SD = 1.0


class PerUser(LinearBehavior):
    """What behaviors have in common whose observations belong to one user each.

    A subclass sets user, design, outcome, users and ``names`` of the latent vector's parts through
    :meth:`_set`, what acts outside the mixture through :meth:`_set_effects`, and says what its
    outcomes are.
    """

    user: Users
    design: Array
    outcome: Array | None
    users: list[str] | None
    names: list[str]
    _n_users: int
    in_order: bool  # whether the order of the users was given, and not only found in ``user``
    _one_each: bool  # no user has two rows; parts of such rows are not asked again
    _share_vectors = False

    def _set(
        self,
        user: Any,
        design: Array,
        outcome: Array | None,
        names: list[str],
        users: Sequence[Any] | None,
        n_users: int | None,
    ) -> None:
        given = as_array(user, "user")
        if given.ndim != 1:
            raise InputError(
                f"user must be one-dimensional, a user per row; got shape {given.shape}."
            )
        if len(given) != len(design):
            raise InputError(f"user must name one user per row, {len(design)}; got {len(given)}.")
        self.design, self.outcome, self.names = design, outcome, names
        self._set_users(given, users, n_users, is_labeled(user))
        self._one_each = int(np.bincount(self.user).max(initial=0)) == 1
        if users is None and n_users is None and isinstance(getattr(user, "name", None), str):
            self._user_column = user.name
        self._set_effects()

    def _set_users(
        self, given: NDArray[Any], users: Sequence[Any] | None, n_users: int | None, labeled: bool
    ) -> None:
        """Whose observations they are. Whole numbers stay open, unless users= or n_users= says what
        they are."""
        self.in_order, self._user_numbers = users is not None, None
        found = whole_numbers(given) if users is None else None
        if found is None:
            self.user, self.users = places_of_ids(given, users)
            self._n_users = len(self.users)
            return
        if (found < 0).any():
            raise InputError(
                "user must hold positions from 0, or ids; got a negative number. Give negative "
                "ids as text."
            )
        if n_users is None and len(found):
            values, self.user = distinct_numbers(found)
            self._user_numbers, self._n_users = Numbers(values, labeled), len(values)
            self.users = None if self._user_numbers.count_from_0 else self._user_numbers.ids
            return
        least = int(found.max(initial=-1)) + 1
        self.user, self.users, self._n_users = (
            found,
            None,
            whole_number(least if n_users is None else n_users, "n_users", 1),
        )
        if self._n_users < least:
            raise InputError(
                f"n_users must be at least {least}, the users that have {self.observations}; got "
                f"{n_users}. It counts them "
                "from 0; if user holds ids, leave it out."
            )

    def _set_effects(
        self,
        common: Any = None,
        groups: Any = None,
        offset: Any = None,
        coefficient_prior: GaussianPrior | None = None,
    ) -> None:
        """What acts on the observations outside the mixture; nothing by default."""
        self.effects = Effects.of(len(self.user), common, groups, offset, coefficient_prior)

    @property
    def _order(self) -> NDArray[np.intp]:
        """The observations sorted by user, as a :class:`Panel` has them."""
        return np.argsort(self.user, kind="stable")

    def __len__(self) -> int:
        return self._n_users

    def __getitem__(self, key: object) -> Any:
        raise InputError(
            "A behavior is not indexed by users: to cross-validate, cut over observations with "
            "behavior.split(n_splits), fit "
            "on the first and predict the second."
        )

    def __repr__(self) -> str:
        outcome = "no outcome" if self.outcome is None else "outcome"
        told = f": {self._told}" if self._told else ""
        return (
            f"{type(self).__name__}({self.n_observations} {self.observations}, {len(self)} "
            f"users, {outcome}{told})"
        )

    @property
    def _told(self) -> str:
        """How the outcome was read from a long table; empty where it was not."""
        return str((self.table or {}).get("told", ""))

    def facts(self) -> dict[str, object]:
        """Users, those with observations, latent vector, outcome."""
        found = super().facts()
        observed = f"{self.n_observations:,}, of {len(np.unique(self.user)):,} users"
        told = {"read": self._told} if self._told else {}
        return {
            "users": found["users"],
            self.observations: observed,
            "latent": found["latent"],
            "outcome": found["outcome"],
            **told,
        }

    @property
    def n_observations(self) -> int:
        return len(self.user)

    @property
    def n_dims(self) -> int:
        """q, the parts of a latent vector."""
        return int(self.design.shape[1])

    def coords(self) -> dict[str, Any]:
        """Names of the parts of a latent vector, of coefficients and of the levels of groups."""
        return {"function": self.names, "function_other": self.names} | self.effects.coords()

    def described(self) -> dict[str, Any]:
        """Number of users, names of the latent vector's parts, what acts outside the mixture, and
        what a long table is read by."""
        table = {} if self.table is None else {"table": self.table}
        return {
            "kind": type(self).__name__,
            "n_users": len(self),
            "names": self.names,
            **table,
        } | self.effects.described()

    def take(self, rows: ArrayLike) -> Self:
        """The behavior with some observations only, by position or mask; everybody stays a user."""
        chosen = chosen_rows(rows, self.n_observations, self.observations)
        part = self._copy()
        part.user, part.design = self.user[chosen], self.design[chosen]
        part.outcome = None if self.outcome is None else self.outcome[chosen]
        part.observation_ids = (
            None
            if self.observation_ids is None
            else np.asarray(self.observation_ids)[chosen].tolist()
        )
        part.effects = self.effects.take(chosen)
        part._take_rest(chosen)
        return part

    def _copy(self) -> Self:
        other = copy.copy(self)
        other.__dict__.pop("_panel", None)
        return other

    @property
    def is_one_each(self) -> bool:
        return self._one_each

    def sharing_vectors(self) -> Self:
        """Where no user has two rows, constants are those of one vector for everybody."""
        if not self.is_one_each:
            return self
        shared = self._copy()
        shared._share_vectors = True
        return shared

    def _take_rest(self, rows: NDArray[Any]) -> None:
        """Cut what a subclass has besides; the object is a copy."""

    def as_new(self, user: int) -> Self:
        """The observations of one user, who is the only one."""
        own = self.take(np.flatnonzero(self.user == user))
        return own.with_users([0] * len(self), None, 1)

    def user_weights(self) -> Any:
        """1 for whose observation it is."""
        places = (np.arange(self.n_observations), self.user)
        return sparse.csr_array(
            (np.ones(self.n_observations), places), shape=(self.n_observations, len(self))
        )

    def constant_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """The owner of each observation, by id or position, and the design."""
        owner = self.user if self.users is None else np.asarray(self.users)[self.user]
        data = {
            "owner": (("observation",), owner),
            "design": (("observation", "function"), self.design),
        }
        return data | self.effects.constant_data()

    def _seen(self) -> Users:
        return np.unique(self.user)

    def _advice_on_positions(self, n: int) -> str:
        if self._user_numbers is None or self._user_numbers.values.max() >= n:
            return ""
        return f" The index of X holds ids; if user counts the rows of X from 0, say n_users={n}."

    def _on_ids(self, rows: Rows, ids: list[str]) -> Self:
        if self._user_numbers is None and self.users is None:
            check_positions(self.user, ids)
        elif self._user_numbers is None or self._user_numbers.are_ids_among(ids):
            return self.aligned(ids)
        else:
            self._user_numbers.check_count(rows)
        on_rows = self._counted()
        return on_rows._renamed(ids) if len(on_rows) == rows.n else on_rows

    def _on_rows(self, rows: Rows) -> Self:
        if self._user_numbers is not None:
            self._user_numbers.check_count(rows)
            return self._counted()
        if self.users is None or self.in_order:
            return self
        if are_numbers(self.users):
            numbers = Numbers(np.array(self.users, dtype=np.int64), True)
            if len(self) == rows.n and numbers.increase:
                return self
            numbers.check_count(rows)
            return self.aligned(counted(rows.n))
        if self.users == sorted(self.users):
            return self
        raise InputError(
            f"X has no ids, and user names users by text, {listed(self.users[:2])}, …, in no "
            "order that tells whose rows those "
            "of X are. Give X ids: a DataFrame with ids as its index. Or give ids in the order "
            "of the rows: users=ids."
        )

    def in_unknown_order(self) -> Self:
        """The same observations, of users whose order nobody has given."""
        other = self._copy()
        other.in_order = False
        return other

    def _counted(self) -> Self:
        """The same observations, with whole numbers taken for positions."""
        if self._user_numbers is None:
            return self
        values = self._user_numbers.values
        return self.with_users(values.tolist(), None, int(values.max()) + 1)

    def called_as(self, known: Sequence[str] | None) -> Self:
        """The same new observations, with whole numbers read as the users of a fit are called."""
        if self._user_numbers is None:
            return self
        if known is None or not self._user_numbers.are_ids_among(known):
            return self._counted()
        return self._renamed(self._user_numbers.ids)

    def with_users(
        self, places: Sequence[int], users: list[str] | None, n_users: int | None = None
    ) -> Self:
        moved = self._copy()
        moved.user = np.asarray(places, dtype=np.int64)[self.user]
        moved.users, moved._user_numbers, moved.in_order = users, None, True
        moved._n_users = len(users) if users is not None else n_users or len(self)
        return moved

    def fingerprint(self) -> dict[str, Any]:
        """Digests of the observations, by name."""
        outcome = None if self.outcome is None else digest(self.outcome)
        parts = {
            "behavior": type(self).__name__,
            "user": digest(self.user),
            "design": digest(self.design),
            "outcome": outcome,
        }
        return parts | self.effects.fingerprint()

    def like(self, new: Any, n_new: int) -> Self:
        """New observations, checked to be of the fit's users and n_new others: theirs are the
        positions from U on."""
        if not isinstance(new, type(self)):
            raise InputError(
                f"New observations must be a {type(self).__name__}, as in the fit; got "
                f"{type(new).__name__}. "
                "Its outcome may be left out. Tables are read for fits to the behavior of "
                "dv.from_long, or of dv.fit."
            )
        if new.names != self.names:
            raise InputError(
                f"New observations must have the columns of the fit, {', '.join(self.names)}; "
                f"got {', '.join(new.names)}."
            )
        matched: Self = new.called_as(self.users)._copy()
        matched.effects = self.effects.like(new.effects)
        n_known, n_theirs = len(self), len(matched)
        if self.users is not None and matched.users is not None:
            everybody = known_and_new(matched.users, self.users, n_new, "observations")
            return matched.with_users(
                places_among(matched.users, everybody, "observations"), everybody
            )
        if n_new and n_theirs == n_new:
            return matched.with_users([n_known + j for j in range(n_new)], None, n_known + n_new)
        if matched.users is not None:
            raise InputError(
                "The fit knows its users by position, and new observations name them by ids "
                f"({listed(matched.users[:2])}, …). "
                "Give positions in their place, or fit with ids: users=ids, or X with ids as its "
                "index."
            )
        if n_theirs > n_known + n_new:
            raise InputError(
                f"New observations are of users 0 to {n_theirs - 1}; the fit has {n_known}"
                + (
                    f" and X_new {n_new} more."
                    if n_new
                    else ". Give the features of the others as X_new."
                )
            )
        if self.users is not None:
            check_positions(matched.user, self.users)
        return matched

    def check_who_is_new(self, new: Any, n_new: int) -> None:
        """Raise where numbers of new observations may count the users of the fit and then n_new new
        ones, or the new ones alone."""
        numbers = new._user_numbers if isinstance(new, PerUser) else None
        if numbers is None or int(numbers.values.max()) + 1 != n_new:
            return
        if new.called_as(self.users).users is None:
            raise InputError(
                f"user holds whole numbers up to {n_new - 1}, and there are {n_new} new users: "
                "they may count the users of the fit, or the new ones alone. If they count those "
                f"of the fit and then the new ones, say n_users={len(self) + n_new}. If they count "
                f"the new ones alone, say n_users={n_new}."
            )

    def _joined(self, new: Any, n_new: int, users: Sequence[str] | None) -> Self:
        """These observations and new ones, for :meth:`extended` of a subclass, which sees to what
        else it has."""
        if not self.effects.none:
            raise self._takes_no_more("with effects outside the mixture")
        everybody = None if users is None else list(users)
        if new is None:
            return self.with_users(range(len(self)), everybody, len(self) + n_new)
        before = self if users is None else self._renamed(list(users[: len(self)]))
        if isinstance(new, type(self)) and users is not None:
            new = new.called_as(users)
            if new.users is not None:
                new = new.with_users(places_among(new.users, users, "observations"), everybody)
        found, both = before.like(new, n_new), self._copy()
        both.user, both.design = (
            np.concatenate([self.user, found.user]),
            np.vstack([self.design, found.design]),
        )
        both._one_each = int(np.bincount(both.user).max(initial=0)) == 1
        both.outcome = np.concatenate([self.observed, found.observed])
        both.observation_ids = joined_ids(
            self.observation_ids, found.observation_ids, self.observations
        )
        both.users, both._n_users = everybody, len(self) + n_new
        offset = np.concatenate([self.effects.offset, found.effects.offset])
        both.effects = Effects.of(len(both.user), None, None, offset, None)
        return both

    def _known_locations(
        self, new: Self, latent: Array, params: Params | None = None
    ) -> Callable[[slice], Array]:
        """cases → (S, cases): known users' latent vectors, (S, U) or (S, U, q), and what acts
        outside the mixture."""
        n_known = len(self)
        vectors = latent.reshape(len(latent), n_known, -1)
        known = np.minimum(new.user, n_known - 1)
        ours = (new.user < n_known).astype(float)

        def locations(cases: slice) -> Array:
            own = np.einsum(
                "snq,nq->sn", vectors[:, known[cases]], new.design[cases] * ours[cases, None]
            )
            return np.asarray(own + new.outside(params or {}, cases)) if new._acts_outside else own

        return locations

    def left_out(self) -> LeaveOneOut | None:
        """Each observation given all others and what acts outside the mixture."""
        if type(self).family is LinearBehavior.family:
            return None
        return UsersLeaveOneOut(
            self.user,
            self.design,
            self.observed,
            self.outside,
            lambda params: self.family(self, params, 1),
        )

    def _given_vectors(self) -> list[LeftOutPart]:
        """Each observation given the latent vectors, for checks of a family without an
        augmentation."""
        given = GivenVectors(
            self.user,
            self.design,
            self.observed,
            self.outside,
            lambda params: self.family(self, params, 1),
        )
        return [LeftOutPart(given)]

    def evidence(
        self, new: Any, latent: Array, params: Params, n_new: int
    ) -> Evidence | SampledEvidence:
        """What observations of new users say of each one's vector, given what acts outside the
        mixture."""
        if type(self).family is LinearBehavior.family:
            return super().evidence(new, latent, params, n_new)
        found = self.like(new, n_new)
        outside = found.outside(params, drawn=True)

        @lru_cache(maxsize=2)
        def of_user(j: int) -> tuple["PerUser", Array, Outcome]:
            rows = np.flatnonzero(found.user == len(self) + j)
            own = found.take(rows)
            return own, outside[:, rows], self.family(own, params, len(latent))

        def log_likelihood(j: int, draws: NDArray[np.intp], vectors: Array) -> Array:
            own, moved, outcome = of_user(j)
            if not own.n_observations:
                return np.zeros(len(vectors))
            locations = vectors @ own.design.T + moved[draws if len(moved) > 1 else 0]
            every = slice(0, own.n_observations)
            values = outcome.of_draws(draws).log_density(own.observed, locations, every)
            return np.asarray(values.sum(axis=1))

        return SampledEvidence(log_likelihood)

    @property
    def param_names(self) -> list[str]:
        """What predictions need besides the latent vectors."""
        return self.effects.param_names

    def _latent_prior(self) -> GaussianPrior:
        """A first guess of the constants of the behavior view: N(0, I) for columns of standard
        deviation 1; constant ones are not scaled."""
        scale = [column.std(ddof=1) if varies(column) else 1.0 for column in self._scaled_by().T]
        return GaussianPrior(np.zeros(self.n_dims), np.diag(np.array(scale) ** -2.0))

    def _scaled_by(self) -> Array:
        """The rows whose columns set the scale."""
        return self.design

    def _check_fit(self) -> None:
        """Raise where there is nothing to learn from; warn where there is little."""
        if len(self.observed) < 2:
            raise InputError(
                f"A fit needs at least two {self.observations}; got {self.n_observations}."
            )
        check_rank(self.design, self.names)

    @property
    def _common_scale(self) -> float:
        """By how much a location changes, a priori, for a standard deviation of a common column."""
        return COMMON_SD

    def _scales(self) -> Scales:
        """What a location of 1 is, and how much effects of groups may vary."""
        return Scales(1.0, GROUP_SD)

    def _learned(self) -> Family:
        """What a fit learns about the distribution of outcomes given their locations."""
        raise self._lacks("_learned", "be fitted")

    @property
    def _values(self) -> Array:
        """Outcomes as the family takes them, (n,)."""
        return self.observed

    def _likelihood(self, units: Whitening, known: Array) -> Likelihood:
        """The likelihood in working units; known (n,): the locations at the prior's mean."""
        panel = Panel.of(self.user, self.design @ units.factor, self._values, len(self))
        return UserRows(panel, self._learned(), known[self._order])

    def ridge_estimate(self) -> Array:
        """A quick estimate of each user's vector under the default prior, (U,) or (U, q)."""
        units, n = Whitening.of(self._latent_prior()), self.n_observations
        slopes, curvature = self._learned().pull(self._values, np.zeros(n))
        panel = Panel.of(self.user, self.design @ units.factor, slopes, len(self))
        return self._estimates(units, curvature * panel.squares, panel.weighted)

    def _estimates(self, units: Whitening, squares: Array, weighted: Array) -> Array:
        """Posterior means in the user's units under N(0, I) in working ones, (U,) or (U, q)."""
        estimate = units.vectors(posterior_means(squares, weighted, 1.0))
        return estimate[:, 0] if self.n_dims == 1 else estimate

    def _with_effects(self, likelihood: Likelihood, units: Whitening) -> Likelihood:
        """The same with what is learned outside the mixture; units: of the common coefficients."""
        return self.effects.around(likelihood, units, self._order, self._scales())

    def prepare(self, prior: GaussianPrior | None) -> tuple[Whitening, Likelihood]:
        """Units of the latent vectors, and the likelihood in working units."""
        self._check_fit()
        if prior is None:
            own = self.effects.none or self._share_vectors
            prior = self._latent_prior() if own else self.likely_prior()
        prior.check_size(self.n_dims, "behavior_prior")
        self.effects.check_columns()
        units, coefficient_units = Whitening.of(prior), self.effects.units(self._common_scale)
        known = self._rows_design @ prior.mean
        if self.effects.names or self.effects.offset.any():
            known = known + self.effects.known(coefficient_units)
        return units, self._with_effects(self._likelihood(units, known), coefficient_units)

    @property
    def _rows_design(self) -> Array:
        """The design as locations depend on it."""
        return self.design

    def likely_prior(self, features: Array | None = None) -> GaussianPrior:
        """Constants of the behavior view under which the observations are most likely, with all
        users in one cluster.

        Of very many users, some: those with the most observations would not do, so they are drawn.
        """
        own, base = type(self), PerUser
        if own._likelihood is base._likelihood and own._learned is base._learned:
            return super().likely_prior(features)
        behavior = self._of_some_users()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # the fit itself warns
            units, likelihood = behavior.prepare(behavior._latent_prior())
        return likely_prior(units, likelihood)

    def _of_some_users(self) -> Self:
        """The behavior of up to ``_MOST_USERS`` users who have observations, drawn at random."""
        active = np.unique(self.user)
        if len(active) > _MOST_USERS:
            active = np.sort(np.random.default_rng(0).choice(active, _MOST_USERS, replace=False))
        places = np.full(len(self), -1)
        places[active] = np.arange(len(active))
        part = self.take(np.flatnonzero(places[self.user] >= 0))
        return part.with_users(places.tolist(), None, len(active))

    def _loads(self, new: Self, n_new: int) -> Any:
        """What new users' vectors count for, sparse (n, J q)."""
        q = self.n_dims
        rows = np.flatnonzero(new.user >= len(self))
        first = (new.user[rows] - len(self)) * q
        shape = (new.n_observations, n_new * q)
        indices = (np.repeat(rows, q), (first[:, None] + np.arange(q)).ravel())
        return sparse.csr_array((new.design[rows].ravel(), indices), shape=shape)

    def _panel_of_new(self, new: Self, n_new: int) -> tuple[Panel, NDArray[np.intp]]:
        """The observations of users new to the fit, who are counted from 0, and where they were."""
        rows = np.flatnonzero(new.user >= len(self))
        rows = rows[np.argsort(new.user[rows], kind="stable")]
        return Panel.of(
            new.user[rows] - len(self), new.design[rows], new.observed[rows], n_new
        ), rows

    def advice(self, n_rows: int) -> str:
        """What to do when X has another number of rows than there are users."""
        if len(self) < n_rows and self.users is None:
            return (
                f"If users from {len(self)} on have no {self.observations}, say so: "
                f"n_users={n_rows}."
            )
        return (
            "Give both the same users, in the same order, or ids in both (the index of X, "
            "and user or users)."
        )

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Self:
        """A behavior without observations, that predicts."""
        behavior = cls.__new__(cls)
        nobody, nothing = np.empty(0, dtype=np.int64), np.empty((0, len(description["names"])))
        behavior._set(nobody, nothing, None, description["names"], None, description["n_users"])
        behavior.users = description["users"]
        behavior.effects = Effects.from_description(description)
        behavior.table = description.get("table")
        return behavior


def check_rank(design: Array, names: list[str]) -> None:
    """Raise when a column is zero throughout."""
    empty = ~np.any(design != 0, axis=0)
    if empty.any():
        raise InputError(
            "design must have a nonzero value in every column; all zero: "
            f"{names_text(names, empty)}. Leave it out."
        )


def design_matrix(design: Any, intercept: bool) -> tuple[Array, list[str]]:
    """The design as numbers with the names of its columns, an intercept first."""
    refuse_repeated_columns(design, "design")
    matrix = numbers(design, "design", n_dims=2)
    if not isinstance(intercept, bool | np.bool_):
        raise InputError(f"intercept must be True or False; got {intercept!r}.")
    names = column_names(design) or [f"x{j}" for j in range(matrix.shape[1])]
    if intercept and "intercept" in names:
        raise InputError(
            "design has a column 'intercept', and intercept=True puts one before it: rename the "
            "column, leave it out or say intercept=False."
        )
    if intercept:
        matrix, names = np.column_stack([np.ones(len(matrix)), matrix]), ["intercept", *names]
    if matrix.shape[1] == 0:
        raise InputError("design must have at least one column, or intercept=True.")
    return np.ascontiguousarray(matrix), names
