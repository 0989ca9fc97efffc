"""Noise about locations as a record of its own: one for all rows, each cluster's, each user's, or
known; and how heavy its tails are.

In working units a noise precision has the prior s ~ G(ν, 1/ν). The prior of degrees of freedom is
in ``numerics.hyperprior``.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dualview.behaviors.families.base import Array, Given, Params, Users
from dualview.distributions import G
from dualview.numerics.hyperprior import LEAST_TAIL_DOF, TAIL_RATE, draw_tail_prior
from dualview.numerics.slice_sampling import slice_sample

TYPICAL = "typical_noise_precision"
_MOST_LOG = 600.0  # a logarithm beyond which numbers leave their range


class NoisePrior(NamedTuple):
    """The prior of a noise precision in the user's units, G(ν, 1/(ν σ_0²)): σ_0², and the
    observations it is worth, ν."""

    variance: float
    dof: float

    @property
    def working(self) -> G:
        """The same in working units."""
        return G(self.dof, self.dof)

    def law(self, residual: Array) -> G:
        """s | residuals (n,), as (C8)."""
        prior = self.working
        return G(prior.dof + len(residual), prior.inverse_scale + float(residual @ residual))

    def redraw(
        self,
        rng: np.random.Generator,
        log_likelihood: Callable[[float], float],
        noise: float,
        n: int,
    ) -> float:
        """The next s by a slice of ln s, from its log likelihood, which rests on n observations."""
        density, width = self.log_density(log_likelihood), 4.0 / math.sqrt(1.0 + 0.2 * n)
        return math.exp(slice_sample(rng, density, math.log(noise), width))

    def log_density(self, log_likelihood: Callable[[float], float]) -> Callable[[float], float]:
        """Log density of ln s up to a constant, from the log likelihood of s with all else held."""
        prior = self.working

        def log_density(log_noise: float) -> float:
            if abs(log_noise) > _MOST_LOG:
                return -math.inf
            noise = math.exp(log_noise)
            return log_likelihood(noise) + prior.log_density(noise) + log_noise

        return log_density

    def reported_log_density(self, noise: Any) -> Array:
        """ln p of precisions in the user's units up to a constant."""
        noise = np.asarray(noise)
        return np.asarray(
            (0.5 * self.dof - 1.0) * np.log(noise) - 0.5 * self.dof * self.variance * noise
        )


def log_dof_prior(dof: Any) -> Any:
    """ln p(ν) of degrees of freedom up to a constant, −inf up to 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(dof) - TAIL_RATE * np.asarray(dof)
        return np.where(np.asarray(dof) > LEAST_TAIL_DOF, found, -np.inf)


class Tails(NamedTuple):
    """Degrees of freedom: known, or a parameter where that is None."""

    known: float | None = None

    def of(self, phi: Params) -> float:
        """As they stand."""
        return float(phi["degrees_of_freedom"]) if self.known is None else self.known

    def _params(self, dof: Any) -> Params:
        return {"degrees_of_freedom": dof} if self.known is None else {}

    def start(self) -> Params:
        return self._params(10.0)

    def log_prior(self, phi: Params) -> float:
        return float(log_dof_prior(phi["degrees_of_freedom"])) if self.known is None else 0.0

    def log_priors(self, reported: Params) -> dict[str, Array]:
        return self._params(log_dof_prior(reported.get("degrees_of_freedom", 1.0)))

    def draw_prior(self, rng: np.random.Generator) -> Params:
        return {} if self.known is not None else self._params(draw_tail_prior(rng))

    def redraw(
        self, rng: np.random.Generator, log_likelihood: Callable[[float], float], phi: Params
    ) -> Params:
        """The next degrees of freedom, by a slice of their logarithm."""
        if self.known is not None:
            return {}
        density = self.log_density(log_likelihood)
        return self._params(math.exp(slice_sample(rng, density, math.log(self.of(phi)), 1.0)))

    @staticmethod
    def log_density(log_likelihood: Callable[[float], float]) -> Callable[[float], float]:
        """Log density of ln ν, up to a constant, from the log likelihood of ν."""

        def log_density(log_dof: float) -> float:
            if not math.log(LEAST_TAIL_DOF) < log_dof < _MOST_LOG:
                return -math.inf
            dof = math.exp(log_dof)
            return log_likelihood(dof) + float(log_dof_prior(dof)) + log_dof

        return log_density


LEARNED_TAILS = Tails()

Hidden = Callable[[float, NDArray[np.intp]], float]  # log likelihood of s, of some rows


class Noise:
    """The noise of normal numbers about their locations, in working units.

    The defaults are those of a noise that is known, s = 1, without parameters.
    """

    per_user: tuple[str, ...] = ()
    is_shared = False  # whether one precision that all rows share is learned

    @property
    def variance(self) -> float:
        """What a variance of 1 in working units is in the user's."""
        return 1.0

    def precision(self, phi: Params, user: Users) -> Array:  # noqa: ARG002
        """Of the rows of these users, (n,), or (1,) where all share one."""
        return np.ones(1)

    def start(self, rng: np.random.Generator, residual: Array, n_users: int) -> Params:  # noqa: ARG002
        """Parameters to start from."""
        return {}

    def redraw(
        self,
        rng: np.random.Generator,  # noqa: ARG002
        given: Given,  # noqa: ARG002
        hidden: Hidden | None = None,  # noqa: ARG002
    ) -> Params:
        """Parameters given exact numbers; or given what is recorded of them, where hidden(s, rows)
        is its log likelihood."""
        return {}

    def log_prior(self, phi: Params) -> float:  # noqa: ARG002
        """ln p of the parameters up to a constant."""
        return 0.0

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:  # noqa: ARG002
        """The same in S draws, by name; z (S, U)."""
        return {}

    def draw_prior(self, rng: np.random.Generator, z: Users) -> Params:  # noqa: ARG002
        """Parameters from their prior."""
        return {}

    def for_sweep(self, phi: Params) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of :class:`Terms` about the noise."""
        return {}

    def reported(self, phi: Params) -> Params:
        """Precisions in the user's units; degrees of freedom have none."""
        return {
            name: np.asarray(value) / (1.0 if name == "degrees_of_freedom" else self.variance)
            for name, value in phi.items()
        }


@dataclass(frozen=True)
class KnownNoise(Noise):
    """A noise that is known, as standard errors are: it has precision 1 in working units."""


@dataclass(frozen=True)
class _LearnedNoise(Noise):
    """A noise with a prior."""

    prior: NoisePrior

    @property
    def variance(self) -> float:
        return self.prior.variance

    def _redraw_hidden(
        self, rng: np.random.Generator, hidden: Hidden, own: NDArray[np.intp], noise: float
    ) -> float:
        """The next s of some rows, with their numbers integrated out: given them it would hardly
        move where intervals are wide."""
        return self.prior.redraw(rng, lambda s: hidden(s, own), noise, len(own))


@dataclass(frozen=True)
class SharedNoise(_LearnedNoise):
    """One noise precision for all rows."""

    is_shared = True

    def precision(self, phi: Params, user: Users) -> Array:  # noqa: ARG002
        return np.array([phi["noise_precision"]])

    def start(self, rng: np.random.Generator, residual: Array, n_users: int) -> Params:  # noqa: ARG002
        return {"noise_precision": self.prior.law(residual).draw(rng)}

    def redraw(
        self, rng: np.random.Generator, given: Given, hidden: Hidden | None = None
    ) -> Params:
        if hidden is None:
            return {"noise_precision": self.prior.law(given.terms.residual).draw(rng)}
        every, noise = np.arange(len(given.rows.eta)), float(given.phi["noise_precision"])
        return {"noise_precision": self._redraw_hidden(rng, hidden, every, noise)}

    def log_prior(self, phi: Params) -> float:
        return self.prior.working.log_density(float(phi["noise_precision"]))

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:  # noqa: ARG002
        return {"noise_precision": self.prior.reported_log_density(reported["noise_precision"])}

    def draw_prior(self, rng: np.random.Generator, z: Users) -> Params:  # noqa: ARG002
        return {"noise_precision": self.prior.working.draw(rng)}

    def for_sweep(self, phi: Params) -> Mapping[str, Any]:  # noqa: ARG002
        return {"noise_dof": self.prior.dof}


class _OwnNoise(_LearnedNoise):
    """A noise of which every user has one."""

    per_user = ("noise_precision",)

    def precision(self, phi: Params, user: Users) -> Array:
        return np.asarray(np.asarray(phi["noise_precision"])[user])


@dataclass(frozen=True)
class NoiseByCluster(_OwnNoise):
    """Each cluster's own noise precision. Every user has that of its cluster, and the sweep draws
    it."""

    def start(self, rng: np.random.Generator, residual: Array, n_users: int) -> Params:
        return {"noise_precision": np.full(n_users, self.prior.law(residual).draw(rng))}

    def redraw(
        self, rng: np.random.Generator, given: Given, hidden: Hidden | None = None
    ) -> Params:
        if hidden is None:
            return {"noise_precision": given.terms.noise}
        noise = np.array(given.terms.noise)
        for cluster in np.unique(given.z):
            users = given.z == cluster
            own = np.flatnonzero(users[given.rows.user])
            noise[users] = self._redraw_hidden(rng, hidden, own, float(noise[users][0]))
        return {"noise_precision": noise}

    def log_prior(self, phi: Params) -> float:
        """The distinct values are the noises of the occupied clusters: users of one share it."""
        noises = np.unique(phi["noise_precision"])
        return sum(self.prior.working.log_density(float(noise)) for noise in noises)

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:
        """The sum over clusters; every user has its own's."""
        found = self.prior.reported_log_density(reported["noise_precision"])
        sizes = np.array([np.bincount(own)[own] for own in z])
        return {"noise_precision": np.asarray((found / sizes).sum(axis=1))}

    def draw_prior(self, rng: np.random.Generator, z: Users) -> Params:
        noises = np.array([self.prior.working.draw(rng) for _ in range(int(z.max()) + 1)])
        return {"noise_precision": noises[z]}

    def for_sweep(self, phi: Params) -> Mapping[str, Any]:
        return {"noise": np.array(phi["noise_precision"]), "noise_dof": self.prior.dof}


def log_own(squares: Array, counts: NDArray[Any], noise: Any, dof: Any) -> Array:
    """Log density of each user's residuals by their sum of squares and number, both (U,), λ
    integrated out."""
    half = 0.5 * np.asarray(dof, dtype=float)
    height = (
        gammaln(half + 0.5 * counts)
        - gammaln(half)
        + 0.5 * counts * np.log(noise / (2.0 * np.pi * half))
    )
    return np.asarray(height - (half + 0.5 * counts) * np.log1p(noise * squares / (2.0 * half)))


@dataclass(frozen=True)
class NoiseByUser(_OwnNoise):
    """Each user's own noise precision, s λ_u with λ_u ~ Gamma(ν/2, ν/2).

    s is a typical precision, and the fewer degrees of freedom, the more users differ. s and ν are
    drawn with the λ_u integrated out, by slices, under which a user's residuals have a multivariate
    t distribution; then the λ_u given both.
    """

    tails: Tails = LEARNED_TAILS

    def start(self, rng: np.random.Generator, residual: Array, n_users: int) -> Params:
        """With the same noise for all."""
        typical = self.prior.law(residual).draw(rng)
        found = {"noise_precision": np.full(n_users, typical), TYPICAL: typical}
        return found | self.tails.start()

    def redraw(
        self, rng: np.random.Generator, given: Given, hidden: Hidden | None = None
    ) -> Params:
        if hidden is not None:
            raise NotImplementedError("NoiseByUser needs outcomes that are exact numbers.")
        rows, phi = given.rows, given.phi
        squares, counts = rows.sums((rows.y - rows.eta) ** 2), rows.counts
        typical = self.prior.redraw(
            rng, self.typical_likelihood(squares, counts, phi), float(phi[TYPICAL]), len(squares)
        )
        found: Params = {TYPICAL: typical}
        found |= self.tails.redraw(rng, self.tails_likelihood(squares, counts, typical), phi)
        shapes, rates = self.own_law(squares, counts, typical, self.tails.of(found))
        return found | {"noise_precision": typical * rng.standard_gamma(shapes) / rates}

    def typical_likelihood(
        self, squares: Array, counts: NDArray[Any], phi: Params
    ) -> Callable[[float], float]:
        """Log likelihood of s given the users' sums of squared residuals and ν."""
        dof = self.tails.of(phi)
        return lambda typical: float(log_own(squares, counts, typical, dof).sum())

    @staticmethod
    def tails_likelihood(
        squares: Array, counts: NDArray[Any], typical: float
    ) -> Callable[[float], float]:
        """Log likelihood of ν given the users' sums of squared residuals and s."""
        return lambda dof: float(log_own(squares, counts, typical, dof).sum())

    @staticmethod
    def own_law(
        squares: Array, counts: NDArray[Any], typical: float, dof: float
    ) -> tuple[Array, Array]:
        """λ_u | rest: shapes and rates (U,) of gamma distributions."""
        return np.asarray(0.5 * (dof + counts), dtype=float), 0.5 * (dof + typical * squares)

    def log_prior(self, phi: Params) -> float:
        typical, half = float(phi[TYPICAL]), 0.5 * self.tails.of(phi)
        share = np.asarray(phi["noise_precision"]) / typical
        of_users = (
            half * math.log(half)
            - float(gammaln(half))
            + (half - 1.0) * np.log(share)
            - half * share
        )
        prior = self.prior.working.log_density(typical) + self.tails.log_prior(phi)
        return float(of_users.sum()) - len(share) * math.log(typical) + prior

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:  # noqa: ARG002
        """Of the typical noise, and of the degrees of freedom where they are learned."""
        found = {TYPICAL: self.prior.reported_log_density(reported[TYPICAL])}
        return found | self.tails.log_priors(reported)

    def draw_prior(self, rng: np.random.Generator, z: Users) -> Params:
        typical = self.prior.working.draw(rng)
        found: Params = {TYPICAL: typical} | self.tails.draw_prior(rng)
        half = 0.5 * self.tails.of(found)
        return found | {"noise_precision": typical * rng.standard_gamma(half, len(z)) / half}
