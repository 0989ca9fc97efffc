"""The kind of a column, detected from its values or set by the user; ``describe_columns`` states
the rules."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dualview.checks import positive_number
from dualview.columns.column import KINDS, SCALES, Censored, Column, Scale
from dualview.columns.table import Source, Table, Texts, leave_out
from dualview.errors import InputError

Array = NDArray[np.float64]

TIED_SHARE = (
    0.1  # of the users share a value with another: then numbers with a common step are rounded
)
SKEWED = 1.0  # skewness above which counts are seen on the scale of log1p
MOST_DECIMALS = 8
MANY_LEVELS = 10  # up to so many levels are never too many, unless every user has another
_SHOWN = 3
_DOUBLE = float(np.finfo(float).eps)
_MOST_ERROR = 0.01  # of a step, in numbers that differ by multiples of it but for rounding
_MOST_STEPS, _ROUNDING = (
    1e5,
    1e-9,
)  # of steps that are no decimal number: from lowest to highest; of that range
_OPTIONS = {
    "kind": KINDS,
    "levels": ("nominal", "ordinal"),
    "step": ("rounded",),
    "scale": ("count",),
}


@dataclass(frozen=True)
class Wish:
    """What the user says of a column; None where nothing is said."""

    kind: str
    levels: tuple[str, ...] | None = None
    step: float | None = None
    scale: Scale | None = None

    @classmethod
    def of(cls, name: str, given: Any) -> "Wish":
        """From a value of ``columns=``: the name of a kind, or a dictionary with more."""
        record = {"kind": given} if isinstance(given, str) else given
        if not isinstance(record, Mapping) or "kind" not in record:
            raise InputError(
                f"columns[{name!r}] must be a kind ({', '.join(KINDS)}), a dictionary such as "
                f'{{"kind": "ordinal", "levels": ["low", "mid", "high"]}}, or Censored(low, '
                f"high); got {given!r}."
            )
        kind = record["kind"]
        if kind not in KINDS:
            raise InputError(
                f"The kind of column {name!r} must be one of {', '.join(KINDS)}; got {kind!r}."
            )
        for option in record:
            if option not in _OPTIONS or kind not in _OPTIONS[option]:
                raise InputError(f"columns[{name!r}]: a {kind} column takes no {option!r}.")
        levels, step, scale = record.get("levels"), record.get("step"), record.get("scale")
        if levels is not None:
            levels = _checked_levels(name, levels)
        if step is not None:
            step = positive_number(step, f"The step of column {name!r}")
        if scale is not None and scale not in SCALES:
            raise InputError(
                f"The scale of column {name!r} must be {' or '.join(SCALES)}; got {scale!r}."
            )
        return cls(kind, levels, step, scale)


def _checked_levels(name: str, levels: Any) -> tuple[str, ...]:
    listed = isinstance(levels, list | tuple) and all(isinstance(level, str) for level in levels)
    if not listed or len(levels) < 2 or len(set(levels)) < len(levels):
        raise InputError(
            f"The levels of column {name!r} must be a list of two texts or more, each once; got "
            f"{levels!r}."
        )
    return tuple(levels)


def chosen_column(source: Source) -> Column:
    """The column by the rules; raises InputError with advice where there is no use for it."""
    if source.holds == "intervals":
        return censored_interval(source)
    if source.is_numeric:
        return _with_missing(source, _numeric(source))
    if source.is_listable and source.holds != "mixed numbers and text":
        return _with_missing(source, _listed(source))
    if source.holds == "nothing":
        raise InputError(_nothing(source.name))
    advice = {
        "dates or time spans": "Turn them into numbers, such as days since the first",
        "lists or records": "Spread them over columns of one value each",
        "mixed numbers and text": "Write numbers or text throughout, or take all of it for "
        "levels: "
        f"columns={{{source.name!r}: 'nominal'}}",
    }.get(source.holds, "Turn them into numbers or text")
    raise InputError(
        f"Column {source.name!r} holds {source.holds}, which no kind of column is for. {advice}, "
        "or leave it out: "
        f"{leave_out(source.name)}."
    )


def wished_column(source: Source, wish: Wish) -> Column:
    """The column as the user says; raises InputError where its cells do not allow that."""
    if wish.kind == "ignore":
        return Column(source.name, "ignore", "left out as asked")
    if wish.kind == "censored" and source.holds == "intervals":
        return censored_interval(source)
    if source.holds == "nothing":
        raise InputError(_nothing(source.name))
    makers: dict[str, Callable[[Source, Wish], Column]] = {
        "continuous": _continuous,
        "rounded": _rounded,
        "count": _count,
        "ordinal": _ordinal,
        "nominal": _nominal,
    }
    if wish.kind not in makers:
        raise InputError(
            f"Column {source.name!r} cannot be censored by itself: name the columns of its ends, "
            f"columns={{{source.name!r}: "
            'Censored("low", "high")}, or let it hold pandas intervals.'
        )
    return _with_missing(source, makers[wish.kind](source, wish))


def censored_column(name: str, ends: Censored, table: Table) -> Column:
    """A column whose ends stand in two columns of the table."""
    low, high = censored_ends(name, (ends.low, ends.high), table)
    return _censored(name, low, high, (ends.low, ends.high))


def censored_interval(source: Source) -> Column:
    """A column that holds pandas intervals."""
    low, high = censored_ends(source.name, (source.name,), source.table)
    return _censored(source.name, low, high, (source.name,))


def censored_ends(name: str, sources: tuple[str | None, ...], table: Table) -> tuple[Array, Array]:
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


def _censored(name: str, low: Array, high: Array, sources: tuple[str | None, ...]) -> Column:
    missing = np.isneginf(low) & np.isposinf(high)
    if missing.all():
        raise InputError(_nothing(name))
    known = ~missing
    if low[known].max() == low[known].min() and high[known].max() == high[known].min():
        raise InputError(_one_value(name, f"{low[known][0]:g} to {high[known][0]:g}"))
    exact = low == high
    why = (
        f"bounds; {_percent(exact[known])} of the known cells are exact, "
        f"{_percent(np.isposinf(high[known]))} open upwards, "
        f"{_percent(np.isneginf(low[known]))} open downwards"
    )
    return Column(name, "censored", why, float(missing.mean()), sources=sources)


def _with_missing(source: Source, column: Column) -> Column:
    return replace(column, missing=float(source.cells.isna().mean()))


def _known(source: Source) -> Array:
    """The numbers of a column that are there; raises where there are none, or, in a table with
    names, one only."""
    values = source.numbers()
    values = values[~np.isnan(values)]
    if not len(values):
        raise InputError(_nothing(source.name))
    if values.min() == values.max() and source.table.is_named:
        raise InputError(_one_value(source.name, f"{values[0]:g}"))
    return values


def _numeric(source: Source) -> Column:
    values = _known(source)
    n_distinct = len(np.unique(values))
    if n_distinct == 2 and len(values) > 2:
        return _nominal(source, Wish("nominal"))
    if _are_whole(values):
        if values.min() >= 0:
            return _count(source, Wish("count"))
        return Column(
            source.name,
            "rounded",
            f"{_whole_text(values)}, negative ones too",
            step=1.0,
            lowest=float(values.min()),
        )
    tied = tied_share(values)
    step = common_step(values, source.precision) if tied >= TIED_SHARE else None
    if step is not None:
        why = (
            f"numbers from {values.min():g} to {values.max():g}, in steps of {step:g}, "
            f"{_tied_text(tied)}"
        )
        return Column(source.name, "rounded", why, step=step, lowest=float(values.min()))
    return _continuous(source, Wish("continuous"))


def _listed(source: Source) -> Column:
    texts = source.texts()
    if source.holds != "categories":
        _refuse_many_levels(source, texts)
    return (
        _ordinal(source, Wish("ordinal"))
        if texts.is_ordered and len(texts.levels) > 2
        else _nominal(source, Wish("nominal"))
    )


def _refuse_many_levels(source: Source, texts: Texts) -> None:
    n_known, n_levels = int((texts.codes >= 0).sum()), len(texts.levels)
    if n_levels > 2 and n_levels > min(n_known - 1, max(MANY_LEVELS, n_known // 2)):
        example = texts.levels[0]
        raise InputError(
            f"Column {source.name!r} has {n_levels} levels for {n_known} users, such as "
            f"{example:.40}: names, ids or free text "
            f"say nothing about clusters. Leave it out: {leave_out(source.name)}; merge levels; "
            "turn digits into numbers; or "
            f"keep it as it is: columns={{{source.name!r}: 'nominal'}}."
        )


def _continuous(source: Source, wish: Wish) -> Column:
    _require_numbers(source, wish)
    values = _known(source)
    tied = tied_share(values)
    why = f"numbers from {values.min():g} to {values.max():g}, {_tied_text(tied)}"
    ends = {"lowest": np.mean(values == values.min()), "highest": np.mean(values == values.max())}
    for word, share in ends.items():
        if share >= TIED_SHARE and len(values) > MANY_LEVELS:
            why += (
                f"; {_percent(share)} have the {word}: a limit of measurement? Then give "
                "Censored bounds"
            )
    return Column(source.name, "continuous", why)


def _rounded(source: Source, wish: Wish) -> Column:
    _require_numbers(source, wish)
    values = _known(source)
    step = wish.step or common_step(values, source.precision)
    if step is None:
        raise InputError(
            f"Column {source.name!r} cannot be rounded: its numbers do not differ by multiples "
            "of a common step. Give the "
            f"step, columns={{{source.name!r}: {{'kind': 'rounded', 'step': 0.5}}}}, or call it "
            "continuous."
        )
    why = (
        f"as asked; numbers from {values.min():g} to {values.max():g}, "
        f"{_tied_text(tied_share(values))}"
    )
    return Column(source.name, "rounded", why, step=step, lowest=float(values.min()))


def _count(source: Source, wish: Wish) -> Column:
    _require_numbers(source, wish)
    values = _known(source)
    if not _are_whole(values) or values.min() < 0:
        example = values[(values != np.round(values)) | (values < 0)][0]
        raise InputError(
            f"Column {source.name!r} cannot be a count: counts are whole numbers from 0; it has "
            f"{example:g}. "
            "Call it rounded or continuous."
        )
    is_skewed = count_scale(values) == "log1p"
    scale: Scale = wish.scale or count_scale(values)
    why = f"{_whole_text(values)}, {_tied_text(tied_share(values))}" + (
        ", skewed" if is_skewed else ""
    )
    n_distinct = len(np.unique(values))
    if n_distinct == len(values) > MANY_LEVELS and values.max() - values.min() == n_distinct - 1:
        why += "; each number once: an id? Then ignore it"
    return Column(source.name, "count", why, scale=scale, lowest=lowest_count(values))


def count_scale(values: Array) -> Scale:
    """That on which counts are seen: log1p where they are skewed and less so on it."""
    if values.min() == values.max():
        return "identity"
    skewness = _skewness(values)
    return (
        "log1p" if skewness > SKEWED and abs(_skewness(np.log1p(values))) < skewness else "identity"
    )


def lowest_count(values: Array) -> float:
    """The lowest count that is possible: 0, or 1 where it is the lowest; ages from 22 have no end
    at 22."""
    return 1.0 if values.min() == 1 else 0.0


def _ordinal(source: Source, wish: Wish) -> Column:
    texts = _texts(source, wish)
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
    cuts = tuple(float(cut) for cut in ndtri(np.cumsum(_shares(texts))[:-1]))
    return Column(
        source.name,
        "ordinal",
        f"{len(texts.levels)} levels in order",
        levels=texts.levels,
        cuts=cuts,
    )


def _nominal(source: Source, wish: Wish) -> Column:
    texts = _texts(source, wish)
    what = {"flags": "flags", "numbers": "numbers", "categories": "categories"}.get(
        source.holds, "text"
    )
    why = f"{what}, {len(texts.levels)} levels"
    shares = tuple(float(share) for share in _shares(texts))
    return Column(source.name, "nominal", why, levels=texts.levels, shares=shares)


def _texts(source: Source, wish: Wish) -> Texts:
    """The cells as levels, those that were given where they were; raises where fewer than two are
    in use."""
    if not source.is_listable:
        raise InputError(
            f"Column {source.name!r} cannot be {wish.kind}: it holds {source.holds}. Leave it "
            f"out: {leave_out(source.name)}."
        )
    texts = source.texts()
    used = np.unique(texts.codes[texts.codes >= 0])
    if not len(used):
        raise InputError(_nothing(source.name))
    if len(used) == 1:
        raise InputError(_one_value(source.name, texts.levels[used[0]]))
    if wish.levels is None:
        return texts
    return recoded(source, texts, wish.levels)


def recoded(source: Source, texts: Texts, levels: tuple[str, ...], unknown: str = "error") -> Texts:
    """Cells as codes of other levels; those that are not among them are refused, or missing on
    request."""
    places = {level: place for place, level in enumerate(levels)}
    lookup = np.array([places.get(level, -1) for level in texts.levels] + [-1], dtype=np.int64)
    codes = lookup[texts.codes]
    strange = (codes < 0) & (texts.codes >= 0)
    if strange.any() and unknown == "error":
        names = [texts.levels[code] for code in np.unique(texts.codes[strange])]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise InputError(
            f"Column {source.name!r} has unknown level(s) "
            f"{', '.join(map(repr, names[:_SHOWN]))}{more}, in "
            f"{source.table.who(strange)}; known are {_levels_text(levels)}. Correct them, "
            "declare them when you fit (levels), "
            'or take them for missing: unknown="missing".'
        )
    return Texts(codes, levels, True)


def _shares(texts: Texts) -> Array:
    """g_l = (n_l + 1/L)/(n + 1) of (M15)."""
    n_levels = len(texts.levels)
    counts = np.bincount(texts.codes[texts.codes >= 0], minlength=n_levels)
    return np.asarray((counts + 1.0 / n_levels) / (counts.sum() + 1.0))


def _require_numbers(source: Source, wish: Wish) -> None:
    if not source.is_numeric:
        raise InputError(
            f"Column {source.name!r} cannot be {wish.kind}: it holds {source.holds}, not "
            "numbers. Convert it first, choose "
            f"another kind, or leave it out: {leave_out(source.name)}."
        )


def tied_share(values: Array) -> float:
    """The share of numbers (n,) that are there more than once."""
    counts = np.unique(values, return_counts=True)[1]
    return float(counts[counts > 1].sum() / len(values))


def common_step(values: Array, precision: float = _DOUBLE) -> float | None:
    """The largest step by multiples of which all numbers differ; None where none of eight decimals
    or fewer is found.

    Steps that are no decimal number, as in standardized columns, are found when two of the numbers
    are neighbors. ``precision`` is the relative one in which the numbers were stored.
    """
    distinct = np.unique(values)
    largest = float(np.abs(distinct).max())
    for decimals in range(MOST_DECIMALS + 1):
        units = distinct * 10.0**decimals
        error = 4.0 * precision * largest * 10.0**decimals
        if error > _MOST_ERROR:
            break
        whole = np.round(units)
        if np.abs(units - whole).max() <= error:
            return float(np.gcd.reduce((whole - whole[0]).astype(np.int64)) / 10.0**decimals)
    return _smallest_gap(distinct)


def _smallest_gap(distinct: Array) -> float | None:
    """The smallest gap between sorted numbers, but for rounding, where all gaps are multiples of
    it."""
    away = distinct - distinct[0]
    gaps = np.diff(distinct)
    gap = float(gaps[gaps > _ROUNDING * away[-1]].min())
    gap = float(away[-1] / np.round(away[-1] / gap))
    multiples = away / gap
    return (
        gap
        if np.abs(multiples - np.round(multiples)).max() < _MOST_ERROR
        and multiples[-1] < _MOST_STEPS
        else None
    )


def _skewness(values: Array) -> float:
    away = values - values.mean()
    return float(np.mean((away / np.sqrt(np.mean(away**2))) ** 3))


def _are_whole(values: Array) -> bool:
    return bool(np.all(values == np.round(values)))


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


def _levels_text(levels: tuple[str, ...]) -> str:
    shown = ", ".join(levels[:5])
    return shown if len(levels) <= 5 else f"{shown}, … ({len(levels)} levels)"


def _nothing(name: str) -> str:
    return f"Column {name!r} has no value at all. Leave it out: {leave_out(name)}."


def _one_value(name: str, value: str) -> str:
    return (
        f"Column {name!r} has one value only, {value:.40}: it says nothing about clusters. "
        f"Leave it out: {leave_out(name)}."
    )
