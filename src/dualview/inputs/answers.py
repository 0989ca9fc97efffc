"""Answers of single users from a file: a row each, with the user, the outcome and what it depends
on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from dualview.behaviors.base import Behavior
from dualview.behaviors.binary import PairwiseChoices
from dualview.behaviors.rankings import Rankings
from dualview.errors import InputError
from dualview.inputs.designs import ColumnDesign
from dualview.inputs.long_tables import KINDS, LongTable, Observed, check_used_once
from dualview.inputs.tables import (
    GivenTable,
    known_rows,
    match_users,
    refuse_repeated,
)
from dualview.settings import FAMILIES_OF, AnswerSettings, Columns, separated

OBSERVATIONS = {
    "threads": "threads",
    "regression": "observations",
    "binary": "answers",
    "ordinal": "ratings",
    "categorical": "answers",
    "survival": "times",
    "counts": "counts",
    "choices": "choices",
    "rankings": "ranked items",
}

_OWN = ("outcome", "by", "common", "groups", "no_intercept")
_OPTIONS = {
    "threads": ("outcome", "outcomes", "covariates", "intercept", "noise_variance"),
    "regression": (*_OWN, "outcome_kind", "bounds"),
    "binary": (*_OWN, "trials"),
    "counts": (*_OWN, "family", "exposure"),
    "ordinal": (*_OWN, "levels"),
    "categorical": (*_OWN, "levels"),
    "survival": (*_OWN, "event", "family", "bounds"),
    "choices": ("by", "common", "groups", "items", "item_intercept"),
    "rankings": ("outcome", "by", "common", "groups"),
}
USUAL_OUTCOMES = {"rankings": "place", "survival": "time"}  # columns, where not that of outcomes
OPTIONS = tuple(dict.fromkeys(name for names in _OPTIONS.values() for name in names))
_FAMILIES = {
    kind: [name.replace(" ", "-") for name in names] for kind, names in FAMILIES_OF.items()
}
_ADVICE = {
    "outcomes": " The outcome is a column of the answers: name it with --outcome.",
    "covariates": " Name the columns with --by or --common.",
    "family": " There are "
    + " and ".join(f"{', '.join(names)} for --kind {kind}" for kind, names in _FAMILIES.items())
    + ".",
    "intercept": " Users have an intercept each, unless --no-intercept is given.",
}


def check_options(kind: str, given: Mapping[str, Any]) -> None:
    """Raise where options were given that are for another kind of observations, or with a value
    that is."""
    wrong = [name for name in given if name not in _OPTIONS[kind]]
    if not wrong:
        family = given.get("family")
        if family is not None and family not in _FAMILIES[kind]:
            raise InputError(f"--family {family} is not for --kind {kind}.{_ADVICE['family']}")
        return
    advice = _ADVICE.get(wrong[0], "") if kind in KINDS else ""
    if kind == "threads":
        kinds = [kind for kind in OBSERVATIONS if kind != "threads"]
        advice = f" Name what was observed: --kind {', '.join(kinds[:-1])} or {kinds[-1]}."
    raise InputError(f"--{wrong[0].replace('_', '-')} is not for --kind {kind}.{advice}")


@dataclass(frozen=True)
class Answers:
    """Answers of known users: ids are the lines of the file; ``notes`` say what was left out on the
    way.

    user: whose answers they are. long: how the table was read; observed: what it says. choices: the
    items of each, where they are choices. rankings: the ranking of each, where they are ranked
    items.
    """

    ids: list[str]
    user: list[str]
    long: LongTable
    observed: Observed
    settings: AnswerSettings
    choices: pd.DataFrame | None = None
    rankings: list[str] | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> NDArray[Any] | None:
        """The outcomes (n,), or ends (n, 2) where they are known to an interval."""
        return self.observed.outcome

    def behavior(self, users: Sequence[str]) -> Behavior:
        """The answers as a behavior of users with these ids."""
        asked, observed = self.settings, self.observed
        shared: dict[str, Any] = {
            "common": observed.common,
            "groups": observed.groups,
            "users": users,
        }
        if self.choices is None and self.rankings is None:
            made: Any = self.long.behavior(self.user, observed, users)
        elif self.choices is not None:
            made = PairwiseChoices(
                self.user,
                self.choices[asked.winner].tolist(),
                self.choices[asked.loser].tolist(),
                observed.design,
                item_intercept=self._appeals,
                **shared,
            )
        else:
            made = Rankings(self.user, self.rankings, observed.design, self.outcome, **shared)
        made.table = made.table or self.long.to_json()
        made.observation_ids = list(self.ids)
        return made  # type: ignore[no-any-return]

    @property
    def _appeals(self) -> bool | str:
        """Whether items have appeals of their own; how much these differ is learned where other
        effects are."""
        others = self.observed.common is not None or self.observed.groups is not None
        asked = self.settings.item_intercept
        return "learned" if asked and others else asked


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
    drop_unknown: bool,
    need_outcome: bool,
    as_read: LongTable | None,
) -> Answers:
    """Answers of known users; ids decide who is who. as_read: how those of the fit were read."""
    id_columns = [columns.user, *separated(settings.groups)]
    id_columns += {
        "choices": [settings.winner, settings.loser],
        "rankings": [settings.ranking],
    }.get(settings.kind, [])
    table, notes = _known_users(
        GivenTable.read(path, id_columns), users, columns.user, drop_unknown
    )
    if not len(table):
        raise InputError(
            f"{path} has no {OBSERVATIONS[settings.kind]} of known users. Give it a row for each."
        )
    owner = table.ids(columns.user, "--user-column")
    silent = len(set(users)) - len(set(owner))
    if silent and as_read is None:
        notes.append(
            f"{silent} of {len(users)} users have no {OBSERVATIONS[settings.kind]}; they are kept "
            "and known by their features only"
        )
    ids = [str(row + 2) for row in table.frame.index]
    long = _long_table(table, columns, settings) if as_read is None else as_read
    if long.references and as_read is None:
        notes.append(long.references)
    observed, choices, rankings = long.read(table, need_outcome), None, None
    if settings.kind == "choices":
        observed = observed._replace(design=_items(settings))
        asked = {settings.winner: "--winner", settings.loser: "--loser"}
        choices = pd.DataFrame({name: table.ids(name, option) for name, option in asked.items()})
    if settings.kind == "rankings":
        rankings = table.ids(settings.ranking, "--ranking")
    return Answers(ids, owner, long, observed, settings, choices, rankings, notes)


def _long_table(table: GivenTable, columns: Columns, settings: AnswerSettings) -> LongTable:
    """What the columns are, as the options say. Features of items are in a table of their own."""
    kind = settings.kind
    by = () if kind == "choices" else settings.columns
    if not by and (kind == "rankings" or (settings.no_intercept and kind != "choices")):
        advice = "" if kind == "rankings" else ", or leave --no-intercept out"
        raise InputError(f"Outcomes must depend on something: name columns with --by{advice}.")
    outcome = _outcome_columns(columns, settings)
    common, groups = separated(settings.common), separated(settings.groups)
    outcomes = outcome if settings.event is None else (*outcome, settings.event)
    used = {"user": (columns.user,), "outcome": outcomes, "by": by, "common": common}
    sizes = {"exposure": settings.exposure, "trials": settings.trials}
    used |= {part: (name,) for part, name in sizes.items() if name}
    said = {"user": "--user-column", **{name: f"--{name}" for name in (*used, "groups")[1:]}}
    check_used_once({**used, "groups": groups}, by, said)
    return LongTable(
        columns.user,
        kind,
        outcome,
        ColumnDesign.of(table, by, intercept=not settings.no_intercept),
        ColumnDesign.of(table, common, "common"),
        groups,
        settings.outcome_kind,
        not settings.no_intercept,
        tuple(_levels(separated(settings.levels))),
        event=settings.event or "",
        family=settings.family_name,
        exposure=settings.exposure or "",
        trials=settings.trials or "",
    )


def _outcome_columns(columns: Columns, settings: AnswerSettings) -> tuple[str, ...]:
    """The column of outcomes, or two with the ends of intervals; none where outcomes are no
    column."""
    if settings.kind == "choices":
        return ()
    bounds = separated(settings.bounds)
    if not bounds:
        return (settings.outcome or USUAL_OUTCOMES.get(settings.kind, columns.outcome),)
    if len(bounds) != 2:
        raise InputError(
            f"--bounds takes two columns, as in --bounds low,high; got {', '.join(bounds)}."
        )
    others = {
        "--outcome": settings.outcome is not None,
        "--event": settings.event is not None,
        "--outcome-kind": settings.outcome_kind != "continuous",
    }
    if any(others.values()):
        other = next(name for name, given in others.items() if given)
        raise InputError(
            f"--bounds says what is known of the outcomes; {other} does so too. Leave one out."
        )
    return bounds


def _known_users(
    table: GivenTable, users: Sequence[str], column: str, drop_unknown: bool
) -> tuple[GivenTable, list[str]]:
    notes: list[str] = []
    everybody = set(users)
    written = pd.Series(table.ids(column, "--user-column"), index=table.frame.index)
    ids = match_users(written, everybody, notes)
    if notes:
        table = replace(table, frame=table.frame.assign(**{column: ids}))
    return table.take(known_rows(ids, everybody, table.path, drop_unknown, notes)), notes


def _items(settings: AnswerSettings) -> pd.DataFrame:
    if settings.items is None:
        raise InputError(
            "--kind choices needs a table of items: --items items.csv, a row per item with an id "
            "and features."
        )
    path = Path(settings.items)
    table = GivenTable.read(path, [settings.item])
    ids = table.ids(settings.item, "--item")
    refuse_repeated(ids, path, "items")
    others = (str(name) for name in table.frame.columns if name != settings.item)
    names = settings.columns or tuple(others)
    if not names:
        raise InputError(f"{path} must have a column of features besides {settings.item!r}.")
    for name in names:
        table.require(name, "--by")
    features = {name: table.numbers(name) for name in names}
    return pd.DataFrame(features, index=pd.Index(ids, name=settings.item, dtype=object))
