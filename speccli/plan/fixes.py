"""Fixes: what to change where a pairing does not fit, the cheapest first. Each is planned again, and its effect is that plan's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from speccli.checkpoint import Checkpoints
from speccli.hardware import Hardware
from speccli.pairing import Pairing, catalogue
from speccli.plan.context import own_context
from speccli.plan.interval import GIB
from speccli.plan.trial import Case, Fix, case_of, changed, tried
from speccli.profile import Profile, Settings

SMALLEST_CONTEXT = 1024
ROUND_CONTEXT = 256
NUM_SEQS = (64, 32, 16, 8, 4, 1)
BATCHED_TOKENS = (1024, 512, 256)
FP8_KV_SINCE = (8, 9)
MAX_DEVICES = 8
BESIDE = Settings(max_model_len=4096, max_num_seqs=16)
"""What goes together with other changes where no single one is enough."""


def first(completed: Profile, hardware: Hardware, pairing: Pairing, checkpoints: Checkpoints) -> Fix | None:
    """The cheapest change that makes it fit, for the hint of a run that is refused."""
    case = case_of(completed, completed, hardware, pairing, checkpoints)
    return next(suggestions(case), None)


def suggestions(case: Case) -> Iterator[Fix]:
    """Every change that makes it fit, the cheapest first; where none does alone, several together."""
    own = own_context(case.checkpoints.target)
    if own is not None and case.estimate.max_model_len > own:
        yield from _within(case, {"max_model_len": own})
        return
    found = False
    for changes in _single(case):
        fix = tried(case, changes)
        if fix is not None and fix.verdict == "fits":
            found = True
            yield fix
    if not found:
        yield from _together(case)


def _within(case: Case, shorter: dict[str, Any]) -> Iterator[Fix]:
    """A context that the model has, and what that takes beside it."""
    asked, completed = changed(case.asked, shorter), changed(case.completed, shorter)
    within = case_of(asked, completed, case.hardware, case.pairing, case.checkpoints)
    beside = [{}] if within.estimate.verdict == "fits" else (fix.changes for fix in suggestions(within))
    for changes in beside:
        fix = tried(case, {**shorter, **changes})
        if fix is not None:
            yield fix


def _single(case: Case) -> Iterator[dict[str, Any]]:
    for way in WAYS:
        yield from way(case)


def _together(case: Case) -> Iterator[Fix]:
    """Each of the larger changes with another share of the memory, with a short context and few requests, or with both."""
    estimate = case.estimate
    small = {
        "max_model_len": min(estimate.max_model_len, BESIDE.max_model_len or 0),
        "max_num_seqs": min(estimate.max_num_seqs, BESIDE.max_num_seqs or 0),
    }
    shares = list(_utilization(case))
    beside = [*shares, small, *({**small, **share} for share in shares)]
    for changes in ({}, *_kv_dtype(case), *_methods(case), *_variants(case), *_devices(case)):
        tries = (tried(case, {**added, **changes}) for added in beside)
        fix = next((one for one in tries if one is not None and one.verdict == "fits"), None)
        if fix is not None:
            yield fix


def _context(case: Case) -> Iterator[dict[str, Any]]:
    longest = case.estimate.max_model_len_that_fits // ROUND_CONTEXT * ROUND_CONTEXT
    if SMALLEST_CONTEXT <= longest < case.estimate.max_model_len:
        yield {"max_model_len": longest}


def _utilization(case: Case) -> Iterator[dict[str, Any]]:
    """Up to what is free at the start, less what serving takes beyond the budget; down where that share is not free."""
    estimate = case.estimate
    if estimate.largest_utilization is None:
        return
    beyond = sum(part.low for part in estimate.outside_budget.values())
    most = int(100 * (estimate.largest_utilization - beyond / estimate.total_bytes)) / 100
    if most >= 0.1 and math.ceil(estimate.total_bytes * most) != estimate.budget_bytes:
        yield {"gpu_memory_utilization": most}


def _num_seqs(case: Case) -> Iterator[dict[str, Any]]:
    if case.hardware.kind == "cuda":
        yield from _first_that_fits(case, "max_num_seqs", (n for n in NUM_SEQS if n < case.estimate.max_num_seqs))


def _batched_tokens(case: Case) -> Iterator[dict[str, Any]]:
    least = case.estimate.max_num_seqs * (case.pairing.num_speculative_tokens + 1)
    engine = case.completed.settings.engine or {}
    for count in BATCHED_TOKENS if case.hardware.kind == "cuda" else ():
        if least <= count < case.estimate.max_num_batched_tokens:
            changes = {"engine": {**engine, "max_num_batched_tokens": count}}
            if _fits(case, changes):
                yield changes
                return


def _kv_dtype(case: Case) -> Iterator[dict[str, Any]]:
    capability = case.hardware.devices[0].compute_capability if case.hardware.devices else None
    if case.completed.settings.kv_cache_dtype in (None, "auto") and (capability or (0, 0)) >= FP8_KV_SINCE:
        yield {"kv_cache_dtype": "fp8"}


def _eager(case: Case) -> Iterator[dict[str, Any]]:
    if case.hardware.kind == "cuda" and not case.completed.settings.enforce_eager:
        yield {"enforce_eager": True}


def _kv_space(case: Case) -> Iterator[dict[str, Any]]:
    """On the CPU the KV cache always has a size of its own, in whole GiB; on a GPU it may have one."""
    estimate = case.estimate
    now, needed = estimate.kv_cache.high, estimate.one_request_bytes
    if case.hardware.kind == "cpu":
        whole = -(-needed // GIB)
        if whole != now // GIB:
            yield {"kv_cache_gib": whole}
    elif case.completed.settings.kv_cache_gib is not None:
        room = _room_for_cache(case)
        size = math.ceil(10 * needed / GIB) if now < needed else math.floor(10 * room / GIB)
        if 0 < size * GIB <= 10 * room:
            yield {"kv_cache_gib": size / 10}
        yield {"kv_cache_gib": None}


def _room_for_cache(case: Case) -> int:
    """What a GPU surely has for a KV cache of a given size, less what serving takes beyond the budget."""
    estimate = case.estimate
    rest = sum(part.high for purpose, part in estimate.bytes.items() if purpose != "kv_cache")
    return estimate.surely_free_bytes - rest - sum(part.low for part in estimate.outside_budget.values())


def _fewer_tokens(case: Case) -> Iterator[dict[str, Any]]:
    now = case.pairing.num_speculative_tokens
    yield from _first_that_fits(case, "num_speculative_tokens", range(now - 1, 0, -1))


def _methods(case: Case) -> Iterator[dict[str, Any]]:
    """The lighter speculators of the same target: heads before draft models, and plain decoding last."""
    pairing = case.pairing
    if pairing.is_speculative and pairing.entry is not None and pairing.variant is not None:
        own = pairing.speculator_weight_bytes or 0
        others = [
            one
            for one in pairing.entry.file.speculators
            if one.goes_with(pairing.variant.name) and one.method != pairing.method
        ]
        lighter = {one.method: one for one in reversed(others) if (catalogue.weight_bytes_of(one) or 0) < own}
        for one in sorted(lighter.values(), key=lambda one: others.index(one)):
            yield {"method": one.method, "speculator": None, "num_speculative_tokens": None}
    if pairing.is_speculative and pairing.speculator_source is not None:
        yield {"method": "none", "speculator": None, "num_speculative_tokens": None}


def _variants(case: Case) -> Iterator[dict[str, Any]]:
    """The same target in less precision, the most precise first."""
    pairing = case.pairing
    if pairing.entry is None or pairing.variant is None:
        return
    own = pairing.variant.weight_bytes or 0
    smaller = [one for one in pairing.entry.file.targets if 0 < (one.weight_bytes or 0) < own]
    for one in sorted(smaller, key=lambda one: -(one.weight_bytes or 0)):
        yield {"target": one.name}


def _smaller_targets(case: Case) -> Iterator[dict[str, Any]]:
    """What the catalogue takes on that machine where nothing is asked for."""
    found = catalogue.default_for(case.hardware)
    if found is not None and case.pairing.entry is not None and found[0].name != case.pairing.entry.name:
        yield {"target": found[0].name, "method": None, "speculator": None, "num_speculative_tokens": None}


def _devices(case: Case) -> Iterator[dict[str, Any]]:
    """More of the same device; on a machine that is named, one that has them."""
    hardware, count = case.hardware, case.estimate.num_devices
    if hardware.kind != "cuda":
        return
    while (count := 2 * count) <= MAX_DEVICES:
        changes: dict[str, Any] = {"tensor_parallel_size": count}
        if count > len(hardware.devices):
            if hardware.source != "named":
                return
            changes["hardware"] = f"{hardware.name}x{count}"
        if _fits(case, changes):
            yield changes
            return


WAYS: tuple[Callable[[Case], Iterator[dict[str, Any]]], ...] = (
    _context,
    _kv_space,
    _utilization,
    _num_seqs,
    _batched_tokens,
    _kv_dtype,
    _eager,
    _fewer_tokens,
    _methods,
    _variants,
    _smaller_targets,
    _devices,
)


def _first_that_fits(case: Case, key: str, values: Iterator[int] | range) -> Iterator[dict[str, Any]]:
    for value in values:
        if _fits(case, {key: value}):
            yield {key: value}
            return


def _fits(case: Case, changes: dict[str, Any]) -> bool:
    fix = tried(case, changes)
    return fix is not None and fix.verdict == "fits"
