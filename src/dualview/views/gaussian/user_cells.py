"""Users with cells that are missing or known up to an interval: density and draws of their cells,
(M14).

Cells are taken one after the other: exact ones, then those known to an interval, then
missing ones. With L the lower factor of their covariance in a component they are y = c + L ε, so
that exact cells settle the first of the ε, and missing ones leave the last of them free. The
probability of the intervals given the exact cells is estimated without bias (``ghk``). It is exact
where a user has one such cell.

Shapes: n components, J users, D columns, r dimensions in working units. Cells are on the scale of
the Gaussian view.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, gammaln
from scipy.stats import qmc

from dualview.columns.cells import missing_cells
from dualview.errors import InputError
from dualview.numerics.linalg import inverse_factors
from dualview.numerics.streams import stream_of
from dualview.units import Whitening
from dualview.views.base import Components
from dualview.views.gaussian.ghk import Gaussians, Known, draw_cells, log_densities

Array = NDArray[np.float64]
Places = NDArray[np.int64]

NORMAL = np.empty(0)  # ν of components that are all normal
N_POINTS = 16  # of the GHK sampler in each component
_LEAST_LEVEL = 1e-30  # of a quantile, which a weight divides by
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
_RANK_TOLERANCE = 1e-8


def gaussians_at(
    components: Components, places: NDArray[Any] | slice, dofs: Array = NORMAL
) -> Gaussians:
    """Some of the components, which have precision factors; dofs: their ν."""
    means, factors = components.means[places], components.factors[places]
    roots = inverse_factors(np.ascontiguousarray(factors))
    return Gaussians(np.ascontiguousarray(means), roots, dofs)


@dataclass(frozen=True)
class UserCells:
    """Cells (J, D) between low and high, and their units; cells that are missing are between −∞ and
    ∞."""

    low: Array
    high: Array
    units: Whitening

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, users: Any) -> "UserCells":
        return UserCells(self.low[users], self.high[users], self.units)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which cells (J, D) are missing."""
        return missing_cells(self.low, self.high)

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Which users (J,) have exact cells only."""
        return np.asarray((self.low == self.high).all(axis=1))

    def vectors(self) -> Array:
        """Vectors (J, r) in working units; they say something of complete users only."""
        known = np.where(self.low == self.high, self.low, self.units.mean)
        return np.ascontiguousarray(self.units.to_working(known))

    def filled(self) -> Array:
        """Numbers (J, D) that are as near as can be to the space that users of the fit span, where
        this is not all of it.

        Missing cells get what then follows from the exact ones, intervals one of their ends.
        """
        ends = np.where(np.isfinite(self.low), self.low, self.high)
        values = np.where(self.missing, self.units.mean, ends)
        if self.units.n_dims == len(self.units.mean):
            return values
        for pattern in self.patterns():
            known = np.delete(np.arange(values.shape[1]), pattern.missing)
            away = (values[pattern.users] - self.units.mean)[:, known]
            vectors = np.linalg.lstsq(self.units.factor[known], away.T)[0].T
            values[np.ix_(pattern.users, pattern.missing)] = self.units.vectors(vectors)[
                :, pattern.missing
            ]
        return values

    def patterns(self, complete: bool = False) -> Iterator["Pattern"]:
        """Users by which of their cells are exact, known to an interval, and missing; complete ones
        only on request."""
        kinds = np.where(self.low == self.high, 0, np.where(self.missing, 2, 1))
        rows, group = np.unique(kinds, axis=0, return_inverse=True)
        for place, row in enumerate(rows):
            if complete or row.any():
                yield Pattern.of(self, row, np.flatnonzero(group.ravel() == place))


@dataclass(frozen=True)
class Pattern:
    """Users (m,) whose cells are exact, intervals and missing in the same columns.

    exact (m, s): what is known exactly of each, s numbers. low, high (m, i): bounds. All are from
    the units' mean. loading (s + i + number missing, r): how these numbers and the other cells
    follow from a vector in working units.
    """

    users: Places
    intervals: Places
    missing: Places
    exact: Array
    low: Array
    high: Array
    loading: Array
    units: Whitening

    @classmethod
    def of(cls, table: UserCells, kinds: Places, users: Places) -> "Pattern":
        """kinds (D,): 0, 1 or 2 for columns that are exact, intervals or missing."""
        units = table.units
        known, intervals, missing = (np.flatnonzero(kinds == kind) for kind in range(3))
        low, high = table.low[users] - units.mean, table.high[users] - units.mean
        exact, loading = low[:, known], units.factor[known]
        if units.n_dims < len(units.mean):
            if len(intervals):
                raise InputError(
                    "Users of the fit span fewer dimensions than X has columns. New users may "
                    "then have missing cells, but no "
                    "cells that are known to an interval only. Leave out the constant or "
                    "dependent columns and fit again."
                )
            span = _span(loading)
            exact, loading = exact @ span, span.T @ loading
        # narrow ones first: they say where the wide ones are drawn
        widths = np.median((high - low)[:, intervals], axis=0)
        sizes = np.linalg.norm(units.factor[intervals], axis=1)
        intervals = intervals[np.argsort(widths / sizes, kind="stable")]
        loading = np.concatenate([loading, units.factor[intervals], units.factor[missing]])
        return cls(
            users, intervals, missing, exact, low[:, intervals], high[:, intervals], loading, units
        )

    def __getitem__(self, places: slice) -> "Pattern":
        """Some of the users."""
        return replace(
            self,
            users=self.users[places],
            exact=self.exact[places],
            low=self.low[places],
            high=self.high[places],
        )

    @property
    def _known(self) -> Known:
        parts = self.exact, self.low, self.high
        return Known(*map(np.ascontiguousarray, parts))

    def log_density(
        self, gaussians: Gaussians, first: Places, log_weights: Array, shifts: Array
    ) -> Array:
        """ln p(cells of the users | component), (m, n), by the volume of working units where cells
        are exact.

        first (N,): where the components of each draw begin. log_weights (m, n): what these weigh
        besides, which says where the estimates have to be close. shifts (n, i − 1 or more): where
        the points of the GHK sampler begin in each component, between 0 and 1; one more where
        components have heavy tails.
        """
        n_exact, n_intervals = self.exact.shape[1], len(self.intervals)
        points, chi_squares = _points(max(0, n_intervals - 1)), np.empty((0, 0))
        if len(gaussians.dofs) and n_intervals:
            points = _points(n_intervals)
            levels = points[:, -1] + shifts[:, n_intervals - 1, None]
            chi_squares = _chi_squares(gaussians.dofs + n_exact, levels % 1.0)
        n_known = n_exact + n_intervals
        found = log_densities(
            self._known,
            np.ascontiguousarray(self.loading[:n_known]),
            gaussians,
            np.append(first, len(gaussians.means)),
            log_weights,
            shifts,
            points,
            chi_squares,
        )
        return np.asarray(found + self.units.log_volume)

    def draw(self, rng: np.random.Generator, gaussians: Gaussians, place: int) -> Array:
        """The interval cells and the missing cells of one of the users, one draw for each of n
        components, (n, cells).

        Missing cells are drawn together. So is a single interval cell with them. Where there are
        more, they come from Gibbs sweeps that begin at one of the GHK sampler's points, taken by
        its weight: not exactly from their distribution, but very nearly.
        """
        loading = np.ascontiguousarray(self.loading)
        drawn = draw_cells(stream_of(rng), place, self._known, loading, gaussians, N_POINTS)
        return np.asarray(drawn + self.units.mean[np.concatenate([self.intervals, self.missing])])


def log_density(x: UserCells, components: Components, rows: Places, dofs: Array = NORMAL) -> Array:
    """ln p(cells of user j | its component), (S, J), in the data's units; rows (S, J): which of the
    components each user has in S draws; dofs (S,): ν of these."""
    means, factors = components
    if x.complete.all():
        standard = standardized(x.vectors(), means[rows], factors[rows])
        heights = np.log(np.abs(np.diagonal(factors, axis1=-2, axis2=-1))).sum(axis=-1)[rows]
        constant = x.units.n_dims * _HALF_LOG_2PI + x.units.log_volume
        tails = log_tails_of((standard**2).sum(axis=-1), x.units.n_dims, dofs)
        return np.asarray(heights + tails - constant)
    found, first = np.zeros(rows.shape), np.arange(len(rows))
    n_shifts = max(0, x.low.shape[1] - 1) if not len(dofs) else x.low.shape[1]
    shifts = np.random.default_rng(0).random((len(rows), n_shifts))
    even = np.zeros((1, len(rows)))
    for pattern in x.patterns(complete=True):
        for place, user in enumerate(pattern.users):
            gaussians = gaussians_at(components, rows[:, user], dofs)
            own = pattern[place : place + 1].log_density(gaussians, first, even, shifts)
            found[:, user] = own[0] - x.units.log_volume
    return found


def standardized(vectors: Array, means: Array, factors: Array) -> Array:
    """Tᵀ(x − μ) of vectors in working units, (U, r) or (S, U, r), under their components, (S, U,
    …)."""
    return np.asarray((np.swapaxes(factors, -1, -2) @ (vectors - means)[..., None])[..., 0])


def log_tails_of(squares: Array, n_dims: int, dofs: Array) -> Array:
    """``tails.log_tails`` of squares (S, J); dofs (S,): ν, none where all are normal."""
    if not len(dofs):
        return -0.5 * squares
    half = 0.5 * dofs[:, None]
    heights = gammaln(half + 0.5 * n_dims) - gammaln(half) - 0.5 * n_dims * np.log(half)
    return np.asarray(heights - (half + 0.5 * n_dims) * np.log1p(0.5 * squares / half))


def draw_weights(rng: np.random.Generator, squares: Array, n_cells: Any, dofs: Array) -> Array:
    """λ given cells with these squares, (C23), by ν (…) of their components; 1 where that is ∞."""
    finite = np.isfinite(dofs)
    shapes = 0.5 * (np.where(finite, dofs, 1.0) + n_cells)
    rates = 0.5 * (np.where(finite, dofs, 1.0) + squares)
    return np.where(finite, rng.standard_gamma(np.broadcast_to(shapes, rates.shape)) / rates, 1.0)


def _chi_squares(dofs: Array, levels: Array) -> Array:
    """Quantiles (n, P) of χ² with some degrees of freedom (n,) at levels (n, P); 0 where these are
    ∞."""
    finite = np.isfinite(dofs)[:, None]
    half = np.where(finite, 0.5 * dofs[:, None], 1.0)
    return np.where(finite, 2.0 * gammaincinv(half, np.maximum(levels, _LEAST_LEVEL)), 0.0)


def _points(n_dims: int) -> Array:
    """Evenly spread points (P, d) in the unit cube."""
    if not n_dims:
        return np.empty((1, 0))
    return np.asarray(qmc.Sobol(n_dims, scramble=False).random(N_POINTS))


def _span(loading: Array) -> Array:
    """An orthonormal basis (cells, s) of the space in which cells with these rows (cells, r)
    vary."""
    if not loading.size:
        return np.empty((len(loading), 0))
    sizes = np.sqrt((loading**2).sum(axis=1, keepdims=True))
    rank = int(
        np.linalg.matrix_rank(loading / np.where(sizes > 0.0, sizes, 1.0), tol=_RANK_TOLERANCE)
    )
    return np.asarray(np.linalg.svd(loading, full_matrices=False)[0][:, :rank])
