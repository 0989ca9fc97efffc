"""Small HTML tables, which notebooks show instead of an object's text."""

from collections.abc import Iterable, Sequence
from html import escape


def small_table(
    title: str, rows: Iterable[Sequence[object]], head: Sequence[str] = (), note: str = ""
) -> str:
    """A table with a title above and a note below; the first cell of a row is its name. All text is
    escaped.

    >>> small_table("Sizes", [("users", 3)])
    '<table><caption>Sizes</caption><tbody><tr><th>users</th><td>3</td></tr></tbody></table>'
    """
    headed = "".join(f"<th>{escape(name)}</th>" for name in head)
    thead = f"<thead><tr>{headed}</tr></thead>" if head else ""
    body = "".join(
        f"<tr><th>{escape(str(name))}</th>"
        + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rows
    )
    below = f"<p>{escape(note)}</p>" if note else ""
    return f"<table><caption>{escape(title)}</caption>{thead}<tbody>{body}</tbody></table>{below}"
