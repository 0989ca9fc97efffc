"""What the rest of the package asks of a view: how likely a user's vector is, and what there is to draw and to keep."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Base = tuple[Array, Array, Array, float]  # μ_0, R_0, W_0, β


class Components(NamedTuple):
    """Means and precision factors of some components."""

    means: Array
    factors: Array


class ViewState(Protocol):
    """Everything a view learns."""

    @property
    def components(self) -> Components:
        """As the sweep sees them; factors of no dimensions where users share a component's vector."""

    @property
    def base(self) -> Base:
        """What the components share, as the sweep sees it; W_0 of no dimensions where users share a component's vector."""

    @property
    def component_parts(self) -> dict[str, Array]:
        """What there is of each component, by name: arrays (K, …)."""

    @property
    def base_parts(self) -> dict[str, Any]:
        """What the components share, by name."""

    @property
    def n_components(self) -> int:
        """Components, empty ones included."""


class View(Protocol):
    """The law of one vector per user given its cluster, in working units. States are the view's own."""

    @property
    def n_dims(self) -> int:
        """Dimensions of a vector."""

    def log_joint(self, state: Any, x: Array, z: Labels) -> float:
        """ln p(x, components, base | z) up to a constant."""

    def start(self, rng: np.random.Generator, x: Array, z: Labels, n_components: int) -> ViewState:
        """A state to start from, given vectors and clusters."""

    def draw_prior(self, rng: np.random.Generator, n_components: int) -> ViewState:
        """Base and components from the prior."""

    def simulate(self, rng: np.random.Generator, state: Any, z: Labels) -> Array:
        """Vectors given their components."""

    def state(self, components: Components, base: Base) -> ViewState:
        """The record of what a sweep has drawn."""
