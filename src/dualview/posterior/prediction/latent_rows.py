"""Latent vectors of users in the clusters of all draws, in the user's units. Rows (R,) are those of
``ClusterRows``."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualview.numerics.linalg import solved, spread, times
from dualview.posterior.posterior import Posterior
from dualview.views.features import ClusterRows
from dualview.views.gaussian.fresh import GaussianClusters

Array = NDArray[np.float64]


class OpenedLatent(NamedTuple):
    """Latent vectors (n, q) of those who opened n clusters; mean (n, q) and covariance (n, q, q) of
    those who follow."""

    first: Array
    means: Array
    covariances: Array


class LatentRows:
    """The normal distribution of a new user's latent vector in every row.

    vectors: components of the behavior view; None where users of a cluster share one vector. A
    known cluster then has no covariance, and a fresh one has the base's.
    """

    def __init__(
        self, post: Posterior, rows: ClusterRows, vectors: GaussianClusters | None
    ) -> None:
        self._post, self._rows, self._vectors = post, rows, vectors

    @property
    def is_shared(self) -> bool:
        """Whether users of a cluster share one vector."""
        return self._vectors is None

    @property
    def n_dims(self) -> int:
        """q, the numbers of a vector; 0 where the fit has no behavior."""
        return (
            self._post.spec.units["behavior"].n_dims if "behavior" in self._post.spec.units else 0
        )

    @cached_property
    def means(self) -> Array:
        """Mean of each row, (R, q)."""
        rows, units = self._rows, self._post.spec.units["behavior"]
        means: Array = self._post.flat("behavior.base_mean").reshape(rows.n_draws, -1)[rows.draw]
        means[rows.known] = units.vectors(self._post.components["behavior.means"])[
            rows.component[rows.known]
        ]
        return means

    @cached_property
    def covariances(self) -> Array:
        """Covariance of each row, (R, q, q)."""
        return np.asarray(self.roots @ np.swapaxes(self.roots, -1, -2))

    @cached_property
    def roots(self) -> Array:
        """A square root of each row's covariance, (R, q, q)."""
        rows, units = self._rows, self._post.spec.units["behavior"]
        q = units.n_dims
        roots = np.zeros((len(rows), q, q))
        if self._vectors is None:
            lower = np.linalg.cholesky(self._post.flat("behavior.base_precision").reshape(-1, q, q))
            inverse = solved(np.swapaxes(lower, -1, -2), np.broadcast_to(np.eye(q), lower.shape))
            roots[~rows.known] = inverse[rows.draw[~rows.known]]
            return roots
        known, fresh = self._vectors
        roots[rows.known] = spread(units.factor, known.factors)
        if fresh is not None:
            roots[~rows.known] = units.factor @ fresh.roots
        return roots

    def opened(self, rng: np.random.Generator, rows: NDArray[np.intp]) -> OpenedLatent | None:
        """Fresh clusters, by their rows, as they are once a user acts in them; None where clusters
        have one latent vector."""
        if self._vectors is None:
            return None
        places = self._rows.places[rows]
        units, fresh = self._post.spec.units["behavior"], self._vectors.fresh
        assert fresh is not None
        first = fresh.base.means[fresh.draw[places]]
        first = first + times(fresh.roots[places], rng.standard_normal(first.shape))
        component = fresh.opened(rng, places, first)
        roots = spread(units.factor, component.factors)
        covariances = roots @ np.swapaxes(roots, -1, -2)
        return OpenedLatent(units.vectors(first), units.vectors(component.means), covariances)
