"""Answers of single users from a file: a row each, with the user, the outcome and what it depends
on."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.behaviors import (
    Behavior,
    BinaryOutcomes,
    OrdinalOutcomes,
    PairwiseChoices,
    Rankings,
    UserRegression,
)
from dualview.columns import Censored
from dualview.errors import InputError
from dualview.inputs.tables import (
    ids_of,
    known_rows,
    match_users,
    named,
    numbers_in,
    numeric,
    read_table,
    refuse_repeated,
    require_column,
)
from dualview.settings import AnswerSettings, Columns, separated

OBSERVATIONS = {
    "threads": "threads",
    "regression": "observations",
    "binary": "answers",
    "ordinal": "ratings",
    "choices": "choices",
    "rankings": "ranked items",
}

_OWN = ("outcome", "by", "common", "groups", "no_intercept")
_OPTIONS = {
    "threads": ("outcome", "outcomes", "covariates", "intercept", "noise_variance"),
    "regression": (*_OWN, "outcome_kind", "bounds"),
    "binary": _OWN,
    "ordinal": (*_OWN, "levels"),
    "choices": ("by", "common", "groups", "items", "item_intercept"),
    "rankings": ("outcome", "by", "common", "groups"),
}
_ADVICE = {
    "outcomes": " The outcome is a column of the answers: name it with --outcome.",
    "covariates": " Name the columns with --by or --common.",
    "intercept": " Users have an intercept each, unless --no-intercept is given.",
}


def check_options(kind: str, given: Sequence[str]) -> None:
    """Raise where options were given that are for another kind of observations."""
    wrong = [name for name in given if name not in _OPTIONS[kind]]
    if not wrong:
        return
    advice = (
        " Name what was observed: --kind regression, binary, ordinal, choices or rankings."
        if kind == "threads"
        else ""
    )
    if kind in ("regression", "binary", "ordinal"):
        advice = _ADVICE.get(wrong[0], "")
    raise InputError(f"--{wrong[0].replace('_', '-')} is not for --kind {kind}.{advice}")


@dataclass(frozen=True)
class Answers:
    """Answers of known users: ids are the lines of the file; ``notes`` say what was left out on the
    way.

    user: whose answers they are. design: the columns that they depend on, user by user. common,
    groups: those whose effects all users share. choices: the items of each, where they are choices.
    rankings: the ranking of each, where they are ranked items. outcome (n,), or ends (n, 2) where
    it is known to an interval.
    """

    ids: list[str]
    user: list[str]
    outcome: NDArray[Any] | None
    design: pd.DataFrame
    common: pd.DataFrame | None
    groups: dict[str, list[str]] | None
    settings: AnswerSettings
    choices: pd.DataFrame | None = None
    rankings: list[str] | None = None
    notes: list[str] = field(default_factory=list)

    def behavior(self, users: Sequence[str]) -> Behavior:
        """The answers as a behavior of users with these ids."""
        asked = self.settings
        shared: dict[str, Any] = {"common": self.common, "groups": self.groups, "users": users}
        made: Any
        if self.choices is not None:
            made = PairwiseChoices(
                self.user,
                self.choices[asked.winner].tolist(),
                self.choices[asked.loser].tolist(),
                self.design,
                item_intercept=self._appeals,
                **shared,
            )
        elif self.rankings is not None:
            made = Rankings(self.user, self.rankings, self.design, self.outcome, **shared)
        else:
            kind: Any = {
                "regression": UserRegression,
                "binary": BinaryOutcomes,
                "ordinal": OrdinalOutcomes,
            }[asked.kind]
            shared |= {"levels": _levels(separated(asked.levels))} if asked.levels else {}
            shared |= (
                {"outcome_kind": asked.outcome_kind} if asked.outcome_kind != "continuous" else {}
            )
            made = kind(
                self.user, self.design, self._recorded, intercept=not asked.no_intercept, **shared
            )
        made.observation_ids = list(self.ids)
        return made  # type: ignore[no-any-return]

    @property
    def _recorded(self) -> Any:
        """The outcomes, or the ends of intervals that hold them."""
        return (
            self.outcome
            if self.outcome is None or self.outcome.ndim == 1
            else Censored(*self.outcome.T)
        )

    @property
    def _appeals(self) -> bool | str:
        """Whether items have appeals of their own; how much these differ is learned where other
        effects are."""
        others = self.common is not None or self.groups is not None
        return (
            "learned" if self.settings.item_intercept and others else self.settings.item_intercept
        )


def _levels(names: Sequence[str]) -> list[Any]:
    """Levels as numbers where all are."""
    try:
        return [float(name) for name in names]
    except ValueError:
        return list(names)


def read_answers(
    path: Path,
    users: Sequence[str],
    columns: Columns,
    settings: AnswerSettings,
    *,
    drop_unknown: bool = False,
    need_outcome: bool = True,
) -> Answers:
    """Answers of known users; ids decide who is who."""
    id_columns = [columns.user, *separated(settings.groups)]
    id_columns += {
        "choices": [settings.winner, settings.loser],
        "rankings": [settings.ranking],
    }.get(settings.kind, [])
    table = read_table(path, id_columns)
    require_column(table, columns.user, path, "--user-column")
    table, notes = _known_users(table, path, users, columns.user, drop_unknown)
    if not len(table):
        raise InputError(
            f"{path} has no {OBSERVATIONS[settings.kind]} of known users. Give it a row for each."
        )
    owner = ids_of(table[columns.user], path)
    silent = len(set(users)) - len(set(owner))
    if silent and need_outcome:
        what = OBSERVATIONS[settings.kind]
        notes.append(
            f"{silent} of {len(users)} users have no {what}; they are kept and known by their "
            "features only"
        )
    ids = [str(row + 2) for row in table.index]
    if settings.kind == "choices":
        outcome, design, choices = None, _items(settings), _choices(table, path, settings)
    else:
        outcome = _outcome(table, path, settings, settings.outcome or columns.outcome, need_outcome)
        design, choices = _design(table, path, settings.columns, "--by"), None
        if design.empty and (settings.no_intercept or settings.kind == "rankings"):
            advice = "" if settings.kind == "rankings" else ", or leave --no-intercept out"
            raise InputError(f"Outcomes must depend on something: name columns with --by{advice}.")
    common = (
        _design(table, path, separated(settings.common), "--common") if settings.common else None
    )
    groups, rankings = _groups(table, path, settings), None
    if settings.kind == "rankings":
        require_column(table, settings.ranking, path, "--ranking")
        rankings = ids_of(table[settings.ranking], path)
    return Answers(ids, owner, outcome, design, common, groups, settings, choices, rankings, notes)


def _groups(
    table: pd.DataFrame, path: Path, settings: AnswerSettings
) -> dict[str, list[str]] | None:
    """The levels of each group as text."""
    for name in separated(settings.groups):
        require_column(table, name, path, "--groups")
    return {name: ids_of(table[name], path) for name in separated(settings.groups)} or None


def _known_users(
    table: pd.DataFrame, path: Path, users: Sequence[str], column: str, drop_unknown: bool
) -> tuple[pd.DataFrame, list[str]]:
    """The rows of known users."""
    notes: list[str] = []
    written = pd.Series(ids_of(table[column], path), index=table.index)
    ids = match_users(written, set(users), notes)
    if notes:
        table = table.assign(**{column: ids})
    return table[known_rows(ids, set(users), path, drop_unknown, notes)], notes


def _numbers_or_nothing(
    table: pd.DataFrame, column: str, path: Path, wanted: str
) -> NDArray[np.float64]:
    """A column as numbers, NaN where a cell is empty."""
    values = numeric(table[column])
    odd = [
        str(row + 2)
        for row, bad in zip(table.index, np.isnan(values) & table[column].notna(), strict=True)
        if bad
    ]
    if odd:
        raise InputError(
            f"{path}: {column!r} must hold {wanted} or nothing; it does not in line(s) "
            f"{named(odd)}."
        )
    return values


def _ends(
    table: pd.DataFrame, path: Path, settings: AnswerSettings, needed: bool
) -> NDArray[np.float64] | None:
    """Lower and upper ends (n, 2); infinite where a cell is empty."""
    columns = separated(settings.bounds)
    if len(columns) != 2:
        raise InputError(
            f"--bounds takes two columns, as in --bounds low,high; got {', '.join(columns)}."
        )
    if settings.outcome is not None or settings.outcome_kind != "continuous":
        other = "--outcome" if settings.outcome is not None else "--outcome-kind"
        raise InputError(
            f"--bounds says what is known of the outcomes; {other} does so too. Leave one out."
        )
    if not needed and not set(columns) <= set(table.columns):
        return None
    found = []
    for column, nothing in zip(columns, (-np.inf, np.inf), strict=True):
        require_column(table, column, path, "--bounds", filled=False)
        values = _numbers_or_nothing(table, column, path, "numbers")
        found.append(np.where(np.isnan(values), nothing, values))
    return np.column_stack(found)


def _outcome(
    table: pd.DataFrame, path: Path, settings: AnswerSettings, column: str, needed: bool
) -> NDArray[Any] | None:
    if settings.bounds:
        return _ends(table, path, settings, needed)
    if settings.kind == "rankings":
        column = settings.outcome or "place"
    if column not in table and not needed:
        return None
    require_column(table, column, path, "--outcome", filled=settings.kind != "rankings")
    if settings.kind == "ordinal" and table[column].dtype.kind not in "biuf":
        if not settings.levels:
            found = named(sorted(set(ids_of(table[column], path))))
            raise InputError(
                f"{path}: the order of the levels in {column!r} ({found}) is not known: give "
                "--levels, lowest first."
            )
        return np.array(ids_of(table[column], path))
    if settings.kind == "rankings":
        return _numbers_or_nothing(table, column, path, "places 1, 2, 3, ...")
    values = numbers_in(table, column, path, "the outcome")
    if settings.kind == "binary":
        odd = values[(values != 0) & (values != 1)]
        if len(odd):
            raise InputError(
                f"{path}: the outcome {column!r} must hold 0 and 1, or True and False, for "
                f"--kind binary; got {odd[0]:g}."
            )
    return values


def _design(table: pd.DataFrame, path: Path, names: Sequence[str], option: str) -> pd.DataFrame:
    """Columns as numbers."""
    parts = {}
    for column in names:
        require_column(table, column, path, option)
        parts[column] = numbers_in(table, column, path, f"{option}: column")
    return pd.DataFrame(parts, index=range(len(table)))


def _items(settings: AnswerSettings) -> pd.DataFrame:
    """Features of the items by id."""
    if settings.items is None:
        raise InputError(
            "--kind choices needs a table of items: --items items.csv, a row per item with an id "
            "and features."
        )
    path = Path(settings.items)
    table = read_table(path, [settings.item])
    require_column(table, settings.item, path, "--item")
    ids = ids_of(table[settings.item], path)
    refuse_repeated(ids, path, "items")
    names = settings.columns or tuple(str(name) for name in table.columns if name != settings.item)
    if not names:
        raise InputError(f"{path} must have a column of features besides {settings.item!r}.")
    for name in names:
        require_column(table, name, path, "--by")
    features = {name: numbers_in(table, name, path) for name in names}
    return pd.DataFrame(features, index=pd.Index(ids, name=settings.item, dtype=object))


def _choices(table: pd.DataFrame, path: Path, settings: AnswerSettings) -> pd.DataFrame:
    for column, option in ((settings.winner, "--winner"), (settings.loser, "--loser")):
        require_column(table, column, path, option)
    return pd.DataFrame(
        {name: ids_of(table[name], path) for name in (settings.winner, settings.loser)}
    )
