"""The ordinal family: one of several ordered levels by cumulative logits, P(y ≤ l) = σ(c_l − η).

With h = c_y and l = c_{y−1} the cut points about the level of a row,

    σ(h − η) − σ(l − η) = σ(η − l) σ(h − η) (1 − e^{−(h − l)}).

So, given the cut points, a row counts as two answers: yes to "above l", no to "above h"; one of
them at the ends. The Pólya–Gamma augmentation and the moves of location are those of yes-or-no
answers (``logit``). Cut points are drawn with the augmentation integrated out, given the locations,
by slices: given an augmentation they would hardly move.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, logit

from dualview.behaviors.families.base import (
    Array,
    Family,
    Given,
    Mixture,
    Outcome,
    Params,
    Parts,
    RowAnswers,
    Rows,
    Users,
)
from dualview.behaviors.families.levels import LevelProbabilities, Levels
from dualview.behaviors.families.logit import expected_probability
from dualview.checks import checked_probability
from dualview.errors import InputError
from dualview.numerics import polya_gamma
from dualview.numerics.hyperprior import FINITE_VARIANCES
from dualview.numerics.slice_sampling import slice_sample
from dualview.numerics.streams import stream_of


def log_gap(width: Any) -> Array:
    """ln(1 − e^{−width}), −inf where cut points are not in order."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(width > 0.0, np.log(-np.expm1(-np.maximum(width, 0.0))), -np.inf)


def level_answers(place: Users, eta: Array, cuts: Array) -> RowAnswers:
    """Levels as two answers each, one after the other, with log odds of above a cut point.

    A sign is +1 for above the cut point below the level, −1 for below the one above it. The lowest
    level has no cut point below it, the highest none above: that answer says nothing.
    """
    n_cuts = len(cuts)
    asked = np.column_stack([np.maximum(place - 1, 0), np.minimum(place, n_cuts - 1)])
    signs = np.column_stack([1.0 * (place > 0), -1.0 * (place < n_cuts)])
    return RowAnswers(signs.ravel(), np.repeat(eta, 2) - cuts[asked.ravel()])


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
        gap = log_gap(np.where((place > 0) & (place < n_cuts), high - low, np.inf))
        above = np.where(place > 0, log_expit(locations - low), 0.0)
        below = np.where(place < n_cuts, log_expit(high - locations), 0.0)
        return np.asarray(above + below + gap)

    def augment(
        self, rng: np.random.Generator, values: Array, locations: Array
    ) -> tuple[Array, Array]:
        """A level is two answers, above the cut point below it and below the one above it, with
        Pólya–Gamma variables each."""
        signs, odds = level_answers(self.levels.places(values), locations, self.cut_points[0])
        weights = np.empty(len(odds))
        polya_gamma.draw_into(stream_of(rng), odds, weights)
        linear = np.where(signs == 0.0, 0.0, 0.5 * signs - weights * odds)
        precision = np.where(signs == 0.0, 0.0, weights).reshape(-1, 2).sum(axis=1)
        return linear.reshape(-1, 2).sum(axis=1) / precision, precision

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


class LevelMixture(LevelProbabilities):
    """Probabilities of ordered levels in each of n cases; numbers are those that the levels count
    as."""

    def __init__(
        self, n: int, n_components: int, parts: Callable[[slice], Parts], outcome: OrdinalOutcome
    ) -> None:
        super().__init__(n, n_components, parts)
        self._outcome = outcome

    @property
    def _levels(self) -> Levels:
        return self._outcome.levels

    def _besides(self, sources: Sequence[Mixture]) -> tuple[Any, ...]:
        outcomes = [own._outcome for own in sources if isinstance(own, LevelMixture)]
        if any(own.levels.names != self.levels for own in outcomes):
            raise InputError("Predictions of different levels cannot be mixed.")
        cut_points = np.concatenate([own.cut_points for own in outcomes])
        return (OrdinalOutcome(cut_points, self._outcome.levels),)

    @cached_property
    def probabilities(self) -> Array:
        """Probability of each level, (n, L)."""
        cuts = self._outcome.cut_points
        result = np.empty((self._n, cuts.shape[1] + 1))
        for cases, (log_weights, locations, sds) in self._batches():
            weights = np.broadcast_to(np.exp(log_weights), locations.shape)
            weights = weights / weights.sum(axis=0)
            chances = [expected_probability(cut[:, None] - locations, sds) for cut in cuts.T]
            below, above = (
                [(weights * side).sum(axis=0) for side in own] for own in zip(*chances, strict=True)
            )
            zeros = np.zeros_like(below[0])
            low, high = np.array([zeros, *below]), np.array([*below, 1.0 + zeros])
            up, down = np.array([1.0 + zeros, *above]), np.array([*above, zeros])
            result[cases] = np.where(
                low < 0.5, high - low, up - down
            ).T  # whichever keeps its digits
        return result

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
        probability = checked_probability(probability, "A quantile's")
        place = (self._cumulative < probability - 1e-12).sum(axis=1)
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
            chances = weights / weights.sum(axis=0) * expected_probability(away, sds)[0]
            result[cases] = chances.sum(axis=0)
        return result

    def _tails(self, y: ArrayLike) -> tuple[Array, Array]:
        place, n_cuts, one = self._places(y), len(self.levels) - 1, np.ones(self._n)
        below = np.where(place > 0, self._chance(one, np.maximum(place - 1, 0)), 0.0)
        above = np.where(place < n_cuts, self._chance(-one, np.minimum(place, n_cuts - 1)), 0.0)
        return below, above


class Known(NamedTuple):
    """A cut point that is not learned: its place and its value."""

    place: int
    value: float


class CutPrior(NamedTuple):
    """Cut points (n,) are ordered draws from the logistic distribution, given the one that is
    known, if any is."""

    n: int
    known: Known | None = None

    @property
    def free(self) -> list[int]:
        """Places of the cut points that are learned."""
        return [place for place in range(self.n) if self.known is None or place != self.known.place]

    def log_density(self, cuts: Array) -> Any:
        """Up to a constant, of cut points (…, n) in order."""
        return log_logistic(np.asarray(cuts)[..., self.free]).sum(axis=-1)

    def draw(self, rng: np.random.Generator) -> Array:
        if self.known is None:
            return np.asarray(np.sort(logit(rng.random(self.n))))
        place, value = self.known
        share = expit(value)
        below, above = (
            rng.random(place) * share,
            share + rng.random(self.n - 1 - place) * (1.0 - share),
        )
        return np.concatenate([np.sort(logit(below)), [value], np.sort(logit(above))])


def log_logistic(x: Array) -> Array:
    """Log density of the logistic distribution."""
    return np.asarray(log_expit(x) + log_expit(-x))


@dataclass(frozen=True)
class OrdinalFamily(Family):
    """Levels, y being their places 0 to n; the parameters are n cut points."""

    cut_prior: CutPrior

    # lowest and highest levels throughout leave latent vectors the tails of their prior
    hyperprior = FINITE_VARIANCES
    n_answers = 2

    @cached_property
    def _levels(self) -> Levels:
        """Levels that are called as their places."""
        places = range(self.cut_prior.n + 1)
        return Levels(tuple(map(str, places)), np.array(places, dtype=float))

    def outcome(self, phi: Params, rows: Rows) -> Outcome:  # noqa: ARG002
        return OrdinalOutcome(np.asarray(phi["cut_points"])[None], self._levels)

    def _first_cuts(self, y: Array) -> Array:
        """From the shares of the levels."""
        counts = np.bincount(y.astype(np.int64), minlength=self.cut_prior.n + 1) + 0.5
        cuts = np.asarray(logit(np.cumsum(counts)[:-1] / counts.sum()))
        known = self.cut_prior.known
        return cuts if known is None else cuts - cuts[known.place] + known.value

    def pull(self, y: Any, eta: Array) -> tuple[Array, float]:
        """Those of both answers."""
        signs, odds = level_answers(y.astype(np.int64), eta, self._first_cuts(y))
        return (signs * expit(-signs * odds)).reshape(-1, 2).sum(axis=1), 0.5

    def start(self, rng: np.random.Generator, rows: Rows) -> Params:  # noqa: ARG002
        return {"cut_points": self._first_cuts(rows.y)}

    def answers(self, rows: Rows, phi: Params) -> RowAnswers:
        return level_answers(rows.y.astype(np.int64), rows.eta, phi["cut_points"])

    def redraw(self, rng: np.random.Generator, given: Given) -> Params:
        """The cut points, one after the other, without the augmentation."""
        level, cuts = given.rows.y.astype(np.int64), np.array(given.phi["cut_points"])
        by_level = [given.rows.eta[level == place] for place in range(len(cuts) + 1)]
        for place in self.cut_prior.free:
            n = len(by_level[place]) + len(by_level[place + 1])
            density, width = cut_density(by_level, cuts, place), 4.0 / np.sqrt(1.0 + 0.2 * n)
            cuts[place] = slice_sample(rng, density, cuts[place], width)
        return {"cut_points": cuts}

    def log_likelihood(self, rows: Rows, phi: Params) -> float:
        """−inf where cut points are not in order."""
        in_order = (np.diff(phi["cut_points"]) > 0.0).all()
        return super().log_likelihood(rows, phi) if in_order else -np.inf

    def log_prior(self, phi: Params) -> float:
        return float(self.cut_prior.log_density(phi["cut_points"]))

    def log_priors(self, reported: Params, z: NDArray[Any]) -> dict[str, Array]:  # noqa: ARG002
        return {"cut_points": np.asarray(self.cut_prior.log_density(reported["cut_points"]))}

    def draw_prior(self, rng: np.random.Generator, z: Users) -> Params:  # noqa: ARG002
        return {"cut_points": self.cut_prior.draw(rng)}


def cut_density(by_level: list[Array], cuts: Array, place: int) -> Callable[[float], float]:
    """Log density of one cut point given the others and the locations of each level's rows, up to a
    constant, as a function of its value."""
    below, above = by_level[place], by_level[place + 1]
    low = cuts[place - 1] if place > 0 else -np.inf
    high = cuts[place + 1] if place + 1 < len(cuts) else np.inf

    def log_density(value: float) -> float:
        if not low < value < high:
            return -np.inf
        total = (
            log_expit(value - below).sum()
            + log_expit(above - value).sum()
            + log_logistic(np.asarray(value))
        )
        if place > 0 and len(below):
            total += len(below) * log_gap(np.asarray(value - low))
        if place + 1 < len(cuts) and len(above):
            total += len(above) * log_gap(np.asarray(high - value))
        return float(total)

    return log_density
