"""The clusters that users the fit has not seen may belong to, in all draws of a posterior."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.records import ClusterNoise, UserNoise
from dualview.errors import InputError
from dualview.posterior.category_shares import CategoryShares
from dualview.posterior.disagreement import Customers, Rows
from dualview.posterior.followed import followed, slopes_of
from dualview.posterior.fresh import Component, FreshBlocks, FreshClusters
from dualview.posterior.posterior import Posterior
from dualview.posterior.several_looks import SeveralLooks
from dualview.posterior.stacked import solved, spread, times
from dualview.posterior.user_cells import N_POINTS, Gaussians, Pattern, UserCells
from dualview.views.gaussian import density as densities

Array = NDArray[np.float64]
Features = Array | UserCells  # of J users: vectors (J, D) in working units, or cells

MOST_CELLS = 4_000_000  # numbers worked on at a time
SEED = 20  # of what is drawn for users whose observations have no closed form
_CELL_SEED = 22  # of cells drawn for users whose behavior follows them
_SHIFT_SEED = 21  # of where the points of each row begin that estimate probabilities of intervals

_BASE_DRAWS = 20_000  # fresh clusters over all draws of the posterior
_LEAST_FRESH = 4  # and at least this many per draw


class Candidates:
    """The clusters a new user may belong to, in all draws: every component of each draw, then fresh ones from its base.

    Rows are sorted by draw. draw (R,), log_prior (R,) = ln c_k or ln(c_new / m), component (R,) is the row in the posterior's
    table of components, −1 for a fresh one.
    """

    def __init__(self, post: Posterior, seed: int = 0) -> None:
        self._post = post
        rng = np.random.default_rng(seed)
        table = post.components
        partition = post.partition_prior
        alpha = post.flat("alpha") if partition.has_alpha else np.ones(post.n_chains * post.n_draws)
        n_draws = len(alpha)
        owner = table["owner"]
        self._partition, self._alpha = partition, alpha
        self.offset = partition.offset(alpha)
        self._n_clusters = np.bincount(owner, weights=table["count"] > 0, minlength=n_draws)
        new_weight = self.new_weight(np.zeros(n_draws))
        n_fresh = max(_LEAST_FRESH, -(-_BASE_DRAWS // n_draws)) if new_weight.any() else 0
        total = np.bincount(owner, weights=table["count"] + self.offset[owner], minlength=n_draws) + new_weight
        self.n_draws = n_draws
        self.n_fresh = n_fresh
        draw = np.concatenate([owner, np.repeat(np.arange(n_draws), n_fresh)])
        weight = np.concatenate([table["count"] + self.offset[owner], np.repeat(new_weight / max(n_fresh, 1), n_fresh)])
        order = np.argsort(draw, kind="stable")
        self.draw = draw[order]
        self.weight = weight[order]
        self.total = total
        self.component = np.concatenate([np.arange(len(owner)), np.full(n_draws * n_fresh, -1)])[order]
        self.first = np.searchsorted(self.draw, np.arange(n_draws))
        self.known = self.component >= 0
        self.share = post.flat("agreement") if "agreement" in post and "z_tables" not in post else None
        self.may_disagree = "agreement" in post
        self.pooled = post.pooling is not None
        self.n_latent = post.units["behavior"].n_dims if "behavior" in post.units else 0
        self._views = {view: self._rows_of(rng, view) for view in post.units if f"{view}.factors" in table}
        self._categories = CategoryShares(post, self.component, self.draw) if "categories.log_shares" in table else None

    def _rows_of(self, rng: np.random.Generator, view: str) -> "ViewRows":
        table, own = self._post.components, self.component[self.known]
        known = Component(table[f"{view}.means"][own], table[f"{view}.factors"][own])
        if not self.n_fresh:
            return ViewRows(known, None)
        base, layout = self._post.working_base(view), self._post.layout
        if view == "features" and layout is not None:
            return ViewRows(known, FreshBlocks(rng, base, [own for _, own in layout.of_numbers], self.n_fresh))
        return ViewRows(known, FreshClusters(rng, base, self.n_fresh))

    def new_weight(self, n_opened: Array) -> Array:
        """What a new cluster weighs in each draw (N,), after n_opened (N,) others were opened."""
        return np.asarray(self._partition.new_weight(self._alpha, self._n_clusters + n_opened), dtype=float)

    def customers(self, weight: Array, total: Array) -> Customers | None:
        """How new users act who look like rows of this weight (R,), of this total (N,) in each draw; None if as they look."""
        if self.share is None:
            return None
        new = [self.new_weight(np.full(self.n_draws, n)) / max(self.n_fresh, 1) for n in (0.0, 1.0)]
        return Customers.of(Rows(self.draw, self.first, self.known, self.offset, self.share), weight, total, new)

    @property
    def log_prior(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weight / self.total[self.draw]))

    def log_features(self, x: Features | None, n_users: int) -> Array:
        """ln p(a_j | row), (J, R); 0 without a feature view. x in working units, or cells.

        Where several tables of features have labels of their own, rows are those of behavior, and this is what all tables say.
        """
        if self._looks is not None:
            return self._looks.log_features(self._log_tables(x, n_users))
        if isinstance(x, UserCells):
            return self._log_cells(x)
        if x is None or "features" not in self._views:
            return np.zeros((n_users, len(self.draw)))
        known, fresh = self._views["features"]
        result = np.empty((n_users, len(self.draw)))
        result[:, self.known] = densities.log_likelihood(x, *known)
        if fresh is not None:
            result[:, ~self.known] = [fresh.log_density(own) for own in x]
        return result

    @property
    def has_several_looks(self) -> bool:
        """Whether several tables of features have labels of their own."""
        return "z_tables" in self._post

    @cached_property
    def _looks(self) -> SeveralLooks | None:
        """How labels of several tables go with behavior; None where there is one label for all."""
        if "z_tables" not in self._post:
            return None
        if self._post.partition_process is not None:
            raise InputError(
                "New users cannot be predicted where several tables of features may disagree with behavior and the partition "
                f"is {self._post.partition_process}: fit with a Dirichlet process, with n_clusters, or agreement=None."
            )
        shares = self._post.flat("agreement")
        return SeveralLooks(self.weight, self.total, self.draw, self.first, shares)

    def _log_tables(self, x: Features | None, n_users: int) -> list[Array]:
        """ln p(vectors of each table | row), (J, R) each."""
        layout = self._post.layout
        assert layout is not None
        found = [np.zeros((n_users, len(self.draw))) for _ in layout.names]
        if x is None:
            return found
        for (table, own), columns in zip(layout.of_numbers, layout.columns, strict=True):
            if isinstance(x, UserCells):
                found[table] += self._log_gaussian_cells(x.columns(columns, own), own)
            else:
                found[table] += self._log_vectors(x[:, own], own)
        if self._categories is not None and isinstance(x, UserCells):
            for table, own in layout.of_categories:
                codes = np.full_like(x.cells.codes, -1)
                codes[:, own] = x.cells.codes[:, own]
                found[table] += self._categories.log_probability(codes)
        return found

    def _log_vectors(self, x: Array, own: slice) -> Array:
        """ln p(vectors in some dimensions, a block | row), (J, R)."""
        known, fresh = self._views["features"]
        result = np.empty((len(x), len(self.draw)))
        means, factors = (np.ascontiguousarray(part) for part in (known.means[:, own], known.factors[:, own, own]))
        result[:, self.known] = densities.log_likelihood(np.ascontiguousarray(x), means, factors)
        if isinstance(fresh, FreshBlocks):
            result[:, ~self.known] = [fresh.block(own).log_density(one) for one in x]
        return result

    def _log_gaussian_cells(self, x: UserCells, own: slice) -> Array:
        """ln p(Gaussian cells, in some dimensions | row), (J, R): those that are missing are integrated out."""
        result = np.zeros((len(x), len(self.draw)))
        complete = np.flatnonzero(x.complete)
        if len(complete):
            result[complete] = self._log_vectors(x.vectors()[complete], own)
        for pattern in x.patterns():
            for rows in self._blocks(pattern):
                means, roots = self.gaussians(rows)
                sequence = pattern.sequence(Gaussians(means[:, own], roots[:, own, own]))
                for place, user in enumerate(pattern.users):
                    result[user, rows] = pattern.log_density(sequence, place, self._shifts[rows])
        return result

    def _log_cells(self, x: UserCells) -> Array:
        """ln p(cells of user j | row), (J, R): those that are missing are integrated out."""
        result = np.zeros((len(x), len(self.draw)))
        if "features" in self._views:
            complete = np.flatnonzero(x.complete)
            if len(complete):
                result[complete] = self.log_features(x.vectors()[complete], len(complete))
            for pattern in x.patterns():
                for rows in self._blocks(pattern):
                    sequence = pattern.sequence(self.gaussians(rows))
                    for place, user in enumerate(pattern.users):
                        result[user, rows] = pattern.log_density(sequence, place, self._shifts[rows])
        if self._categories is not None:
            result += self._categories.log_probability(x.cells.codes)
        return result

    def _blocks(self, pattern: Pattern) -> list[NDArray[np.intp]]:
        """All rows, in parts whose numbers fit into memory."""
        n_dims = max(1, pattern.units.n_dims)
        size = max(1, MOST_CELLS // (n_dims * max(n_dims, N_POINTS)))
        rows = np.arange(len(self.draw))
        return [rows[first : first + size] for first in range(0, len(rows), size)]

    @cached_property
    def _shifts(self) -> Array:
        """Where points begin that estimate probabilities of intervals, (R, D − 1): another place in each row."""
        n_dims = len(self._post.units["features"].mean)
        return np.random.default_rng(_SHIFT_SEED).random((len(self.draw), max(0, n_dims - 1)))

    def gaussians(self, rows: NDArray[np.intp]) -> Gaussians:
        """Some rows' distribution of the feature vector, as a user sees it who is new to them."""
        known, fresh = self._views["features"]
        n_dims = self._post.units["features"].n_dims
        found = Gaussians(np.empty((len(rows), n_dims)), np.empty((len(rows), n_dims, n_dims)))
        is_known, places = self.known[rows], np.where(self.known, np.cumsum(self.known), np.cumsum(~self.known))[rows] - 1
        own = places[is_known]
        found.means[is_known], found.roots[is_known] = known.means[own], spread(np.eye(n_dims), known.factors[own])
        if fresh is not None:
            own = places[~is_known]
            found.means[~is_known], found.roots[~is_known] = fresh.base.means[fresh.draw[own]], fresh.roots_of(own)
        return found

    def level_probabilities(self, column: int) -> Array:
        """Each row's probabilities of the levels of a nominal column, (R, L)."""
        assert self._categories is not None
        return self._categories.probabilities(column)

    @cached_property
    def latent(self) -> tuple[Array, Array]:
        """Mean (R, q) and covariance (R, q, q) of the latent vector in each row, in the user's units.

        Where users share it a known cluster has one vector and no covariance, and a fresh one has the base's.
        """
        units, covariances = self._post.units["behavior"], self.roots @ np.swapaxes(self.roots, -1, -2)
        means = self._post.flat("behavior.base_mean").reshape(self.n_draws, -1)[self.draw]
        means[self.known] = units.vectors(self._post.components["behavior.means"])[self.component[self.known]]
        return means, covariances

    def shifts(self, x: Features | None) -> Array:
        """What a link adds to the latent vectors of users with features x (J, D) in working units, (N, J, q); 0 without one."""
        if x is None or "slopes" not in self._post:
            return np.zeros((1, 1, 1))
        vectors, codes = (None, x.cells.codes) if isinstance(x, UserCells) else (x, None)
        if isinstance(x, UserCells) and x.units is not None:
            vectors = x.vectors()
        return np.asarray(np.einsum("nqd,jd->njq", self._slopes, followed(self._post, vectors, codes)))

    @cached_property
    def _slopes(self) -> Array:
        """Those of a link in every draw, in the user's units, (N, q, columns)."""
        return slopes_of(self._post)

    @property
    def has_link(self) -> bool:
        return "slopes" in self._post

    def require_cells(self, x: Features | None) -> None:
        """A link needs exact cells where users need not act as they look: what it adds depends on both clusters at once."""
        if self.may_disagree and self.has_link and isinstance(x, UserCells) and not x.complete.all():
            raise InputError(
                "Latent behavior that follows features by a link cannot be predicted for users with missing or inexact "
                "cells where users need not act as they look: give complete rows, or fit with agreement=None or link=None."
            )

    def row_shifts(self, x: Features | None) -> Array:
        """What a link adds to the latent vectors of users in each row, (R, J, q); 0 without one.

        Cells that are not exact are drawn in each row given its cluster and the other cells.
        """
        shifts = self.shifts(x)
        if len(shifts) == 1 and not self.has_link:
            return shifts
        shifts = np.asarray(shifts[self.draw])
        if isinstance(x, UserCells) and x.units is not None:
            rows = np.arange(len(self.draw))
            for j in np.flatnonzero(~x.complete):
                own = x[j : j + 1]
                values = self.drawn_cells(np.random.default_rng(_CELL_SEED), rows, own)
                shifts[:, j] = self.shifts_of(self.draw, values, own)
        return shifts

    def shifts_of(self, draws: NDArray[np.intp], values: Array, x: UserCells) -> Array:
        """What a link adds to the latent vector of one user with some complete values (n, D), each in a draw (n,): (n, q)."""
        vectors = self._post.units["features"].to_working(values)
        columns = followed(self._post, vectors[:, None], x.cells.codes)[:, 0]
        return np.asarray(np.einsum("nqd,nd->nq", self._slopes[draws], columns))

    @cached_property
    def roots(self) -> Array:
        """A square root of each row's covariance, (R, q, q)."""
        units = self._post.units["behavior"]
        q = units.n_dims
        roots = np.zeros((len(self.draw), q, q))
        if self.pooled:
            lower = np.linalg.cholesky(self._post.flat("behavior.base_precision").reshape(-1, q, q))
            inverse = solved(np.swapaxes(lower, -1, -2), np.broadcast_to(np.eye(q), lower.shape))
            roots[~self.known] = inverse[self.draw[~self.known]]
            return roots
        known, fresh = self._views["behavior"]
        roots[self.known] = spread(units.factor, known.factors)
        if fresh is not None:
            roots[~self.known] = units.factor @ fresh.roots
        return roots

    def opened_latent(self, rng: np.random.Generator, rows: NDArray[np.intp]) -> "OpenedLatent | None":
        """Fresh clusters, by their rows, as they are once a user acts in them; None where clusters have one latent vector."""
        if "behavior" not in self._views:
            return None
        places = np.cumsum(~self.known)[rows] - 1
        units, fresh = self._post.units["behavior"], self._views["behavior"].fresh
        assert fresh is not None
        first = fresh.base.means[fresh.draw[places]]
        first = first + times(fresh.roots[places], rng.standard_normal(first.shape))
        component = self._open("behavior", rng, places, first)
        roots = spread(units.factor, component.factors)
        covariances = roots @ np.swapaxes(roots, -1, -2)
        return OpenedLatent(units.vectors(first), units.vectors(component.means), covariances)

    def opened_features(
        self, rng: np.random.Generator, rows: NDArray[np.intp], x: Features | None, values: Array | None = None
    ) -> "OpenedFeatures | None":
        """Fresh clusters, by their rows, as they are once a user with features x is in them; None without features.

        values (rows, D): the user's complete cells in each row, where they were drawn before.
        """
        if x is None or not ("features" in self._views or self._categories is not None):
            return None
        places, component, log_shares = np.cumsum(~self.known)[rows] - 1, None, None
        if "features" in self._views:
            if values is not None:
                vectors = self._post.units["features"].to_working(values)
            else:
                vectors = self._drawn_vectors(rng, rows, x) if isinstance(x, UserCells) else x[0]
            component = self._open("features", rng, places, vectors)
        if self._categories is not None and isinstance(x, UserCells):
            log_shares = self._categories.opened(rng, rows, x.cells.codes[0])
        return OpenedFeatures(component, log_shares)

    def _drawn_vectors(self, rng: np.random.Generator, rows: NDArray[np.intp], x: UserCells) -> Array:
        """Complete vectors of one user in working units, drawn given its cells in some rows, (D,) or (rows, D)."""
        if x.complete[0]:
            return np.asarray(x.vectors()[0])
        return self._post.units["features"].to_working(self.drawn_cells(rng, rows, x))

    def drawn_cells(
        self, rng: np.random.Generator, rows: NDArray[np.intp], x: UserCells, gaussians: Gaussians | None = None
    ) -> Array:
        """All Gaussian cells of one user, those that are not exact drawn in some rows, (rows, D).

        gaussians: the rows' distributions of the feature vector, where they are not those of :meth:`gaussians`.
        """
        result = np.repeat(x.cells.low[:1], len(rows), axis=0)
        for pattern in x.patterns():
            columns = np.concatenate([pattern.intervals, pattern.missing])
            result[:, columns] = pattern.draw(rng, self.gaussians(rows) if gaussians is None else gaussians, 0)
        return np.clip(result, x.cells.low[0], x.cells.high[0])  # against rounding

    def log_opened(self, x: Features, rows: NDArray[np.intp], opened: "OpenedFeatures") -> Array:
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

    def _open(self, view: str, rng: np.random.Generator, places: NDArray[np.intp], vectors: Array) -> Component:
        fresh = self._views[view].fresh
        assert fresh is not None
        return fresh.opened(rng, places, vectors)

    def noise(self, noise: ClusterNoise | UserNoise) -> Array:
        """The noise precision (R,) of each row's cluster, from the prior where nobody is in it; or of a new user there."""
        if isinstance(noise, UserNoise):
            half = 0.5 * noise.dof[self.draw]
            return np.asarray(noise.typical[self.draw] * np.random.default_rng(SEED).standard_gamma(half) / half)
        components = np.full(len(self._post.components["owner"]), np.nan)
        components[self._members(self._post.flat_acts)] = noise.precision
        precision: Array = np.append(components, np.nan)[self.component]
        empty = np.isnan(precision)
        fresh = np.random.default_rng(SEED).standard_gamma(0.5 * noise.dof, int(empty.sum()))
        precision[empty] = 2.0 * fresh / (noise.dof * noise.variance)
        return precision

    def _members(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Every user's component in every draw, as a row of the posterior's table, (N, U)."""
        offsets = np.searchsorted(self._post.components["owner"], np.arange(self.n_draws))
        return np.asarray(offsets[:, None] + labels)

    @cached_property
    def overlap(self) -> Array:
        """Share of each row's users that is in each cluster of the estimate, (R, C + 1); the last column is a fresh cluster."""
        labels = self._post.partition()
        table = self._post.components
        counts = np.zeros((len(table["owner"]), int(labels.max()) + 1))
        for members in self._members(self._post.flat("z")):
            np.add.at(counts, (members, labels), 1.0)
        shares = counts / np.maximum(counts.sum(axis=1), 1.0)[:, None]
        result = np.zeros((len(self.draw), counts.shape[1] + 1))
        known = self.component >= 0
        result[known, :-1] = shares[self.component[known]]
        result[~known, -1] = 1.0
        return result


class ViewRows(NamedTuple):
    """Components of the rows that the draws have, and the fresh ones where a cluster can be opened."""

    known: Component
    fresh: FreshClusters | FreshBlocks | None


class OpenedLatent(NamedTuple):
    """Latent vectors (n, q) of those who opened n clusters; mean (n, q) and covariance (n, q, q) of those who follow."""

    first: Array
    means: Array
    covariances: Array


class OpenedFeatures(NamedTuple):
    """Features of n clusters that were fresh: components in working units, and ln θ (n, Σ L_j) of nominal columns."""

    component: Component | None
    log_shares: Array | None


def gaussians_of(component: Component) -> Gaussians:
    """Components of the feature view with square roots of their covariances."""
    means, factors = component
    return Gaussians(means, spread(np.eye(means.shape[1]), factors))
