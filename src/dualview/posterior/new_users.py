"""Users the fit has not seen: their clusters and latent behavior from their features, and from a few outcomes.

A new user updates the posterior, so draws are reweighted: draw i counts in proportion to p(a* | draw i), the sum over its
clusters and a new cluster, whose mean and precision are integrated out (``fresh``). Equal weights would be wrong.
"""

import warnings
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dualview.behaviors.base import ClusterNoise, Evidence, Forecast, SampledEvidence
from dualview.errors import DataWarning, InputError
from dualview.outcomes import Mixture, NormalMixture, Parts
from dualview.posterior.category_shares import CategoryShares
from dualview.posterior.followed import followed, slopes_of
from dualview.posterior.fresh import Component, FreshClusters
from dualview.posterior.posterior import Posterior
from dualview.posterior.predictive import VectorMixture, VectorParts, WeightedDraws
from dualview.posterior.user_cells import N_POINTS, Gaussians, Pattern, UserCells
from dualview.views.gaussian import density as densities

Array = NDArray[np.float64]
Features = Array | UserCells  # of J users: vectors (J, D) in working units, or cells

_SEED = 20  # of latent vectors drawn for users whose observations have no closed form
_CELL_SEED = 22  # of cells drawn for users whose behavior follows them
_SHIFT_SEED = 21  # of where the points of each row begin that estimate probabilities of intervals

_BASE_DRAWS = 20_000  # fresh clusters over all draws of the posterior
_LEAST_FRESH = 4  # and at least this many per draw
_CELLS = 4_000_000
_KEPT = 50_000_000  # numbers kept, of each kind, of new users who are asked for again
_FEW = 50  # an effective number of draws below this is worth a warning


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
        self.pooled = post.pooling is not None
        self.n_latent = post.units["behavior"].n_dims if "behavior" in post.units else 0
        self._views = {view: self._rows_of(rng, view) for view in post.units if f"{view}.factors" in table}
        self._categories = CategoryShares(post, self.component, self.draw) if "categories.log_shares" in table else None

    def _rows_of(self, rng: np.random.Generator, view: str) -> "ViewRows":
        table, own = self._post.components, self.component[self.known]
        known = Component(table[f"{view}.means"][own], table[f"{view}.factors"][own])
        fresh = FreshClusters(rng, self._post.working_base(view), self.n_fresh) if self.n_fresh else None
        return ViewRows(known, fresh)

    def new_weight(self, n_opened: Array) -> Array:
        """What a new cluster weighs in each draw (N,), after n_opened (N,) others were opened."""
        return np.asarray(self._partition.new_weight(self._alpha, self._n_clusters + n_opened), dtype=float)

    @property
    def log_prior(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weight / self.total[self.draw]))

    def log_features(self, x: Features | None, n_users: int) -> Array:
        """ln p(a_j | row), (J, R); 0 without a feature view. x in working units, or cells."""
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
        size = max(1, _CELLS // (n_dims * max(n_dims, N_POINTS)))
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
        found.means[is_known], found.roots[is_known] = known.means[own], _spread(np.eye(n_dims), known.factors[own])
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
            inverse = _solved(np.swapaxes(lower, -1, -2), np.broadcast_to(np.eye(q), lower.shape))
            roots[~self.known] = inverse[self.draw[~self.known]]
            return roots
        known, fresh = self._views["behavior"]
        roots[self.known] = _spread(units.factor, known.factors)
        if fresh is not None:
            roots[~self.known] = units.factor @ fresh.roots
        return roots

    def opened(
        self, rng: np.random.Generator, rows: NDArray[np.intp], x: Features | None, values: Array | None = None
    ) -> "Opened":
        """Fresh clusters, by their rows, as they are once a user with features x, those of one user, or None is in them.

        values (rows, D): the user's complete cells in each row, where they were drawn before.
        """
        places = np.cumsum(~self.known)[rows] - 1
        features = latent = None
        if x is not None and ("features" in self._views or self._categories is not None):
            features = self._opened_features(rng, rows, places, x, values)
        if "behavior" in self._views:
            units, fresh = self._post.units["behavior"], self._views["behavior"].fresh
            assert fresh is not None
            first = fresh.base.means[fresh.draw[places]]
            first = first + _times(fresh.roots[places], rng.standard_normal(first.shape))
            component = self._open("behavior", rng, places, first)
            roots = _spread(units.factor, component.factors)
            covariances = roots @ np.swapaxes(roots, -1, -2)
            latent = OpenedLatent(units.vectors(first), units.vectors(component.means), covariances)
        return Opened(features, latent)

    def _opened_features(
        self, rng: np.random.Generator, rows: NDArray[np.intp], places: NDArray[np.intp], x: Features, values: Array | None
    ) -> "OpenedFeatures":
        component = log_shares = None
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

    def noise(self, noise: ClusterNoise) -> Array:
        """The noise precision of each row's cluster, (R,); from the prior where nobody is in it."""
        components = np.full(len(self._post.components["owner"]), np.nan)
        components[self._members] = noise.precision
        precision: Array = np.append(components, np.nan)[self.component]
        empty = np.isnan(precision)
        fresh = np.random.default_rng(_SEED).standard_gamma(0.5 * noise.dof, int(empty.sum()))
        precision[empty] = 2.0 * fresh / (noise.dof * noise.variance)
        return precision

    @property
    def _members(self) -> NDArray[np.int64]:
        """Every user's component in every draw, as a row of the posterior's table, (N, U)."""
        offsets = np.searchsorted(self._post.components["owner"], np.arange(self.n_draws))
        return np.asarray(offsets[:, None] + self._post.flat("z"))

    @cached_property
    def overlap(self) -> Array:
        """Share of each row's users that is in each cluster of the estimate, (R, C + 1); the last column is a fresh cluster."""
        labels = self._post.partition()
        table = self._post.components
        counts = np.zeros((len(table["owner"]), int(labels.max()) + 1))
        for members in self._members:
            np.add.at(counts, (members, labels), 1.0)
        shares = counts / np.maximum(table["count"], 1)[:, None]
        result = np.zeros((len(self.draw), counts.shape[1] + 1))
        known = self.component >= 0
        result[known, :-1] = shares[self.component[known]]
        result[~known, -1] = 1.0
        return result


class ViewRows(NamedTuple):
    """Components of the rows that the draws have, and the fresh ones where a cluster can be opened."""

    known: Component
    fresh: FreshClusters | None


class OpenedLatent(NamedTuple):
    """Latent vectors (n, q) of those who opened n clusters; mean (n, q) and covariance (n, q, q) of those who follow."""

    first: Array
    means: Array
    covariances: Array


class OpenedFeatures(NamedTuple):
    """Features of n clusters that were fresh: components in working units, and ln θ (n, Σ L_j) of nominal columns."""

    component: Component | None
    log_shares: Array | None


class Opened(NamedTuple):
    """n clusters that were fresh: features, and latent vectors in the user's units; None without such a view."""

    features: OpenedFeatures | None
    latent: OpenedLatent | None


class Given(NamedTuple):
    """Each row's weight for some new users, (R, J), and their latent vectors' distribution in it: (R, J, q), (R, J, q, q)."""

    log_weights: Array
    means: Array
    covariances: Array


class Imputed(NamedTuple):
    """Clusters of M new users in every draw.

    log_density (N,): ln p(their features | draw). means (M, N, q) and covariances (M, N, q, q) of their latent vectors. places
    (M, N): the rows of their clusters.
    """

    log_density: Array
    means: Array
    covariances: Array
    places: NDArray[np.int64]


class ClustersOf(NamedTuple):
    """Clusters of a new user with cells x: weights (R,) of all rows, and rows (n,) that were drawn by them."""

    rng: np.random.Generator
    candidates: Candidates
    x: UserCells
    weights: Array
    rows: NDArray[np.intp]

    def cells(self) -> Array:
        """The user's Gaussian cells, those that are not exact drawn in the rows, (n, D)."""
        return self.candidates.drawn_cells(self.rng, self.rows, self.x)

    def levels(self, column: int) -> tuple[Array, Array]:
        """Probabilities of a nominal column's levels in the rows, (n, L), and over all rows by their weights, (L,)."""
        shares = self.candidates.level_probabilities(column)
        return shares[self.rows], self.weights @ shares


class NewUsers:
    """J new users with features x, vectors (J, D) in working units or cells, and what is known of their observations."""

    def __init__(
        self, candidates: Candidates, x: Features | None, n_users: int, evidence: Evidence | SampledEvidence | None = None
    ) -> None:
        self._candidates = candidates
        self._x = x
        self._n = n_users
        self._evidence = evidence
        self._warned = False
        n_rows, n_numbers = len(candidates.draw), 1 + candidates.n_latent + candidates.n_latent**2
        self._log_features: Callable[[int], Array] = lru_cache(max(1, _KEPT // n_rows))(self._log_features_of)
        self._imputed: Callable[[int, tuple[int, ...]], Imputed] = lru_cache(
            max(1, _KEPT // (2 * n_numbers * candidates.n_draws))
        )(self._impute_from)
        self._given: Callable[[int], Given] = lru_cache(max(1, _KEPT // (n_numbers * n_rows)))(self._given_one)

    def __len__(self) -> int:
        return self._n

    @property
    def n_rows(self) -> int:
        return len(self._candidates.draw)

    @property
    def draw(self) -> NDArray[np.int64]:
        """The draw of the posterior that each row belongs to."""
        return self._candidates.draw

    def noise(self, noise: ClusterNoise) -> Array:
        """The noise precision of each row's cluster, (R,)."""
        return self._candidates.noise(noise)

    @property
    def _batch(self) -> int:
        return max(1, _CELLS // self.n_rows)

    def _by_features(self, users: slice) -> Array:
        """ln of (prior weight × density of the features), (J, R)."""
        x = None if self._x is None else self._x[users]
        n = len(range(*users.indices(self._n)))
        return self._candidates.log_prior + self._candidates.log_features(x, n)

    def _log_weights(self, users: slice) -> Array:
        """ln of the joint weight of (draw, cluster), (J, R), summing to one over R for each user."""
        if self._evidence is not None:
            return self.given(users).log_weights.T
        return _normalised(self._by_features(users).T).T

    def _log_features_of(self, user: int) -> Array:
        """ln p(features of a new user | row), (R,)."""
        x = None if self._x is None else self._x[user : user + 1]
        return np.asarray(self._candidates.log_features(x, 1)[0])

    def given_one(self, user: int) -> Given:
        """Everything that is known of one of the new users, kept for when it is asked for again."""
        return self._given(user)

    def _given_one(self, user: int) -> Given:
        return self.given(slice(user, user + 1))

    def given(self, users: slice) -> Given:
        """Everything that is known of some of the new users."""
        log_weights = self._by_features(users).T
        means, covariances = (part[:, None] for part in self._candidates.latent)
        means = means + self._shifted(users)
        if isinstance(self._evidence, Evidence):
            if self._evidence.noise is None:
                part = self._evidence.of_draws(self._candidates.draw, users)
            else:
                part = self._evidence.under(self.noise(self._evidence.noise), users, self._candidates.draw)
            log_marginal, means, covariances = updated(means, covariances, part)
            log_weights = log_weights + log_marginal
        elif self._evidence is not None:
            means, log_likelihood = self._sampled(users)
            covariances = np.zeros((1, 1, *covariances.shape[2:]))
            log_weights = log_weights + log_likelihood
        return Given(_normalised(log_weights), means, covariances)

    def _shifted(self, users: slice) -> Array:
        """What a link adds to some users' latent vectors in each row, (R, J, q)."""
        return self._candidates.row_shifts(None if self._x is None else self._x[users])

    def _sampled(self, users: slice) -> tuple[Array, Array]:
        """A latent vector of each user drawn in each row, (R, J, q), and ln p(observations | it), (R, J)."""
        assert isinstance(self._evidence, SampledEvidence)
        means, roots = self._candidates.latent[0], self._candidates.roots
        vectors, log_likelihoods = [], []
        for j in range(*users.indices(self._n)):
            noise = np.random.default_rng([_SEED, j]).standard_normal((*means.shape, 1))
            shift = self._shifted(slice(j, j + 1))[:, 0]
            vectors.append(means + shift + (roots @ noise)[..., 0])
            log_likelihoods.append(self._evidence.log_likelihood(j, self._candidates.draw, vectors[-1]))
        return np.stack(vectors, axis=1), np.stack(log_likelihoods, axis=1)

    def _warn_of_few_draws(self, users: slice, log_weights: Array) -> None:
        by_draw = np.add.reduceat(np.exp(log_weights), self._candidates.first, axis=1)
        effective = 1.0 / (by_draw**2).sum(axis=1)
        few = np.flatnonzero(effective < min(_FEW, 0.1 * self._candidates.n_draws))
        if len(few) and not self._warned:
            self._warned = True
            names = ", ".join(str(users.start + j) for j in few[:5]) + (" and more" if len(few) > 5 else "")
            warnings.warn(
                f"The prediction for new user(s) {names} rests on few of the posterior's draws (effective number "
                f"{effective.min():.0f} of {self._candidates.n_draws}): they are unlike the users of the fit, or the fit is "
                "too short. Draw more, or fit again with them included.",
                DataWarning,
                stacklevel=2,
            )

    def clusters_of(self, rng: np.random.Generator, user: int, n: int) -> "ClustersOf":
        """Rows (n,) of one user, whose features are cells, by their weights."""
        assert isinstance(self._x, UserCells)
        users = slice(user, user + 1)
        log_weights = self._log_weights(users)
        self._warn_of_few_draws(users, log_weights)
        weights = np.exp(log_weights[0])
        cumulative = np.cumsum(weights)
        levels = (rng.random() + np.arange(n)) / n * cumulative[-1]
        rows = np.minimum(np.searchsorted(cumulative, levels, side="right"), len(weights) - 1)
        return ClustersOf(rng, self._candidates, self._x[users], weights, rng.permutation(rows))

    def probabilities(self) -> Array:
        """Probability of each cluster of the estimate, (J, C), with a last column for a new cluster where one can be opened."""
        overlap = self._candidates.overlap
        result = np.empty((self._n, overlap.shape[1]))
        for first in range(0, self._n, self._batch):
            users = slice(first, min(first + self._batch, self._n))
            log_weights = self._log_weights(users)
            self._warn_of_few_draws(users, log_weights)
            result[users] = np.exp(log_weights) @ overlap
        if self._candidates.n_fresh == 0:
            result = result[:, :-1]
        return np.asarray(result / result.sum(axis=1, keepdims=True))

    def log_density(self) -> Array:
        """ln of the posterior predictive density of each user's features in working units, (J,).

        It is the mean over the draws, all alike in weight, of Σ_k c_k N(a*; μ_k, S_k⁻¹) + c_new times the base's density.
        """
        result = np.empty(self._n)
        for first in range(0, self._n, self._batch):
            users = slice(first, min(first + self._batch, self._n))
            result[users] = logsumexp(self._by_features(users), axis=1)
        return np.asarray(result - np.log(self._candidates.n_draws))

    def latent(self) -> NormalMixture | VectorMixture | WeightedDraws:
        """Predictive distribution of each user's latent vector."""

        def parts(users: slice) -> VectorParts:
            known = self.given(users)
            self._warn_of_few_draws(users, known.log_weights.T)
            shape = (*known.log_weights.shape, known.means.shape[-1])
            return VectorParts(known.log_weights, np.broadcast_to(known.means, shape), known.covariances)

        n_dims = self._candidates.latent[0].shape[1]
        if isinstance(self._evidence, SampledEvidence):
            log_weights, means, _ = parts(slice(0, self._n))
            return WeightedDraws(means[..., 0] if n_dims == 1 else means, log_weights)
        mixture = VectorMixture(self._n, n_dims, self.n_rows, parts)
        return mixture.marginal(0) if n_dims == 1 else mixture

    def imputed(self, seed: int, members: tuple[int, ...]) -> "Imputed":
        """:meth:`impute` from a seed, kept for the next outcome that the same users have a part in."""
        return self._imputed(seed, members)

    def _impute_from(self, seed: int, members: tuple[int, ...]) -> "Imputed":
        return self.impute(np.random.default_rng([seed, *members]), np.array(members))

    def impute(self, rng: np.random.Generator, members: NDArray[np.intp]) -> "Imputed":
        """Clusters of some new users together, one after the other, in every draw.

        A user who follows another sees it in its cluster, a fresh cluster included: whoever opens one draws its parameters, for
        those who follow.
        """
        rows = self._candidates
        weight, total, vacant = rows.weight.copy(), rows.total.copy(), ~rows.known
        n_opened = np.zeros(rows.n_draws)
        latent_means, latent_covariances = (part.copy() for part in rows.latent)
        if rows.pooled:  # two who meet in a fresh cluster have the same vector there
            latent_means += _times(rows.roots, rng.standard_normal(latent_means.shape))
            latent_covariances[:] = 0.0
        log_density = np.zeros(rows.n_draws)
        means, covariances = (np.empty((len(members), rows.n_draws, *part.shape[1:])) for part in rows.latent)
        places = np.empty((len(members), rows.n_draws), dtype=np.int64)
        taken: list[tuple[NDArray[np.int64], OpenedFeatures]] = []
        for position, j in enumerate(members):
            x = None if self._x is None else self._x[j : j + 1]
            likelihood = self._log_features(int(j)).copy()
            for opened_rows, opened in taken:
                assert x is not None
                likelihood[opened_rows] = rows.log_opened(x, opened_rows, opened)
            chosen, log_sums = _choose(rng, rows, weight, likelihood)
            log_density += log_sums - np.log(total)
            places[position] = chosen
            values, shift = self._followed(rng, chosen, x, taken)
            shift = np.broadcast_to(shift, means.shape[1:])
            means[position], covariances[position] = latent_means[chosen] + shift, latent_covariances[chosen]
            new = vacant[chosen]
            if position + 1 < len(members) and new.any():
                features, latent = rows.opened(rng, chosen[new], x, None if values is None else values[new])
                if features is not None:
                    taken.append((chosen[new], features))
                if latent is not None:
                    means[position, new], covariances[position, new] = latent.first + shift[new], 0.0
                    latent_means[chosen[new]], latent_covariances[chosen[new]] = latent.means, latent.covariances
            weight[chosen] = np.where(new, 1.0 + rows.offset, weight[chosen] + 1.0)
            vacant[chosen] = False
            n_opened += new
            n_vacant = np.bincount(rows.draw[vacant], minlength=rows.n_draws)
            weight[vacant] = (rows.new_weight(n_opened) / np.maximum(n_vacant, 1))[rows.draw[vacant]]
            total += 1.0
        return Imputed(log_density, means, covariances, places)

    def _followed(
        self,
        rng: np.random.Generator,
        chosen: NDArray[np.int64],
        x: Features | None,
        taken: "list[tuple[NDArray[np.int64], OpenedFeatures]]",
    ) -> tuple[Array | None, Array]:
        """What a link adds to one user's latent vector in its row of every draw, (N, q) or (1, 1).

        And, where it follows cells that are not exact, all its cells (N, D), which are drawn for it.
        """
        rows = self._candidates
        if not isinstance(x, UserCells) or x.units is None or x.complete[0] or not rows.has_link:
            return None, rows.shifts(x)[:, 0]
        gaussians = rows.gaussians(chosen)
        for opened_rows, opened in taken:
            assert opened.component is not None
            met, own, other = np.intersect1d(chosen, opened_rows, return_indices=True)
            if len(met):
                found = gaussians_of(Component(opened.component.means[other], opened.component.factors[other]))
                gaussians.means[own], gaussians.roots[own] = found
        values = rows.drawn_cells(rng, chosen, x, gaussians)
        return values, rows.shifts_of(np.arange(rows.n_draws), values, x)


def gaussians_of(component: Component) -> Gaussians:
    """Components of the feature view with square roots of their covariances."""
    means, factors = component
    return Gaussians(means, _spread(np.eye(means.shape[1]), factors))


def _choose(rng: np.random.Generator, rows: Candidates, weight: Array, likelihood: Array) -> tuple[NDArray[np.int64], Array]:
    """A row in every draw in proportion to weight × likelihood, (N,), and ln of the sum of these in the draw, (N,)."""
    top = np.maximum.reduceat(likelihood, rows.first)
    mass = weight * np.exp(likelihood - top[rows.draw])
    cumulative = np.cumsum(mass)
    by_draw = np.add.reduceat(mass, rows.first)
    start = cumulative[rows.first] - mass[rows.first]
    chosen = np.searchsorted(cumulative, start + rng.random(rows.n_draws) * by_draw, side="right")
    last = np.append(rows.first[1:], len(mass)) - 1
    return np.clip(chosen, rows.first, last), top + np.log(by_draw)


def outcomes(forecast: Forecast, n_draws: int, new_users: NewUsers | None = None, seed: int = 0) -> Mixture:
    """Predictive distribution of outcomes, some of which users new to the fit may have a part in."""
    outcome, even = forecast.outcome, np.full((n_draws, 1), -np.log(n_draws))
    if new_users is None:
        return outcome.predictive(
            forecast.n, n_draws, lambda cases: Parts(even, forecast.known(cases), np.sqrt(forecast.variances(cases)))
        )
    noise = None if forecast.noise is None else 1.0 / new_users.noise(forecast.noise)

    def parts(cases: slice) -> Parts:
        known = forecast.known(cases)
        locations, variances = _full(n_draws, known), _full(n_draws, forecast.variances(cases), known.shape[1])
        log_weights = np.repeat(even, locations.shape[1], axis=1)
        for column, case in enumerate(range(*cases.indices(forecast.n))):
            members, loads = _by_member(forecast.loads[[case]], len(new_users))
            if not len(members):
                continue
            log_density, means, covariances, places = new_users.imputed(seed, tuple(members.tolist()))
            log_weights[:, column] = log_density - logsumexp(log_density)
            locations[:, column] += np.einsum("mq,mnq->n", loads, means)
            variances[:, column] += np.einsum("mq,mnqr,mr->n", loads, covariances, loads)
            if noise is not None:
                variances[:, column] += noise[places[0]]
        return Parts(log_weights, locations, np.sqrt(variances))

    return outcome.predictive(forecast.n, n_draws, parts)


def outcomes_given(forecast: Forecast, n_draws: int, new_users: NewUsers) -> Mixture:
    """The same when some observations of the new users are known; an outcome may have one of them."""
    outcome, draw = forecast.outcome, new_users.draw
    noise = None if forecast.noise is None else 1.0 / new_users.noise(forecast.noise)
    first = np.append(True, draw[1:] != draw[:-1])
    alone = np.where(first, -np.log(n_draws), -np.inf)

    def parts(cases: slice) -> Parts:
        known = forecast.known(cases)
        locations = _full(n_draws, known)[draw]
        variances = _full(n_draws, forecast.variances(cases), known.shape[1])[draw]
        log_weights = np.repeat(alone[:, None], locations.shape[1], axis=1)
        for column, case in enumerate(range(*cases.indices(forecast.n))):
            members, loads = _by_member(forecast.loads[[case]], len(new_users))
            if len(members) > 1:
                raise InputError(
                    f"With behavior_new, each outcome may have one new user; case {case} has {len(members)}. Leave it out, or "
                    "fit again with these users."
                )
            for user, load in zip(members, loads, strict=True):
                given = new_users.given_one(int(user))
                log_weights[:, column] = given.log_weights[:, 0]
                locations[:, column] += given.means[:, 0] @ load
                variances[:, column] += np.einsum("q,nqr,r->n", load, given.covariances[:, 0], load)
                if noise is not None:
                    variances[:, column] += noise
        return Parts(log_weights, locations, np.sqrt(variances))

    return outcome.of_draws(draw).predictive(forecast.n, len(draw), parts)


def _full(n_draws: int, values: Array, n_cases: int | None = None) -> Array:
    """A copy with a row per draw and a column per case."""
    return np.array(np.broadcast_to(values, (n_draws, values.shape[1] if n_cases is None else n_cases)))


def _by_member(row: Any, n_new: int) -> tuple[NDArray[np.intp], Array]:
    """The new users that have a part in an outcome, and the load of each one's vector, (members, q)."""
    q = row.shape[1] // max(n_new, 1)
    members = np.unique(row.indices // max(q, 1))
    return members, np.asarray(row.toarray()).reshape(n_new, q)[members] if n_new else np.empty((0, q))


def updated(means: Array, covariances: Array, evidence: Evidence) -> tuple[Array, Array, Array]:
    """ln of the integral of N(f; m, C) times the evidence, and the distribution of f given both; C may be singular."""
    linear, precision = evidence.linear, evidence.precision
    surprise = linear - _times(precision, means)
    matrix = np.eye(means.shape[-1]) + precision @ covariances
    posterior = np.swapaxes(_solved(np.swapaxes(matrix, -1, -2), np.broadcast_to(covariances, matrix.shape)), -1, -2)
    step = _times(posterior, surprise)
    log_marginal = evidence.constant + (means * (linear - 0.5 * _times(precision, means))).sum(axis=-1)
    log_marginal += 0.5 * (surprise * step).sum(axis=-1) - 0.5 * _log_determinants(matrix)
    return log_marginal, means + step, posterior


def _spread(factor: Array, factors: Array) -> Array:
    """F T⁻ᵀ, square roots of covariances F S⁻¹ Fᵀ with S = T Tᵀ."""
    return np.swapaxes(_solved(factors, np.broadcast_to(factor.T, factors.shape)), -1, -2)


def _times(matrices: Array, vectors: Array) -> Array:
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def _solved(matrices: Array, right: Array) -> Array:
    """matrices⁻¹ right, (…, q, q) each."""
    return np.asarray(right / matrices if matrices.shape[-1] == 1 else np.linalg.solve(matrices, right))


def _log_determinants(matrices: Array) -> Array:
    return np.asarray(np.log(matrices[..., 0, 0]) if matrices.shape[-1] == 1 else np.linalg.slogdet(matrices)[1])


def _normalised(log_weights: Array) -> Array:
    """Summing to one over the rows, (R, J)."""
    return np.asarray(log_weights - logsumexp(log_weights, axis=0, keepdims=True))
