"""From activity in plain units to features a Gaussian can take: logarithms where skewed, no columns that break the model.

Each rule leaves its reason in ``left_out`` or in the name of the transformation.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import skew

from dualview.checks import varies
from dualview.errors import InputError
from dualview.forum.activity import WHOLE_NUMBERS
from dualview.inputs.features import tied_columns

Array = NDArray[np.float64]

_SKEWED = 1.0
_REDUNDANT = 0.8  # share of a column's variance that the columns before it explain


@dataclass(frozen=True)
class Scaled:
    """Features as the model sees them, how they were made, and what was left out, with reasons."""

    features: pd.DataFrame
    transforms: dict[str, str]
    left_out: dict[str, str]


def scale(rng: np.random.Generator, activity: pd.DataFrame, jitter: bool) -> Scaled:
    """Features of the chosen users."""
    left_out: dict[str, str] = {}
    transforms: dict[str, str] = {}
    columns: dict[str, Array] = {}
    for name in activity:
        raw = activity[name].to_numpy(dtype=float)
        if not varies(raw):
            left_out[str(name)] = "the same for all users"
            continue
        if jitter and name in WHOLE_NUMBERS:
            # A count n stands for anything in [n, n + 1): noise of that size breaks ties and adds no information.
            raw = raw + rng.random(len(raw))
        columns[str(name)], transforms[str(name)] = _transformed(raw)
    table = pd.DataFrame(columns, index=activity.index)
    table, tied = _without_ties(table)
    table, redundant = _without_redundant(table)
    left_out |= tied | redundant
    if table.shape[1] == 0:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise InputError(
            f"No feature of the {len(activity)} users is left ({reasons}). Give more posts, ask more activity of users with "
            "--min-threads, or spread tied counts with --ties jitter."
        )
    return Scaled(table, {str(name): transforms[str(name)] for name in table}, left_out)


def _transformed(raw: Array) -> tuple[Array, str]:
    """The logarithm of what is skewed to the right and not negative; an inverse hyperbolic sine of what has both signs."""
    if skew(raw) <= _SKEWED:
        return raw, "as it is"
    if raw.min() > 0:
        return np.log(raw), "log"
    if raw.min() == 0:
        # Zeros must land near the small values, not far below them.
        offset = float(min(1.0, np.quantile(raw[raw > 0], 0.1)))
        return np.log(raw + offset), f"log(x + {offset:.4g})"
    unit = float(np.median(np.abs(raw[raw != 0])))
    return np.arcsinh(raw / unit), f"asinh(x / {unit:.4g})"


def _without_redundant(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Without columns that the ones before them tell already: they add dimensions, not knowledge, and clusters fray in them."""
    kept: list[str] = []
    left_out: dict[str, str] = {}
    standard = (table - table.mean()) / table.std()
    for name in map(str, table):
        explained = 0.0
        if kept:
            residual = np.linalg.lstsq(standard[kept], standard[name], rcond=None)[1]
            explained = 1.0 - float(residual[0]) / (len(table) - 1) if len(residual) else 1.0
        if explained > _REDUNDANT:
            left_out[name] = f"{explained:.0%} of it is explained by the features before it"
        else:
            kept.append(name)
    return table[kept], left_out


def _without_ties(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Without columns in which users share values: fewer values than half the users, or what the model itself warns of.

    One at a time, because fewer columns make the model's rule stricter.
    """
    left_out: dict[str, str] = {}
    for name in map(str, table):
        n_values = table[name].nunique()
        if n_values < len(table) / 2:
            left_out[name] = f"{n_values} values for {len(table)} users: clusters would collapse on those that many share"
    table = table.drop(columns=list(left_out))
    while table.shape[1]:
        tied = tied_columns(table.to_numpy(dtype=float))
        if not tied.any():
            break
        name = str(table.columns[int(np.argmax(tied))])
        share = table[name].value_counts().iloc[0] / len(table)
        left_out[name] = f"{share:.0%} of the users share a value: clusters would collapse on it"
        table = table.drop(columns=name)
    return table, left_out
