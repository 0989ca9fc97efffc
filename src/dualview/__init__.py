"""Clusters of users, from features you can see and behavior you can see only through its
effects."""

import importlib
import warnings
from typing import TYPE_CHECKING, Any

from dualview._version import __version__

if TYPE_CHECKING:
    from dualview import datasets, errors, forum, plots, report
    from dualview.behaviors import (
        BinaryOutcomes,
        OrdinalOutcomes,
        PairwiseChoices,
        Rankings,
        SeveralBehaviors,
        SharedOutcome,
        UserRegression,
    )
    from dualview.columns import Censored, describe_columns
    from dualview.evaluation.calibration import calibrate
    from dualview.evaluation.comparison import compare
    from dualview.evaluation.cross_validation import ObservationKFold
    from dualview.evaluation.stacking import stack
    from dualview.forum.data import read_forum
    from dualview.inputs.sharding import write_shards
    from dualview.mixture import DualViewMixture
    from dualview.partitions.agreement import Beta
    from dualview.partitions.alpha import Gamma, InverseGamma
    from dualview.partitions.pitman_yor import PitmanYor
    from dualview.posterior import Posterior, load
    from dualview.settings import Gibbs, Variational
    from dualview.shards import Shards
    from dualview.units import GaussianPrior

# Names are looked up when first used, so that ``import dualview`` and the command line start at
# once.
_HOMES = {
    "calibrate": "dualview.evaluation.calibration",
    "compare": "dualview.evaluation.comparison",
    "Beta": "dualview.partitions.agreement",
    "BinaryOutcomes": "dualview.behaviors",
    "Censored": "dualview.columns",
    "DualViewMixture": "dualview.mixture",
    "Gamma": "dualview.partitions.alpha",
    "GaussianPrior": "dualview.units",
    "Gibbs": "dualview.settings",
    "InverseGamma": "dualview.partitions.alpha",
    "ObservationKFold": "dualview.evaluation.cross_validation",
    "OrdinalOutcomes": "dualview.behaviors",
    "PairwiseChoices": "dualview.behaviors",
    "PitmanYor": "dualview.partitions.pitman_yor",
    "Posterior": "dualview.posterior",
    "Rankings": "dualview.behaviors",
    "SeveralBehaviors": "dualview.behaviors",
    "Shards": "dualview.shards",
    "SharedOutcome": "dualview.behaviors",
    "UserRegression": "dualview.behaviors",
    "Variational": "dualview.settings",
    "describe_columns": "dualview.columns",
    "load": "dualview.posterior",
    "stack": "dualview.evaluation.stacking",
    "read_forum": "dualview.forum.data",
    "write_shards": "dualview.inputs.sharding",
}
_RENAMED = {"OverObservations": "ObservationKFold"}  # old names work for one release
_MODULES = ("datasets", "errors", "forum", "plots", "report")

__all__ = [
    "Beta",
    "BinaryOutcomes",
    "Censored",
    "DualViewMixture",
    "Gamma",
    "GaussianPrior",
    "Gibbs",
    "InverseGamma",
    "ObservationKFold",
    "OrdinalOutcomes",
    "PairwiseChoices",
    "PitmanYor",
    "Posterior",
    "Rankings",
    "SeveralBehaviors",
    "Shards",
    "SharedOutcome",
    "UserRegression",
    "Variational",
    "__version__",
    "calibrate",
    "compare",
    "datasets",
    "describe_columns",
    "errors",
    "forum",
    "load",
    "plots",
    "read_forum",
    "report",
    "stack",
    "write_shards",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"dualview.{name}")
    if name in _RENAMED:
        warnings.warn(
            f"dualview.{name} is called {_RENAMED[name]} now; the old name will go.",
            FutureWarning,
            stacklevel=2,
        )
        name = _RENAMED[name]
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dualview' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
