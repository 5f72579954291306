"""The plan's arithmetic against public measurements. `pytest -s tests/plan/test_measurements.py` prints the tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

import msgspec

from speccli.checkpoint import Checkpoint
from speccli.plan import draft, estimate, kv, quantization, shape, weights
from speccli.plan.draft import Draft
from speccli.plan.engine_memory import Load
from speccli.plan.interval import GIB, NOTHING, Interval
from speccli.plan.shape import Shape
from speccli.plan.sizes import Sizes
from tests.plan import measurements as logs

OLD_SAMPLER = Interval(36, 41)
"""Bytes for a logit: torch's own sort, 38.7 over nine logs."""


class Row(msgspec.Struct, frozen=True):
    id: str
    case: str
    predicted: str
    reported: str
    error: float
    note: str = ""


def shape_of(config: dict[str, Any]) -> Shape:
    found = shape.of_config(config)
    assert found is not None
    return found


def show(title: str, rows: Iterable[Row], unit: str) -> None:
    print(f"\n{title}")  # noqa: T201
    for row in rows:
        error = f"{row.error:+.2f} {unit}"
        print(f"  {row.id}  {row.case:<44}{row.predicted:>20}{row.reported:>12}{error:>11}  {row.note}".rstrip())  # noqa: T201


def median(rows: Iterable[Row]) -> float:
    return statistics.median(abs(row.error) for row in rows)


def weight_row(one: logs.Weights) -> Row:
    form = quantization.of_config(one.config, 2)
    size = one.tensor_parallel_size
    model = shape_of(one.config)
    value = weights.formula_bytes(model, form, 2, size) + 2 * one.beside_parameters
    value += weights.padding_bytes(model, form, size)
    found = value / GIB
    case = f"{one.case} TP{size}" if size > 1 else one.case
    return Row(one.id, case, f"{found:.4f}", f"{one.reported:.4f}", 100 * (found / one.reported - 1))


def test_weights_are_predicted_to_a_tenth_of_a_percent() -> None:
    rows = [weight_row(one) for one in logs.WEIGHTS]
    show("Weights on one device, GiB", rows, "%")
    print(f"  median {median(rows):.3f} %, worst {max(abs(row.error) for row in rows):.2f} %")  # noqa: T201
    assert median(rows) <= 0.1
    assert max(abs(row.error) for row in rows) <= 2.0


def test_reported_weights_lie_in_the_stated_interval() -> None:
    outside = []
    for one in logs.WEIGHTS:
        form = quantization.of_config(one.config, 2)
        stated = weights.on_device(shape_of(one.config), form, 2, one.tensor_parallel_size)
        beside = 2 * one.beside_parameters
        rounding = 0.005 * GIB  # logs have two decimals
        if not stated.low + beside - rounding <= one.reported * GIB <= stated.high + beside + rounding:
            outside.append(one.id)
    assert outside == []


def test_sixteen_medusa_heads_take_what_a_log_reports() -> None:
    heads = Draft(method="medusa", num_speculative_tokens=16, config={"hidden_size": 4096, "num_hidden_layers": 1})
    found = draft.weight_bytes(heads, shape_of(logs.MISTRAL), 1)
    assert round(found.low / GIB, 4) == logs.MEDUSA_GIB


def cache_of(one: logs.KvTokens | logs.Outcome) -> kv.Cache:
    drafted = Draft(method="none", num_speculative_tokens=0)
    if isinstance(one, logs.KvTokens):
        drafted = Draft(
            method=one.method,
            num_speculative_tokens=one.num_speculative_tokens,
            config=one.draft,
            shape=shape_of(one.draft) if one.draft else None,
        )
    return kv.cache_of(
        shape_of(one.config),
        drafted,
        dtype_bytes=2,
        kv_cache_dtype=one.kv_cache_dtype if isinstance(one, logs.KvTokens) else None,
        tensor_parallel_size=one.tensor_parallel_size,
        prefix_caching=one.prefix_caching,
    )


def tokens_row(one: logs.KvTokens) -> Row:
    cache = cache_of(one)
    found = cache.tokens(int(one.kv_gib * GIB), one.max_model_len)
    if one.counts_by_group:
        found = int(one.kv_gib * GIB) // cache.bytes_per_block // len(cache.groups) * cache.block_size
    note = f"inferred: {one.inferred}" if one.inferred else ""
    return Row(one.id, one.case, f"{found:,}", f"{one.reported:,}", 100 * (found / one.reported - 1), note)


def test_tokens_follow_from_the_caches_bytes_to_a_tenth_of_a_percent() -> None:
    rows = [tokens_row(one) for one in logs.KV_TOKENS]
    show("KV tokens from the reported memory", rows, "%")
    print(f"  median {median(rows):.3f} %, worst {max(abs(row.error) for row in rows):.2f} %")  # noqa: T201
    assert median(rows) <= 0.1
    # M08 and M10 print the memory of one rank and the tokens of the scarcest.
    assert max(abs(row.error) for row in rows if row.id not in ("M08", "M10")) <= 0.11


def sizes_of(one: logs.Memory) -> Sizes:
    return Sizes(
        target=Checkpoint(one.case, "", "bfloat16", 0, 0, one.max_model_len, config=one.config),
        speculator=None,
        shape=shape_of(one.config),
        form=quantization.of_config(one.config, 2),
        draft=Draft(method="none", num_speculative_tokens=0),
        dtype_bytes=2,
        load=Load(
            runner="V2" if one.engine == "V2" else "V1",
            max_model_len=one.max_model_len,
            max_num_seqs=one.max_num_seqs,
            max_num_batched_tokens=one.max_num_batched_tokens,
            tensor_parallel_size=one.tensor_parallel_size,
            logit_bytes=OLD_SAMPLER,
            is_compiled=one.engine != "old",
        ),
        on_cpu=False,
    )


def kv_memory(one: logs.Memory) -> Interval:
    taken = estimate.taken_bytes(sizes_of(one))
    if one.engine != "V2":
        taken["graphs"] = NOTHING  # they were beside the budget before 0.21
    beside = Interval(2 * one.beside_parameters, 2 * one.beside_parameters)
    return estimate.left(int(one.total_gib * one.utilization * GIB), {**taken, "beside": beside})


def memory_row(one: logs.Memory) -> Row:
    stated = kv_memory(one)
    is_inside = stated.low <= one.reported * GIB <= stated.high
    note = ("inside" if is_inside else "OUTSIDE") + (f"; inferred: {one.inferred}" if one.inferred else "")
    text = f"{stated.low / GIB:.2f} to {stated.high / GIB:.2f}"
    return Row(one.id, one.case, text, f"{one.reported:.2f}", stated.middle / GIB - one.reported, note)


def is_dense_on_one_gpu(one: logs.Memory) -> bool:
    model = shape_of(one.config)
    return one.tensor_parallel_size == 1 and not model.doubts


def test_nine_of_ten_dense_runs_on_one_gpu_lie_in_the_stated_interval() -> None:
    show("KV cache end to end, GiB", [memory_row(one) for one in logs.MEMORY], "GiB")
    counted = [memory_row(one) for one in logs.MEMORY if is_dense_on_one_gpu(one)]
    inside = sum(row.note.startswith("inside") for row in counted)
    print(f"  dense, on one GPU: {inside} of {len(counted)} inside")  # noqa: T201
    assert inside / len(counted) >= 0.9


def test_the_stated_interval_does_not_grow_unnoticed() -> None:
    widths = [(stated.high - stated.low) / GIB for stated in map(kv_memory, logs.MEMORY)]
    print(f"\nwidth of the interval: median {statistics.median(widths):.2f} GiB, widest {max(widths):.2f} GiB")  # noqa: T201
    assert statistics.median(widths) <= 1.6


def test_every_outcome_is_right() -> None:
    wrong = []
    for one in logs.OUTCOMES:
        needed = cache_of(one).request_bytes(one.max_model_len)
        if (needed <= one.kv_gib * GIB) != one.accepted:
            wrong.append(one.id)
        if one.needed_gib is not None:
            without_null_block = needed - cache_of(one).bytes_per_block
            assert abs(without_null_block / GIB / one.needed_gib - 1) < 0.001
    assert wrong == []
