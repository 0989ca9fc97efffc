"""The ranking family: Thurstone's, the order of utilities N(η_i, 1) of several items.

Of a ranking the first places are known, in order; the items without a place are below all of these.
The utilities are drawn given the ranking before each sweep, all those of a ranking together, and
count as numbers with noise 1. They are forgotten after it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr, ndtri

from dualview.behaviors.families.base import Array, Family, Mixture, Outcome, Params, Parts, Rows
from dualview.checks import draws_generator, interval_ends
from dualview.errors import DegenerateError, InputError
from dualview.numerics.hyperprior import FINITE_VARIANCES
from dualview.numerics.ordered_normals import draw_in_order, first_probabilities, log_probabilities
from dualview.numerics.streams import stream_of

Places = NDArray[np.int64]
_LARGEST = 1e100  # of expected utilities, which are squared
_CELLS = 2_000_000  # components × rows held at once


class Orders(NamedTuple):
    """Rankings as orders of rows: ranking r has rows[starts[r]:starts[r + 1]], from the first place
    down.

    n_top (R,): how many of them are in order, at least one fewer than there are: the others are
    below, in no order.
    """

    rows: Places
    starts: Places
    n_top: Places

    @classmethod
    def of(cls, ranking: Places, place: Array) -> "Orders":
        """From the ranking of each row, numbers from 0 of which none is left out, and its place,
        inf where it has none."""
        rows = np.lexsort((place, ranking)).astype(np.int64)
        sizes = np.bincount(ranking)
        n_top = np.bincount(ranking, np.isfinite(place), len(sizes)).astype(np.int64)
        return cls(
            rows,
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.minimum(n_top, sizes - 1),
        )

    @property
    def ranking(self) -> Places:
        """The ranking of each of ``rows``."""
        return np.repeat(np.arange(len(self.n_top)), np.diff(self.starts))

    def log_probabilities(self, locations: Array) -> Array:
        """Of the rankings given the utilities' expectations (S, n), (S, R)."""
        _check(locations)
        return np.asarray(
            log_probabilities(
                np.ascontiguousarray(locations[:, self.rows]), self.starts, self.n_top
            )
        )

    def drawn_utilities(self, rng: np.random.Generator, locations: Array) -> Array:
        """Given the rankings and the utilities' expectations (n,), (n,)."""
        _check(locations)
        result = np.empty(len(locations))
        result[self.rows] = draw_in_order(
            stream_of(rng), locations[self.rows], self.starts, self.n_top
        )
        return result

    def sorted_by(self, utilities: Array) -> "Orders":
        """The rankings of other utilities (n,), of which as many places are known."""
        own = self.rows[np.lexsort((-utilities[self.rows], self.ranking))]
        return self._replace(rows=own)

    def scores(self) -> Array:
        """Rough utilities (n,): normal quantiles of the places, the same for all items of a ranking
        that have none."""
        sizes = np.diff(self.starts)[self.ranking]
        place = np.arange(len(self.rows)) - self.starts[self.ranking]
        n_top = self.n_top[self.ranking]
        share = np.where(place < n_top, place + 0.5, 0.5 * (n_top + sizes)) / sizes
        result = np.empty(len(self.rows))
        result[self.rows] = -ndtri(share)
        return result


class RankedRows(NamedTuple):
    """The rows of R rankings, one for each item: ranking r has rows[starts[r]:starts[r + 1]]. ids
    (R,): names for messages."""

    rows: Places
    starts: Places
    ids: list[str]

    @classmethod
    def of(cls, ranking: Places, ids: list[str]) -> "RankedRows":
        """From the ranking of each row, as a position in ids."""
        sizes = np.bincount(ranking, minlength=len(ids))
        return cls(
            np.argsort(ranking, kind="stable"),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            ids,
        )

    @property
    def ranking(self) -> Places:
        """The ranking of each row, (n,)."""
        result = np.empty(len(self.rows), dtype=np.int64)
        result[self.rows] = np.repeat(np.arange(len(self.ids)), np.diff(self.starts))
        return result

    def own(self, r: int) -> Places:
        """The rows of one ranking."""
        return self.rows[self.starts[r] : self.starts[r + 1]]

    def places(self, given: ArrayLike) -> Array:
        """Places (n,) as numbers, inf for none; an error where they are no rankings."""
        try:
            values = np.asarray(given, dtype=float)
        except (TypeError, ValueError):
            raise InputError(
                "place must hold whole numbers from 1, and NaN for items that were not ranked."
            ) from None
        if values.shape != (len(self.rows),):
            raise InputError(
                f"place must have a value per row, ({len(self.rows)},); got shape {values.shape}."
            )
        values = np.where(np.isnan(values), np.inf, values)
        for r in range(len(self.ids)):
            found = np.sort(values[self.own(r)])
            m = int(np.isfinite(found).sum())
            if m == 0 or (found[:m] != np.arange(1, m + 1)).any():
                raise InputError(self._advice(r, found[:m]))
        return values

    def _advice(self, r: int, found: Array) -> str:
        what = f"place must number the items of a ranking 1, 2, 3, …; ranking {self.ids[r]} has "
        if not len(found):
            return f"{what}no place at all. Leave it out."
        if len(np.unique(found)) < len(found):
            return (
                f"{what}{', '.join(f'{x:g}' for x in found[:6])}. Ties are not supported: "
                "leave such rankings out."
            )
        return (
            f"{what}{', '.join(f'{x:g}' for x in found[:6])}. Items that were not ranked have NaN."
        )

    def batches(self, n_components: int) -> Iterator[tuple[slice, list[int]]]:
        """Rankings in the order of their rows, some at a time, and the rows from the first to the
        last of them."""
        order = sorted(range(len(self.ids)), key=lambda r: int(self.own(r).min()))
        some: list[int] = []
        low = high = 0
        for r in order:
            first, last = int(self.own(r).min()), int(self.own(r).max()) + 1
            if some and (max(high, last) - low) * n_components > _CELLS:
                yield slice(low, high), some
                some = []
            low, high = (min(low, first), max(high, last)) if some else (first, last)
            some.append(r)
        if some:
            yield slice(low, high), some


class RankingOutcome(Outcome):
    """Places of items by their utilities, which have standard normal noise; locations are the
    utilities' expectations."""

    case = "ranking"
    is_joint = True

    def __init__(self, ranked: RankedRows) -> None:
        self.ranked = ranked

    def log_density(self, values: Array, locations: Array, cases: slice) -> Array:
        """Log probabilities of rankings, (S, R): one for all rows of a ranking. All rows are needed
        at once."""
        if cases.indices(len(self.ranked.rows)) != (0, len(self.ranked.rows), 1):
            raise InputError("Rankings have a probability as a whole only: give all their rows.")
        return Orders.of(self.ranked.ranking, self.ranked.places(values)).log_probabilities(
            locations
        )

    def draw(self, rng: np.random.Generator, locations: Array, cases: slice) -> Array:  # noqa: ARG002
        """Places of all items, (S, n)."""
        utilities, result = (
            locations + rng.standard_normal(locations.shape),
            np.empty(locations.shape),
        )
        for r in range(len(self.ranked.ids)):
            own = self.ranked.own(r)
            result[:, own] = _places_of(utilities[:, own])
        return result

    def predictive(
        self, n: int, n_components: int, parts: Callable[[slice], Parts]
    ) -> "RankingMixture":
        """Probabilities of being first."""
        return RankingMixture(n, n_components, parts, self.ranked)


class RankingMixture(Mixture):
    """Rankings of items, a row each: the probability of being first of its ranking, and of whole
    rankings."""

    def __init__(
        self, n: int, n_components: int, parts: Callable[[slice], Parts], ranked: RankedRows
    ) -> None:
        super().__init__(n, n_components, parts)
        self._ranked = ranked

    def _besides(self, sources: Sequence[Mixture]) -> tuple[Any, ...]:  # noqa: ARG002
        return (self._ranked,)

    def _some(self) -> Iterator[tuple[Places, Places, Array, Array]]:
        """Rows of some rankings, where each begins, weights (S, rows) that sum to one, and expected
        utilities (S, rows)."""
        for cases, rankings in self._ranked.batches(self._n_components):
            log_weights, locations, _ = self._parts(cases)
            rows = np.concatenate([self._ranked.own(r) for r in rankings])
            sizes = [len(self._ranked.own(r)) for r in rankings]
            weights = np.exp(np.broadcast_to(log_weights, locations.shape)[:, rows - cases.start])
            yield (
                rows,
                np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
                weights / weights.sum(axis=0),
                np.ascontiguousarray(locations[:, rows - cases.start]),
            )

    @property
    def mean(self) -> Array:
        """Probability of each row's item of being first of its ranking, (n,)."""
        result = np.empty(self._n)
        for rows, starts, weights, locations in self._some():
            result[rows] = (weights * first_probabilities(locations, starts)).sum(axis=0)
        return result

    @property
    def median(self) -> Array:
        """Median of the probability of being first, over what the posterior leaves open."""
        return self._quantiles([0.5])[:, 0]

    @property
    def std(self) -> Array:
        """Standard deviation of being first, which is 1 or 0."""
        chances = self.mean
        return np.asarray(np.sqrt(chances * (1.0 - chances)))

    def interval(self, probability: float = 0.95) -> Array:
        """Central interval of the probability of being first, over what the posterior leaves open,
        (n, 2)."""
        return self._quantiles(list(interval_ends(probability)))

    def _quantiles(self, levels: list[float]) -> Array:
        result = np.empty((self._n, len(levels)))
        for rows, starts, weights, locations in self._some():
            chances = first_probabilities(locations, starts)
            for column, row in enumerate(rows):
                order = np.argsort(chances[:, column])
                places = np.searchsorted(np.cumsum(weights[order, column]), levels)
                result[row] = chances[order[np.minimum(places, len(order) - 1)], column]
        return result

    def before(self, first: ArrayLike, second: ArrayLike) -> Array:
        """Probability that the item of one row is placed before that of another row of the same
        ranking, for pairs of rows."""
        one, other = np.atleast_1d(np.asarray(first)), np.atleast_1d(np.asarray(second))
        if (
            one.dtype.kind not in "iu"
            or other.dtype.kind not in "iu"
            or one.shape != other.shape
            or one.ndim != 1
        ):
            raise InputError(
                "before needs positions of rows, as many of the first as of the second."
            )
        if (
            min(one.min(initial=0), other.min(initial=0)) < 0
            or max(one.max(initial=0), other.max(initial=0)) >= self._n
        ):
            raise InputError(f"before needs positions of rows from 0 to {self._n - 1}.")
        ranking = self._ranked.ranking
        if (ranking[one] != ranking[other]).any():
            raise InputError(
                "before compares items of one ranking; some pairs are of two rankings."
            )
        result = np.empty(len(one))
        for rows, _, weights, locations in self._some():
            place = np.full(self._n, -1)
            place[rows] = np.arange(len(rows))
            asked = np.flatnonzero(place[one] >= 0)
            i, j = place[one[asked]], place[other[asked]]
            result[asked] = (
                weights[:, i] * ndtr((locations[:, i] - locations[:, j]) / np.sqrt(2.0))
            ).sum(axis=0)
        return result

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent rankings: places of all items, (n, rows)."""
        rng = draws_generator(n, seed, self._n)
        result = np.empty((n, self._n))
        for rows, starts, weights, locations in self._some():
            for low, high in pairwise(starts):
                chosen = rng.choice(len(weights), n, p=weights[:, low])
                utilities = locations[chosen, low:high] + rng.standard_normal((n, high - low))
                result[:, rows[low:high]] = _places_of(utilities)
        return result

    def log_density(self, y: ArrayLike) -> Array:
        """Log probability of each ranking, (R,), from the places y of all rows, (n,), NaN for items
        that were not ranked."""
        place = self._ranked.places(y)
        result = np.empty(len(self._ranked.ids))
        for cases, rankings in self._ranked.batches(self._n_components):
            log_weights, locations, _ = self._parts(cases)
            whole = np.broadcast_to(log_weights, locations.shape)
            for r in rankings:
                own = self._ranked.own(r)
                order = Orders.of(np.zeros(len(own), dtype=np.int64), place[own])
                values = order.log_probabilities(locations[:, own - cases.start])[:, 0]
                weights = whole[:, own[0] - cases.start]
                result[r] = logsumexp(weights + values) - logsumexp(weights)
        return result


def _check(locations: Array) -> None:
    if not (np.abs(locations) < _LARGEST).all():
        raise DegenerateError("Expected utilities of a ranking have left the range of numbers.")


def _places_of(utilities: Array) -> Array:
    """Places from 1 of utilities (S, k), (S, k)."""
    order = np.argsort(-utilities, axis=1)
    result = np.empty(utilities.shape)
    np.put_along_axis(
        result,
        order,
        np.broadcast_to(np.arange(1.0, utilities.shape[1] + 1), utilities.shape),
        axis=1,
    )
    return result


@dataclass(frozen=True)
class RankingFamily(Family):
    """Rankings of items, a row each, y being :class:`Orders`; there are no parameters."""

    # rankings that follow a column strictly leave latent vectors the tails of their prior
    hyperprior = FINITE_VARIANCES

    def pull(self, y: Any, eta: Array) -> tuple[Array, float]:
        """With rough utilities."""
        return y.scores() - eta, 1.0

    def augment(
        self,
        rng: np.random.Generator,
        rows: Rows,
        phi: Params,  # noqa: ARG002
    ) -> tuple[Array, Array]:
        return rows.y.drawn_utilities(rng, rows.eta) - rows.eta, np.ones(1)

    def log_likelihood(self, rows: Rows, phi: Params) -> float:  # noqa: ARG002
        """The utilities are integrated out."""
        return float(rows.y.log_probabilities(rows.eta[None]).sum())

    def sample(self, rng: np.random.Generator, rows: Rows, phi: Params) -> Orders:  # noqa: ARG002
        """Other rankings, of which as many places are known."""
        orders: Orders = rows.y
        return orders.sorted_by(rows.eta + rng.standard_normal(len(rows.eta)))
