"""Clusters of users, from features you can see and behavior you can see only through its
effects."""

import importlib
import warnings
from typing import TYPE_CHECKING, Any

from dualview._version import __version__

if TYPE_CHECKING:
    from dualview import datasets, forum, plots
    from dualview.behaviors.binary import BinaryOutcomes, PairwiseChoices
    from dualview.behaviors.categorical import CategoricalOutcomes
    from dualview.behaviors.counts import CountOutcomes
    from dualview.behaviors.ordinal import OrdinalOutcomes
    from dualview.behaviors.rankings import Rankings
    from dualview.behaviors.shared_outcome import SharedOutcome
    from dualview.behaviors.survival import SurvivalOutcomes
    from dualview.behaviors.user_regression import UserRegression
    from dualview.columns import Censored, describe_columns
    from dualview.evaluation.calibration import calibrate
    from dualview.evaluation.comparison import compare
    from dualview.evaluation.cross_validation import ObservationKFold
    from dualview.evaluation.stacking import stack
    from dualview.inputs.from_long import from_long
    from dualview.inputs.sharding import write_shards
    from dualview.mixture import DualViewMixture, fit
    from dualview.partitions.agreement import Beta
    from dualview.partitions.alpha import Gamma, InverseGamma
    from dualview.partitions.finite_mixtures import FiniteMixtures
    from dualview.partitions.pitman_yor import PitmanYor
    from dualview.posterior import Posterior, load
    from dualview.posterior.partition.prior_clusters import prior_clusters
    from dualview.settings import Gibbs, Variational
    from dualview.shards import Shards
    from dualview.units import GaussianPrior

# Names are looked up when first used, so that ``import dualview`` and the command line start at
# once.
_HOMES = {
    "calibrate": "dualview.evaluation.calibration",
    "compare": "dualview.evaluation.comparison",
    "Beta": "dualview.partitions.agreement",
    "BinaryOutcomes": "dualview.behaviors.binary",
    "CategoricalOutcomes": "dualview.behaviors.categorical",
    "Censored": "dualview.columns",
    "CountOutcomes": "dualview.behaviors.counts",
    "DualViewMixture": "dualview.mixture",
    "FiniteMixtures": "dualview.partitions.finite_mixtures",
    "Gamma": "dualview.partitions.alpha",
    "GaussianPrior": "dualview.units",
    "Gibbs": "dualview.settings",
    "InverseGamma": "dualview.partitions.alpha",
    "ObservationKFold": "dualview.evaluation.cross_validation",
    "OrdinalOutcomes": "dualview.behaviors.ordinal",
    "PairwiseChoices": "dualview.behaviors.binary",
    "PitmanYor": "dualview.partitions.pitman_yor",
    "Posterior": "dualview.posterior",
    "Rankings": "dualview.behaviors.rankings",
    "Shards": "dualview.shards",
    "SharedOutcome": "dualview.behaviors.shared_outcome",
    "SurvivalOutcomes": "dualview.behaviors.survival",
    "UserRegression": "dualview.behaviors.user_regression",
    "Variational": "dualview.settings",
    "describe_columns": "dualview.columns",
    "fit": "dualview.mixture",
    "from_long": "dualview.inputs.from_long",
    "load": "dualview.posterior",
    "prior_clusters": "dualview.posterior.partition.prior_clusters",
    "stack": "dualview.evaluation.stacking",
    "write_shards": "dualview.inputs.sharding",
}
# Former names, which work for one release, and where they are now.
_MOVED = {
    "OverObservations": "dualview.evaluation.cross_validation.ObservationKFold",
    "SeveralBehaviors": "dualview.behaviors.SeveralBehaviors",
    "read_forum": "dualview.forum.read_forum",
}
_MODULES = ("datasets", "errors", "forum", "plots", "report")

__all__ = [
    "Beta",
    "BinaryOutcomes",
    "CategoricalOutcomes",
    "Censored",
    "CountOutcomes",
    "DualViewMixture",
    "FiniteMixtures",
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
    "Shards",
    "SharedOutcome",
    "SurvivalOutcomes",
    "UserRegression",
    "Variational",
    "__version__",
    "calibrate",
    "compare",
    "datasets",
    "describe_columns",
    "fit",
    "forum",
    "from_long",
    "load",
    "plots",
    "prior_clusters",
    "stack",
    "write_shards",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"dualview.{name}")
    home = _HOMES.get(name)
    if name in _MOVED:
        home, new = _MOVED[name].rsplit(".", 1)
        shown = f"dualview.{new}" if new in _HOMES else _MOVED[name]
        warnings.warn(
            f"dualview.{name} is called {shown} now; the old name will go.",
            FutureWarning,
            stacklevel=2,
        )
        name = new
    if home is not None:
        return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'dualview' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
