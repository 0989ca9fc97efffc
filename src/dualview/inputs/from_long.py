"""A long table in memory as features and a behavior."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior
from dualview.behaviors.ids import checked_ids
from dualview.behaviors.ordinal import level_list
from dualview.checks import listed, refuse_repeated_columns
from dualview.columns.numbers import are_whole
from dualview.columns.table import to_pandas
from dualview.errors import DataWarning, InputError, InputTypeError
from dualview.inputs.designs import ColumnDesign, Design, FormulaDesign, source_of
from dualview.inputs.formulas import Terms
from dualview.inputs.long_tables import KINDS, LongTable, check_used_once, has_fractions
from dualview.inputs.tables import GivenTable, is_empty
from dualview.settings import FAMILIES_OF, AnswerSettings, check_choice, choices

MEMORY = "The table"  # what messages call one that is no file
_OF_COUNTS, _OF_TIMES = ((kind, *FAMILIES_OF[kind]) for kind in ("counts", "survival"))
# The words of --kind, --family and --outcome-kind
FAMILIES = (
    "auto",
    *dict.fromkeys((*KINDS, *_OF_COUNTS, *_OF_TIMES)),
    *choices(AnswerSettings)["outcome_kind"],
)
_WITH_LEVELS = ("ordinal", "categorical")
_OF_ENDS = ("auto", "regression", "continuous", *_OF_TIMES)


@dataclass(frozen=True)
class Wanted:
    """What is asked of a long table in memory, checked: names of its columns, and what the outcome
    is. terms: a formula's, in the place of ``by``."""

    user: str
    outcome: tuple[str, ...]
    by: tuple[str, ...] = ()
    terms: str | None = None
    common: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    family: str = "auto"
    levels: Sequence[Any] | None = None
    intercept: bool = True
    event: str = ""
    exposure: str = ""
    trials: str = ""

    def __post_init__(self) -> None:
        check_choice("family", self.family, FAMILIES)
        self._check_size("exposure", self.exposure, (*_OF_COUNTS, "auto"))
        self._check_size("trials", self.trials, ("binary", "auto"))
        if not self.outcome:
            raise InputTypeError(
                "outcome must name a column of the table, or two with the ends of intervals; got "
                "none."
            )
        if len(self.outcome) > 2 or (len(self.outcome) == 2 and self.family not in _OF_ENDS):
            raise InputError(
                "outcome must be a column, or two with the ends of intervals, of which the family "
                f'is "regression" or "survival"; got {listed(self.outcome)} and '
                f'family="{self.family}".'
            )
        if self.event and (self.family not in _OF_TIMES or len(self.outcome) == 2):
            raise InputError(
                'event= names the column that says which times were seen, with family="survival" '
                f"and one column of times; got outcome {listed(self.outcome)} and "
                f'family="{self.family}".'
            )
        outcomes = (*self.outcome, *filter(None, [self.event]))
        names: dict[str, Sequence[str]] = {"user": (self.user,), "outcome": outcomes}
        names |= {"by": self.by, "common": self.common, "groups": self.groups}
        names |= {"features": self.features}
        sizes = {"exposure": self.exposure, "trials": self.trials}
        names |= {part: (name,) for part, name in sizes.items() if name}
        if self.terms is None:
            check_used_once(names, self.by, {})
        else:
            terms = Terms.of(self.terms)
            alone = terms.alone if self.common else []
            check_used_once(names | {"by": terms.columns}, alone, {"by": "the formula"})

    def _check_size(self, part: str, name: str, families: tuple[str, ...]) -> None:
        if name and self.family not in families:
            listed_families = " or ".join(f'"{family}"' for family in families)
            raise InputError(
                f'{part}= is for family={listed_families}; got family="{self.family}".'
            )


def column_list(given: Any, what: str) -> tuple[str, ...]:
    """Names of columns: none, one or a list of them."""
    if given is None:
        return ()
    names = [given] if isinstance(given, str | int) else given
    if not isinstance(names, list | tuple | pd.Index) or not all(
        isinstance(name, str | int) for name in names
    ):
        raise InputTypeError(
            f'{what} must name columns of the table, as in {what}="month" or '
            f'{what}=["month", "dose"]; got a {type(given).__name__}.'
        )
    return tuple(dict.fromkeys(str(name) for name in names))


def column_name(given: Any, what: str) -> str:
    names = column_list(given, what)
    if len(names) != 1:
        raise InputTypeError(f"{what} must name one column of the table; got {given!r:.60}.")
    return names[0]


def from_long(
    table: Any,
    *,
    user: str,
    outcome: str | Sequence[str],
    by: str | Sequence[str] | None = None,
    common: str | Sequence[str] | None = None,
    groups: str | Sequence[str] | None = None,
    family: str = "auto",
    features: str | Sequence[str] | None = None,
    levels: Sequence[Any] | None = None,
    intercept: bool = True,
    event: str | None = None,
    exposure: str | None = None,
    trials: str | None = None,
) -> tuple[pd.DataFrame | None, Behavior]:
    """Features and a behavior from a long table, with a row for each observation and several rows
    for each user.

    Parameters
    ----------
    table : pandas, polars or Arrow table
        Rows without an outcome are left out with a DataWarning.
    user : str
        Column with the users' ids.
    outcome : str or two of them
        Column with the outcomes, or the two columns with the ends of intervals that hold them: an
        empty cell is an open end.
    by : str or list of str, optional
        Columns that outcomes depend on, with a coefficient for each user. Text and categories
        become an indicator of each level but the first: ``town[b]``.
    common : str or list of str, optional
        Columns with one coefficient for all users, coded in the same way.
    groups : str or list of str, optional
        Columns with levels that cut across users, such as items; each level has an effect.
    family : str
        "regression" or "continuous": numbers; "rounded": rounded numbers; "count": counts as
        rounded numbers; "counts", which is "negative binomial", or "poisson": counts by their
        rates; "binary": 0 and 1; "ordinal": ratings; "categorical": levels without an order;
        "survival", which is "weibull", "log-logistic" or "log-normal": times until something
        happens. "auto": binary for 0 and 1 or True and False, or with ``trials``, counts with
        ``exposure``, ordinal for an ordered categorical, categorical for one without an order, else
        regression. The behavior's repr says which it is.
    features : str or list of str, optional
        Columns of the users, the same in all rows of a user; empty cells are filled from the user's
        other rows.
    levels : list, optional
        For ordinal: all levels, lowest first. For categorical: all levels, those in the outcome by
        default.
    intercept : bool
        Whether each user has a level of its own. Without it the first text column of ``by`` has an
        indicator of every level.
    event : str, optional
        For survival: column with 1 or True where the time was seen, 0 where it is right-censored.
    exposure : str, optional
        For counts: column that says for how long, or how many, each row was counted.
    trials : str, optional
        For binary: column with the number of trials of each row, whose successes are the outcome.

    Returns
    -------
    X : DataFrame or None
        The features, a row for each user with the id as its index; None without features.
    behavior : UserRegression, BinaryOutcomes, OrdinalOutcomes, …
        With the same users. A model that is fitted to it predicts from long tables:
        ``model.predict_outcome(new_table)``.

    Examples
    --------
    >>> import pandas as pd
    >>> import dualview as dv
    >>> visits = pd.DataFrame({
    ...     "patient": ["ann", "ann", "bob", "bob"], "age": [31, 31, 45, 45],
    ...     "month": [0, 6, 0, 6], "ward": ["a", "b", "b", "a"], "bdi": [21.0, 14.5, 30.0, 29.0],
    ... })
    >>> X, behavior = dv.from_long(
    ...     visits, user="patient", outcome="bdi", by="month", common="ward", features="age"
    ... )
    >>> X["age"].to_dict()
    {'ann': 31, 'bob': 45}
    >>> behavior.users, behavior.names, behavior.effects.names
    (['ann', 'bob'], ['intercept', 'month'], ['ward[b]'])
    """
    wanted = Wanted(
        column_name(user, "user"),
        column_list(outcome, "outcome"),
        column_list(by, "by"),
        common=column_list(common, "common"),
        groups=column_list(groups, "groups"),
        features=column_list(features, "features"),
        family=family,
        levels=levels,
        intercept=intercept,
        event="" if event is None else column_name(event, "event"),
        exposure="" if exposure is None else column_name(exposure, "exposure"),
        trials="" if trials is None else column_name(trials, "trials"),
    )
    return read_long(table, wanted)


def read_long(table: Any, wanted: Wanted) -> tuple[pd.DataFrame | None, Behavior]:
    """Features of the users, None without any, and their behavior."""
    given = table_of(table)
    ids = users_of(given, wanted.user)
    X = features_of(given, ids, wanted.user, wanted.features) if wanted.features else None
    known = rows_with_outcome(given, wanted.outcome, ids, X is not None)
    given, owner = given.take(known), ids[known].tolist()
    long = _long_table(given, wanted)
    users = list(dict.fromkeys(ids if X is not None else owner))
    return X, long.behavior(owner, long.read(given, True), users)


def _long_table(table: GivenTable, wanted: Wanted) -> LongTable:
    """What the columns are, from the rows that have an outcome."""
    if wanted.terms is None:
        design: Design = ColumnDesign.of(table, wanted.by, intercept=wanted.intercept)
        intercept = wanted.intercept
    else:
        design = FormulaDesign.of(table, wanted.terms)
        intercept = design.has_intercept
    if not intercept and design.matrix(table).empty:
        raise InputError("Outcomes must depend on something: name columns, or keep the intercept.")
    found = _family(table, wanted)
    long = LongTable(
        wanted.user,
        found.kind,
        wanted.outcome,
        design,
        ColumnDesign.of(table, wanted.common, "common"),
        wanted.groups,
        found.outcome_kind,
        intercept,
        found.levels,
        wanted.features,
        event=wanted.event,
        exposure=wanted.exposure,
        trials=wanted.trials,
        family=found.family,
    )
    return replace(long, told="; ".join(filter(None, [found.told, long.references])))


class _Family(NamedTuple):
    kind: str
    outcome_kind: str = "continuous"
    levels: tuple[Any, ...] = ()
    told: str = ""
    family: str = ""


def _family(table: GivenTable, wanted: Wanted) -> _Family:
    """The family that was asked for, or the one that the outcomes show."""
    if len(wanted.outcome) == 2 and wanted.family not in _OF_TIMES:
        return _Family("regression", told=f"numbers between {' and '.join(wanted.outcome)}")
    name, family = wanted.outcome[0], wanted.family
    cells = table.frame[name]
    is_categorical = isinstance(cells.dtype, pd.CategoricalDtype)
    ordered = is_categorical and cells.cat.ordered
    if is_categorical and not ordered and family == "auto" and wanted.levels is None:
        family = "categorical"
    levels = () if wanted.levels is None else tuple(np.asarray(level_list(wanted.levels)).tolist())
    if not levels and ordered:
        levels = tuple(cells.cat.categories.tolist())
    if wanted.levels is not None and family not in ("auto", *_WITH_LEVELS):
        raise InputError(
            f'levels= is for family="ordinal" or "categorical"; got family="{family}".'
        )
    told = f"{name!r} as family={family!r}"
    if is_categorical and family == "categorical" and not levels:
        levels = tuple(cells.cat.categories.tolist())
    if family not in _WITH_LEVELS and not levels:
        _refuse_text(table, name)
    if family == "auto" and (wanted.exposure or wanted.trials):
        family = "counts" if wanted.exposure else "binary"
        what = "exposure" if wanted.exposure else "trials"
        told = f"{name!r} as family={family!r}: it has {what}"
    elif family == "auto":
        family, told = _detected(table, name, levels)
    kind = next((kind for kind, names in FAMILIES_OF.items() if family in names), family)
    if kind != family:
        return _Family(kind, told=told, family=family)
    if family in KINDS:
        return _Family(family, levels=levels if family in _WITH_LEVELS else (), told=told)
    return _Family("regression", family, (), told)


def _refuse_text(table: GivenTable, name: str) -> None:
    source = source_of(table.frame, name)
    if source.holds not in ("numbers", "flags", "nothing"):
        held = f" ({listed(source.texts().levels)})" if source.is_listable else ""
        raise InputError(
            f"{table.path}: the outcome {name!r} holds {source.holds}{held}. For ratings say their "
            'order: family="ordinal", levels=[...], lowest first. For levels without an order say '
            'family="categorical". For yes or no make it True and '
            f"False, as in df[{name!r}] == 'yes'. Numbers must be numbers in every row."
        )


def _detected(table: GivenTable, name: str, levels: Sequence[Any]) -> tuple[str, str]:
    """The family of outcomes by their values, and words on it; raises where these do not tell."""
    if levels:
        return "ordinal", f'{name!r} as ordered levels, family="ordinal"'
    values = table.numbers(name, "the outcome")
    distinct = np.unique(values)
    if set(distinct) <= {0.0, 1.0}:
        return "binary", f'{name!r} as yes or no, family="binary": it holds 0 and 1'
    if len(distinct) == 2:
        low, high = distinct
        raise InputError(
            f"{table.path}: the outcome {name!r} has two values, {low:g} and {high:g}. For yes or "
            f'no make it df[{name!r}] == {high:g}; for numbers say family="regression".'
        )
    told = f'{name!r} as numbers, family="regression"'
    if are_whole(values):
        told += '; whole numbers may be family="ordinal" (ratings), "counts" or "rounded"'
    return "regression", told


def is_table(given: Any) -> bool:
    """Whether this is a pandas, polars or Arrow table."""
    return isinstance(given, pd.DataFrame) or (
        hasattr(given, "to_pandas") and hasattr(given, "columns")
    )


def table_of(table: Any) -> GivenTable:
    """A table in memory with names as text and rows counted from 0."""
    if not is_table(table):
        hint = " Call collect() first." if hasattr(table, "collect") else ""
        raise InputTypeError(
            "A long table is a pandas, polars or Arrow table; got a "
            f"{type(table).__name__}.{hint or ' Make it one: pd.DataFrame(...).'}"
        )
    frame = table if isinstance(table, pd.DataFrame) else to_pandas(table)
    if not len(frame):
        raise InputError(f"{MEMORY} has no rows: give it one for each observation.")
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    names = [None if name is None else str(name) for name in frame.index.names]
    left = [place for place, name in enumerate(names) if name is None or name in frame.columns]
    frame = frame.set_axis(frame.index.set_names(names)).reset_index(level=left, drop=True)
    if len(left) < len(names):
        frame = frame.reset_index(allow_duplicates=True)
    refuse_repeated_columns(frame, MEMORY)
    return GivenTable(frame, MEMORY)


def users_of(table: GivenTable, column: str) -> NDArray[np.object_]:
    """The user of each row; an error where an id is missing."""
    cells = table.require(column, "user=", filled=False)
    missing = np.flatnonzero(is_empty(cells))
    if len(missing):
        raise InputError(
            f"{table.path}: column {column!r} must name a user in every row; {len(missing)} of "
            f"{len(table)} rows have none: {table.in_rows(missing)}. Fill them in or leave them "
            "out."
        )
    if has_fractions(cells):
        raise InputError(
            f"{table.path}: column {column!r} must hold ids, names or whole numbers; it holds "
            "fractions or infinity. Name the column of ids with user=."
        )
    table.ids(column, "user=")  # no NUL characters
    return np.array(checked_ids(cells.tolist(), "user"), dtype=object)


def features_of(
    table: GivenTable, ids: NDArray[np.object_], user: str, names: Sequence[str]
) -> pd.DataFrame:
    """Features, a row for each user in order of appearance; an error where they differ within a
    user."""
    codes = pd.factorize(ids)[0]
    first = np.unique(codes, return_index=True)[1]
    parts = {}
    for name in names:
        cells = table.require(name, "features=", filled=False)
        holds = source_of(table.frame, name).holds
        if holds in ("lists or records", "complex numbers"):
            raise InputError(
                f"{table.path}: column {name!r} must hold one value in each cell, a number or "
                f"text; it holds {holds}."
            )
        by_user = cells.mask(is_empty(cells)).groupby(codes)
        differ = np.flatnonzero(by_user.nunique().to_numpy() > 1)
        if len(differ):
            held = cells[codes == differ[0]].dropna().unique().tolist()
            raise InputError(
                f"{table.path}: the feature {name!r} must be the same in all rows of a user; user "
                f"{ids[first[differ[0]]]} has {held[0]} and {held[1]}, and so it is for "
                f"{len(differ)} user(s). What changes goes to by= or common=."
            )
        parts[name] = by_user.first().array
    index = pd.Index(table.frame[user].iloc[first].tolist(), name=user)
    return pd.DataFrame(parts, index=index)


def rows_with_outcome(
    table: GivenTable, outcome: Sequence[str], ids: NDArray[np.object_], kept: bool
) -> NDArray[np.bool_]:
    """Which rows have an outcome; warns of others, and of users without any. kept: whether these
    stay."""
    for column in outcome:
        table.require(column, "outcome=", filled=False)
    known: NDArray[np.bool_] = ~table.frame[list(outcome)].isna().all(axis=1).to_numpy()
    if known.all():
        return known
    if not known.any():
        raise InputError(f"{table.path}: {listed(outcome)} is empty in every row.")
    silent = sorted(set(ids) - set(ids[known]))
    fate = "kept, and known by their features only" if kept else "left out: they have no features"
    told = f" {len(silent)} user(s) have none at all ({listed(silent)}): they are {fate}."
    warnings.warn(
        f"{int((~known).sum())} of {len(known)} rows have no outcome ({listed(outcome)}) and are "
        f"left out.{told if silent else ''}",
        DataWarning,
        stacklevel=4,
    )
    return known
