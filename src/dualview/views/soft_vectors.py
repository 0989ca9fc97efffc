"""What a variational engine's q says of the users' vectors, which a view looks at."""

from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Hidden(Protocol):
    """q of what is not observed of the vectors of some users, given their components."""

    @property
    def users(self) -> NDArray[np.intp]:
        """Who they are, (n,)."""

    @property
    def working(self) -> Array:
        """E x_u given the component, in working units, (K, n, D)."""

    def take(self, components: NDArray[np.intp]) -> Self:
        """With these components only, in this order."""


class SoftVectors(NamedTuple):
    """What q says of the users' vectors: means (U, D) and, where they are latent, covariances (U,
    D, D).

    crosses (K, U, D, D): covariances of each user's vector with each component's mean, where q has
    both together. hidden: q of what is not observed of some users' vectors, given their components;
    these users' means are values to start from.
    """

    means: Array
    covariances: Array | None = None
    crosses: Array | None = None
    hidden: Hidden | None = None

    def of_component(self, k: int) -> Array:
        """E x_u given that u is in component k, (U, D)."""
        if self.hidden is None:
            return self.means
        found = self.means.copy()
        found[self.hidden.users] = self.hidden.working[k]
        return found

    def take(self, components: NDArray[np.intp]) -> "SoftVectors":
        """With these components only, in this order."""
        crosses = None if self.crosses is None else self.crosses[components]
        hidden = None if self.hidden is None else self.hidden.take(components)
        return self._replace(crosses=crosses, hidden=hidden)

    def of_users(self, users: Any) -> "SoftVectors":
        """Those of some users, by a slice or by positions; of vectors without hidden parts."""
        covariances = None if self.covariances is None else self.covariances[users]
        crosses = None if self.crosses is None else self.crosses[:, users]
        return SoftVectors(self.means[users], covariances, crosses)
