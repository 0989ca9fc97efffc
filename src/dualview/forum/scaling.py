"""From activity in plain units to a table of users for the model: counts, rates known to an
interval, numbers.

Skewed columns get a logarithm. ``transforms`` says how a feature was made, ``left_out`` why
something is none. No exact number is there twice in a column: cells that users share are intervals,
on which no cluster can collapse.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import skew

from dualview.checks import varies
from dualview.columns import Column, Columns
from dualview.errors import InputError
from dualview.forum.activity import RATES, WHOLE_NUMBERS, Activity

Array = NDArray[np.float64]

_SKEWED = 1.0
_REDUNDANT = 0.8  # share of a column's variance that the columns before it explain
_SAME = 1e-12  # of a column's range: numbers nearer to each other are the same but for rounding


@dataclass(frozen=True)
class Scaled:
    """Features as the model takes them, how they were made, and what was left out, with reasons.

    numbers has the same columns on the model's scale, a number for each cell: what was counted or
    measured.
    """

    features: pd.DataFrame
    numbers: pd.DataFrame
    transforms: dict[str, str]
    left_out: dict[str, str]


@dataclass(frozen=True)
class _Feature:
    """A column for the model, the same as numbers, and how it was made."""

    cells: pd.Series
    numbers: Array
    words: str


def scale(activity: Activity) -> Scaled:
    """Features of the chosen users."""
    made: dict[str, _Feature] = {}
    left_out: dict[str, str] = {}
    for name in map(str, activity.values):
        found = _count(activity, name) if name in WHOLE_NUMBERS else _number(activity, name)
        if isinstance(found, str):
            left_out[name] = found
        else:
            made[name] = found
    for rate, (
        counted,
        each,
    ) in RATES.items():  # a product of others is a curve to the model, in which clusters fray
        if rate in made and made.pop(counted, None) is not None:
            left_out[counted] = f"{rate} times {each}"
    index = activity.values.index
    numbers = pd.DataFrame({name: feature.numbers for name, feature in made.items()}, index=index)
    kept, redundant = _without_redundant(numbers)
    left_out |= redundant
    if not kept:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise InputError(
            f"No feature of the {len(index)} users is left ({reasons}). Give more posts, or ask "
            "more activity of users with --min-threads."
        )
    features = pd.DataFrame({name: made[name].cells for name in kept}, index=index)
    return Scaled(features, numbers[kept], {name: made[name].words for name in kept}, left_out)


def _count(activity: Activity, name: str) -> _Feature | str:
    """A count as it is: the codebook's rules make intervals of it. Or why it is of no use."""
    values = activity.values[name]
    if not varies(values.to_numpy(dtype=float)):
        return "the same for all users"
    cells = values.astype(np.int64)
    column = Columns.from_table(cells.to_frame()).columns[0]
    return _Feature(cells, column.scaled(values.to_numpy(dtype=float)), _count_words(column))


def _count_words(column: Column) -> str:
    if column.kind == "nominal":
        return "one of two counts"
    return "count, log(1 + x)" if column.scale == "log1p" else "count"


def _number(activity: Activity, name: str) -> _Feature | str:
    """A number, or the interval where users share it or it is a rate that some share. Or why it is
    of no use."""
    values = activity.values[name]
    raw = values.to_numpy(dtype=float)
    if not varies(raw):
        return "the same for all users"
    low, high = raw, raw
    if name in activity.low and shared(raw).any():
        low, high = (table[name].to_numpy(dtype=float) for table in (activity.low, activity.high))
    low, high = _apart(low, high)
    for ends, word in ((low, "lowest"), (high, "highest")):
        if np.isinf(ends).all():
            return f"all users have the {word} possible"
    transform, words = _transformation(raw)
    numbers = transform(raw)
    if np.array_equal(low, high):
        return _Feature(pd.Series(numbers, values.index), numbers, words)
    cells = pd.arrays.IntervalArray.from_arrays(transform(low), transform(high), closed="both")
    return _Feature(pd.Series(cells, values.index), numbers, f"{words}, known to an interval")


def shared(values: Array) -> NDArray[np.bool_]:
    """Which numbers (U,) are there more than once, but for rounding."""
    group = _groups(values)
    return np.asarray(np.bincount(group)[group] > 1)


def _groups(values: Array) -> NDArray[np.int64]:
    """The place of each number (U,) among the different ones, in order."""
    order = np.argsort(values, kind="stable")
    differs = np.diff(values[order]) > _SAME * np.ptp(values)
    group = np.empty(len(values), dtype=np.int64)
    group[order] = np.concatenate([[0], np.cumsum(differs)])
    return group


def _apart(low: Array, high: Array) -> tuple[Array, Array]:
    """Ends of cells (U,), of which those that are exact and shared become intervals: up to midway
    to the next numbers.

    Whoever shares the lowest number may be anywhere below, and whoever shares the highest anywhere
    above: often it is a limit.
    """
    exact = np.flatnonzero(low == high)
    if len(exact) < 2:
        return low, high
    values = low[exact]
    group, tied = _groups(values), shared(values)
    first = np.full(group.max() + 1, np.inf)
    last = np.full(group.max() + 1, -np.inf)
    np.minimum.at(first, group, values)
    np.maximum.at(last, group, values)
    middle = 0.5 * (last[:-1] + first[1:])
    low, high = low.copy(), high.copy()
    low[exact[tied]] = np.concatenate([[-np.inf], middle])[group[tied]]
    high[exact[tied]] = np.concatenate([middle, [np.inf]])[group[tied]]
    return low, high


def _transformation(raw: Array) -> tuple[Callable[[Array], Array], str]:
    """A rising function, and its name: a logarithm of what is skewed to the right and not negative;
    an inverse hyperbolic sine of what has both signs. Ends of intervals that the logarithm has no
    value for are open.
    """
    if skew(raw) <= _SKEWED:
        return np.asarray, "as it is"
    if raw.min() < 0:
        unit = float(np.median(np.abs(raw[raw != 0])))
        return lambda x: np.arcsinh(x / unit), f"asinh(x / {unit:.4g})"
    # Zeros must land near the small values, not far below them.
    offset = 0.0 if raw.min() > 0 else float(min(1.0, np.quantile(raw[raw > 0], 0.1)))

    def logarithm(x: Array) -> Array:
        return np.log(x + offset, out=np.full(len(x), -np.inf), where=x + offset > 0)

    return logarithm, f"log(x + {offset:.4g})" if offset else "log"


def _without_redundant(table: pd.DataFrame) -> tuple[list[str], dict[str, str]]:
    """Without columns that the ones before them tell already: they add dimensions, not knowledge,
    and clusters fray in them."""
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
    return kept, left_out
