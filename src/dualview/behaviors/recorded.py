"""What is recorded of outcomes that are not known exactly: bounds of censored ones, rounded
numbers, counts.

n outcomes. They are recorded as numbers (n,), censored ones as lower and upper ends (n, 2); on the
scale of the regression each is an interval that holds the outcome. The kinds are those of columns
of a table, (M14).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualview.checks import check_range, numbers, positive_number, rows_text
from dualview.columns.column import SCALES, Censored, Column
from dualview.columns.numbers import common_step, count_scale, lowest_count
from dualview.distributions import log_normal_mass
from dualview.errors import InputError
from dualview.interval_gaussian import fit_gaussian

Array = NDArray[np.float64]

_KINDS = {"continuous": (), "rounded": ("step",), "count": ("scale",)}


@dataclass(frozen=True)
class Recorded:
    """How outcomes are recorded: as the cells of a column that is censored, rounded or a count."""

    column: Column

    @property
    def is_count(self) -> bool:
        """Whether outcomes are counts, which predictions then are too."""
        return self.column.kind == "count"

    @property
    def lowest(self) -> float:
        """The lowest count that is possible."""
        return self.column.lowest or 0.0

    @property
    def is_logarithmic(self) -> bool:
        """Whether the regression is of log1p of the outcomes."""
        return self.column.scale == "log1p"

    def intervals(self, recorded: Array) -> tuple[Array, Array]:
        """Lower and upper ends (n,) on the scale of the regression."""
        if self.column.kind == "censored":
            return (recorded, recorded) if recorded.ndim == 1 else (recorded[:, 0], recorded[:, 1])
        return self.column.intervals(recorded)

    def values(self, x: Array) -> Array:
        """What is recorded of numbers (…) on the scale of the regression; of censored outcomes the
        numbers themselves."""
        return self.column.values(x)

    def scaled(self, values: Array) -> Array:
        """Numbers in the user's units on the scale of the regression."""
        return self.column.scaled(values)

    def observed_again(self, x: Array, low: Array, high: Array) -> tuple[Array, Array]:
        """Ends of other outcomes x (n,), on the scale of the regression, where those that were
        recorded had these ends.

        A censored outcome is seen as censored again where it lies between the same ends, else
        exactly.
        """
        if self.column.kind != "censored":
            return self.intervals(self.values(x))
        hidden = (low <= x) & (x <= high)
        return np.where(hidden, low, x), np.where(hidden, high, x)

    def checked(self, y: Any, n: int) -> Array:
        """What was recorded of n outcomes, (n,) or ends (n, 2); an error where this kind of outcome
        cannot be that."""
        is_pair = isinstance(y, Censored) or np.ndim(y) == 2
        if is_pair and self.column.kind != "censored":
            raise InputError(
                f"The outcomes of the fit were {self.column.kind} numbers: give numbers, not "
                "bounds."
            )
        found = _ends(y) if is_pair else numbers(y, "y", n_dims=1)
        if len(found) != n:
            raise InputError(f"y must have one value per case, {n}; got {len(found)}.")
        if self.is_count:
            _whole_counts(found, "y")
        return found

    def described(self) -> dict[str, Any]:
        """Plain values, for ``from_description``."""
        return {"outcome_column": self.column.to_json()}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> "Recorded | None":
        """None where outcomes are exact numbers."""
        told = description.get("outcome_column")
        return None if told is None else cls(Column.from_json(told))

    @property
    def scored_as(self) -> str:
        """What log densities are of, in words."""
        words = {"censored": "censored numbers", "count": "counts"}
        return words.get(self.column.kind) or f"numbers rounded to {self.column.step:g}"

    def facts(self, recorded: Array) -> str:
        """Number and kind in words."""
        n, kind = len(recorded), self.column.kind
        if kind != "censored":
            return (
                f"{n:,} from {recorded.min():.4g} to {recorded.max():.4g}, "
                f"{'counts' if kind == 'count' else kind}"
            )
        low, high = self.intervals(recorded)
        return f"{n:,}, of which {int((low < high).sum()):,} are known to an interval"


class RecordedTimes(Recorded):
    """Times above 0, seen or known to lie between two; the regression is of their logarithms."""

    def __init__(self) -> None:
        super().__init__(Column("time", "censored"))

    def intervals(self, recorded: Array) -> tuple[Array, Array]:
        low, high = super().intervals(recorded)
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(low, 0.0)), np.log(high)

    def log_stretch(self, recorded: Array) -> Array:
        """ln t of exact times, by which their densities are less than those of ln t; 0 else."""
        low, high = self.intervals(recorded)
        return np.where(low == high, low, 0.0)

    def recorded_again(self, logarithms: Array, recorded: Array) -> Array:
        """Other times, (n,) or ends (n, 2), as those that were recorded."""
        with np.errstate(over="ignore"):
            if recorded.ndim == 1:
                return np.exp(logarithms)
            return np.exp(
                np.column_stack(self.observed_again(logarithms, *self.intervals(recorded)))
            )

    def checked(self, y: Any, n: int) -> Array:
        found = super().checked(y, n)
        check_times(found, "y")
        return found

    def described(self) -> dict[str, Any]:
        return {}

    @property
    def scored_as(self) -> str:
        return "times"

    def facts(self, recorded: Array) -> str:
        low, high = self.intervals(recorded)
        return (
            f"{len(recorded):,} times, {int((low == high).sum()):,} of them seen, "
            f"{int(np.isposinf(high).sum()):,} right-censored"
        )


def recorded_times(time: Any, event: Any, n: int) -> Array | None:
    """Times (n,), or their ends (n, 2) where some are censored; None where there are none."""
    if time is None:
        if event is not None:
            raise InputError("event says which times were seen: give them as time.")
        return None
    if isinstance(time, Censored):
        if event is not None:
            raise InputError(
                "Censored(low, high) says what is known of each time; leave event out, or give "
                "time and event as two columns of numbers."
            )
        ends = _ends(time)
    else:
        values = numbers(time, "time", n_dims=1)
        seen = _seen(event, len(values))
        ends = np.column_stack([values, np.where(seen, values, np.inf)])
    if len(ends) != n:
        raise InputError(f"time must have a value per row of design, {n}; got {len(ends)}.")
    check_times(ends, "time")
    return ends if (ends[:, 0] != ends[:, 1]).any() else ends[:, 0]


def check_times(recorded: Array, name: str) -> None:
    """Raise where exact times are not above 0, or what is known of one says nothing."""
    ends = np.atleast_2d(recorded.T).T
    wrong = ~(ends[:, -1] > 0.0) | ((ends[:, 0] == ends[:, -1]) & ~(ends[:, 0] > 0.0))
    if wrong.any():
        raise InputError(
            f"{name} must hold times above 0; got {ends[wrong][0, -1]:g} in {rows_text(wrong)}. "
            "Measure from the start, in smaller units where times of 0 are rounded, or give what "
            "is known of such a time as Censored(None, high)."
        )
    empty = (ends[:, 0] <= 0.0) & np.isposinf(ends[:, -1])
    if empty.any():
        raise InputError(
            f"A censored time of 0 says nothing; {name} has one in {rows_text(empty)}. Leave these "
            "rows out."
        )


def _seen(event: Any, n: int) -> NDArray[np.bool_]:
    """Whether each of n times was seen; all where nobody says."""
    if event is None:
        return np.ones(n, dtype=bool)
    values = numbers(event, "event", n_dims=1)
    odd = values[(values != 0.0) & (values != 1.0)]
    if len(odd) or len(values) != n:
        got = f"{odd[0]:g}" if len(odd) else f"{len(values)} of them"
        raise InputError(
            "event must have a value for each time, 1 or True where it was seen, 0 or False where "
            f"it is right-censored; got {got}."
        )
    return np.asarray(values == 1.0)


def recorded_outcome(outcome: Any, kind: Any, n: int) -> tuple[Array | None, Recorded | None]:
    """What was recorded of n outcomes, (n,) or (n, 2), and how; None for the second where they are
    exact numbers."""
    if isinstance(outcome, Censored):
        if kind != "continuous":
            raise InputError(
                f"Censored outcomes are continuous numbers; got outcome_kind={kind!r}. Leave "
                "it out."
            )
        ends = _ends(outcome)
        _check_length(len(ends), n)
        return (
            (ends, Recorded(Column("outcome", "censored")))
            if (ends[:, 0] < ends[:, 1]).any()
            else (ends[:, 0], None)
        )
    name, options = _kind(kind)
    if outcome is None:
        return None, None
    values = numbers(outcome, "outcome", n_dims=1)
    _check_length(len(values), n)
    if name == "continuous" or not len(values):
        return values, None
    return values, Recorded(
        _rounded(values, options) if name == "rounded" else _count(values, options)
    )


def _whole_counts(values: Array, name: str) -> None:
    """Raise where numbers are not whole or below 0."""
    wrong = (values != np.round(values)) | (values < 0)
    if wrong.any():
        raise InputError(
            f"{name} must hold counts, whole numbers from 0; got {values[wrong][0]:g}."
        )


def _check_length(n_given: int, n: int) -> None:
    if n_given != n:
        raise InputError(f"outcome must have a value per row of design, {n}; got {n_given}.")


def _kind(kind: Any) -> tuple[str, Mapping[str, Any]]:
    """The kind, and what else is said of it."""
    record = {"kind": kind} if isinstance(kind, str) else kind
    name = record.get("kind") if isinstance(record, Mapping) else None
    if not isinstance(name, str) or name not in _KINDS:
        raise InputError(
            'outcome_kind must be "continuous", "rounded", "count", or a dictionary such as '
            '{"kind": "rounded", "step": 0.5} '
            f'or {{"kind": "count", "scale": "log1p"}}; got {kind!r}. Censored outcomes are '
            "given as Censored(low, high)."
        )
    assert isinstance(record, Mapping)
    strange = [option for option in record if option != "kind" and option not in _KINDS[name]]
    if strange:
        raise InputError(f"outcome_kind: {name} outcomes take no {strange[0]!r}.")
    return name, record


def _rounded(values: Array, options: Mapping[str, Any]) -> Column:
    step = options.get("step")
    # One value has none: it is no outcome of a fit, but may be one of somebody new to it.
    if step is None:
        step = common_step(values) if values.min() < values.max() else 0.0
    else:
        step = positive_number(step, "The step of outcome_kind")
    if step is None:
        raise InputError(
            "outcome is not rounded: its numbers do not differ by multiples of a common step. "
            "Give the step, "
            'outcome_kind={"kind": "rounded", "step": 0.5}, or leave outcome_kind at "continuous".'
        )
    return Column("outcome", "rounded", step=step, lowest=float(values.min()))


def _count(values: Array, options: Mapping[str, Any]) -> Column:
    _whole_counts(values, "outcome")
    scale = options.get("scale")
    if scale is not None and scale not in SCALES:
        raise InputError(f"The scale of outcome_kind must be {' or '.join(SCALES)}; got {scale!r}.")
    return Column(
        "outcome", "count", scale=scale or count_scale(values), lowest=lowest_count(values)
    )


def _ends(given: Any) -> Array:
    """Lower and upper ends (n, 2), infinite where open; an error where they contradict each other
    or say nothing."""
    pair = (
        (given.low, given.high) if isinstance(given, Censored) else np.asarray(given, dtype=float).T
    )
    if isinstance(given, Censored) and given.is_named:
        raise InputError(
            "Outcomes that are censored need numbers as ends, Censored(low, high) with arrays; "
            "got names of columns. Pass "
            "table[low] and table[high]."
        )
    n = max(np.size(end) for end in pair if end is not None)
    low = _end(pair[0], n, "low", -np.inf)
    high = _end(pair[1], n, "high", np.inf)
    wrong = (low > high) | np.isposinf(low) | np.isneginf(high)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise InputError(
            "The lower end of a censored outcome must not be above the upper one, and values are "
            "finite; got "
            f"{low[first]:g} to {high[first]:g}, in {rows_text(wrong)}. Correct these rows or "
            "leave them out."
        )
    unknown = np.isneginf(low) & np.isposinf(high)
    if unknown.any():
        raise InputError(
            f"A censored outcome needs one end at least; none in {rows_text(unknown)}. Leave "
            "these rows out."
        )
    return np.column_stack([low, high])


def _end(given: Any, n: int, name: str, nothing: float) -> Array:
    if given is None:
        return np.full(n, nothing)
    try:
        values = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise InputError(
            f"The ends of censored outcomes must be numbers; {name} has something else."
        ) from None
    if values.ndim == 0:
        values = np.full(n, values)
    if values.shape != (n,):
        raise InputError(
            f"The ends of censored outcomes must have one value each per row, {n}; {name} has "
            f"{values.shape}."
        )
    check_range(np.abs(values[np.isfinite(values)]).max(initial=0.0), name)
    return np.where(np.isnan(values), nothing, values)


def inside(low: Array, high: Array) -> Array:
    """A number for each interval (n,): its mean under the one normal distribution that makes all of
    them most likely."""
    exact = low == high
    if exact.all():
        return low
    mean, covariance = fit_gaussian(low[:, None], high[:, None], ["outcome"])
    sd = float(np.sqrt(covariance[0, 0]))
    a, b, width = (low - mean[0]) / sd, (high - mean[0]) / sd, (high - low) / sd
    mass = np.exp(log_normal_mass(a, b, width))
    heights = (np.exp(-0.5 * end**2) / np.sqrt(2 * np.pi) for end in (a, b))
    with np.errstate(divide="ignore", invalid="ignore"):
        away = np.subtract(*heights) / mass
    middle = np.where(np.isfinite(width), 0.5 * (a + b), np.where(np.isfinite(a), a, b))
    away = np.where(np.isfinite(away) & (width * (1.0 + np.abs(middle)) > 1e-4), away, middle)
    return np.where(exact, low, np.clip(mean[0] + sd * away, low, high))
