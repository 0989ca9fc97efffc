"""From a file of posts to roles: reading, preparing, fitting and scoring."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualview.forum.columns import ROLES, Names
    from dualview.forum.data import ForumData, read_forum
    from dualview.forum.example import example_posts
    from dualview.forum.options import ForumOptions

# Names are looked up when first used: the command line reads the options, and nothing heavy, to
# show its help.
_HOMES = {
    "ROLES": "columns",
    "ForumData": "data",
    "ForumOptions": "options",
    "Names": "columns",
    "example_posts": "example",
    "read_forum": "data",
}

__all__ = ["ROLES", "ForumData", "ForumOptions", "Names", "example_posts", "read_forum"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"dualview.forum.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'dualview.forum' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
