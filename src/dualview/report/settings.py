"""The section that says how to repeat a run. Files are named without their folders: a report is sent to others."""

import json
import shlex
from pathlib import Path
from typing import Any

from dualview._version import __version__
from dualview.errors import FileError
from dualview.report.extras import read_json
from dualview.runs.run import Request
from dualview.settings import AnswerSettings, column_option_name, command_words, defaults, option_words


def settings_section(folder: Path, forum: dict[str, Any]) -> dict[str, Any]:
    """The command, the settings, digests of the data and the versions the run was made with."""
    manifest = read_json(folder / "manifest.json") or {}
    made_with = manifest.get("made_with", {})
    digests = {name: value for name, value in made_with.items() if _is_digest(value)}
    plain = {name: value for name, value in made_with.items() if name not in digests}
    return {
        "command": _command(folder, forum),
        "tables": [
            ("Columns of the file", _rows({name: value for name, value in forum.get("columns", {}).items() if value})),
            ("How the posts were prepared", _rows(forum.get("options", {}))),
            ("Counts", _rows(forum.get("facts", {}))),
            ("Settings of the sampler", _rows(plain)),
            ("Versions", _rows(manifest.get("versions", {}))),
            ("Digests of the data (SHA-256, shortened)", [(n, v.removeprefix("sha256:")[:16]) for n, v in digests.items()]),
        ],
        "reporter": __version__,
    }


def _command(folder: Path, forum: dict[str, Any]) -> str | None:
    if forum.get("command"):
        return " ".join(shlex.quote(_without_folder(word)) for word in shlex.split(str(forum["command"])))
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
    words += command_words(request, without=("users", "threads", "outcomes", "columns", "settings", "answers"))
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
