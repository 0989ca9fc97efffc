"""One latent vector for each cluster, which its users share, in working units (m = 0, Σ = I): no spread inside a cluster.

z (U,), means (K, q): the vectors f_k.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dualview.numerics.hyperprior import PUBLISHED, Hyperprior
from dualview.numerics.streams import stream_of
from dualview.views.base import Array, Base, Components, Labels
from dualview.views.gaussian import conditionals as gaussian
from dualview.views.gaussian import density as densities
from dualview.views.gaussian.view import draw_unit_wishart


class PooledState(NamedTuple):
    """Everything a pooled view learns: the vectors f_k, then μ_0, R_0."""

    means: Array
    base_mean: Array
    base_precision: Array

    @property
    def components(self) -> Components:
        return Components(self.means, np.empty((len(self.means), 0, 0)))

    @property
    def base(self) -> Base:
        return self.base_mean, self.base_precision, np.empty((0, 0)), 1.0

    @property
    def component_parts(self) -> dict[str, Array]:
        return {"means": self.means}

    @property
    def base_parts(self) -> dict[str, Any]:
        return {"base_mean": self.base_mean, "base_precision": self.base_precision}

    @property
    def n_components(self) -> int:
        return len(self.means)


@dataclass(frozen=True)
class PooledView:
    """(M2), (M4) and (M5) for vectors of n_dims dimensions, f_u = f_{z_u}."""

    n_dims: int
    hyperprior: Hyperprior = PUBLISHED

    def log_joint(self, state: PooledState, x: Array, z: Labels) -> float:  # noqa: ARG002
        """ln p(components, base) up to a constant; users add nothing."""
        return float(densities.log_pooled(*state, self.hyperprior))

    def start(self, rng: np.random.Generator, x: Array, z: Labels, n_components: int) -> PooledState:
        """A state to start from: base at its prior's centre, the f_k at the means of the vectors, empty ones from the base."""
        means = rng.standard_normal((n_components, self.n_dims))
        for k in range(n_components):
            if (z == k).any():
                means[k] = x[z == k].mean(axis=0)
        return PooledState(means, np.zeros(self.n_dims), np.eye(self.n_dims))

    def draw_prior(self, rng: np.random.Generator, n_components: int) -> PooledState:
        """Base and components from (M2), (M4) and (M5)."""
        base_mean = rng.standard_normal(self.n_dims)
        base_precision = draw_unit_wishart(rng, self.n_dims, self.n_dims - 1 + self.hyperprior.of_means)
        none = PooledState(np.empty((0, self.n_dims)), base_mean, base_precision)
        return none._replace(means=gaussian.draw_from_base(stream_of(rng), n_components, *none.base)[0])

    def simulate(self, rng: np.random.Generator, state: PooledState, z: Labels) -> Array:  # noqa: ARG002
        """Each user's vector: that of its cluster."""
        return state.means[z]

    def state(self, components: Components, base: Base) -> PooledState:
        """The record of what a sweep has drawn."""
        return PooledState(components.means, base[0], base[1])
