"""Outcomes: the distribution of an observation given its location, a file for each kind."""

from dualview.outcomes.base import Mixture, Outcome, Parts
from dualview.outcomes.binary import BinaryOutcome, ChoiceMixture
from dualview.outcomes.normal import NormalMixture, NormalOutcome

__all__ = ["BinaryOutcome", "ChoiceMixture", "Mixture", "NormalMixture", "NormalOutcome", "Outcome", "Parts"]
