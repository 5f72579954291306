"""What the measurements say: each way beside plain decoding, with the spread of the repeats."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from speccli.bench.cells import CellResult, Figures, Percentiles, TokenIds
from speccli.bench.ways import PLAIN
from speccli.stats import Acceptance, total

ENOUGH_REPEATS = 3
"""By chance alone, every one of three repeats is faster, or every one slower, than every one of three others in one case of ten."""

START_NOISE = 0.03
"""A smaller difference counts as noise too. It is a margin for what differs from one start of an engine to the next, which
the repeats within one start cannot show."""

Verdict = Literal["faster", "slower", "noise", "too few repeats"]


class Spread(msgspec.Struct, frozen=True):
    """A median, and the least and the greatest."""

    median: float
    low: float
    high: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One way at one batch size on one category."""

    way: str
    batch_size: int
    category: str
    num_repeats: int
    num_requests: int
    """In all repeats together, as everything that is counted here. A batch asks each prompt several times."""
    num_tokens: int
    decode_tokens_per_s: Spread | None
    speedup: Spread | None = None
    """Over plain decoding: the ratio of the medians, and the least and greatest that single repeats give."""
    verdict: Verdict | None = None
    time_to_first_token_s: Percentiles | None
    inter_token_latency_s: Percentiles | None
    acceptance: Acceptance


class Difference(msgspec.Struct, frozen=True):
    """Greedy answers that are not those of plain decoding."""

    way: str
    batch_size: int
    num_different: int
    num_prompts: int
    prompt: str
    """The first one."""
    position: int
    """Of its first token that differs, from 1 on."""


Measured = Mapping[str, Sequence[CellResult]]
"""Results by way; plain decoding is the one called "plain"."""


def rows(measured: Measured, ways: Sequence[str], batch_sizes: Sequence[int]) -> list[Row]:
    """In the order in which a table shows them: batch size, category, way."""
    found: list[Row] = []
    for batch_size in batch_sizes:
        some = {way: _of(measured, way, batch_size) for way in ways}
        for category in dict.fromkeys(name for figures in some.values() for one in figures for name in one):
            of_category = {way: [one[category] for one in figures] for way, figures in some.items() if figures}
            plain = of_category.get(PLAIN)
            found += [_row(way, batch_size, category, figures, plain) for way, figures in of_category.items()]
    return found


def differences(measured: Measured, ways: Sequence[str], batch_sizes: Sequence[int]) -> list[Difference]:
    """Where answers are not those of plain decoding at the same batch size."""
    found = (
        _difference(way, batch_size, _answers(measured, way, batch_size), _answers(measured, PLAIN, batch_size))
        for batch_size in batch_sizes
        for way in ways
        if way != PLAIN
    )
    return [one for one in found if one is not None]


def verdict(way: Sequence[float], plain: Sequence[float]) -> Verdict:
    """A difference counts when every repeat is on the same side of every one of plain decoding, and when it is larger
    than `START_NOISE`.
    """
    if min(len(way), len(plain)) < ENOUGH_REPEATS:
        return "too few repeats"
    ratio = statistics.median(way) / statistics.median(plain)
    if min(way) > max(plain) and ratio > 1 + START_NOISE:
        return "faster"
    if max(way) < min(plain) and ratio < 1 - START_NOISE:
        return "slower"
    return "noise"


def spread(values: Sequence[float]) -> Spread | None:
    return Spread(statistics.median(values), min(values), max(values)) if values else None


def _of(measured: Measured, way: str, batch_size: int) -> list[dict[str, Figures]]:
    return [result.figures for result in measured.get(way, []) if result.cell.batch_size == batch_size]


def _row(way: str, batch_size: int, category: str, figures: Sequence[Figures], plain: Sequence[Figures] | None) -> Row:
    speeds = _speeds(figures)
    against = _speeds(plain or [])
    compared = way != PLAIN and bool(speeds) and bool(against)
    return Row(
        way=way,
        batch_size=batch_size,
        category=category,
        num_repeats=len(figures),
        num_requests=sum(one.num_requests for one in figures),
        num_tokens=sum(one.num_tokens for one in figures),
        decode_tokens_per_s=spread(speeds),
        speedup=_speedup(speeds, against) if compared else None,
        verdict=verdict(speeds, against) if compared else None,
        time_to_first_token_s=_median(one.time_to_first_token_s for one in figures),
        inter_token_latency_s=_median(one.inter_token_latency_s for one in figures),
        acceptance=total(one.acceptance for one in figures),
    )


def _speeds(figures: Iterable[Figures]) -> list[float]:
    return [one.decode_tokens_per_s for one in figures if one.decode_tokens_per_s]


def _speedup(way: Sequence[float], plain: Sequence[float]) -> Spread:
    return Spread(statistics.median(way) / statistics.median(plain), min(way) / max(plain), max(way) / min(plain))


def _median(found: Iterable[Percentiles | None]) -> Percentiles | None:
    """Of each percentile over the repeats."""
    given = [one for one in found if one is not None]
    if not given:
        return None
    return Percentiles(
        *(statistics.median(column) for column in zip(*map(msgspec.structs.astuple, given), strict=True))
    )


def _answers(measured: Measured, way: str, batch_size: int) -> Mapping[str, TokenIds]:
    """Those of the first repeat."""
    found = [result.token_ids for result in measured.get(way, []) if result.cell.batch_size == batch_size]
    return next((token_ids for token_ids in found if token_ids), {})


def _difference(
    way: str, batch_size: int, answers: Mapping[str, TokenIds], plain: Mapping[str, TokenIds]
) -> Difference | None:
    both = [prompt for prompt in plain if prompt in answers]
    different = [prompt for prompt in both if answers[prompt] != plain[prompt]]
    if not different:
        return None
    first = different[0]
    return Difference(way, batch_size, len(different), len(both), first, _position(answers[first], plain[first]))


def _position(one: TokenIds, other: TokenIds) -> int:
    """Of the first token that differs; behind the shorter answer where the longer one begins with it."""
    same = [a == b for a, b in zip(one, other, strict=False)]
    return 1 + (same.index(False) if False in same else len(same))
