"""One cell of a row given others: its predictive distribution.

In every row of ``candidates`` the numbers of a table are normal, and so is one of them given
others, with a mean that is linear in them. Where all others are exact, the distribution is the
mixture of these over all rows, with the rows' weights given everything that is known. Where some
are known to an interval they are drawn in rows that are drawn by these weights, and each draw gives
a normal. Clusters with heavy tails are normal given a weight: rows are drawn, and each gives a
normal at each of some values of its weight, given the others of the row.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from dualview.behaviors.families.base import Mixture, Parts
from dualview.behaviors.families.gaussian import NormalMixture
from dualview.behaviors.families.interval import CountMixture, IntervalMixture
from dualview.behaviors.families.student import weight_nodes
from dualview.behaviors.recorded import Recorded
from dualview.checks import checked_probability, draws_generator, interval_ends
from dualview.columns import Column
from dualview.columns.table import level_text
from dualview.errors import InputError
from dualview.posterior.prediction.candidates import Candidates
from dualview.posterior.prediction.cell_table import CellTable
from dualview.posterior.prediction.new_users import Kept, NewUsers
from dualview.posterior.prediction.predictive import WeightedDraws
from dualview.views.gaussian.block import MOST_CELLS, GaussianRows
from dualview.views.gaussian.ghk import Gaussians
from dualview.views.gaussian.user_cells import Pattern, UserCells

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

_KEPT = 20_000_000  # numbers of components that are kept, for all that is asked of a distribution
_EVERY = slice(None)
_NODES = 48  # values of a weight, of clusters with heavy tails; densities have three digits


class CellLevels:
    """Predictive distribution of a cell of a column with levels, for each of n rows.

    Attributes
    ----------
    levels : tuple of str
        Names of the levels; of ordinal columns the lowest first.
    probabilities : array (n, L)
        Probability of each level.
    """

    def __init__(self, levels: Sequence[str], probabilities: Array, is_ordered: bool) -> None:
        self.levels, self.probabilities = tuple(levels), probabilities
        self._is_ordered = is_ordered

    def __len__(self) -> int:
        return len(self.probabilities)

    def __repr__(self) -> str:
        return f"CellLevels({len(self)} cells, levels {', '.join(self.levels)})"

    @property
    def frame(self) -> pd.DataFrame:
        """The probabilities, with a column for each level."""
        return pd.DataFrame(self.probabilities, columns=list(self.levels))

    def _named(self, places: NDArray[np.integer]) -> NDArray[Any]:
        names: NDArray[Any] = np.asarray(self.levels, dtype=object)
        return np.asarray(names[np.minimum(places, len(names) - 1)], dtype=object)

    @property
    def most_probable(self) -> NDArray[Any]:
        """The most probable level of each cell, (n,)."""
        return self._named(np.argmax(self.probabilities, axis=1))

    def quantile(self, probability: float) -> NDArray[Any]:
        """The level of an ordinal column that has this probability at or below it, (n,)."""
        if not self._is_ordered:
            raise InputError(
                "Levels without an order have no quantiles: use probabilities or most_probable."
            )
        probability = checked_probability(probability, "A quantile's")
        place = (np.cumsum(self.probabilities, axis=1) < probability - 1e-12).sum(axis=1)
        return self._named(place)

    @property
    def median(self) -> NDArray[Any]:
        """Median level of each cell of an ordinal column, (n,)."""
        return self.quantile(0.5)

    def interval(self, probability: float = 0.95) -> NDArray[Any]:
        """Central interval of an ordinal column, (n, 2); it holds at least this probability."""
        return np.stack([self.quantile(end) for end in interval_ends(probability)], axis=-1)

    def draws(self, n: int = 1000, *, seed: int = 0) -> NDArray[Any]:
        """n independent levels of each cell, (n, cells)."""
        rng = draws_generator(n, seed, len(self) * len(self.levels))
        cumulative = np.cumsum(self.probabilities, axis=1)
        uniforms = rng.random((n, len(self))) * cumulative[:, -1]
        place = (uniforms[..., None] >= cumulative[None]).sum(axis=-1)
        return self._named(place)

    def log_density(self, y: ArrayLike) -> Array:
        """Log probability of the levels y (n,), by name."""
        given = np.asarray(y, dtype=object)
        if given.shape != (len(self),):
            raise InputError(
                f"y must have one level per cell, {len(self)}; got shape {given.shape}."
            )
        place = {level: i for i, level in enumerate(self.levels)}
        names = [level_text(level) for level in given]
        strange = [name for name in names if name not in place]
        if strange:
            raise InputError(f"Levels are {', '.join(self.levels)}; got {strange[0]!r}.")
        rows = np.arange(len(self))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.probabilities[rows, [place[name] for name in names]]))

    def nll(self, y: ArrayLike) -> float:
        """Negative log-likelihood per cell: minus the mean of ``log_density``."""
        return -float(self.log_density(y).mean())


class LimitedMixture(IntervalMixture):
    """Numbers that cannot be seen beyond limits, which many have: a mixture of normal numbers, cut
    off there."""

    @property
    def _ends(self) -> tuple[float, float]:
        low, high = self._record.column.limits or (None, None)
        return -np.inf if low is None else low, np.inf if high is None else high

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """By the moments of a normal number between the limits, and the probability at each."""
        low, high = self._ends
        first, second = np.zeros(self._n), np.zeros(self._n)
        for cases, (log_weights, locations, sds) in self._batches():
            weights, spread = np.exp(log_weights), np.where(sds > 0.0, sds, 1e-300)
            a, b = (low - locations) / spread, (high - locations) / spread
            below, above = ndtr(a), ndtr(-b)
            inside = ndtr(b) - below
            heights = [np.exp(-0.5 * end**2) / np.sqrt(2.0 * np.pi) for end in (a, b)]
            finite = [np.where(np.isfinite(end), end, 0.0) for end in (a, b)]
            step = heights[0] - heights[1]
            mean = locations * inside + spread * step
            square = (locations**2 + spread**2) * inside + 2.0 * locations * spread * step
            square += spread**2 * (finite[0] * heights[0] - finite[1] * heights[1])
            for end, mass in ((low, below), (high, above)):
                if np.isfinite(end):
                    mean, square = mean + end * mass, square + end**2 * mass
            first[cases] = (weights * mean).sum(axis=0)
            second[cases] = (weights * square).sum(axis=0)
        return first, np.maximum(second - first**2, 0.0)

    def _quantiles(self, *probabilities: float) -> Array:
        return np.clip(super()._quantiles(*probabilities), *self._ends)

    def draws(self, n: int = 1000, *, seed: int = 0) -> Array:
        """n independent draws of each case, (n, cases)."""
        return np.clip(super().draws(n, seed=seed), *self._ends)


class Line(NamedTuple):
    """A number given others in some rows: mean = constant (n,) + slopes (n, s) · others, and its
    standard deviation sds (n,)."""

    constants: Array
    slopes: Array
    sds: Array

    @classmethod
    def of(cls, gaussians: Gaussians, loading: Array) -> "Line":
        """loading (s + 1, r): how the others, and last the number, follow from a vector."""
        n, n_known = len(gaussians.means), len(loading) - 1
        found = cls(np.empty(n), np.empty((n, n_known)), np.empty(n))
        step = max(1, MOST_CELLS // max(1, loading.shape[1] ** 2))
        for first in range(0, n, step):
            own = slice(first, min(first + step, n))
            centers = gaussians.means[own] @ loading.T
            upper: Array = np.linalg.qr(  # type: ignore[assignment]
                np.swapaxes(loading @ gaussians.roots[own], 1, 2), mode="r"
            )
            lower = np.zeros((len(centers), n_known + 1, n_known + 1))
            lower[:, :, : upper.shape[1]] = np.swapaxes(upper, 1, 2)
            backwards = np.swapaxes(lower[:, :n_known, :n_known], 1, 2)
            slopes = np.linalg.solve(backwards, lower[:, n_known, :n_known, None])[..., 0]
            found.slopes[own], found.sds[own] = slopes, np.abs(lower[:, n_known, n_known])
            found.constants[own] = centers[:, -1] - (slopes * centers[:, :-1]).sum(axis=1)
        return found

    def at(self, rows: Any, others: Array) -> Array:
        """Means (n,) in some rows; others (s,) or (n, s)."""
        return np.asarray(self.constants[rows] + (self.slopes[rows] * others).sum(axis=-1))


def weights_given(gaussians: Gaussians, loading: Array, others: Array) -> tuple[Array, Array]:
    """Values (n, K) of the weights λ of components with heavy tails given numbers others (n, s),
    and the logarithms of their shares; 1 of a normal one.

    loading (s, r): how the others follow from a vector.
    """
    away = others - gaussians.means @ loading.T
    rows = loading @ gaussians.roots
    solved = np.linalg.solve(rows @ np.swapaxes(rows, 1, 2), away[..., None])[..., 0]
    squares, is_normal = (away * solved).sum(axis=1), np.isinf(gaussians.dofs)
    dofs = np.where(is_normal, 1.0, gaussians.dofs)
    total = dofs + others.shape[1]
    weights, log_shares = weight_nodes(total, _NODES)
    weights *= (total / (dofs + squares))[:, None]
    return np.where(is_normal[:, None], 1.0, weights), log_shares


class NumberGiven:
    """A number of a Gaussian block given what is known of others, in every row.

    Lines of all rows are kept for other users who have the same cells.
    """

    def __init__(self, rows: GaussianRows, n_rows: int, n_columns: int, column: int) -> None:
        self._rows, self._n_rows, self._column = rows, n_rows, column
        self.has_tails = rows.has_tails
        self._lines: Kept[Line] = Kept(_KEPT // (n_rows * (n_columns + 1)))

    def _line(self, pattern: Pattern, kinds: tuple[int, ...]) -> Line:
        n_known = pattern.exact.shape[1] + len(pattern.intervals)
        target = n_known + int(np.flatnonzero(pattern.missing == self._column)[0])
        loading = pattern.loading[[*range(n_known), target]]
        return self._lines.get(
            kinds, lambda: Line.of(self._rows.gaussians(np.arange(self._n_rows)), loading)
        )

    def parts(
        self, rng: np.random.Generator, x: UserCells, weights: Array, rows: Rows | None
    ) -> Parts:
        """Components of one user, each (S,): of rows (n,) that were drawn by their weights; where
        that is None, and all that is known is exact, of all rows by their weights (R,)."""
        (pattern,) = x.patterns(complete=True)
        kinds = tuple(np.where(x.low[0] == x.high[0], 0, np.where(x.missing[0], 2, 1)).tolist())
        line, center = self._line(pattern, kinds), pattern.units.mean[self._column]
        if rows is None:
            with np.errstate(divide="ignore"):
                log_weights = np.log(weights)
            return Parts(log_weights, line.at(_EVERY, pattern.exact[0]) + center, line.sds)
        others, n_intervals = np.repeat(pattern.exact, len(rows), axis=0), len(pattern.intervals)
        if n_intervals:
            drawn = pattern.draw(rng, self._rows.gaussians(rows), 0)[:, :n_intervals]
            others = np.hstack([others, drawn - pattern.units.mean[pattern.intervals]])
        even, means = np.full(len(rows), -np.log(len(rows))), line.at(rows, others) + center
        if not self.has_tails:
            return Parts(even, means, line.sds[rows])
        n_known = others.shape[1]
        gaussians, loading = self._rows.gaussians(rows), pattern.loading[:n_known]
        weights, log_shares = weights_given(gaussians, loading, others)
        shape = weights.shape
        return Parts(
            (even[:, None] + log_shares).ravel(),
            np.broadcast_to(means[:, None], shape).ravel(),
            (line.sds[rows][:, None] / np.sqrt(weights)).ravel(),
        )


class CellGiven:
    """One column of users, in which it is missing, given what is known of others."""

    def __init__(self, candidates: Candidates, cells: CellTable, name: str) -> None:
        self.place, self._x = cells.places[name], cells.features
        self._table = cells.post.blocks[self.place.block].table
        self._own = candidates.features.rows_of(self.place.block)
        self._size = len(candidates)
        self._number: NumberGiven | None = None
        if isinstance(self._own, GaussianRows):
            key = "number given others", self.place.block, self.place.position
            n_columns = len(cells.post.blocks[self.place.block].columns)
            made = NumberGiven(self._own, len(candidates), n_columns, self.place.position)
            self._number = candidates.memo.setdefault(key, made)

    @property
    def is_number(self) -> bool:
        """Whether the column has numbers or ordered levels, which are normal in every row."""
        return self._number is not None

    def needs_draws(self) -> bool:
        """Whether rows are drawn: something that the column goes with is known to an interval only,
        or clusters have heavy tails."""
        if self._number is None:
            return False
        x = self._x.cells[self.place.block]
        return self._number.has_tails or not bool((x.missing | (x.low == x.high)).all())

    def n_parts(self, n_draws: int) -> int:
        """Components of a user's distribution, where rows are drawn or not."""
        assert self._number is not None
        by_row = _NODES if self._number.has_tails else 1
        return n_draws * by_row if self.needs_draws() else self._size

    def table_of(self, by_table: NDArray[Any]) -> NDArray[Any]:
        """Of weights or rows by table, those of the column's table."""
        own = np.atleast_2d(by_table)
        return np.asarray(own[min(self._table, len(own) - 1)])

    def parts(
        self, rng: np.random.Generator, user: int, weights: Array, rows: Rows | None
    ) -> Parts:
        """Of numbers: components of one user, as :meth:`NumberGiven.parts` has them."""
        assert self._number is not None
        x = self._x.cells[self.place.block][user : user + 1]
        return self._number.parts(rng, x, weights, rows)

    def filled(
        self, rng: np.random.Generator, user: int, weights: Array, rows: Rows
    ) -> tuple[NDArray[Any], Array | None]:
        """Of another kind: draws (n,) in rows, and probabilities of levels (L,), if it has some."""
        x, column = self._x.cells[self.place.block][user : user + 1], self.place.position
        values, shares = self._own.fill(rng, rows, weights, x, np.array([column]))
        return values[:, 0], None if shares is None else shares[0]


def cell_given(
    candidates: Candidates, cells: CellTable, name: str, n_draws: int, seed: int
) -> Mixture | CellLevels | WeightedDraws:
    """The predictive distribution of a column for users with these cells, in which it is missing.

    n_draws: of what is known to an interval only, for each user.
    """
    asked = CellGiven(candidates, cells, name)
    new, n = NewUsers(candidates, cells.features, len(cells)), len(cells)

    def clusters(user: int) -> tuple[np.random.Generator, Array, Rows]:
        rng = np.random.default_rng([seed, user])
        found = new.clusters_of(rng, user, n_draws, with_others=True)
        return rng, asked.table_of(found.weights), asked.table_of(found.rows)

    if not asked.is_number:
        draws, shares = [], []
        for user in range(n):
            rng, weights, rows = clusters(user)
            values, own = asked.filled(rng, user, weights, rows)
            draws.append(values)
            shares.append(own)
        column = asked.place.column
        if shares[0] is not None:
            return CellLevels(column.levels, np.array(shares), is_ordered=False)
        values = np.column_stack([column.values(own) for own in draws])
        return WeightedDraws(values, np.full(values.shape, -np.log(len(values))))
    by_draws, size = asked.needs_draws(), asked.n_parts(n_draws)
    kept: Kept[Parts] = Kept(_KEPT // (3 * size))

    def of_user(user: int) -> Parts:
        rng, weights, rows = clusters(user)
        return asked.parts(rng, user, weights, rows if by_draws else None)

    def parts(cases: slice) -> Parts:
        users = range(*cases.indices(n))
        own = [kept.get(user, partial(of_user, user)) for user in users]
        return Parts(*(np.stack(part, axis=1) for part in zip(*own, strict=True)))

    return number_distribution(asked.place.column, n, size, parts)


def number_distribution(
    column: Column, n: int, n_components: int, parts: Callable[[slice], Parts]
) -> Mixture | CellLevels:
    """The distribution of what is recorded in a column of numbers or ordered levels, from that of
    numbers on the scale of the model."""
    if column.kind == "count":
        return CountMixture(n, n_components, parts, Recorded(column))
    if column.kind == "rounded":
        return IntervalMixture(n, n_components, parts, Recorded(column))
    if column.kind == "limited":
        return LimitedMixture(n, n_components, parts, Recorded(column))
    numbers = NormalMixture(n, n_components, parts)
    if column.kind != "ordinal":
        return numbers
    cuts = [np.full(n, cut) for cut in column.cuts]
    sides = zip(*(numbers.beyond(cut, cut) for cut in cuts), strict=True)
    below, above = (np.column_stack(side) for side in sides)
    one, zero = np.ones((n, 1)), np.zeros((n, 1))
    up = np.diff(np.hstack([zero, below, one]), axis=1)
    down = -np.diff(np.hstack([one, above, zero]), axis=1)
    is_low = np.hstack([zero, below]) < 0.5  # whichever keeps its digits
    return CellLevels(column.levels, np.where(is_low, up, down), is_ordered=True)
