"""Writes the files that tiny checkpoints consist of: safetensors, pickles, JSON, a tokenizer of bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from speccli.checkpoint import header

POSITIONS = 512
SPECIALS = ("<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

Tensors = dict[str, Any]
"""Arrays by name."""

Changes = Mapping[str, Any]
"""What to put in place of what the maker writes; None leaves it out."""

DTYPES = {"float32": "F32", "float16": "F16", "int64": "I64", "bool": "BOOL"}


def random(*shape: int, seed: int = 0, scale: float = 0.08) -> Any:
    values = np.random.default_rng([seed, *shape]).standard_normal(shape) * scale
    return values.astype(np.float32)


def ones(*shape: int) -> Any:
    return np.ones(shape, dtype=np.float32)


def write_safetensors(path: Path, tensors: Tensors) -> None:
    head = header.encoded({n: (DTYPES[str(a.dtype)], a.shape, a.nbytes) for n, a in tensors.items()})
    path.write_bytes(head + b"".join(array.tobytes() for array in tensors.values()))


def write_pickle(path: Path, tensors: Tensors) -> None:
    import torch

    torch.save({name: torch.from_numpy(array) for name, array in tensors.items()}, path)


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")


def write(folder: Path, config: dict[str, Any], tensors: Tensors, weights: str = "model.safetensors") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    (write_safetensors if weights.endswith(".safetensors") else write_pickle)(folder / weights, tensors)
    return folder


def changed(base: dict[str, Any], changes: Changes | None) -> dict[str, Any]:
    return {key: value for key, value in {**base, **(changes or {})}.items() if value is not None}


def byte_tokens() -> list[str]:
    """One printable character for each byte, as byte-level BPE writes them."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = iter(range(256, 512))
    return [chr(byte) if byte in kept else chr(next(moved)) for byte in range(256)]


def write_tokenizer(folder: Path, swap: tuple[int, int] | None = None) -> None:
    """Bytes and a few specials; `swap` exchanges the meaning of two ids."""
    tokens = byte_tokens()
    if swap:
        tokens[swap[0]], tokens[swap[1]] = tokens[swap[1]], tokens[swap[0]]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    fast = {
        "version": "1.0",
        "added_tokens": [{"id": 256 + i, "content": name, **special} for i, name in enumerate(SPECIALS)],
        "pre_tokenizer": level,
        "decoder": level,
        "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": []},
    }
    write_json(folder / "tokenizer.json", fast)
    named = {"bos_token": SPECIALS[0], "eos_token": SPECIALS[1], "pad_token": SPECIALS[1]}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": POSITIONS}
    write_json(folder / "tokenizer_config.json", {**named, **settings, "chat_template": CHAT_TEMPLATE})
