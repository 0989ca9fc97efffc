"""Kinds of columns as the codebook asks them: what they are called, which columns are theirs, and
what the model sees of their cells.

A kind has a view, and its own folder answers for it: its class inherits from
``views.features.FeatureKind`` and is registered once. ``columns=`` names a column by a word, such
as "count" or "nominal", of which a kind can have several.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dualview.checks import positive_number
from dualview.columns.cells import Cells
from dualview.columns.column import SCALES, Censored, Column, Limits, Scale
from dualview.columns.table import Source, Table
from dualview.errors import InputError

IGNORE = "ignore"


@dataclass(frozen=True)
class Wish:
    """What the user says of a column; None where nothing is said. ends: columns that hold the ends
    of a censored one. is_detected: the values say it, nobody else."""

    kind: str
    levels: tuple[str, ...] | None = None
    step: float | None = None
    scale: Scale | None = None
    limits: Limits | None = None
    ends: Censored | None = None
    is_detected: bool = False

    @classmethod
    def of(cls, name: str, given: Any) -> "Wish":
        """From a value of ``columns=``: the name of a kind, a dictionary with more, or the columns
        of two ends."""
        if isinstance(given, Censored):
            return cls("censored", ends=_checked_ends(name, given))
        words = kind_words()
        record = {"kind": given} if isinstance(given, str) else given
        if not isinstance(record, Mapping) or "kind" not in record:
            raise InputError(
                f"columns[{name!r}] must be a kind ({', '.join(words)}), a dictionary such as "
                f'{{"kind": "ordinal", "levels": ["low", "mid", "high"]}}, or Censored(low, '
                f"high); got {given!r}."
            )
        kind = record["kind"]
        if kind not in words:
            raise InputError(
                f"The kind of column {name!r} must be one of {', '.join(words)}; got {kind!r}."
            )
        options = () if kind == IGNORE else kind_of(kind).words[kind]
        for option in record:
            if option != "kind" and option not in options:
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
        limits = record.get("limits")
        if limits is not None:
            limits = _checked_limits(name, limits)
        return cls(kind, levels, step, scale, limits)


def _checked_ends(name: str, ends: Censored) -> Censored:
    if not ends.is_named:
        raise InputError(
            f"columns[{name!r}] must name the columns of X with the ends, Censored('low', "
            "'high'); got numbers, which are "
            "for the outcomes of a behavior."
        )
    return ends


def _checked_limits(name: str, limits: Any) -> Limits:
    are_two = isinstance(limits, list | tuple) and len(limits) == 2
    if are_two and all(_is_end(end) for end in limits):
        low, high = (None if _is_open(end) else float(end) for end in limits)
        if not (low is None and high is None) and (low is None or high is None or low < high):
            return low, high
    raise InputError(
        f"The limits of column {name!r} must be two numbers, the lower one first, of which one may "
        f"be None: [0, 1], [0, None]; got {limits!r}."
    )


def _is_end(end: Any) -> bool:
    is_number = isinstance(end, Real) and not isinstance(end, bool)
    return end is None or (is_number and not np.isnan(float(end)))


def _is_open(end: Any) -> bool:
    return end is None or bool(np.isinf(float(end)))


def _checked_levels(name: str, levels: Any) -> tuple[str, ...]:
    listed = isinstance(levels, list | tuple) and all(isinstance(level, str) for level in levels)
    if not listed or len(levels) < 2 or len(set(levels)) < len(levels):
        raise InputError(
            f"The levels of column {name!r} must be a list of two texts or more, each once; got "
            f"{levels!r}."
        )
    return tuple(levels)


class ColumnKind(ABC):
    """A kind of columns, which one view sees.

    view: the name of the view in draws. words: what ``columns=`` calls such columns, each with the
    options that it takes. arrays: names of the arrays that hold their cells; in files their columns
    are along ``dim``. is_basic: files hold these arrays for every table, with or without such
    columns.
    """

    view: ClassVar[str]
    words: ClassVar[Mapping[str, tuple[str, ...]]]
    arrays: ClassVar[tuple[str, ...]]
    dim: ClassVar[str]
    is_basic: ClassVar[bool] = False

    def recognize(self, source: Source) -> Column | None:  # noqa: ARG002
        """The column, where its values alone say that it is of this kind; by default they never
        do."""
        return None

    @abstractmethod
    def column(self, name: str, table: Table, wish: Wish) -> Column:
        """A column that the user says to be of this kind; raises InputError where its cells do not
        allow that."""

    @abstractmethod
    def cells(
        self, columns: Sequence[Column], table: Table, unknown: str
    ) -> dict[str, NDArray[Any]]:
        """Cells of users in these columns, as the model sees them: arrays (U, columns) by name.
        unknown: what a level is that a column does not have."""

    @abstractmethod
    def missing(self, cells: Cells) -> NDArray[np.bool_]:
        """Which cells (U, columns) are missing."""


_KINDS: dict[str, ColumnKind] = {}
_HOME = "dualview.views"  # which registers the package's own kinds when it is imported


def register_kind(kind: ColumnKind) -> None:
    """Make a kind known, by the name of its view."""
    _KINDS[kind.view] = kind


def column_kinds() -> tuple[ColumnKind, ...]:
    """All kinds, in the order in which they were registered."""
    importlib.import_module(_HOME)
    return tuple(_KINDS.values())


def kind_of(word: str) -> ColumnKind:
    """The kind that a word of ``columns=`` names."""
    return next(kind for kind in column_kinds() if word in kind.words)


def kind_words() -> tuple[str, ...]:
    """What ``columns=`` can call a column."""
    return (*(word for kind in column_kinds() for word in kind.words), IGNORE)
