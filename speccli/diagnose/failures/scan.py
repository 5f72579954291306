"""Walks through a log once and keeps what may tell the fault: lines that are known to, and the exceptions of each process."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable

import msgspec

from speccli.diagnose.failures.context import NEW_RUN, Context
from speccli.diagnose.failures.figures import figures_of
from speccli.diagnose.failures.kind import Figures, Kind
from speccli.diagnose.failures.known import Known
from speccli.diagnose.failures.reader import Line
from speccli.diagnose.failures.signs import DEATHS, ENDED_ON_PURPOSE, EXCEPTION, IGNORED, TRACEBACK, WRAPPERS

AROUND = 8
"""Lines before and after one, of the same process, that may hold its figures."""

LONGEST_CHARACTERS = 4000
MOST_PROCESSES = 64
MOST_FRAMES = 80
KEPT_EXCEPTIONS = 4
REMEMBERED_LINES = 1000
KEPT_READINGS = 400


class Match(msgspec.Struct, frozen=True):
    """A known fault, where it was seen first."""

    kind: Kind
    line: Line
    figures: Figures
    frames: tuple[str, ...] = ()
    times: int = 1
    phase: str = ""


class Scan(msgspec.Struct, frozen=True):
    """What is left of a log after one reading. The size does not grow with the log's."""

    context: Context
    matches: tuple[Match, ...]
    exceptions: tuple[Line, ...]
    """Those that no wrapper of vLLM's is: around the first sign that a process died, else the last ones."""
    errors: tuple[Line, ...]
    """The last lines of level ERROR."""
    died: bool
    ended_on_purpose: bool
    was_ready: bool
    number_of_lines: int
    acceptance: tuple[str, ...] = ()
    """The lines by which vLLM tells now and then how speculation fares, the last ones."""


class _Process:
    """What is remembered of one process."""

    def __init__(self) -> None:
        self.before: deque[str] = deque(maxlen=AROUND)
        self.frames: deque[str] = deque(maxlen=MOST_FRAMES)
        self.in_traceback = False
        self.is_ignored = False
        self.is_chained = False
        self.age = 0
        """Lines since the last traceback ended."""
        self.exceptions: deque[Line] = deque(maxlen=KEPT_EXCEPTIONS)


class _Waiting:
    """A match that still looks at the lines after it."""

    def __init__(self, kind: Kind, process: str, texts: list[str]) -> None:
        self.kind = kind
        self.process = process
        self.texts = texts
        self.left = AROUND


def scan(lines: Iterable[Line], known: Known) -> Scan:
    """Read all lines once."""
    scanner = _Scanner(known)
    for line in lines:
        scanner.take(line)
    return scanner.result()


class _Scanner:
    def __init__(self, known: Known) -> None:
        self._known = known
        self._seen: dict[str, tuple[Kind, ...]] = {}
        self._number = 0
        self._earlier: tuple[Match, ...] = ()
        """Of the run before, for a log whose last run says nothing."""
        self._start()

    def _start(self) -> None:
        """A run begins, in a log that may hold several."""
        self._context = Context()
        self._processes: dict[str, _Process] = {}
        self._found: dict[str, Match] = {}
        self._waiting: list[_Waiting] = []
        self._acceptance: deque[str] = deque(maxlen=KEPT_READINGS)
        self._errors: deque[Line] = deque(maxlen=KEPT_EXCEPTIONS)
        self._at_death: list[Line] | None = None
        self._death_line = 0
        self._ended_on_purpose = self._was_ready = False

    def take(self, line: Line) -> None:
        self._number = line.number
        text, lower = line.text, line.text[:LONGEST_CHARACTERS].lower()
        self._serve(line)
        if line.level in ("info", "debug"):
            self._note(line, lower)
            return
        process = self._process(line.process)
        is_exception = self._follow(process, line, lower)
        if is_exception is None:
            return
        if line.level == "":
            self._context = self._context.after(text, lower)
        elif line.level == "error":
            self._errors.append(line)
        self._signs(lower)
        is_known = self._match(process, line, lower)
        if is_exception:
            self._except(process, line, lower, is_known)
        process.before.append(text)

    def result(self) -> Scan:
        self._complete_all()
        return Scan(
            context=self._context,
            matches=tuple(self._found.values()) or self._earlier,
            exceptions=tuple(self._exceptions()),
            errors=tuple(self._errors),
            died=self._at_death is not None,
            ended_on_purpose=self._ended_on_purpose,
            was_ready=self._was_ready,
            number_of_lines=self._number,
            acceptance=tuple(self._acceptance),
        )

    def _note(self, line: Line, lower: str) -> None:
        if any(words in lower for words in NEW_RUN) and self._has_failed:
            self._complete_all()
            self._earlier = tuple(self._found.values())
            self._start()
        if "specdecoding metrics" in lower or "speculative metrics" in lower:
            self._acceptance.append(line.text)
        self._context = self._context.after(line.text, lower)
        if self._context.phase == "ready" and not self._was_ready:
            self._was_ready = True
            self._forget()
        self._signs(lower)

    @property
    def _has_failed(self) -> bool:
        return self._at_death is not None or any(match.kind.severity == "error" for match in self._found.values())

    def _signs(self, lower: str) -> None:
        if self._at_death is not None:
            return
        if ENDED_ON_PURPOSE.search(lower) and not self._exceptions():
            self._ended_on_purpose = True
        if DEATHS.search(lower):
            self._at_death, self._death_line = self._exceptions(), self._number

    def _process(self, name: str) -> _Process:
        if name not in self._processes and len(self._processes) >= MOST_PROCESSES:
            name = ""
        return self._processes.setdefault(name, _Process())

    def _follow(self, process: _Process, line: Line, lower: str) -> bool | None:
        """Whether the line is an exception; None for what only leads to one."""
        text = line.text
        process.age += 1
        if process.age > AROUND:
            process.frames.clear()
        if "was the direct cause of the following exception" in lower:
            process.is_chained = True
            return None
        if TRACEBACK in text:
            process.age = 0
            process.in_traceback = True
            process.frames.clear()
            return None
        if lower.startswith(IGNORED):
            process.is_ignored = True
            return None
        if text[:1] == " " and text.lstrip().startswith('File "'):
            process.in_traceback = True  # the head of the log may be cut off
        if process.in_traceback:
            process.age = 0
            if text[:1] in " \t":
                process.frames.append(text.strip())
                return None
            process.in_traceback = False
            return bool(EXCEPTION.match(text)) or ":" in text or " " not in text
        return bool(EXCEPTION.match(text))

    def _except(self, process: _Process, line: Line, lower: str, is_known: bool) -> None:
        is_chained, process.is_chained = process.is_chained, False
        if process.is_ignored:
            process.is_ignored = False
        elif not (is_chained or is_known or line.level == "warning" or WRAPPERS.search(lower)):
            process.exceptions.append(line)
            if self._at_death is not None and len(self._at_death) < 3 * KEPT_EXCEPTIONS:
                self._at_death.append(line)

    def _forget(self) -> None:
        """What was raised while the engine started did not keep it from starting."""
        for process in self._processes.values():
            process.exceptions.clear()

    def _exceptions(self) -> list[Line]:
        """The likeliest first: what came at the first death, then what came last."""
        if self._at_death is not None:
            after = [line for line in self._at_death if line.number >= self._death_line]
            return [*after, *(line for line in self._at_death if line.number < self._death_line)]
        kept = itertools.chain.from_iterable(process.exceptions for process in self._processes.values())
        return sorted(kept, key=lambda line: -line.number)

    def _match(self, process: _Process, line: Line, lower: str) -> bool:
        """Whether a kind knows the line."""
        if process.is_ignored:
            return False
        candidates = self._candidates(lower, line.level == "warning")
        found = [kind for kind in candidates if _fits(kind, process, lower, self._context.phase)]
        for kind in found:
            self._keep(kind, process, line)
        return bool(found)

    def _candidates(self, lower: str, is_warning: bool) -> tuple[Kind, ...]:
        """Logs repeat themselves: the answers for the last lines are remembered."""
        if lower not in self._seen:
            if len(self._seen) > REMEMBERED_LINES:
                self._seen.clear()
            self._seen[lower] = self._known.in_line(lower)
        found = self._seen[lower]
        return tuple(kind for kind in found if kind.in_warnings) if is_warning else found

    def _keep(self, kind: Kind, process: _Process, line: Line) -> None:
        known = self._found.get(kind.id)
        if known is not None:
            self._found[kind.id] = msgspec.structs.replace(known, times=known.times + 1)
            return
        texts = [line.text[:LONGEST_CHARACTERS]]
        frames = tuple(process.frames)
        self._found[kind.id] = Match(kind, line, {}, frames, 1, self._context.phase)
        self._waiting.append(_Waiting(kind, line.process, [*texts, *reversed(process.before)]))

    def _serve(self, line: Line) -> None:
        """Give the lines after a match to it."""
        for waiting in list(self._waiting):
            if waiting.process == line.process and line.level not in ("info", "debug"):
                waiting.texts.insert(1 + AROUND - waiting.left, line.text[:LONGEST_CHARACTERS])
                waiting.left -= 1
                if not waiting.left:
                    self._waiting.remove(waiting)
                    self._complete(waiting)

    def _complete_all(self) -> None:
        for waiting in self._waiting:
            self._complete(waiting)
        self._waiting = []

    def _complete(self, waiting: _Waiting) -> None:
        match = self._found[waiting.kind.id]
        figures = figures_of(waiting.kind, waiting.texts)
        self._found[waiting.kind.id] = msgspec.structs.replace(match, figures=figures)


def _fits(kind: Kind, process: _Process, lower: str, phase: str) -> bool:
    around = (lower, *_lower(process.before), *_lower(process.frames))
    if kind.near and not any(words in text for words in kind.near for text in around):
        return False
    if not kind.frames and not kind.phases:
        return True
    frames = " ".join(process.frames).lower()
    if any(words in frames or words in lower for words in kind.frames):
        return True
    return phase in kind.phases and not (frames and kind.frames)


def _lower(texts: Iterable[str]) -> Iterable[str]:
    return (text[:LONGEST_CHARACTERS].lower() for text in texts)
