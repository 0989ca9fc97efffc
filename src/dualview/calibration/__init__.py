"""The former address of ``dualview.evaluation.calibration``, for one release."""

import warnings
from typing import Any

from dualview.evaluation import calibration


def __getattr__(name: str) -> Any:
    if name not in ("Calibration", "calibrate"):
        raise AttributeError(f"module 'dualview.calibration' has no attribute {name!r}")
    warnings.warn(
        "dualview.calibration is now dualview.evaluation.calibration; the former address will go "
        "in the next release.",
        FutureWarning,
        stacklevel=2,
    )
    return getattr(calibration, name)
