"""What the rest of the package asks of a behaviour.

A :class:`Behavior` is what a user makes: observations in the user's units, one object for all users. A :class:`Likelihood` is
what the sampler runs on: the same observations in working units, where the latent vectors have constants (0, I).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dualview.checks import whole_number
from dualview.errors import InputError, InputTypeError
from dualview.kernels.hyperprior import PUBLISHED, Hyperprior
from dualview.kernels.logit_location import Locations
from dualview.outcomes import Outcome
from dualview.units import GaussianPrior, Whitening

Array = NDArray[np.float64]
Params = dict[str, Any]


class ClusterNoise(NamedTuple):
    """Noise of each cluster's own: precision (S, U) of every known user's observations, that of its cluster.

    variance and dof: σ_0² and ν of the prior G(ν, 1/(ν σ_0²)), from which a cluster without users draws its noise.
    """

    precision: Array
    variance: float
    dof: float = 1.0


@dataclass(frozen=True)
class Forecast:
    """New observations given S draws: location_i = known(cases) + loads · (latent vectors of users new to the fit).

    n: their number. known(cases): (S, cases) for a slice of them. outcome: their distribution given the locations. loads:
    sparse (n, J q), what the J new users' vectors, laid end to end, count for in each observation. noise: where it is each
    cluster's own; then observations are of one user each, and those of new users have a normal outcome with standard
    deviations of 0, to which the noise of their clusters is added.
    """

    n: int
    known: Callable[[slice], Array]
    outcome: Outcome
    loads: Any
    noise: ClusterNoise | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.outcome, Outcome):
            raise InputTypeError(
                "The outcome of a Forecast must be a dualview.outcomes.Outcome, such as NormalOutcome(sds) or BinaryOutcome(); "
                f"got {type(self.outcome).__name__}."
            )


class Evidence(NamedTuple):
    """ln p(observations of new user j | f_j, draw i) = constant + linear · f − fᵀ precision f / 2, in the user's units.

    constant (S, J), linear (S, J, q), precision (S, J, q, q). Where the noise is each cluster's own, S = 1, and under a noise
    of precision s these are s times what they say, plus counts (J,) times ln(s/2π)/2.
    """

    constant: Array
    linear: Array
    precision: Array
    counts: NDArray[Any] | None = None
    noise: ClusterNoise | None = None

    def under(self, noise: Array, users: slice) -> "Evidence":
        """For some users, under noises of precision (R,): a row for each."""
        assert self.counts is not None
        scale = noise[:, None]
        constant = scale * self.constant[:, users] + 0.5 * self.counts[users] * np.log(scale / (2 * np.pi))
        return Evidence(constant, scale[..., None] * self.linear[:, users], scale[..., None, None] * self.precision[:, users])


class SampledEvidence(NamedTuple):
    """The same where it is no quadratic: log_likelihood(j, draws (R,), latent (R, q)), in the user's units, (R,)."""

    log_likelihood: Callable[[int, NDArray[np.intp], Array], Array]


class Terms(NamedTuple):
    """Observations as the sweep sees them: normal, each linear in the latent vectors of some users.

    User u's observations are rows[starts[u]:starts[u + 1]], ascending, with loads (n, q): how each depends on f_u. squares
    (U, q, q): each user's sum of d dᵀ. residual (N,): observation minus expectation, changed in place as latent vectors move.
    precision: of every observation, (N,), or (1,) when they share one.

    For few users who share most observations, where q = 1 and the precision is one: gram (U, U) = dᵀ d and weighted (U,) = dᵀ
    times the observations without what is known of them. The residual is not used then, and may be empty.

    noise (U,), where each cluster has a noise of its own: the precision of each user's observations, which belong to one user
    each. The sweep draws it, and keeps precision (N,) equal to it. noise_dof: ν of the prior G(ν, 1/ν) of a noise precision.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    loads: Array
    squares: Array
    residual: Array
    precision: Array
    gram: Array = np.empty((0, 0))
    weighted: Array = np.empty(0)
    noise: Array = np.empty(0)
    noise_dof: float = 1.0

    @classmethod
    def none(cls, n_users: int) -> "Terms":
        """No observations, and latent vectors of no dimensions."""
        starts, rows = np.zeros(n_users + 1, dtype=np.int64), np.empty(0, dtype=np.uint32)
        return cls(starts, rows, np.empty((0, 0)), np.empty((n_users, 0, 0)), np.empty(0), np.ones(1))


class Plain(NamedTuple):
    """What it takes to redraw the parameters inside the sweep's call: normal observations, s ~ G(ν, 1/ν), e ~ N(0, I).

    outcome (N,) = design · latent + covariates (N, C) · coefficients e (C,) + noise of one precision s, the terms'. gram and
    weighted: the normal equations of latent numbers and coefficients together, (U + C, U + C) and (U + C,), or empty. share:
    how often all of them are drawn together; where the equations are empty or lose digits the call ends there, for
    ``redraw_together``.
    """

    outcome: Array
    covariates: Array
    coefficients: Array
    gram: Array
    weighted: Array
    share: float

    @classmethod
    def none(cls) -> "Plain":
        """Nothing to redraw in the call."""
        return cls(np.empty(0), np.empty((0, 0)), np.empty(0), np.empty((0, 0)), np.empty(0), 0.0)


class Prior(NamedTuple):
    """The normal prior of every latent vector: that of its cluster. z (U,), means (K, q), precision factors (K, q, q).

    pooled: the users of a cluster share one vector, and this is its prior. shift (U, q): what is added to each user's vector.
    """

    z: NDArray[np.int64]
    means: Array
    factors: Array
    pooled: bool = False
    shift: Array | None = None


def fold_positions(n: int, n_splits: int, seed: int, what: str) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Pairs of positions (training, held out) of n observations, each held out once; ``what`` they are called in messages."""
    if not 2 <= whole_number(n_splits, "n_splits", 2) <= n:
        raise InputError(f"n_splits must be from 2 to the number of {what}, {n}; got {n_splits}.")
    fold = np.arange(n) % n_splits
    np.random.default_rng(seed).shuffle(fold)
    return [(np.flatnonzero(fold != held_out), np.flatnonzero(fold == held_out)) for held_out in range(n_splits)]


class Likelihood(Protocol):
    """p(observations | latent vectors) with its own few parameters, in working units.

    Given those parameters the observations must be normal and linear in the latent vectors, if need be after an augmentation.
    It may say besides: ``one_user_each`` = True when every observation is of one user, so that very many users go over threads;
    ``per_user``, the names of parameters of which every user has one; and ``plain(params)``, its :class:`Terms` and
    :class:`Plain` (or None) when its parameters can be redrawn inside the sweep's call, which then makes many sweeps at once.
    Such a likelihood has ``params_of(noise_precision, coefficients)`` too, and ``redraw_together`` with the arguments of
    :meth:`redraw` where its share is above 0 and may find no equations. One that leaves latent vectors the tails of their
    prior is :class:`WithHyperprior`, and one whose augmentation holds clusters back is :class:`Relocating`.
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

    def draw_prior(self, rng: np.random.Generator, z: NDArray[np.int64]) -> Params:
        """Parameters from their prior, with users in clusters z (U,)."""

    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> "Likelihood":
        """The same behaviour with new observations."""

    def reported(self, params: Params) -> Params:
        """The parameters in the user's units; arrays may have leading axes."""


@runtime_checkable
class WithHyperprior(Protocol):
    """A likelihood whose latent vectors have another prior than the paper's on what the clusters share."""

    @property
    def hyperprior(self) -> Hyperprior:
        """How heavy the tails of the latent vectors' prior may be."""


def hyperprior_of(likelihood: Likelihood | None) -> Hyperprior:
    """That of the likelihood, or the paper's where it asks for none."""
    return likelihood.hyperprior if isinstance(likelihood, WithHyperprior) else PUBLISHED


@runtime_checkable
class Relocating(Protocol):
    """A likelihood that moves clusters' means together with their users' vectors, its augmentation integrated out."""

    def relocate(self, rng: np.random.Generator, latent: Array, params: Params, locations: Locations) -> Array:
        """Steps δ (K, q) to be added to the clusters' means and to the latent vectors of their users.

        They leave Π_k N(μ_k + δ_k; μ_0, R_0⁻¹) p(observations | f_u + δ_{z_u}, params) as it is. The augmentation, if there
        is one, is drawn right afterwards by ``terms``. Where users share a vector it is the means that they share.
        """


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
