"""A memory plan for people: one bar a device, what takes how much, and what to change."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import msgspec

from speccli.colour import paint
from speccli.plan.estimate import Estimate
from speccli.plan.interval import GIB, Interval
from speccli.plan.trial import Fix


class Part(msgspec.Struct, frozen=True):
    """A purpose on the bar: its letter where there is no colour, its colour, its name."""

    letter: str
    colour: str
    name: str
    purposes: tuple[str, ...]


PARTS = (
    Part("W", "34", "weights", ("target_weights",)),
    Part("S", "35", "speculator", ("draft_weights",)),
    Part("A", "33", "activations", ("buffers", "activations", "non_torch")),
    Part("G", "36", "graphs", ("graphs",)),
    Part("K", "32", "KV cache", ("kv_cache",)),
)

VERDICTS = {"fits": ("fits", "1;32"), "tight": ("tight", "1;33"), "does_not_fit": ("does not fit", "1;31")}

UNSURE = Part("?", "2;32", "uncertain", ())
"""Within the budget, and taken by one of the parts or left to the KV cache: the estimate does not tell."""

KEPT_FREE = Part(".", "2", "kept free", ())
"""Beyond vLLM's share."""

FREE = Part(".", "2", "free", ())

IN_USE = Part("x", "2;31", "in use", ())
"""On the CPU: by other programs."""

BLOCKS = {"?": "▒", ".": "·", "x": "▓"}


def plan_lines(title: str, estimate: Estimate, fixes: Sequence[Fix], *, width: int, colour: bool) -> list[str]:
    word, code = VERDICTS[estimate.verdict]
    lines = [f"{paint('Memory', '1', colour)}  {title}: {paint(word, code, colour)}"]
    lines += [f"  {line}" for line in _bars(estimate, width - 2, colour)]
    lines += [f"  {line}" for line in _legend(estimate, colour)]
    for line in _kv(estimate):
        lines += _wrapped(line, "  ", width)
    return [*lines, *_fixes(fixes, width, colour), ""]


def bar(estimate: Estimate, cells: int, *, colour: bool) -> str:
    """Each part as long as it surely is; one that is there at all has a cell."""
    taken = [(part, _interval(estimate, part).low) for part in PARTS]
    used = sum(size for _, size in taken)
    middle, last = _rest(estimate)
    taken += [(middle, max(0, estimate.budget_bytes - used))]
    whole = max(estimate.total_bytes, used)
    drawn, left = "", cells
    for part, size in taken:
        count = min(left, max(1, round(size / whole * cells)) if size > 0 else 0)
        left -= count
        drawn += _cells(part, count, colour)
    return drawn + _cells(last, left, colour)


def _rest(estimate: Estimate) -> tuple[Part, Part]:
    """What is within the budget and surely taken by nothing, and what is beyond it."""
    return (FREE, IN_USE) if estimate.on_cpu else (UNSURE, KEPT_FREE)


def _cells(part: Part, count: int, colour: bool) -> str:
    if not colour or not count:
        return part.letter * count
    return paint(BLOCKS.get(part.letter, "█") * count, part.colour, colour)


def _bars(estimate: Estimate, width: int, colour: bool) -> list[str]:
    size = f"{estimate.total_bytes / GIB:.1f} GiB"
    name = f"{estimate.num_devices} x {estimate.device}" if estimate.num_devices > 1 else estimate.device
    cells = max(20, min(60, width - len(size) - 4))
    return [f"{name}", f"[{bar(estimate, cells, colour=colour)}] {size}"]


def _legend(estimate: Estimate, colour: bool) -> list[str]:
    lines = []
    for part in PARTS:
        size = _interval(estimate, part)
        if size.high > 0 or part.name == "KV cache":
            lines.append(f"{_cells(part, 1, colour)} {part.name:<12}{_range(size):>18}")
    surely = sum(_interval(estimate, part).low for part in PARTS)
    middle, last = _rest(estimate)
    beyond = estimate.total_bytes - estimate.budget_bytes
    for part, rest in ((middle, estimate.budget_bytes - surely), (last, beyond)):
        if rest > 0:
            lines.append(f"{_cells(part, 1, colour)} {part.name:<12}{rest / GIB:>14.2f} GiB")
    return lines


def _kv(estimate: Estimate) -> list[str]:
    tokens = estimate.kv_tokens
    share = f", {estimate.draft_kv_share:.0%} of it the speculator's" if estimate.draft_kv_share else ""
    lines = [f"{_count(tokens)} KV tokens, {estimate.kv_bytes_per_token / 1024:.0f} KiB each{share}"]
    longest, asked = estimate.max_model_len_that_fits, estimate.max_model_len
    lines.append(f"context {asked:,}; the longest that surely fits is {longest:,}")
    beyond = {name: part for name, part in estimate.outside_budget.items() if part.high}
    if beyond:
        parts = ", ".join(f"{name.replace('_', ' ')} {_range(part)}" for name, part in beyond.items())
        lines.append(f"while serving, beyond vLLM's budget: {parts}")
    return lines


def _fixes(fixes: Iterable[Fix], width: int, colour: bool) -> list[str]:
    lines = [line for fix in fixes for line in _wrapped(fix.told, "    ", width)]
    return [f"  {paint('what makes it fit, the cheapest first', '1', colour)}", *lines] if lines else []


def _wrapped(text: str, indent: str, width: int) -> list[str]:
    """Options stay whole; what does not fit on the line goes on below, a step to the right."""
    return textwrap.wrap(
        text,
        max(width, 20),
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _interval(estimate: Estimate, part: Part) -> Interval:
    found = [estimate.bytes[purpose] for purpose in part.purposes]
    return Interval(sum(one.low for one in found), sum(one.high for one in found))


def _range(size: Interval) -> str:
    low, high = f"{size.low / GIB:.2f}", f"{size.high / GIB:.2f}"
    return f"{low} GiB" if low == high else f"{low} - {high} GiB"


def _count(tokens: Interval) -> str:
    return f"{tokens.low:,}" if tokens.low == tokens.high else f"{tokens.low:,} to {tokens.high:,}"
