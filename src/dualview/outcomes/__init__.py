"""The former address of ``dualview.behaviors.families``, for one release."""

import warnings
from typing import Any

from dualview.behaviors import families


def __getattr__(name: str) -> Any:
    found = getattr(families, name)
    warnings.warn(
        "dualview.outcomes is now dualview.behaviors.families; the former address will go in the "
        "next release.",
        FutureWarning,
        stacklevel=2,
    )
    return found
