"""Behaviours: how observations depend on each user's latent vector."""

from typing import Any

from dualview.behaviors.base import Behavior, Likelihood
from dualview.behaviors.shared_outcome import SharedOutcome

KINDS = {"SharedOutcome": SharedOutcome}


def behavior_from(description: dict[str, Any]) -> Behavior:
    """A behaviour without observations, for predictions, from what :meth:`Behavior.described` said."""
    return KINDS[description["kind"]].from_description(description)


__all__ = ["Behavior", "Likelihood", "SharedOutcome", "behavior_from"]
