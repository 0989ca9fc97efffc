"""Outcomes that are one of several ordered levels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit, logit

from dualview.checks import as_array, draws_generator
from dualview.errors import InputError
from dualview.numerics import polya_gamma
from dualview.numerics.streams import stream_of
from dualview.outcomes.base import Array, Mixture, Outcome, Parts
from dualview.outcomes.binary import expected_probability


@dataclass(frozen=True)
class Levels:
    """Ordered levels: their names, and the numbers that they count as."""

    names: tuple[str, ...]
    values: Array

    def places(self, outcomes: Any) -> NDArray[np.int64]:
        """Places from 0 of outcomes, which are numbers or names of levels."""
        given = as_array(outcomes, "y")
        if given.ndim != 1:
            raise InputError(
                f"Levels must be one-dimensional, one per case; got shape {given.shape}."
            )
        if given.dtype.kind in "biuf":
            place = {float(value): i for i, value in enumerate(self.values)}
            keys: list[Any] = given.astype(float).tolist()
        else:
            place = {name: i for i, name in enumerate(self.names)}  # type: ignore[misc]
            keys = [str(value) for value in given.tolist()]
        unknown = [key for key in dict.fromkeys(keys) if key not in place]
        if unknown:
            raise InputError(f"Levels are {', '.join(self.names)}; got {unknown[0]!r}.")
        return np.array([place[key] for key in keys], dtype=np.int64)


class OrdinalOutcome(Outcome):
    """One of several ordered levels; a location η says P(level ≤ l) = σ(c_l − η), cut points (S, L
    − 1) being each draw's."""

    def __init__(self, cut_points: Array, levels: Levels) -> None:
        self.cut_points, self.levels = cut_points, levels

    def of_draws(self, draws: NDArray[np.intp]) -> "OrdinalOutcome":
        return OrdinalOutcome(self.cut_points[draws], self.levels)

    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """Log probabilities of levels given their locations, (S, cases)."""
        place, n_cuts = self.levels.places(values), self.cut_points.shape[1]
        low = self.cut_points[:, np.maximum(place - 1, 0)]
        high = self.cut_points[:, np.minimum(place, n_cuts - 1)]
        with np.errstate(divide="ignore"):
            gap = np.log(-np.expm1(np.where((place > 0) & (place < n_cuts), low - high, -np.inf)))
        above = np.where(place > 0, log_expit(locations - low), 0.0)
        below = np.where(place < n_cuts, log_expit(high - locations), 0.0)
        return np.asarray(above + below + gap)

    def augment(
        self, rng: np.random.Generator, values: Array, locations: Array
    ) -> tuple[Array, Array]:
        """A level is two answers, above the cut point below it and below the one above it, with
        Pólya–Gamma variables each."""
        place, cuts = self.levels.places(values), self.cut_points[0]
        precision, linear = np.zeros((2, len(locations)))
        for sign, asked, cut in (
            (0.5, place > 0, cuts[np.maximum(place - 1, 0)]),
            (-0.5, place < len(cuts), cuts[np.minimum(place, len(cuts) - 1)]),
        ):
            weight = np.empty(len(locations))
            polya_gamma.draw_into(stream_of(rng), locations - cut, weight)
            precision += np.where(asked, weight, 0.0)
            linear += np.where(asked, sign + weight * (cut - locations), 0.0)
        return linear / precision, precision

    def draw(self, rng: np.random.Generator, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """A level for each location, as the number that it counts as, (S, cases)."""
        utility = locations + logit(rng.random(locations.shape))
        place = (utility[..., None] > self.cut_points[:, None, :]).sum(axis=-1)
        return np.asarray(self.levels.values[place])

    def predictive(
        self, n: int, n_components: int, parts: Callable[[slice], Parts]
    ) -> "LevelMixture":
        """Probabilities of the levels."""
        return LevelMixture(n, n_components, parts, self)


class LevelMixture(Mixture):
    """Probabilities of ordered levels in each of n cases; numbers are those that the levels count
    as."""

    has_gaps = True

    def __init__(
        self, n: int, n_components: int, parts: Callable[[slice], Parts], outcome: OrdinalOutcome
    ) -> None:
        super().__init__(n, n_components, parts)
        self._outcome = outcome

    def _besides(self, sources: Sequence[Mixture]) -> tuple[Any, ...]:
        outcomes = [own._outcome for own in sources if isinstance(own, LevelMixture)]
        if any(own.levels.names != self.levels for own in outcomes):
            raise InputError("Predictions of different levels cannot be mixed.")
        cut_points = np.concatenate([own.cut_points for own in outcomes])
        return (OrdinalOutcome(cut_points, self._outcome.levels),)

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels, the lowest first."""
        return self._outcome.levels.names

    @cached_property
    def probabilities(self) -> Array:
        """Probability of each level, (n, L)."""
        cuts = self._outcome.cut_points
        result = np.empty((self._n, cuts.shape[1] + 1))
        for cases, (log_weights, locations, sds) in self._batches():
            weights = np.broadcast_to(np.exp(log_weights), locations.shape)
            weights = weights / weights.sum(axis=0)
            below = [
                (weights * expected_probability(cut[:, None] - locations, sds)).sum(axis=0)
                for cut in cuts.T
            ]
            above = [
                (weights * expected_probability(locations - cut[:, None], sds)).sum(axis=0)
                for cut in cuts.T
            ]
            zeros = np.zeros_like(below[0])
            low, high = np.array([zeros, *below]), np.array([*below, 1.0 + zeros])
            up, down = np.array([1.0 + zeros, *above]), np.array([*above, zeros])
            result[cases] = np.where(
                low < 0.5, high - low, up - down
            ).T  # whichever keeps its digits
        return result

    @property
    def _cumulative(self) -> Array:
        return np.cumsum(self.probabilities, axis=1)

    @property
    def mean(self) -> Array:
        """Expected value of each case."""
        return np.asarray(self.probabilities @ self._outcome.levels.values)

    @property
    def std(self) -> Array:
        """Standard deviation of each case."""
        away = self._outcome.levels.values - self.mean[:, None]
        return np.asarray(np.sqrt((self.probabilities * away**2).sum(axis=1)))

    def quantile(self, probability: float) -> Array:
        """The level that has this probability at or below it."""
        place = (self._cumulative < probability - 1e-12).sum(axis=1)
        return np.asarray(self._outcome.levels.values[np.minimum(place, len(self.levels) - 1)])

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent levels of each case, (n, cases)."""
        uniforms = draws_generator(n, seed, self._n * len(self.levels)).random((n, self._n))
        place = (uniforms[..., None] > self._cumulative[None]).sum(axis=-1)
        return np.asarray(self._outcome.levels.values[np.minimum(place, len(self.levels) - 1)])

    def log_density(self, y: ArrayLike) -> Array:
        """Log probability of the levels y (n,), as numbers or by name."""
        place, n_cuts = self._places(y), len(self.levels) - 1
        below, above = self._tails(y)
        up = below < above  # whichever keeps its digits: from the lower end, or from the upper
        is_end = np.where(up, place == n_cuts, place == 0)
        cut = np.clip(np.where(up, place, place - 1), 0, n_cuts - 1)
        rest = np.where(is_end, 1.0, self._chance(np.where(up, 1.0, -1.0), cut))
        return np.asarray(np.log(rest - np.where(up, below, above)))

    def _chance(self, sign: Array, cut: NDArray[np.int64]) -> Array:
        """Probability of a level up to a cut point where sign (n,) is 1, above it where it is −1;
        cut (n,): its place."""
        result = np.empty(self._n)
        for cases, (log_weights, locations, sds) in self._batches():
            weights = np.broadcast_to(np.exp(log_weights), locations.shape)
            away = sign[cases] * (self._outcome.cut_points[:, cut[cases]] - locations)
            chances = weights / weights.sum(axis=0) * expected_probability(away, sds)
            result[cases] = chances.sum(axis=0)
        return result

    def _places(self, y: ArrayLike) -> NDArray[np.int64]:
        place = self._outcome.levels.places(y)
        if len(place) != self._n:
            raise InputError(f"y must have one level per case, {self._n}; got {len(place)}.")
        return place

    def _tails(self, y: ArrayLike) -> tuple[Array, Array]:
        place, n_cuts, one = self._places(y), len(self.levels) - 1, np.ones(self._n)
        below = np.where(place > 0, self._chance(one, np.maximum(place - 1, 0)), 0.0)
        above = np.where(place < n_cuts, self._chance(-one, np.minimum(place, n_cuts - 1)), 0.0)
        return below, above
