"""What config.json, the tensor headers and the tokenizer files say of a checkpoint. No weights are loaded."""

from __future__ import annotations

import collections
import fnmatch
import functools
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from speccli.checkpoint import header, kind, pickles, speculators, tokenizer
from speccli.checkpoint.config import positive, table, word, words
from speccli.checkpoint.files import Files, in_folder
from speccli.checkpoint.header import Tensor
from speccli.checkpoint.kind import Kind
from speccli.checkpoint.tokenizer import Tokenizer
from speccli.errors import CheckpointError

WEIGHT_PATTERNS = ("consolidated*.safetensors", "*.safetensors", "*.bin", "*.pt")
"""In vLLM's order (`model_loader/default_loader.py`): the first that matches a file is the kind that it loads."""

NOT_WEIGHTS = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")

LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")

AT_A_TIME = 4
"""Headers, which on the hub take two requests each."""

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
    """Where its files lie, or will once they are fetched."""
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
    """By name, over all weight files; None where these were not read, as pickles on the hub cannot be."""
    tokenizer: Tokenizer | None
    has_unread_tokenizer: bool
    """There may be one, for nobody looked."""

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

    @property
    def mtp_bytes(self) -> int:
        tensors = self.tensors or {}
        return sum(tensors[name].size_bytes for name in self.mtp_tensors())

    def mtp_tensors(self) -> list[str]:
        """Named mtp, or a layer above the model's last one, as DeepSeek counts."""
        last = self.architecture.num_hidden_layers or 0
        above = {str(last + i) for i in range(self.architecture.num_mtp_layers)}
        layers = {name: LAYER.search(name) for name in self.tensors or {}}
        return [name for name, layer in layers.items() if "mtp" in name.lower() or (layer and layer[1] in above)]

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        found = (self.tensors or {}).get(tensor)
        return found.shape if found else None


def inspect_folder(
    folder: Path, name: str, cache: Path | None = None, *, opens_pickles: bool = True, reads_tokenizer: bool = True
) -> Inspection:
    """A checkpoint on this machine. `cache` keeps what pickles hold, so that they are opened once."""
    return inspect(in_folder(folder, name), cache, opens_pickles=opens_pickles, reads_tokenizer=reads_tokenizer)


def inspect(
    files: Files,
    cache: Path | None = None,
    *,
    opens_pickles: bool = True,
    reads_tokenizer: bool = True,
    reads_tensors: bool = True,
) -> Inspection:
    """Raises `CheckpointError` where config.json, weights or a header are missing or damaged.

    To open a pickle takes seconds, to read a large vocabulary some tenths of one, and a header on the hub two requests;
    what is left out is None.
    """
    config = files.read_json("config.json")
    if config is None:
        where = files.folder or files.name
        raise CheckpointError(
            f"{where} holds no config.json", "name a checkpoint in Hugging Face layout: config.json beside its weights"
        )
    weight_files = weight_files_of(files)
    tensors = _tensors(files, weight_files, cache, opens_pickles) if reads_tensors else None
    return of_parts(
        name=files.name,
        folder=str(files.folder) if files.folder else None,
        config=config,
        files=files.sizes,
        weight_files=weight_files,
        tensors=tensors,
        tokenizer=tokenizer.read(files) if reads_tokenizer else None,
        has_unread_tokenizer=not reads_tokenizer,
    )


def of_parts(
    *,
    name: str,
    folder: str | None,
    config: dict[str, Any],
    files: dict[str, int],
    weight_files: dict[str, int],
    tensors: dict[str, Tensor] | None,
    tokenizer: Tokenizer | None,
    has_unread_tokenizer: bool = False,
) -> Inspection:
    """What follows from a config and tensors, wherever they come from."""
    model = language_model(config)
    return Inspection(
        name=name,
        folder=folder,
        config=config,
        model=model,
        architecture=architecture(config, model),
        kind=kind.recognised(config, files, tensors),
        files=files,
        weight_files=weight_files,
        tensors=tensors,
        tokenizer=tokenizer,
        has_unread_tokenizer=has_unread_tokenizer,
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
        if nested := table(config, key):
            return language_model(nested) if key == "thinker_config" else nested
    return config


def architecture(config: dict[str, Any], model: dict[str, Any]) -> Architecture:
    heads, hidden = positive(model, "num_attention_heads"), positive(model, "hidden_size")
    names = words(model if speculators.is_speculators(config) else config, "architectures")
    dtypes = [word(part, key) for part in (model, config) for key in ("dtype", "torch_dtype")]
    return Architecture(
        name=next(iter(names), None),
        model_type=word(config, "model_type"),
        num_hidden_layers=positive(model, "num_hidden_layers"),
        hidden_size=hidden,
        intermediate_size=positive(model, "intermediate_size"),
        num_attention_heads=heads,
        num_key_value_heads=positive(model, "num_key_value_heads") or heads,
        head_dim=positive(model, "head_dim") or _default_head_dim(model, hidden, heads),
        vocab_size=positive(model, "vocab_size"),
        max_position_embeddings=positive(model, "max_position_embeddings"),
        dtype=next(filter(None, dtypes), None),
        quantization=_quantization(config) or _quantization(model),
        tie_word_embeddings=(model if "tie_word_embeddings" in model else config).get("tie_word_embeddings") is True,
        layer_types=tuple(words(model, "layer_types")),
        num_mtp_layers=kind.num_mtp_layers(config),
        is_composite=model is not config and "vocab_size" not in config and not speculators.is_speculators(config),
    )


def _indexed(files: Files, found: dict[str, int], pattern: str) -> dict[str, int]:
    """Where an index is there, vLLM loads what it names and nothing else."""
    stem = "consolidated" if pattern.startswith("consolidated") else "model"
    index = files.read_json(f"{stem}.safetensors.index.json") if pattern.endswith(".safetensors") else None
    if index is None:
        return found
    named = set(map(str, table(index, "weight_map").values()))
    missing = sorted(named - found.keys())
    if missing:
        raise CheckpointError(
            f"{files.name}: {stem}.safetensors.index.json names {missing[0]}, which is not there"
            + (f", nor are {len(missing) - 1} more" if len(missing) > 1 else ""),
            "fetch the checkpoint again",
        )
    return {name: size for name, size in found.items() if name in named}


def _tensors(
    files: Files, weight_files: dict[str, int], cache: Path | None, opens_pickles: bool
) -> dict[str, Tensor] | None:
    tensors: dict[str, Tensor] = {}
    if next(iter(weight_files)).endswith(".safetensors"):
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            for read in pool.map(functools.partial(_header, files), weight_files.items()):
                tensors |= read
        return tensors
    paths = [files.folder / file for file in weight_files] if files.folder else []
    if not paths or not all(path.is_file() for path in paths):
        return None
    return pickles.read_files(paths, cache) if opens_pickles else pickles.kept(paths, cache)


def _header(files: Files, file: tuple[str, int]) -> dict[str, Tensor]:
    name, size_bytes = file
    return header.read_ranges(functools.partial(files.read, name), size_bytes, name)


def _default_head_dim(model: dict[str, Any], hidden_size: int | None, heads: int | None) -> int | None:
    if str(model.get("model_type")).startswith("qwen3"):
        return 128  # transformers' Qwen3 configs do not work it out
    return hidden_size // heads if hidden_size and heads else None


def _quantization(config: dict[str, Any]) -> str | None:
    told = table(config, "quantization_config") or table(config, "compression_config")
    return str(told.get("quant_method", "unknown")) if told else None
