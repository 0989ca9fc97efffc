"""Behaviours: how observations depend on each user's latent vector."""

from dualview.behaviors.base import Behavior, Likelihood
from dualview.behaviors.shared_outcome import SharedOutcome

__all__ = ["Behavior", "Likelihood", "SharedOutcome"]
