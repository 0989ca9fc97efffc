"""Several behaviors of the same users: each has its own latent vector, and one partition is behind
all of them.

The latent vector of a user is those of the behaviors laid end to end, in one Gaussian view.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import block_diag

from dualview.behaviors.base import Behavior
from dualview.behaviors.ids import Rows, counted
from dualview.behaviors.leave_one_out import LeftOutPart
from dualview.behaviors.likelihoods.several import SeveralLikelihoods
from dualview.behaviors.likelihoods.vector_blocks import Block
from dualview.behaviors.naming import check_names, named_parts
from dualview.behaviors.panel import PerUser
from dualview.behaviors.records import (
    Array,
    Evidence,
    Forecast,
    Params,
    SampledEvidence,
    own_params,
    with_name,
)
from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.behaviors.user_regression import UserRegression
from dualview.errors import InputError
from dualview.units import GaussianPrior, Whitening


class SeveralBehaviors(Behavior):
    """Behaviors of the same users by name, as ``fit(X, [posts, ratings])`` and ``fit(X, {"posts":
    posts, ...})`` make it.

    Parameters
    ----------
    parts : dict of name to behavior
        What was observed. Names are put before those of parameters and of the parts of latent
        vectors, with a dot: ``posterior_["posts.noise_precision"]``.
    users : sequence, optional
        Ids of all users in their order, those of X. By default those of the behaviors, in the order
        in which they appear. Users are matched by ids where behaviors have some, and by position
        where they have none.

    Examples
    --------
    >>> import dualview as dv
    >>> posts = dv.SharedOutcome([[1, 1], [0, 1]], [3.0, 5.0])
    >>> answers = dv.BinaryOutcomes([0, 1], [[1.0], [2.0]], [0, 1])
    >>> both = SeveralBehaviors({"posts": posts, "answers": answers})
    >>> len(both), both.n_observations, both.names
    (2, 4, ['posts.latent', 'answers.x0'])
    """

    parts: dict[str, Behavior]

    def __init__(self, parts: Mapping[str, Behavior], users: Sequence[str] | None = None) -> None:
        _check_parts(parts)
        self._match(dict(parts), None if users is None else Rows(len(users), list(users)))

    def _match(self, parts: dict[str, Behavior], rows: Rows | None) -> None:
        self.parts = _matched(parts, rows)
        self.users = (
            next(iter(self.parts.values())).users if rows is None or rows.ids is None else rows.ids
        )
        if len(parts) > 1:
            _refuse_own_noise_of_clusters(self.parts)

    @classmethod
    def of(cls, given: Any, rows: Rows | None = None) -> "SeveralBehaviors":
        """From a list, which gets names by the kind of each behavior, or a dictionary. rows: those
        of X."""
        made, parts = cls.__new__(cls), named_parts(given)
        _check_parts(parts)
        made._match(parts, rows)
        return made

    @classmethod
    def _unmatched(cls, parts: dict[str, Behavior]) -> Self:
        """Observations that are matched with the users of a fit elsewhere."""
        made = cls.__new__(cls)
        made.parts, made.users = parts, None
        return made

    def __len__(self) -> int:
        return max(len(part) for part in self.parts.values())

    def __getitem__(self, name: str) -> Behavior:
        if name not in self.parts:
            raise InputError(f"There is no behavior {name!r}; there are {', '.join(self.parts)}.")
        return self.parts[name]

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={part!r}" for name, part in self.parts.items())
        return f"SeveralBehaviors({parts})"

    def facts(self) -> dict[str, object]:
        """Users, and each behavior in words."""
        found: dict[str, object] = {"users": f"{len(self):,}"}
        return found | {name: repr(part) for name, part in self.parts.items()}

    @property
    def n_observations(self) -> int:
        """Those of all behaviors."""
        return int(self._ends[-1])

    @property
    def _ends(self) -> NDArray[np.intp]:
        """Where the observations of each behavior begin among those of all, and their number."""
        return np.cumsum([0, *(part.n_observations for part in self.parts.values())])

    @property
    def outcome(self) -> Array | None:  # type: ignore[override]
        """The outcomes of all behaviors, one after the other, (n,) or (n, 2); None where one has
        none."""
        return None if any(part.outcome is None for part in self.parts.values()) else self.observed

    @property
    def observed(self) -> Array:
        """The outcomes of all behaviors; an error where one has none. Ends (n, 2) where some are
        known to an interval."""
        found = [np.asarray(part.observed, dtype=float) for part in self.parts.values()]
        if any(values.ndim == 2 for values in found):
            found = [
                values if values.ndim == 2 else np.column_stack([values, values])
                for values in found
            ]
        return np.concatenate(found)

    @property
    def scored_as(self) -> str:
        return ", ".join(f"{name}: {part.scored_as}" for name, part in self.parts.items())

    @property
    def names(self) -> list[str]:
        """Names of the numbers of a latent vector."""
        return [f"{name}.{own}" for name, part in self.parts.items() for own in _functions(part)]

    @property
    def blocks(self) -> dict[str, Block]:
        """The block of each behavior in a latent vector."""
        return dict(
            zip(
                self.parts,
                Block.all_of([len(_functions(part)) for part in self.parts.values()]),
                strict=True,
            )
        )

    def coords(self) -> dict[str, Any]:
        """Names along the axes of latent vectors and of each behavior's parameters, these by the
        behavior's name."""
        found: dict[str, Any] = {"function": self.names, "function_other": self.names}
        for name, part in self.parts.items():
            own = {
                axis: values
                for axis, values in part.coords().items()
                if axis not in ("function", "function_other")
            }
            found |= with_name(own, name)
        return found

    @property
    def param_names(self) -> list[str]:
        return [f"{name}.{own}" for name, part in self.parts.items() for own in part.param_names]

    def advice(self, n_rows: int) -> str:
        return next(iter(self.parts.values())).advice(n_rows)

    def matched(self, rows: Rows | None) -> "SeveralBehaviors":
        """The same observations of the rows of X, each behavior by its own ids."""
        return SeveralBehaviors.of(self.parts, rows)

    def aligned(self, users: Sequence[str]) -> "SeveralBehaviors":
        """The same observations with the users in this order; who is missing in a behavior has no
        observations there."""
        return SeveralBehaviors(self.parts, users)

    def described(self) -> dict[str, Any]:
        """What each behavior says of itself, by name."""
        parts = {name: part.described() for name, part in self.parts.items()}
        return {
            "kind": "SeveralBehaviors",
            "n_users": len(self),
            "n_observations": self.n_observations,
            "parts": parts,
        }

    def fingerprint(self) -> dict[str, Any]:
        """Digests of all behaviors, by name."""
        found: dict[str, Any] = {"behaviors": list(self.parts)}
        for name, part in self.parts.items():
            found |= with_name({"kind": type(part).__name__} | part.fingerprint(), name)
        return found

    def take(self, rows: Any) -> Self:
        """Some observations only, by position or mask among those of all behaviors; everybody stays
        a user."""
        chosen = np.asarray(rows, dtype=None if np.size(rows) else np.int64)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iub":
            raise InputError(
                f"take needs positions or a mask of the {self.n_observations} observations; got "
                f"{rows!r}."
            )
        places = np.flatnonzero(chosen) if chosen.dtype.kind == "b" else chosen
        bounds = zip(self.parts.items(), self._ends, self._ends[1:], strict=False)
        parts = {
            name: part.take(places[(places >= a) & (places < b)] - a)
            for (name, part), a, b in bounds
        }
        made = type(self)._unmatched(parts)
        made.users = self.users
        return made

    def whole(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """As each behavior wants them together."""
        found = []
        for part, a, b in zip(self.parts.values(), self._ends, self._ends[1:], strict=False):
            own = rows[(rows >= a) & (rows < b)] - a
            found.append(a + (part.whole(own) if len(own) else own))
        return np.concatenate(found)

    def folds(
        self, n_splits: int = 5, *, seed: int = 0
    ) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The positions that :meth:`split` cuts into; every behavior has its share of each fold."""
        cut = []
        for part, first in zip(self.parts.values(), self._ends, strict=False):
            cut.append(
                [
                    (first + training, first + held_out)
                    for training, held_out in part.folds(n_splits, seed=seed)
                ]
            )
        return [
            (np.concatenate([a for a, _ in fold]), np.concatenate([b for _, b in fold]))
            for fold in zip(*cut, strict=True)
        ]

    def user_weights(self) -> Any:
        """Those of all behaviors, one after the other; None where one has none."""
        found = [part.user_weights() for part in self.parts.values()]
        if any(weights is None for weights in found):
            return None
        return sparse.csr_array(sparse.vstack([sparse.csr_array(weights) for weights in found]))

    def ridge_estimate(self) -> Array:
        """The estimates of all behaviors beside each other, (U, q)."""
        found = np.hstack(
            [part.ridge_estimate().reshape(len(self), -1) for part in self.parts.values()]
        )
        return found[:, 0] if found.shape[1] == 1 else found

    def likely_prior(self, features: Array | None = None) -> GaussianPrior:
        """That of each behavior by itself."""
        priors = [part.likely_prior(features) for part in self.parts.values()]
        return GaussianPrior(
            np.concatenate([own.mean for own in priors]),
            block_diag(*(own.covariance for own in priors)),
        )

    def prepare(self, prior: GaussianPrior | None) -> tuple[Whitening, SeveralLikelihoods]:
        """Units in which the vectors of different behaviors stay apart, and the likelihood in
        them."""
        if prior is not None:
            prior.check_size(len(self.names), f"behavior_prior over ({', '.join(self.names)})")
        made = {}
        for (name, part), block in zip(self.parts.items(), self.blocks.values(), strict=True):
            with _named_in_errors(name):
                made[name] = part.prepare(None if prior is None else _prior_of(prior, block, name))
        units = [own for own, _ in made.values()]
        factor, inverse = (
            block_diag(*(own.factor for own in units)),
            block_diag(*(own.inverse for own in units)),
        )
        likelihood = SeveralLikelihoods.of({name: own for name, (_, own) in made.items()})
        return Whitening(np.concatenate([own.mean for own in units]), factor, inverse), likelihood

    def new(self, given: Any) -> "SeveralBehaviors":
        """New observations of some of these behaviors: a dictionary, a list of all of them, or the
        one of its kind."""
        return SeveralBehaviors._unmatched(self._with_all_new(self.parts_of(given)))

    def parts_of(self, given: Any) -> dict[str, Any]:
        """The same by name, as they were given."""
        if isinstance(given, SeveralBehaviors):
            given = given.parts
        if isinstance(given, Mapping):
            strange = [str(name) for name in given if name not in self.parts]
            if strange or not given:
                raise InputError(
                    "New observations must be of the behaviors of the fit, "
                    f"{', '.join(self.parts)}; got "
                    f"{', '.join(strange) or 'none'}."
                )
            return {name: given[name] for name in self.parts if name in given}
        if isinstance(given, list | tuple):
            if len(given) != len(self.parts):
                raise InputError(
                    "A list of new observations must have one behavior for each of the fit, "
                    f"{', '.join(self.parts)}; got "
                    f"{len(given)}. For some of them give a dictionary by name."
                )
            return dict(zip(self.parts, given, strict=True))
        return {self._only_of_its_kind(given): given}

    def observations_of(self, given: Any) -> "SeveralBehaviors":
        """The observations of a fit that has lost its own, in one of the forms that ``fit``
        takes."""
        found = self.new(given)
        missing = [name for name in self.parts if name not in found.parts]
        if missing:
            raise InputError(
                f"behavior must have all behaviors of the fit; missing: {', '.join(missing)}."
            )
        found.users = self.users
        return found

    def _only_of_its_kind(self, given: Any) -> str:
        """The name of the one behavior that new observations without a name can be of."""
        of_its_kind = [name for name, part in self.parts.items() if type(part) is type(given)]
        if len(of_its_kind) != 1:
            first = next(iter(self.parts))
            raise InputError(
                f"The fit has the behaviors {', '.join(self.parts)}; say of which these "
                "observations are, as "
                f'{{"{first}": ...}}; got {type(given).__name__}.'
            )
        return of_its_kind[0]

    def _with_all_new(self, parts: dict[str, Any]) -> dict[str, Any]:
        """New observations of users with ids among all users: those of the fit, then the new ones
        of all behaviors."""
        parts = {
            name: part.called_as(self.users) if isinstance(part, Behavior) else part
            for name, part in parts.items()
        }
        if self.users is None or any(
            getattr(part, "users", None) is None for part in parts.values()
        ):
            return parts
        everybody = list(
            dict.fromkeys([*self.users, *(user for part in parts.values() for user in part.users)])
        )
        return {name: _among(part, everybody, name) for name, part in parts.items()}

    def own_draws(self, latent: Array, params: Params, name: str) -> tuple[Array, Params]:
        """Of S draws the vectors of one behavior, (S, U) or (S, U, q), and its parameters."""
        vectors = latent.reshape(*latent.shape[:2], -1)[..., self.blocks[name].own]
        return vectors[..., 0] if vectors.shape[-1] == 1 else vectors, own_params(params, name)

    def forecasts(self, new: Any, latent: Array, params: Params, n_new: int) -> dict[str, Forecast]:
        """The distribution of new observations of each behavior that some are given of."""
        found = {}
        for name, own in self.new(new).parts.items():
            forecast = self.parts[name].forecast(own, *self.own_draws(latent, params, name), n_new)
            found[name] = Forecast(
                forecast.n,
                forecast.known,
                forecast.outcome,
                self._wide(forecast.loads, name),
                forecast.noise,
                forecast.unsure,
            )
        return found

    def _wide(self, loads: Any, name: str) -> Any:
        """What new users' vectors of all behaviors count for, sparse (n, J q), from that of one
        behavior's, (n, J q_b)."""
        entries, block, q = sparse.coo_array(loads), self.blocks[name].own, len(self.names)
        user, own = np.divmod(entries.col, len(block))
        shape = (entries.shape[0], entries.shape[1] // len(block) * q)
        return sparse.csr_array((entries.data, (entries.row, user * q + block[own])), shape=shape)

    def forecast(self, new: Any, latent: Array, params: Params, n_new: int) -> Forecast:  # noqa: ARG002
        """There is one for each behavior: :meth:`forecasts`."""
        raise InputError(f"This is for one behavior; the fit has several, {', '.join(self.parts)}.")

    def evidence(
        self, new: Any, latent: Array, params: Params, n_new: int
    ) -> Evidence | SampledEvidence:
        """What observations of new users say of their vectors: those of one behavior say nothing of
        the others."""
        given, found = self.new(new), []
        for name, part in self.parts.items():
            known: Evidence | SampledEvidence = nothing_known(n_new, len(self.blocks[name].own))
            if name in given.parts:
                known = part.evidence(
                    given.parts[name], *self.own_draws(latent, params, name), n_new
                )
            if isinstance(known, Evidence) and known.noise is not None and len(self.parts) > 1:
                raise InputError(
                    f'{name}: with several behaviors and noise="user", new users are known by '
                    "their features alone: leave "
                    f"out {name} of behavior_new."
                )
            found.append(known)
        return found[0] if len(found) == 1 else joint_evidence(found, list(self.blocks.values()))

    def as_new(self, user: int) -> "SeveralBehaviors":
        return SeveralBehaviors._unmatched(
            {name: part.as_new(user) for name, part in self.parts.items()}
        )

    def checked_parts(self) -> list[LeftOutPart]:
        return [
            LeftOutPart(own.left_out, name, self.blocks[name])
            for name, part in self.parts.items()
            for own in part.checked_parts()
        ]

    def left_out_parts(self) -> list[LeftOutPart]:
        """Each observation given all others and the vectors of other behaviors, of those behaviors
        that have it."""
        return [
            LeftOutPart(own.left_out, name, self.blocks[name])
            for name, part in self.parts.items()
            for own in part.left_out_parts()
        ]


def refuse_several(behavior: Behavior | None, what: str) -> None:
    """Raise where a fit had several behaviors, for what takes one."""
    if isinstance(behavior, SeveralBehaviors):
        raise InputError(
            f"{what} is for a fit of one behavior; this one has {', '.join(behavior.parts)}. Fit "
            "them one at a time for it."
        )


def _functions(part: Behavior) -> list[str]:
    """Names of the numbers of a behavior's latent vector."""
    return [str(name) for name in part.coords().get("function", ("latent",))]


def _check_parts(parts: Mapping[str, Behavior]) -> None:
    check_names(parts)
    if any(isinstance(part, SeveralBehaviors) for part in parts.values()):
        raise InputError(
            "One of the behaviors has several itself: give all of them in one list or dictionary."
        )


def _matched(parts: dict[str, Behavior], rows: Rows | None) -> dict[str, Behavior]:
    """Behaviors of the same users in the same order; an error where they are not."""
    if rows is not None and rows.ids is not None:
        parts = {name: _among_rows(part, rows, name) for name, part in parts.items()}
    elif any(_has_ids(part, rows) for part in parts.values()):
        parts = _of_all_ids(parts, rows)
    elif rows is None and all(_has_numbers_only(part) for part in parts.values()):
        parts = _of_all_numbers(parts)
    else:
        among = rows or Rows(
            max(_width(part) for part in parts.values()), what="another behavior", unit="users"
        )
        parts = {name: _among_rows(part, among, name) for name, part in parts.items()}
    sizes = {name: len(part) for name, part in parts.items()}
    most = max(sizes.values())
    for name, part in parts.items():
        if sizes[name] != most:
            listed = ", ".join(f"{other} has {n}" for other, n in sizes.items())
            raise InputError(
                f"Behaviors must be of the same users: {listed}. {name}: {part.advice(most)}"
            )
    return parts


def _of_all_ids(parts: dict[str, Behavior], rows: Rows | None) -> dict[str, Behavior]:
    """Behaviors of the users whom any of them names by ids, in the order in which they appear.
    rows: of an X without ids."""
    known = [user for part in parts.values() if _has_ids(part, rows) for user in part.ids or ()]
    parts = {name: part.called_as(known) for name, part in parts.items()}
    without = [name for name, part in parts.items() if part.users is None]
    if without:
        raise InputError(
            "Behaviors must all have ids of users, or none of them; without ids: "
            f"{', '.join(without)}. Give them "
            "ids, or X with ids in its index."
        )
    users = list(dict.fromkeys(user for part in parts.values() for user in part.users or ()))
    unordered = [part for part in parts.values() if isinstance(part, PerUser) and not part.in_order]
    placed = {name: _among(part, users, name) for name, part in parts.items()}
    if rows is None or len(unordered) < len(parts):
        return placed
    return {
        name: part.in_unknown_order().matched(rows)
        for name, part in placed.items()
        if isinstance(part, PerUser)
    }


def _has_ids(part: Behavior, rows: Rows | None) -> bool:
    """Whether users are called by ids; numbers as names of columns are ids where there is no X
    whose rows they may count."""
    named_columns = isinstance(part, SharedOutcome) and part.has_ids and rows is None
    return named_columns or (part.users is not None and part._user_numbers is None)


def _has_numbers_only(part: Behavior) -> bool:
    """Whether users are called by whole numbers, or counted, in each row: a matrix of them has an
    order of its own."""
    return isinstance(part, PerUser) and (part._user_numbers is not None or part.users is None)


def _of_all_numbers(parts: dict[str, Behavior]) -> dict[str, Behavior]:
    """Behaviors of the users whom any of them names by a whole number, in their order; counted
    where 0, 1, 2, … are there."""
    numbers = {int(user) for part in parts.values() for user in part.ids or counted(len(part))}
    users = [str(user) for user in sorted(numbers)]
    place, are_counted = {user: u for u, user in enumerate(users)}, users == counted(len(users))
    found: dict[str, Behavior] = {}
    for name, part in parts.items():
        assert isinstance(part, PerUser)
        places = [place[user] for user in part.ids or counted(len(part))]
        found[name] = part.with_users(places, None if are_counted else users, len(users))
    return found


def _width(part: Behavior) -> int:
    """The number of users that a behavior has, with whole numbers taken for positions."""
    return len(part.called_as(None))


def _among_rows(part: Behavior, rows: Rows, name: str) -> Behavior:
    """The same observations of the rows of X."""
    with _named_in_errors(name):
        if isinstance(part, SharedOutcome) and part.has_ids and rows.ids is not None:
            return part.among(rows.ids)  # who is not in these threads may be in other observations
        return part.matched(rows)


def _among(part: Behavior, users: list[str], name: str) -> Behavior:
    """The same observations among these users, by their ids; who is missing has no observations."""
    with _named_in_errors(name):
        return part.among(users)


@contextmanager
def _named_in_errors(name: str) -> Iterator[None]:
    """Inside, an error about input names the behavior."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def _refuse_own_noise_of_clusters(parts: Mapping[str, Behavior]) -> None:
    for name, part in parts.items():
        if isinstance(part, UserRegression) and part.noise == "cluster":
            raise InputError(
                f'{name}: noise="cluster" is for a fit of one behavior. Use noise="shared", '
                '"user" or "student".'
            )


def _prior_of(prior: GaussianPrior, block: Block, name: str) -> GaussianPrior:
    """The prior of one behavior's vectors; an error where these are correlated with others."""
    if prior.covariance[np.ix_(block.own, block.rest)].any():
        raise InputError(
            f"behavior_prior must have covariances of 0 between different behaviors; {name} has "
            "others. How behaviors go "
            "together inside clusters is learned."
        )
    return GaussianPrior(prior.mean[block.own], prior.covariance[np.ix_(block.own, block.own)])


def nothing_known(n_users: int, n_dims: int) -> Evidence:
    """Of users without observations."""
    return Evidence(
        np.zeros((1, n_users)),
        np.zeros((1, n_users, n_dims)),
        np.zeros((1, n_users, n_dims, n_dims)),
    )


def joint_evidence(
    parts: Sequence[Evidence | SampledEvidence], blocks: Sequence[Block]
) -> Evidence | SampledEvidence:
    """Log likelihoods add up. They are a quadratic where all of them are."""
    quadratic = [part for part in parts if isinstance(part, Evidence)]
    if len(quadratic) == len(parts):
        return _sum(quadratic, blocks)

    def log_likelihood(j: int, draws: NDArray[np.intp], latent: Array) -> Array:
        total = np.zeros(len(latent))
        for part, block in zip(parts, blocks, strict=True):
            own = block.of(latent)
            total += part.log_likelihood(j, draws, own)
        return total

    return SampledEvidence(log_likelihood)


def _sum(parts: Sequence[Evidence], blocks: Sequence[Block]) -> Evidence:
    n_draws = max(len(values) for part in parts for values in part[:3])
    n_users, n_dims = parts[0].linear.shape[1], sum(len(block.own) for block in blocks)
    constant, linear = np.zeros((n_draws, n_users)), np.zeros((n_draws, n_users, n_dims))
    precision = np.zeros((n_draws, n_users, n_dims, n_dims))
    for part, block in zip(parts, blocks, strict=True):
        constant += part.constant
        linear[..., block.own] = part.linear
        precision[..., block.own[:, None], block.own] = part.precision
    return Evidence(constant, linear, precision)
