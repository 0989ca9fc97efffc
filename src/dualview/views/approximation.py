"""What a variational engine asks of a view: q of its components and of what they share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dualview.views.base import ViewState
from dualview.views.soft_vectors import SoftVectors

Array = NDArray[np.float64]


class Approximation(ABC):
    """q of a view's components and of what they share.

    ``factors`` is the record that the verbs ``expected_score`` and ``absorb`` take. Every method
    returns a new object.
    """

    @property
    @abstractmethod
    def factors(self) -> Any:
        """The record for the verbs."""

    @abstractmethod
    def updates(self) -> tuple[str, ...]:
        """Names of the methods that update one factor of q each, in the order of a step; each takes
        the sums of ``absorb``."""

    @abstractmethod
    def fitted(self, sums: Any) -> float:
        """Σ_u Σ_k q(z_u = k) E ln p(vector of u | k), from the sums over users."""

    @abstractmethod
    def bound(self) -> float:
        """E ln p(components, base) + the entropy of their q."""

    @abstractmethod
    def draws(self, rng: np.random.Generator, n: int) -> Sequence[ViewState]:
        """States of the view, all components included, from q."""

    @abstractmethod
    def from_base(self, rng: np.random.Generator, state: Any, n: int) -> ViewState:
        """n components from the prior given what components share in a state."""

    @abstractmethod
    def log_ratio(self, state: Any) -> float:
        """ln p(components, base) − ln q(components, base) at a state that :meth:`draws` made, up to
        a constant."""

    @abstractmethod
    def scores(self, state: Any, vectors: SoftVectors) -> Array:
        """ln p(vector of user u | component k) at a state, (K, U); what is not observed of a vector
        is integrated out."""

    def completed(self, vectors: SoftVectors) -> SoftVectors:
        """Vectors with the best q of what is not observed of them, where there is such; as they are
        by default."""
        return vectors

    def with_hidden(
        self,
        rng: np.random.Generator,  # noqa: ARG002
        state: Any,
        z: NDArray[np.int64],  # noqa: ARG002
        vectors: SoftVectors,  # noqa: ARG002
    ) -> Any:
        """A state that :meth:`draws` made, with what is not observed of the vectors of users in
        clusters z drawn."""
        return state

    @abstractmethod
    def take(self, components: NDArray[np.intp]) -> Self:
        """q with these components only, in this order; one may be there twice."""

    @abstractmethod
    def whitened(self, component: int, x: Array) -> Array:
        """Vectors x (U, D) about a component's mean, in units of its width, in which near is alike,
        (U, …)."""

    @abstractmethod
    def numbers(self) -> Array:
        """Numbers without constraints that change slowly from step to step, for extrapolation,
        (n,)."""

    @abstractmethod
    def with_numbers(self, numbers: Array) -> Self:
        """q with these numbers in the place of its own."""


def log_matrices(matrices: Array) -> Array:
    """Logarithms of symmetric positive definite matrices (…, D, D)."""
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray((vectors * np.log(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def exp_matrices(matrices: Array) -> Array:
    """Exponentials of symmetric matrices (…, D, D)."""
    values, vectors = np.linalg.eigh(0.5 * (matrices + np.swapaxes(matrices, -1, -2)))
    return np.asarray((vectors * np.exp(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2))
