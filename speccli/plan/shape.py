"""Shape: of a config.json, what sizes follow from. A config that does not tell enough has none."""

from __future__ import annotations

from typing import Any

import msgspec

from speccli.checkpoint.config import positive, table, words
from speccli.checkpoint.inspection import architecture, language_model
from speccli.plan import layers
from speccli.plan.layers import Attention, Experts, Recurrent

VOCABULARY_PADDING = 64
"""`vllm/model_executor/layers/vocab_parallel_embedding.py: DEFAULT_VOCAB_PADDING_SIZE`."""

BIASED_QUERIES = ("qwen2", "qwen2_moe")
"""Model types whose queries, keys and values have biases without their config saying so."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A language model, or a head that drafts for one."""

    model_type: str
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    is_tied: bool
    attention: tuple[Attention, ...]
    recurrent: Recurrent | None = None
    experts: Experts | None = None
    max_position_embeddings: int = 0
    rotary_dim: int = 0
    has_bias: bool = False
    doubts: tuple[str, ...] = ()
    """What is not modelled well, in words."""

    @property
    def num_layers(self) -> int:
        return sum(group.num_layers for group in self.attention) + (self.recurrent.num_layers if self.recurrent else 0)

    @property
    def is_hybrid(self) -> bool:
        return self.recurrent is not None or len({group.window for group in self.attention}) > 1

    @property
    def vocabulary_elements(self) -> int:
        """Of one embedding or one lm_head."""
        return padded_vocabulary(self.vocab_size) * self.hidden_size

    @property
    def rotary_bytes(self) -> int:
        """The table of cosines and sines, one for all layers (`rotary_embedding/base.py: cos_sin_cache`)."""
        return self.max_position_embeddings * self.rotary_dim * 2

    def decoder_parameters(self, tensor_parallel_size: int = 1) -> int:
        """Of the layers, on one of so many devices; without experts, embeddings and final norm."""
        size = tensor_parallel_size
        count = sum(layers.attention_parameters(self.hidden_size, one, size, self.has_bias) for one in self.attention)
        if self.recurrent is not None:
            count += layers.recurrent_parameters(self.hidden_size, self.recurrent, size)
        dense = self.num_layers - (self.experts.num_layers if self.experts else 0)
        count += dense * 3 * self.hidden_size * self.intermediate_size // size
        return count + 2 * self.hidden_size * self.num_layers

    def expert_parameters(self, tensor_parallel_size: int = 1) -> int:
        """Of the routed experts; what all tokens share is counted with it."""
        return layers.expert_parameters(self.hidden_size, self.experts, tensor_parallel_size) if self.experts else 0

    def active_parameters(self, num_tokens: int = 1) -> int:
        """That one pass over so many tokens reads: of the experts those that some token is sent to, were they equally liked."""
        head = self.vocabulary_elements
        if self.experts is None:
            return self.decoder_parameters() + head
        chosen = 1 - (1 - self.experts.per_token / self.experts.num_experts) ** num_tokens
        return int(self.decoder_parameters() + head + self.expert_parameters() * chosen)


def padded_vocabulary(size: int) -> int:
    """`vocab_parallel_embedding.py: pad_vocab_size`."""
    return -(-size // VOCABULARY_PADDING) * VOCABULARY_PADDING


def of_config(config: dict[str, Any]) -> Shape | None:
    """From a config.json, nested or flat; None where it lacks what every size hangs on."""
    model = language_model(config)
    told = architecture(config, model)
    if not (told.hidden_size and told.vocab_size):
        return None
    attention = layers.attention_of(model, told)
    recurrent = layers.recurrent_of(model)
    if not attention and recurrent is None:
        return None
    experts = layers.experts_of(model)
    heads = max((group.head_dim for group in attention), default=0)
    return Shape(
        model_type=str(model.get("model_type", "")),
        hidden_size=told.hidden_size,
        intermediate_size=told.intermediate_size or 0,
        vocab_size=told.vocab_size,
        is_tied=told.tie_word_embeddings,
        attention=attention,
        recurrent=recurrent,
        experts=experts,
        max_position_embeddings=told.max_position_embeddings or 0,
        rotary_dim=positive(model, "qk_rope_head_dim") or int(heads * _rotary_share(model)),
        has_bias=model.get("attention_bias") is True or model.get("model_type") in BIASED_QUERIES,
        doubts=tuple(_doubts(config, model, attention, recurrent, experts)),
    )


def _rotary_share(model: dict[str, Any]) -> float:
    for part in (model, table(model, "rope_parameters")):
        share = part.get("partial_rotary_factor")
        if isinstance(share, int | float):
            return float(share)
    return 1.0


def _doubts(
    config: dict[str, Any],
    model: dict[str, Any],
    attention: tuple[Attention, ...],
    recurrent: Recurrent | None,
    experts: Experts | None,
) -> list[str]:
    found = ["mixture of experts"] if experts else []
    if any(key in config for key in ("vision_config", "audio_config")) or "vision" in " ".join(
        words(config, "architectures")
    ):
        found.append("it also takes images or sound")
    if recurrent is not None or len({group.window for group in attention}) > 1:
        found.append("layers of different kinds")
    if any(group.is_latent for group in attention):
        found.append("latent attention (MLA)")
    if positive(model, "hidden_size_per_layer_input"):
        found.append("embeddings of each layer")
    return found
