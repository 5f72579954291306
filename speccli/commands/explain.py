"""`speccli doctor` after the fact: what a log, the statistics of a run or a finding's id mean."""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO

import msgspec

import speccli
from speccli.colour import wants_colour
from speccli.commands.doctor import report_width, text_report
from speccli.diagnose import Finding, Group, exit_code
from speccli.diagnose.failures import UNKNOWN, Candidate, Diagnosis, Failure, explain
from speccli.diagnose.observed import Observed, of_log, of_metrics, of_records
from speccli.diagnose.pages import PAGES, Page
from speccli.diagnose.run import after_run
from speccli.engine.log import last_log
from speccli.errors import ExitCode, SpeccliError, UsageError

SCHEMA_VERSION = 1
TIMEOUT_S = 10.0
LONGEST_OBJECT_BYTES = 2**20
"""A larger file is read line by line."""


def after_the_fact(
    log: str | None, last: bool, stats: str | None, metrics: str | None, as_json: bool, stdin: BinaryIO | None = None
) -> ExitCode:
    """Explain one thing: a log, speccli's own last one, records of a run, or a server's metrics."""
    given = [
        name for name, value in (("--log", log), ("--last", last), ("--stats", stats), ("--metrics", metrics)) if value
    ]
    if len(given) != 1:
        raise UsageError(f"{' and '.join(given)} are asked together", "give one of them at a time")
    source = sys.stdin.buffer if stdin is None else stdin
    if stats is not None:
        return _of_run(of_records(_records(stats, source)), stats, as_json)
    if metrics is not None:
        return _of_run(of_metrics(_metrics(metrics, source)), metrics, as_json)
    return _of_log(_last() if log is None else log, as_json, source)


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


def _of_log(name: str, as_json: bool, stdin: BinaryIO) -> ExitCode:
    with ExitStack() as stack:
        found = explain(_opened(name, stdin, stack))
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


def _opened(name: str, stdin: BinaryIO, stack: ExitStack) -> BinaryIO:
    if name == "-":
        return stdin
    try:
        return stack.enter_context(Path(name).open("rb"))
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}", "name a file, or - for stdin") from error


def _records(name: str, stdin: BinaryIO) -> Iterator[object]:
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


def _metrics(name: str, stdin: BinaryIO) -> str:
    if not name.startswith(("http://", "https://")):
        with ExitStack() as stack:
            return _opened(name, stdin, stack).read().decode("utf-8", "replace")
    import httpx

    address = name if name.rstrip("/").endswith("/metrics") else f"{name.rstrip('/')}/metrics"
    try:
        answer = httpx.get(address, timeout=TIMEOUT_S)
        answer.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SpeccliError(
            f"{address} does not answer: {error or type(error).__name__}", "is it the address of a vLLM server?"
        ) from error
    return answer.text
