"""The section that says how to repeat a run. Files are named without their folders: a report is
sent to others."""

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from dualview._version import __version__
from dualview.columns import Column
from dualview.errors import FileError
from dualview.report.extras import read_json
from dualview.runs.request import Request
from dualview.settings import (
    AnswerSettings,
    column_option_name,
    command_words,
    defaults,
    option_words,
)
from dualview.words.numbers import share

_MOST_COLUMNS = 60  # of a table of users that have a row
_MOST_LEVELS = 6
_LEVEL = 24  # letters of a level


def settings_section(folder: Path, forum: dict[str, Any]) -> dict[str, Any]:
    """The command, the settings, digests of the data and the versions the run was made with."""
    manifest = read_json(folder / "manifest.json") or {}
    made_with = manifest.get("made_with", {})
    digests = {name: value for name, value in made_with.items() if _is_digest(value)}
    plain = {
        name: value
        for name, value in made_with.items()
        if name not in digests and name != "columns"
    }
    return {
        "command": _command(folder, forum),
        "tables": [
            (
                "Columns of the file",
                _rows({name: value for name, value in forum.get("columns", {}).items() if value}),
            ),
            ("How the posts were prepared", _rows(forum.get("options", {}))),
            ("Counts", _rows(forum.get("facts", {}))),
            ("Settings of the sampler", _rows(plain)),
            ("Versions", _rows(manifest.get("versions", {}))),
            (
                "Digests of the data (SHA-256, shortened)",
                [(n, v.removeprefix("sha256:")[:16]) for n, v in digests.items()],
            ),
        ],
        "columns": columns_table(made_with.get("columns") or [], folder),
        "reporter": __version__,
    }


def columns_table(columns: Any, folder: Path) -> dict[str, Any] | None:
    """What the columns of a table of users are, a row each: kind, units or levels, share of missing
    cells; None without any.

    Of very many columns the first, and how many there are of each kind among the others.
    """
    try:
        found = [Column.from_json(column) for column in columns]
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise FileError(
            f"{folder / 'manifest.json'} is damaged: its columns cannot be read ({error})."
        ) from error
    rows = [
        {
            "name": column.name,
            "kind": column.kind,
            "details": _details(column),
            "missing": share(column.missing),
        }
        for column in found[:_MOST_COLUMNS]
    ]
    kinds = Counter(column.kind for column in found[_MOST_COLUMNS:])
    more = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
    return (
        {"rows": rows, "more": f"{kinds.total():,} more columns: {more}" if more else None}
        if rows
        else None
    )


def _details(column: Column) -> str:
    """The unit, the scale, the levels or the sources of a column, in a few words."""
    if column.levels:
        shown = [
            level if len(level) <= _LEVEL else f"{level[: _LEVEL - 1]}…"
            for level in column.levels[:_MOST_LEVELS]
        ]
        more = f", … ({len(column.levels)} in all)" if len(column.levels) > _MOST_LEVELS else ""
        return (" < " if column.kind == "ordinal" else ", ").join(shown) + more
    if column.sources:
        return f"ends in {' and '.join(str(name) for name in column.sources if name is not None)}"
    if column.limits:
        shown = [f"{end:g}" for end in column.limits if end is not None]
        return f"censored at {' and '.join(shown)}"
    parts = [] if column.step is None else [f"steps of {column.step:g}"]
    return ", ".join([*parts, *(["on the scale of log(1 + x)"] if column.scale == "log1p" else [])])


def _command(folder: Path, forum: dict[str, Any]) -> str | None:
    if forum.get("command"):
        return " ".join(
            shlex.quote(_without_folder(word)) for word in shlex.split(str(forum["command"]))
        )
    return fit_command(Request.load(folder)) if (folder / "request.json").is_file() else None


def _without_folder(word: str) -> str:
    """An absolute path by its name alone, also behind --option=."""
    option, equals, value = word.rpartition("=")
    return f"{option}{equals}{Path(value).name}" if Path(value).is_absolute() else word


def _rows(values: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), _text(value)) for name, value in values.items()]


def fit_command(request: Request) -> str:
    """The command that makes the run again; options that were left alone are left out."""
    if request.users is None:
        raise FileError("request.json names no table of users.")
    words = ["dualview", "fit", Path(request.users).name]
    if request.threads is not None:
        words.append(Path(request.threads).name)
    words += ["--out", "run"]
    if request.outcomes is not None:
        words += option_words("outcomes", Path(request.outcomes).name)
    words += command_words(
        request, without=("users", "threads", "outcomes", "columns", "settings", "answers")
    )
    words += _answers_words(request.answers)
    words += command_words(request.settings, without=("seed", *request.settings.unused))
    for name, usual in defaults(request.columns).items():
        if (value := getattr(request.columns, name)) != usual:
            words += option_words(column_option_name(name), value)
    return shlex.join([*words, *option_words("seed", request.settings.seed)])


def _answers_words(answers: AnswerSettings) -> list[str]:
    items = [] if answers.items is None else option_words("items", Path(answers.items).name)
    return command_words(answers, without=("items",)) + items


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("sha256:")


def _text(value: Any) -> str:
    """A setting as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
