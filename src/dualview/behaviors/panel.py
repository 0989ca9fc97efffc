"""Observations that belong to one user each: whose they are, and how they depend on that user's latent vector.

user (n,) positions of users, design (n, q), outcome (n,).
"""

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dualview.behaviors.base import Behavior, fold_positions
from dualview.behaviors.effects import Effects
from dualview.behaviors.ids import check_distinct, joined_ids, known_and_new, places_among
from dualview.behaviors.likelihoods.likely import likely_prior
from dualview.behaviors.records import Array, Params
from dualview.checks import as_array, chosen_rows, column_names, names_text, numbers, refuse_repeated_columns, whole_number
from dualview.errors import DataWarning, InputError, InputTypeError
from dualview.files.digests import digest
from dualview.units import GaussianPrior

Users = NDArray[np.int64]
_Record = TypeVar("_Record")
_MOST_USERS = 5000  # that constants are estimated from


class Panel(NamedTuple):
    """Observations sorted by user: those of user u are starts[u] to starts[u + 1]."""

    starts: Users
    user: Users
    design: Array
    outcome: Array

    @classmethod
    def of(cls, user: Users, design: Array, outcome: Array, n_users: int) -> "Panel":
        order = np.argsort(user, kind="stable")
        starts = np.searchsorted(user[order], np.arange(n_users + 1)).astype(np.int64)
        return cls(starts, user[order], np.ascontiguousarray(design[order]), outcome[order])

    @property
    def counts(self) -> Users:
        """Observations of each user."""
        return np.diff(self.starts)

    @property
    def rows(self) -> NDArray[np.uint32]:
        """The observations in their order, as the sweep takes them."""
        return np.arange(len(self.user), dtype=np.uint32)

    def sums(self, values: Array) -> Array:
        """Sums over each user's observations of values (n, …), (U, …)."""
        result = np.zeros((len(self.starts) - 1, *values.shape[1:]))
        np.add.at(result, self.user, values)
        return result

    @property
    def squares(self) -> Array:
        """Σ d dᵀ of each user, (U, q, q)."""
        return self.sums(self.design[:, :, None] * self.design[:, None, :])

    @property
    def weighted(self) -> Array:
        """Σ d y of each user, (U, q)."""
        return self.sums(self.design * self.outcome[:, None])

    def expected(self, latent: Array) -> Array:
        """d_iᵀ f_{u(i)} for latent vectors (U, q), (n,)."""
        return np.asarray(np.einsum("nq,nq->n", self.design, latent[self.user]))


class PerUser(Behavior):
    """What behaviors have in common whose observations belong to one user each.

    A subclass sets user, design, outcome, users and ``names`` of the latent vector's parts through :meth:`_set`, what acts
    outside the mixture through :meth:`_set_effects`, and says what its outcomes are.
    """

    observations: ClassVar[str] = "observations"

    user: Users
    design: Array
    outcome: Array | None
    users: list[str] | None
    names: list[str]
    effects: Effects
    _n_users: int

    def _set(
        self,
        user: Any,
        design: Array,
        outcome: Array | None,
        names: list[str],
        users: Sequence[Any] | None,
        n_users: int | None,
    ) -> None:
        positions, ids = _positions(user, users)
        if len(positions) != len(design):
            raise InputError(f"user must name one user per row, {len(design)}; got {len(positions)}.")
        least = int(positions.max(initial=-1)) + 1
        n = least if n_users is None else whole_number(n_users, "n_users", 1)
        if ids is not None:
            n = len(ids)
        if n < max(least, 1):
            raise InputError(f"n_users must be at least {least}, the users that have {self.observations}; got {n}.")
        self.user, self.design, self.outcome, self.names, self.users, self._n_users = positions, design, outcome, names, ids, n
        self._set_effects()

    def _set_effects(
        self, common: Any = None, groups: Any = None, offset: Any = None, coefficient_prior: GaussianPrior | None = None
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
            "A behavior is not indexed by users: to cross-validate, cut over observations with behavior.split(n_splits), fit "
            "on the first and predict the second."
        )

    def __repr__(self) -> str:
        outcome = "no outcome" if self.outcome is None else "outcome"
        return f"{type(self).__name__}({self.n_observations} {self.observations}, {len(self)} users, {outcome})"

    def facts(self) -> dict[str, object]:
        """Users, those with observations, latent vector, outcome."""
        found = super().facts()
        observed = f"{self.n_observations:,}, of {len(np.unique(self.user)):,} users"
        return {"users": found["users"], self.observations: observed, "latent": found["latent"], "outcome": found["outcome"]}

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
        """Number of users, names of the latent vector's parts, and what acts outside the mixture."""
        return {"kind": type(self).__name__, "n_users": len(self), "names": self.names} | self.effects.described()

    def take(self, rows: ArrayLike) -> Self:
        """The behavior with some observations only, by position or mask; everybody stays a user."""
        chosen = chosen_rows(rows, self.n_observations, self.observations)
        part = self._copy()
        part.user, part.design = self.user[chosen], self.design[chosen]
        part.outcome = None if self.outcome is None else self.outcome[chosen]
        part.observation_ids = None if self.observation_ids is None else np.asarray(self.observation_ids)[chosen].tolist()
        part.effects = self.effects.take(chosen)
        part._take_rest(chosen)
        return part

    def _copy(self) -> Self:
        other = copy.copy(self)
        other.__dict__.pop("_panel", None)
        return other

    def _take_rest(self, rows: NDArray[Any]) -> None:
        """Cut what a subclass has besides; the object is a copy."""

    def as_new(self, user: int) -> Self:
        """The observations of one user, who is the only one."""
        own = self.take(np.flatnonzero(self.user == user))
        own.user, own.users, own._n_users = np.zeros(len(own.user), dtype=np.int64), None, 1
        return own

    def user_weights(self) -> Any:
        """1 for whose observation it is."""
        places = (np.arange(self.n_observations), self.user)
        return sparse.csr_array((np.ones(self.n_observations), places), shape=(self.n_observations, len(self)))

    def constant_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """The owner of each observation, by id or position, and the design."""
        owner = self.user if self.users is None else np.asarray(self.users)[self.user]
        data = {"owner": (("observation",), owner), "design": (("observation", "function"), self.design)}
        return data | self.effects.constant_data()

    def split(self, n_splits: int = 5, *, seed: int = 0) -> Iterator[tuple[Self, Self]]:
        """Pairs (training, held out) for cross-validation over observations."""
        for training, held_out in self.folds(n_splits, seed=seed):
            yield self.take(training), self.take(held_out)

    def folds(self, n_splits: int = 5, *, seed: int = 0) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The positions of the observations that :meth:`split` cuts into, as scikit-learn's ``cv`` takes them."""
        return fold_positions(self.n_observations, n_splits, seed, self.observations)

    def aligned(self, users: Sequence[str]) -> Self:
        """The same observations with the users in this order; users without observations may be missing here."""
        if self.users is None or self.users == list(users):
            return self
        place = {user: u for u, user in enumerate(users)}
        active = np.unique(self.user)
        unknown = [self.users[u] for u in active if self.users[u] not in place]
        if unknown:
            raise InputError(
                f"X and behavior must be of the same users, by their ids; only in the behavior: {', '.join(unknown[:5])}."
            )
        return self._with_users([place.get(user, -1) for user in self.users], list(users))

    def _with_users(self, places: list[int], users: list[str] | None, n_users: int | None = None) -> Self:
        """The same observations, user u now at places[u]."""
        moved = self._copy()
        moved.user = np.asarray(places, dtype=np.int64)[self.user]
        moved.users = users
        moved._n_users = len(users) if users is not None else n_users or len(self)
        return moved

    def fingerprint(self) -> dict[str, Any]:
        """Digests of the observations, by name."""
        outcome = None if self.outcome is None else digest(self.outcome)
        parts = {"behavior": type(self).__name__, "user": digest(self.user), "design": digest(self.design), "outcome": outcome}
        return parts | self.effects.fingerprint()

    def like(self, new: Any, n_new: int) -> Self:
        """New observations, checked to be of the fit's users and n_new others: theirs are the positions from U on."""
        if not isinstance(new, type(self)):
            raise InputError(
                f"New observations must be a {type(self).__name__}, as in the fit; got {type(new).__name__}. "
                "Its outcome may be left out."
            )
        if new.names != self.names:
            raise InputError(
                f"New observations must have the columns of the fit, {', '.join(self.names)}; got {', '.join(new.names)}."
            )
        matched: Self = new._copy()
        matched.effects = self.effects.like(new.effects)
        n_known = len(self)
        if self.users is not None and new.users is not None:
            everybody = known_and_new(new.users, self.users, n_new, "observations")
            return matched._with_users(places_among(new.users, everybody, "observations"), everybody)
        if n_new and len(new) == n_new:
            return matched._with_users([n_known + j for j in range(n_new)], None, n_known + n_new)
        if len(new) > n_known + n_new:
            raise InputError(
                f"New observations are of users 0 to {len(new) - 1}; the fit has {n_known}"
                + (f" and X_new {n_new} more." if n_new else ". Give the features of the others as X_new.")
            )
        return matched

    def _joined(self, new: Any, n_new: int, users: Sequence[str] | None) -> Self:
        """These observations and new ones, for :meth:`extended` of a subclass, which sees to what else it has."""
        if not self.effects.none:
            raise self._takes_no_more("with effects outside the mixture")
        everybody = None if users is None else list(users)
        if new is None:
            return self._with_users(list(range(len(self))), everybody, len(self) + n_new)
        if isinstance(new, type(self)) and new.users is not None and users is not None:
            new = new._with_users(places_among(new.users, users, "observations"), None, len(users))
        found, both = self.like(new, n_new), self._copy()
        both.user, both.design = np.concatenate([self.user, found.user]), np.vstack([self.design, found.design])
        both.outcome = np.concatenate([self.observed, found.observed])
        both.observation_ids = joined_ids(self.observation_ids, found.observation_ids, self.observations)
        both.users, both._n_users = everybody, len(self) + n_new
        offset = np.concatenate([self.effects.offset, found.effects.offset])
        both.effects = Effects.of(len(both.user), None, None, offset, None)
        return both

    def _known_locations(self, new: Self, latent: Array, params: Params | None = None) -> Callable[[slice], Array]:
        """cases → (S, cases): known users' latent vectors, (S, U) or (S, U, q), and what acts outside the mixture."""
        n_known = len(self)
        vectors = latent.reshape(len(latent), n_known, -1)
        known = np.minimum(new.user, n_known - 1)
        ours = (new.user < n_known).astype(float)

        def locations(cases: slice) -> Array:
            own = np.einsum("snq,nq->sn", vectors[:, known[cases]], new.design[cases] * ours[cases, None])
            return np.asarray(own) if plain else np.asarray(own + new.effects.locations(params or {}, cases))

        plain = new.effects.none and not new.effects.offset.any()
        return locations

    def _unsure(self, new: Self, params: Params) -> Callable[[slice], Array] | None:
        """cases → (S, cases): variances of the effects of levels that the fit has not seen; None where there are none."""
        if not new.effects.has_unseen:
            return None
        return lambda cases: new.effects.variances(params, cases)

    @property
    def param_names(self) -> list[str]:
        """What predictions need besides the latent vectors."""
        return self.effects.param_names

    def _latent_prior(self) -> GaussianPrior:
        """A first guess of the constants of the behavior view; without one :meth:`likely_prior` is an error."""
        return super().likely_prior()

    def likely_prior(self, features: Array | None = None) -> GaussianPrior:  # noqa: ARG002
        """Constants of the behavior view under which the observations are most likely, with all users in one cluster.

        Of very many users, some: those with the most observations would not do, so they are drawn.
        """
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
        return part._with_users(places.tolist(), None, len(active))

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
        return Panel.of(new.user[rows] - len(self), new.design[rows], new.observed[rows], n_new), rows

    def advice(self, n_rows: int) -> str:
        """What to do when X has another number of rows than there are users."""
        if len(self) < n_rows and self.users is None:
            return f"If users from {len(self)} on have no {self.observations}, say so: n_users={n_rows}."
        return "Give both the same users, in the same order, or ids in both (the index of X, and user or users)."

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Self:
        """A behavior without observations, that predicts."""
        behavior = cls.__new__(cls)
        nobody, nothing = np.empty(0, dtype=np.int64), np.empty((0, len(description["names"])))
        behavior._set(nobody, nothing, None, description["names"], None, description["n_users"])
        behavior.users = description["users"]
        behavior.effects = Effects.from_description(description)
        return behavior


def _positions(user: Any, users: Sequence[Any] | None) -> tuple[Users, list[str] | None]:
    """Positions of the users, and their ids where they have some."""
    given = as_array(user, "user")
    if given.ndim != 1:
        raise InputError(f"user must be one-dimensional, a user per row; got shape {given.shape}.")
    if users is None and given.dtype.kind in "iu":
        if (given < 0).any():
            raise InputError("user must hold positions from 0, or ids; got a negative number.")
        return given.astype(np.int64), None
    if given.dtype.kind == "f" or any(value is None or value != value for value in given.tolist()):
        raise InputError("user must hold whole numbers from 0, or ids as text; got fractions or missing values.")
    ids = [str(value) for value in given.tolist()]
    if users is not None and (isinstance(users, str) or not isinstance(users, Iterable)):
        raise InputTypeError(f"users must be a list of ids, an id for each user; got {users!r}.")
    names = list(dict.fromkeys(ids)) if users is None else [str(value) for value in users]
    check_distinct(names)
    place = {name: u for u, name in enumerate(names)}
    unknown = [name for name in dict.fromkeys(ids) if name not in place]
    if unknown:
        raise InputError(f"users must name everybody in user; missing: {', '.join(unknown[:5])}.")
    return np.array([place[name] for name in ids], dtype=np.int64), names


def with_field(record: _Record, name: str, value: Any) -> _Record:
    """A frozen record with another value of one field; what was computed from the others is kept."""
    other = copy.copy(record)
    object.__setattr__(other, name, value)
    return other


def check_rank(design: Array, names: list[str]) -> None:
    """Raise when a column is zero throughout."""
    empty = ~np.any(design != 0, axis=0)
    if empty.any():
        raise InputError(
            f"design must have a nonzero value in every column; all zero: {names_text(names, empty)}. Leave it out."
        )


def posterior_means(squares: Array, weighted: Array, penalty: float) -> Array:
    """(Σ d dᵀ + penalty I)⁻¹ Σ d y of each user, (U, q)."""
    matrices = squares + penalty * np.eye(squares.shape[1])
    return np.asarray(np.linalg.solve(matrices, weighted[..., None])[..., 0], dtype=float)


def design_matrix(design: Any, intercept: bool) -> tuple[Array, list[str]]:
    """The design as numbers with the names of its columns, an intercept first."""
    refuse_repeated_columns(design, "design")
    matrix = numbers(design, "design", n_dims=2)
    if not isinstance(intercept, bool | np.bool_):
        raise InputError(f"intercept must be True or False; got {intercept!r}.")
    names = column_names(design) or [f"x{j}" for j in range(matrix.shape[1])]
    if intercept:
        matrix, names = np.column_stack([np.ones(len(matrix)), matrix]), ["intercept", *names]
    if matrix.shape[1] == 0:
        raise InputError("design must have at least one column, or intercept=True.")
    return np.ascontiguousarray(matrix), names
