"""What behaviors, engines and predictions hand each other."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.families.base import Outcome
from dualview.behaviors.families.noise import log_own
from dualview.errors import InputTypeError

Array = NDArray[np.float64]
Params = dict[str, Any]
Users = NDArray[np.int64]
_Record = TypeVar("_Record")


def own_params(params: Mapping[str, Any], name: str) -> Params:
    """The parameters of one behavior by their own names."""
    return {
        key.removeprefix(f"{name}."): value
        for key, value in params.items()
        if key.startswith(f"{name}.")
    }


def with_name(params: Mapping[str, Any], name: str) -> Params:
    """The parameters of one behavior by their names among those of all."""
    return {f"{name}.{key}": value for key, value in params.items()}


class ClusterNoise(NamedTuple):
    """Noise of each cluster's own: precision (S, U) of every known user's observations, that of its
    cluster.

    variance and dof: σ_0² and ν of the prior G(ν, 1/(ν σ_0²)), from which a cluster without users
    draws its noise.
    """

    precision: Array
    variance: float
    dof: float = 1.0


class UserNoise(NamedTuple):
    """Noise of each user's own: typical precisions (S,) and degrees of freedom (S,), from which a
    new user's is drawn."""

    typical: Array
    dof: Array


@dataclass(frozen=True)
class Forecast:
    """New observations given S draws: location_i = known(cases) + loads · (latent vectors of users
    new to the fit).

    n: their number. known(cases): (S, cases) for a slice of them. outcome: their distribution given
    the locations. loads: sparse (n, J q), what the J new users' vectors, laid end to end, count for
    in each observation. noise: where it is each cluster's or user's own; then observations are of
    one user each, and those of new users have a normal outcome with standard deviations of 0, to
    which the noise of their clusters, or their own, is added. unsure(cases): variances (S, cases)
    of what else is unknown of the locations, such as effects of levels that the fit has not seen;
    None where nothing is.
    """

    n: int
    known: Callable[[slice], Array]
    outcome: Outcome
    loads: Any
    noise: ClusterNoise | UserNoise | None = None
    unsure: Callable[[slice], Array] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.outcome, Outcome):
            raise InputTypeError(
                "The outcome of a Forecast must be a dualview.behaviors.families.Outcome, such as "
                "NormalOutcome(sds) or BinaryOutcome(); "
                f"got {type(self.outcome).__name__}."
            )

    def variances(self, cases: slice) -> Array:
        """Of locations and noise of some observations without new users' part, (S, cases), (S, 1)
        or (1, 1)."""
        noise = self.outcome.spread(cases) ** 2
        return noise if self.unsure is None else np.asarray(noise + self.unsure(cases))


class Evidence(NamedTuple):
    """ln p(observations of new user j | f_j, draw i) = constant + linear · f − fᵀ precision f / 2,
    in the user's units.

    constant (S, J), linear (S, J, q), precision (S, J, q, q); S may be 1 where draws do not differ.
    Where the noise is each cluster's or user's own, these are s times what they say under a noise
    of precision s, plus counts (J,) times ln(s/2π)/2 and height (J,), half the sum of the log
    weights of the observations where they have some.
    """

    constant: Array
    linear: Array
    precision: Array
    counts: NDArray[Any] | None = None
    noise: ClusterNoise | UserNoise | None = None
    height: Array | None = None

    def under(
        self, noise: Array, users: slice, draws: NDArray[np.intp] | None = None
    ) -> "Evidence":
        """For some users, under noises of precision (R,), a row for each: of its draw (R,), or of
        each draw in turn."""
        assert self.counts is not None
        scale = noise[:, None]
        rows = slice(None) if draws is None else draws
        constant, linear, precision = (part[:, users] for part in self[:3])
        if len(constant) > 1:
            constant, linear, precision = (
                constant[rows],
                linear[rows],
                precision if len(precision) == 1 else precision[rows],
            )
        constant = scale * constant + 0.5 * self.counts[users] * np.log(scale / (2 * np.pi))
        if self.height is not None:
            constant = constant + self.height[users]
        return Evidence(constant, scale[..., None] * linear, scale[..., None, None] * precision)

    def of_draws(self, draws: NDArray[np.intp], users: slice) -> "Evidence":
        """For some users, in some draws (R,): a row for each."""

        def rows(values: Array) -> Array:
            return (values if len(values) == 1 else values[draws])[:, users]

        return self._replace(
            constant=rows(self.constant), linear=rows(self.linear), precision=rows(self.precision)
        )

    def log_likelihood(self, user: int, draws: NDArray[np.intp], latent: Array) -> Array:
        """Of one user, given vectors (R, q) in some draws (R,)."""
        constant, linear, precision = self.of_draws(draws, slice(user, user + 1))[:3]
        bent = (precision[:, 0] @ latent[..., None])[..., 0]
        return np.asarray(constant[:, 0] + ((linear[:, 0] - 0.5 * bent) * latent).sum(axis=1))

    def without_noise(self, noise: UserNoise) -> "SampledEvidence":
        """The same with each user's own noise integrated out, s ~ Gamma(ν/2, ν/(2 typical)):
        Student-t, of all observations of a user together."""
        assert self.counts is not None
        counts = self.counts

        def log_likelihood(user: int, draws: NDArray[np.intp], latent: Array) -> Array:
            squares = -2.0 * self.log_likelihood(user, draws, latent)
            found = log_own(squares, counts[user], noise.typical[draws], noise.dof[draws])
            return found if self.height is None else found + self.height[user]

        return SampledEvidence(log_likelihood)


class SampledEvidence(NamedTuple):
    """The same where it is no quadratic: log_likelihood(j, draws (R,), latent (R, q)), in the
    user's units, (R,)."""

    log_likelihood: Callable[[int, NDArray[np.intp], Array], Array]


class LatentPrior(NamedTuple):
    """The prior of all latent vectors in one draw, in the user's units: user u in cluster k = z_u
    has μ_k + g_u + shift_u.

    z (U,), shift (U, q). μ_k ~ N(base_mean, base_precision⁻¹) and, where users of a cluster do not
    share a vector, g_u ~ N(0, precisions_k⁻¹), all independent: base_mean (q,), base_precision (q,
    q), precisions (K, q, q), None where they share it. means (K, q): the values of the μ_k in the
    draw.
    """

    z: NDArray[np.int64]
    means: Array
    precisions: Array | None
    base_mean: Array
    base_precision: Array
    shift: Array


class Prior(NamedTuple):
    """The normal prior of every latent vector: that of its cluster. z (U,), means (K, q), precision
    factors (K, q, q).

    pooled: the users of a cluster share one vector, and this is its prior. shift (U, q): what is
    added to each user's vector.
    """

    z: NDArray[np.int64]
    means: Array
    factors: Array
    pooled: bool = False
    shift: Array | None = None


class Recentered(NamedTuple):
    """A step (q,) of the base mean, of all clusters' means and of all latent vectors, and the
    parameters after it."""

    step: Array
    params: Params


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


def posterior_means(squares: Array, weighted: Array, penalty: float) -> Array:
    """(Σ d dᵀ + penalty I)⁻¹ Σ d y of each user, (U, q)."""
    matrices = squares + penalty * np.eye(squares.shape[1])
    return np.asarray(np.linalg.solve(matrices, weighted[..., None])[..., 0], dtype=float)


def with_field(record: _Record, name: str, value: Any, stale: Sequence[str] = ()) -> _Record:
    """A frozen record with another value of one field; what was computed is kept, except for the
    names in stale."""
    other = copy.copy(record)
    object.__setattr__(other, name, value)
    for computed in stale:
        other.__dict__.pop(computed, None)
    return other
