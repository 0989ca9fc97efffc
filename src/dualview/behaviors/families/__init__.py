"""Families p(y | η, φ): the distribution of an observation given its location, a file for each.

Modules of the package import a name from its file; from here it is looked up when first used.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for file in iter_modules(__path__):
            found = vars(import_module(f"{__name__}.{file.name}")).get(name)
            if found is not None and found.__module__ == f"{__name__}.{file.name}":
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
