"""What a run is made with: everything that determines the draws, in a form that can be compared and
shown."""

import numbers as abstract
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.chains.run_folder import UNTIL_GOOD
from dualview.files.digests import digest
from dualview.inputs.data import Data
from dualview.inputs.parameters import Parameters
from dualview.partitions.agreement import agreement_text
from dualview.partitions.choice import partition_names
from dualview.settings import Gibbs, Settings, Variational, defaults, setting_names
from dualview.units import GaussianPrior


def made_with(
    parameters: Parameters, data: Data, labels: NDArray[np.int64] | None = None
) -> dict[str, Any]:
    """Parameters and digests of the data, by name; labels: those that chains start from, where they
    are given.

    Most parameters are written only where they differ from their defaults, so that runs made before
    there was a parameter stay valid.
    """
    engine, usual = parameters.engine, defaults(Settings)
    chains = engine if isinstance(engine, Gibbs) else Gibbs()
    values = vars(parameters) | {"engine": engine.word, "keep": parameters.settings.keep}
    values |= {name: getattr(chains, name) for name in setting_names(Gibbs, "always")}
    always = {*setting_names(Settings, "always"), *setting_names(Gibbs, "always")}
    made: dict[str, Any] = {
        name: None if values[name] is None else int(values[name]) for name in sorted(always)
    }
    partition = partition_names(parameters.n_clusters, parameters.alpha, parameters.process)
    if partition.alpha_prior is not None:
        made["alpha"] = partition.alpha_prior
    if partition.process is not None:
        made["partition"] = partition.process
    agreement = agreement_text(parameters.agreement, data.tables)
    if agreement is not None:
        made["agreement"] = agreement
    others = setting_names(Settings, "if changed")
    made |= {name: values[name] for name in others if values[name] != usual[name]}
    if isinstance(engine, Variational) and engine.n_starts is not None:
        made["n_starts"] = int(engine.n_starts)
    if not parameters.settings.is_fixed:
        made["length"] = UNTIL_GOOD
    if parameters.every is not None:
        made["whole draws, every"] = parameters.every
    made["init"] = engine.init if isinstance(engine.init, str) else digest(labels)
    made |= {name: _prior_text(values[name]) for name in ("feature_prior", "behavior_prior")}
    if isinstance(parameters.random_state, abstract.Integral):
        made["random_state"] = int(parameters.random_state)
    made["features"] = None if data.features is None else digest(data.features)
    if data.cells is not None and data.codebook is not None:
        made["features"] = digest(data.cells.low, data.cells.high, data.cells.codes)
        made["columns"] = data.codebook.to_json()["columns"]
    if data.tables:
        made["tables"] = list(data.tables)
    return made if data.behavior is None else made | data.behavior.fingerprint()


def _prior_text(prior: GaussianPrior | str | None) -> str | None:
    return (
        prior if prior is None or isinstance(prior, str) else digest(prior.mean, prior.covariance)
    )
