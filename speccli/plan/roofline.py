"""Roofline: about how much faster speculation makes decoding, from bandwidth, FLOP/s, k, acceptance and batch.

An estimate by its assumptions alone: a pass takes as long as reading what it needs, or as its arithmetic, whichever is longer.
"""

from __future__ import annotations

import msgspec

from speccli.hardware import Hardware
from speccli.pairing import Pairing
from speccli.plan import draft
from speccli.plan.estimate import Estimate
from speccli.plan.sizes import Sizes

EFFICIENCY = 0.8
"""Of the data sheet's bandwidth and FLOP/s that decoding reaches on a good day."""

PASS_OVERHEAD_S = 0.0003
"""Of one pass, however small: launches and sampling."""

ACCEPTED = {
    "eagle": 0.6,
    "eagle3": 0.68,
    "medusa": 0.55,
    "mtp": 0.7,
    "draft_model": 0.65,
    "dflash": 0.7,
    "dspark": 0.75,
    "ngram": 0.3,
    "ngram_gpu": 0.3,
    "suffix": 0.4,
}
"""Where nothing is published: the chance of each drafted token to be accepted after those before it."""


class SpeedUp(msgspec.Struct, frozen=True, kw_only=True):
    """At so many requests at once and such a context."""

    batch: int
    num_speculative_tokens: int
    acceptance_length: float
    speedup: float
    plain_tokens_per_s: float
    """Of one request."""
    context: int


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    bandwidth_bytes_per_s: float
    flops: float


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What decides: of the target, of the speculator, of the machine."""

    sizes: Sizes
    estimate: Estimate
    rates: Rates
    chance: float
    """Of a drafted token to be accepted after those before it."""
    origin: str
    """Where that is from, in words."""


def cost_of(hardware: Hardware, pairing: Pairing, sizes: Sizes, estimate: Estimate) -> Cost | None:
    """None where bandwidth or FLOP/s of the machine, or the shape of the target, are not known."""
    device = hardware.devices[0] if hardware.devices else None
    if device is None or device.bandwidth_bytes_per_s is None or sizes.shape is None or not pairing.is_speculative:
        return None
    flops = device.bf16_flops or device.fp16_flops
    if flops is None:
        return None
    count = sizes.load.tensor_parallel_size
    chance, origin = chance_of(pairing)
    rates = Rates(
        bandwidth_bytes_per_s=EFFICIENCY * count * device.bandwidth_bytes_per_s, flops=EFFICIENCY * count * flops
    )
    return Cost(sizes=sizes, estimate=estimate, rates=rates, chance=chance, origin=origin)


def chance_of(pairing: Pairing) -> tuple[float, str]:
    """From the first published acceptance length, else what is usual for the method."""
    for one in pairing.listed.published if pairing.listed else ():
        if one.mean_acceptance_length is not None and one.num_speculative_tokens:
            found = _chance(one.mean_acceptance_length, one.num_speculative_tokens)
            told = f"{one.mean_acceptance_length:.2f} tokens a step at k={one.num_speculative_tokens}, {one.data}"
            return found, told
    chance = ACCEPTED.get(pairing.method, 0.5)
    return chance, f"a guess for {pairing.method}: {chance:.0%} of drafted tokens accepted, each after those before it"


def speedup(cost: Cost, k: int, batch: int, context: int) -> SpeedUp:
    plain = _pass_s(cost, batch, batch * context)
    step = _pass_s(cost, batch * (k + 1), batch * context) + _draft_s(cost, k, batch, batch * context)
    length = acceptance_length(cost.chance, k)
    return SpeedUp(
        batch=batch,
        num_speculative_tokens=k,
        acceptance_length=length,
        speedup=length * plain / step,
        plain_tokens_per_s=1 / plain,
        context=context,
    )


def best_k(cost: Cost, most: int, batch: int, context: int) -> int:
    """The k up to `most` at which a request is fastest."""
    return max(range(1, most + 1), key=lambda k: speedup(cost, k, batch, context).speedup)


def free_tokens(cost: Cost) -> int:
    """So many tokens can be verified in one pass before arithmetic takes longer than reading the weights."""
    low, high = 1, 1 << 16
    while low < high:
        middle = (low + high) // 2
        is_free = _arithmetic_s(cost, middle) <= _reading_s(cost, middle)
        low, high = (middle + 1, high) if is_free else (low, middle)
    return low - 1


def acceptance_length(chance: float, k: int) -> float:
    """The bonus token included: 1 + a + a² + …"""
    return sum(chance**i for i in range(k + 1))


def _pass_s(cost: Cost, num_tokens: int, num_cached: int) -> float:
    """`num_cached` tokens of all requests are read from the target's part of the KV cache."""
    reading = _reading_s(cost, num_tokens) + _cache_s(cost, num_cached, 1 - cost.estimate.draft_kv_share)
    return max(reading, _arithmetic_s(cost, num_tokens)) + PASS_OVERHEAD_S


def _cache_s(cost: Cost, num_cached: int, share: float) -> float:
    of_token = cost.estimate.kv_bytes_per_token * cost.estimate.num_devices * share
    return num_cached * of_token / cost.rates.bandwidth_bytes_per_s


def _reading_s(cost: Cost, num_tokens: int) -> float:
    """Of the weights that so many tokens need: with experts not all of them."""
    shape = cost.sizes.shape
    weights = cost.estimate.bytes["target_weights"].low * cost.estimate.num_devices
    if shape is not None and shape.experts is not None:
        weights = int(weights * shape.active_parameters(num_tokens) / shape.active_parameters(1 << 20))
    return weights / cost.rates.bandwidth_bytes_per_s


def _arithmetic_s(cost: Cost, num_tokens: int) -> float:
    shape = cost.sizes.shape
    return 2 * num_tokens * (shape.active_parameters() if shape else 0) / cost.rates.flops


def _draft_s(cost: Cost, k: int, batch: int, num_cached: int) -> float:
    """One pass for each token, or one for all of them; look-up costs nothing here."""
    drafting = cost.sizes.draft
    if drafting.method in draft.WITHOUT_WEIGHTS:
        return 0.0
    passes = 1 if draft.is_parallel(drafting.method, drafting.settings) else k
    rows = k if passes == 1 else 1
    weights = (cost.estimate.bytes["draft_weights"].low + _shared_head_bytes(cost)) * cost.estimate.num_devices
    reading = weights / cost.rates.bandwidth_bytes_per_s + _cache_s(cost, num_cached, cost.estimate.draft_kv_share)
    arithmetic = 2 * rows * batch * (weights / cost.sizes.dtype_bytes) / cost.rates.flops
    return passes * (max(reading, arithmetic) + PASS_OVERHEAD_S)


def _shared_head_bytes(cost: Cost) -> int:
    """EAGLE, MTP and DFlash propose with the target's lm_head."""
    shape = cost.sizes.shape
    if shape is None or cost.sizes.draft.method not in ("eagle", "mtp", "dflash", "dspark"):
        return 0
    return shape.vocabulary_elements * cost.sizes.dtype_bytes // cost.estimate.num_devices


def _chance(length: float, k: int) -> float:
    """The chance that gives this acceptance length, by halving."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if acceptance_length(middle, k) < length else (low, middle)
    return round(low, 4)
