"""One latent vector for each cluster, which its users share, in working units (m = 0, Σ = I): no
spread inside a cluster.

z (U,), means (K, q): the vectors f_k.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dualview.numerics.hyperprior import PUBLISHED, Hyperprior
from dualview.numerics.streams import stream_of
from dualview.views.base import Array, Components, Labels, View
from dualview.views.gaussian.conditionals import draw_means
from dualview.views.gaussian.view import draw_unit_wishart
from dualview.views.shared import conditionals
from dualview.views.shared.kind import SharedVector


class SharedVectorState(NamedTuple):
    """Everything a view of shared vectors learns: the vectors f_k, then μ_0, R_0."""

    means: Array
    base_mean: Array
    base_precision: Array

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
class SharedVectorView(View):
    """(M2), (M4) and (M5) for vectors of n_dims dimensions, f_u = f_{z_u}."""

    n_dims: int
    hyperprior: Hyperprior = PUBLISHED

    @property
    def base_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"base_mean": (self.n_dims,), "base_precision": (self.n_dims, self.n_dims)}

    @property
    def component_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"means": (self.n_dims,)}

    def log_joint(self, state: SharedVectorState, x: Array, z: Labels) -> float:  # noqa: ARG002
        """ln p(components, base) up to a constant; users add nothing."""
        return float(conditionals.log_shared(*state, self.hyperprior))

    def log_base(self, parts: Mapping[str, Any]) -> float:
        """ln p(μ_0, R_0), (M4) and (M5)."""
        mean, precision = (np.ascontiguousarray(parts[name]) for name in self.base_shapes)
        return float(
            conditionals.log_shared(np.empty((0, len(mean))), mean, precision, self.hyperprior)
        )

    def start(
        self, rng: np.random.Generator, x: Array, z: Labels, n_components: int
    ) -> SharedVectorState:
        """A state to start from: base at its prior's center, the f_k at the means of the vectors,
        empty ones from the base."""
        means = rng.standard_normal((n_components, self.n_dims))
        for k in range(n_components):
            if (z == k).any():
                means[k] = x[z == k].mean(axis=0)
        return SharedVectorState(means, np.zeros(self.n_dims), np.eye(self.n_dims))

    def draw_prior(self, rng: np.random.Generator, n_components: int) -> SharedVectorState:
        """Base and components from (M2), (M4) and (M5)."""
        base_mean = rng.standard_normal(self.n_dims)
        base_precision = draw_unit_wishart(
            rng, self.n_dims, self.n_dims - 1 + self.hyperprior.of_means
        )
        means = np.empty((n_components, self.n_dims))
        draw_means(stream_of(rng), 0, n_components, means, base_mean, base_precision)
        return SharedVectorState(means, base_mean, base_precision)

    def simulate(self, rng: np.random.Generator, state: SharedVectorState, z: Labels) -> Array:  # noqa: ARG002
        """Each user's vector: that of its cluster."""
        return state.means[z]

    def record(self, state: SharedVectorState, x: Array, rows: Array) -> SharedVector:  # noqa: ARG002
        """The state with its vectors as the sampler sees it."""
        return SharedVector(x, *state, self.hyperprior)

    def state(self, record: SharedVector) -> SharedVectorState:
        """What a sweep has left, as a state."""
        return SharedVectorState(record.means, record.mean, record.precision)

    def restored(self, parts: dict[str, Any]) -> SharedVectorState:
        """The state with these parts, by name."""
        return SharedVectorState(parts["means"], parts["base_mean"], parts["base_precision"])

    def latent_prior(self, record: SharedVector) -> Components:
        """The prior of the vector of each cluster."""
        return Components(*conditionals.prior_of(len(record.means), record.mean, record.precision))
