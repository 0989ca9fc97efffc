"""q of the cells of a table that are not exact, given the user's component: (M14) for a variational
engine.

q(z_u = k) q(x_u | k) is one factor. Given k, missing cells have their exact optimum: normal given
all other cells of the user. Interval cells are independent of each other, each normal and truncated
to its interval. That is the only approximation here besides the mean field itself, and with it
every expectation is known.

Everything is in the data's units. n users have cells that are not exact; they are sorted by the
pattern of their missing cells, of which there are P. D columns, K components.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dualview.distributions import log_normal_mass, normal_quantiles_between
from dualview.interval_gaussian import before_truncation, truncated_moments
from dualview.views.base import Array, Components
from dualview.views.gaussian.intervals import Intervals

_LOG_2PI = float(np.log(2.0 * np.pi))


class HiddenTable(NamedTuple):
    """What is known of the n users: bounds (n, D), their pattern (n,), the missing cells of the
    patterns (P, D).

    users (n,): who they are. starts (P,): where the users of each pattern begin. intervals: for
    each column, which of the n have an interval there.
    """

    source: Intervals
    users: NDArray[np.intp]
    low: Array
    high: Array
    pattern: NDArray[np.intp]
    patterns: NDArray[np.bool_]
    starts: NDArray[np.intp]
    intervals: list[NDArray[np.intp]]

    @classmethod
    def of(cls, source: Intervals) -> "HiddenTable":
        hidden = source.low < source.high
        users = np.flatnonzero(hidden.any(axis=1))
        patterns, pattern = np.unique(source.is_missing[users], axis=0, return_inverse=True)
        order = np.argsort(pattern.ravel(), kind="stable")
        users, pattern = users[order], pattern.ravel()[order]
        known = hidden[users] & ~source.is_missing[users]
        starts = np.searchsorted(pattern, np.arange(len(patterns)))
        intervals = [np.flatnonzero(column) for column in known.T]
        return cls(
            source,
            users,
            source.low[users],
            source.high[users],
            pattern,
            patterns,
            starts,
            intervals,
        )

    def sums(self, values: Array) -> Array:
        """Sums over the users of each pattern of values (n, …), (P, …)."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=0))


class _Conditional(NamedTuple):
    """A component given the cells that a pattern shows, for P patterns: precisions of those cells
    (P, D, D), 0 elsewhere.

    loadings (P, D, D): of all cells on those shown. covariances (P, D, D): of missing cells given
    those. log_determinants (P,): of the precision of missing cells given those.
    """

    precisions: Array
    loadings: Array
    covariances: Array
    log_determinants: Array

    @classmethod
    def of(cls, precision: Array, missing: NDArray[np.bool_]) -> "_Conditional":
        """Of a component's precision (D, D) and patterns (P, D)."""
        unit = np.eye(len(precision))
        both = missing[:, :, None] & missing[:, None, :]
        own = np.where(both, precision, unit)
        covariances = np.where(both, np.linalg.solve(own, np.broadcast_to(unit, own.shape)), 0.0)
        covariances = 0.5 * (covariances + np.swapaxes(covariances, 1, 2))
        shown = ~missing[:, None, :]
        loadings = np.where(missing[:, :, None], -(covariances @ precision) * shown, unit)
        precisions = (precision - precision @ covariances @ precision) * (
            shown & ~missing[:, :, None]
        )
        return cls(precisions, loadings, covariances, np.linalg.slogdet(own)[1])


@dataclass(frozen=True)
class SoftCells:
    """q(x_u | k): means (K, n, D), variances (K, n, D) of interval cells, and what missing cells
    are given the others.

    loadings, covariances (K, P, D, D): as in ``_Conditional``. entropies (K, n).
    """

    table: HiddenTable
    means: Array
    variances: Array
    loadings: Array
    covariances: Array
    entropies: Array

    @classmethod
    def start(cls, source: Intervals, n_components: int) -> "SoftCells":
        """Cells at values to start from, without a spread, until they are first updated."""
        table = HiddenTable.of(source)
        values = source.start[table.users]
        means = np.repeat(values[None], n_components, axis=0)
        nothing = np.zeros((n_components, len(table.patterns), *source.mean.shape * 2))
        return cls(table, means, np.zeros_like(means), nothing, nothing, np.zeros(means.shape[:2]))

    @property
    def users(self) -> NDArray[np.intp]:
        """Who has such cells, (n,)."""
        return self.table.users

    @property
    def has_intervals(self) -> bool:
        """Whether some cells are known to an interval, and not missing altogether."""
        return any(len(known) > 0 for known in self.table.intervals)

    @cached_property
    def working(self) -> Array:
        """Means in working units, (K, n, D)."""
        return (self.means - self.table.source.mean) @ self.table.source.inverse.T

    def updated(self, means: Array, precisions: Array) -> "SoftCells":
        """The best q given components with these means (K, D) and precisions (K, D, D) in working
        units.

        Interval cells are updated one column at a time, each given where the others are.
        """
        parts = [
            self._of_component(k, *self._in_data_units(means[k], precisions[k]))
            for k in range(len(means))
        ]
        return SoftCells(self.table, *(np.stack(part) for part in zip(*parts, strict=True)))

    def _in_data_units(self, mean: Array, precision: Array) -> tuple[Array, Array]:
        source = self.table.source
        return source.mean + source.factor @ mean, source.inverse.T @ precision @ source.inverse

    def _of_component(self, k: int, mean: Array, precision: Array) -> tuple[Array, ...]:
        """Means, variances, loadings, covariances and entropies given a component in the data's
        units."""
        table, given = self.table, _Conditional.of(precision, self.table.patterns)
        values = np.where(table.patterns[table.pattern], 0.0, self.means[k] - mean)
        variances, n_missing = np.zeros_like(values), table.patterns.sum(axis=1)
        entropies = (0.5 * (n_missing * (1.0 + _LOG_2PI) - given.log_determinants))[table.pattern]
        for d, known in enumerate(table.intervals):
            if len(known):
                middle, sd = before_truncation(
                    d, values[known], given.precisions[table.pattern[known], d]
                )
                low, high = (
                    (end[known, d] - mean[d] - middle) / sd for end in (table.low, table.high)
                )
                shift, share = truncated_moments(low, high)
                values[known, d], variances[known, d] = middle + sd * shift, sd**2 * share
                mass = log_normal_mass(low, high, (table.high[known, d] - table.low[known, d]) / sd)
                entropies[known] += np.log(sd) + mass + 0.5 * (_LOG_2PI + shift**2 + share)
        expected = mean + _by_pattern(given.loadings, table.pattern, values)
        return expected, variances, given.loadings, given.covariances, entropies

    def scores(self, means: Array, precisions: Array) -> Array:
        """−E (x − μ_k)ᵀ S_k (x − μ_k)/2 + the entropy of q(x | k), (K, n), in working units'
        components."""
        table, found = self.table, self.entropies.copy()
        for k in range(len(means)):
            mean, precision = self._in_data_units(means[k], precisions[k])
            away = self.means[k] - mean
            squares = np.einsum("ni,ij,nj->n", away, precision, away)
            squares += np.einsum("pij,ij->p", self.covariances[k], precision)[table.pattern]
            if self.has_intervals:
                pulls = np.einsum("pid,ij,pjd->pd", self.loadings[k], precision, self.loadings[k])
                squares += np.einsum("nd,nd->n", self.variances[k], pulls[table.pattern])
            found[k] -= 0.5 * squares
        return found

    def scatter(self, k: int, weights: Array) -> Array:
        """Σ_u weight_u Cov(x_u | k) in working units, (D, D)."""
        table = self.table
        total = np.einsum("p,pij->ij", table.sums(weights), self.covariances[k])
        if self.has_intervals:
            spread = table.sums(weights[:, None] * self.variances[k])
            total += np.einsum("pid,pd,pjd->ij", self.loadings[k], spread, self.loadings[k])
        return np.asarray(table.source.inverse @ total @ table.source.inverse.T)

    def take(self, components: NDArray[np.intp]) -> Self:
        """With these components only, in this order."""
        names = ("means", "variances", "loadings", "covariances", "entropies")
        return replace(self, **{name: getattr(self, name)[components] for name in names})

    def draw(
        self,
        rng: np.random.Generator,
        z: NDArray[np.int64],
        own: Components,
        components: Components,
    ) -> Array:
        """Cells of users in clusters z (U,), in the order of ``Intervals.cells``.

        Interval cells come from q, whose components are ``own`` (means and precisions); missing
        ones from their distribution given all others and drawn components (means and precision
        factors).
        """
        table, source = self.table, self.table.source
        labels, values = z[table.users], np.empty(table.low.shape)
        for k in np.unique(labels):
            mine = np.flatnonzero(labels == k)
            shown = self._drawn_intervals(
                rng, int(k), mine, *self._in_data_units(own.means[k], own.factors[k])
            )
            mean, precision = self._in_data_units(
                components.means[k], components.factors[k] @ components.factors[k].T
            )
            values[mine] = self._drawn_missing(rng, shown, table.pattern[mine], mean, precision)
        users, columns = source.cells
        rows = np.empty(len(source.low), dtype=np.intp)
        rows[table.users] = np.arange(len(table.users))
        return np.asarray(values[rows[users], columns])

    def _drawn_missing(
        self,
        rng: np.random.Generator,
        shown: Array,
        pattern: NDArray[np.intp],
        mean: Array,
        precision: Array,
    ) -> Array:
        """Complete vectors (…, D) of users whose other cells are these, with missing cells drawn
        given a component."""
        chosen, place = np.unique(pattern, return_inverse=True)
        missing = self.table.patterns[chosen]
        given = _Conditional.of(precision, missing)
        both = missing[:, :, None] & missing[:, None, :]
        roots = np.linalg.cholesky(np.where(both, given.covariances, np.eye(len(mean))))
        noise = _by_pattern(roots, place, rng.standard_normal(shown.shape))
        away = np.where(missing[place], 0.0, shown - mean)
        expected = mean + _by_pattern(given.loadings, place, away)
        return np.asarray(np.where(missing[place], expected + noise, shown))

    def _drawn_intervals(
        self,
        rng: np.random.Generator,
        k: int,
        mine: NDArray[np.intp],
        mean: Array,
        precision: Array,
    ) -> Array:
        """Values (…, D) of some users of a component: interval cells drawn from q, others as they
        are expected."""
        table, values = self.table, np.asarray(self.means[k, mine])
        if not self.has_intervals:
            return values
        given = _Conditional.of(precision, table.patterns)
        away, drawn = (
            np.where(table.patterns[table.pattern[mine]], 0.0, values - mean),
            values.copy(),
        )
        chosen = np.zeros(len(table.users), dtype=np.intp)
        chosen[mine] = np.arange(1, len(mine) + 1)
        for d, known in enumerate(table.intervals):
            rows = known[chosen[known] > 0]
            place, ends = chosen[rows] - 1, (table.low[rows, d], table.high[rows, d])
            if len(rows):
                middle, sd = before_truncation(
                    d, away[place], given.precisions[table.pattern[rows], d]
                )
                low, high = ((end - mean[d] - middle) / sd for end in ends)
                points = normal_quantiles_between(
                    rng.random(len(rows)), low, high, (ends[1] - ends[0]) / sd
                )
                drawn[place, d] = np.clip(mean[d] + middle + sd * points, *ends)
        return drawn


def _by_pattern(matrices: Array, pattern: NDArray[np.intp], values: Array) -> Array:
    """Each user's values (n, D) multiplied by the matrix of its pattern; users are sorted by
    pattern (n,)."""
    found, ends = np.empty_like(values), np.searchsorted(pattern, np.arange(len(matrices) + 1))
    for matrix, first, end in zip(matrices, ends[:-1], ends[1:], strict=True):
        found[first:end] = values[first:end] @ matrix.T
    return found
