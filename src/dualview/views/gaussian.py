"""A mixture of Gaussians over one vector per user, observed or latent, in working units (m = 0, Σ = I).

x (U, D), z (U,), means (K, D), factors (K, D, D) upper triangular with S_k = T_k T_kᵀ.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dualview.kernels import densities, gaussian
from dualview.kernels.hyperprior import PUBLISHED, Hyperprior
from dualview.kernels.streams import stream_of
from dualview.views.base import Array, Base, Components, Labels


class GaussianState(NamedTuple):
    """Everything a Gaussian view learns: components, then μ_0, R_0, W_0, β."""

    components: Components
    base_mean: Array
    base_precision: Array
    base_covariance: Array
    base_dof: float

    @property
    def base(self) -> Base:
        return self[1:]

    @property
    def component_parts(self) -> dict[str, Array]:
        return self.components._asdict()

    @property
    def base_parts(self) -> dict[str, Any]:
        return dict(zip(self._fields[1:], self[1:], strict=True))

    @property
    def n_components(self) -> int:
        return len(self.components.means)


@dataclass(frozen=True)
class GaussianView:
    """(M1) to (M7) for vectors of n_dims dimensions, with the paper's R_0 and β or, by the hyperprior, lighter tails."""

    n_dims: int
    hyperprior: Hyperprior = PUBLISHED

    def log_joint(self, state: GaussianState, x: Array, z: Labels) -> float:
        """ln p(x, components, base | z) up to a constant."""
        return float(densities.log_view(x, z, *state.components, *state.base, self.hyperprior))

    def start(self, rng: np.random.Generator, x: Array, z: Labels, n_components: int) -> GaussianState:
        """A state to start from: shared parameters at their prior's centre, components drawn given the vectors."""
        eye = np.eye(self.n_dims)
        base = (np.zeros(self.n_dims), eye, eye, self.n_dims + self.hyperprior.least_of_vectors + 1.0)
        means = np.zeros((n_components, self.n_dims))
        for k in range(n_components):
            if (z == k).any():
                means[k] = x[z == k].mean(axis=0)
        sums = gaussian.cluster_sums(np.ascontiguousarray(x), z, means)
        components = Components(*gaussian.draw_components(stream_of(rng), *sums, *base))
        return GaussianState(components, *base)

    def draw_prior(self, rng: np.random.Generator, n_components: int) -> GaussianState:
        """Base and components from (M2) to (M7)."""
        n_dims = self.n_dims
        base_mean = rng.standard_normal(n_dims)
        base_precision = draw_unit_wishart(rng, n_dims, n_dims - 1 + self.hyperprior.of_means)
        base_covariance = draw_unit_wishart(rng, n_dims, n_dims)
        base_dof = n_dims - 1 + self.hyperprior.least_of_vectors + n_dims / rng.chisquare(1.0)
        base = (base_mean, base_precision, base_covariance, base_dof)
        return GaussianState(Components(*gaussian.draw_from_base(stream_of(rng), n_components, *base)), *base)

    def simulate(self, rng: np.random.Generator, state: GaussianState, z: Labels) -> Array:
        """Vectors given their components, (M1)."""
        noise = rng.standard_normal((len(z), self.n_dims))
        means, factors = state.components
        deviations = np.linalg.solve(np.swapaxes(factors[z], -1, -2), noise[..., None])[..., 0]
        return np.asarray(means[z] + deviations)

    def state(self, components: Components, base: Base) -> GaussianState:
        """The record of what a sweep has drawn."""
        return GaussianState(components, *base)


def draw_unit_wishart(rng: np.random.Generator, n_dims: int, dof: int) -> Array:
    """W(ν, I/ν) for whole ν ≥ D: the sum of ν outer products."""
    sample = rng.standard_normal((n_dims, dof))
    return np.asarray(sample @ sample.T / dof)
