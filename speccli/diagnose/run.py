"""After a run: what its acceptance statistics say to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import BytesIO

import msgspec

from speccli.diagnose import Finding, Group
from speccli.diagnose.failures import UNKNOWN, explain
from speccli.diagnose.observed import Observed
from speccli.stats import Acceptance, total

VERIFY_COST = 0.02
"""Assumed: what verifying one more token adds to a step of the target, for few requests at once."""

DRAFT_COSTS = {
    "ngram": 0.0,
    "ngram_gpu": 0.0,
    "suffix": 0.0,
    "medusa": 0.01,
    "eagle": 0.05,
    "eagle3": 0.05,
    "mtp": 0.05,
    "dflash": 0.02,
    "dspark": 0.02,
    "draft_model": 0.1,
}
"""Assumed: what drafting one token costs, in steps of the target."""

UNKNOWN_DRAFT_COST = 0.05
WITHOUT_WEIGHTS = ("ngram", "ngram_gpu", "suffix")

ENOUGH_DRAFTS = 20
"""Fewer say little."""
NOTHING = 0.02
SELDOM = 0.1
OFTEN = 0.7
LOW_FIRST = 0.3
WORTH_SAYING = 1.02
FALLEN, ONCE_GOOD, WINDOWS = 0.1, 0.3, 5
MANY_RUNNING, VERY_MANY_RUNNING = 32, 128


class Gain(msgspec.Struct, frozen=True):
    """The expected speed-up over plain decoding at some k."""

    k: int
    speedup: float


def after_run(observed: Observed) -> Group:
    """The findings, those that explain most first."""
    findings = tuple(finding for rule in RULES for finding in rule(observed))
    return Group(title="Run", findings=findings)


def gains(acceptance: Acceptance, method: str, k: int) -> list[Gain]:
    """Tokens of a step over its cost, for every k up to the one that ran. Per-position rates are unconditional: they add up."""
    cost = DRAFT_COSTS.get(method, UNKNOWN_DRAFT_COST) + VERIFY_COST
    tokens, found = 1.0, [Gain(0, 1.0)]
    for index, rate in enumerate(acceptance.acceptance_rate_per_pos[:k], 1):
        tokens += rate
        found.append(Gain(index, tokens / (1 + index * cost)))
    return found


def _summary(observed: Observed) -> Iterator[Finding]:
    """Named by their formulas, for tools count differently."""
    acceptance = observed.acceptance
    if not acceptance.num_drafts:
        return
    rates = "  ".join(f"{index}: {rate:.0%}" for index, rate in enumerate(acceptance.acceptance_rate_per_pos, 1))
    by_position = f"; accepted by position  {rates}" if rates else ""
    yield Finding(
        id="run.acceptance",
        severity="ok",
        title="acceptance",
        evidence=f"mean acceptance length {acceptance.mean_acceptance_length:.2f} (1 + accepted / drafts), "
        f"rate {acceptance.draft_acceptance_rate:.3f} (accepted / drafted): {acceptance.num_accepted_tokens:,} of "
        f"{acceptance.num_draft_tokens:,} tokens in {acceptance.num_drafts:,} drafts{by_position}",
    )


def _nothing_yet(observed: Observed) -> Iterator[Finding]:
    """vLLM sets its counters up at 0 (`v1/spec_decode/metrics.py: SpecDecodingProm`)."""
    acceptance = observed.acceptance
    counts = (acceptance.num_drafts, acceptance.num_draft_tokens, *acceptance.num_accepted_tokens_per_pos)
    if observed.num_generated_tokens != 0 or any(counts):
        return
    yield Finding(
        id="run.nothing-yet",
        severity="info",
        title="amount",
        evidence="nothing was generated yet: every counter is at 0",
        cause="the server has just started, or nobody has asked it anything",
        fix="ask again after some requests",
    )


def _no_drafts(observed: Observed) -> Iterator[Finding]:
    if observed.acceptance.num_drafts or observed.acceptance.num_draft_tokens or not observed.num_generated_tokens:
        return
    tokens = f"{observed.num_generated_tokens:,} tokens, and not one draft"
    if observed.method == "none":
        yield Finding(
            id="run.no-drafts", severity="info", title="drafts", evidence=tokens, cause="it ran with --no-spec"
        )
    elif observed.method in WITHOUT_WEIGHTS:
        yield Finding(
            id="run.no-drafts",
            severity="info",
            title="drafts",
            evidence=tokens,
            cause=f"{observed.method} drafts where the text repeats itself, and this one did not",
            fix="nothing for such text: --method eagle3 or draft_model suits free text; n-grams suit code and summaries",
        )
    else:
        yield Finding(
            id="run.no-drafts",
            severity="warning",
            title="drafts",
            evidence=tokens + ("" if observed.counts_speculation else "; the metrics do not know speculation"),
            cause="speculation is not in force: none was configured, or vLLM left it out",
            fix="--method and --speculator (vllm serve: --spec-method, --spec-model, --spec-tokens), and look for a warning in the engine's log: speccli doctor --last",
        )


def _little(observed: Observed) -> Iterator[Finding]:
    drafts = observed.acceptance.num_drafts
    if 0 < drafts < ENOUGH_DRAFTS:
        yield Finding(
            id="run.little-data",
            severity="info",
            title="amount",
            evidence=f"{drafts} drafts",
            cause=f"fewer than {ENOUGH_DRAFTS} say little about a pairing",
            fix="a longer answer, or a batch of your own prompts",
        )


def _nothing_accepted(observed: Observed) -> Iterator[Finding]:
    if not _is_enough(observed) or observed.acceptance.draft_acceptance_rate >= NOTHING:
        return
    accepted, drafted = observed.acceptance.num_accepted_tokens, observed.acceptance.num_draft_tokens
    evidence = f"{accepted:,} of {drafted:,} drafted tokens accepted"
    if observed.method in WITHOUT_WEIGHTS:
        yield Finding(
            id="run.nothing-accepted",
            severity="warning",
            title="acceptance",
            evidence=evidence,
            cause="the text goes on in another way than where it repeats itself",
            fix="a larger prompt_lookup_min (3 or more), or --no-spec for such text",
        )
        return
    yield Finding(
        id="run.nothing-accepted",
        severity="error",
        title="acceptance",
        evidence=evidence,
        cause="the speculator does not belong to this target: made for another model or version of it, another tokenizer, "
        "a map of its vocabulary or biases that were not loaded, or weights that overflow in float16",
        fix="speccli doctor with the same options checks the pair; then a speculator made for exactly this target, or --method ngram",
    )


def _low(observed: Observed) -> Iterator[Finding]:
    rates = observed.acceptance.acceptance_rate_per_pos
    rate = observed.acceptance.draft_acceptance_rate
    first = rates[0] if rates else rate
    if not _is_enough(observed) or rate < NOTHING or first >= LOW_FIRST:
        return
    yield Finding(
        id="run.low-acceptance",
        severity="warning",
        title="acceptance",
        evidence=f"the first drafted token is accepted {first:.0%} of the time",
        cause="text that is hard to foresee, a high temperature, prompts longer than the speculator was trained for, "
        "or a speculator of another version of the target",
        fix="a lower --temperature where that is allowed; shorter prompts; -k 1; another speculator; or --no-spec",
    )


def _k(observed: Observed) -> Iterator[Finding]:
    rates = observed.acceptance.acceptance_rate_per_pos
    k = min(observed.k, len(rates))
    if not _is_enough(observed) or k < 1 or observed.acceptance.draft_acceptance_rate < NOTHING:
        return
    found = gains(observed.acceptance, observed.method, k)
    best, now = max(found, key=lambda gain: gain.speedup), found[k]
    if best.speedup <= 1:
        yield _does_not_pay(observed, now)
    elif best.k < k and (best.speedup >= now.speedup * WORTH_SAYING or rates[k - 1] < SELDOM):
        yield _smaller_k(observed, best, now, rates)
    elif best.k == k and rates[k - 1] >= OFTEN:
        yield _larger_k(observed, now, rates)


def _smaller_k(observed: Observed, best: Gain, now: Gain, rates: Sequence[float]) -> Finding:
    wasted = observed.acceptance.num_drafts * (now.k - best.k)
    return Finding(
        id="run.k-too-large",
        severity="warning",
        title="k",
        evidence=f"position {now.k} is accepted {rates[now.k - 1]:.0%} of the time, position {best.k} {rates[best.k - 1]:.0%}",
        cause=f"k={best.k} would save drafting and verifying {wasted:,} tokens: expected {best.speedup:.2f} times plain decoding "
        f"against {now.speedup:.2f} with k={now.k} ({_assumption(observed.method)})",
        fix=f"-k {best.k}",
    )


def _larger_k(observed: Observed, now: Gain, rates: Sequence[float]) -> Finding:
    return Finding(
        id="run.k-too-small",
        severity="info",
        title="k",
        evidence=f"position {now.k}, the last one, is accepted {rates[now.k - 1]:.0%} of the time",
        cause="one more token would often be accepted too",
        fix=f"try -k {now.k + 1}" + (", if the file has a head for it" if observed.method == "medusa" else ""),
    )


def _does_not_pay(observed: Observed, now: Gain) -> Finding:
    return Finding(
        id="run.does-not-pay",
        severity="warning",
        title="gain",
        evidence=f"expected {now.speedup:.2f} times plain decoding",
        cause=f"at this acceptance drafting and verifying cost more than accepted tokens save, at every k up to {now.k} "
        f"({_assumption(observed.method)})",
        fix="--no-spec, or another speculator; --method ngram costs next to nothing",
    )


def _falling(observed: Observed) -> Iterator[Finding]:
    readings = [reading for reading in observed.readings if reading.num_drafts]
    if len(readings) < 2 * WINDOWS:
        return
    early = total(readings[: len(readings) // 3]).draft_acceptance_rate
    late = readings[-WINDOWS:]
    if early < ONCE_GOOD or any(reading.draft_acceptance_rate >= FALLEN for reading in late):
        return
    yield Finding(
        id="run.falling",
        severity="warning",
        title="acceptance",
        evidence=f"{early:.0%} at first, {total(late).draft_acceptance_rate:.0%} in the last {WINDOWS} of {len(readings)} readings",
        cause="speculation no longer helps: later text that is harder to foresee, contexts beyond what the speculator was trained for, "
        "or a fault of the engine's that grows with time (known of MTP on hybrid models)",
        fix="start the engine again; if it falls again on the same text, --no-spec, and a newer vLLM",
    )


def _busy(observed: Observed) -> Iterator[Finding]:
    running, k = observed.num_running or 0, observed.k
    if running < MANY_RUNNING or k <= 2 or not observed.acceptance.num_drafts:
        return
    off = running >= VERY_MANY_RUNNING
    yield Finding(
        id="run.large-batch",
        severity="warning",
        title="batch",
        evidence=f"{running:.0f} requests at once with k={k}: {int(running) * (k + 1):,} tokens a step",
        cause="with many requests the target is bound by arithmetic, and every rejected token costs",
        fix="--no-spec for such a load"
        if off
        else "-k 1 or 2 for such a load, or num_speculative_tokens_per_batch_size",
    )


def _failed(observed: Observed) -> Iterator[Finding]:
    if not observed.errors:
        return
    commonest, times = observed.errors[0]
    texts = "\n".join(text for text, _ in observed.errors)
    why = explain(BytesIO(texts.encode("utf-8", "replace"))).findings
    known = next((failure for failure in why if failure.id != UNKNOWN), None)
    yield Finding(
        id="run.failed-requests",
        severity="warning",
        title="requests",
        evidence=f"{observed.num_failed:,} of {observed.num_answers + observed.num_failed:,} failed; {times} with: {commonest[:300]}",
        cause=known.cause if known else "",
        fix=known.fix if known else "the record of each line has its error",
    )


RULES: tuple[Callable[[Observed], Iterator[Finding]], ...] = (
    _summary,
    _nothing_yet,
    _no_drafts,
    _nothing_accepted,
    _falling,
    _low,
    _k,
    _busy,
    _failed,
    _little,
)


def _is_enough(observed: Observed) -> bool:
    return observed.acceptance.num_drafts >= ENOUGH_DRAFTS


def _assumption(method: str) -> str:
    draft = DRAFT_COSTS.get(method, UNKNOWN_DRAFT_COST)
    return f"assumed: drafting a token costs {draft:.0%} of a target step, verifying one more {VERIFY_COST:.0%}"
