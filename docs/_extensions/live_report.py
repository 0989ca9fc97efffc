"""The report that the example of the gallery :file:`posts_to_report.py` has made, as a page of the
site.

Examples write what they write below ``docs/_build/examples``, where the report stays from build to
build as the made pages do. Like the examples it is left out with ``-D plot_gallery=0``.
"""

import shutil
import tempfile
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.typing import ExtensionMetadata

PLACE = "report/forum.html"


def folder_of_examples(app: Sphinx) -> Path:
    """Where examples have their temporary folders."""
    return Path(app.srcdir) / "_build" / "examples"


def give_folder(app: Sphinx) -> None:
    """Temporary folders from here on are those of examples."""
    folder_of_examples(app).mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(folder_of_examples(app))


def take_folder(_: Sphinx) -> None:
    """Temporary folders are again where the system has them."""
    tempfile.tempdir = None


def keep_newest_report(examples: Path) -> Path:
    """The report of the last run of the example; all else in the folder is removed."""
    reports = sorted(examples.glob("*/run/report.html"), key=lambda path: path.stat().st_mtime)
    if not reports:
        raise SphinxError(
            f"There is no report below {examples}. It is made by examples/gallery/"
            "posts_to_report.py: remove docs/gallery/posts_to_report.py.md5 and build again."
        )
    for other in set(examples.iterdir()) - {reports[-1].parents[1]}:
        shutil.rmtree(other) if other.is_dir() else other.unlink()
    return reports[-1]


def copy_report(app: Sphinx, error: Exception | None) -> None:
    """Copy the report into the site."""
    if (
        error is not None
        or app.builder.format != "html"
        or not app.config.sphinx_gallery_conf["plot_gallery"]
    ):
        return
    place = Path(app.outdir) / PLACE
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(keep_newest_report(folder_of_examples(app)), place)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("builder-inited", give_folder, priority=400)  # Sphinx-Gallery works at 500
    app.connect("builder-inited", take_folder, priority=600)
    app.connect("build-finished", copy_report)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
