"""Users with cells that are missing or known up to an interval: density and draws of their cells,
(M14).

Cells are taken one after the other: exact ones, then those known to an interval, then
missing ones. With L the lower factor of their covariance in a component they are y = c + L ε, so
that exact cells settle the first of the ε, and missing ones leave the last of them free. The
probability of the intervals given the exact cells is estimated without bias by the sequential
sampler of Geweke, Hajivassiliou and Keane (GHK): each interval's probability given the cells before
it, which are drawn inside their own. It is exact where a user has one such cell.

Shapes: n components, J users, D columns, r dimensions in working units. Cells are on the scale of
the Gaussian view.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import qmc

from dualview.columns.cells import missing_cells
from dualview.distributions import log_normal_mass, normal_quantiles_between
from dualview.errors import InputError
from dualview.numerics.linalg import spread
from dualview.units import Whitening
from dualview.views.base import Components

Array = NDArray[np.float64]
Places = NDArray[np.int64]

N_POINTS = 16  # of the GHK sampler in each component
_SWEEPS = 20  # Gibbs sweeps over interval cells, from one of these points
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
_RANK_TOLERANCE = 1e-8


class Gaussians(NamedTuple):
    """Means (n, r) of components in working units, and square roots (n, r, r) of their
    covariances."""

    means: Array
    roots: Array

    @classmethod
    def at(cls, components: Components, places: NDArray[np.intp]) -> "Gaussians":
        """Some of the components, which have precision factors."""
        means, factors = components.means[places], components.factors[places]
        return cls(means, spread(np.eye(means.shape[1]), factors))


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
        loading = np.concatenate([loading, units.factor[intervals], units.factor[missing]])
        return cls(
            users, intervals, missing, exact, low[:, intervals], high[:, intervals], loading, units
        )

    def sequence(self, gaussians: Gaussians, with_missing: bool = False) -> "Sequence":
        """The cells one after the other in n components, those that are missing only on request."""
        loading = (
            self.loading
            if with_missing
            else self.loading[: self.exact.shape[1] + len(self.intervals)]
        )
        if not loading.size:
            return Sequence(
                np.empty((len(gaussians.means), 0)), np.empty((len(gaussians.means), 0, 0)), 0
            )
        lower = np.swapaxes(
            np.linalg.qr(np.swapaxes(loading @ gaussians.roots, -1, -2), mode="r"), -1, -2
        )
        signs = np.where(np.diagonal(lower, axis1=-2, axis2=-1) < 0.0, -1.0, 1.0)
        return Sequence(gaussians.means @ loading.T, lower * signs[:, None, :], self.exact.shape[1])

    def log_density(self, sequence: "Sequence", place: int, shifts: Array) -> Array:
        """ln p(cells of one of the users | component), (n,), by the volume of working units where
        cells are exact.

        shifts (n, i − 1 or more): where the points of the GHK sampler begin in each component,
        between 0 and 1.
        """
        found = sequence.log_density(self.exact[place], self.low[place], self.high[place], shifts)
        return np.asarray(found + self.units.log_volume)

    def draw(self, rng: np.random.Generator, gaussians: Gaussians, place: int) -> Array:
        """The interval cells and the missing cells of one of the users, one draw for each of n
        components, (n, cells).

        Missing cells are drawn together. So is a single interval cell with them. Where there are
        more, they come from Gibbs sweeps that begin at one of the GHK sampler's points, taken by
        its weight: not exactly from their distribution, but very nearly.
        """
        drawn = self.sequence(gaussians, with_missing=True).draw(
            rng, self.exact[place], self.low[place], self.high[place]
        )
        return np.asarray(drawn + self.units.mean[np.concatenate([self.intervals, self.missing])])


def log_density(x: UserCells, components: Components, rows: Places) -> Array:
    """ln p(cells of user j | its component), (S, J), in the data's units; rows (S, J): which of the
    components each user has in S draws."""
    means, factors = components
    if x.complete.all():
        standard = standardized(x.vectors(), means[rows], factors[rows])
        heights = np.log(np.abs(np.diagonal(factors, axis1=-2, axis2=-1))).sum(axis=-1)[rows]
        constant = x.units.n_dims * _HALF_LOG_2PI + x.units.log_volume
        return np.asarray(heights - 0.5 * (standard**2).sum(axis=-1) - constant)
    found = np.zeros(rows.shape)
    shifts = np.random.default_rng(0).random((len(rows), max(0, x.low.shape[1] - 1)))
    for pattern in x.patterns(complete=True):
        for place, user in enumerate(pattern.users):
            sequence = pattern.sequence(Gaussians.at(components, rows[:, user]))
            found[:, user] = pattern.log_density(sequence, place, shifts) - x.units.log_volume
    return found


def standardized(vectors: Array, means: Array, factors: Array) -> Array:
    """Tᵀ(x − μ) of vectors in working units, (U, r) or (S, U, r), under their components, (S, U,
    …)."""
    return np.asarray((np.swapaxes(factors, -1, -2) @ (vectors - means)[..., None])[..., 0])


@dataclass(frozen=True)
class Sequence:
    """Cells y = c + L ε in n components: centers c (n, s), lower L (n, s, k), the first n_exact of
    them known exactly."""

    centres: Array
    lower: Array
    n_exact: int

    def _settled(self, exact: Array) -> tuple[Array, Array]:
        """ε (n, n_exact) of exact cells, and ln of their density (n,)."""
        standard = np.empty((len(self.centres), self.n_exact))
        total = np.full(len(self.centres), -self.n_exact * _HALF_LOG_2PI)
        for i, value in enumerate(exact):
            scale = self.lower[:, i, i]
            away = value - self.centres[:, i] - (self.lower[:, i, :i] * standard[:, :i]).sum(axis=1)
            standard[:, i] = away / scale
            total -= 0.5 * standard[:, i] ** 2 + np.log(scale)
        return standard, total

    def _given(self, standard: Array, n: int) -> tuple[Array, Array]:
        """Centers (n, i) and factors (n, i, i) of the next cells, given the exact ones."""
        cells, known = slice(self.n_exact, self.n_exact + n), slice(0, self.n_exact)
        centres = self.centres[:, cells] + np.einsum(
            "nij,nj->ni", self.lower[:, cells, known], standard
        )
        return centres, self.lower[:, cells, cells]

    def log_density(self, exact: Array, low: Array, high: Array, shifts: Array) -> Array:
        """ln of the density of the exact cells times the probability of the intervals, (n,)."""
        standard, total = self._settled(exact)
        if not len(low):
            return total
        centres, lower = self._given(standard, len(low))
        levels = (_points(len(low) - 1)[:, None] + shifts[:, : len(low) - 1]) % 1.0
        log_weights = _walk(centres, lower, low, high, levels)[1]
        return np.asarray(total + logsumexp(log_weights, axis=0) - np.log(len(log_weights)))

    def draw(self, rng: np.random.Generator, exact: Array, low: Array, high: Array) -> Array:
        """All cells after the exact ones, (n, i + number missing)."""
        standard = self._settled(exact)[0]
        n, n_free = len(self.centres), self.lower.shape[2] - self.n_exact - len(low)
        if len(low):
            centres, lower = self._given(standard, len(low))
            away = _drawn_inside(rng, centres, lower, low, high)
            inside = np.linalg.solve(lower, away[..., None])[..., 0]
            standard = np.concatenate([standard, inside], axis=1)
        standard = np.concatenate([standard, rng.standard_normal((n, n_free))], axis=1)
        rest = slice(self.n_exact, None)
        return np.asarray(
            self.centres[:, rest] + np.einsum("nij,nj->ni", self.lower[:, rest], standard)
        )


def _walk(
    centres: Array, lower: Array, low: Array, high: Array, levels: Array
) -> tuple[list[Array], Array]:
    """The GHK sampler: ε of the cells that are drawn, each (P, n), and ln of the weights of the
    points, (P, n).

    levels (P, n, i or i − 1): where in its interval's distribution each cell is drawn; there may be
    none for the last.
    """
    standard: list[Array] = []
    log_weights = np.zeros((levels.shape[0] if levels.shape[2] else 1, len(centres)))
    for i in range(len(low)):
        scale = lower[:, i, i]
        middle = centres[:, i] + sum(lower[:, i, k] * before for k, before in enumerate(standard))
        bounds = (low[i] - middle) / scale, (high[i] - middle) / scale, (high[i] - low[i]) / scale
        log_weights += log_normal_mass(*bounds)
        if i < levels.shape[2]:
            standard.append(normal_quantiles_between(levels[..., i], *bounds))
    return standard, log_weights


def _drawn_inside(
    rng: np.random.Generator, centres: Array, lower: Array, low: Array, high: Array
) -> Array:
    """One draw of interval cells in each of n components, less their centers, (n, i)."""
    n, n_cells = centres.shape
    n_points = N_POINTS if n_cells > 1 else 1
    points, log_weights = _walk(centres, lower, low, high, rng.random((n_points, n, n_cells)))
    chosen = np.argmax(log_weights + rng.gumbel(size=log_weights.shape), axis=0)
    standard = np.stack([part[chosen, np.arange(n)] for part in points], axis=1)
    away = np.einsum("nij,nj->ni", lower, standard)
    if n_cells == 1:
        return np.asarray(away)
    inverse = np.linalg.solve(lower, np.broadcast_to(np.eye(n_cells), lower.shape))
    precision = np.swapaxes(inverse, -1, -2) @ inverse
    for _ in range(_SWEEPS):
        for i in range(n_cells):  # (C16)
            sd = 1.0 / np.sqrt(precision[:, i, i])
            middle = away[:, i] - (precision[:, i] * away).sum(axis=1) * sd**2
            start = centres[:, i] + middle
            bounds = (low[i] - start) / sd, (high[i] - start) / sd, (high[i] - low[i]) / sd
            away[:, i] = middle + sd * normal_quantiles_between(rng.random(n), *bounds)
    return np.asarray(away)


def _points(n_dims: int) -> Array:
    """Evenly spread points (P, d) in the unit cube."""
    return (
        np.asarray(qmc.Sobol(n_dims, scramble=False).random(N_POINTS))
        if n_dims
        else np.empty((1, 0))
    )


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
