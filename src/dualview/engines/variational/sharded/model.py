"""The model of data in shards: views, behavior and partition prior as in memory, the data
elsewhere."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dualview.behaviors.likelihoods.threads import ThreadRegression
from dualview.engines.variational.sharded import work
from dualview.engines.variational.sharded.data import ShardedData
from dualview.engines.variational.sharded.equations import ShardedEquations
from dualview.model import Model, State
from dualview.partitions.priors import PartitionPrior
from dualview.units import Whitening


@dataclass(frozen=True)
class ShardedModel(Model):
    """A model without vectors of its own: features are (0, D), and the likelihood has no
    threads."""

    data: ShardedData | None = None
    equations: ShardedEquations | None = None

    @classmethod
    def of(
        cls,
        data: ShardedData,
        n_dims: int,
        partition: PartitionPrior,
        noise_variance: float | None,
        spread_prior: str,
    ) -> "ShardedModel":
        """noise_variance: that of the outcomes' prior; None where there are no threads."""
        parts: dict[str, Any] = {
            "features": np.empty((0, n_dims)),
            "n_users": data.n_users,
            "data": data,
        }
        if noise_variance is not None:
            nothing = Whitening(np.empty(0), np.empty((0, 0)), np.empty((0, 0)))
            nobody = sparse.csr_array((0, data.n_users))
            likelihood = ThreadRegression(
                nobody, np.empty((0, 0)), np.empty(0), noise_variance, nothing
            )
            parts |= {
                "likelihood": likelihood,
                "equations": ShardedEquations.of(data),
                "spread_prior": spread_prior,
            }
        return cls(partition, **parts)

    def log_joint(self, state: State) -> float:
        """ln p(data, state) up to a constant that depends on nothing learned."""
        assert self.data is not None
        view, own = self.views["features"], state.views["features"]
        parts = self.data.over_users(
            work.log_likelihood, lambda _number, users: (view, own, state.z[users])
        )
        nobody = np.empty(0, dtype=np.int64)
        total = self.partition.log_density(state.counts, state.alpha)
        total += view.log_joint(
            own, np.empty((0, own.component_parts["means"].shape[1])), nobody
        ) + sum(parts)
        if state.latent is not None:
            assert self.equations is not None
            total += self.views["behavior"].log_joint(
                state.views["behavior"], state.latent, state.z
            )
            total += self.equations.log_density(state.latent, state.params)
        return float(total)
