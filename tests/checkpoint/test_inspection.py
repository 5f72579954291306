"""Inspection: config, tensors over all shards, tokenizer, and what the checkpoint is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speccli.checkpoint import tokenizer
from speccli.checkpoint.files import Files, in_folder
from speccli.checkpoint.inspection import Inspection, inspect, inspect_folder
from speccli.checkpoint.kind import Kind, recognised
from speccli.errors import CheckpointError
from tests import tiny
from tests.tiny_files import write, write_json, write_safetensors, write_tokenizer


def _inspected(folder: Path) -> Inspection:
    return inspect_folder(folder, "acme/tiny")


def test_the_facts_of_a_target(tmp_path: Path) -> None:
    seen = _inspected(tiny.llama(tmp_path))
    facts = seen.architecture
    assert (facts.name, facts.model_type, facts.num_hidden_layers, facts.hidden_size) == (
        "LlamaForCausalLM",
        "llama",
        4,
        64,
    )
    assert (facts.num_attention_heads, facts.num_key_value_heads, facts.head_dim) == (2, 1, 32)
    assert (facts.vocab_size, facts.max_position_embeddings, facts.dtype) == (320, 512, "float32")
    assert (facts.quantization, facts.num_mtp_layers, facts.is_composite) == (None, 0, False)
    assert seen.shape("model.layers.3.self_attn.k_proj.weight") == (32, 64)
    assert seen.shape("model.layers.4.self_attn.k_proj.weight") is None
    assert seen.bytes_by_dtype == {"F32": 4 * 188_992}
    assert seen.num_parameters == 188_992
    assert seen.weight_files == {"model.safetensors": (tmp_path / "model.safetensors").stat().st_size}


def test_shards_are_merged_and_the_index_decides_which_files_count(tmp_path: Path) -> None:
    tiny.llama(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "left-over.safetensors")
    for i in (1, 2):
        write_safetensors(tmp_path / f"model-0000{i}-of-00002.safetensors", {f"part.{i}": np.ones(i, np.float32)})
    weight_map = {f"part.{i}": f"model-0000{i}-of-00002.safetensors" for i in (1, 2)}
    write_json(tmp_path / "model.safetensors.index.json", {"weight_map": weight_map})
    seen = _inspected(tmp_path)
    assert {name: tensor.shape for name, tensor in (seen.tensors or {}).items()} == {"part.1": (1,), "part.2": (2,)}
    assert sorted(seen.weight_files) == sorted(weight_map.values())


def test_a_shard_that_is_missing_is_named(tmp_path: Path) -> None:
    tiny.llama(tmp_path)
    write_json(tmp_path / "model.safetensors.index.json", {"weight_map": {"a": "gone-1", "b": "gone-2"}})
    with pytest.raises(CheckpointError) as caught:
        _inspected(tmp_path)
    assert caught.value.message == (
        "acme/tiny: model.safetensors.index.json names gone-1, which is not there, nor are 1 more"
    )


def test_a_consolidated_file_goes_first_as_in_vllm(tmp_path: Path) -> None:
    tiny.llama(tmp_path)
    write_safetensors(tmp_path / "consolidated.safetensors", {"tok_embeddings.weight": np.ones((2, 2), np.float32)})
    assert list(_inspected(tmp_path).tensors or {}) == ["tok_embeddings.weight"]


def _without_config(folder: Path) -> str:
    tiny.llama(folder)
    (folder / "config.json").unlink()
    return f"{folder} holds no config.json"


def _damaged_config(folder: Path) -> str:
    tiny.llama(folder)
    (folder / "config.json").write_text("{")
    return "acme/tiny: config.json cannot be read: Input data was truncated"


def _config_of_a_list(folder: Path) -> str:
    tiny.llama(folder)
    (folder / "config.json").write_text("[]")
    return "acme/tiny: config.json cannot be read: Expected `object`, got `array`"


def _without_weights(folder: Path) -> str:
    tiny.llama(folder)
    (folder / "model.safetensors").unlink()
    (folder / "training_args.bin").write_bytes(b"x")
    return "acme/tiny holds no weights"


def _truncated_weights(folder: Path) -> str:
    tiny.llama(folder)
    file = folder / "model.safetensors"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-1])
    return f"model.safetensors is truncated: lm_head.weight ends at byte {size:,}, and the file holds {size - 1:,}"


def _damaged_tokenizer(folder: Path) -> str:
    tiny.llama(folder)
    (folder / "tokenizer.json").write_text('{"model": 3}')
    return "acme/tiny: tokenizer.json cannot be read: Expected `object`, got `int` - at `$.model`"


def _no_folder(folder: Path) -> str:
    return f"acme/tiny: {folder} cannot be read: No such file or directory"


@pytest.mark.parametrize(
    "spoil",
    [
        _without_config,
        _damaged_config,
        _config_of_a_list,
        _without_weights,
        _truncated_weights,
        _damaged_tokenizer,
        _no_folder,
    ],
)
def test_a_bad_folder_gets_one_message(tmp_path: Path, spoil: Callable[[Path], str]) -> None:
    message = spoil(tmp_path / "checkpoint")
    with pytest.raises(CheckpointError) as caught:
        _inspected(tmp_path / "checkpoint")
    assert caught.value.message == message
    assert caught.value.hint


def test_a_checkpoint_on_the_hub_is_read_by_pieces_and_its_pickles_are_left_alone(tmp_path: Path) -> None:
    local = in_folder(tiny.llama(tmp_path), "acme/tiny")
    remote = Files("acme/tiny", local.sizes, local.read)
    assert inspect(remote).tensors == inspect(local).tensors
    assert inspect(remote).folder is None
    pickled = {
        **{name: size for name, size in local.sizes.items() if name != "model.safetensors"},
        "pytorch_model.bin": 9,
    }
    assert inspect(Files("acme/tiny", pickled, local.read)).tensors is None


def test_a_nested_language_model_gives_the_facts(tmp_path: Path) -> None:
    nested = tiny.model_config(architectures=None, num_hidden_layers=7)
    config = {"architectures": ["SeeingForConditionalGeneration"], "model_type": "seeing", "text_config": nested}
    facts = _inspected(write(tmp_path, config, {"a": np.ones(1, np.float32)})).architecture
    assert (facts.name, facts.num_hidden_layers, facts.vocab_size) == ("SeeingForConditionalGeneration", 7, 320)
    assert facts.is_composite


def test_quantised_weights_have_bytes_and_no_parameter_count(tmp_path: Path) -> None:
    seen = _inspected(tiny.llama(tmp_path, quantization_config={"quant_method": "awq", "bits": 4}))
    assert (seen.architecture.quantization, seen.num_parameters) == ("awq", None)


@pytest.mark.parametrize(
    ("make", "method", "layout"),
    [
        (tiny.llama, "draft_model", "plain"),
        (tiny.qwen3, "draft_model", "plain"),
        (tiny.mtp, "draft_model", "plain"),
        (tiny.eagle3, "eagle3", "plain"),
        (tiny.speculators_eagle3, "eagle3", "speculators"),
        (tiny.dflash, "dflash", "plain"),
        (tiny.vllm_medusa, "medusa", "plain"),
        (tiny.merged_medusa, "medusa", "medusa-merged"),
    ],
)
def test_a_checkpoint_is_recognised_by_what_is_in_it(
    tmp_path: Path, make: Callable[[Path], Path], method: str, layout: str
) -> None:
    kind = _inspected(make(tmp_path / "checkpoint-1000")).kind
    assert (kind.method, kind.layout) == (method, layout)


@pytest.mark.parametrize(
    ("config", "tensors", "method"),
    [
        ({"architectures": ["Qwen3DSparkModel"], "model_type": "qwen3"}, [], "dspark"),
        ({"architectures": ["PeagleLlamaForCausalLM"], "model_type": "llama"}, [], "eagle3"),
        ({"architectures": ["EAGLEModel"], "model_type": "eagle", "model": {}}, [], "eagle"),
        ({"architectures": ["Eagle2_5_VLForConditionalGeneration"], "model_type": "eagle_2_5_vl"}, [], "draft_model"),
        ({"architectures": ["LlamaForCausalLM"]}, ["midlayer.hidden_norm.weight", "fc.weight"], "eagle3"),
        ({"architectures": ["LlamaForCausalLM"]}, ["layers.0.mlp.up_proj.weight", "fc.weight"], "eagle"),
        ({"model_type": "mlp_speculator", "architectures": ["MLPSpeculatorPreTrainedModel"]}, [], "mlp_speculator"),
        ({"model_type": "gemma4_assistant", "architectures": ["Gemma4AssistantForCausalLM"]}, [], "mtp"),
        ({"medusa_num_heads": 2}, ["0.0.linear.weight", "0.1.weight"], "medusa"),
        ({"architectures": ["LlamaForCausalLM"], "medusa_num_heads": 3}, [], "medusa"),
    ],
)
def test_author_layouts_are_told_apart(config: dict[str, Any], tensors: list[str], method: str) -> None:
    assert recognised(config, {}, tensors).method == method


def test_medusa_heads_are_recognised_by_their_file_when_its_tensors_are_unknown() -> None:
    assert recognised({"medusa_num_heads": 2}, ["medusa_lm_head.pt"], None) == Kind(
        "medusa", "medusa-author", "medusa_num_heads without model_type, or medusa_lm_head.pt"
    )


def test_equal_tokenizers_have_equal_digests_and_no_difference(tmp_path: Path) -> None:
    first, second = tiny.llama(tmp_path / "a"), tiny.draft_model(tmp_path / "b")
    one, other = (tokenizer.read(in_folder(folder, "tiny")) for folder in (first, second))
    assert one is not None
    assert other is not None
    assert (one.size, one.digest, one.specials["eos_token"]) == (260, other.digest, "<|eos|>")
    assert tokenizer.compare(one, other) == tokenizer.Difference(260, 0, None, 0, 0, 260)


def test_two_swapped_ids_are_found(tmp_path: Path) -> None:
    for name, swap in (("a", None), ("b", (70, 65))):
        (tmp_path / name).mkdir()
        write_tokenizer(tmp_path / name, swap)
    one, other = (tokenizer.read(in_folder(tmp_path / name, "tiny")) for name in "ab")
    assert one is not None
    assert other is not None
    assert tokenizer.compare(one, other) == tokenizer.Difference(260, 2, (65, "A", "F"), 0, 0, 260)


def test_a_sentencepiece_model_means_the_same_as_its_converted_copy(tmp_path: Path) -> None:
    pieces = [b"<unk>", b"<s>", b"</s>", "▁the".encode()]
    score = b"\x15\x00\x00\x80\xbf"
    entries = [b"\x0a" + bytes([len(piece)]) + piece + score + b"\x18\x01" for piece in pieces]
    message = b"".join(b"\x0a" + bytes([len(entry)]) + entry for entry in entries) + b"\x12\x02\x08\x01"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "tokenizer.model").write_bytes(message)
    fast = {"model": {"type": "Unigram", "vocab": [[piece.decode(), 0.0] for piece in pieces]}}
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "tokenizer.json").write_text(json.dumps(fast))
    one, other = (tokenizer.read(in_folder(tmp_path / name, "tiny")) for name in "ab")
    assert one is not None
    assert other is not None
    assert one.tokens == {0: "<unk>", 1: "<s>", 2: "</s>", 3: "▁the"}
    assert one.digest == other.digest


def test_a_slow_tokenizer_is_read_with_what_its_config_adds(tmp_path: Path) -> None:
    write_json(tmp_path / "vocab.json", {"a": 0, "b": 1})
    write_json(tmp_path / "added_tokens.json", {"<pad>": 2})
    added = {"3": {"content": "<eos>"}}
    write_json(tmp_path / "tokenizer_config.json", {"added_tokens_decoder": added, "eos_token": {"content": "<eos>"}})
    seen = tokenizer.read(in_folder(tmp_path, "tiny"))
    assert seen is not None
    assert (seen.tokens, seen.specials) == ({0: "a", 1: "b", 2: "<pad>", 3: "<eos>"}, {"eos_token": "<eos>"})


def test_a_tiktoken_file_of_that_name_is_no_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(b"IQ== 0\nIg== 1\n")
    assert tokenizer.read(in_folder(tmp_path, "tiny")) is None


def test_the_bytes_of_mtp_layers_are_counted_and_no_others(tmp_path: Path) -> None:
    """The layers of a vision tower have numbers too, and may be more."""
    layers = {
        "model.layers.3.mlp.weight": np.ones(1, np.float32),
        "model.layers.4.mlp.weight": np.ones(2, np.float32),
        "mtp.norm.weight": np.ones(4, np.float32),
        "vision.layers.5.mlp.weight": np.ones(8, np.float32),
    }
    write(tmp_path, tiny.model_config(num_nextn_predict_layers=1), layers)
    assert _inspected(tmp_path).mtp_bytes == 4 * (2 + 4)
