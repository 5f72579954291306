"""The pair check: nothing to say about good pairs, and one stable id for each fault, silent ones above all."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from speccli import paircheck
from speccli.checkpoint import convert
from speccli.checkpoint.inspection import Inspection, inspect_folder, of_parts
from speccli.paircheck import Fault, Pair
from tests import tiny
from tests.tiny_files import random, write, write_tokenizer

MakePair = Callable[..., Pair]

Make = Callable[..., Path]


@pytest.fixture
def pair(tmp_path: Path) -> MakePair:
    """A pair of what two makers write, each with changes of its own."""

    def make_pair(
        method: str,
        k: int,
        speculator: Make | None = None,
        target: Make = tiny.llama,
        *,
        of: dict[str, Any] | None = None,
        to: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Pair:
        """`of` changes the speculator, `to` the target."""
        return Pair(
            target=_inspected(target(tmp_path / "target", **(to or {})), "acme/tiny-llama"),
            speculator=_inspected(speculator(tmp_path / "head", **(of or {})), "acme/head") if speculator else None,
            method=method,
            num_speculative_tokens=k,
            **settings,
        )

    return make_pair


def _inspected(folder: Path, name: str) -> Inspection:
    return inspect_folder(folder, name)


def _eagle(folder: Path, **changes: Any) -> Path:
    return tiny.eagle(folder, weights="model.safetensors", **changes)


def _author_medusa(folder: Path, **changes: Any) -> Path:
    return tiny.medusa(folder, weights="medusa_lm_head.safetensors", **changes)


def _told(pair: Pair) -> list[tuple[str, str]]:
    return [(fault.severity, fault.id) for fault in paircheck.check(pair)]


def _only(pair: Pair) -> Fault:
    (fault,) = paircheck.check(pair)
    assert fault.evidence
    assert fault.cause
    assert fault.fix
    return fault


GOOD: list[tuple[str, int, Make | None, Make]] = [
    ("none", 0, None, tiny.llama),
    ("ngram", 4, None, tiny.llama),
    ("suffix", 24, None, tiny.llama),
    ("draft_model", 3, tiny.draft_model, tiny.llama),
    ("draft_model", 3, tiny.draft_model, tiny.qwen3),
    ("eagle", 2, _eagle, tiny.llama),
    ("eagle3", 3, tiny.eagle3, tiny.llama),
    ("eagle3", 3, tiny.speculators_eagle3, tiny.llama),
    ("medusa", 3, tiny.vllm_medusa, tiny.llama),
    ("dflash", 7, tiny.dflash, tiny.qwen3),
    ("mtp", 1, None, tiny.mtp),
]


@pytest.mark.parametrize(("method", "k", "speculator", "target"), GOOD)
@pytest.mark.parametrize("on_cpu", [True, False])
def test_a_good_pair_gives_nothing(
    pair: MakePair, method: str, k: int, speculator: Make | None, target: Make, on_cpu: bool
) -> None:
    assert _told(pair(method, k, speculator, target, on_cpu=on_cpu)) == []


@pytest.mark.parametrize(
    ("method", "speculator", "changes"),
    [
        ("medusa", _author_medusa, {}),
        ("eagle", _eagle, {"has_bias": True}),
        ("eagle", _eagle, {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}),
        ("eagle3", tiny.eagle3, {"draft_vocab_size": None}),
        ("draft_model", tiny.draft_model, {"vocab_size": 288}),
    ],
)
def test_what_speccli_converts_has_faults_before_and_none_after(
    pair: MakePair, method: str, speculator: Make, changes: dict[str, Any]
) -> None:
    raw = pair(method, 2, speculator, of=changes)
    assert raw.speculator is not None
    assert _told(raw) != []
    converted = convert.preview(raw.speculator, convert.plan(raw.speculator, raw.target, method))
    assert _told(Pair(target=raw.target, speculator=converted, method=method, num_speculative_tokens=2)) == []


FAULTS: list[tuple[str, str, int, Make | None, dict[str, Any]]] = [
    # vocabulary
    ("error pair.vocab-size", "draft_model", 3, tiny.draft_model, {"of": {"vocab_size": 200}}),
    ("error pair.vocab-padding", "draft_model", 3, tiny.draft_model, {"of": {"vocab_size": 288}}),
    ("error pair.vocab-size", "eagle3", 3, tiny.eagle3, {"to": {"vocab_size": 352}}),
    ("error pair.vocab-size", "medusa", 3, tiny.vllm_medusa, {"to": {"vocab_size": 352}}),
    (
        "error pair.heterogeneous-method",
        "eagle3",
        3,
        tiny.eagle3,
        {"config": {"use_heterogeneous_vocab": True}},
    ),
    (
        "error pair.heterogeneous-sampling",
        "draft_model",
        3,
        tiny.draft_model,
        {
            "of": {"vocab_size": 288},
            "config": {"use_heterogeneous_vocab": True, "draft_sample_method": "probabilistic"},
        },
    ),
    (
        "warning pair.heterogeneous-needless",
        "draft_model",
        3,
        tiny.draft_model,
        {"config": {"use_heterogeneous_vocab": True}},
    ),
    # method, class, place
    ("error pair.speculator-missing", "eagle3", 3, None, {}),
    ("error pair.method-mismatch", "draft_model", 3, tiny.eagle3, {}),
    ("error pair.method-mismatch", "eagle", 3, tiny.eagle3, {}),
    ("error pair.method-mismatch", "eagle3", 3, tiny.draft_model, {}),
    ("error pair.mlp-speculator", "mlp_speculator", 3, tiny.draft_model, {}),
    ("error pair.mlp-speculator", "draft_model", 3, tiny.draft_model, {"of": {"model_type": "mlp_speculator"}}),
    ("error pair.speculators-type", "eagle3", 3, tiny.speculators_eagle3, {"of": {"speculators_model_type": "mtp"}}),
    (
        "error pair.architecture",
        "eagle3",
        3,
        tiny.eagle3,
        {"of": {"architectures": ["Qwen3Eagle3Model"]}},
    ),
    # hidden states
    (
        "error pair.target-hidden-states",
        "eagle3",
        3,
        tiny.eagle3,
        {"to": {"architectures": ["Gemma3ForCausalLM"]}},
    ),
    ("info pair.target-unknown", "eagle3", 3, tiny.eagle3, {"to": {"architectures": ["NobodysForCausalLM"]}}),
    ("error pair.hidden-size", "eagle", 3, _eagle, {"to": {"hidden_size": 96}}),
    ("error pair.hidden-size", "medusa", 3, tiny.vllm_medusa, {"to": {"hidden_size": 96}}),
    (
        "error pair.hidden-size",
        "dflash",
        3,
        tiny.dflash,
        {"of": {"tensors": {"embed_tokens.weight": random(320, 64)}}, "to": {"hidden_size": 96}, "target": tiny.qwen3},
    ),
    # EAGLE-1
    ("warning pair.eagle-fc-bias", "eagle", 2, _eagle, {"of": {"has_bias": True}}),
    (
        "error pair.eagle-input-layernorm",
        "eagle",
        2,
        _eagle,
        {"of": {"tensors": {"layers.0.input_layernorm.weight": random(64)}}},
    ),
    ("error pair.eagle-lm-head", "eagle", 2, _eagle, {"of": {"tensors": {"lm_head.weight": random(320, 64)}}}),
    ("error pair.eagle-prefix", "eagle", 2, _eagle, {"of": {"tensors": {"model.norm.weight": random(64)}}}),
    ("error pair.weights-missing", "eagle", 2, _eagle, {"of": {"bias": True}}),
    ("error pair.weights-missing", "eagle", 2, _eagle, {"of": {"num_hidden_layers": 2}}),
    ("error pair.weights-unexpected", "eagle", 2, _eagle, {"of": {"tensors": {"norm.weight": random(64)}}}),
    (
        "error pair.weights-shape",
        "eagle",
        2,
        _eagle,
        {"of": {"tensors": {"layers.0.mlp.up_proj.weight": random(96, 64)}}},
    ),
    # EAGLE-3
    ("error pair.eagle3-no-d2t", "eagle3", 3, tiny.eagle3, {"of": {"tensors": {"d2t": None}}}),
    ("error pair.eagle3-no-lm-head", "eagle3", 3, tiny.eagle3, {"of": {"tensors": {"lm_head.weight": None}}}),
    (
        "warning pair.eagle3-no-lm-head",
        "eagle3",
        3,
        tiny.eagle3,
        {"of": {"draft_vocab_size": None, "tensors": {"lm_head.weight": None, "d2t": None}}},
    ),
    (
        "error pair.eagle3-lm-head-rows",
        "eagle3",
        3,
        tiny.eagle3,
        {"of": {"tensors": {"lm_head.weight": random(64, 64)}}},
    ),
    ("error pair.eagle3-d2t", "eagle3", 3, tiny.eagle3, {"of": {"tensors": {"d2t": np.zeros(64, np.int64)}}}),
    ("error pair.eagle3-no-fc", "eagle3", 3, tiny.eagle3, {"of": {"tensors": {"fc.weight": None}}}),
    ("error pair.eagle3-fc-width", "eagle3", 3, tiny.eagle3, {"of": {"tensors": {"fc.weight": random(64, 256)}}}),
    (
        "error pair.eagle3-layers",
        "eagle3",
        3,
        tiny.eagle3,
        {"of": {"eagle_aux_hidden_state_layer_ids": None}},
    ),
    (
        "error pair.eagle3-layers",
        "eagle3",
        3,
        tiny.eagle3,
        {"of": {"eagle_aux_hidden_state_layer_ids": [2, 16, 29]}},
    ),
    ("error pair.parallel-drafting", "eagle3", 3, tiny.eagle3, {"config": {"parallel_drafting": True}}),
    (
        "warning pair.parallel-drafting",
        "eagle3",
        3,
        tiny.eagle3,
        {"of": {"tensors": {"mask_hidden": random(1, 192)}}},
    ),
    (
        "warning pair.verifier",
        "eagle3",
        3,
        tiny.speculators_eagle3,
        {"to": {"architectures": ["Qwen2ForCausalLM"]}},
    ),
    # Medusa
    ("error pair.medusa-heads", "medusa", 4, tiny.vllm_medusa, {}),
    ("warning pair.medusa-bias", "medusa", 3, tiny.vllm_medusa, {"of": {"medusa_fc_bias": None}}),
    (
        "error pair.medusa-bias-missing",
        "medusa",
        3,
        tiny.vllm_medusa,
        {"of": {"tensors": {f"blocks.{i}.layers.0.bias": None for i in range(3)}}},
    ),
    ("error pair.medusa-hidden-size", "medusa", 3, tiny.vllm_medusa, {"of": {"hidden_size": None}}),
    ("error pair.medusa-merged", "medusa", 3, tiny.merged_medusa, {}),
    ("error pair.medusa-token-map", "medusa", 3, tiny.vllm_medusa, {"of": {"truncated_vocab_size": 100}}),
    # DFlash
    ("warning pair.dflash-block", "dflash", 8, tiny.dflash, {"target": tiny.qwen3}),
    (
        "error pair.mask-token",
        "dflash",
        7,
        tiny.dflash,
        {"of": {"dflash_config": {"target_layer_ids": [0, 1, 2]}}, "target": tiny.qwen3},
    ),
    (
        "error pair.mask-token",
        "dflash",
        7,
        tiny.dflash,
        {"of": {"dflash_config": {"mask_token_id": 320, "target_layer_ids": [0, 1, 2]}}, "target": tiny.qwen3},
    ),
    (
        "error pair.dflash-layers",
        "dflash",
        7,
        tiny.dflash,
        {"of": {"dflash_config": {"mask_token_id": 300, "target_layer_ids": [0, 1, 9]}}, "target": tiny.qwen3},
    ),
    (
        "error pair.weights-missing",
        "dflash",
        7,
        tiny.dflash,
        {"of": {"tensors": {"norm.weight": None}}, "target": tiny.qwen3},
    ),
    ("error pair.dflash-no-d2t", "dflash", 7, tiny.dflash, {"of": {"draft_vocab_size": 128}, "target": tiny.qwen3}),
    # MTP
    ("error pair.mtp-unsupported", "mtp", 1, None, {}),
    ("error pair.mtp-none", "mtp", 1, None, {"target": tiny.mtp, "to": {"num_nextn_predict_layers": None}}),
    ("error pair.mtp-k", "mtp", 3, None, {"target": tiny.mtp, "to": {"num_nextn_predict_layers": 2}}),
    ("info pair.mtp-reused", "mtp", 3, None, {"target": tiny.mtp}),
    # devices, context, cost, quantisation
    (
        "error pair.draft-tp",
        "eagle3",
        3,
        tiny.eagle3,
        {"tensor_parallel_size": 1, "config": {"draft_tensor_parallel_size": 2}},
    ),
    (
        "warning pair.draft-tp",
        "eagle3",
        3,
        tiny.eagle3,
        {"tensor_parallel_size": 2, "config": {"draft_tensor_parallel_size": 1}},
    ),
    (
        "error pair.draft-tp",
        "draft_model",
        3,
        tiny.draft_model,
        {
            "of": {"num_attention_heads": 2},
            "tensor_parallel_size": 2,
            "on_cpu": True,
            "config": {"draft_tensor_parallel_size": 1},
        },
    ),
    ("error pair.draft-heads", "draft_model", 3, tiny.draft_model, {"tensor_parallel_size": 2}),
    ("error pair.draft-context", "draft_model", 3, tiny.draft_model, {"of": {"max_position_embeddings": 256}}),
    (
        "warning pair.draft-context",
        "draft_model",
        3,
        tiny.draft_model,
        {"of": {"max_position_embeddings": 256}, "on_cpu": True},
    ),
    ("info pair.draft-context", "eagle3", 3, tiny.eagle3, {"of": {"max_position_embeddings": 256}}),
    ("warning pair.draft-context", "eagle3", 3, tiny.eagle3, {"of": {"max_position_embeddings": 256}, "on_cpu": True}),
    ("warning pair.draft-size", "draft_model", 3, tiny.draft_model, {"of": {"num_hidden_layers": 12}}),
    ("error pair.draft-quantization", "eagle3", 3, tiny.eagle3, {"config": {"quantization": "awq"}}),
    (
        "info pair.draft-quantized",
        "draft_model",
        3,
        tiny.draft_model,
        {"of": {"quantization_config": {"quant_method": "gptq"}}},
    ),
    (
        "info pair.draft-unquantized",
        "eagle3",
        3,
        tiny.eagle3,
        {"to": {"quantization_config": {"quant_method": "fp8"}}},
    ),
    # draft models
    (
        "warning pair.draft-layer-types",
        "draft_model",
        3,
        tiny.draft_model,
        {"of": {"layer_types": ["sliding_attention", "full_attention"]}},
    ),
    (
        "error pair.draft-layer-types",
        "draft_model",
        3,
        tiny.draft_model,
        {"of": {"layer_types": ["sliding_attention", "full_attention"]}, "on_cpu": True},
    ),
    (
        "error pair.draft-mrope",
        "draft_model",
        3,
        tiny.draft_model,
        {"of": {"rope_scaling": {"mrope_section": [8, 4, 4]}}, "on_cpu": True},
    ),
    ("error pair.mask-token", "draft_model", 3, tiny.draft_model, {"config": {"parallel_drafting": True}}),
    ("warning pair.parallel-drafting", "draft_model", 3, tiny.draft_model, {"of": {"pard_token": 300}}),
]


@pytest.mark.parametrize(
    ("told", "method", "k", "speculator", "changes"),
    [pytest.param(*case, id=f"{i}-{case[0].split('.')[1]}") for i, case in enumerate(FAULTS)],
)
def test_each_fault_is_told_once_and_alone(
    pair: MakePair, told: str, method: str, k: int, speculator: Make | None, changes: dict[str, Any]
) -> None:
    fault = _only(pair(method, k, speculator, **changes))
    assert f"{fault.severity} {fault.id}" == told


def test_swapped_ids_are_told_with_both_meanings(pair: MakePair, tmp_path: Path) -> None:
    made = pair("draft_model", 3, tiny.draft_model)
    write_tokenizer(tmp_path / "head", swap=(65, 70))
    swapped = _inspected(tmp_path / "head", "acme/head")
    fault = _only(Pair(target=made.target, speculator=swapped, method="draft_model", num_speculative_tokens=3))
    assert (fault.severity, fault.id) == ("warning", "pair.vocab-content")
    assert fault.evidence == (
        "2 of 260 ids mean different tokens, the first is 65: 'A' for acme/tiny-llama, 'F' for acme/head"
    )


def test_another_tokenizer_of_equal_size_is_an_error(pair: MakePair, tmp_path: Path) -> None:
    made = pair("draft_model", 3, tiny.draft_model)
    vocab = {f"t{i}": i for i in range(260)}
    (tmp_path / "head" / "tokenizer.json").write_text(f'{{"model": {{"vocab": {vocab}}}}}'.replace("'", '"'))
    other = _inspected(tmp_path / "head", "acme/head")
    fault = _only(Pair(target=made.target, speculator=other, method="draft_model", num_speculative_tokens=3))
    assert (fault.severity, fault.id) == ("error", "pair.vocab-content")


def test_a_draft_without_tokenizer_is_noted(pair: MakePair, tmp_path: Path) -> None:
    made = pair("draft_model", 3, tiny.draft_model)
    (tmp_path / "head" / "tokenizer.json").unlink()
    bare = _inspected(tmp_path / "head", "acme/head")
    told = _told(Pair(target=made.target, speculator=bare, method="draft_model", num_speculative_tokens=3))
    assert told == [("info", "pair.tokenizer-unread")]


@pytest.mark.parametrize(("name", "taken"), [("EAGLE-x", "eagle"), ("a_eagle3", "eagle3"), ("dflash", "dflash")])
def test_a_path_that_overrules_the_method_is_told(tmp_path: Path, name: str, taken: str) -> None:
    target = _inspected(tiny.llama(tmp_path / "target"), "acme/tiny-llama")
    draft = _inspected(tiny.draft_model(tmp_path / name), "acme/draft")
    fault = _only(Pair(target=target, speculator=draft, method="draft_model", num_speculative_tokens=3))
    assert fault.id == "pair.path"
    assert fault.cause == f"vLLM overrules the method by the path and would run it as {taken}"


def test_mtp_layers_that_a_repacked_copy_left_out_are_missed(tmp_path: Path) -> None:
    full = _inspected(tiny.mtp(tmp_path / "full"), "acme/full")
    names = [name for name in full.tensors or {} if "mtp" in name]
    copy = _inspected(tiny.mtp(tmp_path / "copy", tensors=dict.fromkeys(names)), "acme/copy")
    fault = _only(Pair(target=copy, speculator=None, method="mtp", num_speculative_tokens=1))
    assert fault.id == "pair.mtp-weights"
    assert fault.evidence == (
        "the config.json of acme/copy tells 1 MTP layers, and none of its 81 tensors belongs to one"
    )
    original = Pair(target=copy, speculator=full, method="mtp", num_speculative_tokens=1)
    assert _told(original) == []


def test_a_narrower_head_without_embedding_is_told(tmp_path: Path) -> None:
    config = tiny.model_config(
        architectures=["LlamaForCausalLMEagle3"],
        hidden_size=32,
        num_attention_heads=1,
        num_hidden_layers=1,
        draft_vocab_size=128,
        target_hidden_size=64,
        eagle_aux_hidden_state_layer_ids=[1, 2, 3],
    )
    tensors = tiny.eagle3_tensors(config) | {"fc.weight": random(32, 3 * 64)}
    target = _inspected(tiny.llama(tmp_path / "target"), "acme/tiny-llama")
    narrow = _inspected(write(tmp_path / "head", config, tensors), "acme/head")
    fault = _only(Pair(target=target, speculator=narrow, method="eagle3", num_speculative_tokens=3))
    assert fault.id == "pair.embedding"


def test_a_verifier_of_another_name_is_noted(tmp_path: Path) -> None:
    target = _inspected(tiny.llama(tmp_path / "target"), "acme/other")
    head = _inspected(tiny.speculators_eagle3(tmp_path / "head"), "acme/head")
    made = Pair(target=target, speculator=head, method="eagle3", num_speculative_tokens=3)
    assert _told(made) == [("info", "pair.verifier-name")]


def test_a_composite_target_cannot_have_medusa(tmp_path: Path) -> None:
    nested = tiny.model_config(architectures=None)
    config = {"architectures": ["SeeingForConditionalGeneration"], "model_type": "seeing", "text_config": nested}
    target = _inspected(write(tmp_path / "target", config, {"a": np.ones(1, np.float32)}), "acme/seeing")
    heads = _inspected(tiny.vllm_medusa(tmp_path / "heads"), "acme/head")
    made = Pair(target=target, speculator=heads, method="medusa", num_speculative_tokens=3)
    assert _told(made) == [("error", "pair.medusa-composite-target")]


def test_dspark_needs_the_newer_runner_and_its_block(tmp_path: Path) -> None:
    target = _inspected(tiny.qwen3(tmp_path / "target"), "acme/tiny")
    changes: dict[str, Any] = {"architectures": ["Qwen3DSparkModel"], "block_size": 7}
    head = _inspected(tiny.dflash(tmp_path / "head", **changes), "acme/head")
    made = Pair(target=target, speculator=head, method="dspark", num_speculative_tokens=8, on_cpu=True)
    assert _told(made) == [("error", "pair.needs-v2-runner"), ("warning", "pair.dspark-block")]
    on_gpu = Pair(target=target, speculator=head, method="dspark", num_speculative_tokens=7)
    assert _told(on_gpu) == []


def test_weights_that_are_not_here_are_said_to_be_unread(pair: MakePair) -> None:

    made = pair("eagle3", 3, tiny.eagle3)
    assert made.speculator is not None
    unread = msgspec.structs.replace(made.speculator, tensors=None)
    assert _told(msgspec.structs.replace(made, speculator=unread)) == [("info", "pair.weights-unread")]


def test_errors_come_before_warnings_and_warnings_before_notes(pair: MakePair) -> None:
    changes = {"max_position_embeddings": 256, "tensors": {"d2t": None, "mask_hidden": random(1, 192)}}
    made = pair("eagle3", 3, tiny.eagle3, of=changes)
    assert _told(made) == [
        ("error", "pair.eagle3-no-d2t"),
        ("warning", "pair.parallel-drafting"),
        ("info", "pair.draft-context"),
    ]


ODD_VALUES: list[Any] = ["x", [], {}, [{}], -1, 0, 3.5, True, None, "9" * 30]

ODD_SHAPES: list[tuple[int, ...]] = [(), (3,), (0, 0), (2, 3, 4)]


@pytest.mark.parametrize(("method", "k", "speculator", "target"), [case for case in GOOD if case[2] is not None])
def test_no_config_and_no_tensor_whatever_raises_anything(
    pair: MakePair, method: str, k: int, speculator: Make, target: Make
) -> None:
    made = pair(method, k, speculator, target)
    assert made.speculator is not None
    for odd in [*_odd_configs(made.speculator), *_odd_tensors(made.speculator)]:
        plan = convert.plan(odd, made.target, method)
        for head in (odd, convert.preview(odd, plan)):
            paircheck.check(msgspec.structs.replace(made, speculator=head))
    for odd in _odd_configs(made.target):
        convert.plan(made.speculator, odd, method)
        paircheck.check(msgspec.structs.replace(made, target=odd))


def _odd_configs(seen: Inspection) -> Iterator[Inspection]:
    for key in [*seen.config, *seen.model]:
        for value in ODD_VALUES:
            yield _with(seen, config={**seen.config, key: value})
            layer = {**seen.model, key: value}
            yield _with(seen, config={**seen.config, "transformer_layer_config": layer})


def _odd_tensors(seen: Inspection) -> Iterator[Inspection]:
    tensors = seen.tensors or {}
    for name, tensor in tensors.items():
        for shape in ODD_SHAPES:
            yield _with(seen, tensors={**tensors, name: msgspec.structs.replace(tensor, shape=shape)})


def _with(
    seen: Inspection, *, config: dict[str, Any] | None = None, tensors: dict[str, Any] | None = None
) -> Inspection:
    return of_parts(
        name=seen.name,
        folder=seen.folder,
        config=config or seen.config,
        files=seen.files,
        weight_files=seen.weight_files,
        tensors=tensors or seen.tensors,
        tokenizer=seen.tokenizer,
    )


def test_mapping_between_tokenizers_with_nothing_in_common_is_refused(pair: MakePair, tmp_path: Path) -> None:
    made = pair("draft_model", 3, tiny.draft_model, of={"vocab_size": 288})
    (tmp_path / "head" / "tokenizer.json").write_text('{"model": {"vocab": {"A": 0, "other": 1}}}')
    other = _inspected(tmp_path / "head", "acme/head")
    mapped = msgspec.structs.replace(made, speculator=other, config={"use_heterogeneous_vocab": True})
    fault = _only(mapped)
    assert fault.id == "pair.heterogeneous-overlap"
    assert fault.evidence == "1 tokens are common to acme/tiny-llama and acme/head"


def test_a_block_head_of_mixed_layers_needs_the_newer_runner(pair: MakePair) -> None:
    mixed = {"layer_types": ["sliding_attention", "full_attention"]}
    made = pair("dflash", 7, tiny.dflash, tiny.qwen3, of=mixed, on_cpu=True)
    assert _only(made).id == "pair.needs-v2-runner"
    assert _told(msgspec.structs.replace(made, on_cpu=False)) == []
