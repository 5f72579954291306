"""The EAGLE-3 head as vLLM's class for it computes (`models/llama_eagle3.py`), over whole conversations at once.

At place p the head sees the target's hidden states of token p and the embedding of token p + 1, and drafts token p + 2.
The drafts after it come from steps at p + 1, p + 2 ..., which see the head's own state instead of the target's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from training.batches import Batch
from training.target import Target, norm, rope_theta, rotated, rotations

Weights = dict[str, torch.Tensor]

LAYER = "midlayer."
NUM_AUX = 3


@dataclass(frozen=True, slots=True)
class Shape:
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    theta: float

    @staticmethod
    def of(target: Target) -> Shape:
        return Shape(target.num_heads, target.num_kv_heads, target.head_dim, target.eps, rope_theta(target.config))


@dataclass(frozen=True, slots=True)
class Rows:
    """Places of a batch, one row each: `first` are drafted from, `deeper` of these also for the tokens after."""

    first: tuple[torch.Tensor, torch.Tensor]
    deeper: torch.Tensor
    """Numbers of rows in `first`."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What attention sees of the conversation's earlier places: [conversations, key heads, places, head_dim]."""

    keys: torch.Tensor
    values: torch.Tensor


def initial(target: Target, vocabulary: torch.Tensor, states_rms: torch.Tensor, intermediate: int) -> Weights:
    """The head starts as the target's last layer: fed with the latest hidden state, blind to the embedding."""
    hidden, last = target.hidden_size, target.layers[-1]
    queries, keys = target.num_heads * target.head_dim, target.num_kv_heads * target.head_dim
    q, k, v = last.qkv.split([queries, keys, keys])
    gate, up = last.gate_up.chunk(2)
    more = intermediate - len(gate)
    fc = torch.cat([torch.zeros(hidden, 2 * hidden), torch.eye(hidden)], dim=1)
    weights = {
        "fc.weight": fc + _noise(fc.shape, 0.02, 1),
        **{f"fc_norm.{i}.weight": torch.full((hidden,), float(states_rms[i])) for i in range(NUM_AUX)},
        f"{LAYER}input_layernorm.weight": torch.full((hidden,), float(last.input_norm.mean())),
        f"{LAYER}hidden_norm.weight": last.input_norm.clone(),
        f"{LAYER}post_attention_layernorm.weight": last.post_norm.clone(),
        f"{LAYER}self_attn.o_proj.weight": last.output.clone(),
        f"{LAYER}mlp.gate_proj.weight": torch.cat([gate, _noise((more, hidden), 0.02, 2)]),
        f"{LAYER}mlp.up_proj.weight": torch.cat([up, _noise((more, hidden), 0.02, 3)]),
        f"{LAYER}mlp.down_proj.weight": torch.cat([last.down, torch.zeros(hidden, more)], dim=1),
        "norm.weight": target.norm.clone(),
        "lm_head.weight": target.lm_head[vocabulary].clone(),
    }
    for number, (name, half) in enumerate({"q": q, "k": k, "v": v}.items()):
        weights[f"{LAYER}self_attn.{name}_proj.weight"] = torch.cat([_noise(half.shape, 0.02, 4 + number), half], dim=1)
    return weights


def _noise(shape: tuple[int, ...], scale: float, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale


def drafted(
    weights: Weights, shape: Shape, embedding: torch.Tensor, batch: Batch, rows: Rows, steps: int
) -> Iterator[torch.Tensor]:
    """The states, ready for lm_head, that draft the first token of every row, then the second of the deeper ones ..."""
    state, seen = _first(weights, shape, embedding, batch, rows)
    yield norm(state, weights["norm.weight"], shape.eps)
    conversations, places = (index[rows.deeper] for index in rows.first)
    state, own = state[rows.deeper], list[Seen]()
    for step in range(1, steps):
        state = _next(weights, shape, embedding, batch, (conversations, places), state, seen, own, step)
        yield norm(state, weights["norm.weight"], shape.eps)


def _first(
    weights: Weights, shape: Shape, embedding: torch.Tensor, batch: Batch, rows: Rows
) -> tuple[torch.Tensor, Seen]:
    aux = [
        norm(batch.states[:, :, i], weights[f"fc_norm.{i}.weight"], shape.eps) for i in range(NUM_AUX)
    ]  # the states of token p
    hidden = F.linear(torch.cat(aux, -1), weights["fc.weight"])
    embeds = embedding[batch.tokens.roll(-1, 1)]  # token p + 1; the last place wraps round and is never wanted
    positions = torch.arange(batch.tokens.shape[1])
    q, k, v = (each.transpose(1, 2) for each in _qkv(weights, shape, embeds, hidden, positions))
    groups = shape.heads // shape.kv_heads
    every = F.scaled_dot_product_attention(
        q, k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1), is_causal=True
    )
    attended = every.transpose(1, 2)[rows.first]
    return _rest(weights, shape, hidden[rows.first], attended), Seen(k, v)


def _next(
    weights: Weights,
    shape: Shape,
    embedding: torch.Tensor,
    batch: Batch,
    at: tuple[torch.Tensor, torch.Tensor],
    state: torch.Tensor,
    seen: Seen,
    own: list[Seen],
    step: int,
) -> torch.Tensor:
    """One step further from the places `at`. The tokens drafted until here are taken to have been right."""
    conversations, places = at
    embeds = embedding[batch.tokens[conversations, places + 1 + step]]
    q, k, v = _qkv(weights, shape, embeds, state, places + step)
    own.append(Seen(k, v))
    return _rest(weights, shape, state, _attended(shape, q, at, seen, own))


def _qkv(
    weights: Weights, shape: Shape, embeds: torch.Tensor, hidden: torch.Tensor, positions: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Each [..., heads, head_dim]."""
    both = torch.cat(
        [
            norm(embeds, weights[f"{LAYER}input_layernorm.weight"], shape.eps),
            norm(hidden, weights[f"{LAYER}hidden_norm.weight"], shape.eps),
        ],
        dim=-1,
    )
    q, k, v = (
        F.linear(both, weights[f"{LAYER}self_attn.{name}_proj.weight"]).unflatten(-1, (-1, shape.head_dim))
        for name in "qkv"
    )
    rotation = rotations(positions, shape.head_dim, shape.theta)
    return rotated(q, *rotation), rotated(k, *rotation), v


def _rest(weights: Weights, shape: Shape, residual: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
    """From attention to the layer's end, before the last norm."""
    x = residual + F.linear(attended.flatten(-2), weights[f"{LAYER}self_attn.o_proj.weight"])
    normed = norm(x, weights[f"{LAYER}post_attention_layernorm.weight"], shape.eps)
    gate, up = (F.linear(normed, weights[f"{LAYER}mlp.{name}_proj.weight"]) for name in ("gate", "up"))
    return x + F.linear(F.silu(gate) * up, weights[f"{LAYER}mlp.down_proj.weight"])


def _attended(
    shape: Shape, q: torch.Tensor, at: tuple[torch.Tensor, torch.Tensor], seen: Seen, own: list[Seen]
) -> torch.Tensor:
    """Queries of rows over the target's places up to theirs, and over what this draft has added itself."""
    conversations, places = at
    table, is_there = _table(conversations, len(seen.keys))
    grouped = q.unflatten(1, (shape.kv_heads, -1))  # [rows, key heads, group, head_dim]
    padded = grouped[table].permute(0, 2, 1, 3, 4)  # [conversations, key heads, rows, group, head_dim]
    scores = torch.matmul(padded.flatten(2, 3), seen.keys.transpose(-1, -2)).unflatten(2, padded.shape[2:4])
    by_row = scores.permute(0, 2, 1, 3, 4)[is_there]  # back to [rows, key heads, group, places]
    by_row = by_row.masked_fill((torch.arange(by_row.shape[-1]) > places[:, None])[:, None, None, :], float("-inf"))
    mine = torch.cat([(grouped * each.keys.unsqueeze(2)).sum(-1, keepdim=True) for each in own], -1)
    chances = (torch.cat([by_row, mine], -1) * shape.head_dim**-0.5).softmax(-1)
    early, late = chances.split([by_row.shape[-1], len(own)], -1)
    spread = early[table].permute(0, 2, 1, 3, 4)
    out = torch.matmul(spread.flatten(2, 3), seen.values).unflatten(2, spread.shape[2:4])
    result = out.permute(0, 2, 1, 3, 4)[is_there]
    for i, each in enumerate(own):
        result = result + late[..., i : i + 1] * each.values.unsqueeze(2)
    return result.flatten(1, 2)


def _table(conversations: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows, which come in order of their conversations, as a table [conversations, rows], and which cells are real."""
    sizes = torch.bincount(conversations, minlength=count)
    columns = torch.arange(int(sizes.max()))
    is_there = columns < sizes[:, None]
    table = (sizes.cumsum(0) - sizes)[:, None] + columns
    return table.where(is_there, 0), is_there
