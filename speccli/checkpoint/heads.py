"""The tensors that vLLM's classes for EAGLE, EAGLE-3 and DFlash heads hold, with their shapes.

Those classes do not report what they loaded, so vLLM starts with whatever a file lacks left at random.
"""

from __future__ import annotations

import msgspec

from speccli.checkpoint.config import integers, positive, table
from speccli.checkpoint.inspection import Inspection

Shapes = dict[str, tuple[int, ...]]

LLAMA_EAGLE3 = frozenset(
    {
        "Eagle3LlamaForCausalLM",
        "LlamaForCausalLMEagle3",
        "LlamaForCausalLM",
        "Eagle3MiniMaxM2ForCausalLM",
        "Eagle3Qwen2_5vlForCausalLM",
        "Eagle3Qwen3vlForCausalLM",
        "PEagleDraftModel",
        "PeagleLlamaForCausalLM",
    }
)
QWEN3_EAGLE3 = frozenset({"Eagle3Qwen3ForCausalLM", "PeagleQwen3ForCausalLM", "Qwen3ForCausalLM"})
LLAMA_EAGLE = frozenset({"LlamaForCausalLM", "EagleLlamaForCausalLM"})

NEVER_LOADED = (".inv_freq", ".cos_cached", ".sin_cached", "t2d", "mask_hidden")


class Expected(msgspec.Struct, frozen=True):
    """What a head's file must hold, and what it may."""

    required: Shapes
    optional: Shapes

    def missing(self, tensors: Shapes) -> list[str]:
        return sorted(self.required.keys() - tensors.keys())

    def unexpected(self, tensors: Shapes) -> list[str]:
        """What vLLM stops at. Biases that nothing takes it drops without a word."""
        known = self.required.keys() | self.optional.keys()
        return sorted(n for n in tensors if n not in known and not n.endswith((*NEVER_LOADED, ".bias")))

    def misshapen(self, tensors: Shapes) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
        """Name, shape there, shape wanted."""
        both = self.required | self.optional
        return [(n, tensors[n], both[n]) for n in sorted(both) if n in tensors and tensors[n] != both[n]]


def shapes(head: Inspection) -> Shapes:
    """The head's tensors under the names that vLLM gives them."""
    return {n.replace("midlayer.", "layers.0."): t.shape for n, t in (head.tensors or {}).items()}


def expected(head: Inspection, method: str) -> Expected | None:
    """None where the class is not one of those written down here, or the config does not tell enough."""
    name = head.architecture.name
    sizes = _sizes(head)
    if head.tensors is None or head.architecture.quantization is not None or sizes is None:
        return None
    if method == "eagle" and name in LLAMA_EAGLE:
        return _eagle(head, sizes)
    if method == "eagle3" and name in LLAMA_EAGLE3 | QWEN3_EAGLE3:
        return _eagle3(head, sizes, is_qwen3=name in QWEN3_EAGLE3)
    return _dflash(head, sizes) if method == "dflash" and name == "DFlashDraftModel" else None


def num_aux_layers(head: Inspection) -> int:
    """How many of the target's hidden states vLLM's EAGLE-3 class makes its `fc` for."""
    told = positive(head.model, "num_aux_hidden_states")
    ids = integers(table(head.model, "eagle_config"), "eagle_aux_hidden_state_layer_ids")
    return told or len(ids or range(3))


def aux_layer_ids(head: Inspection) -> list[int] | None:
    """The target layers whose hidden states vLLM hands to the head, counted from the embedding; None: its default."""
    model = head.model
    for part in (model, table(model, "eagle_config")):
        if ids := integers(part, "eagle_aux_hidden_state_layer_ids"):
            return ids
    for part, key in (
        (table(model, "dflash_config"), "target_layer_ids"),
        (model, "target_layer_ids"),
        (model, "dspark_target_layer_ids"),
    ):
        if below := integers(part, key):
            return [i + 1 for i in below]
    return None


def draft_vocab_size(head: Inspection) -> int | None:
    return positive(head.model, "draft_vocab_size") or head.architecture.vocab_size


def target_hidden_size(head: Inspection) -> int | None:
    """The width of one hidden state of the target, as the head takes it."""
    return positive(head.model, "target_hidden_size") or head.architecture.hidden_size


class Sizes(msgspec.Struct, frozen=True):
    hidden: int
    intermediate: int
    queries: int
    keys: int
    head_dim: int
    vocab: int
    layers: int


def _sizes(head: Inspection) -> Sizes | None:
    a = head.architecture
    if not (a.hidden_size and a.intermediate_size and a.num_attention_heads and a.num_key_value_heads):
        return None
    if not (a.head_dim and a.vocab_size and a.num_hidden_layers):
        return None
    return Sizes(
        hidden=a.hidden_size,
        intermediate=a.intermediate_size,
        queries=a.num_attention_heads * a.head_dim,
        keys=a.num_key_value_heads * a.head_dim,
        head_dim=a.head_dim,
        vocab=a.vocab_size,
        layers=a.num_hidden_layers,
    )


def _eagle(head: Inspection, s: Sizes) -> Expected:
    """`bias` in the config means the attention's here, whatever EAGLE's authors meant by it."""
    model = head.model
    attention = bool(model.get("attention_bias") or model.get("bias"))
    biased = _biased(bool(model.get("qkv_bias", attention)), attention, bool(model.get("mlp_bias")))
    required: Shapes = {"fc.weight": (s.hidden, 2 * s.hidden)}
    for i in range(s.layers):
        required |= _layer(f"layers.{i}.", s, s.hidden, biased)
    required.pop("layers.0.input_layernorm.weight", None)
    return Expected(required, {"embed_tokens.weight": (s.vocab, s.hidden)})


def _eagle3(head: Inspection, s: Sizes, is_qwen3: bool) -> Expected:
    model = head.model
    qkv = bool(model.get("attention_bias"))
    output = bool(qkv or model.get("bias")) and not is_qwen3
    biased = _biased(qkv, output, bool(model.get("mlp_bias")) and not is_qwen3)
    required: Shapes = {"norm.weight": (s.hidden,)} | _fc(head, s)
    for i in range(s.layers):
        required |= _layer(f"layers.{i}.", s, s.hidden * (2 if i == 0 else 1), biased)
        required[f"layers.{i}.hidden_norm.weight"] = (s.hidden,)
        required |= _head_norms(f"layers.{i}.", s) if is_qwen3 else {}
    return Expected(required, _vocabulary(head, s))


def _fc(head: Inspection, s: Sizes) -> Shapes:
    eagle_config = table(head.model, "eagle_config")
    if not eagle_config.get("use_aux_hidden_state", True):
        return {}
    width = target_hidden_size(head) or s.hidden
    count = num_aux_layers(head)
    shapes: Shapes = {"fc.weight": (s.hidden, width * count)}
    if eagle_config.get("norm_before_fc", head.model.get("norm_before_fc", False)):
        shapes["input_norm.weight"] = (width * count,)
    if head.model.get("fc_norm"):
        shapes |= {f"fc_norm.{i}.weight": (width,) for i in range(count)}
    return shapes


def _dflash(head: Inspection, s: Sizes) -> Expected:
    has_bias = bool(head.model.get("attention_bias"))
    biased = _biased(has_bias, has_bias, False)
    width = target_hidden_size(head) or s.hidden
    count = len(aux_layer_ids(head) or range(s.layers))
    required: Shapes = dict.fromkeys(("norm.weight", "hidden_norm.weight"), (s.hidden,))
    required["fc.weight"] = (s.hidden, width * count)
    for i in range(s.layers):
        required |= _layer(f"layers.{i}.", s, s.hidden, biased) | _head_norms(f"layers.{i}.", s)
    return Expected(required, _vocabulary(head, s))


def _vocabulary(head: Inspection, s: Sizes) -> Shapes:
    """What a head may bring of its own, and otherwise takes from the target."""
    draft_vocab = draft_vocab_size(head) or s.vocab
    return {
        "embed_tokens.weight": (s.vocab, s.hidden),
        "lm_head.weight": (draft_vocab, s.hidden),
        "d2t": (draft_vocab,),
    }


def _layer(prefix: str, s: Sizes, width: int, biased: list[str]) -> Shapes:
    projections: Shapes = {
        "self_attn.q_proj": (s.queries, width),
        "self_attn.k_proj": (s.keys, width),
        "self_attn.v_proj": (s.keys, width),
        "self_attn.o_proj": (s.hidden, s.queries),
        "mlp.gate_proj": (s.intermediate, s.hidden),
        "mlp.up_proj": (s.intermediate, s.hidden),
        "mlp.down_proj": (s.hidden, s.intermediate),
    }
    shapes = {f"{prefix}{name}.weight": shape for name, shape in projections.items()}
    shapes |= {f"{prefix}{name}.bias": projections[name][:1] for name in biased}
    return shapes | {f"{prefix}{name}_layernorm.weight": (s.hidden,) for name in ("input", "post_attention")}


def _biased(qkv: bool, output: bool, mlp: bool) -> list[str]:
    return (
        [f"self_attn.{name}_proj" for name in ("q", "k", "v") if qkv]
        + ["self_attn.o_proj"] * output
        + [f"mlp.{name}_proj" for name in ("gate", "up", "down") if mlp]
    )


def _head_norms(prefix: str, s: Sizes) -> Shapes:
    return {f"{prefix}self_attn.{name}_norm.weight": (s.head_dim,) for name in "qk"}
