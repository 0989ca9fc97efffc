"""CSV files that people open in a spreadsheet, where a name such as ``=1+1`` must stay a name.

A spreadsheet takes a cell for a formula if it begins with =, +, -, @, a tab or the end of a line.
An apostrophe goes before such a name. It also goes before a name that begins with apostrophes and
then one of these characters, so that taking one apostrophe away always gives the name as it was.
Numbers are written as numbers.
"""

import csv
import re
from collections.abc import Container, Iterable
from typing import Any

import pandas as pd

# the last five: a minus sign, and the wide forms of Asian keyboards
_BEGIN = "=+\\-@\t\r\n\u2212\uff1d\uff0b\uff0d\uff20"
_FORMULA = re.compile(f"'*[{_BEGIN}]")
_ESCAPED = re.compile(f"'+[{_BEGIN}]")


def escape_name(name: str) -> str:
    """A name as a cell that no spreadsheet takes for a formula; :func:`unescape_name` gives the
    name back."""
    return f"'{name}" if _FORMULA.match(name) else name


def unescape_name(cell: str) -> str:
    """The name that :func:`escape_name` made a cell of."""
    return cell[1:] if _ESCAPED.match(cell) else cell


def csv_bytes(table: pd.DataFrame, **options: Any) -> bytes:
    """A table as CSV in UTF-8, its names and text escaped; options: those of
    ``DataFrame.to_csv``."""
    escaped = _mapped(table, escape_name)
    content: str = escaped.to_csv(index=False, **options)
    # Minimal quotes leave it open, and every reader takes it for the end of a line.
    if "\r" in content:
        content = escaped.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC, **options)
    return content.encode()


def unescape_table(table: pd.DataFrame) -> pd.DataFrame:
    """A table that was read from a file of :func:`csv_bytes`, with its names as they were."""
    return _mapped(table, unescape_name)


def match_names(names: Iterable[str], known: Container[str]) -> list[str]:
    """Names as known ones are written: one that is not known, with an apostrophe less or more if it
    is known then."""
    found = []
    for name in names:
        others = (name,) if name in known else (unescape_name(name), escape_name(name), name)
        found.append(next((other for other in others if other in known), name))
    return found


def _mapped(table: pd.DataFrame, change: Any) -> pd.DataFrame:
    """A table with a function of text applied to its text, that of the header too."""

    def changed(value: Any) -> Any:
        return change(value) if isinstance(value, str) else value

    columns = [
        pd.Series([changed(value) for value in column], index=column.index, dtype=object)
        if _may_have_text(column)
        else column
        for _, column in table.items()
    ]
    made = pd.concat(columns, axis=1) if columns else table.copy()
    return made.set_axis([changed(name) for name in table.columns], axis=1)


def _may_have_text(column: pd.Series) -> bool:
    return not (
        pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column)
    )
