"""Features of users in the clusters of all draws: their density, and draws of cells that are not
exact.

Rows (R,) are those of ``cluster_rows``; J users have vectors (J, D) in working units, or cells.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.posterior.category_shares import CategoryShares
from dualview.posterior.cluster_rows import ClusterRows, ViewRows
from dualview.posterior.fresh import Component, FreshBlocks
from dualview.posterior.posterior import Posterior
from dualview.posterior.stacked import spread
from dualview.posterior.user_cells import N_POINTS, Gaussians, Pattern, UserCells
from dualview.views.gaussian import density as densities

Array = NDArray[np.float64]
Features = Array | UserCells  # of J users: vectors (J, D) in working units, or cells

MOST_CELLS = 4_000_000  # numbers worked on at a time
_SHIFT_SEED = 21  # of where the points of each row begin that estimate probabilities of intervals
_ALL = slice(None)


class OpenedFeatures(NamedTuple):
    """Features of n clusters that were fresh: components in working units, and ln θ (n, Σ L_j) of
    nominal columns."""

    component: Component | None
    log_shares: Array | None


class FeatureRows:
    """The distribution of features in every row. numbers: that of vectors, where there are some."""

    def __init__(self, post: Posterior, rows: ClusterRows, numbers: ViewRows | None) -> None:
        self._post, self._rows, self._numbers = post, rows, numbers
        has_categories = "categories.log_shares" in post.components
        self._categories = (
            CategoryShares(post, rows.component, rows.draw) if has_categories else None
        )

    def log_density(self, x: Features | None, n_users: int) -> Array:
        """ln p(features of user j | row), (J, R); 0 without features. Cells that are missing are
        integrated out."""
        if x is None or (self._numbers is None and not isinstance(x, UserCells)):
            return np.zeros((n_users, len(self._rows)))
        if not isinstance(x, UserCells):
            return self._log_vectors(x)
        result = (
            np.zeros((len(x), len(self._rows))) if self._numbers is None else self._log_cells(x)
        )
        if self._categories is not None:
            result += self._categories.log_probability(x.cells.codes)
        return result

    def log_by_table(self, x: Features | None, n_users: int) -> list[Array]:
        """ln p(features of each table | row), (J, R) each, where features came as several
        tables."""
        layout = self._post.layout
        assert layout is not None
        found = [np.zeros((n_users, len(self._rows))) for _ in layout.names]
        if x is None:
            return found
        for (table, own), columns in zip(layout.of_numbers, layout.columns, strict=True):
            if isinstance(x, UserCells):
                found[table] += self._log_cells(x.columns(columns, own), own)
            else:
                found[table] += self._log_vectors(x[:, own], own)
        if self._categories is not None and isinstance(x, UserCells):
            for table, own in layout.of_categories:
                codes = np.full_like(x.cells.codes, -1)
                codes[:, own] = x.cells.codes[:, own]
                found[table] += self._categories.log_probability(codes)
        return found

    def _log_vectors(self, x: Array, own: slice = _ALL) -> Array:
        """ln p(vectors, or those of a block of dimensions | row), (J, R)."""
        assert self._numbers is not None
        known, fresh = self._numbers
        result = np.empty((len(x), len(self._rows)))
        means, factors = (
            np.ascontiguousarray(part) for part in (known.means[:, own], known.factors[:, own, own])
        )
        result[:, self._rows.known] = densities.log_likelihood(
            np.ascontiguousarray(x), means, factors
        )
        if isinstance(fresh, FreshBlocks) and own != _ALL:
            result[:, ~self._rows.known] = [fresh.block(own).log_density(one) for one in x]
        elif fresh is not None:
            result[:, ~self._rows.known] = [fresh.log_density(one) for one in x]
        return result

    def _log_cells(self, x: UserCells, own: slice = _ALL) -> Array:
        """ln p(Gaussian cells, or those of a block of dimensions | row), (J, R): those that are
        missing are integrated out."""
        result = np.zeros((len(x), len(self._rows)))
        complete = np.flatnonzero(x.complete)
        if len(complete):
            result[complete] = self._log_vectors(x.vectors()[complete], own)
        for pattern in x.patterns():
            for rows in self._parts(pattern):
                means, roots = self.gaussians(rows)
                sequence = pattern.sequence(Gaussians(means[:, own], roots[:, own, own]))
                for place, user in enumerate(pattern.users):
                    result[user, rows] = pattern.log_density(sequence, place, self._shifts[rows])
        return result

    def _parts(self, pattern: Pattern) -> list[NDArray[np.intp]]:
        """All rows, in parts whose numbers fit into memory."""
        n_dims = max(1, pattern.units.n_dims)
        size = max(1, MOST_CELLS // (n_dims * max(n_dims, N_POINTS)))
        rows = np.arange(len(self._rows))
        return [rows[first : first + size] for first in range(0, len(rows), size)]

    @cached_property
    def _shifts(self) -> Array:
        """Where points begin that estimate probabilities of intervals, (R, D − 1): another place in
        each row."""
        n_dims = len(self._post.units["features"].mean)
        return np.random.default_rng(_SHIFT_SEED).random((len(self._rows), max(0, n_dims - 1)))

    def gaussians(self, rows: NDArray[np.intp]) -> Gaussians:
        """Some rows' distribution of the feature vector, as a user sees it who is new to them."""
        assert self._numbers is not None
        known, fresh = self._numbers
        n_dims = self._post.units["features"].n_dims
        found = Gaussians(np.empty((len(rows), n_dims)), np.empty((len(rows), n_dims, n_dims)))
        is_known, places = self._rows.known[rows], self._rows.places[rows]
        own = places[is_known]
        found.means[is_known], found.roots[is_known] = (
            known.means[own],
            spread(np.eye(n_dims), known.factors[own]),
        )
        if fresh is not None:
            own = places[~is_known]
            found.means[~is_known], found.roots[~is_known] = (
                fresh.base.means[fresh.draw[own]],
                fresh.roots_of(own),
            )
        return found

    def level_probabilities(self, column: int) -> Array:
        """Each row's probabilities of the levels of a nominal column, (R, L)."""
        assert self._categories is not None
        return self._categories.probabilities(column)

    def drawn_cells(
        self,
        rng: np.random.Generator,
        rows: NDArray[np.intp],
        x: UserCells,
        gaussians: Gaussians | None = None,
    ) -> Array:
        """All Gaussian cells of one user, those that are not exact drawn in some rows, (rows, D).

        gaussians: the rows' distributions of the feature vector, where they are not those of
        :meth:`gaussians`.
        """
        result = np.repeat(x.cells.low[:1], len(rows), axis=0)
        for pattern in x.patterns():
            columns = np.concatenate([pattern.intervals, pattern.missing])
            result[:, columns] = pattern.draw(
                rng, self.gaussians(rows) if gaussians is None else gaussians, 0
            )
        return np.clip(result, x.cells.low[0], x.cells.high[0])  # against rounding

    def opened(
        self,
        rng: np.random.Generator,
        rows: NDArray[np.intp],
        x: Features | None,
        values: Array | None = None,
    ) -> OpenedFeatures | None:
        """Fresh clusters, by their rows, as they are once a user with features x is in them; None
        without features.

        values (rows, D): the user's complete cells in each row, where they were drawn before.
        """
        if x is None or (self._numbers is None and self._categories is None):
            return None
        component, log_shares = None, None
        if self._numbers is not None:
            if values is not None:
                vectors = self._post.units["features"].to_working(values)
            else:
                vectors = self._drawn_vectors(rng, rows, x) if isinstance(x, UserCells) else x[0]
            assert self._numbers.fresh is not None
            component = self._numbers.fresh.opened(rng, self._rows.places[rows], vectors)
        if self._categories is not None and isinstance(x, UserCells):
            log_shares = self._categories.opened(rng, rows, x.cells.codes[0])
        return OpenedFeatures(component, log_shares)

    def _drawn_vectors(
        self, rng: np.random.Generator, rows: NDArray[np.intp], x: UserCells
    ) -> Array:
        """Complete vectors of one user in working units, drawn given its cells in some rows, (D,)
        or (rows, D)."""
        if x.complete[0]:
            return np.asarray(x.vectors()[0])
        return self._post.units["features"].to_working(self.drawn_cells(rng, rows, x))

    def log_opened(self, x: Features, rows: NDArray[np.intp], opened: OpenedFeatures) -> Array:
        """ln p(features of one user | clusters that others have opened), (rows,)."""
        if not isinstance(x, UserCells):
            assert opened.component is not None
            return np.asarray(densities.log_likelihood(x, *opened.component)[0])
        total = np.zeros(len(rows))
        if opened.component is not None and x.complete[0]:
            total += densities.log_likelihood(x.vectors(), *opened.component)[0]
        elif opened.component is not None:
            gaussians = gaussians_of(opened.component)
            for pattern in x.patterns():
                total += pattern.log_density(pattern.sequence(gaussians), 0, self._shifts[rows])
        if opened.log_shares is not None:
            assert self._categories is not None
            total += self._categories.log_of_levels(opened.log_shares, x.cells.codes[0])
        return total


def gaussians_of(component: Component) -> Gaussians:
    """Components of the feature view with square roots of their covariances."""
    means, factors = component
    return Gaussians(means, spread(np.eye(means.shape[1]), factors))
