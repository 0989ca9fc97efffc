"""What a run is made with: everything that determines the draws, in a form that can be compared and
shown."""

import numbers as abstract
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.chains.run_folder import UNTIL_GOOD
from dualview.files.digests import digest
from dualview.inputs.data import Data
from dualview.inputs.parameters import settings_of
from dualview.partitions.agreement import agreement_text
from dualview.partitions.choice import partition_names
from dualview.settings import Settings, defaults, setting_names
from dualview.units import GaussianPrior


def made_with(
    estimator: Any, data: Data, labels: NDArray[np.int64] | None = None
) -> dict[str, Any]:
    """Parameters and digests of the data, by name; labels: those that chains start from, where they
    are given.

    Most parameters are written only where they differ from their defaults, so that runs made before
    there was a parameter stay valid.
    """
    always, usual = (*setting_names(Settings, "always"), "n_auxiliary"), defaults(Settings)
    made: dict[str, Any] = {
        name: None if (value := getattr(estimator, name)) is None else int(value) for name in always
    }
    partition = partition_names(estimator.n_clusters, estimator.alpha, estimator.partition)
    if partition.alpha_prior is not None:
        made["alpha"] = partition.alpha_prior
    if partition.process is not None:
        made["partition"] = partition.process
    agreement = agreement_text(estimator.agreement, data.tables)
    if agreement is not None:
        made["agreement"] = agreement
    others = setting_names(Settings, "if changed")
    made |= {name: value for name in others if (value := getattr(estimator, name)) != usual[name]}
    if not settings_of(estimator).is_fixed:
        made["length"] = UNTIL_GOOD
    if estimator.keep == "summary":
        made["whole draws, every"] = max(1, estimator.n_draws // estimator.n_whole)
    made["init"] = estimator.init if isinstance(estimator.init, str) else digest(labels)
    made |= {
        name: _prior_text(getattr(estimator, name)) for name in ("feature_prior", "behavior_prior")
    }
    if isinstance(estimator.random_state, abstract.Integral):
        made["random_state"] = int(estimator.random_state)
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
