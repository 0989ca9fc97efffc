"""The codebook as a TOML file to edit, with one table per column, and back to a dictionary for
``columns=``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dualview.columns.codebook import choices
from dualview.columns.column import Censored, Column
from dualview.columns.kinds import IGNORE, Wish, kind_words
from dualview.columns.table import Table
from dualview.errors import InputError
from dualview.files.reading import read_toml

_HEAD = """\
# The codebook: what each column of the table is. Change a kind where it is wrong.
# Kinds: {kinds}.
# Levels of ordinal columns stand in order, lowest first; the fit knows those that are added here.
# Two columns with lower and upper ends: kind = "censored", low = "NAME", high = "NAME".
"""


def codebook_text(X: Any, columns: Mapping[str, Any] | None = None) -> str:
    """The codebook of a table as TOML; columns that a fit would refuse are ignored there, with the
    reason."""
    parts = [_HEAD.format(kinds=", ".join(kind_words()))]
    for name, column in choices(Table.of(X), columns).items():
        if isinstance(column, InputError):
            parts.append(_section(Column(name, IGNORE, str(column))))
        else:
            parts.append(_section(column))
    return "\n".join(parts)


def read_columns_file(path: str | Path) -> dict[str, Any]:
    """What ``columns=`` takes, from a codebook of ``dualview columns``, edited or not."""
    record = read_toml(Path(path))
    try:
        return {name: _given(name, entry) for name, entry in record.items()}
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _given(name: str, entry: Any) -> Any:
    if isinstance(entry, Mapping) and entry.get("kind") == "censored" and set(entry) > {"kind"}:
        strange = set(entry) - {"kind", "low", "high"}
        if strange:
            raise InputError(
                f"columns[{name!r}]: a censored column takes no {sorted(strange)[0]!r}, only low "
                "and high."
            )
        return Censored(entry.get("low"), entry.get("high"))
    Wish.of(name, entry)
    return entry


def _section(column: Column) -> str:
    missing = f"; {100.0 * column.missing:.1f} % missing" if column.missing else ""
    lines = [
        f"[{_text(column.name)}]",
        f"# {_comment(column.why + missing + (f'; {column.doubt}' if column.doubt else ''))}",
        f"kind = {_text(column.kind)}",
    ]
    if column.levels:
        lines.append(f"levels = [{', '.join(_text(level) for level in column.levels)}]")
    if column.step is not None:
        lines.append(f"step = {column.step!r}")
    if column.kind == "count":
        lines.append(f"scale = {_text(column.scale)}")
    if column.limits:
        low, high = column.limits
        shown = "-inf" if low is None else repr(low), "inf" if high is None else repr(high)
        lines.append(f"limits = [{', '.join(shown)}]")
    if len(column.sources) == 2:
        ends = zip(("low", "high"), column.sources, strict=True)
        lines += [f"{end} = {_text(source)}" for end, source in ends if source is not None]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A TOML string: JSON's escapes are TOML's, which wants DEL escaped as well."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    """One line without control characters, which TOML forbids in comments."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
