"""Every pairing that speccli ships: it decodes, it fits together, it resolves on each machine that it names, and fits there."""

from __future__ import annotations

import ast
import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from speccli import paths
from speccli.hardware.shipped import named
from speccli.pairing import NEEDS_SPECULATOR, catalogue, resolve
from speccli.pairing.file import Choice, PairingFile, Speculator, checked
from speccli.profile import METHODS, Settings, document, load
from speccli.source import HubSource

FILES = sorted((paths.profiles_dir() / "pairings").glob("*.yaml"))
SHIPPED: dict[str, PairingFile] = {file.stem: checked(document.read(file)) for file in FILES}
"""Read as a user's file would be, with every check."""

CHOICES = [
    pytest.param(name, choice, machine, id=f"{name}-{machine}")
    for name, file in SHIPPED.items()
    for choice in file.choices
    for machine in choice.hardware
]
SPECULATORS = [
    pytest.param(name, speculator, id=f"{name}-{speculator.name}")
    for name, file in SHIPPED.items()
    for speculator in file.speculators
]

UTILISATION = 0.92
"""vLLM's default share of a GPU's memory."""

TARGET_KEYS = (
    "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
    "max_position_embeddings",
)  # fmt: skip


def text_of(facts: dict[str, Any]) -> dict[str, Any]:
    """The part of a config.json that describes the language model."""
    inner = facts.get("text_config") or facts.get("transformer_layer_config") or facts
    assert isinstance(inner, dict)
    return inner


def fields_of(module: str, name: str) -> set[str]:
    """The annotated fields of a class of the installed vLLM, without importing it."""
    found = importlib.util.find_spec("vllm")
    assert found is not None
    assert found.origin is not None
    source = (Path(found.origin).parent / module).read_text()
    (body,) = (one.body for one in ast.parse(source).body if isinstance(one, ast.ClassDef) and one.name == name)
    return {one.target.id for one in body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}


# --- The catalogue as a whole


def test_there_are_enough_of_them() -> None:
    assert len(SHIPPED) >= 20


def test_every_method_that_vllm_runs_is_offered() -> None:
    offered = {speculator.method for file in SHIPPED.values() for speculator in file.speculators}
    assert offered == set(METHODS) - {"none"}


def test_parallel_drafting_is_offered_for_draft_models_and_for_eagle3() -> None:
    parallel = {
        speculator.method
        for file in SHIPPED.values()
        for speculator in file.speculators
        if speculator.config.get("parallel_drafting")
    }
    assert parallel == {"draft_model", "eagle3"}


@pytest.mark.parametrize("machine", ["cpu", "l4", "h100", "h100x2"])
def test_gated_and_open_targets_are_offered_for_the_common_machines(machine: str) -> None:
    targets = [
        file.target(choice.target) for file in SHIPPED.values() for choice in file.choices if machine in choice.hardware
    ]
    assert any(not target.gated for target in targets)
    full = [file.targets[0] for file in SHIPPED.values() for choice in file.choices if machine in choice.hardware]
    assert any(target.gated for target in full)


def test_a_name_leads_to_one_thing() -> None:
    variants = [target.name for file in SHIPPED.values() for target in file.targets]
    assert [name for name, count in Counter(variants).items() if count > 1] == []
    shared = [name for name, file in SHIPPED.items() if name in variants and len(file.targets) > 1]
    assert shared == []
    assert [
        target for name, file in SHIPPED.items() for target in file.targets if not target.name.startswith(name)
    ] == []


def test_a_repository_is_the_target_of_one_pairing() -> None:
    repos = [t.source.repo for f in SHIPPED.values() for t in f.targets if isinstance(t.source, HubSource)]
    assert [repo for repo, count in Counter(repos).items() if count > 1] == []


@pytest.mark.parametrize("machine", ["cpu", "t4", "l4", "a100-40", "l40s", "h100", "h100x2"])
def test_a_machine_has_one_default(machine: str) -> None:
    defaults = [
        name
        for name, file in SHIPPED.items()
        for choice in file.choices
        if choice.is_default and machine in choice.hardware
    ]
    assert len(defaults) == 1


def test_no_default_is_gated() -> None:
    chosen = [f.target(c.target) for f in SHIPPED.values() for c in f.choices if c.is_default]
    assert [target.name for target in chosen if target.gated] == []


def test_something_is_marked_unverified_and_something_is_not() -> None:
    marked = [bool(speculator.unverified) for file in SHIPPED.values() for speculator in file.speculators]
    assert True in marked
    assert False in marked


def test_a_text_that_a_shipped_file_must_hold_to_be_found_without_decoding_it() -> None:
    for file in FILES:
        if any(choice.is_default for choice in SHIPPED[file.stem].choices):
            assert "default" in file.read_text()


# --- Each file


@pytest.mark.parametrize("name", SHIPPED)
def test_the_quick_way_to_read_it_gives_the_same(name: str) -> None:
    found = catalogue.find(name)
    assert found is not None
    assert found.entry.file == SHIPPED[name]


@pytest.mark.parametrize("name", SHIPPED)
def test_its_facts_suffice_to_plan_and_to_write_a_config(name: str) -> None:
    file = SHIPPED[name]
    assert [key for key in ("architectures", "model_type") if not file.facts.get(key)] == []
    text = text_of(file.facts)
    assert [key for key in TARGET_KEYS if not isinstance(text.get(key), int)] == []
    assert [target.name for target in file.targets if not target.weight_bytes] == []
    quantised = [t.name for t in file.targets if t.precision not in ("bf16", "fp16", "bf16, from 4 bits")]
    assert quantised == [target.name for target in file.targets if target.quantization_config]


@pytest.mark.parametrize("name", SHIPPED)
def test_its_choices_have_reasons_of_their_own(name: str) -> None:
    file = SHIPPED[name]
    untold = [c.target for c in file.choices if len(file.targets) > 1 and c.target_reason == "it is the only variant"]
    assert untold == []


@pytest.mark.parametrize("name", SHIPPED)
def test_its_reasoning_parser_is_that_of_its_family(name: str) -> None:
    """What never thinks has none: some parsers take everything for reasoning until it ends."""
    families = {"gpt-oss": "openai_gptoss", "gemma-4": "gemma4", "deepseek-r1": "deepseek_r1", "qwen3": "qwen3"}
    never_thinks = any(word in name for word in ("instruct", "coder", "qwen3-next"))
    family = None if never_thinks else next((one for one in families if name.startswith(one)), None)
    file = SHIPPED[name]
    assert file.settings.reasoning_parser == (families[family] if family else None)
    assert [choice for choice in file.choices if choice.settings.reasoning_parser] == []


# --- Each choice, on each of its machines


@pytest.mark.parametrize(("name", "choice", "machine"), CHOICES)
def test_it_resolves_where_it_is_offered(name: str, choice: Choice, machine: str) -> None:
    profile, pairing = resolve(load(Settings(target=name), None, {}), named(machine))
    listed = SHIPPED[name].speculator(choice.speculator)
    assert (pairing.target, pairing.method) == (choice.target, listed.method)
    assert pairing.num_speculative_tokens == listed.num_speculative_tokens
    assert (pairing.speculator_source is not None) == (listed.source is not None)
    assert [decision for decision in pairing.decisions if not decision.reason or not decision.source] == []
    limit = text_of(pairing.target_facts)["max_position_embeddings"]
    assert (profile.settings.max_model_len or 0) <= limit


@pytest.mark.parametrize(("name", "choice", "machine"), CHOICES)
def test_its_weights_leave_room_for_a_kv_cache(name: str, choice: Choice, machine: str) -> None:
    hardware = named(machine)
    if hardware.kind == "cpu":
        assert (SHIPPED[name].target(choice.target).weight_bytes or 0) < 4e9
        return
    file = SHIPPED[name]
    weights = file.target(choice.target).weight_bytes or 0
    weights += catalogue.weight_bytes_of(file.speculator(choice.speculator)) or 0
    devices = choice.settings.tensor_parallel_size or 1
    assert devices == len(hardware.devices)
    assert weights < 0.92 * UTILISATION * hardware.total_bytes


# --- Each speculator


@pytest.mark.parametrize(("name", "speculator"), SPECULATORS)
def test_its_further_keys_are_vllms(name: str, speculator: Speculator) -> None:
    assert set(speculator.config) - fields_of("config/speculative.py", "SpeculativeConfig") == set()


@pytest.mark.parametrize(("name", "speculator"), SPECULATORS)
def test_its_weights_are_described(name: str, speculator: Speculator) -> None:
    if speculator.method not in NEEDS_SPECULATOR:
        return
    assert catalogue.facts_of(speculator)
    assert catalogue.weight_bytes_of(speculator)
    assert speculator.licence


@pytest.mark.parametrize(("name", "speculator"), SPECULATORS)
def test_it_matches_the_target(name: str, speculator: Speculator) -> None:
    """What vLLM would refuse at start, or would pass in silence."""
    target, facts = text_of(SHIPPED[name].facts), text_of(catalogue.facts_of(speculator))
    if speculator.method in ("eagle", "eagle3", "medusa", "dflash", "dspark"):
        assert facts["hidden_size"] == target["hidden_size"]
    if speculator.method in NEEDS_SPECULATOR and not speculator.config.get("use_heterogeneous_vocab"):
        assert facts["vocab_size"] == target["vocab_size"]
    if speculator.method == "mtp" and speculator.source is None:
        assert target.get("mtp_num_hidden_layers") or target.get("num_nextn_predict_layers")
    layers = catalogue.facts_of(speculator).get("dflash_config", {}).get("target_layer_ids", [])
    layers += catalogue.facts_of(speculator).get("target_layer_ids", [])
    assert [layer for layer in layers if layer >= target["num_hidden_layers"]] == []


@pytest.mark.parametrize(("name", "speculator"), SPECULATORS)
def test_it_drafts_no_more_than_its_checkpoint_can(name: str, speculator: Speculator) -> None:
    facts = catalogue.facts_of(speculator)
    limits = {
        "medusa": facts.get("num_heads"),
        "dflash": facts.get("block_size", 0) - 1,
        "dspark": facts.get("block_size"),
    }
    if speculator.method in limits:
        assert speculator.num_speculative_tokens <= limits[speculator.method]
