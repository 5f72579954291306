"""What a speculator takes on one device: weights, and what it keeps in the KV cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from speccli.checkpoint.config import integers, positive, table
from speccli.checkpoint.inspection import language_model
from speccli.plan import weights
from speccli.plan.interval import NOTHING, Interval, about, exactly
from speccli.plan.layers import Attention
from speccli.plan.quantization import Format
from speccli.plan.shape import Shape, padded_vocabulary

WITHOUT_WEIGHTS = ("none", "ngram", "ngram_gpu", "suffix")

HEADS_WITH_HIDDEN_STATES = ("eagle3", "dflash", "dspark")
"""They take hidden states of several of the target's layers."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A speculator, as far as its sizes are known."""

    method: str
    num_speculative_tokens: int
    config: dict[str, Any] = {}
    """Of its config.json; empty where it has none of its own."""
    shape: Shape | None = None
    form: Format = Format(name="", linear=2, experts=2, is_quantized=False)
    dtype_bytes: int = 2
    known_bytes: int = 0
    """Of its weights on one device, where files or a pairing file tell."""
    margin: float = 0.0
    settings: dict[str, Any] = {}
    """Further keys of vLLM's speculative_config."""

    @property
    def vocab_size(self) -> int:
        """Of the tokens that it proposes."""
        model = language_model(self.config)
        return positive(model, "draft_vocab_size") or (self.shape.vocab_size if self.shape else 0)

    @property
    def num_aux_states(self) -> int:
        """Hidden states of the target that are kept for it; EAGLE-3's class takes three where its config names none."""
        if self.method not in HEADS_WITH_HIDDEN_STATES:
            return 0
        model = language_model(self.config)
        for part in (model, table(model, "eagle_config"), table(model, "dflash_config"), self.config):
            for key in ("eagle_aux_hidden_state_layer_ids", "target_layer_ids", "aux_hidden_state_layer_ids"):
                if ids := integers(part, key):
                    return len(ids)
        return positive(model, "num_aux_hidden_states") or 3


def weight_bytes(draft: Draft, target: Shape | None, tensor_parallel_size: int) -> Interval:
    """On one device, embeddings and lm_head left out where vLLM shares the target's."""
    size = tensor_parallel_size
    if draft.method in WITHOUT_WEIGHTS:
        return NOTHING
    if draft.method == "medusa":
        return _medusa(draft, target, size)
    if draft.method == "mtp":
        return _mtp(draft, target, size)
    if draft.shape is None:
        return about(draft.known_bytes / size, 0.0, 0.05)
    if draft.method == "draft_model":
        return weights.on_device(draft.shape, draft.form, draft.dtype_bytes, size, draft.known_bytes, draft.margin)
    return _head(draft, draft.shape, size)


def _medusa(draft: Draft, target: Shape | None, size: int) -> Interval:
    """`models/medusa.py`: of each head the square blocks on every device, the lm_head split. vLLM makes as many heads as k."""
    config, heads = draft.config, draft.num_speculative_tokens
    hidden = positive(config, "hidden_size") or (target.hidden_size if target else 0)
    vocab = (target.vocab_size if target else 0) or positive(config, "vocab_size") or 0
    layers = positive(config, "num_hidden_layers") or positive(config, "medusa_num_layers") or 1
    if not (hidden and vocab):
        return about(draft.known_bytes / size, 0.02, 0.05)
    if config.get("original_lm_head"):
        lm_heads = padded_vocabulary(positive(config, "truncated_vocab_size") or vocab)
    else:
        lm_heads = heads * padded_vocabulary(vocab)
    count = heads * layers * hidden * hidden + lm_heads * hidden // size
    return about(count * draft.dtype_bytes, 0.0, 0.003)


def _mtp(draft: Draft, target: Shape | None, size: int) -> Interval:
    """The target's own extra layers; embedding and lm_head are shared (`llm_base_proposer.py: _maybe_share_embeddings`)."""
    if draft.known_bytes:
        return about(draft.known_bytes / size, 0.01 + draft.margin, 0.02 + draft.margin)
    if target is None:
        return NOTHING
    per_layer = (target.decoder_parameters() + target.expert_parameters()) / max(1, target.num_layers)
    guessed = per_layer + 2 * target.hidden_size * target.hidden_size
    return about(guessed * draft.dtype_bytes / size, 0.3, 0.3)


def _head(draft: Draft, shape: Shape, size: int) -> Interval:
    """EAGLE, EAGLE-3, DFlash and DSpark: decoder layers split, the projection of hidden states on every device.

    `models/llama_eagle.py`, `models/llama_eagle3.py`, `models/qwen3_dflash.py`.
    """
    value = head_parameters(draft, shape, size) * draft.dtype_bytes
    if not draft.known_bytes:
        return about(value, 0.0, 0.01)
    whole = head_parameters(draft, shape, 1) * draft.dtype_bytes
    told = int(draft.known_bytes * value / whole)
    both = sorted((value, told)) if draft.method in ("eagle", "eagle3") else [told, told]
    # A file that brings its own embedding: vLLM shares the target's where they are equal, and keeps both where not.
    return Interval(int(both[0] * (1 - draft.margin)), int(both[1] * (1.005 + draft.margin)))


def head_parameters(draft: Draft, shape: Shape, size: int) -> int:
    hidden = shape.hidden_size
    count = shape.decoder_parameters(size)
    if draft.method == "eagle":
        return count + 2 * hidden * hidden
    count += max(1, draft.num_aux_states) * hidden * _target_width(draft, hidden)
    if draft.method != "eagle3":
        return count
    # The first layer sees the embedding beside the hidden state, so its queries, keys and values are twice as wide.
    doubled = sum(_inputs(group, hidden, size) for group in shape.attention[:1])
    return count + doubled + padded_vocabulary(draft.vocab_size) * hidden // size


def kv_attention(draft: Draft, target: Shape) -> tuple[Attention, ...]:
    """The layers that it adds to the target's KV cache: heads, draft models and MTP layers keep keys and values, Medusa does not."""
    if draft.method in WITHOUT_WEIGHTS or draft.method == "medusa":
        return ()
    if draft.shape is not None:
        return tuple(group for group in draft.shape.attention if group.keeps_kv)
    if draft.method == "mtp":
        own = [group for group in target.attention if group.window is None]
        return tuple(_once(group) for group in own[:1])
    return ()


def logits_bytes(draft: Draft, target: Shape, max_num_seqs: int) -> Interval:
    """Medusa's heads each make logits for the whole batch, and the profile run leaves them out (`gpu_model_runner.py: _dummy_run`)."""
    if draft.method != "medusa":
        return NOTHING
    return exactly(draft.num_speculative_tokens * max_num_seqs * target.vocab_size * 2)


def is_parallel(method: str, settings: Mapping[str, Any]) -> bool:
    """All tokens are drafted in one pass."""
    return method in ("medusa", "dflash", "dspark") or bool(settings.get("parallel_drafting"))


def _target_width(draft: Draft, hidden: int) -> int:
    return positive(language_model(draft.config), "target_hidden_size") or hidden


def _inputs(group: Attention, hidden: int, size: int) -> int:
    return hidden * (group.num_heads * group.head_dim // size + 2 * group.kv_heads_on_device(size) * group.head_dim)


def _once(group: Attention) -> Attention:
    return msgspec.structs.replace(group, num_layers=1)
