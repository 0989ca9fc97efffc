"""The problem that an engine solves: data, and the model that parameters make of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior, Likelihood, check_inherits
from dualview.chains.schedule import Length
from dualview.chains.storage import Record
from dualview.columns import Cells, Columns
from dualview.columns.layout import Layout
from dualview.engines.variational.sharded.model import ShardedModel
from dualview.inputs.cells import as_if_exact, cell_units
from dualview.inputs.data import Data
from dualview.inputs.features import check_room, feature_units, warn_of_many_features, warn_of_ties
from dualview.inputs.parameters import Parameters
from dualview.inputs.several_tables import columns_of, layout_of
from dualview.model import Model
from dualview.partitions.agreement import agreement_text
from dualview.partitions.choice import partition_names
from dualview.posterior import Posterior
from dualview.posterior.draws.from_records import tree_of
from dualview.posterior.observations import observations_digest
from dualview.posterior.spec import ModelSpec
from dualview.units import GaussianPrior, Whitening

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """What an engine is given: data, a description of the model, and the model of the data.

    coords: names along the dimensions of draws.
    """

    data: Data
    spec: ModelSpec
    model: Model
    coords: dict[str, Any]

    def start_vectors(self) -> Array:
        """A vector per user in working units, for k-means: the features, or without them an
        estimate of the behavior; of users in shards, of those who are looked at."""
        if isinstance(self.model, ShardedModel):
            assert self.model.users is not None
            return self.model.users.observed["features"].means
        seen = self.model.observed.values()
        if seen:
            return np.hstack([own.view.start_vectors(own.vectors) for own in seen])
        assert self.data.behavior is not None
        return self.spec.units["behavior"].to_working(
            self.data.behavior.ridge_estimate().reshape(self.data.n_users, -1)
        )

    def posterior(
        self, records: list[Record], length: Length, facts: Mapping[str, str] | None = None
    ) -> Posterior:
        """The posterior of the chains' records, with the data. facts: of the fit, by name."""
        data = self.data
        observed = data.features if data.cells is None else data.cells
        tree = tree_of(records, self.spec, self.model.likelihood, self.coords, observed)
        tree.attrs |= length._asdict() | dict(facts or {})
        return Posterior(tree, data.behavior)


def build_model(parameters: Parameters, data: Data) -> Problem:
    """The model that is fitted to some data."""
    parameters = parameters.given(data.behavior)
    units: dict[str, Whitening] = {}
    likelihood = None
    if data.has_numbers:
        units["features"] = _joined_units(parameters, data)
    layout = _layout(data, units.get("features"))
    if data.behavior is not None:
        observed = data.behavior if parameters.pooling is None else data.behavior.sharing_vectors()
        prior = _behavior_prior(parameters.behavior_prior, data, observed)
        units["behavior"], likelihood = observed.prepare(prior)
        check_inherits(
            likelihood, Likelihood, f"What {type(data.behavior).__name__}.prepare returns"
        )
    behavior = None
    if data.behavior is not None:
        behavior = data.behavior.described() | {"digest": observations_digest(data.behavior)}
    spec = describe_model(parameters, units, behavior, data.tables, data.codebook, layout)
    coords = data.coords()
    model = spec.build(data.features, data.cells, likelihood, data.n_users)
    return Problem(data, spec, model, coords)


def describe_model(
    parameters: Parameters,
    units: dict[str, Whitening],
    behavior: dict[str, Any] | None,
    tables: tuple[str, ...] = (),
    codebook: Columns | None = None,
    layout: Layout | None = None,
) -> ModelSpec:
    """The description of the model that parameters ask for."""
    names = partition_names(parameters.n_clusters, parameters.alpha, parameters.process)
    return ModelSpec(
        *names,
        link=parameters.link,
        pooling=None if behavior is None else parameters.pooling,
        spread_prior=parameters.spread_prior,
        agreement=agreement_text(parameters.agreement, tables),
        codebook=codebook,
        layout=layout,
        behavior=behavior,
        units=units,
        tails=parameters.tails if "features" in units else None,
    )


def _joined_units(parameters: Parameters, data: Data) -> Whitening:
    """The units of the features: with several tables, each in its own."""
    check_room(len(data.feature_names), parameters.n_kept)
    prior, n_clusters = parameters.feature_constants, parameters.n_clusters
    if not data.tables:
        return _units(data, prior, n_clusters)
    if isinstance(prior, GaussianPrior):
        prior.check_size(len(data.feature_names), "feature_prior")
    parts = []
    for own in columns_of(data.tables, data.feature_names):
        if own.stop > own.start:
            block = prior.block(own) if isinstance(prior, GaussianPrior) else prior
            parts.append(_units(_columns_in(data, own), block, n_clusters))
    return Whitening.joined(parts)


def _columns_in(data: Data, own: slice) -> Data:
    """The numbers of one table by themselves."""
    features = None if data.features is None else data.features[:, own]
    ends = None if data.cells is None else (data.cells.low[:, own], data.cells.high[:, own])
    cells = None if ends is None else Cells({"low": ends[0], "high": ends[1]})
    return replace(data, features=features, feature_names=data.feature_names[own], cells=cells)


def _layout(data: Data, units: Whitening | None) -> Layout | None:
    """Which dimensions of the working units belong to which table; None with one table."""
    if not data.tables or data.codebook is None:
        return None
    columns = columns_of(data.tables, data.feature_names)
    n_dims = [
        0
        if units is None
        else int(np.abs(units.factor[own]).max(axis=0, initial=0.0).astype(bool).sum())
        for own in columns
    ]
    return layout_of(data.tables, data.codebook, data.feature_names, n_dims)


def _units(data: Data, prior: GaussianPrior | str | None, n_clusters: int | None) -> Whitening:
    """The units of one table's numbers."""
    names, cells = data.feature_names, data.cells
    numbers = data.features if cells is None else as_if_exact(cells)
    assert numbers is not None
    if isinstance(prior, GaussianPrior):
        prior.check_size(len(names), "feature_prior")
        units = Whitening.of(prior)
    elif cells is None:
        units = feature_units(numbers, names, prior)
    else:
        units = cell_units(cells, names, prior)
    warn_of_ties(numbers, names, data.users, n_clusters)
    if n_clusters != 1 and prior is None:
        warn_of_many_features(data.n_users, units)
    return units


def _behavior_prior(
    given: GaussianPrior | str | None, data: Data, behavior: Behavior
) -> GaussianPrior | None:
    return behavior.likely_prior(data.features) if isinstance(given, str) else given
