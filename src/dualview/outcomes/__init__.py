"""Outcomes: the distribution of an observation given its location, a file for each kind."""

from dualview.outcomes.base import Mixture, Outcome, Parts
from dualview.outcomes.binary import BinaryOutcome, ChoiceMixture
from dualview.outcomes.interval import CountMixture, IntervalMixture, IntervalOutcome
from dualview.outcomes.normal import NormalMixture, NormalOutcome
from dualview.outcomes.ordinal import LevelMixture, Levels, OrdinalOutcome
from dualview.outcomes.ranking import Orders, RankedRows, RankingMixture, RankingOutcome
from dualview.outcomes.student import StudentMixture, StudentOutcome

__all__ = [
    "BinaryOutcome",
    "ChoiceMixture",
    "CountMixture",
    "IntervalMixture",
    "IntervalOutcome",
    "LevelMixture",
    "Levels",
    "Mixture",
    "NormalMixture",
    "NormalOutcome",
    "Orders",
    "OrdinalOutcome",
    "Outcome",
    "Parts",
    "RankedRows",
    "RankingMixture",
    "RankingOutcome",
    "StudentMixture",
    "StudentOutcome",
]
