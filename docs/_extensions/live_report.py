"""The report of ``dualview forum --example`` as a page of the site: made by the program, kept from
build to build.

Like the examples of the gallery it is left out with ``-D plot_gallery=0``.
"""

import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata

logger = logging.getLogger(__name__)

PLACE = "report/forum.html"
COMMAND = ["forum", "--example", "--max-draws", "8000", "--quiet", "--out"]


def copy_report(app: Sphinx, error: Exception | None) -> None:
    """Run the example, or continue it where it stands, and copy its report into the site."""
    if (
        error is not None
        or app.builder.format != "html"
        or not app.config.sphinx_gallery_conf["plot_gallery"]
    ):
        return
    from dualview.cli import main

    run = Path(app.srcdir) / "_build" / "forum"
    if not (run / "report.html").exists():  # a run that was stopped continues
        logger.info("dualview %s (a few minutes)", " ".join(COMMAND))
        if main([*COMMAND, str(run)]) != 0:
            raise SphinxError("dualview forum --example has failed.")
    place = Path(app.outdir) / PLACE
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run / "report.html", place)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("build-finished", copy_report)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
