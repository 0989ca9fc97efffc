"""The kinds of records that compiled code knows, with the functions of each by the names of their
verbs (see ``dispatch``)."""

from collections.abc import Callable
from typing import Any

KINDS: dict[type, dict[str, Callable[..., Any]]] = {}


def register(record: type, **functions: Callable[..., Any]) -> None:
    """The functions of a kind, by the names of their verbs."""
    KINDS.setdefault(record, {}).update(functions)


def supports(record: type, *verbs: str) -> bool:
    """Whether a kind has functions for all of these verbs."""
    return all(verb in KINDS.get(record, {}) for verb in verbs)


def is_own(record: type) -> bool:
    """Whether a kind is of this package. The disk cache of compiled code would not notice an edit
    to others."""
    return record.__module__.split(".")[0] == __name__.split(".")[0]


def own_kinds() -> dict[str, dict[str, str]]:
    """The module and name of every function of every kind of this package, by those of the kind and
    by verbs."""
    return {
        _place(record): {
            verb: _place(getattr(function, "py_func", function))
            for verb, function in functions.items()
        }
        for record, functions in KINDS.items()
        if is_own(record)
    }


def _place(item: Any) -> str:
    return f"{item.__module__}:{item.__qualname__}"
