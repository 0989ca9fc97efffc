"""Behaviours: how observations depend on each user's latent vector."""

from typing import Any

from dualview.behaviors.base import Behavior, Likelihood
from dualview.behaviors.binary import BinaryOutcomes, PairwiseChoices
from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.behaviors.user_regression import UserRegression

KINDS: dict[str, Any] = {kind.__name__: kind for kind in (SharedOutcome, UserRegression, BinaryOutcomes, PairwiseChoices)}


def behavior_from(description: dict[str, Any]) -> Behavior:
    """A behaviour without observations, for predictions, from what :meth:`Behavior.described` said."""
    behavior: Behavior = KINDS[description["kind"]].from_description(description)
    return behavior


__all__ = [
    "Behavior",
    "BinaryOutcomes",
    "Likelihood",
    "PairwiseChoices",
    "SharedOutcome",
    "UserRegression",
    "behavior_from",
]
