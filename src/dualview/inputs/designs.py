"""What outcomes depend on, as numbers: columns of a table, or the terms of a formula such as
"bdi ~ 1 + month | subject".

A design remembers how the table of the fit was coded, in plain values, and codes others alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.checks import listed
from dualview.columns.table import Source, Table
from dualview.errors import InputError
from dualview.inputs.formulas import Terms, not_arithmetic
from dualview.inputs.tables import GivenTable, numeric

Array = NDArray[np.float64]

_LEVELLED = ("text", "categories", "mixed numbers and text")
_MOST_LEVELS = 50


@dataclass(frozen=True)
class Coding:
    """How a column becomes numbers: as it is or, with levels, as an indicator of each level but
    the first, the reference; is_whole: of that one too."""

    name: str
    levels: tuple[str, ...] = ()
    is_whole: bool = False

    @classmethod
    def of(cls, table: GivenTable, name: str, asked: str, forced: bool = False) -> Self:
        """From the cells; asked: the option that names the column. forced: numbers are levels
        too."""
        path, option = table.path, table.option(asked)
        table.require(name, option)
        source = source_of(table.frame, name)
        if source.holds == "dates or time spans":
            raise InputError(
                f"{path}: column {name!r} must hold numbers or levels; it holds dates or time "
                "spans. Make it numbers, such as days since the first."
            )
        if not _has_levels(source) and not (forced and source.is_listable):
            return cls(name)
        texts = source.texts()
        used = tuple(texts.levels[code] for code in np.unique(texts.codes))
        if len(used) < 2:
            raise InputError(
                f"{path}: column {name!r} has one level only, {used[0]}: it says nothing. Leave "
                f"it out of {option}."
            )
        if len(used) > _MOST_LEVELS:
            raise InputError(
                f"{path}: column {name!r} has {len(used)} levels ({listed(used)}), where "
                f"{option} takes at most {_MOST_LEVELS}. Write numbers, or use it as "
                f"{table.option('groups')}, where each level has an effect that is learned from "
                "all."
            )
        return cls(name, used)

    def cells(self, table: GivenTable, asked: str) -> Any:
        """The column as numbers, or as a categorical of its levels; an error for a level that the
        fit has not seen."""
        option = table.option(asked)
        table.require(self.name, option)
        if not self.levels:
            return table.numbers(self.name, f"{option} column")
        texts = source_of(table.frame, self.name).texts()
        held = np.asarray(texts.levels)[texts.codes]
        strange = ~np.isin(held, self.levels)
        if strange.any():
            new = sorted(set(held[strange].tolist()))
            raise InputError(
                f"{table.path}: column {self.name!r} has level(s) that the fit has not seen, "
                f"{listed(new)}, in {table.in_rows(table.frame.index[strange])}; it has seen "
                f"{', '.join(self.levels)}. Correct these rows or leave them out."
            )
        return pd.Categorical(held, list(self.levels))

    def columns(self, table: GivenTable, asked: str) -> dict[str, Array]:
        held = self.cells(table, asked)
        if not self.levels:
            return {self.name: held}
        return {f"{self.name}[{level}]": 1.0 * (held == level) for level in self.shown}

    @property
    def shown(self) -> tuple[str, ...]:
        """The levels that have an indicator."""
        return self.levels if self.is_whole else self.levels[1:]


def source_of(table: pd.DataFrame, name: str) -> Source:
    return Table(table, True, None).source(name)


def _has_levels(source: Source) -> bool:
    """Whether a column is of levels. Text of which only a part reads as numbers is taken for
    numbers with mistakes."""
    if source.holds not in _LEVELLED or source.holds == "categories":
        return source.holds == "categories"
    read = ~np.isnan(numeric(source.cells.astype(object)))
    return bool(not read.any() or (read.all() and source.holds == "text"))


@dataclass(frozen=True)
class ColumnDesign:
    """Columns that outcomes depend on, each with its coding."""

    codings: tuple[Coding, ...] = ()

    @classmethod
    def of(
        cls, table: GivenTable, names: Sequence[str], asked: str = "by", intercept: bool = True
    ) -> Self:
        """From the cells. Without an intercept the first column of levels has no reference, so
        that each level has an effect."""
        codings = [Coding.of(table, name, asked) for name in names]
        first = next((place for place, one in enumerate(codings) if one.levels), None)
        if not intercept and first is not None:
            codings[first] = replace(codings[first], is_whole=True)
        return cls(tuple(codings))

    def matrix(self, table: GivenTable, asked: str = "by") -> pd.DataFrame:
        """The columns as numbers, a row for each of the table's."""
        parts: dict[str, Array] = {}
        for coding in self.codings:
            parts |= coding.columns(table, asked)
        return pd.DataFrame(parts, index=range(len(table)))


@dataclass(frozen=True)
class FormulaDesign:
    """Terms of a formula, and the coding of each column in them."""

    terms: str
    codings: tuple[Coding, ...]

    @classmethod
    def of(cls, table: GivenTable, terms: str) -> Self:
        """From the cells of a table; columns inside C() are of levels."""
        read = Terms.of(terms)
        codings = tuple(
            Coding.of(table, name, "formula", name in read.levelled)
            for name in sorted(read.columns)
        )
        are_numbers = {coding.name for coding in codings if not coding.levels}
        for ratio in read.ratios:
            if ratio <= are_numbers:
                raise not_arithmetic(" / ".join(sorted(ratio, key=terms.find)))
        return cls(terms, codings)

    @property
    def has_intercept(self) -> bool:
        """Whether a user has a level of its own, as users have unless a term is 0."""
        return Terms.of(self.terms).has_intercept

    def matrix(self, table: GivenTable) -> pd.DataFrame:
        """The terms as numbers, a row for each of the table's, without the intercept."""
        read = Terms.of(self.terms)
        if {coding.name for coding in self.codings} != set(read.columns):
            raise InputError(
                f"The terms {self.terms!r} of the formula and the columns that they are said to "
                "have differ: the description of the fit is damaged."
            )
        if not self.codings:
            return pd.DataFrame(index=range(len(table)))
        matrix = read.matrix(
            {coding.name: coding.cells(table, "formula") for coding in self.codings}
        )
        wrong = ~np.isfinite(matrix.to_numpy())
        if wrong.any():
            names = matrix.columns[wrong.any(axis=0)].tolist()
            raise InputError(
                f"{table.path}: {listed(names)} of the formula must be finite; it is not in "
                f"{table.in_rows(table.frame.index[wrong.any(axis=1)])}."
            )
        return matrix


Design = ColumnDesign | FormulaDesign


def design_from(told: Mapping[str, Any]) -> Any:
    codings = tuple(
        Coding(one["name"], tuple(one["levels"]), one["is_whole"]) for one in told["codings"]
    )
    return FormulaDesign(told["terms"], codings) if "terms" in told else ColumnDesign(codings)
