"""Names of several behaviors in one fit."""

from collections.abc import Mapping
from typing import Any

from dualview.behaviors.base import Behavior
from dualview.errors import InputError

_SHORT = {
    "SharedOutcome": "shared_outcome",
    "UserRegression": "regression",
    "BinaryOutcomes": "binary",
    "OrdinalOutcomes": "ordinal",
    "CategoricalOutcomes": "categorical",
    "SurvivalOutcomes": "survival",
    "CountOutcomes": "counts",
    "PairwiseChoices": "choices",
    "Rankings": "rankings",
}
# Names in a posterior begin with these.
_TAKEN = ("features", "behavior", "categories", "components", "working")


def is_several(given: Any) -> bool:
    """Whether this is a list or a dictionary with a behavior in it."""
    members = (
        given.values()
        if isinstance(given, Mapping)
        else given
        if isinstance(given, list | tuple)
        else ()
    )
    return any(isinstance(member, Behavior) for member in members)


def named_parts(given: Any) -> dict[str, Behavior]:
    """Behaviors by name: as a dictionary gives them, or by the kind of each, with a number where
    there are two of a kind."""
    if isinstance(given, Mapping):
        return dict(given)
    kinds = [_SHORT.get(type(part).__name__, type(part).__name__.lower()) for part in given]
    counts: dict[str, int] = {}
    names = []
    for kind in kinds:
        counts[kind] = counts.get(kind, 0) + 1
        names.append(f"{kind}_{counts[kind]}" if kinds.count(kind) > 1 else kind)
    return dict(zip(names, given, strict=True))


def check_names(parts: Mapping[str, Any]) -> None:
    """Raise where a name cannot stand before names in a posterior, or what has it is no behavior to
    be combined."""
    if not parts:
        raise InputError("Several behaviors need one at least; got none.")
    for name, part in parts.items():
        if not isinstance(name, str) or not name or "." in name or "\0" in name:
            raise InputError(
                f"The name of a behavior must be text without dots, such as 'posts'; got {name!r}."
            )
        if name in _TAKEN:
            raise InputError(
                f"A behavior cannot be called {name!r}: other names in the posterior begin so. "
                "Rename it."
            )
        if isinstance(part, type) or not isinstance(part, Behavior):
            got = f"the class {part.__name__}" if isinstance(part, type) else type(part).__name__
            raise InputError(
                f"{name} must be a behavior, such as dv.UserRegression(user, design, outcome); "
                f"got {got}."
            )
