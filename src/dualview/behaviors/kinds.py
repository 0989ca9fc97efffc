"""Kinds of behaviors by name, for those that were saved."""

from typing import Any

from dualview.behaviors.base import Behavior
from dualview.behaviors.binary import BinaryOutcomes, PairwiseChoices
from dualview.behaviors.categorical import CategoricalOutcomes
from dualview.behaviors.counts import CountOutcomes
from dualview.behaviors.ordinal import OrdinalOutcomes
from dualview.behaviors.rankings import Rankings
from dualview.behaviors.several import SeveralBehaviors
from dualview.behaviors.shared_outcome import SharedOutcome
from dualview.behaviors.survival import SurvivalOutcomes
from dualview.behaviors.user_regression import UserRegression
from dualview.errors import InputError

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        SharedOutcome,
        UserRegression,
        BinaryOutcomes,
        PairwiseChoices,
        OrdinalOutcomes,
        CategoricalOutcomes,
        SurvivalOutcomes,
        CountOutcomes,
        Rankings,
    )
}


def behavior_from(description: dict[str, Any]) -> Behavior:
    """A behavior without observations, for predictions, from what :meth:`Behavior.described`
    said."""
    kind = description["kind"]
    if kind == "SeveralBehaviors":
        told = {
            name: {**own, "users": description["users"]}
            for name, own in description["parts"].items()
        }
        return SeveralBehaviors({name: behavior_from(own) for name, own in told.items()})
    if kind not in KINDS:
        raise InputError(
            f"The posterior is of a behavior of the kind {kind}, which dualview does not have. "
            "If it is yours, make it known "
            f'before loading: dualview.behaviors.KINDS["{kind}"] = {kind}.'
        )
    behavior: Behavior = KINDS[kind].from_description(description)
    return behavior
