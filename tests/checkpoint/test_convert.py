"""Converted copies: what is put right, how it is written, and when it is made again. No torch in here."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speccli.checkpoint import convert
from speccli.checkpoint.inspection import Inspection, inspect_folder
from speccli.errors import CheckpointError, MachineError
from tests import tiny
from tests.tiny_files import random, write_json, write_safetensors

Convert = Callable[..., Inspection]


def _inspected(folder: Path) -> Inspection:
    return inspect_folder(folder, folder.name)


def _loaded(folder: str | Path | None) -> dict[str, Any]:
    from safetensors.numpy import load_file

    return {
        name: array
        for file in sorted(Path(str(folder)).glob("*.safetensors"))
        for name, array in load_file(file).items()
    }


@pytest.fixture
def target(tmp_path: Path) -> Inspection:
    return _inspected(tiny.llama(tmp_path / "target"))


@pytest.fixture
def converted(tmp_path: Path, target: Inspection) -> Convert:
    """Converts, and checks that the copy is what was announced."""

    def convert_it(folder: Path, method: str) -> Inspection:
        seen = _inspected(folder)
        plan = convert.plan(seen, target, method)
        assert plan is not None
        made = convert.converted(seen, plan, f"acme/{folder.name}", tmp_path / "cache", lambda line: None, method)
        got, announced = _inspected(made), convert.preview(seen, plan)
        assert got.config == announced.config
        assert _shapes(got) == _shapes(announced)
        assert convert.plan(got, target, method) is None
        return got

    return convert_it


def _shapes(seen: Inspection) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in (seen.tensors or {}).items()}


def test_medusa_heads_get_their_names_counts_widths_and_biases(tmp_path: Path, converted: Convert) -> None:
    heads = tiny.medusa(tmp_path / "heads", weights="medusa_lm_head.safetensors")
    got = converted(heads, "medusa")
    assert got.config == {
        "base_model_name_or_path": "acme/tiny-llama",
        "model_type": "medusa",
        "architectures": ["MedusaModel"],
        "hidden_size": 64,
        "vocab_size": 320,
        "num_heads": 3,
        "num_hidden_layers": 1,
        "medusa_fc_bias": True,
        "torch_dtype": "float32",
    }
    before, after = _loaded(heads), _loaded(got.folder)
    assert len(after) == 9
    for head in range(3):
        assert (after[f"blocks.{head}.layers.0.weight"] == before[f"{head}.0.linear.weight"]).all()
        assert (after[f"blocks.{head}.layers.0.bias"] == before[f"{head}.0.linear.bias"]).all()
        assert (after[f"lm_heads.{head}.weight"] == before[f"{head}.1.weight"]).all()


def test_medusa_heads_of_two_layers_are_counted(tmp_path: Path, converted: Convert) -> None:
    tensors = dict.fromkeys(tiny.medusa_tensors(3)) | tiny.medusa_tensors(2, layers=2)
    heads = tiny.medusa(tmp_path / "heads", weights="medusa_lm_head.safetensors", tensors=tensors)
    got = converted(heads, "medusa")
    assert (got.config["num_heads"], got.config["num_hidden_layers"]) == (2, 2)
    assert got.shape("blocks.1.layers.1.weight") == (64, 64)
    assert got.shape("lm_heads.1.weight") == (320, 64)


def test_a_merged_medusa_comes_apart(tmp_path: Path, converted: Convert) -> None:
    merged = tiny.merged_medusa(tmp_path / "merged")
    heads = converted(merged, "medusa")
    assert sorted(heads.tensors or {})[0] == "blocks.0.layers.0.bias"
    assert heads.config["num_heads"] == 3
    seen = _inspected(merged)
    plan = convert.plan_target(seen, "medusa", has_speculator=True)
    assert plan is not None
    base = _inspected(convert.converted(seen, plan, "acme/merged", tmp_path / "cache", lambda line: None, "medusa"))
    assert not [name for name in base.tensors or {} if "medusa" in name]
    assert "medusa_num_heads" not in base.config
    assert base.kind.method == "draft_model"
    assert (_loaded(base.folder)["model.norm.weight"] == 1).all()
    assert base.tokenizer == seen.tokenizer


def test_the_config_of_medusa_heads_in_vllms_layout_is_corrected_and_their_file_linked(
    tmp_path: Path, converted: Convert
) -> None:
    heads = tiny.vllm_medusa(tmp_path / "heads", medusa_fc_bias=None, hidden_size=None)
    got = converted(heads, "medusa")
    assert (got.config["medusa_fc_bias"], got.config["hidden_size"]) == (True, 64)
    linked = Path(str(got.folder)) / "model.safetensors"
    assert linked.readlink() == heads / "model.safetensors"


def test_what_vllm_reads_right_needs_no_conversion(tmp_path: Path, target: Inspection) -> None:
    good = [
        (tiny.vllm_medusa(tmp_path / "m"), "medusa"),
        (tiny.eagle(tmp_path / "e", weights="model.safetensors"), "eagle"),
        (tiny.eagle3(tmp_path / "e3"), "eagle3"),
        (tiny.speculators_eagle3(tmp_path / "s"), "eagle3"),
        (tiny.dflash(tmp_path / "d"), "dflash"),
        (tiny.draft_model(tmp_path / "dm"), "draft_model"),
    ]
    assert [convert.needed(_inspected(folder), target, method) for folder, method in good] == [None] * 6
    assert convert.plan_target(target, "eagle", has_speculator=True) is None


def test_an_eagle_head_loses_prefix_and_surplus_head(tmp_path: Path, converted: Convert) -> None:
    plain = tiny.eagle_tensors(tiny.model_config(num_hidden_layers=1))
    prefixed = dict.fromkeys(plain) | {f"model.{name}": array for name, array in plain.items()}
    head = tiny.eagle(
        tmp_path / "head", weights="model.safetensors", tensors=prefixed | {"lm_head.weight": random(320, 64)}
    )
    got = converted(head, "eagle")
    assert sorted(got.tensors or {}) == sorted(plain)
    assert (_loaded(got.folder)["fc.weight"] == plain["fc.weight"]).all()


def test_the_layout_of_vllms_first_engine_is_unpacked(tmp_path: Path, converted: Convert) -> None:
    nested = tiny.model_config(num_hidden_layers=1)
    plain = tiny.eagle_tensors(nested)
    old = {f"model.model.{name}" if name != "fc.weight" else name: array for name, array in plain.items()}
    old["model.model.layers.0.input_layernorm.weight"] = np.ones(64, np.float32)
    config = {"model_type": "eagle", "architectures": ["EAGLEModel"], "model": nested}
    head = tmp_path / "head"
    head.mkdir()
    write_json(head / "config.json", config)
    write_safetensors(head / "model.safetensors", old)
    got = converted(head, "eagle")
    assert sorted(got.tensors or {}) == sorted(plain)
    assert (got.config["model_type"], got.config["architectures"]) == ("llama", ["LlamaForCausalLM"])


def test_a_norm_that_an_eagle_head_was_trained_with_is_not_taken_from_it(tmp_path: Path, target: Inspection) -> None:
    trained = {"layers.0.input_layernorm.weight": random(64)}
    head = tiny.eagle(tmp_path / "head", weights="model.safetensors", tensors=trained)
    assert convert.needed(_inspected(head), target, "eagle") is None


def test_an_eagle_head_of_a_family_without_a_class_is_told_as_llama(tmp_path: Path, converted: Convert) -> None:
    biases = {f"layers.0.self_attn.{name}_proj.bias": random(64 if name == "q" else 32) for name in "qkv"}
    head = tiny.eagle(
        tmp_path / "head",
        weights="model.safetensors",
        tensors=biases,
        architectures=["Qwen2ForCausalLM"],
        model_type="qwen2",
        attention_bias=None,
        qkv_bias=True,
        use_sliding_window=False,
    )
    got = converted(head, "eagle")
    assert (got.config["architectures"], got.config["model_type"]) == (["LlamaForCausalLM"], "llama")
    assert (got.config["qkv_bias"], got.config.get("attention_bias")) == (True, None)
    assert "use_sliding_window" not in got.config
    assert (Path(str(got.folder)) / "model.safetensors").is_symlink()


def test_an_eagle_config_that_means_another_bias_is_corrected(tmp_path: Path, converted: Convert) -> None:
    got = converted(tiny.eagle(tmp_path / "head", weights="model.safetensors", bias=True), "eagle")
    assert (got.config.get("bias"), got.config["attention_bias"], got.config["qkv_bias"]) == (None, False, False)


def test_what_the_tensors_of_a_third_eagle_show_comes_into_its_config(tmp_path: Path, converted: Convert) -> None:
    five = {"fc.weight": random(64, 5 * 64)}
    head = tiny.eagle3(
        tmp_path / "head", tensors=five, draft_vocab_size=None, eagle_aux_hidden_state_layer_ids=[0, 1, 2, 3, 4]
    )
    got = converted(head, "eagle3")
    assert (got.config["draft_vocab_size"], got.config["num_aux_hidden_states"]) == (128, 5)
    assert (Path(str(got.folder)) / "model.safetensors").is_symlink()


def test_in_the_speculators_format_it_comes_where_vllm_hands_it_on(tmp_path: Path, converted: Convert) -> None:
    four = {"fc.weight": random(64, 4 * 64)}
    head = tiny.speculators_eagle3(tmp_path / "head", tensors=four, eagle_aux_hidden_state_layer_ids=[1, 2, 3, 4])
    got = converted(head, "eagle3")
    assert got.config["transformer_layer_config"]["num_aux_hidden_states"] == 4
    assert "num_aux_hidden_states" not in got.config


@pytest.mark.parametrize("rows", [288, 352])
def test_a_draft_that_is_padded_otherwise_gets_the_targets_rows(tmp_path: Path, converted: Convert, rows: int) -> None:
    draft = tiny.draft_model(tmp_path / "draft", vocab_size=rows, tie_word_embeddings=False)
    got = converted(draft, "draft_model")
    before, after = _loaded(draft), _loaded(got.folder)
    assert got.config["vocab_size"] == 320
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        kept = min(rows, 320)
        assert (after[name][:kept] == before[name][:kept]).all()
        assert (after[name][kept:] == 0).all()
    assert (after["model.layers.0.mlp.up_proj.weight"] == before["model.layers.0.mlp.up_proj.weight"]).all()
    assert got.tokenizer == _inspected(draft).tokenizer


def test_only_the_shards_that_change_are_written(tmp_path: Path, converted: Convert) -> None:
    draft = tiny.draft_model(tmp_path / "draft", vocab_size=288)
    tensors = _loaded(draft)
    (draft / "model.safetensors").unlink()
    embedding = {"model.embed_tokens.weight": tensors.pop("model.embed_tokens.weight")}
    weight_map = {**dict.fromkeys(tensors, "model-1.safetensors"), **dict.fromkeys(embedding, "model-2.safetensors")}
    write_safetensors(draft / "model-1.safetensors", tensors)
    write_safetensors(draft / "model-2.safetensors", embedding)
    write_json(draft / "model.safetensors.index.json", {"weight_map": weight_map})
    folder = Path(str(converted(draft, "draft_model").folder))
    assert (folder / "model-1.safetensors").is_symlink()
    assert not (folder / "model-2.safetensors").is_symlink()
    assert json.loads((folder / "model.safetensors.index.json").read_bytes())["weight_map"] == weight_map


def test_a_draft_of_another_tokenizer_is_left_alone(tmp_path: Path, target: Inspection) -> None:
    draft = tiny.draft_model(tmp_path / "draft", vocab_size=288)
    (draft / "tokenizer.json").write_text('{"model": {"vocab": {"other": 0}}}')
    assert convert.needed(_inspected(draft), target, "draft_model") is None


@pytest.mark.parametrize("name", ["EAGLE-draft", "my-eagle3", "a-dflash-b", "dspark"])
def test_a_path_that_misleads_vllm_is_avoided(tmp_path: Path, target: Inspection, name: str) -> None:
    seen = _inspected(tiny.draft_model(tmp_path / name))
    plan = convert.plan(seen, target, "draft_model")
    assert plan is not None
    made = convert.converted(seen, plan, f"acme/{name}", tmp_path / "cache", lambda line: None, "draft_model")
    assert (made / "model.safetensors").is_symlink()
    assert (made / "tokenizer.json").read_bytes() == (tmp_path / name / "tokenizer.json").read_bytes()
    assert not any(trap in str(made).lower() for trap in ("eagle-", "eagle3", "dflash", "dspark"))


def test_a_path_that_names_the_method_is_no_trap(tmp_path: Path, target: Inspection) -> None:
    assert convert.needed(_inspected(tiny.eagle3(tmp_path / "eagle3-head")), target, "eagle3") is None


def test_a_target_whose_own_path_misleads_is_avoided_where_it_drafts_for_itself(tmp_path: Path) -> None:
    target = _inspected(tiny.mtp(tmp_path / "eagle-nest"))
    assert convert.plan_target(target, "mtp", has_speculator=False) is not None
    assert convert.plan_target(target, "mtp", has_speculator=True) is None
    assert convert.plan_target(target, "ngram", has_speculator=False) is None


def test_a_cache_whose_path_misleads_is_refused(tmp_path: Path, target: Inspection) -> None:
    seen = _inspected(tiny.draft_model(tmp_path / "draft", vocab_size=288))
    plan = convert.plan(seen, target, "draft_model")
    assert plan is not None
    with pytest.raises(MachineError, match="holds a word from which vLLM concludes that the method is eagle"):
        convert.converted(seen, plan, "acme/draft", tmp_path / "eagle-cache", lambda line: None, "draft_model")
    assert not (tmp_path / "eagle-cache").exists()


@pytest.fixture
def again(tmp_path: Path, target: Inspection) -> Callable[[], list[str]]:
    """Converts the same heads, and returns what was narrated: nothing when the copy was found."""
    heads = tiny.vllm_medusa(tmp_path / "heads", medusa_fc_bias=None)

    def convert_it(key: str = "acme/heads@1") -> list[str]:
        seen, lines = _inspected(heads), list[str]()
        plan = convert.plan(seen, target, "medusa")
        assert plan is not None
        convert.converted(seen, plan, key, tmp_path / "cache", lines.append, "medusa")
        return lines

    return convert_it


def test_a_copy_is_made_once(again: Callable[..., list[str]]) -> None:
    assert again() == ["converting heads: config.json of Medusa heads: medusa_fc_bias is missing, by the weights True"]
    assert again() == []
    assert again("acme/heads@2") != []


def test_a_copy_is_made_again_when_its_source_changed(tmp_path: Path, again: Callable[..., list[str]]) -> None:
    again()
    os.utime(tmp_path / "heads" / "model.safetensors", ns=(1, 1))
    assert again() != []
    assert again() == []


def test_a_copy_is_made_again_when_it_is_damaged(tmp_path: Path, again: Callable[..., list[str]]) -> None:
    again()
    (folder,) = [path for path in (tmp_path / "cache" / "converted").iterdir() if path.is_dir()]
    (folder / "config.json").write_text("{}")
    assert again() != []
    assert json.loads((folder / "config.json").read_bytes())["num_heads"] == 3
    (folder / "speccli.json").unlink()
    assert again() != []


def test_what_a_killed_process_left_is_swept(tmp_path: Path, again: Callable[..., list[str]]) -> None:
    left = tmp_path / "cache" / "converted" / "heads-1.partial"
    left.mkdir(parents=True)
    again()
    assert not left.exists()


def test_a_failed_conversion_leaves_nothing(tmp_path: Path, target: Inspection) -> None:
    draft = tiny.draft_model(tmp_path / "draft", vocab_size=288)
    seen = _inspected(draft)
    plan = convert.plan(seen, target, "draft_model")
    assert plan is not None
    file = draft / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(CheckpointError) as caught:
        convert.converted(seen, plan, "acme/draft", tmp_path / "cache", lambda line: None, "draft_model")
    assert caught.value.message == f"draft could not be converted: ValueError: {file} ends before its tensors do"
    assert [path.name for path in (tmp_path / "cache" / "converted").iterdir()] == [".lock"]


def test_a_cache_that_is_a_file_is_told(tmp_path: Path, target: Inspection) -> None:
    seen = _inspected(tiny.vllm_medusa(tmp_path / "heads", medusa_fc_bias=None))
    plan = convert.plan(seen, target, "medusa")
    assert plan is not None
    (tmp_path / "cache").write_text("")
    with pytest.raises(MachineError, match="cannot be used"):
        convert.converted(seen, plan, "acme/heads", tmp_path / "cache", lambda line: None, "medusa")
