"""Tiny checkpoints with random weights, each in its author's layout, which vLLM loads on the CPU in float32.

All fit one target: width 64, 4 layers, 320 ids. Heads of 32 elements are the smallest that vLLM's CPU attention takes.
Every maker fills a folder and returns it; `tensors` and `config` change what it writes, None leaves a key out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.tiny_files import POSITIONS, Changes, Tensors, changed, ones, random, write, write_tokenizer

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE = 64, 4, 2, 1, 32, 128
VOCAB, DRAFT_VOCAB = 320, 128


def model_config(**changes: Any) -> dict[str, Any]:
    base = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "vocab_size": VOCAB,
        "max_position_embeddings": POSITIONS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 256,
        "eos_token_id": 257,
        "torch_dtype": "float32",
    }
    return changed(base, changes)


def layer(prefix: str, config: dict[str, Any], width: int | None = None, seed: int = 1) -> Tensors:
    """A decoder layer; `width` is that of what attention sees, where it is not the model's own."""
    hidden, head_dim, inner = config["hidden_size"], config["head_dim"], config["intermediate_size"]
    queries, keys = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    width = width or hidden
    shapes = {
        "self_attn.q_proj": (queries, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (hidden, queries),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    tensors = {
        f"{prefix}{name}.weight": random(*shape, seed=seed + i) for i, (name, shape) in enumerate(shapes.items())
    }
    if "qwen3" in config["model_type"]:
        tensors |= {f"{prefix}self_attn.{name}_norm.weight": ones(head_dim) for name in "qk"}
    return tensors | {f"{prefix}{name}_layernorm.weight": ones(hidden) for name in ("input", "post_attention")}


def language_model(folder: Path, config: dict[str, Any], tensors: Changes | None = None, seed: int = 7) -> Path:
    """Any causal language model of this layout, with its tokenizer."""
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    made: Tensors = {"model.embed_tokens.weight": random(vocab, hidden, seed=seed, scale=0.5)}
    for i in range(config["num_hidden_layers"]):
        made |= layer(f"model.layers.{i}.", config, seed=seed + 10 * i)
    made["model.norm.weight"] = ones(hidden)
    if not config["tie_word_embeddings"]:
        made["lm_head.weight"] = random(vocab, hidden, seed=seed + 1, scale=0.5)
    write(folder, config, changed(made, tensors))
    write_tokenizer(folder)
    return folder


def llama(folder: Path, **config: Any) -> Path:
    """The target."""
    return language_model(folder, model_config(**config))


def qwen3(folder: Path, **config: Any) -> Path:
    """The target as a Qwen3."""
    own = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    return language_model(folder, model_config(**{**own, **config}))


def draft_model(folder: Path, **config: Any) -> Path:
    """A model of its own, a tenth of the target."""
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1}
    return language_model(folder, model_config(**{**small, "tie_word_embeddings": True, **config}), seed=90)


def eagle_tensors(config: dict[str, Any], *, has_bias: bool = False) -> Tensors:
    hidden = config["hidden_size"]
    tensors = layer("layers.0.", config, seed=200)
    del tensors["layers.0.input_layernorm.weight"]
    tensors["fc.weight"] = random(hidden, 2 * hidden, seed=210)
    tensors["embed_tokens.weight"] = random(config["vocab_size"], hidden, seed=7, scale=0.5)
    return tensors | ({"fc.bias": random(hidden, seed=211, scale=0.5)} if has_bias else {})


def eagle(
    folder: Path,
    *,
    has_bias: bool = False,
    weights: str = "pytorch_model.bin",
    tensors: Changes | None = None,
    **config: Any,
) -> Path:
    """EAGLE-1 as SafeAILab publishes it."""
    settings = model_config(**{"num_hidden_layers": 1, **config})
    return write(folder, settings, changed(eagle_tensors(settings, has_bias=has_bias), tensors), weights)


def offsets() -> Any:
    """The map from draft ids to target ids: every second id of the target, from 2 on."""
    return (np.arange(DRAFT_VOCAB) * 2 + 2 - np.arange(DRAFT_VOCAB)).astype(np.int64)


def eagle3_tensors(config: dict[str, Any], prefix: str = "midlayer.", num_states: int = 3) -> Tensors:
    hidden, draft_vocab = config["hidden_size"], config["draft_vocab_size"]
    tensors = layer(prefix, config, width=2 * hidden, seed=300)
    tensors[f"{prefix}hidden_norm.weight"] = ones(hidden)
    tensors["fc.weight"] = random(hidden, num_states * hidden, seed=310)
    tensors["norm.weight"] = ones(hidden)
    tensors["lm_head.weight"] = random(draft_vocab, hidden, seed=311, scale=0.5)
    tensors["d2t"] = offsets()
    tensors["t2d"] = np.isin(np.arange(VOCAB), np.arange(DRAFT_VOCAB) + offsets())
    return tensors


def eagle3(folder: Path, *, weights: str = "model.safetensors", tensors: Changes | None = None, **config: Any) -> Path:
    """EAGLE-3 as SafeAILab publishes it. A target of few layers needs the layer ids told."""
    own = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": DRAFT_VOCAB,
        "eagle_aux_hidden_state_layer_ids": [1, 2, 3],
    }
    settings = model_config(**own)
    return write(folder, changed(settings, config), changed(eagle3_tensors(settings), tensors), weights)


def speculators_eagle3(folder: Path, *, tensors: Changes | None = None, **config: Any) -> Path:
    """EAGLE-3 in the speculators format."""
    layer_config = model_config(architectures=None, num_hidden_layers=1)
    settings = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.3.0",
        "draft_vocab_size": DRAFT_VOCAB,
        "norm_before_residual": True,
        "eagle_aux_hidden_state_layer_ids": [1, 2, 3],
        "transformer_layer_config": layer_config,
        "torch_dtype": "float32",
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
            "verifier": {"name_or_path": "acme/tiny-llama", "architectures": ["LlamaForCausalLM"]},
        },
    }
    made = eagle3_tensors({**layer_config, "draft_vocab_size": DRAFT_VOCAB}, prefix="layers.0.")
    return write(folder, changed(settings, config), changed(made, tensors))


def medusa_tensors(heads: int = 3, layers: int = 1, hidden: int = HIDDEN, prefix: str = "") -> Tensors:
    tensors: Tensors = {}
    for i in range(heads):
        for j in range(layers):
            tensors[f"{prefix}{i}.{j}.linear.weight"] = random(hidden, hidden, seed=400 + 10 * i + j)
            tensors[f"{prefix}{i}.{j}.linear.bias"] = random(hidden, seed=440 + 10 * i + j, scale=0.5)
        tensors[f"{prefix}{i}.{layers}.weight"] = random(VOCAB, hidden, seed=480 + i, scale=0.5)
    return tensors


def medusa(
    folder: Path, *, heads: int = 3, weights: str = "medusa_lm_head.pt", tensors: Changes | None = None, **config: Any
) -> Path:
    """Medusa as FasterDecoding publishes it: the config counts two heads whatever there are, and tells no width."""
    own = {
        "medusa_num_heads": 2,
        "medusa_num_layers": 1,
        "base_model_name_or_path": "acme/tiny-llama",
        "transformers_version": "4.30.0",
    }
    return write(folder, changed(own, config), changed(medusa_tensors(heads), tensors), weights)


def vllm_medusa(folder: Path, *, heads: int = 3, tensors: Changes | None = None, **config: Any) -> Path:
    """Medusa in vLLM's own layout."""
    own = {
        "model_type": "medusa",
        "architectures": ["MedusaModel"],
        "hidden_size": HIDDEN,
        "vocab_size": VOCAB,
        "num_heads": heads,
        "num_hidden_layers": 1,
        "medusa_fc_bias": True,
        "torch_dtype": "float32",
    }
    made: Tensors = {}
    for i in range(heads):
        made[f"blocks.{i}.layers.0.weight"] = random(HIDDEN, HIDDEN, seed=400 + 10 * i)
        made[f"blocks.{i}.layers.0.bias"] = random(HIDDEN, seed=440 + 10 * i, scale=0.5)
        made[f"lm_heads.{i}.weight"] = random(VOCAB, HIDDEN, seed=480 + i, scale=0.5)
    return write(folder, changed(own, config), changed(made, tensors))


def merged_medusa(folder: Path, *, heads: int = 3) -> Path:
    """Medusa-2: base and heads in one checkpoint."""
    settings = model_config(medusa_num_heads=heads, medusa_num_layers=1)
    return language_model(folder, settings, tensors=medusa_tensors(heads, prefix="medusa_head."))


def dflash(folder: Path, *, tensors: Changes | None = None, **config: Any) -> Path:
    """DFlash as z-lab publishes it, for the Qwen3 target."""
    own = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "block_size": 8,
        "num_target_layers": LAYERS,
        "dflash_config": {"mask_token_id": 300, "target_layer_ids": [0, 1, 2]},
    }
    settings = model_config(**own)
    made: Tensors = {"fc.weight": random(HIDDEN, 3 * HIDDEN, seed=500)}
    made |= {f"{name}.weight": ones(HIDDEN) for name in ("hidden_norm", "norm")}
    for i in range(2):
        made |= layer(f"layers.{i}.", settings, seed=510 + 10 * i)
    return write(folder, changed(settings, config), changed(made, tensors))


def mtp(folder: Path, *, tensors: Changes | None = None, **config: Any) -> Path:
    """A target with a multi-token-prediction layer of its own, as Baidu publishes ERNIE 4.5."""
    own = {
        "architectures": ["Ernie4_5_MoeForCausalLM"],
        "model_type": "ernie4_5_moe",
        "num_nextn_predict_layers": 1,
        "moe_num_experts": 4,
        "moe_k": 2,
        "moe_intermediate_size": 32,
        "moe_num_shared_experts": 1,
        "moe_layer_start_index": 1,
        "moe_layer_end_index": LAYERS - 1,
        "moe_layer_interval": 1,
        "use_bias": False,
    }
    settings = model_config(**own)
    made: Tensors = {f"model.mtp_{name}.0.weight": ones(HIDDEN) for name in ("emb_norm", "hidden_norm")}
    made["model.mtp_linear_proj.0.weight"] = random(HIDDEN, 2 * HIDDEN, seed=600)
    made |= layer("model.mtp_block.0.", settings, seed=610)
    for i in range(1, LAYERS):
        made |= experts(f"model.layers.{i}.mlp.", settings, seed=620 + 20 * i)
    dense = {f"model.layers.{i}.mlp.{n}_proj.weight": None for i in range(1, LAYERS) for n in ("gate", "up", "down")}
    return language_model(folder, changed(settings, config), tensors=dense | changed(made, tensors))


def experts(prefix: str, config: dict[str, Any], seed: int) -> Tensors:
    hidden, inner, count = config["hidden_size"], config["moe_intermediate_size"], config["moe_num_experts"]
    names = [*(f"experts.{i}" for i in range(count)), "shared_experts"]
    made: Tensors = {f"{prefix}gate.weight": random(count, hidden, seed=seed)}
    made[f"{prefix}moe_statics.e_score_correction_bias"] = np.zeros((1, count), dtype=np.float32)
    for i, name in enumerate(names):
        made[f"{prefix}{name}.gate_proj.weight"] = random(inner, hidden, seed=seed + i)
        made[f"{prefix}{name}.up_proj.weight"] = random(inner, hidden, seed=seed + i + 30)
        made[f"{prefix}{name}.down_proj.weight"] = random(hidden, inner, seed=seed + i + 60)
    return made
