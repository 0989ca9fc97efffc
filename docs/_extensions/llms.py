"""``llms.txt``: every page of the site with its first words, for language models
(https://llmstxt.org)."""

import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import ExtensionMetadata

_SHORT = 60  # letters
_ASIDE = nodes.Admonition | nodes.entry | nodes.list_item


def first_paragraph(page: nodes.document) -> str:
    """The first paragraph of a page's text as one line; nothing of a page without one."""
    paragraphs = page.findall(nodes.paragraph)
    found = next((one for one in paragraphs if not isinstance(one.parent, _ASIDE)), None)
    return "" if found is None else " ".join(found.astext().split())


def opening(text: str) -> str:
    """The first sentence of a text, and those after it while they are short together."""
    said, *others = re.split(r"(?<=[.?!]) (?=[A-Z`])", text)
    while others and len(said) < _SHORT:
        said = f"{said} {others.pop(0)}"
    return said


def below(env: BuildEnvironment, page: str) -> Iterator[str]:
    """A page and those in its tables of contents, in their order."""
    yield page
    for child in env.toctree_includes.get(page, []):
        yield from below(env, child)


def listing(app: Sphinx) -> str:
    """The whole file: pages without others below them first, then a section for each of the
    others."""
    env, root = app.env, app.config.root_doc
    tops = env.toctree_includes[root]
    single = [page for page in tops if not env.toctree_includes.get(page)]
    parts = [f"# {app.config.project}", f"> {first_paragraph(env.get_doctree(root))}"]
    parts.append("\n".join(_line(app, page) for page in single))
    for page in tops:
        if page not in single:
            lines = [_line(app, one) for one in below(env, page)]
            parts += [f"## {env.titles[page].astext()}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _line(app: Sphinx, page: str) -> str:
    said = opening(first_paragraph(app.env.get_doctree(page)))
    title = app.env.titles[page].astext()
    link = f"- [{title}]({app.builder.get_target_uri(page)})"
    return f"{link}: {said}" if said else link


def write_listing(app: Sphinx, error: Exception | None) -> None:
    """Write the file into the site."""
    if error is None and app.builder.format == "html":
        (Path(app.outdir) / "llms.txt").write_text(listing(app), encoding="utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("build-finished", write_listing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
