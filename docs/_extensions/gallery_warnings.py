"""A page of the tutorial or the gallery that warns, or says that a fit has not converged, fails the
build.

Warnings that Python shows are errors while an example runs. Some programs keep the warning
of convergence to themselves and print it instead, so that the made pages are read as well; there
it is a warning of Sphinx, which ``make docs`` does not let pass.
"""

import re
import warnings
from contextlib import ExitStack
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata

logger = logging.getLogger(__name__)

_DOUBT = re.compile(r"\bnot (?:converged|found for certain|(?:all )?settled)\b|Warning: ", re.I)
_SHOWN = (UserWarning, FutureWarning, RuntimeWarning, SyntaxWarning)  # and those below them
_during_example = ExitStack()


def warnings_are_errors(_conf: dict[str, Any], _example: str, when: str) -> None:
    """Make warnings errors before an example, and bring back what was after it; for
    ``reset_modules`` of Sphinx-Gallery."""
    if when == "before":
        _during_example.enter_context(warnings.catch_warnings())
        for category in _SHOWN:
            warnings.simplefilter("error", category)
    else:
        _during_example.close()


def printed_doubts(page: str) -> list[str]:
    """Lines of an example's output, in a made page, by which a fit has not converged or something
    warns."""
    outputs = re.findall(r"^ \.\. code-block:: none\n\n((?: .*\n|\n)+)", page, re.M)
    lines = [line.strip() for output in outputs for line in output.splitlines()]
    return [line for line in lines if _DOUBT.search(line)]


def read_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Warn of a page that says so."""
    if name.startswith(tuple(app.config.sphinx_gallery_conf["gallery_dirs"])):
        for line in printed_doubts(source[0]):
            logger.warning("%s says: %s", name, line, location=name)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("source-read", read_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
