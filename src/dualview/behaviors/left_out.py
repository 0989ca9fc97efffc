"""Observations left out one at a time, with the latent vectors integrated out: what leave-one-out
scores weigh draws by.

Given clusters and parameters, outcomes are linear in vectors with normal priors. Then the
distribution of an observation given all others has a closed form, (L1) in docs/model.md; yes-or-no
outcomes take a quadrature. The importance weights of a draw carry clusters and parameters only, not
the vectors that each observation has pulled towards itself, nor, where outcomes are normal, the
means of their clusters.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dualview.behaviors.records import Array, LatentPrior, LeftOut, LeftOutLaws, Params
from dualview.errors import DegenerateError


class NormalLaws(LeftOutLaws):
    """Normal distributions with locations and standard deviations (n,)."""

    def __init__(self, locations: Array, sds: Array) -> None:
        self.locations, self.sds = locations, sds

    def log_density(self, values: Array) -> Array:
        return np.asarray(
            -0.5 * np.log(2 * np.pi)
            - np.log(self.sds)
            - 0.5 * ((values - self.locations) / self.sds) ** 2
        )

    def standardised(self, rng: np.random.Generator, values: Array) -> Array:  # noqa: ARG002
        return np.asarray((values - self.locations) / self.sds)


class BinaryLaws(LeftOutLaws):
    """Outcomes 0 and 1: log probabilities (n,) of the values that were observed."""

    def __init__(self, observed: Array, log_probabilities: Array) -> None:
        self.observed, self.log_probabilities = observed, log_probabilities

    @property
    def chances(self) -> Array:
        """Probabilities of 1, (n,)."""
        likely = np.exp(self.log_probabilities)
        return np.asarray(np.where(self.observed == 1.0, likely, 1.0 - likely))

    def log_density(self, values: Array) -> Array:
        same = values == self.observed
        return np.asarray(
            np.where(
                same,
                self.log_probabilities,
                np.log(-np.expm1(np.minimum(self.log_probabilities, -1e-300))),
            )
        )

    def standardised(self, rng: np.random.Generator, values: Array) -> Array:
        """0 lies in the first 1 − p of the unit interval, 1 in the rest."""
        chances, place = self.chances, rng.random(len(values))
        levels = np.where(values == 1.0, 1.0 - chances * (1.0 - place), (1.0 - chances) * place)
        return np.asarray(ndtri(np.clip(levels, 1e-15, 1.0 - 1e-15)))


def normal_laws(outcome: Array, residual: Array, leverage: Array, precision: Any) -> NormalLaws:
    """(L1) from residuals and leverages (n,) of the fit to all observations."""
    left = 1.0 - leverage
    if not np.all(left > 0.0):
        raise DegenerateError(
            "An observation cannot be left out: what the others say about it is lost to round-off."
        )
    return NormalLaws(outcome - residual / left, 1.0 / np.sqrt(precision * left))


@dataclass(frozen=True)
class PanelLeftOut(LeftOut):
    """Observations of one user each: user (n,), design (n, q), outcome (n,).

    offset(params): what effects outside the mixture add to the locations, (1, n), given them; None
    for nothing. weights (n,): by what the noise's precision is multiplied; it is 1 where params
    have none.
    """

    user: NDArray[np.int64]
    design: Array
    outcome: Array
    offset: Callable[[Params], Array] | None = None
    weights: Array | None = None

    @cached_property
    def _squares(self) -> Array:
        return self.design[:, :, None] * self.design[:, None, :]

    def _precision(self, params: Params) -> Array:
        """Of every observation, (n,)."""
        noise = np.asarray(params.get("noise_precision", 1.0), dtype=float)
        precision = np.full(len(self.user), noise) if noise.ndim == 0 else noise[self.user]
        return precision if self.weights is None else precision * self.weights

    def _offset(self, params: Params) -> Array:
        assert self.offset is not None
        return np.asarray(
            self.offset({name: np.asarray(value)[None] for name, value in params.items()})[0]
        )

    def laws(self, prior: LatentPrior, params: Params, latent: Array) -> NormalLaws:  # noqa: ARG002
        precision, outcome = self._precision(params), self.outcome
        if self.offset is not None:
            outcome = outcome - self._offset(params)
        if prior.shift.any():
            outcome = outcome - (self.design * prior.shift[self.user]).sum(axis=1)
        n_users, q = len(prior.z), self.design.shape[1]
        squares, linear = np.zeros((n_users, q, q)), np.zeros((n_users, q))
        np.add.at(squares, self.user, precision[:, None, None] * self._squares)
        np.add.at(linear, self.user, (precision * outcome)[:, None] * self.design)
        vectors, covariances = _posterior_of_vectors(prior, squares, linear)
        leverage = precision * np.einsum(
            "nq,nqr,nr->n", self.design, covariances[self.user], self.design
        )
        return normal_laws(
            self.outcome,
            outcome - (self.design * vectors[self.user]).sum(axis=1),
            leverage,
            precision,
        )

    def replicate(
        self, rng: np.random.Generator, prior: LatentPrior, params: Params
    ) -> "tuple[PanelLeftOut, Array, Array]":
        vectors = drawn_vectors(rng, prior)
        precision = self._precision(params)
        outcome = (self.design * vectors[self.user]).sum(axis=1) + rng.standard_normal(
            len(self.user)
        ) / np.sqrt(precision)
        if self.offset is not None:
            outcome = outcome + self._offset(params)
        return replace(self, outcome=outcome), outcome, vectors


def drawn_vectors(rng: np.random.Generator, prior: LatentPrior) -> Array:
    """Latent vectors (U, q) from their prior, means of clusters included."""

    def normal(precisions: Array) -> Array:
        factors = np.linalg.cholesky(precisions)
        noise = rng.standard_normal((len(precisions), precisions.shape[-1], 1))
        return np.asarray(np.linalg.solve(np.swapaxes(factors, -1, -2), noise)[..., 0])

    means = prior.base_mean + normal(np.tile(prior.base_precision, (len(prior.means), 1, 1)))
    vectors = means[prior.z] + prior.shift
    return vectors if prior.precisions is None else vectors + normal(prior.precisions[prior.z])


def _posterior_of_vectors(prior: LatentPrior, squares: Array, linear: Array) -> tuple[Array, Array]:
    """Mean (U, q) and covariance (U, q, q) of each user's vector without its shift, means of
    clusters integrated out.

    ln p(observations of u | f) = linear_u · f − fᵀ squares_u f/2 up to a constant. Users who do not
    share a vector depend on each other through their cluster's mean only: given it, f_u ~
    N(Λ_u⁻¹(S_k μ_k + linear_u), Λ_u⁻¹), Λ_u = S_k + squares_u.
    """
    z, (n_clusters, q) = prior.z, prior.means.shape
    matrices, pull = (
        np.tile(prior.base_precision, (n_clusters, 1, 1)),
        np.tile(prior.base_precision @ prior.base_mean, (n_clusters, 1)),
    )
    identity = np.eye(q)
    if prior.precisions is None:
        np.add.at(matrices, z, squares)
        np.add.at(pull, z, linear)
        covariances = np.linalg.solve(matrices, np.broadcast_to(identity, matrices.shape))
        return (covariances @ pull[..., None])[z, :, 0], np.asarray(covariances[z])
    own = prior.precisions[z]
    given = np.linalg.solve(own + squares, np.broadcast_to(identity, own.shape))  # Λ_u⁻¹
    follow = given @ own  # how f_u follows μ_k
    np.add.at(matrices, z, own - own @ follow)
    np.add.at(pull, z, (np.swapaxes(follow, -1, -2) @ linear[..., None])[..., 0])
    of_means = np.linalg.solve(matrices, np.broadcast_to(identity, matrices.shape))
    means = (of_means @ pull[..., None])[..., 0]
    vectors = (follow @ means[z][..., None])[..., 0] + (given @ linear[..., None])[..., 0]
    return vectors, np.asarray(given + follow @ of_means[z] @ np.swapaxes(follow, -1, -2))
