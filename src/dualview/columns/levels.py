"""Columns with levels, in order or not: which there are, the users' levels as numbers, and how many
users have each."""

import numpy as np
from numpy.typing import NDArray

from dualview.columns.column import Column
from dualview.columns.kinds import Wish
from dualview.columns.table import Source, Texts, leave_out, no_value, one_value
from dualview.errors import InputError

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

_SHOWN, _LEVELS_SHOWN = 3, 5


def used_levels(source: Source, wish: Wish) -> Texts:
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
        raise InputError(no_value(source.name))
    if len(used) == 1:
        raise InputError(one_value(source.name, texts.levels[used[0]]))
    return texts if wish.levels is None else _recoded(source, texts, wish.levels)


def _recoded(
    source: Source, texts: Texts, levels: tuple[str, ...], unknown: str = "error"
) -> Texts:
    """Cells as codes of other levels; those that are not among them are refused, or missing on
    request."""
    places = {level: place for place, level in enumerate(levels)}
    lookup = np.array([places.get(level, -1) for level in texts.levels] + [-1], dtype=np.int64)
    codes = lookup[texts.codes]
    strange = (codes < 0) & (texts.codes >= 0)
    if strange.any() and unknown == "error":
        names = [texts.levels[code] for code in np.unique(texts.codes[strange])]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        known = ", ".join(levels[:_LEVELS_SHOWN])
        known += f", … ({len(levels)} levels)" if len(levels) > _LEVELS_SHOWN else ""
        raise InputError(
            f"Column {source.name!r} has unknown level(s) "
            f"{', '.join(map(repr, names[:_SHOWN]))}{more}, in "
            f"{source.table.who(strange)}; known are {known}. Correct them, "
            "declare them when you fit (levels), "
            'or take them for missing: unknown="missing".'
        )
    return Texts(codes, levels, True)


def codes_of(column: Column, source: Source, unknown: str) -> Codes:
    """The users' levels as numbers (U,), −1 where they are missing; unknown: what a level is that
    the column does not have."""
    if source.holds == "nothing":
        return np.full(len(source.cells), -1, dtype=np.int64)
    if not source.is_listable:
        raise InputError(
            f"Column {column.name!r} is {column.kind} in the fit; it holds {source.holds}, which "
            "are no levels."
        )
    return _recoded(source, source.texts(), column.levels, unknown).codes


def expected_shares(texts: Texts) -> Array:
    """g_l = (n_l + 1/L)/(n + 1) of (M15)."""
    n_levels = len(texts.levels)
    counts = np.bincount(texts.codes[texts.codes >= 0], minlength=n_levels)
    return np.asarray((counts + 1.0 / n_levels) / (counts.sum() + 1.0))


def level_shares(codes: Codes, n_levels: int) -> Array:
    """Shares of levels (L,) among users with codes (n,), those without a level left out."""
    seen = codes[codes >= 0]
    return np.asarray(np.bincount(seen, minlength=n_levels) / max(len(seen), 1))
