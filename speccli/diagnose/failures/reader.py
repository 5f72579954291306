"""Reads a log line by line, in bounded memory: what each line says, which process said it, and how serious it was.

Known prefixes (container, time, process, rank, level, source) are taken off, and so are colours and what a progress bar
drew before the text. Bytes that are no UTF-8 are replaced. Nothing that a file may hold makes it raise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Literal

import msgspec

Level = Literal["", "debug", "info", "warning", "error"]

LONGEST_BYTES = 64 * 1024
"""A longer line is read in pieces, which count as lines with one number."""

MOST_PREFIXES = 6


class Line(msgspec.Struct, frozen=True):
    number: int
    """Counted from 1, as editors do."""
    process: str
    """As vLLM names it, such as "Worker_TP1 pid=7"; empty where the line does not say."""
    level: Level
    """Empty where the line does not say: tracebacks, what programs print, the shell."""
    text: str
    """Indentation is kept: it tells the frames of a traceback from its last line."""


LEVELS: dict[str, Level] = {
    "DEBUG": "debug",
    "INFO": "info",
    "WARNING": "warning",
    "WARN": "warning",
    "ERROR": "error",
    "CRITICAL": "error",
    "FATAL": "error",
    "I": "info",
    "W": "warning",
    "E": "error",
    "F": "error",
}

_COLOUR = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[@-Z\\^_]"
    r"|\[\d{1,3}(?:;\d{1,3}){0,4}m"  # the escape character gets lost where people paste a log
)
_BAR = re.compile(r"(?:it/s|s/it)\]\s*")
_LEVEL = r"(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"
_VLLM = re.compile(rf"{_LEVEL}\s+(?:\d{{4}}-)?\d\d-\d\d [\d:.,]+\s+(?:\[[^\]]{{1,120}}\]|[\w./-]{{1,80}}:\d+\])\s?")
_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        r"[\w.-]{0,64}\s{0,20}\|\s",  # docker compose; an exception group
        r"> ",
        r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?: (?:TP|DP|PP|EP)\d+)*\]?:?(?: (?:stdout|stderr) [FP])?\s?",
        r"[A-Z][a-z]{2}\s+\d{1,2} \d\d:\d\d:\d\d \S{1,80} [\w./@-]{1,80}(?:\[\d+\])?: ",
        r"\((?P<process>[A-Za-z][\w .:/=-]{0,80}?pid=\d+(?:, ip=[\w.:]+)?)\)\s?",
        r"\((?P<process>(?:EngineCore|Worker|VllmWorker|APIServer|RayWorker)\w{0,40})\)\s?",
        r"\[(?P<process>[Rr]ank ?\d+)\]:?\s?",
        r"\[(?P<level>[IWEF])\d{3,4} \d\d:\d\d:\d\d\.\d+\s+(?:\d+\s+)?[\w./-]+:\d+\]\s?",
        _VLLM,
        rf"-?\s*[\w.]{{1,80}} - {_LEVEL} - ",
        rf"\|?\s*{_LEVEL}\s{{0,8}}\|[^|]{{0,120}} - ",
        rf"\[{_LEVEL}\]:?\s",
        rf"{_LEVEL}:[\w.]{{1,80}}:(?! )",
        rf"{_LEVEL}:\s{{0,6}}",
        r"(?:/|[A-Za-z]:\\|\.)\S{1,300}\.py:\d+: (?P<python>\w*Warning): ",
    )
)
_START_OF_PREFIX = re.compile(r"[\w(\[>/.|-]|\s{0,20}\|")


def read(stream: BinaryIO) -> Iterator[Line]:
    """The lines of a log. What a carriage return would overwrite on a terminal counts as lines with one number."""
    for number, raw in _numbered(stream):
        for part in raw.decode("utf-8", "replace").split("\r"):
            if part.strip():
                yield parse(number, part)


def parse(number: int, text: str) -> Line:
    """One line, told apart into what it says and who said it."""
    process, level = "", ""
    text = _plain(text)
    for _ in range(MOST_PREFIXES):
        found = _prefix(text)
        if found is None:
            break
        groups = found.groupdict()
        process = groups.get("process") or process
        level = groups.get("level") or ("WARNING" if groups.get("python") else level)
        text = text[found.end() :]
        if found.re is _VLLM:
            break
    return Line(number, process, LEVELS.get(level, ""), text.rstrip())


def _numbered(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number, is_new = 0, True
    while raw := stream.readline(LONGEST_BYTES):
        number += is_new
        is_new = raw.endswith(b"\n")
        yield number, raw.rstrip(b"\r\n")


def _plain(text: str) -> str:
    if "\x1b" in text or ("[" in text and "m" in text):
        text = _COLOUR.sub("", text)
    if "it/s]" in text or "s/it]" in text:
        text = _BAR.split(text)[-1]
    return _unwrapped(text) if text.startswith("{") else text


def _unwrapped(text: str) -> str:
    """The message in a line of JSON, as containers and log collectors write it."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    fields: dict[str, object] = value if isinstance(value, dict) else {}
    message = next((fields[key] for key in ("log", "message", "msg") if isinstance(fields.get(key), str)), None)
    if message is None:
        return text
    level = str(next((fields[key] for key in ("level", "levelname", "severity") if key in fields), "")).upper()
    return f"{level}: {message}" if level in LEVELS else str(message).rstrip()


def _prefix(text: str) -> re.Match[str] | None:
    if not _START_OF_PREFIX.match(text):
        return None
    return next((found for pattern in _PREFIXES if (found := pattern.match(text)) and found.end()), None)


def lines_of(texts: Iterable[str]) -> Iterator[Line]:
    """Lines that are text already, such as a message kept from an exception."""
    for number, text in enumerate(texts, 1):
        yield parse(number, text)
