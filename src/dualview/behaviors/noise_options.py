"""What a regression may say of its noise."""

from typing import Any

import numpy as np

from dualview.behaviors.likelihoods.student import LEAST_DOF
from dualview.behaviors.records import Array
from dualview.checks import numbers, positive_number
from dualview.errors import InputError

WITH_DOF = ("user", "student")  # noises with degrees of freedom


def checked_noise(noise: Any, dof: Any, is_exact: bool) -> tuple[str, float | None]:
    """The kind of noise, and degrees of freedom that are given; is_exact: whether outcomes are
    exact numbers."""
    if noise not in ("shared", "cluster", "user", "student"):
        raise InputError(f'noise must be "shared", "cluster", "user" or "student"; got {noise!r}.')
    if noise in WITH_DOF and not is_exact:
        raise InputError(
            f'noise="{noise}" needs outcomes that are exact numbers; these are known to '
            'intervals. Use noise="shared" or drop '
            "outcome_kind and Censored."
        )
    if dof is None:
        return noise, None
    if noise not in WITH_DOF:
        raise InputError(
            'degrees_of_freedom are those of noise="student" and noise="user"; got '
            f"noise={noise!r}. Drop one of them."
        )
    found = positive_number(dof, "degrees_of_freedom")
    if not found > LEAST_DOF:
        raise InputError(
            f"degrees_of_freedom must be above {LEAST_DOF:g}, so that means exist; got {found:g}."
        )
    return noise, found


def refuse_learnt_noise(options: dict[str, Any]) -> None:
    """Raise where something was given, by name, that is for a noise that is learnt: standard errors
    say what it is."""
    for name, given in options.items():
        if given is not None:
            raise InputError(
                f"standard_errors say what the noise is; {name} is for a noise that is learnt. "
                "Give one of them."
            )


def positive_rows(values: Any, name: str, n: int) -> Array:
    """A positive number for each of n observations."""
    found = numbers(values, name, n_dims=1)
    if len(found) != n:
        raise InputError(f"{name} must have a value per row of design, {n}; got {len(found)}.")
    if not (found > 0.0).all():
        raise InputError(
            f"{name} must be positive; row {np.argmin(found)} has {found.min():g}. Leave such "
            "rows out."
        )
    return found
