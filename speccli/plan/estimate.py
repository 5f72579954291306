"""Estimate: bytes by purpose on each device, what is left for the KV cache, and whether that is enough."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from speccli.errors import MachineError, UsageError
from speccli.hardware import Hardware
from speccli.plan import budget as budgets
from speccli.plan import engine_memory as engine
from speccli.plan.budget import Budget
from speccli.plan.context import own_context
from speccli.plan.interval import GIB, NOTHING, Interval, exactly
from speccli.plan.kv import Cache
from speccli.plan.sizes import Sizes
from speccli.profile import Settings

Verdict = Literal["fits", "tight", "does_not_fit"]
"""Both ends of the estimate fit; only the optimistic one does; not even that."""

UNKNOWN_ENGINE = Interval(int(0.3 * GIB), 2 * GIB)
"""Activations, buffers and graphs where the target's config tells no sizes: 0.5 to 3 GiB in public logs."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Of one device; with several each of them holds as much."""

    verdict: Verdict
    problem: str
    """Why it is not "fits", in a sentence; else empty."""
    num_devices: int
    device: str
    on_cpu: bool
    runner: engine.Runner
    total_bytes: int
    budget_bytes: int
    bytes: dict[str, Interval]
    """By purpose, within the budget."""
    outside_budget: dict[str, Interval]
    """What serving takes beyond it."""
    kv_bytes_per_token: int
    draft_kv_share: float
    """The speculator's part of those."""
    block_size: int
    padding_share: float
    """Of the KV cache, lost to make groups of layers equally large."""
    kv_tokens: Interval
    """That requests of the whole context hold together."""
    max_model_len: int
    max_model_len_that_fits: int
    """By the pessimistic end; 0 where not even a short request fits."""
    one_request_bytes: int
    max_num_seqs: int
    max_num_batched_tokens: int
    largest_utilization: float | None = None
    """That passes vLLM's check at the start; None on the CPU."""
    surely_free_bytes: int = 0
    """Before the engine starts, of `total_bytes`."""
    doubts: tuple[str, ...] = ()
    """What is not modelled well and widens the interval."""

    @property
    def concurrency(self) -> tuple[float, float]:
        """Requests of the whole context at once."""
        return self.kv_tokens.low / self.max_model_len, self.kv_tokens.high / self.max_model_len

    @property
    def kv_cache(self) -> Interval:
        return self.bytes["kv_cache"]


def of_run(settings: Settings, hardware: Hardware, sizes: Sizes) -> Estimate:
    """Raises `MachineError` where there are fewer devices than are asked for, `UsageError` where they do not divide the heads."""
    count = sizes.load.tensor_parallel_size
    if hardware.kind == "cpu":
        _check_nodes(settings, hardware, count)
    else:
        _check_devices(hardware, count)
    _check_heads(sizes, count)
    if hardware.kind == "cpu":
        return on_cpu(sizes, hardware, cpu_kv_cache_bytes(settings, hardware, sizes))
    given = None if settings.kv_cache_gib is None else int(settings.kv_cache_gib * GIB)
    return on_gpu(sizes, hardware, settings.gpu_memory_utilization, given)


def _check_devices(hardware: Hardware, count: int) -> None:
    there = len(hardware.devices)
    if count > there:
        raise MachineError(
            f"tensor_parallel_size is {count}, and {hardware.name} has {there} device{'' if there == 1 else 's'}",
            f"--tensor-parallel-size {there}, or a machine with more devices",
        )


def _check_nodes(settings: Settings, hardware: Hardware, count: int) -> None:
    """vLLM binds each worker to a NUMA node, unless it is told the cores (`utils/ompmultiprocessing.py: _get_autobind_cpu_ids`)."""
    nodes = hardware.cpu.numa_nodes if hardware.cpu else 1
    if count > nodes and settings.threads_bind in (None, "auto"):
        raise MachineError(
            f"tensor_parallel_size is {count}, and {hardware.name} has {nodes} NUMA node{'' if nodes == 1 else 's'}",
            f"--tensor-parallel-size {nodes}, or threads_bind in the profile with cores for each of {count} workers, as in 0-3|4-7",
        )


def _check_heads(sizes: Sizes, count: int) -> None:
    """`vllm/config/model.py: verify_with_parallel_config`; a speculator is split over as many devices as its target."""
    both = ((sizes.target, sizes.shape), (sizes.speculator, sizes.draft.shape))
    for checkpoint, shape in both:
        heads = [group.num_heads for group in shape.attention] if shape else []
        odd = next((number for number in heads if number % count), None)
        if odd is not None and checkpoint is not None:
            nearest = max(number for number in range(1, count) if odd % number == 0)
            raise UsageError(
                f"tensor_parallel_size is {count}, and {checkpoint.name} has {odd} attention heads, which it does not divide",
                f"--tensor-parallel-size {nearest}",
            )


def cpu_kv_cache_bytes(settings: Settings, hardware: Hardware, sizes: Sizes) -> int:
    """Of each worker; vLLM takes whole GiB. Without a setting: what the requests can use, but at most a quarter of the free memory."""
    if settings.kv_cache_gib is not None:
        return max(1, round(settings.kv_cache_gib)) * GIB
    wanted = sizes.cache().request_bytes(sizes.load.max_model_len) * (settings.max_num_seqs or 1)
    available = hardware.cpu.memory_available_bytes if hardware.cpu else 0
    return max(1, min(math.ceil(wanted / GIB), available // sizes.load.tensor_parallel_size // 4 // GIB)) * GIB


def on_gpu(sizes: Sizes, hardware: Hardware, utilization: float | None, kv_cache_bytes: int | None = None) -> Estimate:
    """`gpu_worker.py: determine_available_memory`. A given size of the KV cache goes over vLLM's share."""
    budget = budgets.of_gpu(hardware, sizes.load.tensor_parallel_size, utilization)
    taken = taken_bytes(sizes)
    refused = "" if budget.is_free else _not_free(budget)
    if kv_cache_bytes is not None:
        return _with_given_cache(sizes, budget, taken, kv_cache_bytes, refused)
    return _judged(sizes, budget, taken, left(budget.budget_bytes, taken), refused)


def on_cpu(sizes: Sizes, hardware: Hardware, kv_cache_bytes: int) -> Estimate:
    """`cpu_worker.py: determine_available_memory`, with the size of the KV cache given."""
    budget = budgets.of_cpu(hardware, sizes.load.tensor_parallel_size)
    taken = {"target_weights": sizes.target_weights(), "draft_weights": sizes.draft_weights()}
    taken |= {"buffers": NOTHING, "activations": NOTHING, "graphs": NOTHING, "non_torch": budgets.CPU_OVERHEAD}
    return _with_given_cache(sizes, budget, taken, kv_cache_bytes, "")


def _with_given_cache(
    sizes: Sizes, budget: Budget, taken: dict[str, Interval], kv_cache_bytes: int, refused: str
) -> Estimate:
    """All of it has to be free; a share of the memory does not matter."""
    needed = total(taken) + exactly(kv_cache_bytes)
    free = Interval(budget.surely_free_bytes, max(0, budget.free_bytes - budget.context.low))
    each = f" for each of {sizes.load.tensor_parallel_size} workers" if _has_workers(sizes) else ""
    if not refused and needed.low > free.high:
        parts = f"{_weights(taken)}, KV cache {_gib(kv_cache_bytes)} and engine"
        least = needed.low - _weight_bytes(taken) - kv_cache_bytes
        asked, there = _apart(needed.low, free.high)
        refused = f"{parts} {_gib(least)} need {asked}, and {there} are free{each}"
    judged = _judged(sizes, budget, taken, exactly(kv_cache_bytes), refused, is_given=True)
    if judged.verdict == "fits" and needed.high > free.low:
        node = " of one NUMA node" if sizes.on_cpu and budget.context.high else ""
        asked, there = _apart(needed.high, free.low)
        problem = f"weights, KV cache and engine may need {asked}, and {there}{node} are free{each}"
        return msgspec.structs.replace(judged, verdict="tight", problem=problem, max_model_len_that_fits=0)
    return judged


def _has_workers(sizes: Sizes) -> bool:
    return sizes.on_cpu and sizes.load.tensor_parallel_size > 1


def taken_bytes(sizes: Sizes) -> dict[str, Interval]:
    """What a GPU's budget holds beside the KV cache."""
    both = {"target_weights": sizes.target_weights(), "draft_weights": sizes.draft_weights()}
    load, draft = sizes.load, sizes.draft
    if sizes.shape is None:
        return {**both, "buffers": NOTHING, "activations": UNKNOWN_ENGINE, "graphs": NOTHING, "non_torch": NOTHING}
    return {
        **both,
        "buffers": engine.buffers(sizes.shape, draft, load),
        "activations": engine.activations(sizes.shape, draft, sizes.form, load),
        "graphs": engine.graphs(sizes.shape, draft, load),
        "non_torch": engine.non_torch(load.tensor_parallel_size),
    }


def total(parts: dict[str, Interval]) -> Interval:
    return sum(parts.values(), NOTHING)


def left(budget_bytes: int, taken: dict[str, Interval]) -> Interval:
    """For the KV cache; below zero where the rest alone is too much."""
    needed = total(taken)
    return Interval(budget_bytes - needed.high, budget_bytes - needed.low)


def _judged(
    sizes: Sizes, budget: Budget, taken: dict[str, Interval], room: Interval, refused: str, *, is_given: bool = False
) -> Estimate:
    """`refused` is why vLLM would not start at all; with `is_given` the size of the KV cache is a setting."""
    cache, load = sizes.cache(), sizes.load
    needed = cache.request_bytes(load.max_model_len)
    verdict, problem = _verdict(sizes, budget, cache, taken, room, refused, is_given=is_given)
    limit = own_context(sizes.target) or max(sizes.target.max_position_embeddings or 0, load.max_model_len)
    return Estimate(
        verdict=verdict,
        problem=problem,
        num_devices=load.tensor_parallel_size,
        device=budget.device,
        on_cpu=sizes.on_cpu,
        runner=load.runner,
        total_bytes=budget.total_bytes,
        budget_bytes=budget.budget_bytes,
        bytes={**taken, "kv_cache": Interval(max(0, room.low), max(0, room.high))},
        outside_budget={} if sizes.on_cpu or sizes.shape is None else engine.outside(sizes.shape, sizes.draft, load),
        kv_bytes_per_token=cache.bytes_per_token(load.max_model_len),
        draft_kv_share=cache.draft_share,
        block_size=cache.block_size,
        padding_share=cache.padding_share,
        kv_tokens=Interval(*(cache.tokens(end, load.max_model_len) for end in (room.low, room.high))),
        max_model_len=load.max_model_len,
        max_model_len_that_fits=0 if refused else cache.longest(room.low, limit),
        one_request_bytes=needed,
        max_num_seqs=load.max_num_seqs,
        max_num_batched_tokens=load.max_num_batched_tokens,
        largest_utilization=None if sizes.on_cpu else budget.largest_utilization,
        surely_free_bytes=budget.surely_free_bytes,
        doubts=sizes.shape.doubts if sizes.shape else ("the target's config.json does not tell its shape",),
    )


def _verdict(
    sizes: Sizes,
    budget: Budget,
    cache: Cache,
    taken: dict[str, Interval],
    room: Interval,
    refused: str,
    *,
    is_given: bool,
) -> tuple[Verdict, str]:
    if refused:
        return "does_not_fit", refused
    needed = cache.request_bytes(sizes.load.max_model_len)
    if room.low >= needed:
        return "fits", ""
    if room.high < 0:
        return (
            "does_not_fit",
            f"{_weights(taken)} and the engine need {_gib(total(taken).low)} or more of a budget of {_gib(budget.budget_bytes)}",
        )
    one = f"one request of {sizes.load.max_model_len:,} tokens takes"
    most, asked = _apart(room.high, needed)
    if is_given:
        return "does_not_fit", f"{one} {asked} of KV cache, and {most} are set aside for it"
    of = f"of a budget of {_gib(budget.budget_bytes)} for the KV cache"
    if room.high < needed:
        return "does_not_fit", f"{_weights(taken)} and the engine leave at most {most} {of}; {one} {asked}"
    least, asked = _apart(room.low, needed) if room.low > 0 else ("nothing", _gib(needed))
    return "tight", f"{_weights(taken)} and the engine leave {least} to {_gib(room.high)} {of}; {one} {asked}"


def _not_free(budget: Budget) -> str:
    share, free = _apart(budget.budget_bytes, max(0, budget.free_bytes - budget.context.low))
    return f"vLLM asks for {share} of {_gib(budget.total_bytes)} at the start, and {free} are free"


def _weight_bytes(taken: dict[str, Interval]) -> int:
    return taken["target_weights"].low + taken["draft_weights"].low


def _weights(taken: dict[str, Interval]) -> str:
    draft = taken["draft_weights"].low
    return f"weights {_gib(taken['target_weights'].low)}" + (f", speculator {_gib(draft)}" if draft else "")


def _apart(one: int, other: int) -> tuple[str, str]:
    """Both, with as many digits as tell them apart."""
    told = [(_gib(one, digits), _gib(other, digits)) for digits in (1, 2, 3)]
    return next(((first, second) for first, second in told if first != second), told[-1])


def _gib(size: int, digits: int = 1) -> str:
    return f"{size / GIB:.{digits}f} GiB" if size >= GIB / 20 or size <= 0 else f"{size / 2**20:.0f} MiB"
