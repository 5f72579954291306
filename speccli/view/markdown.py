"""Markdown that grows: finished blocks are rendered once, the unfinished one again and again."""

from __future__ import annotations

import io
import re
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.theme import Theme

CODE_INDENT = 2

_UNFINISHED_FENCE = re.compile(r"(^|\n) {0,3}(`{1,2}|~{1,2})$")


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "left")


class _CodeBlock(CodeBlock):
    """Without a background, so that what is copied holds no blanks."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = Syntax(
            str(self.text).rstrip(), self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True
        )
        yield Padding(code, (0, 0, 0, CODE_INDENT))


class _Table(TableElement):
    """Without the blank line above and below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                table.show_edge = False
            yield table


class _Answer(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "table_open": _Table,
    }

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = tokens


class Renderer:
    """Makes lines of Markdown, with the colours of a terminal or without."""

    def __init__(self, color_system: str | None) -> None:
        self._console = Console(
            theme=Theme({"markdown.code": "cyan", "markdown.code_block": "none"}),
            file=io.StringIO(), force_terminal=color_system is not None, color_system=color_system, highlight=False,  # type: ignore[arg-type]
            no_color=color_system is None, legacy_windows=False,
        )  # fmt: skip
        # HTML would be left out in silence; as text it is seen.
        self._parser = MarkdownIt().enable(["strikethrough", "table"]).disable(["html_block", "html_inline"])

    def last_block(self, source: str) -> int:
        """Where the last block of the source begins: all before it is finished."""
        starts = [token.map[0] for token in self._parser.parse(source) if token.level == 0 and token.map]
        if len(starts) < 2:
            return 0
        lines = source.split("\n")  # as the parser counts them: other characters that end lines are text
        return sum(len(line) + 1 for line in lines[: starts[-1]])

    def lines(self, source: str, columns: int) -> list[str]:
        """The source, rendered."""
        tokens = [_with_line_ends(token) for token in self._parser.parse(source)]
        with self._console.capture() as capture:
            self._console.print(_Answer(tokens), width=columns)
        text = capture.get().strip("\n")
        return [line.rstrip(" ") for line in text.split("\n")] if text else []


def _with_line_ends(token: Token) -> Token:
    """Models end lines on purpose, in verses and addresses; Markdown would join them."""
    for child in token.children or ():
        if child.type == "softbreak":
            child.type = "hardbreak"
    return token


def completed(source: str) -> str:
    """An unfinished block as it will probably go on: marks that are open are closed, half a fence is left out."""
    if _UNFINISHED_FENCE.search(source):
        return _UNFINISHED_FENCE.sub("", source)
    if re.match(r" {0,3}(```|~~~)", source):
        return source
    last = source.rpartition("\n\n")[2]
    text = source.rstrip()
    if last.count("`") % 2:
        return (text[:-1] if text.endswith("`") else f"{text}`") + source[len(text) :]
    outside = re.sub(r"`[^`]*`", "", last)
    if outside.count("**") % 2:
        return text[:-2] if text.endswith("**") else f"{text.rstrip('*')}**" + source[len(text) :]
    return source


class MarkdownFlow:
    """An answer on its way: `take` gives the lines that are final since the last call, and those that may change."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._source = ""
        self._has_lines = False

    def add(self, text: str) -> None:
        self._source += text

    def take(self, columns: int, is_over: bool = False) -> tuple[list[str], list[str]]:
        end = len(self._source) if is_over else self._renderer.last_block(self._source)
        finished, self._source = self._source[:end], self._source[end:]
        final = self._spaced(self._renderer.lines(finished, columns))
        self._has_lines = self._has_lines or bool(final)
        return final, self._spaced(self._renderer.lines(completed(self._source), columns))

    def _spaced(self, lines: list[str]) -> list[str]:
        return ["", *lines] if self._has_lines and lines else lines
