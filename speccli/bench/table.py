"""The report as text: a block for each batch size, what it comes to, and bars."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from speccli.bench.cells import Percentiles
from speccli.bench.compare import ENOUGH_REPEATS, START_NOISE, Row, Verdict, verdict
from speccli.bench.report import Report
from speccli.bench.ways import PLAIN
from speccli.colour import paint

MARKS: dict[Verdict, str] = {"faster": "", "slower": "", "noise": "~", "too few repeats": "?"}
COLOURS: dict[Verdict, str] = {"faster": "32", "slower": "31", "noise": "2", "too few repeats": "2"}
GAP = "  "
WIDEST = 100
"""Of running text, where no terminal says how wide it is."""
FULL_BLOCK = "█"
EIGHTHS = " ▏▎▍▌▋▊▉"


class Column(msgspec.Struct, frozen=True):
    """Two lines of heading, and what stands under them."""

    above: str
    heading: str
    cell: Callable[[Row], str]
    align: Literal["<", ">"] = ">"


def text(report: Report, *, width: int | None, colour: bool) -> str:
    """`width` is that of the terminal; columns that do not fit are left out. None: as wide as it gets."""
    columns, num_left_out = _fitting(report, width)
    room = width or WIDEST
    lines = [*_wrapped(report.title, room), *_wrapped(report.work, room), ""]
    for batch_size in report.batch_sizes:
        lines += [*_block(report, batch_size, columns, colour), ""]
    lines += [*_failures(report, colour), *_bars(report, width, colour)]
    for said in (*_conclusions(report), *_legend(report), *_differences(report)):
        lines += _wrapped(said, room)
    if num_left_out:
        lines += _wrapped(f"{num_left_out} of the columns did not fit; --json and --csv have all.", room)
    return "\n".join(lines) + "\n"


COLUMNS = (
    Column("", "", lambda row: row.category, "<"),
    Column("", "", lambda row: row.way, "<"),
    Column("", "tokens/s", lambda row: f"{row.decode_tokens_per_s.median:.1f}" if row.decode_tokens_per_s else "-"),
    Column("", "speed-up", lambda row: _speedup(row), "<"),
    Column("accepted", "length", lambda row: _length(row)),
    Column("first", "token", lambda row: _first(row.time_to_first_token_s)),
    Column("between steps", "p50/p90/p99 ms", lambda row: _pauses(row.inter_token_latency_s)),
    Column("accepted by", "position, %", lambda row: _positions(row), "<"),
)


def _speedup(row: Row) -> str:
    if row.speedup is None or row.verdict is None:
        return "" if row.way == PLAIN else "-"
    return f"{MARKS[row.verdict]:1}{row.speedup.median:.2f} ({row.speedup.low:.2f}-{row.speedup.high:.2f})"


def _length(row: Row) -> str:
    return f"{row.acceptance.mean_acceptance_length:.2f}" if row.acceptance.num_drafts else "-"


def _first(found: Percentiles | None) -> str:
    return "-" if found is None else f"{found.p50 * 1000:.0f} ms"


def _pauses(found: Percentiles | None) -> str:
    return "-" if found is None else "/".join(f"{value * 1000:.0f}" for value in (found.p50, found.p90, found.p99))


def _positions(row: Row) -> str:
    return " ".join(f"{rate * 100:.0f}" for rate in row.acceptance.acceptance_rate_per_pos) or "-"


def _fitting(report: Report, width: int | None) -> tuple[list[tuple[Column, int]], int]:
    """The columns with their widths, less those at the end that would not fit, and how many those are."""
    sized = [(column, _width(column, report)) for column in COLUMNS]
    kept = list(sized)
    while width is not None and len(kept) > 4 and sum(size + len(GAP) for _, size in kept) - len(GAP) > width:
        kept.pop()
    return kept, len(sized) - len(kept)


def _width(column: Column, report: Report) -> int:
    first = [*(row.category for row in report.shown), *(f"batch {size}" for size in report.batch_sizes)]
    cells = first if column is COLUMNS[0] else [column.cell(row) for row in report.shown]
    return max(map(len, [column.above, column.heading, *cells]))


def _block(report: Report, batch_size: int, columns: Sequence[tuple[Column, int]], colour: bool) -> Iterator[str]:
    first_size = columns[0][1]
    yield _line(["", *(column.above for column, _ in columns[1:])], columns)
    heading = _line([f"batch {batch_size}", *(column.heading for column, _ in columns[1:])], columns)
    yield paint(heading, "1", colour)
    for category in report.categories(batch_size):
        name = category
        for row in report.shown:
            if (row.batch_size, row.category) == (batch_size, category):
                cells = [f"{name:<{first_size}}", *(column.cell(row) for column, _ in columns[1:])]
                yield paint(_line(cells, columns), COLOURS[row.verdict] if row.verdict else "", colour)
                name = ""


def _line(cells: Sequence[str], columns: Sequence[tuple[Column, int]]) -> str:
    sized = zip(cells, columns, strict=True)
    return GAP.join(f"{cell:{column.align}{size}}" for cell, (column, size) in sized).rstrip()


def _failures(report: Report, colour: bool) -> Iterator[str]:
    for failure in report.failures:
        how = "not measured to the end" if failure.way in report.ways else "not measured"
        said = [" ".join(part.split()) for part in (failure.message, failure.hint) if part]
        yield paint(f"{failure.way}: {how}: {'; '.join(said)}", "31", colour)
    if report.failures:
        yield ""


def _bars(report: Report, width: int | None, colour: bool) -> Iterator[str]:
    """Tokens per second of all prompts together."""
    pooled = [row for size in report.batch_sizes for row in report.pooled(size) if row.decode_tokens_per_s]
    if not pooled:
        return
    label_size = max(len(row.way) for row in pooled)
    batch_size_size = max(len(f"batch {row.batch_size}") for row in pooled)
    room = min(60, (width or WIDEST) - label_size - batch_size_size - 12)
    fastest = max(row.decode_tokens_per_s.median for row in pooled if row.decode_tokens_per_s)
    yield paint("tokens/s, all prompts", "1", colour)
    shown = 0
    for row in pooled:
        speed = row.decode_tokens_per_s.median if row.decode_tokens_per_s else 0.0
        batch = f"batch {row.batch_size}" if row.batch_size != shown else ""
        shown = row.batch_size
        yield f"{batch:<{batch_size_size}}{GAP}{row.way:<{label_size}}{GAP}{bar(speed / fastest, room)} {speed:.1f}"
    yield ""


def bar(share: float, room: int) -> str:
    """A bar of that share of the room, to an eighth of a character."""
    eighths = round(share * max(room, 1) * 8)
    return (FULL_BLOCK * (eighths // 8) + EIGHTHS[eighths % 8].strip()) or EIGHTHS[1]


def _conclusions(report: Report) -> Iterator[str]:
    """What a run at this batch size should use."""
    for size in report.batch_sizes:
        ways = [row for row in report.pooled(size) if row.speedup is not None]
        unclear = [row.way for row in ways if row.verdict == "too few repeats"]
        faster = [row for row in ways if row.verdict == "faster"]
        if unclear:
            if len(unclear) < len(ways):
                few = ", ".join(unclear)
                yield f"batch {size}: which is fastest cannot be told: fewer than {ENOUGH_REPEATS} repeats of {few}"
        elif faster:
            yield f"batch {size}: {_fastest(faster)}"
        elif ways:
            yield f"batch {size}: nothing is measurably faster than plain decoding"


def _fastest(faster: Sequence[Row]) -> str:
    best = max(faster, key=_median_speedup)
    equal = [row for row in faster if row is not best and verdict(_points(best), _points(row)) == "noise"]
    said = f"{best.way} is fastest, {_median_speedup(best):.2f} times plain decoding"
    if not equal:
        return said
    beside = ", ".join(f"{row.way} ({_median_speedup(row):.2f})" for row in equal)
    return f"{said}; inside the noise as fast: {beside}"


def _median_speedup(row: Row) -> float:
    return row.speedup.median if row.speedup else 0.0


def _points(row: Row) -> tuple[float, ...]:
    """Of all repeats, what a verdict looks at."""
    speed = row.decode_tokens_per_s
    return (speed.low, speed.median, speed.high) if speed else ()


def _legend(report: Report) -> Iterator[str]:
    """The rule behind each mark that is shown."""
    verdicts = {row.verdict for row in report.shown}
    if "noise" in verdicts:
        yield f"~ inside the noise: the repeats of both overlap, or the medians differ by less than {START_NOISE:.0%}"
    if "too few repeats" in verdicts:
        yield f"? fewer than {ENOUGH_REPEATS} repeats: what is noise cannot be told"


def _differences(report: Report) -> Iterator[str]:
    for one in report.differences:
        yield (
            f"batch {one.batch_size}, {one.way}: {one.num_different} of {one.num_prompts} greedy answers are not those of "
            f"plain decoding; the first is {one.prompt!r}, from token {one.position} on"
        )
    if report.differences:
        yield _cause(str(report.settings.get("dtype", "")))


def _cause(dtype: str) -> str:
    if dtype == "float32":
        return "In float32 this is rare. Where two tokens are as likely as each other, it may be rounding; else it is a fault."
    return (
        f"{dtype} rounds otherwise where several tokens are computed at once, and a near tie falls the other way. "
        "--dtype float32 tells whether that is the cause."
    )


def _wrapped(said: str, room: int) -> list[str]:
    return textwrap.wrap(said, room, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
