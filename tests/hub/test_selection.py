"""What of a repository is downloaded, and which repositories are refused."""

from __future__ import annotations

import pytest

from speccli.checkpoint.hub import Hub
from speccli.errors import CheckpointError
from tests.hub.example import CONFIG, SHARDED, TINY, bodies, fetched, refused
from tests.hub.server import HubServer

UNNEEDED = {
    "README.md": b"r",
    "LICENSE.txt": b"l",
    ".gitattributes": b"g",
    "original/consolidated.00.pth": b"p",
    "onnx/model.onnx": b"o",
    "model.Q4_K_M.gguf": b"q",
    "flax_model.msgpack": b"f",
    "tf_model.h5": b"t",
    "optimizer.pt": b"o",
    "scheduler.pt": b"s",
    "training_args.bin": b"a",
    "trainer_state.json": b"{}",
    "all_results.json": b"{}",
}
TEXTS = {
    "config.json": b"{}",
    "generation_config.json": b'{"eos_token_id": 2}',
    "tokenizer_config.json": b'{"a": 1}',
    "tokenizer.model": b"m",
    "vocab.json": b'{"b": 1}',
    "merges.txt": b"#v",
    "special_tokens_map.json": b'{"c": 1}',
    "chat_template.jinja": b"{{ messages }}",
    "preprocessor_config.json": b'{"d": 1}',
    "configuration_own.py": b"pass",
}
SHARDS = {name: content for name, content in SHARDED.items() if name not in CONFIG}
BINS = {
    "pytorch_model.bin.index.json": b'{"weight_map": {"a": "pytorch_model-1.bin"}}',
    "pytorch_model-1.bin": b"bin one",
    "stray.bin": b"bin two",
}
SELECTIONS = {
    "one safetensors file": ({"model.safetensors": b"w"}, {"model.safetensors"}),
    "safetensors rather than bin and pt": (
        {"model.safetensors": b"w", "pytorch_model.bin": b"b", "x.pt": b"t"},
        {"model.safetensors"},
    ),
    "the files that the index names, and no others": (
        {**SHARDS, "consolidated.safetensors": b"all", "stray.safetensors": b"s", **BINS},
        set(SHARDS),
    ),
    "Mistral's own layout where there is no other": (
        {"consolidated.safetensors": b"all", "params.json": b'{"e": 1}'},
        {"consolidated.safetensors", "params.json"},
    ),
    "one copy of weights published twice": (
        {"consolidated.safetensors": b"all", "model.safetensors": b"w"},
        {"model.safetensors"},
    ),
    "bin where there are no safetensors": (BINS, {"pytorch_model.bin.index.json", "pytorch_model-1.bin"}),
    "a Medusa head's pt": ({"medusa_lm_head.pt": b"heads"}, {"medusa_lm_head.pt"}),
    "a DFlash draft's mask embedding beside its safetensors": (
        {"model.safetensors": b"w", "mask_embedding.pt": b"embedding"},
        {"model.safetensors", "mask_embedding.pt"},
    ),
    "weights beside an adapter": (
        {"adapter_model.safetensors": b"l", "pytorch_model.bin": b"b"},
        {"pytorch_model.bin"},
    ),
}


@pytest.mark.parametrize(("weights", "expected"), SELECTIONS.values(), ids=SELECTIONS)
def test_only_what_vllm_needs_is_downloaded(
    weights: dict[str, bytes], expected: set[str], server: HubServer, at: Hub
) -> None:
    server.add("org/tiny", {**UNNEEDED, **TEXTS, **weights})
    folder, _ = fetched(TINY, at)
    assert {file.name for file in folder.iterdir()} == expected | set(TEXTS)
    read_before = {"model.safetensors.index.json", "pytorch_model.bin.index.json"}
    assert {name for name in bodies(server) if name not in read_before} == (expected | set(TEXTS)) - read_before


NOT_LOADABLE = {
    "nothing": ({"README.md": b"r"}, "org/tiny holds no config.json"),
    "gguf": ({"model.gguf": b"g"}, "org/tiny holds no config.json, but GGUF files"),
    "adapter": ({"adapter_config.json": b"{}"}, "org/tiny holds no config.json, but a LoRA adapter"),
    "mistral": ({"params.json": b"{}"}, "org/tiny holds no config.json, but Mistral's own layout"),
    "no weights": (CONFIG, "org/tiny holds no weights"),
    "trainer": ({**CONFIG, "training_args.bin": b"t"}, "org/tiny holds no weights"),
}


@pytest.mark.parametrize(("files", "message"), NOT_LOADABLE.values(), ids=NOT_LOADABLE)
def test_a_repository_that_vllm_cannot_load_is_refused_before_the_first_byte(
    files: dict[str, bytes], message: str, server: HubServer, at: Hub
) -> None:
    server.add("org/tiny", files)
    error = refused(TINY, at)
    assert isinstance(error, CheckpointError)
    assert error.message == message
    assert error.hint == "name a repository or folder with config.json and safetensors instead of org/tiny"
    assert bodies(server) == []
    assert not at.cache.exists()


def test_an_index_that_names_files_that_are_not_there_is_told(server: HubServer, at: Hub) -> None:
    server.add("org/tiny", {name: SHARDED[name] for name in SHARDED if "2-of" not in name})
    assert refused(TINY, at).message == (
        "org/tiny is incomplete: 1 of the 2 files that model.safetensors.index.json names are missing, "
        "model-2-of-2.safetensors first"
    )
    server.add("org/tiny", {**SHARDED, "model.safetensors.index.json": b'{"weight_map": 3}'})
    assert refused(TINY, at).message == "org/tiny: model.safetensors.index.json names no weight files"
