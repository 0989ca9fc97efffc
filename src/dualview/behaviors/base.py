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
    """New observations given S draws: location_i = known(cases) + loads · (latent coefficients of users new to the fit).

    n: their number. known(cases): (S, cases) for a slice of them. sds (S,). loads: sparse (n, J), what each of the J new users
    counts for in each observation.
    """

    n: int
    known: Callable[[slice], Array]
    sds: Array
    loads: Any


class Evidence(NamedTuple):
    """ln p(observations of new user j | f_j, draw i) = constant + linear f − precision f²/2, each (S, J), in user's units."""

    constant: Array
    linear: Array
    precision: Array


class Likelihood(Protocol):
    """p(observations | latent vectors) with its own few parameters, in working units."""

    @property
    def n_dims(self) -> int:
        """q, the dimensions of a latent vector."""

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """Latent vectors (U, q) and parameters to start from."""

    def redraw(
        self, rng: np.random.Generator, params: Params, prior_means: Array, prior_factors: Array
    ) -> tuple[Array, Params]:
        """Latent vectors given each user's normal prior (means (U, q), precision factors (U, q, q)), then the parameters."""

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

    def coords(self) -> dict[str, Any]:
        """Names along the axes of the likelihood's own parameters."""

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

    def evidence(self, new: Any, latent: Array, params: Params, n_new: int) -> Evidence:
        """What observations of n_new users unknown to the fit say of each one's latent vector, given S draws."""
