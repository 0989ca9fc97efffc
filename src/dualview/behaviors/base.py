"""What the rest of the package asks of a behavior.

A :class:`Behavior` is what a user makes: observations in the user's units, one object for all
users. A :class:`Likelihood` is what the sampler runs on: the same observations in working units,
where the latent vectors have constants (0, I).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.approximation.latent import LatentApproximation
from dualview.behaviors.ids import Numbers, Rows
from dualview.behaviors.leave_one_out import LeaveOneOut, LeftOutPart
from dualview.behaviors.likelihoods.conjugate import Conjugate
from dualview.behaviors.likelihoods.logit_location import Locations
from dualview.behaviors.likelihoods.metropolis import RowDensity
from dualview.behaviors.records import (
    Array,
    Evidence,
    Forecast,
    LatentPrior,
    Params,
    Prior,
    Recentered,
    SampledEvidence,
)
from dualview.checks import generator, whole_number
from dualview.errors import AbsentError, InputError, InputTypeError
from dualview.files.html import small_table
from dualview.numerics.hyperprior import PUBLISHED, Hyperprior
from dualview.numerics.messages import Terms
from dualview.units import GaussianPrior, Whitening


def fold_positions(
    n: int, n_splits: int, seed: int, what: str
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Pairs of positions (training, held out) of n observations, each held out once; ``what`` they
    are called in messages."""
    if not 2 <= whole_number(n_splits, "n_splits", 2) <= n:
        raise InputError(f"n_splits must be from 2 to the number of {what}, {n}; got {n_splits}.")
    fold = np.arange(n) % n_splits
    generator(seed).shuffle(fold)
    return [
        (np.flatnonzero(fold != held_out), np.flatnonzero(fold == held_out))
        for held_out in range(n_splits)
    ]


class Likelihood(ABC):
    """p(observations | latent vectors) with its own few parameters, in working units.

    Given those parameters the observations must be normal and linear in the latent vectors, if need
    be after an augmentation. The abstract methods are what every sampler needs. Everything else is
    an ability with a default, which each method states: a subclass declares what it can do by
    overriding it.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.conjugate is not Likelihood.conjugate and cls.params_of is Likelihood.params_of:
            raise TypeError(
                f"{cls.__name__} cannot be redrawn inside the sweep: it has `conjugate` and "
                "lacks `params_of`."
            )

    @property
    @abstractmethod
    def n_dims(self) -> int:
        """q, the dimensions of a latent vector."""

    @abstractmethod
    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """Latent vectors (U, q) and parameters to start from."""

    @abstractmethod
    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:
        """The observations for a sweep, with fresh residuals that it may change; an augmentation is
        drawn here."""

    @abstractmethod
    def redraw(
        self, rng: np.random.Generator, latent: Array, params: Params, terms: Terms, prior: Prior
    ) -> tuple[Array, Params]:
        """The parameters, and latent vectors all at once where users depend on each other so much
        that one by one is slow.

        terms: those of the sweep before, augmentation included; their residuals belong to latent.
        With a pooled prior a behavior that moves latent vectors moves those of a cluster as one.
        """

    @abstractmethod
    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(observations, params | latent) up to a constant."""

    @abstractmethod
    def draw_prior(self, rng: np.random.Generator, z: NDArray[np.int64]) -> Params:
        """Parameters from their prior, with users in clusters z (U,)."""

    @abstractmethod
    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> "Likelihood":
        """The same behavior with new observations."""

    @abstractmethod
    def reported(self, params: Params) -> Params:
        """The parameters in the user's units; arrays may have leading axes."""

    @property
    def one_user_each(self) -> bool:
        """Whether every observation is of one user, so that very many users go over threads; no by
        default."""
        return False

    @property
    def per_user(self) -> tuple[str, ...]:
        """Names of the parameters of which every user has one; none by default."""
        return ()

    @property
    def n_coefficients(self) -> int:
        """C, the length of the parameter ``coefficients``; 0 by default, where there is none."""
        return 0

    @property
    def hyperprior(self) -> Hyperprior:
        """How heavy the tails of the latent vectors' prior may be; the paper's by default.

        A likelihood that leaves latent vectors the tails of their prior asks for lighter ones.
        """
        return PUBLISHED

    def functions(self, latent: Array, params: Params) -> Array:  # noqa: ARG002
        """The users' behavior (U, q), of which observations are made: the latent vectors themselves
        by default."""
        return latent

    @property
    def follows_features(self) -> bool:
        """Whether the users' behavior depends on features beyond their clusters; by default it does
        not."""
        return False

    def with_features(self, features: Array) -> "Likelihood":  # noqa: ARG002
        """The same with other features (U, D) in working units; itself by default, since it looks
        at none."""
        return self

    def with_residuals(self) -> "Likelihood":
        """The same with residuals in its terms always; itself by default, since its terms have them
        anyway."""
        return self

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:  # noqa: ARG002
        """Log densities of the parameters' priors in S draws, by name, each (S,) up to a constant;
        none by default.

        reported: the parameters as :meth:`reported` gives them, arrays (S, …). z (S, U): the users'
        clusters.
        """
        return {}

    def relocate(
        self,
        rng: np.random.Generator,  # noqa: ARG002
        latent: Array,  # noqa: ARG002
        params: Params,  # noqa: ARG002
        locations: Locations,  # noqa: ARG002
    ) -> Array | None:
        """Steps δ (K, q) to be added to the clusters' means and to the latent vectors of their
        users, or None.

        For a likelihood whose augmentation holds clusters back. The steps leave Π_k N(μ_k + δ_k;
        μ_0, R_0⁻¹) p(observations | f_u + δ_{z_u}, params) invariant. The augmentation, if there is
        one, is drawn right afterwards by :meth:`terms`. Where users share a vector it is the means
        that they share. The default is None: no such move is made.
        """
        return None

    def recenter(
        self,
        rng: np.random.Generator,  # noqa: ARG002
        params: Params,  # noqa: ARG002
        base_mean: Array,  # noqa: ARG002
    ) -> Recentered | None:
        """A step that all latent vectors make together with parameters that observations cannot
        tell from them, or None.

        The step leaves N(μ_0 + step; 0, I) p(observations, params | f_u + step) invariant. The
        default is None: no such move is made.
        """
        return None

    def with_offset(self, offset: Array) -> "Likelihood":  # noqa: ARG002
        """The same with numbers (n,) in working units added to the locations of its observations,
        in the order of its terms.

        They take the place of those of before. A likelihood that has this can have common and group
        effects.
        """
        raise self._lacks("with_offset", "cannot have effects outside the mixture")

    @property
    def held(self) -> bool:
        """Whether a sweep holds its observations where they are, since they have no normal form; no
        by default.

        Then it has ``density``, and ``log_table`` for clusters whose users share a vector.
        """
        return False

    def density(self, latent: Array, params: Params) -> RowDensity | None:  # noqa: ARG002
        """The density of its observations given their locations, in the order of its terms, where
        they are held, or effects are to move by it besides; None by default."""
        return None

    def log_table(
        self,
        vectors: Array,  # noqa: ARG002
        params: Params,  # noqa: ARG002
        users: slice,  # noqa: ARG002
        shift: Array | None = None,  # noqa: ARG002
    ) -> Array:
        """ln p(observations of some users | each of the vectors (C, q)), (users, C); shift (U, q)
        is added to the vectors."""
        raise self._lacks("log_table", "cannot have clusters whose users share a vector")

    def conjugate(self, params: Params) -> tuple[Terms, Conjugate] | None:  # noqa: ARG002
        """Its :class:`Terms` and :class:`Conjugate` where its parameters can be redrawn inside the
        sweep's call, or None.

        One call then makes many sweeps. By default there are none: each sweep is a call, and
        :meth:`redraw` follows it.
        """
        return None

    def params_of(self, noise_precision: Any, coefficients: Array) -> Params:  # noqa: ARG002
        """The parameters that the sweep's call has drawn, by name; arrays may have leading axes.

        A likelihood that overrides :meth:`conjugate` overrides this too.
        """
        raise self._lacks("conjugate", "cannot be redrawn inside the sweep")

    def redraw_together(
        self,
        rng: np.random.Generator,  # noqa: ARG002
        latent: Array,  # noqa: ARG002
        params: Params,  # noqa: ARG002
        terms: Terms,  # noqa: ARG002
        prior: Prior,  # noqa: ARG002
    ) -> tuple[Array, Params]:
        """:meth:`redraw` with all latent vectors at once; for a conjugate one that asks for it
        without equations."""
        raise self._lacks("redraw_together", "asks for a joint draw that it cannot make")

    def approximate(self) -> LatentApproximation:
        """q of latent vectors and parameters to start from; by default there is none, and a
        variational engine says so."""
        raise self._lacks("approximate", "has no variational approximation")

    @property
    def can_approximate(self) -> bool:
        """Whether there is a variational approximation."""
        return type(self).approximate is not Likelihood.approximate

    def _lacks(self, ability: str, consequence: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} {consequence}: it lacks `{ability}`.")


class Around(Likelihood):
    """A likelihood around another, inner, with parameters of its own, whose names are _outer.

    A subclass is a frozen dataclass with the field ``inner``.
    """

    inner: Likelihood
    _outer: ClassVar[tuple[str, ...]]

    @property
    def n_dims(self) -> int:
        return self.inner.n_dims

    @property
    def hyperprior(self) -> Hyperprior:
        return self.inner.hyperprior

    @property
    def one_user_each(self) -> bool:
        return self.inner.one_user_each

    @property
    def per_user(self) -> tuple[str, ...]:
        return self.inner.per_user

    @property
    def held(self) -> bool:
        return self.inner.held

    def _own(self, params: Params) -> Params:
        """The parameters of the likelihood inside."""
        return {name: value for name, value in params.items() if name not in self._outer}


class Behavior(ABC):
    """Observations of what users did, in the user's units.

    The abstract methods are what a fit and its predictions need. Everything else has a default;
    where the default cannot do what was asked for, its error names the behavior and the method that
    it lacks.
    """

    # What users do with a behavior, which tab completion shows; all else is for the package, and
    # for behaviors from outside to define.
    shown: ClassVar[frozenset[str]] = frozenset(
        {"users", "outcome", "n_observations", "folds", "split", "take"}
    )
    observations: ClassVar[str] = "observations"  # what they are called in messages
    users: list[str] | None = None  # the users' ids, where they came with some
    # What was observed (n,), or ends of intervals (n, 2), where it is known.
    outcome: Array | None = None
    observation_ids: list[str] | None = None  # ids of the observations, where they came with some
    # what a long table was read by, in plain values, where the observations came from one
    table: Mapping[str, Any] | None = None
    # What users are called, where these are numbers and nobody has said what they mean.
    _user_numbers: Numbers | None = None
    # The name of the column with the users of the observations, where a table's column named them
    # and nobody has said in what order they come.
    _user_column: str | None = None

    @abstractmethod
    def __len__(self) -> int:
        """The number of users."""

    @abstractmethod
    def prepare(self, prior: GaussianPrior | None) -> tuple[Whitening, Likelihood]:
        """The units of the latent vectors, from the data where no prior is given, and the
        likelihood in working units."""

    @abstractmethod
    def coords(self) -> dict[str, Any]:
        """Names along the axes of latent vectors (function) and of the likelihood's own
        parameters."""

    @abstractmethod
    def ridge_estimate(self) -> Array:
        """A quick estimate of each user's latent vector, (U,) or (U, q), for starting
        partitions."""

    @abstractmethod
    def forecast(self, new: Any, latent: Array, params: Params, n_new: int) -> Forecast:
        """The distribution of new observations given S draws of known users' latent vectors; n_new
        more users are new."""

    def facts(self) -> dict[str, object]:
        """What the object holds, by name, for people to read: users, latent vector, outcome."""
        parts = self.coords().get("function", ())
        latent = ", ".join(map(str, parts)) if len(parts) else "one coefficient for each user"
        return {"users": f"{len(self):,}", "latent": latent, "outcome": _range_text(self.outcome)}

    def _repr_html_(self) -> str:
        return small_table(type(self).__name__, self.facts().items())

    def __dir__(self) -> Iterable[str]:
        return [name for name in super().__dir__() if name.startswith("_") or name in self.shown]

    @property
    def param_names(self) -> Sequence[str]:
        """The likelihood's parameters that predictions need, by their names in the posterior; none
        by default."""
        return ()

    @property
    def scored_as(self) -> str:
        """What the log densities of outcomes are of; fits are compared only where it is the same.
        Numbers by default."""
        return "numbers"

    @property
    def observed(self) -> Array:
        """The outcomes; an error where there are none."""
        if self.outcome is None:
            raise AbsentError(
                f"Outcomes are needed here: pass {type(self).__name__}(..., outcome)."
            )
        return self.outcome

    def outcome_of(self, new: "Behavior") -> Array | None:
        """The outcomes of new observations as those of the fit are written; by default they are
        written alike."""
        return new.outcome

    @property
    def n_observations(self) -> int:
        """The number of observations."""
        return len(self.observed)

    def folds(
        self, n_splits: int = 5, *, seed: int = 0
    ) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Pairs of positions (training, held out) of the observations, as scikit-learn's ``cv``
        takes them."""
        return fold_positions(self.n_observations, n_splits, seed, self.observations)

    def split(self, n_splits: int = 5, *, seed: int = 0) -> Iterator[tuple[Self, Self]]:
        """Pairs (training, held out) for cross-validation over observations."""
        for training, held_out in self.folds(n_splits, seed=seed):
            yield self.take(training), self.take(held_out)

    def advice(self, n_rows: int) -> str:  # noqa: ARG002
        """What to do when X has n_rows users and the behavior another number."""
        return "Give both the same users, in the same order."

    @property
    def ids(self) -> list[str] | None:
        """The users' ids, with whole numbers taken for ids; None where users are known by position
        only."""
        return self.users if self._user_numbers is None else self._user_numbers.ids

    def matched(self, rows: Rows | None) -> "Behavior":
        """The same observations, of users who are the rows of X; without X, of those whom the
        behavior names.

        Users are matched by their ids where both sides have some: :mod:`dualview.behaviors.ids` has
        the rules. By default only the order that is there already will do.
        """
        return self if rows is None or rows.ids is None else self.aligned(rows.ids)

    def called_as(self, known: Sequence[str] | None) -> "Behavior":  # noqa: ARG002
        """The same new observations, with whole numbers read as the users of a fit are called;
        itself by default.

        known: ids of the users of the fit, None where these are known by position.
        """
        return self

    def check_who_is_new(self, new: Any, n_new: int) -> None:  # noqa: B027
        """Raise where it is open whether new observations are of users of the fit, or of n_new new
        ones alone. By default it is not."""

    def without_ids(self) -> "Behavior":
        """The same observations, of users who are known by position; itself by default."""
        return self

    def among(self, users: Sequence[str]) -> "Behavior":
        """The same observations among these users, by their ids; who is missing here has no
        observations."""
        return self.aligned(users)

    def aligned(self, users: Sequence[str]) -> "Behavior":
        """The same observations with the users in this order; an error names who is missing on
        either side.

        By default only the order that is there already will do.
        """
        if self.users is not None and list(users) != self.users:
            raise self._lacks("aligned", "be brought into the order of the rows of X")
        return self

    def described(self) -> dict[str, Any]:
        """What predictions need to know of the behavior besides the draws, as plain values with a
        ``kind``."""
        return {"kind": type(self).__name__}

    def fingerprint(self) -> dict[str, Any]:
        """Digests of the observations and the options, by name: whether two behaviors are the same.
        Checkpoints need it."""
        raise self._lacks("fingerprint", "be fitted with a checkpoint")

    def take(self, rows: Any) -> Self:  # noqa: ARG002
        """The behavior with some observations only, by position or mask; everybody stays a user."""
        raise self._lacks("take", "be cut by observations")

    def extended(self, new: Any, n_new: int, users: Sequence[str] | None = None) -> "Behavior":  # noqa: ARG002
        """These observations and new ones, of the users of this behavior and n_new others, who come
        after them.

        users: ids of all, where users have ids. New observations are matched by them, or by
        position as for predictions. new: None for none.
        """
        raise self._lacks("extended", "take in more observations (partial_fit)")

    def whole(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """About as many observations as these, that can be taken by themselves; these by default.

        A behavior of which several observations are one outcome gives all or none of them.
        """
        return rows

    def left_out(self) -> LeaveOneOut | None:
        """The distribution of each observation given all others, with latent vectors integrated
        out; None by default.

        Without it leave-one-out scores are given the latent vectors, which makes them less
        reliable.
        """
        return None

    def left_out_parts(self) -> list[LeftOutPart]:
        """:meth:`left_out` of the behavior, or of each of several that has it."""
        found = self.left_out()
        return [] if found is None else [LeftOutPart(found)]

    def checked_parts(self) -> list[LeftOutPart]:
        """What checks standardize observations by: :meth:`left_out_parts` by default."""
        return self.left_out_parts()

    @property
    def advice_on_spread(self) -> str | None:
        """What to try where observations vary more than their distribution says, which has no scale
        of its own; None by default, where it has one."""
        return None

    def evidence_of_users(
        self,
        priors: Sequence[LatentPrior],  # noqa: ARG002
        latent: Array,
        params: Params,
    ) -> Callable[[int], Evidence | SampledEvidence]:
        """Of a known user, what its observations say of its latent vector, had they not been in the
        fit, given S draws.

        priors: of all latent vectors in each draw. By default it is what they say as those of
        somebody new, given the latent vectors of all others.
        """
        return lambda user: self.evidence(self.as_new(user), latent, params, 1)

    def as_new(self, user: int) -> "Behavior":  # noqa: ARG002
        """The observations of one user as those of somebody new to the fit."""
        raise self._lacks("as_new", "leave out users one at a time")

    def user_weights(self) -> Any:
        """What each user counts for in each observation, sparse or dense (n, U); None by default,
        where it is not known."""
        return None

    @property
    def is_one_each(self) -> bool:
        """Whether no user has more than one observation, of which nothing says how users of a
        cluster differ; by default it is taken that some have."""
        return False

    def sharing_vectors(self) -> Self:
        """The observations as a fit prepares them in which the users of a cluster share one latent
        vector; themselves by default."""
        return self

    @property
    def noise_owner(self) -> NDArray[np.integer] | None:
        """Whose each observation is (n,), if users could have noises of their own and have not;
        None by default."""
        return None

    def constant_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """What the observations depend on besides what is learned: dimensions and values by name,
        for ArviZ; none by default."""
        return {}

    def likely_prior(self, features: Array | None = None) -> GaussianPrior:  # noqa: ARG002
        """The prior of latent vectors under which the observations are most likely, for
        ``behavior_prior="likelihood"``."""
        raise InputError(
            'behavior_prior="likelihood" needs a behavior that can estimate it; '
            f"{type(self).__name__} lacks `likely_prior`. "
            "Leave it at None, or give a GaussianPrior(mean, covariance)."
        )

    def evidence(
        self,
        new: Any,  # noqa: ARG002
        latent: Array,  # noqa: ARG002
        params: Params,  # noqa: ARG002
        n_new: int,  # noqa: ARG002
    ) -> Evidence | SampledEvidence:
        """What observations of n_new users unknown to the fit say of each one's latent vector,
        given S draws."""
        raise self._lacks(
            "evidence", "say what observations tell of users new to the fit (behavior_new)"
        )

    def _lacks(self, ability: str, task: str) -> InputError:
        return InputError(f"{type(self).__name__} cannot {task}: it lacks `{ability}`.")

    def _takes_no_more(self, which: str) -> InputError:
        """The error of :meth:`extended` for a behavior that can take in more observations, but not
        this one."""
        return InputError(
            f"A {type(self).__name__} {which} cannot take in more observations (partial_fit): "
            "call fit with all of them."
        )


def check_inherits(given: Any, base: type[Likelihood] | type[Behavior], what: str) -> None:
    """Raise where ``what`` was given does not inherit the base class; the message names the methods
    that it lacks besides."""
    if isinstance(given, base):
        return
    missing = [name for name in sorted(base.__abstractmethods__) if not hasattr(given, name)]
    lacks = f" It lacks {', '.join(missing)}." if missing else ""
    raise InputTypeError(
        f"{what} must inherit {base.__module__}.{base.__name__}; got a {type(given).__name__}, "
        "which does not. Write class "
        f"{type(given).__name__}({base.__name__}).{lacks}"
    )


def _range_text(outcome: Array | None) -> str:
    """Number, range and mean of outcomes, in words."""
    if outcome is None or len(outcome) == 0:
        return "none: to be predicted"
    return (
        f"{len(outcome):,} from {outcome.min():.4g} to {outcome.max():.4g}, mean "
        f"{outcome.mean():.4g}"
    )
