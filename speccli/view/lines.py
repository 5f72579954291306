"""Single lines that people read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from speccli.answer import Answer
from speccli.chat.words import counted
from speccli.source import described
from speccli.stats import Acceptance

if TYPE_CHECKING:
    from speccli.plan import Plan

GIB = 1024**3


def chosen_lines(plan: Plan) -> list[str]:
    pairing = plan.pairing
    head = f", speculator {described(pairing.speculator_source)}" if pairing.speculator_source is not None else ""
    arguments = plan.engine_arguments
    return [
        f"{pairing.target} · {pairing.how}{head} · {plan.hardware.name}",
        f"why: {pairing.reason}",
        f"{arguments['dtype']} · weights {plan.weight_bytes / GIB:.2f} GiB · KV cache {plan.kv_cache_bytes / GIB:.1f} GiB "
        f"= {plan.kv_tokens:,} tokens · context {plan.max_model_len:,}",
        *([plan.warning] if plan.warning else []),
    ]


def statistics_lines(answer: Answer) -> list[str]:
    return [" · ".join(_speed(answer)), *acceptance_lines(answer.acceptance)]


def one_line(answer: Answer) -> str:
    """The statistics of an answer, short."""
    return " · ".join([*_speed(answer), *_acceptance(answer.acceptance)])


def status_line(answer: Answer, waited_s: float, max_model_len: int, columns: int) -> str:
    """The same while it streams, as much as the columns hold."""
    if answer.timing.first_s is None:
        return _fitting(["waiting for the first token", f"{waited_s:.0f} s", "Ctrl-C stops"], columns)
    used = answer.num_prompt_tokens + answer.timing.num_tokens
    return _fitting(
        [
            _tokens(answer),
            *_rate(answer),
            *_acceptance(answer.acceptance, with_counts=False),
            f"context {used:,} of {max_model_len:,}",
            "Ctrl-C stops",
        ],
        columns,
    )


def acceptance_lines(acceptance: Acceptance) -> list[str]:
    if not acceptance.num_drafts:
        return ["nothing was drafted"]
    positions = "  ".join(f"{i}: {rate:.0%}" for i, rate in enumerate(acceptance.acceptance_rate_per_pos, 1))
    return [
        f"mean acceptance length {acceptance.mean_acceptance_length:.2f} · acceptance rate {acceptance.draft_acceptance_rate:.0%} "
        f"({acceptance.num_accepted_tokens:,} of {acceptance.num_draft_tokens:,} drafted, {counted(acceptance.num_drafts, 'draft')})",
        f"accepted by position  {positions}",
    ]


def _speed(answer: Answer) -> list[str]:
    timing = answer.timing
    parts = [_tokens(answer), *_rate(answer)]
    if timing.time_to_first_token_s is not None:
        parts.append(f"first token {timing.time_to_first_token_s:.2f} s")
    if answer.finish_reason not in ("stop", None):
        parts.append(f"ended by {answer.finish_reason}")
    return parts


def _tokens(answer: Answer) -> str:
    return counted(answer.timing.num_tokens, "token")


def _rate(answer: Answer) -> list[str]:
    rate = answer.timing.decode_tokens_per_s
    return [] if rate is None else [f"{rate:.1f} tokens/s"]


def _acceptance(acceptance: Acceptance, with_counts: bool = True) -> list[str]:
    if not acceptance.num_drafts:
        return ["nothing was drafted"] if with_counts else []
    counts = f" ({acceptance.num_accepted_tokens:,} of {acceptance.num_draft_tokens:,} drafted)" if with_counts else ""
    return [
        f"acceptance length {acceptance.mean_acceptance_length:.2f}",
        f"rate {acceptance.draft_acceptance_rate:.0%}{counts}",
    ]


def _fitting(parts: list[str], columns: int) -> str:
    line = ""
    for part in parts:
        longer = f"{line} · {part}" if line else part
        if len(longer) > columns:
            break
        line = longer
    return line
