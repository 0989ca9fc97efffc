"""The categorical family: one of K levels without an order, by the multinomial probit.

Each level has a utility N(η_k, 1), and the level with the highest utility is observed: it is the
first place of a ranking of the levels, of which no other place is known. So the augmentation, which
is exact, and the likelihood of rows are those of rankings; here is the distribution of a level
given the K locations of its observation, which lie side by side.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from dualview.behaviors.families.base import Array, Mixture, Outcome, Parts
from dualview.behaviors.families.levels import LevelProbabilities, Levels
from dualview.behaviors.families.ranking import Orders
from dualview.errors import DegenerateError, InputError
from dualview.numerics.ordered_normals import first_probabilities, log_first_probabilities

Places = NDArray[np.int64]
_LARGEST = 1e100  # of expected utilities, which are squared


def first_of(place: Places, n_levels: int) -> Orders:
    """Observed levels (n,) as rankings of which the first place is known, K rows each."""
    order = np.argsort(np.arange(n_levels) != place[:, None], axis=1, kind="stable")
    first = n_levels * np.arange(len(place) + 1)
    return Orders((order + first[:-1, None]).ravel(), first, np.ones(len(place), dtype=np.int64))


def log_probabilities(place: Places, locations: Array) -> Array:
    """Of observed levels (n,) given the utilities' expectations (S, n K), (S, n)."""
    if not (np.abs(locations) < _LARGEST).all():
        raise DegenerateError("Expected utilities of levels have left the range of numbers.")
    return np.asarray(log_first_probabilities(np.ascontiguousarray(locations), place))


class CategoricalOutcome(Outcome):
    """One of K levels; the locations of an observation are K expected utilities."""

    is_joint = True

    def __init__(self, levels: Levels) -> None:
        self.levels, self.n_locations = levels, len(levels.names)

    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """Log probabilities of levels (n,) given the utilities' expectations (S, n K), (S, n)."""
        return log_probabilities(self.levels.places(values), locations)

    def draw(self, rng: np.random.Generator, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """Levels as the numbers that they count as, (S, n)."""
        utilities = locations + rng.standard_normal(locations.shape)
        place = utilities.reshape(len(locations), -1, self.n_locations).argmax(axis=2)
        return np.asarray(self.levels.values[place])

    def predictive(
        self, n: int, n_components: int, parts: Callable[[slice], Parts]
    ) -> "CategoricalMixture":
        """Probabilities of the levels."""
        each = self.n_locations

        def of_observations(cases: slice) -> Parts:
            return parts(slice(each * cases.start, each * cases.stop))

        return CategoricalMixture(n // each, n_components, of_observations, self.levels)


class CategoricalMixture(LevelProbabilities):
    """Probabilities of K levels without an order in each of n cases; the parts of a case have K
    columns."""

    def __init__(
        self, n: int, n_components: int, parts: Callable[[slice], Parts], levels: Levels
    ) -> None:
        super().__init__(n, n_components, parts)
        self._known = levels

    @property
    def _levels(self) -> Levels:
        return self._known

    def _besides(self, sources: Sequence[Mixture]) -> tuple[Any, ...]:
        if any(getattr(own, "levels", None) != self.levels for own in sources):
            raise InputError("Predictions of different levels cannot be mixed.")
        return (self._known,)

    def _weighted(self) -> Iterator[tuple[slice, Array, Array]]:
        """Some cases with their log weights (S, cases), and expected utilities (S, cases K)."""
        for cases, (log_weights, locations, _) in self._batches():
            each = np.broadcast_to(log_weights, locations.shape)[:, :: len(self.levels)]
            each = each - logsumexp(each, axis=0)
            yield cases, each, np.ascontiguousarray(locations)

    @cached_property
    def probabilities(self) -> Array:
        """Probability of each level, (n, K)."""
        result = np.empty((self._n, len(self.levels)))
        for cases, log_weights, locations in self._weighted():
            starts = len(self.levels) * np.arange(log_weights.shape[1] + 1)
            chances = first_probabilities(locations, starts)
            chances = chances.reshape(*log_weights.shape, len(self.levels))
            result[cases] = np.einsum("sn,snk->nk", np.exp(log_weights), chances)
        return result

    @property
    def mean(self) -> Array:
        """There is none: levels have no order."""
        raise self._without_order("mean")

    @property
    def std(self) -> Array:
        """There is none: levels have no order."""
        raise self._without_order("standard deviation")

    def quantile(self, probability: float) -> Array:  # noqa: ARG002
        """There is none: levels have no order."""
        raise self._without_order("quantile")

    def _without_order(self, what: str) -> InputError:
        return InputError(
            f"Levels without an order ({', '.join(self.levels)}) have no {what}. Use "
            "probabilities, mode or draws."
        )

    def log_density(self, y: ArrayLike) -> Array:
        """Log probability of the levels y (n,), as numbers or by name."""
        place, result = self._places(y), np.empty(self._n)
        for cases, log_weights, locations in self._weighted():
            own = log_probabilities(place[cases], locations)
            result[cases] = logsumexp(log_weights + own, axis=0)
        return result

    def _tails(self, y: ArrayLike) -> tuple[Array, Array]:
        """In the order in which levels are listed."""
        place, rows = self._places(y), np.arange(self._n)
        up_to = np.column_stack([np.zeros(self._n), self._cumulative])
        return up_to[rows, place], np.maximum(1.0 - up_to[rows, place + 1], 0.0)
