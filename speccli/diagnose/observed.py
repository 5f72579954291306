"""What a run left behind: acceptance statistics from JSON records, from a server's metrics, or from vLLM's log lines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import msgspec

from speccli.stats import Acceptance, total

MOST_READINGS = 400
MOST_ERRORS = 1000
"""Different ones that are counted."""

KEPT_ERRORS = 20

_SAMPLE = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>[^}]*)\})?\s+(?P<value>\S+)")
_POSITION = re.compile(r'position="(\d+)"')
_SPECULATION = "spec_decode_"


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run, or of a server since its start."""

    acceptance: Acceptance = Acceptance()
    readings: tuple[Acceptance, ...] = ()
    """One after the other, as requests finished or as a server was asked."""
    method: str = ""
    """Empty: not said."""
    num_speculative_tokens: int | None = None
    num_generated_tokens: int | None = None
    """None: not said. Of a server 0, if it has answered nothing yet."""
    num_answers: int = 0
    num_failed: int = 0
    errors: tuple[tuple[str, int], ...] = ()
    """The commonest, with how often each came."""
    num_running: float | None = None
    """Requests in the engine at the time of asking."""
    counts_speculation: bool = True
    """Whether the source would tell of drafts."""

    @property
    def k(self) -> int:
        """Tokens of a draft: as set, else the positions that were counted, else the mean."""
        if self.num_speculative_tokens:
            return self.num_speculative_tokens
        per_pos = len(self.acceptance.num_accepted_tokens_per_pos)
        drafts = self.acceptance.num_drafts
        return per_pos or (round(self.acceptance.num_draft_tokens / drafts) if drafts else 0)


def of_records(records: Iterable[object]) -> Observed:
    """Of what `chat --json` prints, or of the lines of a batch's output, in speccli's form or in OpenAI's."""
    readings = _Readings()
    errors: Counter[str] = Counter()
    about: dict[str, Any] = {}
    tokens = answers = failed = 0
    for record in records:
        value = _body(record)
        if not value:
            continue
        if error := value.get("error"):
            failed += 1
            if len(errors) < MOST_ERRORS:
                errors[_message(error)] += 1
            continue
        answers += 1
        about = {key: value[key] for key in ("method", "num_speculative_tokens") if key in value} or about
        tokens += _whole(_mapping(value.get("usage")).get("completion_tokens"))
        readings.add(_acceptance(_mapping(value.get("speculation"))))
    k = about.get("num_speculative_tokens")
    return Observed(
        acceptance=total(readings.all),
        readings=tuple(readings.all),
        method=str(about.get("method") or ""),
        num_speculative_tokens=k if isinstance(k, int) and k > 0 else None,
        num_generated_tokens=tokens or None,
        num_answers=answers,
        num_failed=failed,
        errors=tuple(errors.most_common(KEPT_ERRORS)),
    )


def of_metrics(text: str) -> Observed:
    """Of Prometheus text, of vLLM 0.6 to 0.32; of several scrapes one after the other, the last, and what came between."""
    scrapes = [_Scrape(samples) for samples in _scrapes(text)]
    if not scrapes:
        return Observed(counts_speculation=False)
    last = scrapes[-1]
    counts = [scrape.acceptance for scrape in scrapes]
    return Observed(
        acceptance=last.acceptance,
        readings=tuple(_minus(after, before) for before, after in pairwise(counts)),
        num_generated_tokens=last.whole("generation_tokens") if last.is_of_vllm else None,
        num_running=last.value("num_requests_running"),
        counts_speculation=last.has_speculation,
    )


def of_log(lines: Iterable[str]) -> Observed:
    """Of the lines that vLLM logs every ten seconds."""
    readings = [reading for line in lines if (reading := _logged(line)) is not None]
    return Observed(acceptance=total(readings), readings=tuple(readings))


class _Readings:
    """Readings one after the other; of very many, several are taken together."""

    def __init__(self) -> None:
        self.all: list[Acceptance] = []
        self._together = 1
        self._in_last = 0

    def add(self, reading: Acceptance) -> None:
        if self.all and self._in_last < self._together:
            self.all[-1] = self.all[-1].plus(reading)
            self._in_last += 1
            return
        if len(self.all) == MOST_READINGS:
            self.all = [first.plus(second) for first, second in zip(self.all[::2], self.all[1::2], strict=True)]
            self._together *= 2
        self.all.append(reading)
        self._in_last = 1


class _Scrape:
    """One answer of /metrics: samples by name, without prefix and suffix, summed over engines."""

    def __init__(self, samples: Mapping[str, float]) -> None:
        self._values: defaultdict[str, float] = defaultdict(float)
        self._positions: defaultdict[int, float] = defaultdict(float)
        for sample, value in samples.items():
            name, _, labels = sample.partition("{")
            name = name.removeprefix("vllm:").removeprefix("vllm_").removesuffix("_total")
            if name.endswith("num_accepted_tokens_per_pos") and (position := _POSITION.search(labels)):
                self._positions[min(int(position[1]), 1023)] += value
            else:
                self._values[name] += value

    @property
    def is_of_vllm(self) -> bool:
        return self.has_speculation or "generation_tokens" in self._values

    @property
    def has_speculation(self) -> bool:
        return bool(self._positions) or any(name.startswith(_SPECULATION) for name in self._values)

    @property
    def acceptance(self) -> Acceptance:
        accepted, drafted = (
            self.whole(f"{_SPECULATION}num_accepted_tokens"),
            self.whole(f"{_SPECULATION}num_draft_tokens"),
        )
        drafts = self.whole(f"{_SPECULATION}num_drafts")
        if not drafts:  # before 0.9 there was none; an emitted token is an accepted one, or the one that ends a draft
            drafts = max(self.whole(f"{_SPECULATION}num_emitted_tokens") - accepted, 0)
        per_pos = tuple(int(self._positions[index]) for index in range(max(self._positions, default=-1) + 1))
        return Acceptance(drafts, drafted, accepted, per_pos)

    def value(self, name: str) -> float | None:
        return self._values.get(name)

    def whole(self, name: str) -> int:
        return int(self._values.get(name, 0))


def _scrapes(text: str) -> Iterator[dict[str, float]]:
    """The samples of each scrape: a sample that comes again begins the next one."""
    samples: dict[str, float] = {}
    for line in text.splitlines():
        match = None if line.startswith("#") else _SAMPLE.match(line.strip())
        if match is None or match["name"].endswith(("_created", "_bucket")):
            continue
        value = _number(match["value"])
        key = f"{match['name']}{{{match['labels'] or ''}"
        if value is None:
            continue
        if key in samples:
            yield samples
            samples = {}
        samples[key] = value
    if samples:
        yield samples


def _logged(line: str) -> Acceptance | None:
    accepted = re.search(r"(?:Accepted: |accepted tokens: )(\d+)", line)
    drafted = re.search(r"(?:Drafted: |draft tokens: )(\d+)", line)
    if not accepted or not drafted:
        return None
    length = re.search(r"[Mm]ean acceptance length: ([\d.]+)", line)
    emitted = re.search(r"emitted tokens: (\d+)", line)
    rates = re.search(r"[Pp]er-position acceptance rate: ((?:[\d.]+(?:, )?)+)", line)
    count = int(accepted[1])
    drafts = _drafts(count, int(drafted[1]), length, emitted, rates)
    per_pos = tuple(round(float(rate) * drafts) for rate in re.findall(r"\d+\.\d+", rates[1])) if rates else ()
    return Acceptance(drafts, int(drafted[1]), count, per_pos)


def _drafts(
    accepted: int,
    drafted: int,
    length: re.Match[str] | None,
    emitted: re.Match[str] | None,
    rates: re.Match[str] | None,
) -> int:
    """The line does not say it: from the mean length, 1 + accepted / drafts; else from the positions."""
    if length and accepted and (more := _number(length[1])) and more > 1:
        return max(1, round(accepted / (more - 1)))
    if emitted:
        return max(int(emitted[1]) - accepted, 0)
    positions = len(re.findall(r"\d+\.\d+", rates[1])) if rates else 1
    return drafted // max(positions, 1)


def _body(record: object) -> Mapping[str, Any]:
    """The part with the statistics: OpenAI's form wraps it in a response."""
    value = _mapping(record)
    response = value.get("response")
    if isinstance(response, dict):
        return {**_mapping(response.get("body")), "error": value.get("error")}
    return value


def _acceptance(speculation: Mapping[str, Any]) -> Acceptance:
    per_pos = speculation.get("num_accepted_tokens_per_pos")
    return Acceptance(
        _whole(speculation.get("num_drafts")),
        _whole(speculation.get("num_draft_tokens")),
        _whole(speculation.get("num_accepted_tokens")),
        tuple(_whole(count) for count in per_pos) if isinstance(per_pos, list) else (),
    )


def _minus(after: Acceptance, before: Acceptance) -> Acceptance:
    """What came between two readings; a server that was started again counts from nothing."""
    if after.num_drafts < before.num_drafts:
        return after
    per_pos = tuple(
        count - (before.num_accepted_tokens_per_pos[index] if index < len(before.num_accepted_tokens_per_pos) else 0)
        for index, count in enumerate(after.num_accepted_tokens_per_pos)
    )
    return Acceptance(
        after.num_drafts - before.num_drafts,
        after.num_draft_tokens - before.num_draft_tokens,
        after.num_accepted_tokens - before.num_accepted_tokens,
        per_pos,
    )


def _message(error: object) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) and value == value and abs(value) < 1e15 else 0


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == value and abs(value) < 1e15 else None
