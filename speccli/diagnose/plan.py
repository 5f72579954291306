"""The memory plan of a pairing on a machine, what is wrong with it, and what to change."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec

from speccli import checkpoint
from speccli.checkpoint import Checkpoints
from speccli.diagnose import Finding, Group
from speccli.diagnose.precision import precision
from speccli.diagnose.sight import Sight
from speccli.errors import SpeccliError, UsageError
from speccli.hardware import Hardware
from speccli.pairing import Pairing
from speccli.plan import GPU_MEMORY_UTILIZATION, Plan, fixes, forecast, known, trial
from speccli.plan.context import own_context
from speccli.plan.estimate import Estimate, total
from speccli.plan.interval import GIB
from speccli.plan.trial import Fix
from speccli.profile import Profile
from speccli.source import described

MOST_FIXES = 6

WASTEFUL_PADDING = 0.1


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would be. `plan` is None where the checkpoints' sizes are not known, or the devices are too few."""

    pairing: Pairing
    plan: Plan | None
    fixes: tuple[Fix, ...]
    group: Group


def outlook(asked: Profile, sight: Sight, pull: str) -> Outlook:
    """`pull` is the command that fetches the checkpoints."""
    completed, machine, chosen = sight.completed, sight.machine, sight.chosen
    checkpoints = _checkpoints(sight)
    if checkpoints is None:
        return Outlook(pairing=chosen, plan=None, fixes=(), group=_group(_unknown(chosen, pull)))
    try:
        plan = forecast(completed, machine, chosen, checkpoints)
    except SpeccliError as error:
        return Outlook(pairing=chosen, plan=None, fixes=(), group=_group(_indivisible(error, machine)))
    found: tuple[Fix, ...] = ()
    if plan.estimate is not None and plan.estimate.verdict != "fits":
        case = trial.case_of(asked, completed, machine, chosen, checkpoints)
        found = tuple(itertools.islice(fixes.suggestions(case), MOST_FIXES))
    return Outlook(pairing=chosen, plan=plan, fixes=found, group=_group(*_findings(plan, found)))


def _checkpoints(sight: Sight) -> Checkpoints | None:
    """Those on this machine, else as the pairing file describes them, else as the hub does."""
    seen = None if sight.seen is None else checkpoint.as_seen(sight.seen)
    return seen if seen is not None and not sight.absent else known.of_catalogue(sight.chosen) or seen


def _group(*findings: Finding) -> Group:
    return Group(title="Plan", findings=findings)


def _findings(plan: Plan, found: tuple[Fix, ...]) -> Iterator[Finding]:
    if plan.estimate is None:
        return
    yield _memory(plan, plan.estimate, found)
    for rule in (_context, _start, _outside, _padding, _doubts):
        finding = rule(plan, plan.estimate)
        if finding is not None:
            yield finding
    yield from precision(plan)


def _memory(plan: Plan, estimate: Estimate, found: tuple[Fix, ...]) -> Finding:
    tokens, (least, most) = estimate.kv_tokens, estimate.concurrency
    room = f"{tokens.low:,} to {tokens.high:,} KV tokens" if tokens.low != tokens.high else f"{tokens.low:,} KV tokens"
    if estimate.verdict == "fits":
        requests = f"{least:.1f} to {most:.1f}" if f"{least:.1f}" != f"{most:.1f}" else f"{least:.1f}"
        evidence = f"fits {_machine(plan)}: {room}, {requests} requests of {estimate.max_model_len:,} tokens at once"
        return Finding(id="plan.memory", severity="ok", title="memory", evidence=evidence)
    does_not_fit = estimate.verdict == "does_not_fit"
    longest = estimate.max_model_len_that_fits
    context = f"; the longest context that surely fits is {longest:,}" if longest else ""
    return Finding(
        id="plan.memory",
        severity="error" if does_not_fit else "warning",
        title="memory",
        evidence=f"{'does not fit' if does_not_fit else 'is tight on'} {_machine(plan)}{context}",
        cause=estimate.problem,
        fix=found[0].told if found else "choose a smaller target, or a machine with more memory",
        stops_runs=does_not_fit,
    )


def _context(plan: Plan, estimate: Estimate) -> Finding | None:
    own = own_context(plan.target)
    if own is None or estimate.max_model_len <= own:
        return None
    return Finding(
        id="plan.context",
        severity="error",
        title="context",
        evidence=f"{estimate.max_model_len:,} tokens, and {plan.target.name} was made for {own:,}",
        cause="vLLM refuses a context beyond the model's own",
        fix=f"--max-model-len {own}",
    )


def _start(plan: Plan, estimate: Estimate) -> Finding | None:
    """vLLM's own check before it loads anything."""
    most, is_sure = estimate.largest_utilization, estimate.budget_bytes <= estimate.surely_free_bytes
    if most is None or is_sure or estimate.verdict == "does_not_fit":
        return None
    asked = plan.profile.settings.gpu_memory_utilization or GPU_MEMORY_UTILIZATION
    return Finding(
        id="plan.utilization",
        severity="warning",
        title="share",
        evidence=f"gpu_memory_utilization {asked:g}, and up to {most:.2f} is sure to be free",
        cause="the CUDA context takes its memory before vLLM looks how much is free",
        fix=f"--gpu-memory-utilization {most:.2f}",
    )


def _outside(plan: Plan, estimate: Estimate) -> Finding | None:
    """Memory that vLLM does not plan for: it comes out of what activations leave, and out of the rest of the GPU."""
    beyond = sum(part.high for part in estimate.outside_budget.values())
    is_given = plan.profile.settings.kv_cache_gib is not None
    held = total(estimate.bytes).low if is_given else estimate.budget_bytes
    rest = max(0, estimate.total_bytes - held + estimate.bytes["activations"].low)
    if beyond <= rest:
        return None
    parts = ", ".join(
        f"{name.replace('_', ' ')} {part.high / GIB:.1f} GiB"
        for name, part in estimate.outside_budget.items()
        if part.high
    )
    return Finding(
        id="plan.outside-budget",
        severity="warning",
        title="beyond budget",
        evidence=f"{parts}, and {rest / GIB:.1f} GiB are left for that",
        cause="vLLM's profile run does not see it, so a full batch may run out of memory while serving",
        fix=f"--max-num-seqs {max(1, int(estimate.max_num_seqs * rest / beyond))}, or {'a smaller kv_cache_gib' if is_given else 'a lower --gpu-memory-utilization'}",
    )


def _padding(_: Plan, estimate: Estimate) -> Finding | None:
    if estimate.padding_share <= WASTEFUL_PADDING:
        return None
    return Finding(
        id="plan.kv-padding",
        severity="info",
        title="KV padding",
        evidence=f"{estimate.padding_share:.0%} of the KV cache is padding",
        cause="vLLM cuts layers of different kinds into groups of equal size, and the speculator's do not go into the target's evenly",
    )


def _doubts(_: Plan, estimate: Estimate) -> Finding | None:
    if not estimate.doubts:
        return None
    return Finding(
        id="plan.confidence",
        severity="info",
        title="confidence",
        evidence=f"not modelled well: {', '.join(estimate.doubts)}",
        cause="the estimate is wider for it",
    )


def _unknown(chosen: Pairing, pull: str) -> Finding:
    return Finding(
        id="plan.unknown",
        severity="info",
        title="memory",
        evidence=f"the sizes of {described(chosen.target_source)} are not known",
        cause="no pairing file describes this target with this speculator, and they are not on this machine",
        fix=pull,
    )


def _indivisible(error: SpeccliError, machine: Hardware) -> Finding:
    return Finding(
        id="plan.devices",
        severity="error",
        title="devices",
        evidence=error.message,
        cause=_why_indivisible(error, machine),
        fix=error.hint,
        stops_runs=True,
    )


def _why_indivisible(error: SpeccliError, machine: Hardware) -> str:
    if isinstance(error, UsageError):
        return "vLLM gives every part of a model as many attention heads as the others"
    owned = "NUMA node" if machine.kind == "cpu" else "device"
    return f"each part of the target needs a {owned} of its own"


def _machine(plan: Plan) -> str:
    count = plan.estimate.num_devices if plan.estimate else 1
    return f"{count} x {plan.hardware.name}" if count > 1 else plan.hardware.name
