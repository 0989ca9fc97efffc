"""Levels of outcomes, and predictions of a probability for each of them."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.families.base import Array, Mixture
from dualview.checks import as_array, draws_generator
from dualview.errors import InputError


@dataclass(frozen=True)
class Levels:
    """Levels: their names, and the numbers that they count as."""

    names: tuple[str, ...]
    values: Array

    def places(self, outcomes: Any) -> NDArray[np.int64]:
        """Places from 0 of outcomes, which are numbers or names of levels."""
        given = as_array(outcomes, "y")
        if given.ndim != 1:
            raise InputError(
                f"Levels must be one-dimensional, one per case; got shape {given.shape}."
            )
        strange: list[Any]
        if given.dtype.kind in "biuf":
            keys = given.astype(float)
            found = np.minimum(np.searchsorted(self.values, keys), len(self.values) - 1)
            strange = keys[self.values[found] != keys].tolist()
        else:
            place = {name: i for i, name in enumerate(self.names)}
            names = [str(value) for value in given.tolist()]
            found = np.array([place.get(name, -1) for name in names], dtype=np.int64)
            strange = [name for name in names if name not in place]
        if strange:
            raise InputError(f"Levels are {', '.join(self.names)}; got {strange[0]!r}.")
        return np.asarray(found, dtype=np.int64)


class LevelProbabilities(Mixture):
    """A probability of each level in each of n cases."""

    has_gaps = True

    @property
    @abstractmethod
    def _levels(self) -> Levels:
        """The levels, and the numbers that they count as."""

    @property
    @abstractmethod
    def probabilities(self) -> Array:
        """Probability of each level, (n, L)."""

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels, in the order of ``probabilities``."""
        return self._levels.names

    @property
    def mode(self) -> NDArray[np.str_]:
        """The most probable level of each case, (n,)."""
        return np.asarray(np.array(self.levels)[self.probabilities.argmax(axis=1)])

    @property
    def _cumulative(self) -> Array:
        return np.cumsum(self.probabilities, axis=1)

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent levels of each case, as the numbers that they count as, (n, cases)."""
        uniforms = draws_generator(n, seed, self._n * len(self.levels)).random((n, self._n))
        place = (uniforms[..., None] > self._cumulative[None]).sum(axis=-1)
        return np.asarray(self._levels.values[np.minimum(place, len(self.levels) - 1)])

    def _places(self, y: Any) -> NDArray[np.int64]:
        place = self._levels.places(y)
        if len(place) != self._n:
            raise InputError(f"y must have one level per case, {self._n}; got {len(place)}.")
        return place
