"""The likelihood of per-user regressions in working units, and its noise: y_i ~ N(x_iᵀ f_{u(i)},
1/s), s ~ G(ν, 1/ν).

s is shared by all, or each cluster has its own. The panel's design and outcome are in working
units; latent (U, q).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.base import Likelihood
from dualview.behaviors.likelihoods.conjugate import Conjugate
from dualview.behaviors.likelihoods.soft_users import PanelEquations, SoftPanel
from dualview.behaviors.panel import Panel, Users, posterior_means, with_field
from dualview.behaviors.records import Array, Params, Prior
from dualview.distributions import G
from dualview.numerics.messages import Terms
from dualview.numerics.python_slices import slice_sample

MOST_LOG = 600.0  # a logarithm beyond which numbers leave their range


class NoisePrior(NamedTuple):
    """The prior of a noise precision in the user's units, G(ν, 1/(ν σ_0²)): σ_0², and the
    observations it is worth, ν."""

    variance: float
    dof: float


class UserRows(Likelihood):
    """Observations of one user each, as a panel has them: locations d_iᵀ f_{u(i)} + constant_i +
    offset_i.

    constant (n,): what is known of them; offset (n,): what effects outside the mixture add. A
    subclass is a frozen dataclass with these fields.
    """

    panel: Panel
    constant: Array | None
    offset: Array | None

    one_user_each = True
    _kept: ClassVar[tuple[str, ...]] = ("_loads",)  # what does not depend on the offset

    @property
    def n_dims(self) -> int:
        return int(self.panel.design.shape[1])

    @cached_property
    def _loads(self) -> tuple[Users, NDArray[np.uint32], Array, Array]:
        return self.panel.starts, self.panel.rows, self.panel.design, self.panel.squares

    def with_offset(self, offset: Array) -> Self:
        for name in self._kept:
            getattr(self, name)  # made once for all of them
        return with_field(self, "offset", offset)

    def predictor(self, latent: Array) -> Array:
        """Locations of all observations, (n,)."""
        eta = self.panel.expected(latent)
        for known in (self.constant, self.offset):
            eta = eta if known is None else eta + known
        return eta

    def with_outcome(self, outcome: Array) -> Self:
        """The same with other outcomes (n,)."""
        return replace(self, panel=self.panel._replace(outcome=outcome))  # type: ignore[type-var]


@dataclass(frozen=True)
class PanelRegression(UserRows):
    """Normal observations of one user each. Given the clusters, users are independent, so the sweep
    draws them exactly."""

    panel: Panel
    noise_prior: NoisePrior
    by_cluster: bool = False
    offset: Array | None = None  # what is added to the locations, (n,)
    known_noise: bool = False  # s = 1, and it is no parameter

    constant = None

    @property
    def per_user(self) -> tuple[str, ...]:
        """Parameters of which every user has one."""
        return ("noise_precision",) if self.by_cluster else ()

    def residual(self, latent: Array) -> Array:
        """Outcomes minus what was expected, (n,)."""
        return self.panel.outcome - self.predictor(latent)

    def start(self, rng: np.random.Generator) -> tuple[Array, Params]:
        """From the posterior under the prior's centre and noise."""
        latent = posterior_means(self.panel.squares, self.panel.weighted, 1.0)
        if self.known_noise:
            return latent, {}
        noise = self.noise_law(self.residual(latent)).draw(rng)
        return latent, {
            "noise_precision": np.full(len(latent), noise) if self.by_cluster else noise
        }

    def terms(self, rng: np.random.Generator, latent: Array, params: Params) -> Terms:  # noqa: ARG002
        """They share the noise, or it is that of each user's cluster."""
        dof = self.noise_prior.dof
        if self.known_noise:
            return Terms(*self._loads, self.residual(latent), np.ones(1))
        if self.by_cluster:
            noise = np.array(params["noise_precision"])
            return Terms(
                *self._loads,
                self.residual(latent),
                noise[self.panel.user],
                noise=noise,
                noise_dof=dof,
            )
        return Terms(
            *self._loads,
            self.residual(latent),
            np.array([params["noise_precision"]]),
            noise_dof=dof,
        )

    def redraw(
        self,
        rng: np.random.Generator,
        latent: Array,
        params: Params,
        terms: Terms,
        prior: Prior,  # noqa: ARG002
    ) -> tuple[Array, Params]:
        """The noise, unless it is known; that of clusters comes from the sweep."""
        if self.known_noise:
            return latent, params
        return latent, {
            "noise_precision": terms.noise
            if self.by_cluster
            else self.noise_law(terms.residual).draw(rng)
        }

    def conjugate(self, params: Params) -> tuple[Terms, Conjugate] | None:
        """With a shared noise there is nothing else to redraw."""
        if self.by_cluster or self.known_noise or self.offset is not None:
            return None
        noise, dof = np.array([params["noise_precision"]]), self.noise_prior.dof
        terms = Terms(*self._loads, np.empty(len(self.panel.outcome)), noise, noise_dof=dof)
        return terms, Conjugate.none()._replace(outcome=self.panel.outcome)

    def params_of(self, noise_precision: float, coefficients: Array) -> Params:  # noqa: ARG002
        return {"noise_precision": noise_precision}

    @property
    def can_approximate(self) -> bool:
        """With a noise that all share, and nothing added to the locations."""
        return not self.by_cluster and self.offset is None

    def approximate(self) -> SoftPanel:
        """q of all latent vectors together."""
        if not self.can_approximate:
            raise NotImplementedError(
                f"{type(self).__name__} has a variational approximation only with one noise for "
                "all."
            )
        return SoftPanel.start(
            PanelEquations(self, self.panel.squares, self.panel.weighted, self._working_prior)
        )

    def noise_law(self, residual: Array) -> G:
        """s | rest, as (C8)."""
        prior = self._working_prior
        return G(prior.dof + len(residual), prior.inverse_scale + float(residual @ residual))

    @property
    def _working_prior(self) -> G:
        """The prior of a noise precision in working units."""
        return G(self.noise_prior.dof, self.noise_prior.dof)

    def log_density(self, latent: Array, params: Params) -> float:
        """ln p(outcome, s | latent) up to a constant; clusters are told apart by their noise, those
        of nobody left out."""
        if self.known_noise:
            return -0.5 * float((self.residual(latent) ** 2).sum())
        noise, squares = np.atleast_1d(params["noise_precision"]), self.residual(latent) ** 2
        precision = noise[self.panel.user] if self.by_cluster else noise
        likelihood = 0.5 * float((np.log(precision) - precision * squares).sum())
        return likelihood + sum(
            self._working_prior.log_density(float(value)) for value in np.unique(noise)
        )

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:
        """Of the noise, unless it is known; where clusters have their own, the sum over them."""
        if self.known_noise:
            return {}
        noise, (variance, dof) = np.asarray(reported["noise_precision"]), self.noise_prior
        log_density = (0.5 * dof - 1.0) * np.log(noise) - 0.5 * dof * variance * noise
        if self.by_cluster:  # every user has that of its cluster
            log_density = (log_density / np.array([np.bincount(own)[own] for own in z])).sum(axis=1)
        return {"noise_precision": np.asarray(log_density)}

    def draw_prior(self, rng: np.random.Generator, z: Users) -> Params:
        if self.known_noise:
            return {}
        prior = self._working_prior
        if not self.by_cluster:
            return {"noise_precision": prior.draw(rng)}
        return {"noise_precision": np.array([prior.draw(rng) for _ in range(int(z.max()) + 1)])[z]}

    def simulate(self, rng: np.random.Generator, latent: Array, params: Params) -> Self:
        """New outcomes."""
        noise = np.asarray(params.get("noise_precision", 1.0))
        precision = noise[self.panel.user] if self.by_cluster else noise
        errors = rng.standard_normal(len(self.panel.outcome)) / np.sqrt(precision)
        return self.with_outcome(self.predictor(latent) + errors)

    def reported(self, params: Params) -> Params:
        return {
            name: np.asarray(value) / self.noise_prior.variance for name, value in params.items()
        }


@dataclass(frozen=True)
class AugmentedRegression(PanelRegression):
    """A regression whose observations are completed before each sweep, by numbers that are
    forgotten after it.

    The noise s ~ G(ν, 1/ν) is drawn with these numbers integrated out, by slices of ln s: given
    them it would hardly move.
    """

    def log_noise_density(
        self, log_likelihood: Callable[[float], float]
    ) -> Callable[[float], float]:
        """Log density of ln s up to a constant, from the log likelihood of s with all else held."""
        prior = self._working_prior

        def log_density(log_noise: float) -> float:
            if abs(log_noise) > MOST_LOG:
                return -math.inf
            noise = math.exp(log_noise)
            return log_likelihood(noise) + prior.log_density(noise) + log_noise

        return log_density

    def next_noise(
        self, rng: np.random.Generator, density: Callable[[float], float], noise: float, n: int
    ) -> float:
        """A step of s from where it is, by its log density, which rests on n observations."""
        return math.exp(slice_sample(rng, density, math.log(noise), 4.0 / math.sqrt(1.0 + 0.2 * n)))

    def conjugate(self, params: Params) -> tuple[Terms, Conjugate] | None:  # noqa: ARG002
        """Observations are completed before each sweep."""
        return None

    @property
    def can_approximate(self) -> bool:
        """Not while observations are to be completed."""
        return False
