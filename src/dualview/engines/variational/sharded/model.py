"""The model of data in shards: views, behavior and partition prior as in memory, the data
elsewhere."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dualview.behaviors.approximation.many_threads import SoftManyThreads
from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.behaviors.records import Params
from dualview.engines.variational.sharded.equations import ShardedEquations
from dualview.engines.variational.sharded.users import ShardedUsers
from dualview.engines.variational.sharded.worker import LoadedUsers
from dualview.model import Model, State
from dualview.partitions.priors import PartitionPrior
from dualview.units import Whitening
from dualview.views.base import Array


@dataclass(frozen=True)
class ShardedThreads(ThreadRegression):
    """A likelihood without threads of its own."""

    equations: ShardedEquations | None = None

    @classmethod
    def of(cls, users: ShardedUsers, noise_variance: float) -> "ShardedThreads":
        nothing = Whitening(np.empty(0), np.empty((0, 0)), np.empty((0, 0)))
        nobody = sparse.csr_array((0, users.n_users))
        return cls(
            nobody,
            np.empty((0, 0)),
            np.empty(0),
            noise_variance,
            nothing,
            equations=ShardedEquations.of(users),
        )

    def approximate(self) -> SoftManyThreads:
        assert self.equations is not None
        return SoftManyThreads.start(self.equations)

    def log_density(self, latent: Array, params: Params) -> float:
        assert self.equations is not None
        return self.equations.log_density(latent, params)


@dataclass(frozen=True)
class ShardedModel(Model):
    """A model without vectors of its own: features are (0, D), and the likelihood has no threads.
    users: where they are."""

    users: ShardedUsers | None = None

    @classmethod
    def of(
        cls,
        users: ShardedUsers,
        n_dims: int,
        partition: PartitionPrior,
        noise_variance: float | None,
        spread_prior: str,
    ) -> "ShardedModel":
        """noise_variance: that of the outcomes' prior; None where there are no threads."""
        parts: dict[str, Any] = {"features": np.empty((0, n_dims)), "n_users": users.n_users}
        if noise_variance is not None:
            likelihood = ShardedThreads.of(users, noise_variance)
            parts |= {"likelihood": likelihood, "spread_prior": spread_prior}
        return cls(partition, **parts, users=users)

    def log_joint(self, state: State) -> float:
        """ln p(data, state) up to a constant that depends on nothing learned."""
        assert self.users is not None
        view, own = self.views["features"], state.views["features"]
        parts = self.users.over(_log_likelihood, lambda users: (view, own, state.z[users]))
        nobody = np.empty(0, dtype=np.int64)
        total = self.partition.log_density(state.counts, state.alpha, state.discount)
        total += view.log_joint(
            own, np.empty((0, own.component_parts["means"].shape[1])), nobody
        ) + sum(parts)
        if state.latent is not None:
            assert self.likelihood is not None
            total += self.views["behavior"].log_joint(
                state.views["behavior"], state.latent, state.z
            )
            total += self.likelihood.log_density(state.latent, state.params)
        return float(total)


def _log_likelihood(shard: LoadedUsers, argument: tuple[Any, Any, Any]) -> float:
    """ln p(features | components) of a view at a state, of users in clusters z."""
    view, state, z = argument
    x = shard.observed["features"].means
    return float(view.log_joint(state, x, z) - view.log_joint(state, x[:0], z[:0]))
