"""The layers of a model by kind: what each keeps in the KV cache, and how many parameters it has."""

from __future__ import annotations

from typing import Any

import msgspec

from speccli.checkpoint.config import integer, positive
from speccli.checkpoint.inspection import Architecture

SLIDING_EVERY = {
    "gpt_oss": 2,
    "gemma2": 2,
    "gemma3_text": 6,
    "gemma3": 6,
    "gemma4_text": 6,
    "gemma4_unified_text": 6,
}
"""Model types without `layer_types`: every so many layers the last one attends to everything, the others to a window."""


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that keep keys and values alike."""

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_dim: int
    window: int | None = None
    """They look back this far; None: at everything."""
    is_latent: bool = False
    """MLA: one compressed vector for all heads, on every device (`vllm/v1/kv_cache_interface.py: MLAAttentionSpec`)."""
    is_gated: bool = False
    """The queries' projection also makes a gate of the same width."""
    num_parameters: int | None = None
    """Of one layer, where they do not follow from the heads."""
    keeps_kv: bool = True
    """False where they read what an earlier layer keeps."""

    def kv_elements(self, tensor_parallel_size: int = 1) -> int:
        """Numbers that one layer keeps for one token on a device."""
        return self.kv_heads_on_device(tensor_parallel_size) * (self.head_dim + self.value_dim)

    def kv_heads_on_device(self, tensor_parallel_size: int) -> int:
        """At least one: `vllm/config/model.py: ModelConfig.get_num_kv_heads`."""
        return 1 if self.is_latent else max(1, self.num_kv_heads // tensor_parallel_size)


class Recurrent(msgspec.Struct, frozen=True, kw_only=True):
    """Gated delta net layers: a state of fixed size instead of keys and values."""

    num_layers: int
    num_key_heads: int
    num_value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int

    @property
    def conv_dim(self) -> int:
        return 2 * self.num_key_heads * self.key_dim + self.num_value_heads * self.value_dim

    def state_bytes(self, num_speculative_tokens: int, tensor_parallel_size: int) -> int:
        """Of one layer and request: `mamba_utils.py: MambaStateShapeCalculator.gated_delta_net_state_shape`.

        The convolution in 16 bits, the recurrent state in 32.
        """
        conv = self.conv_dim // tensor_parallel_size * (self.conv_kernel - 1 + num_speculative_tokens) * 2
        return conv + self.num_value_heads // tensor_parallel_size * self.value_dim * self.key_dim * 4


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    num_layers: int
    num_experts: int
    per_token: int
    intermediate_size: int
    shared_intermediate_size: int = 0


def attention_of(model: dict[str, Any], told: Architecture) -> tuple[Attention, ...]:
    """The groups of layers, those that attend to everything first."""
    if positive(model, "kv_lora_rank"):
        return (_latent(model, told),)
    heads, kv_heads, width = told.num_attention_heads, told.num_key_value_heads, told.head_dim
    if not (heads and kv_heads and width and told.num_hidden_layers):
        return ()
    kinds = layer_kinds(model, told)
    shared = integer(model, "num_kv_shared_layers") or 0
    groups: dict[Attention, int] = {}
    for index, kind in enumerate(kinds):
        if kind == "recurrent":
            continue
        is_global = kind == "full"
        group = Attention(
            num_layers=1,
            num_heads=heads,
            num_kv_heads=(is_global and positive(model, "num_global_key_value_heads")) or kv_heads,
            head_dim=(is_global and positive(model, "global_head_dim")) or width,
            value_dim=(is_global and positive(model, "global_head_dim")) or width,
            window=None if is_global else positive(model, "sliding_window"),
            is_gated=positive(model, "full_attention_interval") is not None,
            keeps_kv=index < len(kinds) - shared,
        )
        groups[group] = groups.get(group, 0) + 1
    counted = [msgspec.structs.replace(group, num_layers=count) for group, count in groups.items()]
    return tuple(sorted(counted, key=lambda one: one.window or 0))


def layer_kinds(model: dict[str, Any], told: Architecture) -> list[str]:
    """Of each layer: full, sliding or recurrent."""
    count = told.num_hidden_layers or 0
    window = positive(model, "sliding_window") if model.get("use_sliding_window") is not False else None
    if told.layer_types:
        return [_kind(name, window) for name in told.layer_types[:count]]
    if interval := positive(model, "full_attention_interval"):
        return ["full" if (i + 1) % interval == 0 else "recurrent" for i in range(count)]
    if window and (every := positive(model, "sliding_window_pattern") or SLIDING_EVERY.get(told_type(model))):
        return ["full" if (i + 1) % every == 0 or _is_last(model, i, count) else "sliding" for i in range(count)]
    return ["sliding" if window and told_type(model) == "mistral" else "full"] * count


def told_type(model: dict[str, Any]) -> str:
    return str(model.get("model_type"))


def recurrent_of(model: dict[str, Any]) -> Recurrent | None:
    keys, values = positive(model, "linear_num_key_heads"), positive(model, "linear_num_value_heads")
    key_dim, value_dim = positive(model, "linear_key_head_dim"), positive(model, "linear_value_head_dim")
    count = positive(model, "num_hidden_layers")
    if not (keys and values and key_dim and value_dim and count):
        return None
    interval = positive(model, "full_attention_interval") or 4
    return Recurrent(
        num_layers=count - count // interval,
        num_key_heads=keys,
        num_value_heads=values,
        key_dim=key_dim,
        value_dim=value_dim,
        conv_kernel=positive(model, "linear_conv_kernel_dim") or 4,
    )


def experts_of(model: dict[str, Any]) -> Experts | None:
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    count = next((found for name in names if (found := positive(model, name))), None)
    intermediate = positive(model, "moe_intermediate_size") or positive(model, "intermediate_size")
    layers = positive(model, "num_hidden_layers")
    if not (count and count > 1 and intermediate and layers):
        return None
    dense = integer(model, "first_k_dense_replace") or 0
    shared = positive(model, "shared_expert_intermediate_size")
    shared = shared or (positive(model, "n_shared_experts") or 0) * intermediate
    return Experts(
        num_layers=layers - dense,
        num_experts=count,
        per_token=positive(model, "num_experts_per_tok") or positive(model, "num_experts_per_token") or 1,
        intermediate_size=intermediate,
        shared_intermediate_size=shared,
    )


def attention_parameters(hidden: int, group: Attention, size: int, has_bias: bool) -> int:
    """Queries, keys, values and output; keys and values once more on each device beyond their heads (`linear.py: QKVParallelLinear`)."""
    if group.num_parameters is not None:
        return group.num_layers * group.num_parameters // size
    queries = group.num_heads * group.head_dim // size
    keys = group.kv_heads_on_device(size) * group.head_dim if group.keeps_kv else 0
    count = hidden * queries * (3 if group.is_gated else 2) + 2 * hidden * keys
    return group.num_layers * (count + (queries + 2 * keys if has_bias else 0))


def recurrent_parameters(hidden: int, group: Recurrent, size: int) -> int:
    values = group.num_value_heads * group.value_dim
    inputs = hidden * (group.conv_dim + values + 2 * group.num_value_heads)
    return group.num_layers * (inputs + group.conv_dim * group.conv_kernel + values * hidden) // size


def expert_parameters(hidden: int, group: Experts, size: int) -> int:
    routed = group.num_experts * 3 * hidden * group.intermediate_size // size
    shared = 3 * hidden * group.shared_intermediate_size // size
    return group.num_layers * (routed + shared + hidden * group.num_experts)


def _kind(name: str, window: int | None) -> str:
    if "linear" in name or "mamba" in name or "recurrent" in name:
        return "recurrent"
    return "sliding" if window and ("sliding" in name or "local" in name) else "full"


def _is_last(model: dict[str, Any], index: int, count: int) -> bool:
    """Gemma 4's last layer attends to everything whatever the pattern."""
    return told_type(model).startswith("gemma4") and index == count - 1


def _latent(model: dict[str, Any], told: Architecture) -> Attention:
    rank, rope = positive(model, "kv_lora_rank") or 0, positive(model, "qk_rope_head_dim") or 0
    heads, hidden = told.num_attention_heads or 1, told.hidden_size or 0
    nope, value = positive(model, "qk_nope_head_dim") or 0, positive(model, "v_head_dim") or 0
    q_rank = positive(model, "q_lora_rank")
    queries = (hidden + heads * (nope + rope)) * q_rank if q_rank else hidden * heads * (nope + rope)
    count = queries + hidden * (rank + rope) + rank * heads * (nope + value) + heads * value * hidden
    return Attention(
        num_layers=told.num_hidden_layers or 0,
        num_heads=heads,
        num_kv_heads=1,
        head_dim=rank + rope,
        value_dim=0,
        is_latent=True,
        num_parameters=count,
    )
