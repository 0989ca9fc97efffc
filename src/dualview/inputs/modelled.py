"""Data in working units, and the model of them that an estimator's parameters ask for."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors import Behavior, Likelihood
from dualview.behaviors.base import check_inherits
from dualview.behaviors.likelihoods.linked import LinkedLikelihood
from dualview.chains.schedule import Length
from dualview.chains.storage import Record
from dualview.inputs.data import Data
from dualview.inputs.features import check_room, feature_units, warn_of_many_features, warn_of_ties
from dualview.model import Model
from dualview.partitions.alpha import concentration
from dualview.partitions.choice import PartitionNames, partition_names, partition_prior
from dualview.posterior import Posterior
from dualview.units import GaussianPrior, Whitening

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Modelled:
    """Data and the model of them.

    units: those of each view's vectors, by its name. coords: names along the dimensions of draws.
    """

    data: Data
    model: Model
    units: dict[str, Whitening]
    coords: dict[str, Any]
    partition: PartitionNames

    def start_vectors(self) -> Array:
        """A vector per user in working units, for k-means: the features, or without them an estimate of the behaviour."""
        if self.model.features is not None:
            return self.model.features
        assert self.data.behavior is not None
        return self.units["behavior"].to_working(self.data.behavior.ridge_estimate().reshape(self.data.n_users, -1))

    def posterior(self, records: list[Record], length: Length) -> Posterior:
        """The posterior of the chains' records, without the data."""
        return Posterior.from_records(records, self.units, self.model.likelihood, self.coords, self.partition, length)


def modelled(estimator: Any, data: Data) -> Modelled:
    """The model that an estimator fits to some data."""
    units: dict[str, Whitening] = {}
    working = likelihood = None
    if data.features is not None:
        units["features"] = _feature_units(estimator, data, data.features)
        working = np.ascontiguousarray(units["features"].to_working(data.features))
    if data.behavior is not None:
        prior = _behavior_prior(estimator.behavior_prior, data, data.behavior)
        units["behavior"], likelihood = data.behavior.prepare(prior)
        check_inherits(likelihood, Likelihood, f"What {type(data.behavior).__name__}.prepare returns")
    if estimator.link is not None and likelihood is not None and working is not None:
        likelihood = LinkedLikelihood.of(likelihood, working, units["behavior"], units["features"])
    partition = partition_prior(estimator.n_clusters, concentration(estimator.alpha), estimator.partition)
    model = Model(partition, working, likelihood, data.n_users, pooled=estimator.pooling is not None)
    names = partition_names(estimator.n_clusters, estimator.alpha, estimator.partition)
    return Modelled(data, model, units, data.coords(), names)


def _feature_units(estimator: Any, data: Data, features: Array) -> Whitening:
    names = data.feature_names
    n_kept = estimator.n_draws if estimator.keep == "draws" else min(estimator.n_draws, estimator.n_whole)
    check_room(len(names), estimator.n_chains * n_kept)
    units = feature_units(features, names, estimator.feature_prior)
    warn_of_ties(features, names, data.users, estimator.n_clusters)
    if estimator.n_clusters != 1 and estimator.feature_prior is None:
        warn_of_many_features(len(features), units)
    return units


def _behavior_prior(given: GaussianPrior | str | None, data: Data, behavior: Behavior) -> GaussianPrior | None:
    return behavior.likely_prior(data.features) if isinstance(given, str) else given
