"""Formulas as MathML, which browsers show by themselves: the pages need neither MathJax nor a
network."""

import re

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

# What docutils does not know, in words that it knows.
_WORDS = (
    (r"\\dots\b", r"\\ldots"),
    (r"\\(big|Big|bigg|Bigg)(?=[(\[|/])", r"\\\1l"),
    (r"\\(big|Big|bigg|Bigg)(?=[)\]])", r"\\\1r"),
    (r"\\frac(\d)(\d)", r"\\frac{\1}{\2}"),
    (r"\\tag\{(.*?)\}", r"\\qquad \\text{(\1)}"),
)


def _mathml(node: nodes.Element, *, as_block: bool) -> str:
    text = node.astext()
    for environment in ("equation", "equation*"):
        text = text.removeprefix(f"\\begin{{{environment}}}").removesuffix(
            f"\\end{{{environment}}}"
        )
    for pattern, word in _WORDS:
        text = re.sub(pattern, word, text)
    try:
        return str(latex2mathml.tex2mathml(text.strip(), as_block=as_block))
    except MathError as error:
        raise SphinxError(f"{node.source}: {error}\n{text}") from error


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_math_block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.config.html_math_renderer = "mathml"  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
