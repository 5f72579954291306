"""Where people type: history, several lines, an editor, completion. Imported only for a conversation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, get_app, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.cursor_shapes import ModalCursorShapeConfig
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import (
    Condition,
    emacs_mode,
    has_completions,
    has_selection,
    is_searching,
    vi_navigation_mode,
)
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.styles import Style

from speccli.chat.commands import COMMANDS, is_open
from speccli.chat.names import begun, quoted
from speccli.chat.settings import HELP, NAMES, values_of
from speccli.profile import METHODS

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

STYLE = Style.from_dict(
    {"bottom-toolbar": "noreverse fg:ansibrightblack", "prompt": "bold", "continuation": "fg:ansibrightblack"}
)

REDRAW_EVERY_S = 0.25


class CommandCompleter(Completer):
    """Commands, and what may follow them."""

    def __init__(self, targets: Callable[[], Iterable[str]]) -> None:
        self._targets = targets
        self._files = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        name, space, argument = text[1:].partition(" ")
        if not space:
            yield from _matching(name, ((command.name, command.help) for command in COMMANDS))
            return
        follows = next((command.follows for command in COMMANDS if command.name == name), "nothing")
        if follows == "file":
            yield from self._file_names(argument, name == "file", complete_event)
        elif follows == "setting":
            yield from _setting(argument)
        elif follows == "method" and " " not in argument:
            yield from _matching(argument, ((method, "") for method in METHODS))
        elif follows == "target":
            yield from _matching(argument, ((target, "") for target in self._targets()))

    def _file_names(self, argument: str, has_text: bool, event: CompleteEvent) -> Iterable[Completion]:
        """The whole name anew, with quotation marks where it needs them. Where a text follows, a blank ends it."""
        name = begun(argument)
        has_ended = argument[0] in name if name != argument else has_text and " " in argument
        if has_ended:
            return
        for one in self._files.get_completions(Document(name, len(name)), event):
            whole = name[: len(name) + one.start_position] + one.text
            is_folder = one.display_text.endswith("/")
            yield Completion(quoted(whole, not is_folder), -len(argument), display=one.display)


def _setting(argument: str) -> Iterable[Completion]:
    name, space, value = argument.partition(" ")
    if space:
        yield from _matching(value, ((one, "") for one in values_of(name)))
    else:
        yield from _matching(name, ((one, HELP[one]) for one in NAMES))


def _matching(begun: str, choices: Iterable[tuple[str, str]]) -> Iterable[Completion]:
    for text, meaning in choices:
        if text.startswith(begun):
            yield Completion(text, -len(begun), display_meta=meaning)


class _PrivateHistory(FileHistory):
    """What people ask is theirs: the file is for them alone."""

    def __init__(self, file: Path) -> None:
        super().__init__(str(file))
        self._file = file

    def store_string(self, string: str) -> None:
        self._file.touch(mode=0o600)
        super().store_string(string)


class Prompt:
    """Reads messages. Raises `EOFError` for Ctrl-D and `KeyboardInterrupt` for Ctrl-C, as prompt_toolkit does."""

    def __init__(
        self,
        history: Path | None,
        targets: Callable[[], Iterable[str]],
        below: Callable[[], str],
        has_news: Callable[[], bool],
        edit: Callable[[str], str],
        terminal: Output | None = None,
        keyboard: Input | None = None,
    ) -> None:
        self.unsent = ""
        """What was being typed when news ended the prompt."""
        self._has_news = has_news
        self._terminal, self._keyboard = terminal, keyboard
        self._session: PromptSession[str] = PromptSession(
            history=_history(history),
            completer=CommandCompleter(targets),
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            complete_in_thread=True,
            key_bindings=_keys(edit),
            multiline=True,
            prompt_continuation=_continuation,
            bottom_toolbar=lambda: [("class:bottom-toolbar", below())],
            style=STYLE,
            color_depth=ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None,
            enable_suspend=True,
            cursor=ModalCursorShapeConfig(),
            reserve_space_for_menu=6,
            output=terminal,
            input=keyboard,
        )
        self._session.app.after_render += self._end_for_news

    def read(self, vi: bool = False) -> str:
        """One message; it may have several lines. Empty where there are news to tell."""
        self._session.editing_mode = EditingMode.VI if vi else EditingMode.EMACS
        return self._session.prompt(
            [("class:prompt", "> ")], default=self._typed_before(), refresh_interval=REDRAW_EVERY_S
        )

    def confirm(self, question: str) -> bool:
        """Yes or no; Enter means yes."""
        session: PromptSession[str] = PromptSession(input=self._keyboard, output=self._terminal)
        try:
            return session.prompt(question).strip().lower() in ("", "y", "yes")
        except (EOFError, KeyboardInterrupt):
            return False

    def _typed_before(self) -> str:
        text, self.unsent = self.unsent, ""
        return text

    def _end_for_news(self, app: Application[str]) -> None:
        if self._has_news() and app.is_running and not app.is_done:
            self.unsent = app.current_buffer.text
            app.exit(result="")


def _history(file: Path | None) -> History:
    if file is None:
        return InMemoryHistory()
    file.parent.mkdir(parents=True, exist_ok=True)
    return _PrivateHistory(file)


def _continuation(width: int, _: int, is_soft_wrap: int) -> StyleAndTextTuples:
    return [("class:continuation", " " * width if is_soft_wrap else ".".ljust(width))]


def _keys(edit: Callable[[str], str]) -> KeyBindings:
    """Enter sends, or begins a new line inside \"\"\"; Alt-Enter always begins one."""
    keys = KeyBindings()

    @keys.add("enter", filter=~is_searching & (~has_completions | Condition(_nothing_chosen)))
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_open(buffer.text):
            buffer.newline()
        else:
            buffer.validate_and_handle()

    @keys.add("enter", filter=has_completions & ~Condition(_nothing_chosen))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @keys.add("escape", "enter", filter=emacs_mode)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt(), style="class:aborting")

    @keys.add("c-g", filter=~has_selection & ~is_searching)
    @keys.add("c-x", "c-e", filter=emacs_mode & ~has_selection)
    @keys.add("v", filter=vi_navigation_mode)
    def _(event: KeyPressEvent) -> None:
        event.app.create_background_task(_edited(event.current_buffer, edit))

    return keys


async def _edited(buffer: Buffer, edit: Callable[[str], str]) -> None:
    """Let the editor have the terminal, and take what it leaves."""
    text = await run_in_terminal(lambda: edit(buffer.text), in_executor=True)
    buffer.document = Document(text, len(text))


def _nothing_chosen() -> bool:
    state = get_app().current_buffer.complete_state
    return state is None or state.current_completion is None


def real_terminal(file: Any) -> Output:
    """A terminal to draw the prompt on, wherever sys.stdout leads."""
    from prompt_toolkit.output import create_output

    return create_output(stdout=file)
