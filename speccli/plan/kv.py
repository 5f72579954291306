"""The KV cache: how layers are grouped into blocks, what a request needs, and how many tokens the memory holds.

Follows `vllm/v1/core/kv_cache_utils.py: get_kv_cache_groups`.
"""

from __future__ import annotations

import math

import msgspec

from speccli.plan.draft import Draft, kv_attention
from speccli.plan.layers import Attention
from speccli.plan.shape import Shape

BLOCK = 16
CPU_BLOCK = 128
"""`vllm/platforms/cpu.py: check_and_update_config`; 16 for latent attention."""

CLOSE = 1.5
"""Kinds whose numbers of layers differ by less are padded to the larger one."""

ONE_BYTE = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla", "int8")


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """Layers with the same page; the attributes that decide are vLLM's `KVCacheSpec`."""

    num_layers: int
    block_size: int
    page_bytes: int
    heads: tuple[int, int] = (0, 0)
    """Keys and values: how many, how wide. Pages of the same size do not make layers alike."""
    window: int | None = None
    states: int = 0
    """Pages of a recurrent layer for one request; 0 for attention."""


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """How the layers share one pool of blocks."""

    groups: tuple[Kind, ...]
    """Each draws its own blocks."""
    bytes_per_block: int
    block_size: int
    tokens_in_flight: int
    draft_share: float
    """Of the bytes for one token."""
    padding_share: float = 0.0
    """Of the blocks' bytes, added so that groups are equally large."""

    def blocks_of_request(self, length: int) -> int:
        return sum(_blocks(group, length, self.tokens_in_flight) for group in self.groups)

    def request_bytes(self, length: int) -> int:
        """`_max_memory_usage_bytes_from_groups`, and the block that the pool holds back (`get_kv_cache_configs`)."""
        return (self.blocks_of_request(length) + 1) * self.bytes_per_block

    def tokens(self, kv_bytes: int, length: int) -> int:
        """vLLM's "KV cache size": what requests of this length can hold together (`get_kv_cache_capacity`)."""
        blocks = max(0, kv_bytes) // self.bytes_per_block
        return int(blocks / self.blocks_of_request(length) * length)

    def longest(self, kv_bytes: int, limit: int) -> int:
        """The longest request that fits; 0 where none does (`_estimate_max_model_len_from_groups`)."""
        if self.request_bytes(1) > kv_bytes:
            return 0
        low, high = 1, limit
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.request_bytes(middle) <= kv_bytes else (low, middle - 1)
        return low

    def bytes_per_token(self, length: int) -> int:
        """Of one request of this length, divided among its tokens."""
        return math.ceil(self.blocks_of_request(length) * self.bytes_per_block / length)


def element_bytes(kv_cache_dtype: str | None, dtype_bytes: int) -> float:
    """`torch_utils.py: STR_DTYPE_TO_TORCH_DTYPE`; scales of single tokens are left out."""
    if kv_cache_dtype in (None, "auto"):
        return dtype_bytes
    if kv_cache_dtype.startswith(ONE_BYTE):
        return 1
    return 0.5625 if kv_cache_dtype.startswith("nvfp4") else 2


def cache_of(
    target: Shape,
    draft: Draft,
    *,
    dtype_bytes: int,
    kv_cache_dtype: str | None = None,
    tensor_parallel_size: int = 1,
    tokens_in_flight: int = 0,
    block_size: int = BLOCK,
    prefix_caching: bool = True,
) -> Cache:
    """`tokens_in_flight` is `VllmConfig.max_in_flight_tokens`: what windows hold beside themselves."""
    size, width = tensor_parallel_size, element_bytes(kv_cache_dtype, dtype_bytes)
    k = draft.num_speculative_tokens
    own = tuple(group for group in target.attention if group.keeps_kv)
    added = kv_attention(draft, target)
    block = _aligned_block(target, own, size, width, k, block_size)
    kinds = [_attention_kind(group, block, size, width) for group in own + added]
    if target.recurrent is not None:
        page = max((kind.page_bytes for kind in kinds), default=target.recurrent.state_bytes(k, size))
        states = (2 if prefix_caching else 1) + k
        kinds.append(Kind(num_layers=target.recurrent.num_layers, block_size=block, page_bytes=page, states=states))
    groups, bytes_per_block, padding = _grouped(_merged(kinds))
    told = [sum(group.num_layers * group.kv_elements(size) for group in one) for one in (own, added)]
    return Cache(
        groups=groups,
        bytes_per_block=bytes_per_block,
        block_size=block,
        tokens_in_flight=tokens_in_flight,
        draft_share=told[1] / (sum(told) or 1),
        padding_share=padding,
    )


def of_elements(elements: int, dtype_bytes: float, block_size: int, draft_share: float) -> Cache:
    """Where only the numbers kept for one token are known."""
    page = max(1, int(block_size * elements * dtype_bytes))
    kind = Kind(num_layers=1, block_size=block_size, page_bytes=page)
    return Cache(
        groups=(kind,), bytes_per_block=page, block_size=block_size, tokens_in_flight=0, draft_share=draft_share
    )


def _attention_kind(group: Attention, block: int, size: int, width: float) -> Kind:
    """Keys and values of a block, in one layer (`kv_cache_interface.py: AttentionSpec.real_page_size_bytes`)."""
    page = int(block * group.kv_elements(size) * width)
    heads = (group.kv_heads_on_device(size), group.head_dim)
    return Kind(num_layers=group.num_layers, block_size=block, page_bytes=page, heads=heads, window=group.window)


def _aligned_block(target: Shape, own: tuple[Attention, ...], size: int, width: float, k: int, block_size: int) -> int:
    """With recurrent layers attention's page must hold their state: `platforms/interface.py: _align_hybrid_block_size`."""
    full = next((group for group in own if group.window is None), None)
    if target.recurrent is None or full is None:
        return block_size
    of_token = block_size * full.kv_elements(size) * width
    return block_size * math.ceil(target.recurrent.state_bytes(k, size) / of_token)


def _merged(kinds: list[Kind]) -> list[Kind]:
    counts: dict[Kind, int] = {}
    for kind in kinds:
        alike = msgspec.structs.replace(kind, num_layers=0)
        counts[alike] = counts.get(alike, 0) + kind.num_layers
    return [msgspec.structs.replace(kind, num_layers=count) for kind, count in counts.items()]


def _grouped(kinds: list[Kind]) -> tuple[tuple[Kind, ...], int, float]:
    """Groups, bytes of a block, and the share of it that is padding."""
    if len({(kind.window, kind.states) for kind in kinds}) == 1:
        # `UniformTypeKVCacheSpecs`: one block table for all, pages of their own sizes.
        bytes_per_block = sum(kind.num_layers * kind.page_bytes for kind in kinds)
        return (msgspec.structs.replace(kinds[0], num_layers=1),), bytes_per_block, 0.0
    kinds = _unified(kinds)
    numbers = [kind.num_layers for kind in kinds]
    # `_get_kv_cache_groups_uniform_page_size`
    size = max(numbers) if max(numbers) < CLOSE * min(numbers) else min(numbers)
    groups = [
        msgspec.structs.replace(kind, num_layers=size) for kind in kinds for _ in range(-(-kind.num_layers // size))
    ]
    padding = 1 - sum(numbers) / (len(groups) * size)
    return tuple(groups), size * kinds[0].page_bytes, padding


def _unified(kinds: list[Kind]) -> list[Kind]:
    """`unify_kv_cache_spec_page_size`: smaller pages get larger blocks where that comes out even, and padding where not."""
    page = max(kind.page_bytes for kind in kinds)
    return _merged([_enlarged(kind, page) for kind in kinds])


def _enlarged(kind: Kind, page: int) -> Kind:
    ratio = page // kind.page_bytes if page % kind.page_bytes == 0 and not kind.states else 1
    return msgspec.structs.replace(kind, page_bytes=page, block_size=kind.block_size * ratio)


def _blocks(group: Kind, length: int, in_flight: int) -> int:
    """Of one request in a group: `max_memory_usage_bytes` of vLLM's specs."""
    if group.states:
        return group.states
    if group.window is None:
        return -(-length // group.block_size)
    held = min(group.window - 1 + in_flight, length)
    return -(-held // group.block_size) + 1
