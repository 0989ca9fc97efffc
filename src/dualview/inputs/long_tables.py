"""Long tables, a row for each observation of a user: which columns are what, how they become
numbers, and the behavior that their rows are.

The command line, ``from_long`` and predictions read tables by the same record.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior
from dualview.behaviors.binary import BinaryOutcomes
from dualview.behaviors.categorical import CategoricalOutcomes
from dualview.behaviors.counts import CountOutcomes
from dualview.behaviors.families.levels import Levels
from dualview.behaviors.ordinal import OrdinalOutcomes
from dualview.behaviors.survival import SurvivalOutcomes
from dualview.behaviors.user_regression import UserRegression
from dualview.checks import listed
from dualview.columns import Censored
from dualview.columns.numbers import are_whole
from dualview.columns.table import Table, level_text
from dualview.errors import InputError
from dualview.inputs.designs import ColumnDesign, Design, FormulaDesign, design_from
from dualview.inputs.tables import TO_PREDICT, GivenTable

Array = NDArray[np.float64]

KINDS: dict[str, Any] = {
    "regression": UserRegression,
    "binary": BinaryOutcomes,
    "ordinal": OrdinalOutcomes,
    "categorical": CategoricalOutcomes,
    "survival": SurvivalOutcomes,
    "counts": CountOutcomes,
}
SIZES = {"counts": "exposure", "binary": "trials"}  # what a row stands for, by kind


class Observed(NamedTuple):
    """What a table says of n observations: outcomes (n,), or ends (n, 2), and what they depend on;
    size (n,): exposures or trials, where there are some."""

    outcome: NDArray[Any] | None
    design: pd.DataFrame
    common: pd.DataFrame | None
    groups: dict[str, list[str]] | None
    size: Array | None = None


@dataclass(frozen=True)
class LongTable:
    """Which columns of a long table are what.

    kind, outcome_kind: as ``AnswerSettings`` has them. outcome: a column, or two with the ends of
    intervals; none where outcomes are no column. design: what outcomes depend on, user by user.
    common, groups: whose effects all users share. levels: of ordinal and categorical outcomes.
    features: columns of the users. told: how the outcome was read, in words. event: of times, the
    column that says which were seen. exposure: the column of counts', trials: that of numbers of
    successes; empty for none. family: of counts and times; empty for the default.
    """

    user: str
    kind: str
    outcome: tuple[str, ...]
    design: Design
    common: ColumnDesign
    groups: tuple[str, ...] = ()
    outcome_kind: str = "continuous"
    intercept: bool = True
    levels: tuple[str | float, ...] = ()
    features: tuple[str, ...] = ()
    told: str = ""
    event: str = ""
    exposure: str = ""
    trials: str = ""
    family: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values, which a behavior keeps and a file can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """From what :meth:`to_json` said, before or after it was in a file."""
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in told.items()
        }
        plain |= {name: design_from(told[name]) for name in ("design", "common")}
        return cls(**plain)

    @property
    def references(self) -> str:
        """The level that the others of each column are compared with, in words; empty without
        levels."""
        is_formula = isinstance(self.design, FormulaDesign)
        own = () if is_formula and not self.intercept else self.design.codings
        coded = [one for one in (*own, *self.common.codings) if len(one.shown) < len(one.levels)]
        against = ", ".join(f"{one.name} against {one.levels[0]}" for one in coded)
        return f"levels of {against}" if coded else ""

    def read(self, table: GivenTable, needed: bool) -> Observed:
        """Observations as numbers. needed: whether there must be outcomes."""
        return Observed(
            self._outcomes(table, needed),
            self.design.matrix(table),
            self.common.matrix(table, "common") if self.common.codings else None,
            self._levels_of_groups(table),
            self._size(table),
        )

    def _size(self, table: GivenTable) -> Array | None:
        """What each row stands for."""
        name = self.exposure or self.trials
        if not name:
            return None
        asked = table.option("exposure" if self.exposure else "trials")
        table.require(name, asked)
        return table.numbers(name, f"{asked}")

    def behavior(self, user: Sequence[str], observed: Observed, users: Sequence[str]) -> Behavior:
        """The observations as a behavior of users with these ids; user: whose each is."""
        outcome: Any = observed.outcome
        options: dict[str, Any] = {
            "common": observed.common,
            "groups": observed.groups,
            "users": users,
            "intercept": self.intercept,
        }
        if self.levels:
            options["levels"] = list(self.levels)
        if self.family:
            options["family"] = self.family
        if outcome is not None and outcome.ndim == 2:
            outcome = Censored(*outcome.T)
        elif self.kind == "regression":
            options["outcome_kind"] = self.outcome_kind
        if observed.size is not None:
            options[SIZES[self.kind]] = observed.size
        made = KINDS[self.kind](user, observed.design, outcome, **options)
        levels = getattr(made, "levels", None)
        told = self if levels is None else replace(self, levels=_levels_of(levels))
        made.table = told.to_json()
        return made  # type: ignore[no-any-return]

    def _levels_of_groups(self, table: GivenTable) -> dict[str, list[str]] | None:
        asked = table.option("groups")
        for name in self.groups:
            cells = table.require(name, asked)
            holds = Table(table.frame, True, None).source(name).holds
            if has_fractions(cells) or holds == "lists or records":
                held = "fractions" if has_fractions(cells) else holds
                raise InputError(
                    f"{table.path}: column {name!r} of {asked} must hold levels, names or whole "
                    f"numbers; it holds {held}."
                )
        texts = {name: table.frame[name].map(level_text) for name in self.groups}
        levels = GivenTable(pd.DataFrame(texts), table.path)
        return {name: levels.ids(name, asked) for name in self.groups} or None

    def _outcomes(self, table: GivenTable, needed: bool) -> NDArray[Any] | None:
        if not self.outcome or not (needed or self._has_outcomes(table)):
            return None
        if len(self.outcome) == 2:
            return np.column_stack(list(self._ends(table)))
        column, filled = next(iter(self.outcome)), self.kind != "rankings"
        advice = "" if needed else TO_PREDICT
        cells = table.require(column, table.option("outcome"), filled=filled, advice=advice)
        if not filled:
            return table.numbers_or_nothing(column, "places 1, 2, 3, ...")
        if self.kind in ("ordinal", "categorical") and cells.dtype.kind not in "biuf":
            return self._named_levels(table, column)
        values = table.numbers(column, "the outcome")
        if self.event:
            return np.column_stack([values, self._upper_ends(table, values)])
        odd = values[(values != 0) & (values != 1)]
        if self.kind == "binary" and not self.trials and len(odd):
            asked = "--kind binary" if table.is_file else 'family="binary"'
            raise InputError(
                f"{table.path}: the outcome {column!r} must hold 0 and 1, or True and False, for "
                f"{asked}; got {odd[0]:g}."
            )
        return values

    def _has_outcomes(self, table: GivenTable) -> bool:
        """Whether a table has the columns of outcomes, and anything in them."""
        there = {*self.outcome, *filter(None, [self.event])} <= set(table.frame.columns)
        return there and not all(table.is_blank(name) for name in self.outcome)

    def _named_levels(self, table: GivenTable, column: str) -> NDArray[Any]:
        names = [level_text(value) for value in table.frame[column]]
        if not self.levels and self.kind == "ordinal":
            found = listed(sorted(set(names)))
            raise InputError(
                f"{table.path}: the order of the levels in {column!r} ({found}) is not known: give "
                f"{table.option('levels')}, lowest first."
            )
        return np.array(names)

    def _upper_ends(self, table: GivenTable, times: Array) -> Array:
        """Times (n,) where they were seen, infinity where they are right-censored."""
        table.require(self.event, table.option("event"))
        seen = table.numbers(self.event, "whether times were seen")
        odd = seen[(seen != 0) & (seen != 1)]
        if len(odd):
            raise InputError(
                f"{table.path}: column {self.event!r} must hold 1 where the time was seen and 0 "
                f"where it is right-censored; got {odd[0]:g}."
            )
        return np.where(seen == 1, times, np.inf)

    def _ends(self, table: GivenTable) -> Iterator[Array]:
        """Lower, then upper ends (n,); infinite where a cell is empty."""
        asked = table.option("bounds" if table.is_file else "outcome")
        for column, nothing in zip(self.outcome, (-np.inf, np.inf), strict=True):
            table.require(column, asked, filled=False)
            values = table.numbers_or_nothing(column, "numbers")
            yield np.where(np.isnan(values), nothing, values)


def check_used_once(
    names: Mapping[str, Sequence[str]], alone: Sequence[str], said: Mapping[str, str]
) -> None:
    """Raise where the column of users or of outcomes is used for something else too, or one has
    coefficients of users and a common one.

    names: columns by what they are. alone: those of ``by`` that are a term by themselves. said:
    what messages call a part, where not by its name.
    """
    words = {part: said.get(part, part) for part in names}
    for part in ("user", "outcome"):
        for other, columns in names.items():
            both = [name for name in names[part] if name in columns and other != part]
            if both:
                raise InputError(
                    f"{words[part]} is the column {both[0]!r}, and {words[other]} has it too. Use "
                    "it once."
                )
    both = [name for name in names["common"] if name in alone]
    if both:
        raise InputError(
            f"{words['by']} and {words['common']} both have {both[0]!r}. In {words['by']} each "
            "user has a coefficient, around that of its cluster: leave it out of "
            f"{words['common']}."
        )


def has_fractions(values: pd.Series) -> bool:
    """Whether a column holds numbers that are not whole, which are no names of anything."""
    if values.dtype.kind != "f":
        return False
    known = values.dropna().to_numpy(dtype=float)
    return not (np.isfinite(known).all() and are_whole(known))


def _levels_of(levels: Levels) -> tuple[Any, ...]:
    """Levels as behaviors take them: numbers, or names."""
    values, names = levels.values.tolist(), levels.names
    are_numbers = [f"{value:g}" for value in values] == list(names)
    return tuple(values) if are_numbers else names


def as_read_by(fitted: Behavior | None) -> LongTable | None:
    """How the long table of a fit was read; None where there was none."""
    told = None if fitted is None else fitted.table
    return None if told is None else LongTable.from_json(told)
