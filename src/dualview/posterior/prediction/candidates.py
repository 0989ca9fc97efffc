"""The clusters that users the fit has not seen may belong to, in all draws of a posterior, and what
each weighs."""

from collections.abc import Hashable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.records import ClusterNoise, UserNoise
from dualview.errors import InputError
from dualview.partitions.priors import PartitionPrior
from dualview.posterior.posterior import Posterior
from dualview.posterior.prediction.disagreement import Customers, Rows
from dualview.posterior.prediction.labels_by_table import LabelsByTable
from dualview.posterior.prediction.latent_rows import LatentRows
from dualview.posterior.prediction.link_rows import LinkRows
from dualview.posterior.prediction.user_features import FeatureRows, Features
from dualview.views.features import ClusterRows
from dualview.views.gaussian.fresh import GaussianClusters

Array = NDArray[np.float64]

SEED = 20  # of what is drawn for users whose observations have no closed form

_BASE_DRAWS = 20_000  # fresh clusters over all draws of the posterior
_LEAST_FRESH = 4  # and at least this many per draw


def partition_of(post: Posterior) -> PartitionPrior:
    """The prior over partitions, with the discount of each draw where it is learned."""
    partition = post.spec.partition_prior
    return partition.given(post.flat("discount")) if "discount" in post else partition


class Candidates(ClusterRows):
    """The clusters a new user may belong to, in all draws: every component of each draw, then fresh
    ones from its base.

    weight (R,), total (N,) of each draw: a row's prior probability is c_k, or c_new / m, the
    quotient. features, latent, link: what users look like in the rows, how they act, and how the
    one follows from the other.
    """

    def __init__(self, post: Posterior, seed: int = 0, n_fresh: int | None = None) -> None:
        """n_fresh: of each draw; by default enough for all that is asked of new users."""
        self.post = post
        table, partition = post.components, partition_of(post)
        alpha = post.flat("alpha") if partition.has_alpha else np.ones(post.n_chains * post.n_draws)
        n_draws, owner = len(alpha), table["owner"]
        self._partition, self._alpha = partition, alpha
        self._overlap: tuple[NDArray[np.int64], Array] | None = None  # of labels as they were
        self._n_clusters = np.bincount(owner, weights=table["count"] > 0, minlength=n_draws)
        self._n_customers = np.bincount(owner, weights=table["count"], minlength=n_draws)
        new_weight = self.new_weight(np.zeros(n_draws), np.zeros(n_draws))
        if n_fresh is None:
            n_fresh = max(_LEAST_FRESH, -(-_BASE_DRAWS // n_draws))
        super().__init__(owner, n_draws, n_fresh if new_weight.any() else 0)
        self.offset = partition.offset(alpha)
        weight = table["count"] + self.offset[owner]
        self.weight = np.where(
            self.known, weight[self.component], (new_weight / max(self.n_fresh, 1))[self.draw]
        )
        self.total = np.bincount(owner, weights=weight, minlength=n_draws) + new_weight
        self.share = (
            post.flat("agreement") if "agreement" in post and "z_tables" not in post else None
        )
        rng = np.random.default_rng(seed)
        self.features = FeatureRows(rng, post, self)
        has_spread = "behavior.factors" in table
        self.latent = LatentRows(
            post, self, GaussianClusters.of(rng, post, "behavior", self) if has_spread else None
        )
        self.link = LinkRows(post, self, self.features)

    def new_weight(self, n_opened: Array, n_joined: Array) -> Array:
        """What a new cluster weighs in each draw (N,), after n_opened (N,) others were opened and
        n_joined (N,) customers have come."""
        weight = self._partition.new_weight(
            self._alpha, self._n_clusters + n_opened, self._n_customers + n_joined
        )
        return np.asarray(weight, dtype=float)

    def customers(self, weight: Array) -> Customers | None:
        """How new users act who look like rows of this weight (R,); None if as they look."""
        if self.share is None:
            return None
        one = np.ones(self.n_draws)
        new = [self.new_weight(n * one, one) for n in (0.0, 1.0)]
        return Customers.of(
            Rows(self.draw, self.first, self.known, self.offset, self.share), weight, new
        )

    @cached_property
    def memo(self) -> dict[Hashable, Any]:
        """What was worked out from all rows for one question and serves the next, by question."""
        return {}

    @cached_property
    def log_prior(self) -> Array:
        """ln of each row's prior probability, (R,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weight / self.total[self.draw]))

    def log_features(self, x: Features | None, n_users: int) -> Array:
        """ln p(features of user j | row), (J, R); 0 without a feature view.

        Where several tables of features have labels of their own, rows are those of behavior, and
        this is what all tables say.
        """
        if self._by_table is None:
            return self.features.log_density(x, n_users, self.log_prior)
        return self._by_table.log_features(self._log_tables(x, n_users))

    def rows_by_table(
        self, rng: np.random.Generator, x: Features, levels: Array
    ) -> tuple[NDArray[np.int64], Array]:
        """Rows (T, n) of one new user by each table, at levels (n,) of their probability, and the
        probability of each row, (T, R)."""
        assert self._by_table is not None
        tables = [table[0] for table in self._log_tables(x, 1)]
        return self._by_table.draw_rows(rng, tables, levels)

    def _log_tables(self, x: Features | None, n_users: int) -> list[Array]:
        """ln p(features of each table | row), (J, R) each."""
        n_tables = self.post.flat("z_tables").shape[1]
        return list(self.features.log_by_table(x, n_users, n_tables, self.log_prior))

    @property
    def has_labels_by_table(self) -> bool:
        """Whether several tables of features have labels of their own."""
        return "z_tables" in self.post

    @cached_property
    def _by_table(self) -> LabelsByTable | None:
        """How labels of several tables go with behavior; None where there is one label for all."""
        if not self.has_labels_by_table:
            return None
        if self.post.spec.process is not None:
            raise InputError(
                "New users cannot be predicted where several tables of features may disagree "
                "with behavior and the partition "
                f"is {self.post.spec.process}: fit with a Dirichlet process, with "
                "n_clusters, or agreement=None."
            )
        return LabelsByTable(
            self.weight, self.total, self.draw, self.first, self.post.flat("agreement")
        )

    def noise(self, noise: ClusterNoise | UserNoise) -> Array:
        """The noise precision (R,) of each row's cluster, from the prior where nobody is in it; or
        of a new user there."""
        if isinstance(noise, UserNoise):
            half = 0.5 * noise.dof[self.draw]
            return np.asarray(
                noise.typical[self.draw] * np.random.default_rng(SEED).standard_gamma(half) / half
            )
        components = np.full(len(self.post.components["owner"]), np.nan)
        components[self._members(self.post.flat_acts)] = noise.precision
        precision: Array = np.append(components, np.nan)[self.component]
        empty = np.isnan(precision)
        fresh = np.random.default_rng(SEED).standard_gamma(0.5 * noise.dof, int(empty.sum()))
        precision[empty] = 2.0 * fresh / (noise.dof * noise.variance)
        return precision

    def _members(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Every user's component in every draw, as a row of the posterior's table, (N, U)."""
        offsets = np.searchsorted(self.post.components["owner"], np.arange(self.n_draws))
        return np.asarray(offsets[:, None] + labels)

    @property
    def overlap(self) -> Array:
        """Share of each row's users that is in each cluster of the estimate, (R, C + 1); the last
        column is a fresh cluster."""
        labels = self.post.partition()
        if self._overlap is None or not np.array_equal(labels, self._overlap[0]):
            self._overlap = labels, self._overlap_with(labels)
        return self._overlap[1]

    def _overlap_with(self, labels: NDArray[np.int64]) -> Array:
        counts = np.zeros((len(self.post.components["owner"]), int(labels.max()) + 1))
        for members in self._members(self.post.flat("z")):
            np.add.at(counts, (members, labels), 1.0)
        shares = counts / np.maximum(counts.sum(axis=1), 1.0)[:, None]
        result = np.zeros((len(self), counts.shape[1] + 1))
        result[self.known, :-1] = shares[self.component[self.known]]
        result[~self.known, -1] = 1.0
        return result
