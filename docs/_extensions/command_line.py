"""The page of the command line, made from the program itself."""

import re
import sys
from pathlib import Path
from unittest.mock import patch

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

HEAD = """\
# Command line

`pip install 'dualview[cli]'` adds the program `dualview`. This page is the output of `dualview
COMMAND --help-all`, made from the program itself. [Runs and the command line](../runs.md) shows the
commands at work.

Exit codes: 0 for success; 2 for an error, with one line on standard error; 130 after Ctrl-C.

"""


def page() -> str:
    """The help of every command, as Markdown."""
    from dualview.cli import LINE
    from dualview.cli.program import program

    with patch.object(
        sys, "argv", ["dualview"]
    ):  # else cyclopts shows how Sphinx was started: python -m sphinx
        text = program(LINE, help_all=True).generate_docs("markdown", heading_level=1)
    commands = text[text.index("## dualview demo") :]
    return HEAD + re.sub(r"^Example: (.*)$", r"```console\n\1\n```", commands, flags=re.M)


def write_page(app: Sphinx) -> None:
    """Write the page where it has changed."""
    place, text = Path(app.srcdir) / "reference" / "command-line.md", page()
    if not place.exists() or place.read_text(encoding="utf-8") != text:
        place.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("builder-inited", write_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
