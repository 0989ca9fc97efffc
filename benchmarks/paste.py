"""Put generated text into a page: ``python -m benchmarks.paste PAGE NAME < text`` renews what
stands between the lines

<!-- NAME --> and <!-- end of NAME -->
"""

import sys
from collections.abc import Iterable
from pathlib import Path


def pasted(page: str, name: str, text: str) -> str:
    """The page with the text between its marks."""
    before, _, after = _cut(page, name)
    return f"{before}\n{text.strip()}\n\n{after}"


def standing(page: str, name: str) -> str:
    """The text between the marks of a page."""
    return _cut(page, name)[1]


def as_table(rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown; the first row is its head."""
    head, *others = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, f"|{'---|' * (head.count(' | ') + 1)}", *others])


def printed(name: str, table: str) -> None:
    """Print a table between its marks."""
    print(f"<!-- {name} -->\n\n{table}\n\n<!-- end of {name} -->\n", flush=True)


def _cut(page: str, name: str) -> tuple[str, str, str]:
    """A page up to the text between two marks, this text, and the rest."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise SystemExit(f"The page must have the lines {begin.strip()} and {end} once each.")
    before, rest = page.split(begin)
    text, after = rest.split(end)
    return before + begin, text, end + after


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(
        pasted(place.read_text(encoding="utf-8"), sys.argv[2], sys.stdin.read()), encoding="utf-8"
    )
