"""Behaviors: how observations depend on each user's latent vector.

Their names are looked up when first used; modules of the package import from where a name is.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "Behavior": "base",
    "Likelihood": "base",
    "BinaryOutcomes": "binary",
    "CategoricalOutcomes": "categorical",
    "CountOutcomes": "counts",
    "PairwiseChoices": "binary",
    "OrdinalOutcomes": "ordinal",
    "Rankings": "rankings",
    "SeveralBehaviors": "several",
    "SharedOutcome": "shared_outcome",
    "SurvivalOutcomes": "survival",
    "UserRegression": "user_regression",
    "KINDS": "kinds",
    "behavior_from": "kinds",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
