"""What the rest of the package asks of a view: how likely a user's vector is, and what there is to
draw and to keep."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dualview.views.soft_vectors import SoftVectors

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


class Base(NamedTuple):
    """What the components of a Gaussian view share: μ_0, R_0, W_0, β."""

    mean: Array
    precision: Array
    covariance: Array
    dof: float


class Components(NamedTuple):
    """Means and precision factors of some components."""

    means: Array
    factors: Array


class ViewState(Protocol):
    """Everything a view learns."""

    @property
    def component_parts(self) -> dict[str, Array]:
        """What there is of each component, by name: arrays (K, …)."""

    @property
    def base_parts(self) -> dict[str, Any]:
        """What the components share, by name."""

    @property
    def n_components(self) -> int:
        """Components, empty ones included."""


class Observed(NamedTuple):
    """A view and its vectors (U, D), which are observed."""

    view: "View"
    vectors: Array


class View(ABC):
    """The distribution of one vector per user given its cluster, in working units. States and
    records are the view's own."""

    n_dims: int  # of a vector

    @property
    def base_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of everything the components share, by name, in the order in which ``put_base``
        packs it."""
        return {}

    @property
    @abstractmethod
    def component_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of what there is of each component, by name, in the order in which
        ``put_component`` packs it."""

    @abstractmethod
    def log_joint(self, state: Any, x: Array, z: Labels) -> float:
        """ln p(x, components, base | z) up to a constant."""

    def log_base(self, parts: Mapping[str, Any]) -> float:  # noqa: ARG002
        """ln of the prior density of what the components share, by name, up to a constant; by
        default they share nothing."""
        return 0.0

    @abstractmethod
    def start(self, rng: np.random.Generator, x: Array, z: Labels, n_components: int) -> ViewState:
        """A state to start from, given vectors and clusters."""

    def soft_vectors(self, x: Array, n_components: int) -> SoftVectors:  # noqa: ARG002
        """What q says of observed vectors to start from: that they are these."""
        return SoftVectors(x)

    def approximate(self, x: Array, responsibilities: Array, joint: bool) -> Any:
        """q of components and base to start from (``views.approximation.Approximation``), given
        q(z), (K, U).

        joint: q of the components' means is that of the latent vectors. By default a view cannot be
        approximated.
        """
        raise NotImplementedError(
            f"{type(self).__name__} lacks `approximate`: it has no variational approximation."
        )

    @abstractmethod
    def draw_prior(self, rng: np.random.Generator, n_components: int) -> ViewState:
        """Base and components from the prior."""

    @abstractmethod
    def simulate(self, rng: np.random.Generator, state: Any, z: Labels) -> Array:
        """Vectors given their components."""

    def observed(self, x: Array, before: Array) -> tuple["View", Array]:  # noqa: ARG002
        """Complete vectors x as they would be observed, where ``before`` was: the view and what it
        sees; by default all."""
        return self, x

    def design(self, x: Array) -> Array:
        """What a link lets latent vectors follow, (U, …): numbers that are 0 on average; by default
        none."""
        return np.empty((len(x), 0))

    def start_vectors(self, x: Array) -> Array:
        """Numbers (U, …) by which k-means finds clusters to start from: by default the vectors,
        standardized, with what is missing (NaN) in the middle."""
        away = x - np.nanmean(x, axis=0)
        sds = np.sqrt(np.nanmean(away**2, axis=0))
        return np.asarray(np.nan_to_num(away / np.where(sds > 0.0, sds, 1.0)))

    @abstractmethod
    def record(self, state: Any, x: Array, rows: Array) -> Any:
        """The state and its vectors as the sampler sees them: a record of a registered kind. rows
        (D, U): vectors observed."""

    @abstractmethod
    def state(self, record: Any) -> ViewState:
        """What a sweep has left, as a state."""

    @property
    def tables(self) -> tuple[int, ...]:
        """The table of features that each of its parts belongs to: the first by default."""
        return (0,)

    @property
    def parts(self) -> tuple["View", ...]:
        """The views that the sampler sees in its place: itself by default."""
        return (self,)

    def records(self, state: Any, x: Array, rows: Array) -> tuple[Any, ...]:
        """A record for each of its parts."""
        return (self.record(state, x, rows),)

    def of_records(self, records: Sequence[Any]) -> ViewState:
        """What a sweep has left in the records of its parts, as a state."""
        return self.state(records[0])

    def joined(self, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """What there is of its parts, by name, as what there is of the whole; arrays may have
        leading axes."""
        return parts[0]

    @abstractmethod
    def restored(self, parts: dict[str, Any]) -> ViewState:
        """The state with these component and base parts, by name."""

    def latent_prior(self, record: Any) -> Components:
        """The normal prior of the latent vectors of each cluster, of views of latent vectors."""
        raise TypeError(f"{type(record).__name__} is not a kind of latent vectors.")

    def any_narrow(self, records: Sequence[Any], least: float) -> bool:
        """Whether clusters are that narrow in some of its parts."""
        return any(
            part.is_narrow(record, least) for part, record in zip(self.parts, records, strict=True)
        )

    def is_narrow(self, record: Any, least: float) -> bool:  # noqa: ARG002
        """Whether clusters are so narrow in some direction that their variance is below the least;
        by default never."""
        return False
