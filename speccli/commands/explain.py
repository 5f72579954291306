"""`speccli doctor` after the fact: what a log, the statistics of a run or a finding's id mean."""

from __future__ import annotations

import codecs
import io
import itertools
import os
import sys
import textwrap
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

import speccli
from speccli.checkpoint.hub.access import without_socks
from speccli.colour import wants_colour
from speccli.commands.doctor import report_width, text_report
from speccli.diagnose import Finding, Group, exit_code
from speccli.diagnose.failures import UNKNOWN, Candidate, Diagnosis, Failure, explain
from speccli.diagnose.hub import unanswered
from speccli.diagnose.observed import Observed, of_log, of_metrics, of_records
from speccli.diagnose.pages import PAGES, Page
from speccli.diagnose.run import after_run
from speccli.engine.log import last_log
from speccli.errors import ExitCode, SpeccliError, UsageError
from speccli.paths import is_there
from speccli.profile.document import shown

SCHEMA_VERSION = 1
TIMEOUT_S = 10.0
LONGEST_OBJECT_BYTES = 2**20
"""A larger file is read line by line."""
GZIP = b"\x1f\x8b"
UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
BINARY = bytes(set(range(32)) - set(b"\a\b\t\n\f\r\x1b"))
"""Control characters that no log has many of."""
LARGEST_BINARY_SHARE = 0.02
ADDRESSES = ("http://", "https://")


def after_the_fact(
    log: str | None, last: bool, stats: str | None, metrics: str | None, as_json: bool, stdin: BinaryIO | None = None
) -> ExitCode:
    """Explain one thing: a log, speccli's own last one, records of a run, or a server's metrics."""
    asked = {"--log": log, "--last": last or None, "--stats": stats, "--metrics": metrics}
    given = [name for name, value in asked.items() if value is not None]
    if len(given) != 1:
        raise UsageError(f"{' and '.join(given)} are asked together", "give one of them at a time")
    if asked[given[0]] == "":
        raise UsageError(f"{given[0]} is given no name", "name a file, or - for stdin")
    if stats is not None:
        return _of_run(of_records(_records(stats, stdin)), shown(stats), as_json)
    if metrics is not None:
        return _of_run(of_metrics(_metrics(metrics, stdin)), shown(metrics), as_json)
    return _of_log(_last() if log is None else log, as_json, stdin)


def explain_id(identity: str | None, as_json: bool) -> ExitCode:
    """The page of a finding; without an id, what pages there are."""
    if identity is None:
        listed = [{"id": page.id, "title": page.title} for page in PAGES.values()]
        _say(listed if as_json else "".join(f"{page.id:<28} {page.title}\n" for page in PAGES.values()))
        return ExitCode.DONE
    page = PAGES.get(identity)
    if page is None:
        near = get_close_matches(identity, PAGES, 3) or [name for name in PAGES if identity in name][:3]
        raise UsageError(
            f"no finding is called {identity!r}",
            f"perhaps {' or '.join(near)}" if near else "speccli doctor explain, without an id, lists them",
        )
    _say(page if as_json else _page_text(page))
    return ExitCode.DONE


def _of_log(file: str, as_json: bool, stdin: BinaryIO | None) -> ExitCode:
    found, name = _read_log(file, stdin), shown(file)
    run = after_run(of_log(found.acceptance)) if found.acceptance else None
    wrong = [finding for finding in (run.findings if run else ()) if finding.severity in ("warning", "error")]
    code = exit_code((*found.findings, *wrong))
    if as_json:
        _say(_log_report(name, found, wrong, code))
        return code
    groups = [Group(title=f"Log: {name}", findings=tuple(map(_in_short, found.findings)) or (_nothing(found),))]
    if wrong and run:
        groups.append(Group(title="Speculation, as the log tells it", findings=run.findings))
    _say(_text(groups) + _candidates(found) + _more(found))
    return code


def _of_run(observed: Observed, name: str, as_json: bool) -> ExitCode:
    group = after_run(observed)
    if not group.findings:
        raise UsageError(f"{name} holds no statistics of a run", _SOURCES)
    code = exit_code(group.findings)
    if as_json:
        _say(
            {
                "schema_version": SCHEMA_VERSION,
                "speccli": speccli.__version__,
                "exit_code": int(code),
                "source": name,
                "method": observed.method or None,
                "acceptance": observed.acceptance.to_dict(),
                "acceptance_rate_per_pos": [round(rate, 4) for rate in observed.acceptance.acceptance_rate_per_pos]
                if observed.acceptance.num_drafts
                else [],
                "findings": [{"group": group.title, **msgspec.structs.asdict(finding)} for finding in group.findings],
            }
        )
    else:
        _say(_text([group]))
    return code


_SOURCES = (
    "--stats takes what `speccli chat --json` printed or the output of `speccli batch`; --metrics takes the address of a vLLM "
    "server, or its /metrics as a file"
)


def _log_report(name: str, found: Diagnosis, wrong: Iterable[Finding], code: ExitCode) -> Mapping[str, object]:
    """`findings[0]`, if there is one, is the cause."""
    return {
        "schema_version": SCHEMA_VERSION,
        "speccli": speccli.__version__,
        "exit_code": int(code),
        "log": name,
        "num_lines": found.number_of_lines,
        "run": found.context,
        "findings": [
            *({"group": "Log", **msgspec.structs.asdict(failure)} for failure in found.findings),
            *({"group": "Run", **msgspec.structs.asdict(finding)} for finding in wrong),
        ],
        "candidates": found.candidates,
    }


def _in_short(failure: Failure) -> Finding:
    """The number of the line as the title, so that there is room for what it says."""
    who = f"{failure.process}: " if failure.process else ""
    often = f" ({failure.times} times)" if failure.times > 1 else ""
    told = Finding(id=failure.id, severity=failure.severity, title=f"line {failure.line}", evidence="")
    return msgspec.structs.replace(
        told, evidence=f"{failure.title}{often}: {who}{failure.text}", cause=failure.cause, fix=failure.fix
    )


def _nothing(found: Diagnosis) -> Finding:
    evidence = f"none found in {found.number_of_lines:,} lines"
    return Finding(id="crash.none", severity="ok", title="faults", evidence=evidence)


def _candidates(found: Diagnosis) -> str:
    if not found.candidates:
        return ""
    return "Other lines that may matter:\n" + "".join(_candidate(candidate) for candidate in found.candidates)


def _more(found: Diagnosis) -> str:
    known = [failure.id for failure in found.findings if failure.id != UNKNOWN]
    return f"More about it: speccli doctor explain {known[0]}\n" if known else ""


def _candidate(candidate: Candidate) -> str:
    who = f" ({candidate.process})" if candidate.process else ""
    kind = f"  [{candidate.id}]" if candidate.id else ""
    return f"  line {candidate.line}{who}: {candidate.text[:240]}{kind}\n"


def _text(groups: list[Group]) -> str:
    return text_report(groups, width=report_width(), colour=wants_colour(sys.stdout))


def _page_text(page: Page) -> str:
    paragraphs = [page.meaning, *([f"What to do: {page.fix}"] if page.fix else [])]
    filled = (
        textwrap.fill(text, report_width(), break_long_words=False, break_on_hyphens=False) for text in paragraphs
    )
    return "\n\n".join([f"{page.id}: {page.title}", *filled]) + "\n"


def _say(value: object) -> None:
    sys.stdout.write(value if isinstance(value, str) else msgspec.json.encode(value).decode() + "\n")


def _last() -> str:
    found = last_log()
    if found is None:
        raise UsageError("speccli has no log of an engine yet", "name one: speccli doctor --log FILE")
    return str(found)


def _read_log(name: str, stdin: BinaryIO | None) -> Diagnosis:
    """What the log says. Raises `UsageError` where nothing can be told of it, which is not the same as nothing wrong."""
    with ExitStack() as stack:
        opened = _opened(name, stdin, stack)
        try:
            stream = _unpacked(opened)
            start = stream.peek(1)
            found = explain(_in_utf8(stream, start))
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(name, error) from error
    if not found.number_of_lines:
        raise UsageError(f"{shown(name)} is empty", "name the file that holds what the engine or the server wrote")
    if not found.findings and _is_binary(start):
        raise UsageError(f"{shown(name)} is no text", "name the log itself; a packed one is read if it is .gz")
    return found


def _unpacked(stream: BinaryIO) -> io.BufferedReader:
    """What it is shows in its first bytes, whatever its name is."""
    peekable = stream if hasattr(stream, "peek") else io.BufferedReader(cast(io.RawIOBase, stream))
    buffered = cast(io.BufferedReader, peekable)
    if not buffered.peek(2).startswith(GZIP):
        return buffered
    import gzip

    return cast(io.BufferedReader, gzip.open(buffered, "rb"))


def _in_utf8(stream: io.BufferedReader, start: bytes) -> BinaryIO:
    is_utf16 = start.startswith(UTF16_BOMS)
    return cast(BinaryIO, codecs.EncodedFile(stream, "utf-8", "utf-16", "replace") if is_utf16 else stream)


def _is_binary(start: bytes) -> bool:
    controls = len(start) - len(start.translate(None, BINARY))
    return not start.startswith(UTF16_BOMS) and controls > LARGEST_BINARY_SHARE * len(start)


def _opened(name: str, stdin: BinaryIO | None, stack: ExitStack) -> BinaryIO:
    if name == "-":
        if stdin is None and sys.stdin is None:
            raise UsageError("cannot read stdin: it is closed", "name a file, or pipe one in")
        return sys.stdin.buffer if stdin is None else stdin
    try:
        return stack.enter_context(Path(name).open("rb"))
    except OSError as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> UsageError:
    problem = getattr(error, "strerror", None) or error
    return UsageError(f"cannot read {shown(name)}: {problem}", "name a file, or - for stdin")


def _records(name: str, stdin: BinaryIO | None) -> Iterator[object]:
    """One object, or one a line; a line that was cut off is left out."""
    with ExitStack() as stack:
        stream = _opened(name, stdin, stack)
        start = stream.read(LONGEST_OBJECT_BYTES)
        if len(start) < LONGEST_OBJECT_BYTES and (whole := _decoded(start)) is not None:
            yield whole
            return
        first, last = start.rpartition(b"\n")[::2]
        for line in itertools.chain(first.splitlines(), [last + stream.readline()], stream):
            yield _decoded(line)


def _decoded(line: bytes) -> object:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _metrics(name: str, stdin: BinaryIO | None) -> str:
    if name.lower().startswith(ADDRESSES):
        return _scraped(name)
    if ":" in name and not is_there(name):
        raise UsageError(
            f"no file is called {shown(name)!r}", "the address of a server begins with http:// or https://"
        )
    with ExitStack() as stack:
        try:
            return _opened(name, stdin, stack).read().decode("utf-8", "replace")
        except OSError as error:
            raise _unreadable(name, error) from error


def _scraped(name: str) -> str:
    """What the server says, within `TIMEOUT_S` in all."""
    import httpx

    address = name if name.rstrip("/").endswith("/metrics") else f"{name.rstrip('/')}/metrics"
    until = time.monotonic() + TIMEOUT_S
    try:
        with httpx.stream("GET", address, timeout=TIMEOUT_S, follow_redirects=True) as answer:
            answer.raise_for_status()
            return b"".join(_until(until, answer.iter_bytes())).decode("utf-8", "replace")
    except ImportError as error:
        raise UsageError(*without_socks(os.environ)) from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise SpeccliError(
            f"{shown(address)} does not answer: {unanswered(error)}", "is it the address of a vLLM server?"
        ) from error


def _until(end: float, pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        if time.monotonic() > end:
            raise TimeoutError(f"not whole within {TIMEOUT_S:.0f} s")
