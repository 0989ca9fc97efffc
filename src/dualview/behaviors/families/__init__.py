"""Families p(y | η, φ): the distribution of an observation given its location, a file for each."""

from dualview.behaviors.families.base import Family, Mixture, Outcome, Parts
from dualview.behaviors.families.gaussian import GaussianFamily, NormalMixture, NormalOutcome
from dualview.behaviors.families.interval import (
    CountMixture,
    IntervalFamily,
    IntervalMixture,
    IntervalOutcome,
)
from dualview.behaviors.families.logit import BinaryOutcome, ChoiceMixture, LogitFamily
from dualview.behaviors.families.ordinal import LevelMixture, Levels, OrdinalFamily, OrdinalOutcome
from dualview.behaviors.families.poisson import PoissonFamily, PoissonOutcome
from dualview.behaviors.families.ranking import (
    Orders,
    RankedRows,
    RankingFamily,
    RankingMixture,
    RankingOutcome,
)
from dualview.behaviors.families.student import StudentFamily, StudentMixture, StudentOutcome

__all__ = [
    "BinaryOutcome",
    "ChoiceMixture",
    "CountMixture",
    "Family",
    "GaussianFamily",
    "IntervalFamily",
    "IntervalMixture",
    "IntervalOutcome",
    "LevelMixture",
    "Levels",
    "LogitFamily",
    "Mixture",
    "NormalMixture",
    "NormalOutcome",
    "Orders",
    "OrdinalFamily",
    "OrdinalOutcome",
    "Outcome",
    "Parts",
    "PoissonFamily",
    "PoissonOutcome",
    "RankedRows",
    "RankingFamily",
    "RankingMixture",
    "RankingOutcome",
    "StudentFamily",
    "StudentMixture",
    "StudentOutcome",
]
