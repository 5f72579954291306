"""Which files of a checkpoint vLLM needs: one format of weights, and what config, tokenizer and chat template consist of."""

from __future__ import annotations

import re
from collections.abc import Iterable

from speccli.checkpoint.files import Files
from speccli.errors import CheckpointError

FORMATS = (".safetensors", ".bin", ".pt")
"""The order in which vLLM's default loader looks."""

INDEXES = {".safetensors": "model.safetensors.index.json", ".bin": "pytorch_model.bin.index.json"}

NO_WEIGHTS = re.compile(
    r"(training_args|optimizer|scheduler|scaler|rng_state|adapter_model|tokenizer|mask_embedding).*"
)
"""Weight files by their ending only: what a trainer left, a LoRA adapter, and MASK_EMBEDDING."""

MASK_EMBEDDING = "mask_embedding.pt"
"""vLLM reads it beside the weights of a DFlash draft, whatever their format."""

TEXT = re.compile(r".*\.(json|jinja|model|tiktoken|py)|(tokenizer|vocab|merges|spiece|sentencepiece).*")
NO_TEXT = re.compile(r".*\.index\.json|(trainer_state|training_args|.*_results)\.json|.*\.(gguf|onnx|h5|msgpack)")


def needed(files: Files) -> list[str]:
    """The names of the files to have, small ones first. Raises `CheckpointError` for what vLLM could not load."""
    if "config.json" not in files.sizes:
        raise CheckpointError(f"{files.name} holds no config.json{_what_it_holds(files)}", _another(files))
    weights = _weights(files)
    texts = [name for name in files.sizes if TEXT.fullmatch(name) and not NO_TEXT.fullmatch(name)]
    extra = [name for name in files.sizes if name == MASK_EMBEDDING]
    return sorted({*texts, *extra, *weights}, key=lambda name: (files.sizes[name], name))


def is_weights(name: str) -> bool:
    return name.endswith(FORMATS) and not NO_WEIGHTS.match(name)


def _weights(files: Files) -> list[str]:
    for ending in FORMATS:
        names = _without_duplicates(name for name in files.sizes if name.endswith(ending) and is_weights(name))
        if names:
            index = INDEXES.get(ending, "")
            return [*_shards(files, index), index] if index in files.sizes else names
    raise CheckpointError(f"{files.name} holds no weights{_what_it_holds(files)}", _another(files))


def _without_duplicates(names: Iterable[str]) -> list[str]:
    """Mistral publishes the same weights twice; `consolidated` is its own layout, which vLLM would prefer if it saw it."""
    found = list(names)
    others = [name for name in found if not name.startswith("consolidated")]
    return others or found


def _shards(files: Files, index: str) -> list[str]:
    named = (files.read_json(index) or {}).get("weight_map")
    if not isinstance(named, dict) or not all(isinstance(shard, str) for shard in named.values()):
        raise CheckpointError(f"{files.name}: {index} names no weight files", _another(files))
    shards = sorted(set(named.values()))
    absent = [shard for shard in shards if shard not in files.sizes]
    if absent:
        raise CheckpointError(
            f"{files.name} is incomplete: {len(absent)} of the {len(shards)} files that {index} names are missing, "
            f"{absent[0]} first",
            _another(files),
        )
    return shards


def _what_it_holds(files: Files) -> str:
    if any(name.endswith(".gguf") for name in files.sizes):
        return ", but GGUF files"
    if "adapter_config.json" in files.sizes:
        return ", but a LoRA adapter"
    if "params.json" in files.sizes:
        return ", but Mistral's own layout"
    return ""


def _another(files: Files) -> str:
    return f"name a repository or folder with config.json and safetensors instead of {files.name}"
