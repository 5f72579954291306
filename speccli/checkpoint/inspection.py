"""What config.json, the tensor headers and the tokenizer files say of a checkpoint. No weights are loaded."""

from __future__ import annotations

import collections
import fnmatch
import functools
from pathlib import Path
from typing import Any

import msgspec

from speccli.checkpoint import header, kind, pickles, speculators, tokenizer
from speccli.checkpoint.files import Files, in_folder
from speccli.checkpoint.header import Tensor
from speccli.checkpoint.kind import Kind
from speccli.checkpoint.tokenizer import Tokenizer
from speccli.errors import CheckpointError

WEIGHT_PATTERNS = ("consolidated*.safetensors", "*.safetensors", "*.bin", "*.pt")
"""In vLLM's order (`model_loader/default_loader.py`): the first that matches a file is the kind that it loads."""

NOT_WEIGHTS = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")

QUANTIZED_DTYPES = ("I32", "I8", "U8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4")


class Architecture(msgspec.Struct, frozen=True, kw_only=True):
    """What the config says of the model's shape. None where it does not say."""

    name: str | None
    model_type: str | None
    num_hidden_layers: int | None
    hidden_size: int | None
    intermediate_size: int | None
    num_attention_heads: int | None
    num_key_value_heads: int | None
    head_dim: int | None
    vocab_size: int | None
    max_position_embeddings: int | None
    dtype: str | None
    quantization: str | None
    tie_word_embeddings: bool
    layer_types: tuple[str, ...]
    num_mtp_layers: int
    is_composite: bool
    """The language model's config is nested in that of a model that also sees or hears."""


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint as its files describe it."""

    name: str
    folder: str | None
    config: dict[str, Any]
    """config.json as it stands."""
    model: dict[str, Any]
    """The part of it that describes the language model or the head, flat."""
    architecture: Architecture
    kind: Kind
    files: dict[str, int]
    weight_files: dict[str, int]
    """The files that vLLM would load, with their sizes in bytes."""
    tensors: dict[str, Tensor] | None
    """By name, over all weight files; None where the files are pickles that are not on this machine."""
    tokenizer: Tokenizer | None

    @property
    def weight_bytes(self) -> int:
        return sum(self.weight_files.values())

    @property
    def bytes_by_dtype(self) -> dict[str, int]:
        counts: collections.Counter[str] = collections.Counter()
        for tensor in (self.tensors or {}).values():
            counts[tensor.dtype] += tensor.size_bytes
        return dict(counts)

    @property
    def num_parameters(self) -> int | None:
        """None for quantised weights, whose packed elements are no parameters."""
        if self.tensors is None or self.architecture.quantization is not None:
            return None
        counted = (tensor for tensor in self.tensors.values() if tensor.dtype not in QUANTIZED_DTYPES)
        return sum(tensor.num_elements for tensor in counted)

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        found = (self.tensors or {}).get(tensor)
        return found.shape if found else None


def inspect_folder(folder: Path, name: str, cache: Path | None = None) -> Inspection:
    """A checkpoint on this machine. `cache` keeps what pickles hold, so that they are read once."""
    return inspect(in_folder(folder, name), cache)


def inspect(files: Files, cache: Path | None = None) -> Inspection:
    """Raises `CheckpointError` where config.json, weights or a header are missing or damaged."""
    config = files.read_json("config.json")
    if config is None:
        where = files.folder or files.name
        raise CheckpointError(
            f"{where} holds no config.json", "name a checkpoint in Hugging Face layout: config.json beside its weights"
        )
    weight_files = weight_files_of(files)
    tensors = _tensors(files, weight_files, cache)
    return of_parts(files, config, weight_files, tensors, tokenizer.read(files))


def of_parts(
    files: Files,
    config: dict[str, Any],
    weight_files: dict[str, int],
    tensors: dict[str, Tensor] | None,
    tokens: Tokenizer | None,
) -> Inspection:
    model = language_model(config)
    return Inspection(
        name=files.name,
        folder=str(files.folder) if files.folder else None,
        config=config,
        model=model,
        architecture=architecture(config, model),
        kind=kind.recognised(config, files.sizes, tensors),
        files=files.sizes,
        weight_files=weight_files,
        tensors=tensors,
        tokenizer=tokens,
    )


def weight_files_of(files: Files) -> dict[str, int]:
    for pattern in WEIGHT_PATTERNS:
        found = {
            name: size
            for name, size in files.sizes.items()
            if fnmatch.fnmatchcase(name, pattern) and not name.endswith(NOT_WEIGHTS)
        }
        if found:
            return _indexed(files, found, pattern)
    raise CheckpointError(
        f"{files.name} holds no weights", "it needs *.safetensors, *.bin or *.pt beside its config.json"
    )


def language_model(config: dict[str, Any]) -> dict[str, Any]:
    """The config of the part that makes tokens."""
    if speculators.is_speculators(config):
        return speculators.flattened(config)
    for key in ("text_config", "thinker_config", "llm_config", "model"):
        nested = config.get(key)
        if isinstance(nested, dict) and nested:
            return language_model(nested) if key == "thinker_config" else nested
    return config


def architecture(config: dict[str, Any], model: dict[str, Any]) -> Architecture:
    heads, hidden = _int(model, "num_attention_heads"), _int(model, "hidden_size")
    names = (model if speculators.is_speculators(config) else config).get("architectures")
    layer_types = model.get("layer_types")
    dtype = model.get("dtype") or model.get("torch_dtype") or config.get("dtype") or config.get("torch_dtype")
    return Architecture(
        name=str(names[0]) if isinstance(names, list) and names else None,
        model_type=str(config["model_type"]) if "model_type" in config else None,
        num_hidden_layers=_int(model, "num_hidden_layers"),
        hidden_size=hidden,
        intermediate_size=_int(model, "intermediate_size"),
        num_attention_heads=heads,
        num_key_value_heads=_int(model, "num_key_value_heads") or heads,
        head_dim=_int(model, "head_dim") or _default_head_dim(model, hidden, heads),
        vocab_size=_int(model, "vocab_size"),
        max_position_embeddings=_int(model, "max_position_embeddings"),
        dtype=dtype if isinstance(dtype, str) else None,
        quantization=_quantization(config) or _quantization(model),
        tie_word_embeddings=(model if "tie_word_embeddings" in model else config).get("tie_word_embeddings") is True,
        layer_types=tuple(map(str, layer_types)) if isinstance(layer_types, list) else (),
        num_mtp_layers=kind.num_mtp_layers(config),
        is_composite=model is not config and "vocab_size" not in config and not speculators.is_speculators(config),
    )


def _indexed(files: Files, found: dict[str, int], pattern: str) -> dict[str, int]:
    """Where an index is there, vLLM loads what it names and nothing else."""
    stem = "consolidated" if pattern.startswith("consolidated") else "model"
    index = files.read_json(f"{stem}.safetensors.index.json") if pattern.endswith(".safetensors") else None
    if index is None:
        return found
    named = set((index.get("weight_map") or {}).values())
    missing = sorted(named - found.keys())
    if missing:
        raise CheckpointError(
            f"{files.name}: {stem}.safetensors.index.json names {missing[0]}, which is not there"
            + (f", nor are {len(missing) - 1} more" if len(missing) > 1 else ""),
            "fetch the checkpoint again",
        )
    return {name: size for name, size in found.items() if name in named}


def _tensors(files: Files, weight_files: dict[str, int], cache: Path | None) -> dict[str, Tensor] | None:
    tensors: dict[str, Tensor] = {}
    if next(iter(weight_files)).endswith(".safetensors"):
        for file, size in weight_files.items():
            tensors |= header.read_ranges(functools.partial(files.read, file), size, file)
        return tensors
    if files.folder is None:
        return None
    return pickles.read_files([files.folder / file for file in weight_files], cache)


def _int(config: dict[str, Any], key: str) -> int | None:
    value = config.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _default_head_dim(model: dict[str, Any], hidden_size: int | None, heads: int | None) -> int | None:
    if str(model.get("model_type")).startswith("qwen3"):
        return 128  # transformers' Qwen3 configs do not work it out
    return hidden_size // heads if hidden_size and heads else None


def _quantization(config: dict[str, Any]) -> str | None:
    told = config.get("quantization_config") or config.get("compression_config")
    return str(told.get("quant_method", "unknown")) if isinstance(told, dict) else None
