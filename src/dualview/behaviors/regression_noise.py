"""The noise of regressions of single users: what may be said of it, and a first guess for its
prior."""

from typing import Any

import numpy as np

from dualview.behaviors.records import Array, Panel
from dualview.checks import numbers, positive_number
from dualview.errors import InputError
from dualview.numerics.hyperprior import LEAST_TAIL_DOF

_LEAST_LEFT = 0.05  # of the observations, as degrees of freedom after the users' own estimates
_LEAST_SHARE = 1e-10  # of the outcome's variance; less is rounding
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
    if not found > LEAST_TAIL_DOF:
        raise InputError(
            f"degrees_of_freedom must be above {LEAST_TAIL_DOF:g}, so that means exist; got "
            f"{found:g}."
        )
    return noise, found


def refuse_learned_noise(options: dict[str, Any]) -> None:
    """Raise where something was given, by name, that is for a noise that is learned: standard
    errors say what it is."""
    for name, given in options.items():
        if given is not None:
            raise InputError(
                f"standard_errors say what the noise is; {name} is for a noise that is learned. "
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


def residual_variance(panel: Panel, estimates: Array, penalty: float) -> float:
    """The variance around the users' own ridge estimates (U, q); with little left of it, half of
    that around a common one."""
    residual = panel.outcome - panel.expected(estimates)
    ridge = penalty * np.eye(estimates.shape[1])
    spent = np.trace(np.linalg.solve(panel.squares + ridge, panel.squares), axis1=1, axis2=2)
    left, variance = len(residual) - float(spent.sum()), float(np.var(panel.outcome, ddof=1))
    enough = left >= max(2.0, _LEAST_LEFT * len(residual))
    guess = float(residual @ residual) / left if enough else 0.5 * common_variance(panel)
    return guess if guess > _LEAST_SHARE * variance else variance


def common_variance(panel: Panel) -> float:
    """The variance around one regression for everybody, or the outcome's where that leaves no
    degrees of freedom."""
    coefficients, _, rank, _ = np.linalg.lstsq(panel.design, panel.outcome)
    residual, left = panel.outcome - panel.design @ coefficients, len(panel.outcome) - int(rank)
    return float(residual @ residual) / left if left >= 1 else float(np.var(panel.outcome, ddof=1))


def worth(panel: Panel, low: Array, high: Array) -> float:
    """How many observations the prior of the noise is worth, ν, for outcomes in the intervals from
    low to high (n,).

    Each user's own vector can fit up to q of its observations exactly; they say nothing about the
    noise. Where outcomes repeat, clusters can fit them exactly too, and the likelihood grows
    without bound as the noise vanishes. So the surplus of such observations over all others counts
    in ν, times the share of outcomes that repeat. Where all do, this keeps the noise variance near
    σ_0²/2 or above however well clusters fit. Intervals do not count: their likelihood is bounded.
    """
    n_exact = int(np.minimum(panel.counts, panel.design.shape[1]).sum())
    _, place, counts = np.unique(low, return_inverse=True, return_counts=True)
    repeated = float(((counts[place] > 1) & (low == high)).mean()) if len(place) else 0.0
    return 1.0 + repeated * max(0, 2 * n_exact - len(place))
