"""The second half: a page from what was collected. Templates escape everything; the script gets its
data as JSON."""

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dualview.checks import require_extra
from dualview.files.writing import check_place, write_whole
from dualview.report.collect import collect_run
from dualview.runs.comparison import FILE, rank_runs
from dualview.runs.request import check_folder


def render_page(content: dict[str, Any]) -> str:
    """The page of what :func:`collect_run` gives: one HTML text that asks for nothing else."""
    jinja2 = _jinja()
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dualview.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    script, style = (_source(environment, name) for name in ("report.js", "report.css"))
    page = environment.get_template("report.html").render(
        **content,
        json_data=Markup(json_text(content["data"])),
        script=Markup(script),
        style=Markup(style),
        policy=f"default-src 'none'; img-src data:; script-src {_digest(script)}; style-src "
        f"{_digest(style)}; base-uri 'none'; "
        "form-action 'none'",
    )
    return str(page)


def write_report(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    against: Sequence[str | os.PathLike[str]] = (),
) -> Path:
    """Write the report on a finished run, report.html in its folder by default; returns where it
    is.

    Parameters
    ----------
    run : path
        Folder of a run that ``dualview fit`` or ``dualview forum`` finished.
    out : path, optional
        The file to write.
    against : paths, optional
        Folders of other runs on the same threads: the page says which predicts best. The result is
        saved as comparison.json in the run's folder.
    """
    _jinja()  # before the work rather than after it
    folder = Path(run)
    check_folder(folder)
    place = folder / "report.html" if out is None else Path(out)
    check_place(place)
    if against:
        rank_runs([folder, *map(Path, against)]).save(folder / FILE)
    write_whole(place, render_page(collect_run(folder)).encode())
    return place


def json_text(value: Any) -> str:
    """JSON that no HTML parser can take for the end of a script, or for a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _jinja() -> Any:
    return require_extra("jinja2", "Reports need", "report")


def _breakable(name: str) -> Any:
    """A long name that may break after an underscore."""
    from markupsafe import Markup, escape

    return escape(name).replace("_", Markup("_<wbr>"))


def _source(environment: Any, name: str) -> str:
    """A file of the templates' folder as it is."""
    return str(environment.loader.get_source(environment, name)[0])


def _digest(text: str) -> str:
    """The name by which the page's policy allows this one script or style, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
