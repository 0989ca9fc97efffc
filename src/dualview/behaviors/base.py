"""What the rest of the package asks of a behaviour.

A :class:`Behavior` is what a user makes: observations in the user's units, one object for all users. A :class:`Likelihood` is
what the sampler runs on: the same observations in working units, where the latent vectors have constants (0, I).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dualview.units import GaussianPrior, Whitening

Array = NDArray[np.float64]
Params = dict[str, Any]


class Forecast(NamedTuple):
    """New observations given S draws: location_i = known(cases) + loads · (latent vectors of users new to the fit).

    n: their number. known(cases): (S, cases) for a slice of them. sds (S,): of normal observations around their locations; None
    for yes or no, where the location is the log odds. loads: sparse (n, J q), what the J new users' vectors, laid end to end,
    count for in each observation.
    """

    n: int
    known: Callable[[slice], Array]
    sds: Array | None
    loads: Any


class Evidence(NamedTuple):
    """ln p(observations of new user j | f_j, draw i) = constant + linear · f − fᵀ precision f / 2, in the user's units.

    constant (S, J), linear (S, J, q), precision (S, J, q, q).
    """

    constant: Array
    linear: Array
    precision: Array


class SampledEvidence(NamedTuple):
    """The same where it is no quadratic: log_likelihood(j, draws (R,), latent (R, q)), in the user's units, (R,)."""

    log_likelihood: Callable[[int, NDArray[np.intp], Array], Array]


class Terms(NamedTuple):
    """Observations as the sweep sees them: normal, each linear in the latent vectors of some users.

    User u's observations are rows[starts[u]:starts[u + 1]], with loads (n, q): how each depends on f_u. squares (U, q, q): each
    user's sum of d dᵀ. residual (N,): observation minus expectation, changed in place as latent vectors move. precision: of
    every observation, (N,), or (1,) when they share one.

    For few users who share most observations, where q = 1 and the precision is one: gram (U, U) = dᵀ d and weighted (U,) = dᵀ
    times the observations without what is known of them. The residual is not used then, and may be empty.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    loads: Array
    squares: Array
    residual: Array
    precision: Array
    gram: Array = np.empty((0, 0))
    weighted: Array = np.empty(0)

    @classmethod
    def none(cls, n_users: int) -> "Terms":
        """No observations, and latent vectors of no dimensions."""
        starts, rows = np.zeros(n_users + 1, dtype=np.int64), np.empty(0, dtype=np.uint32)
        return cls(starts, rows, np.empty((0, 0)), np.empty((n_users, 0, 0)), np.empty(0), np.ones(1))


class Prior(NamedTuple):
    """The normal prior of every latent vector: that of its cluster. z (U,), means (K, q), precision factors (K, q, q).

    pooled: the users of a cluster share one vector, and this is its prior. shift (U, q): what is added to each user's vector.
    """

    z: NDArray[np.int64]
    means: Array
    factors: Array
    pooled: bool = False
    shift: Array | None = None


class Likelihood(Protocol):
    """p(observations | latent vectors) with its own few parameters, in working units.

    Given those parameters the observations must be normal and linear in the latent vectors, if need be after an augmentation.
    """

    @property
    def n_dims(self) -> int:
        """q, the dimensions of a latent vector."""

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """Latent vectors (U, q) and parameters to start from."""

    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:
        """The observations for a sweep, with fresh residuals that it may change; an augmentation is drawn here."""

    def redraw(
        self, rng: np.random.Generator, latent: Array, params: Params, terms: Terms, prior: Prior
    ) -> tuple[Array, Params]:
        """The parameters, and latent vectors all at once where users depend on each other so much that one by one is slow.

        terms: those of the sweep before, augmentation included; their residuals belong to latent. With a pooled prior a
        behaviour that moves latent vectors moves those of a cluster as one.
        """

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(observations, params | latent) up to a constant."""

    def draw_prior(self, rng: np.random.Generator) -> Params:
        """Parameters from their prior."""

    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> "Likelihood":
        """The same behaviour with new observations."""

    def reported(self, params: Params) -> Params:
        """The parameters in the user's units; arrays may have leading axes."""


@runtime_checkable
class Behavior(Protocol):
    """Observations of what users did, in the user's units."""

    def __len__(self) -> int:
        """The number of users."""

    def prepare(self, prior: GaussianPrior | None) -> tuple[Whitening, Likelihood]:
        """The units of the latent vectors, from the data where no prior is given, and the likelihood in working units."""

    @property
    def users(self) -> list[str] | None:
        """The users' ids, where they came with some."""

    def aligned(self, users: Sequence[str]) -> "Behavior":
        """The same observations with the users in this order; an error names who is missing on either side."""

    def advice(self, n_rows: int) -> str:
        """What to do when X has n_rows users and the behaviour another number."""

    def coords(self) -> dict[str, Any]:
        """Names along the axes of latent vectors (function) and of the likelihood's own parameters."""

    def described(self) -> dict[str, Any]:
        """What predictions need to know of the behaviour besides the draws, as plain values with a ``kind``."""

    def fingerprint(self) -> dict[str, Any]:
        """Digests of the observations and the options, by name: whether two behaviours are the same."""

    def ridge_estimate(self) -> Array:
        """A quick estimate of each user's latent vector, (U,) or (U, q), for starting partitions."""

    @property
    def param_names(self) -> list[str]:
        """The likelihood's parameters that predictions need, by their names in the posterior."""

    def forecast(self, new: Any, latent: Array, params: Params, n_new: int) -> Forecast:
        """The law of new observations given S draws of known users' latent vectors; n_new more users are unknown to the fit."""

    def evidence(self, new: Any, latent: Array, params: Params, n_new: int) -> Evidence | SampledEvidence:
        """What observations of n_new users unknown to the fit say of each one's latent vector, given S draws."""
