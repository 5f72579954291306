"""A tiny target that mostly counts by twos, and speculators that have learnt to: what they draft is accepted if their weights reach their places.

The target's head has each token's embedding in the row of the token two further; loud attention makes it stray.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests import tiny
from tests.tiny_files import random

STEP = 2

LOUD = 0.14
"""Scale of the target's attention output: at 0.08 it hardly strays, at 0.3 it hardly counts."""

EMBEDDING = random(tiny.VOCAB, tiny.HIDDEN, seed=7, scale=0.5)
"""That of every target that tiny.py makes."""

EYE = np.eye(tiny.HIDDEN, dtype=np.float32)
NOTHING = np.zeros_like(EYE)


def ahead(embedding: Any, steps: int) -> Any:
    """The head that, shown a token, names the one so many steps later."""
    return np.roll(embedding, STEP * steps, axis=0)


def target_tensors() -> dict[str, Any]:
    shape = (tiny.HIDDEN, tiny.HEADS * tiny.HEAD_DIM)
    loud = {f"model.layers.{i}.self_attn.o_proj.weight": random(*shape, seed=i, scale=LOUD) for i in range(tiny.LAYERS)}
    return {**loud, "lm_head.weight": ahead(EMBEDDING, 1)}


def llama(folder: Path) -> Path:
    return tiny.language_model(folder, tiny.model_config(), target_tensors())


def draft_model(folder: Path) -> Path:
    config = tiny.model_config(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=1)
    embedding = random(tiny.VOCAB, 32, seed=90, scale=0.5)
    return tiny.language_model(folder, config, {"lm_head.weight": ahead(embedding, 1)}, seed=90)


def eagle(folder: Path) -> Path:
    """It looks at the token alone, in the first half of what `fc` gets."""
    return tiny.eagle(folder, has_bias=True, tensors={"fc.weight": np.hstack([EYE, NOTHING])})


def eagle3_tensors() -> dict[str, Any]:
    """It sees the token before through the target's first auxiliary state, so only its first draft token can be right."""
    targets = np.arange(tiny.DRAFT_VOCAB) + tiny.offsets()
    return {"fc.weight": np.hstack([EYE, NOTHING, NOTHING]), "lm_head.weight": ahead(EMBEDDING, 2)[targets]}


def eagle3(folder: Path) -> Path:
    return tiny.eagle3(folder, weights="pytorch_model.bin", tensors=eagle3_tensors())


def eagle3_as_safetensors(folder: Path) -> Path:
    return tiny.eagle3(folder, tensors=eagle3_tensors())


def eagle3_of_speculators(folder: Path) -> Path:
    return tiny.speculators_eagle3(folder, tensors=eagle3_tensors())


def medusa(folder: Path) -> Path:
    """x + silu(-2x + 20) is 20 - x. The rows' means are taken off, so that the 20 cancels out: the heads are right only with their biases."""
    tensors: dict[str, Any] = {}
    for i in range(3):
        tensors[f"{i}.0.linear.weight"] = -2 * EYE
        tensors[f"{i}.0.linear.bias"] = np.full(tiny.HIDDEN, 20, dtype=np.float32)
        rows = -ahead(EMBEDDING, i + 2)
        tensors[f"{i}.1.weight"] = rows - rows.mean(axis=1, keepdims=True)
    return tiny.medusa(folder, tensors=tensors)


def medusa_with_token_map(folder: Path) -> Path:
    """One lm_head for all, which knows some tokens only: the first head is right, the others say the same as it."""
    targets = np.arange(tiny.DRAFT_VOCAB) + tiny.offsets()
    rows = -ahead(EMBEDDING, 2)[targets]
    tensors: dict[str, Any] = {"lm_head.weight": rows - rows.mean(axis=1, keepdims=True), "token_map": targets}
    for i in range(3):
        tensors[f"blocks.{i}.layers.0.weight"] = -2 * EYE
        tensors[f"blocks.{i}.layers.0.bias"] = np.full(tiny.HIDDEN, 20, dtype=np.float32)
        tensors[f"lm_heads.{i}.weight"] = None
    return tiny.vllm_medusa(folder, tensors=tensors, original_lm_head=True, truncated_vocab_size=tiny.DRAFT_VOCAB)


def mtp(folder: Path) -> Path:
    half = {"model.mtp_linear_proj.0.weight": np.hstack([EYE, NOTHING])}
    return tiny.mtp(folder, tensors={**target_tensors(), **half})
