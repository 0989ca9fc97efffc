"""How help looks: a page for the options that most people need, and no line that holds one word.

It needs cyclopts, so that ``cli.program`` imports it when it makes the program.
"""

from collections.abc import Sequence
from typing import Any

from cyclopts.help import DefaultFormatter, DescriptionRenderer
from cyclopts.help.specs import get_default_command_columns, get_default_parameter_columns
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

_MOST_NARROWER = 24  # columns that a text may lose so that its last line has two words
_COLUMNS = {"command": get_default_command_columns, "parameter": get_default_parameter_columns}
_describe = DescriptionRenderer()


class Balanced:
    """A text in which no paragraph ends with a line of one word: where one does, all of it is
    wrapped a little narrower."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widest = options.max_width
        tried = (
            console.render_lines(self._content, options.update(width=width), pad=False)
            for width in range(widest, max(widest - _MOST_NARROWER, widest // 2), -1)
        )
        first = next(tried)
        lines = first if _is_balanced(first) else next(filter(_is_balanced, tried), first)
        for line in lines:
            yield from line
            yield Segment.line()


def _is_balanced(lines: Sequence[Sequence[Segment]]) -> bool:
    words = ["".join(segment.text for segment in line).split() for line in lines]
    follows = [*words[1:], []]
    return not any(
        before and len(line) == 1 and not after
        for before, line, after in zip([[], *words], words, follows, strict=False)
    )


class Page(DefaultFormatter):
    """The help of a command, without the options that are hidden."""

    def __init__(self, hidden: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self._hidden = hidden

    def __call__(self, console: Console, options: ConsoleOptions, panel: Any) -> None:
        panel.entries = [entry for entry in panel.entries if not self._hidden & {*entry.names}]
        *others, text = _COLUMNS[panel.format](console, options, panel.entries)
        self.column_specs = (*others, text.copy(renderer=lambda own: Balanced(_describe(own))))
        super().__call__(console, options, panel)

    def render_description(
        self, console: Console, options: ConsoleOptions, description: Any
    ) -> None:
        super().render_description(console, options, description and Balanced(description))
