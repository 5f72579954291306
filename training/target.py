"""The target's forward pass in plain torch, float32, with the hidden states that heads learn from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Of a layer's number, queries, keys and values, each [rows, heads, head_dim]: [rows, query heads, head_dim]."""


@dataclass(frozen=True, slots=True)
class Layer:
    input_norm: torch.Tensor
    qkv: torch.Tensor
    output: torch.Tensor
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True, slots=True)
class Target:
    folder: Path
    config: dict[str, Any]
    embedding: torch.Tensor
    lm_head: torch.Tensor
    norm: torch.Tensor
    layers: tuple[Layer, ...]

    @property
    def hidden_size(self) -> int:
        return int(self.config["hidden_size"])

    @property
    def num_heads(self) -> int:
        return int(self.config["num_attention_heads"])

    @property
    def num_kv_heads(self) -> int:
        return int(self.config["num_key_value_heads"])

    @property
    def head_dim(self) -> int:
        return int(self.config.get("head_dim") or self.hidden_size // self.num_heads)

    @property
    def eps(self) -> float:
        return float(self.config["rms_norm_eps"])

    @property
    def aux_layers(self) -> tuple[int, int, int]:
        """Those whose input vLLM hands to an EAGLE-3 head that does not name its own."""
        count = len(self.layers)
        return 2, count // 2, count - 3


def default_folder() -> Path:
    """The embedded default, fetched into speccli's cache if it is not there."""
    from speccli.prepare import prepare
    from speccli.profile import Settings

    settings = Settings(target="smollm2-135m", method="none", hardware="cpu")
    return Path(prepare(settings, None, print, {}).target.path)


def load(folder: Path) -> Target:
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_bytes())
    weights = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    embedding = weights["model.embed_tokens.weight"]
    return Target(
        folder=folder,
        config=config,
        embedding=embedding,
        lm_head=weights.get("lm_head.weight", embedding),
        norm=weights["model.norm.weight"],
        layers=tuple(_layer(weights, f"model.layers.{i}.") for i in range(config["num_hidden_layers"])),
    )


def _layer(weights: dict[str, torch.Tensor], prefix: str) -> Layer:
    attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
    return Layer(
        input_norm=weights[f"{prefix}input_layernorm.weight"],
        qkv=torch.cat([weights[f"{attention}{name}_proj.weight"] for name in "qkv"]),
        output=weights[f"{attention}o_proj.weight"],
        post_norm=weights[f"{prefix}post_attention_layernorm.weight"],
        gate_up=torch.cat([weights[f"{mlp}{name}_proj.weight"] for name in ("gate", "up")]),
        down=weights[f"{mlp}down_proj.weight"],
    )


def hidden_states(target: Target, tokens: torch.Tensor, positions: torch.Tensor, attend: Attend) -> torch.Tensor:
    """Of each row the inputs of the three aux layers and the final, normed state: [rows, 4, hidden]."""
    x, kept = target.embedding[tokens], []
    rotation = rotations(positions, target.head_dim, rope_theta(target.config))
    for i, layer in enumerate(target.layers):
        if i in target.aux_layers:
            kept.append(x)
        x = x + F.linear(_attention(target, layer, i, x, rotation, attend), layer.output)
        gate, up = F.linear(norm(x, layer.post_norm, target.eps), layer.gate_up).chunk(2, -1)
        x = x + F.linear(F.silu(gate).mul_(up), layer.down)
    return torch.stack([*kept, norm(x, target.norm, target.eps)], dim=1)


def _attention(
    target: Target,
    layer: Layer,
    number: int,
    x: torch.Tensor,
    rotation: tuple[torch.Tensor, torch.Tensor],
    attend: Attend,
) -> torch.Tensor:
    heads, kv_heads = target.num_heads, target.num_kv_heads
    qkv = F.linear(norm(x, layer.input_norm, target.eps), layer.qkv).view(len(x), -1, target.head_dim)
    turned = rotated(qkv[:, : heads + kv_heads], *rotation)
    return attend(number, turned[:, :heads], turned[:, heads:], qkv[:, heads + kv_heads :]).reshape(len(x), -1)


def whole(target: Target, tokens: torch.Tensor) -> torch.Tensor:
    """The hidden states of one sequence in a single pass: [tokens, 4, hidden]."""

    def attend(_: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (each.transpose(0, 1).unsqueeze(0) for each in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return out.squeeze(0).transpose(0, 1)

    return hidden_states(target, tokens, torch.arange(len(tokens)), attend)


def norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """In float32, also where a product before it was made in bfloat16."""
    return F.rms_norm(x.float(), (x.shape[-1],), weight, eps)


def rope_theta(config: dict[str, Any]) -> float:
    return float(config.get("rope_theta") or 10000.0)


def rotations(positions: torch.Tensor, head_dim: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines, [*positions, 1, head_dim / 2]: one pair for all heads of a row."""
    inverse = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angles = positions.unsqueeze(-1).float() * inverse
    return angles.cos().unsqueeze(-2), angles.sin().unsqueeze(-2)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding over halves, as Llama has it; x is [*positions, heads, head_dim]."""
    low, high = x.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)
