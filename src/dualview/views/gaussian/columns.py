"""Columns of numbers, (M14): how their kinds are told from values or set by the user, and their
cells as intervals on the scale of the Gaussian view. ``describe_columns`` states the rules."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dualview.columns import Cells, Column, Columns
from dualview.columns.column import Limits
from dualview.columns.kinds import Wish, register_kind
from dualview.columns.layout import Layout
from dualview.columns.levels import codes_of, expected_shares, used_levels
from dualview.columns.numbers import (
    are_whole,
    common_step,
    count_scale,
    look_like_codes,
    lowest_count,
    tied_share,
)
from dualview.columns.table import Source, Table, leave_out, no_value, one_value
from dualview.errors import InputError
from dualview.units import Whitening
from dualview.views.base import Observed
from dualview.views.blocked import feature_view
from dualview.views.features import FeatureKind, Fitted
from dualview.views.gaussian.block import GaussianBlock
from dualview.views.gaussian.intervals import intervals_of

Array = NDArray[np.float64]

TIED_SHARE = 0.1  # of the users share a value: then numbers with a common step are rounded
_LEAST_AT_END = 5  # users
_FEW = 3  # different numbers beyond which some may be limits of the others
_ENDS = "lowest", "highest"
_MANY = 10  # numbers beyond which ends are looked for
_SHOWN = 3


class GaussianKind(FeatureKind):
    """Numbers, exact or known to an interval, and ordered levels."""

    view, arrays, dim, is_basic = "features", ("low", "high"), "feature", True
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "continuous": (),
        "rounded": ("step",),
        "censored": (),
        "count": ("scale",),
        "ordinal": ("levels",),
        "limited": ("limits",),
    }
    shared_dims: ClassVar[Mapping[str, tuple[str, ...]]] = {"cells": ("cell",)}

    def recognize(self, source: Source) -> Column | None:
        if source.holds == "intervals":
            return _censored(source.name, source.table, (source.name,))
        if source.is_numeric:
            return _numeric(source)
        if source.holds == "categories":
            texts = source.texts()
            if texts.is_ordered and len(texts.levels) > 2:
                return _ordinal(source, Wish("ordinal"))
        return None

    def column(self, name: str, table: Table, wish: Wish) -> Column:
        if wish.ends is not None:
            return _censored(name, table, (wish.ends.low, wish.ends.high))
        source = table.source(name)
        if wish.kind == "censored" and source.holds == "intervals":
            return _censored(name, table, (name,))
        makers: dict[str, Callable[[Source, Wish], Column]] = {
            "continuous": _continuous,
            "rounded": _rounded,
            "count": _count,
            "ordinal": _ordinal,
            "limited": _limited,
        }
        if wish.kind not in makers:
            raise InputError(
                f"Column {name!r} cannot be censored by itself: name the columns of its ends, "
                f"columns={{{name!r}: "
                'Censored("low", "high")}, or let it hold pandas intervals.'
            )
        return makers[wish.kind](source, wish)

    def cells(
        self, columns: Sequence[Column], table: Table, unknown: str
    ) -> dict[str, NDArray[Any]]:
        ends = [_ends(column, table, unknown) for column in columns]
        low, high = np.empty((2, table.n_users, len(columns)))
        for d, (below, above) in enumerate(ends):
            low[:, d], high[:, d] = below, above
        return {"low": low, "high": high}

    def missing(self, cells: Cells) -> NDArray[np.bool_]:
        return cells.missing

    def observed(
        self,
        cells: Cells,
        codebook: Columns,
        layout: Layout | None,
        units: Mapping[str, Whitening],
    ) -> Observed | None:
        """Complete vectors to start from, and which of their cells are not exact."""
        if self.view not in units:
            return None
        intervals = intervals_of(cells, codebook, units[self.view])
        x = np.ascontiguousarray(units[self.view].to_working(intervals.start))
        return Observed(feature_view(x.shape[1], layout, intervals), x)

    def coords(
        self, columns: Sequence[Column], cells: Cells, users: Sequence[Any]
    ) -> dict[str, list[str]]:
        """Names of the cells that are not exact."""
        drawn = zip(*cells.drawn, strict=True)
        names = [f"{users[row]}/{columns[place].name}" for row, place in drawn]
        return {"cell": names} if names else {}

    def blocks(self, draws: Fitted) -> list[GaussianBlock]:
        if "features" not in draws.spec.units:
            return []
        columns: Sequence[Column] = [Column(name, "continuous") for name in draws.feature_names]
        if draws.spec.codebook is not None:
            columns = draws.spec.codebook.of(self.view)
        if draws.spec.layout is None:
            return [GaussianBlock(draws, columns)]
        places = zip(draws.spec.layout.of_numbers, draws.spec.layout.columns, strict=True)
        return [
            GaussianBlock(draws, columns, table, number, own, dims)
            for number, ((table, dims), own) in enumerate(places)
        ]


def _ends(column: Column, table: Table, unknown: str) -> tuple[Array, Array]:
    """Low and high ends (U,) of the cells of a column."""
    if column.kind == "censored":
        return _censored_ends(column.name, column.sources, table)
    source = table.source(column.name)
    if column.kind == "ordinal":
        codes = codes_of(column, source, unknown)
        return column.intervals(np.where(codes < 0, np.nan, codes))
    if not source.is_numeric and source.holds != "nothing":
        raise InputError(
            f"Column {column.name!r} is {column.kind} in the fit and must hold numbers; it holds "
            f"{source.holds}."
        )
    values = source.numbers()
    if column.kind == "count":
        wrong = (values < 0) | (np.isfinite(values) & (values != np.round(values)))
        if wrong.any():
            raise InputError(
                f"Column {column.name!r} is a count in the fit: whole numbers from 0; got "
                f"{values[wrong][0]:g}, in "
                f"{table.who(wrong)}."
            )
    if column.limits:
        _check_limits(source, column.limits, values)
    return column.intervals(values)


def _numeric(source: Source) -> Column:
    """The kind of numbers by the rules."""
    values = source.known()
    if are_whole(values) and values.min() >= 0:
        return _count(source, Wish("count", is_detected=True))
    lowest = float(values.min())
    if are_whole(values):
        why = f"{_whole_text(values)}, negative ones too"
        return Column(source.name, "rounded", why, step=1.0, lowest=lowest)
    tied = tied_share(values)
    step = common_step(values, source.precision) if tied >= TIED_SHARE else None
    if step is None:
        is_limited = any(end is not None for end in _limits_of(values))
        return (_limited if is_limited else _continuous)(source, Wish("continuous"))
    why = f"{_range_text(values)}, in steps of {step:g}, {_tied_text(tied)}"
    return Column(source.name, "rounded", why, step=step, lowest=lowest)


def _continuous(source: Source, wish: Wish) -> Column:
    _require_numbers(source, wish)
    values = source.known()
    why = f"{_range_text(values)}, {_tied_text(tied_share(values))}"
    for word, end in zip(_ENDS, _limits_of(values), strict=True):
        if end is not None:
            why += (
                f"; {_percent(values == end)} have the {word}: a limit of measurement? Then call "
                "it limited"
            )
    return Column(source.name, "continuous", why)


def _limits_of(values: Array) -> Limits:
    """The lowest and the highest number, where many users have it and the others differ; None
    else."""
    if len(values) <= _MANY or len(np.unique(values)) <= _FEW:
        return None, None
    least = max(_LEAST_AT_END, TIED_SHARE * len(values))
    low, high = (
        float(end) if np.sum(values == end) >= least else None
        for end in (values.min(), values.max())
    )
    return low, high


def _limited(source: Source, wish: Wish) -> Column:
    """Numbers that cannot be seen beyond a limit, as shares beyond 0 and 1: there they are
    censored."""
    _require_numbers(source, wish)
    values = source.known()
    limits = wish.limits or _limits_of(values)
    if limits == (None, None):
        raise InputError(
            f"Column {source.name!r} cannot be limited: fewer than {100 * TIED_SHARE:.0f} % of "
            f"users, or than {_LEAST_AT_END}, have its lowest number, and its highest. Give the "
            "limits, "
            f"columns={{{source.name!r}: {{'kind': 'limited', 'limits': [0, 1]}}}}, or call it "
            "continuous."
        )
    _check_limits(source, limits, values)
    ends = [
        f"{_percent(values == end)} have the {word}, {end:g}, a limit"
        for word, end in zip(_ENDS, limits, strict=True)
        if end is not None
    ]
    why = f"{_range_text(values)}; {' and '.join(ends)}"
    return Column(source.name, "limited", why, limits=limits)


def _check_limits(source: Source, limits: Limits, values: Array) -> None:
    low, high = (-np.inf, np.inf) if not limits else limits
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    wrong = (values < low) | (values > high)
    if wrong.any():
        raise InputError(
            f"Column {source.name!r} has the limits {low:g} and {high:g}; got "
            f"{values[wrong][0]:g}. Set other limits, "
            f"columns={{{source.name!r}: {{'kind': 'limited', 'limits': [..., ...]}}}}, or correct "
            "the value."
        )


def _rounded(source: Source, wish: Wish) -> Column:
    _require_numbers(source, wish)
    values = source.known()
    step = wish.step or common_step(values, source.precision)
    if step is None:
        raise InputError(
            f"Column {source.name!r} cannot be rounded: its numbers do not differ by multiples "
            "of a common step. Give the "
            f"step, columns={{{source.name!r}: {{'kind': 'rounded', 'step': 0.5}}}}, or call it "
            "continuous."
        )
    why = f"as asked; {_range_text(values)}, {_tied_text(tied_share(values))}"
    return Column(source.name, "rounded", why, step=step, lowest=float(values.min()))


def _count(source: Source, wish: Wish) -> Column:
    _require_numbers(source, wish)
    values = source.known()
    if not are_whole(values) or values.min() < 0:
        example = values[(values != np.round(values)) | (values < 0)][0]
        raise InputError(
            f"Column {source.name!r} cannot be a count: counts are whole numbers from 0; it has "
            f"{example:g}. "
            "Call it rounded or continuous."
        )
    is_skewed = count_scale(values) == "log1p"
    scale = wish.scale or count_scale(values)
    why = f"{_whole_text(values)}, {_tied_text(tied_share(values))}" + (
        ", skewed" if is_skewed else ""
    )
    doubt = _doubt(source.name, values) if wish.is_detected else ""
    return Column(source.name, "count", why, scale=scale, lowest=lowest_count(values), doubt=doubt)


def _doubt(name: str, values: Array) -> str:
    """What speaks against whole numbers being counts, and what to write then; "" where nothing
    does."""
    if look_like_codes(values):
        return (
            "how many users have each number goes up and down by turns, as with codes: if they are "
            f"names, write columns={{{name!r}: 'nominal'}}; if they are amounts, 'count'"
        )
    return ""


def _ordinal(source: Source, wish: Wish) -> Column:
    texts = used_levels(source, wish)
    if not (wish.levels or texts.is_ordered or source.is_numeric):
        raise InputError(
            f"Column {source.name!r} cannot be ordinal without the order of its levels. Give it, "
            "lowest first: "
            f"columns={{{source.name!r}: {{'kind': 'ordinal', 'levels': {list(texts.levels[:_SHOWN])}}}}}; or call it nominal."  # noqa: E501
        )
    if len(texts.levels) < 3:
        raise InputError(
            f"Column {source.name!r} has two levels, where ordinal columns have three or more: "
            "call it nominal."
        )
    cuts = tuple(float(cut) for cut in ndtri(np.cumsum(expected_shares(texts))[:-1]))
    return Column(
        source.name,
        "ordinal",
        f"{len(texts.levels)} levels in order",
        levels=texts.levels,
        cuts=cuts,
    )


def _require_numbers(source: Source, wish: Wish) -> None:
    if not source.is_numeric:
        raise InputError(
            f"Column {source.name!r} cannot be {wish.kind}: it holds {source.holds}, not "
            "numbers. Convert it first, choose "
            f"another kind, or leave it out: {leave_out(source.name)}."
        )


def _censored_ends(name: str, sources: tuple[str | None, ...], table: Table) -> tuple[Array, Array]:
    """Lower and upper ends (U,), infinite where open; raises where they contradict each other."""
    if len(sources) == 1:
        low, high = _interval_ends(table.source(str(sources[0])))
    else:
        ends = [
            np.full(table.n_users, np.nan) if source is None else _end(name, table.source(source))
            for source in sources
        ]
        low = np.where(np.isnan(ends[0]), -np.inf, ends[0])
        high = np.where(np.isnan(ends[1]), np.inf, ends[1])
    wrong = (low > high) | np.isposinf(low) | np.isneginf(high)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"Column {name!r}: the lower end must not be above the upper one, and values are "
            f"finite; got {low[first]:g} to "
            f"{high[first]:g}, in {table.who(wrong)}. Correct these bounds, or make them missing "
            "(NaN)."
        )
    return low, high


def _interval_ends(source: Source) -> tuple[Array, Array]:
    if source.holds != "intervals":
        raise InputError(
            f"Column {source.name!r} must hold pandas intervals, as in the fit; it holds "
            f"{source.holds}."
        )
    cells = source.cells
    known = cells.notna().to_numpy()
    low, high = np.full(len(cells), -np.inf), np.full(len(cells), np.inf)
    low[known] = [float(cell.left) for cell in cells[known]]
    high[known] = [float(cell.right) for cell in cells[known]]
    return low, high


def _end(name: str, source: Source) -> Array:
    if not source.is_numeric and source.holds != "nothing":
        raise InputError(
            f"Column {source.name!r}, an end of {name!r}, must hold numbers; it holds "
            f"{source.holds}."
        )
    return source.numbers(open_ends=True)


def _censored(name: str, table: Table, sources: tuple[str | None, ...]) -> Column:
    """A column whose ends stand in two columns of the table, or in one that holds intervals."""
    low, high = _censored_ends(name, sources, table)
    missing = np.isneginf(low) & np.isposinf(high)
    if missing.all():
        raise InputError(no_value(name))
    known = ~missing
    if low[known].max() == low[known].min() and high[known].max() == high[known].min():
        raise InputError(one_value(name, f"{low[known][0]:g} to {high[known][0]:g}"))
    exact = low == high
    why = (
        f"bounds; {_percent(exact[known])} of the known cells are exact, "
        f"{_percent(np.isposinf(high[known]))} open upwards, "
        f"{_percent(np.isneginf(low[known]))} open downwards"
    )
    return Column(name, "censored", why, float(missing.mean()), sources=sources)


def _range_text(values: Array) -> str:
    return f"numbers from {values.min():g} to {values.max():g}"


def _whole_text(values: Array) -> str:
    return f"whole numbers from {values.min():.0f} to {values.max():.0f}"


def _tied_text(share: float) -> str:
    return (
        "no two users with the same"
        if share == 0
        else f"{_percent(share)} of users share a value with another"
    )


def _percent(share: Any) -> str:
    """A share, or that of a mask's True."""
    return f"{100.0 * np.mean(share):.0f} %"


register_kind(GaussianKind())
