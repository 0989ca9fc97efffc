"""Put generated text into a page: ``python -m benchmarks.paste PAGE NAME < text`` renews what
stands between the lines

<!-- NAME --> and <!-- end of NAME -->
"""

import sys
from pathlib import Path


def pasted(page: str, name: str, text: str) -> str:
    """The page with the text between its marks."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise SystemExit(f"The page must have the lines {begin.strip()} and {end} once each.")
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text.strip()}\n\n{end}{rest.split(end)[1]}"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(
        pasted(place.read_text(encoding="utf-8"), sys.argv[2], sys.stdin.read()), encoding="utf-8"
    )
