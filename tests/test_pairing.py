"""Pairing: hardware chooses, the user overrides, and every choice tells its reason and its source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from speccli import paths
from speccli.errors import UsageError
from speccli.hardware import Device, Hardware
from speccli.hardware.shipped import named
from speccli.pairing import Decision, Pairing, catalogue, resolve, source_of
from speccli.pairing.file import checked
from speccli.profile import Profile, Settings, document, load
from speccli.source import FolderSource, HubSource, ShippedSource, WheelSource

MINE = """\
about: For the tests
facts: {hidden_size: 64, max_position_embeddings: 2048}
settings: {temperature: 0.5, max_model_len: 512}
targets:
  - {name: mine-bf16, source: {kind: hub, repo: me/mine}, precision: bf16, licence: MIT, weight_bytes: 20_000_000_000}
  - name: mine-fp8
    source: {kind: hub, repo: me/mine-fp8}
    precision: fp8
    licence: MIT
    weight_bytes: 10_000_000_000
    quantization_config: {quant_method: fp8}
speculators:
  - name: head
    method: eagle3
    source: {kind: hub, repo: me/head}
    num_speculative_tokens: 3
    reason: measured with 3
    facts: {hidden_size: 64}
    weight_bytes: 500_000_000
    unverified: [facts.hidden_size]
  - {name: other, method: eagle3, source: {kind: hub, repo: me/other}, num_speculative_tokens: 5, reason: measured with 5}
  - name: blocks
    method: dflash
    source: {kind: hub, repo: me/blocks}
    num_speculative_tokens: 7
    max_num_speculative_tokens: 7
    reason: blocks of 8
    targets: [mine-bf16]
  - {name: draft, method: draft_model, source: smollm2-135m, num_speculative_tokens: 2, reason: cautious}
  - name: look-up
    method: ngram
    num_speculative_tokens: 4
    reason: usual
    config: {prompt_lookup_max: 4}
choices:
  - hardware: [l4]
    target: mine-fp8
    target_reason: it fits
    speculator: head
    reason: it is small
    settings: {max_model_len: 4096, max_num_seqs: 2}
  - {hardware: [h100x2], target: mine-bf16, speculator: blocks, reason: room for it, settings: {tensor_parallel_size: 2}}
"""


@pytest.fixture
def mine() -> Path:
    """A pairing of the user's own, called mine."""
    folder = paths.config_dir() / "pairings"
    folder.mkdir(parents=True)
    file = folder / "mine.yaml"
    file.write_text(MINE)
    return file


def paired(hardware: str = "l4", **typed: object) -> tuple[Profile, Pairing]:
    return resolve(load(Settings(**typed), None, {}), named(hardware))  # type: ignore[arg-type]


def refused(hardware: str = "l4", **typed: object) -> tuple[str, str]:
    with pytest.raises(UsageError) as caught:
        paired(hardware, **typed)
    return caught.value.message, caught.value.hint


# --- Hardware chooses


def test_the_choice_for_the_machine_says_all_of_it(mine: Path) -> None:
    profile, pairing = paired(target="mine")
    assert pairing.decisions == (
        Decision("target", "mine-fp8", "it fits", "typed; pairing mine for l4"),
        Decision("method", "eagle3", "it is small", "pairing mine for l4"),
        Decision("speculator", "me/head", "it is small", "pairing mine for l4"),
        Decision("num_speculative_tokens", "3", "measured with 3", "pairing mine for l4"),
    )
    assert (pairing.target_source, pairing.speculator_source) == (HubSource("me/mine-fp8"), HubSource("me/head"))
    assert (pairing.target, pairing.speculator, pairing.reason) == ("mine-fp8", "head", "it is small")
    assert (profile.settings.max_model_len, profile.sources["max_model_len"]) == (4096, "pairing mine for l4")
    assert (profile.settings.temperature, profile.sources["temperature"]) == (0.5, "pairing mine")


class TestMoreRequestsThanTheChoicePaysFor:
    """`mine` keeps two in flight on an L4 (its own `max_num_seqs`); here more than one is too many for the head."""

    @pytest.fixture(autouse=True)
    def measured(self, mine: Path) -> None:
        mine.write_text(MINE.replace("    reason: it is small\n", "    reason: it is small\n    max_batch_size: 1\n"))

    def batch(self, hardware: str = "l4", in_flight: int = 64, **typed: object) -> Pairing:
        return resolve(load(Settings(target="mine", **typed), None, {}), named(hardware), in_flight)[1]  # type: ignore[arg-type]

    def test_many_are_decoded_plainly_and_the_reason_says_how_not_to(self) -> None:
        pairing = self.batch()
        reason = "with more than 1 in flight it is faster here than eagle3; --method eagle3 speculates all the same"
        assert (pairing.method, pairing.num_speculative_tokens, pairing.reason) == ("none", 0, reason)
        assert (pairing.speculator, pairing.speculator_source, pairing.listed) == (None, None, None)
        assert pairing.decisions[1:] == (Decision("method", "none", reason, "pairing mine for l4"),)

    def test_one_at_a_time_speculates_and_tells_of_the_other(self) -> None:
        pairing = paired(target="mine")[1]
        assert (pairing.method, pairing.num_speculative_tokens) == ("eagle3", 3)
        reason = "with more than 1 in flight it is faster here than eagle3"
        assert pairing.decisions[-1] == Decision("batch", "plain decoding", reason, "pairing mine for l4")

    def test_no_more_count_than_share_a_step(self) -> None:
        assert self.batch(max_num_seqs=1).method == "eagle3"
        assert self.batch(in_flight=1).method == "eagle3"

    @pytest.mark.parametrize(
        ("typed", "method"),
        [
            ({"method": "eagle3"}, "eagle3"),
            ({"method": "ngram"}, "ngram"),
            ({"speculator": "other"}, "eagle3"),
            ({"num_speculative_tokens": 2}, "eagle3"),
        ],
    )
    def test_who_asks_for_speculation_gets_it(self, typed: dict[str, Any], method: str) -> None:
        pairing = self.batch(**typed)
        assert pairing.method == method
        assert [decision for decision in pairing.decisions if decision.what == "batch"] == []

    def test_another_machines_choice_knows_nothing_of_it(self) -> None:
        assert self.batch("h100x2").method == "dflash"


def test_facts_join_the_variants_quantization_config(mine: Path) -> None:
    _, pairing = paired(target="mine")
    assert pairing.target_facts == {
        "hidden_size": 64,
        "max_position_embeddings": 2048,
        "quantization_config": {"quant_method": "fp8"},
    }
    assert pairing.speculator_facts == {"hidden_size": 64}
    assert pairing.speculator_weight_bytes == 500_000_000


def test_a_speculator_that_is_a_target_elsewhere_has_that_ones_facts(mine: Path) -> None:
    _, pairing = paired(target="mine", method="draft_model")
    assert isinstance(pairing.speculator_source, WheelSource)
    assert (pairing.speculator_facts["hidden_size"], pairing.speculator_weight_bytes) == (576, 269_030_016)


@pytest.mark.parametrize(
    ("hardware", "target", "listed"),
    [
        ("l4", "mine-fp8", "l4"),
        ("a10g", "mine-fp8", "l4"),
        ("h100", "mine-fp8", "l4"),
        ("l4x2", "mine-fp8", "l4"),
        ("h100x2", "mine-bf16", "h100x2"),
        ("h200x4", "mine-bf16", "h100x2"),
    ],
)
def test_a_machine_takes_the_largest_choice_that_it_can_stand_in_for(
    hardware: str, target: str, listed: str, mine: Path
) -> None:
    _, pairing = paired(hardware, target="mine")
    assert pairing.target == target
    assert pairing.decisions[1].source == f"pairing mine for {listed}"
    assert (f"(listed for {listed}, which {hardware} can stand in for)" in pairing.decisions[0].reason) == (
        hardware != listed
    )


def test_a_machine_too_small_for_any_choice_gets_the_first_variant_that_fits(mine: Path) -> None:
    _, pairing = paired("t4", target="mine")
    assert pairing.decisions[:2] == (
        Decision(
            "target",
            "mine-fp8",
            "mine has no choice for t4: this is its first variant whose weights fit",
            "typed; pairing mine",
        ),
        Decision("method", "eagle3", "the first that pairing mine lists for mine-fp8", "pairing mine"),
    )


def test_a_gpu_from_before_ampere_stands_in_for_nothing_newer(mine: Path) -> None:
    old = Device(name="an old one", total_bytes=48 * 2**30, compute_capability=(7, 5))
    machine = Hardware(kind="cuda", name="nvidia-an-old-one", source="detected", devices=(old,))
    _, pairing = resolve(load(Settings(target="mine"), None, {}), machine)
    assert pairing.target == "mine-bf16"
    assert pairing.decisions[0].reason.startswith("mine has no choice for nvidia-an-old-one")


@pytest.mark.parametrize(
    ("hardware", "target", "method"),
    [
        ("cpu", "smollm2-135m", "eagle3"),
        ("t4", "qwen3-1.7b-bf16", "eagle3"),
        ("l4", "qwen3-8b-fp8", "eagle3"),
        ("rtx-4090", "qwen3-8b-fp8", "eagle3"),
        ("l40s", "qwen3-14b-bf16", "eagle3"),
        ("h100", "qwen3-32b-fp8", "eagle3"),
        ("a100-80", "qwen3-32b-fp8", "eagle3"),
        ("h100x2", "gpt-oss-120b", "eagle3"),
    ],
)
def test_without_a_target_the_machine_has_a_default(hardware: str, target: str, method: str) -> None:
    _, pairing = paired(hardware)
    assert (pairing.target, pairing.method) == (target, method)
    assert pairing.decisions[0].source.startswith("default for ")


def test_the_embedded_default_stays_what_it_is() -> None:
    profile, pairing = paired("cpu")
    assert isinstance(pairing.target_source, WheelSource)
    assert (pairing.method, pairing.num_speculative_tokens, pairing.config) == ("eagle3", 2, {})
    assert (pairing.speculator, pairing.speculator_source) == ("eagle3", ShippedSource("heads/smollm2-135m/eagle3"))
    assert (profile.settings.temperature, profile.settings.max_tokens) == (0.0, 512)


def test_a_users_default_comes_before_the_shipped_one(mine: Path) -> None:
    mine.write_text(MINE.replace("    speculator: head\n", "    speculator: head\n    default: true\n"))
    assert paired("l4")[1].target == "mine-fp8"
    assert paired("h100")[1].target == "qwen3-32b-fp8"


def test_where_no_pairing_is_meant_for_the_machine_the_embedded_default_runs() -> None:
    small = Device(name="a small one", total_bytes=4 * 2**30, compute_capability=(8, 9))
    machine = Hardware(kind="cuda", name="nvidia-a-small-one", source="detected", devices=(small,))
    _, pairing = resolve(load(Settings(), None, {}), machine)
    assert (pairing.target, pairing.method) == ("smollm2-135m", "eagle3")
    assert pairing.decisions[0].source == "no pairing is meant for nvidia-a-small-one"


def test_the_hardware_profiles_settings_are_weaker_than_the_pairings(mine: Path) -> None:
    machine = Hardware(
        kind="cuda",
        name="l4",
        source="named",
        devices=named("l4").devices,
        settings={"max_model_len": 1, "max_num_seqs": 1, "dtype": "float16"},
    )
    profile, _ = resolve(load(Settings(target="mine"), None, {}), machine)
    assert (profile.settings.max_model_len, profile.settings.dtype) == (4096, "float16")
    assert profile.sources["dtype"] == "hardware l4"


# --- The user overrides


def test_a_variant_by_its_name_keeps_the_machines_speculator_but_not_its_settings(mine: Path) -> None:
    profile, pairing = paired(target="mine-bf16")
    assert (pairing.target, pairing.speculator, profile.settings.max_model_len) == ("mine-bf16", "head", 512)


def test_a_variant_by_its_repository_and_revision(mine: Path) -> None:
    _, pairing = paired(target="me/mine@abc123")
    assert (pairing.target, pairing.target_source) == ("mine-bf16", HubSource("me/mine", "abc123"))
    assert pairing.entry is not None
    assert pairing.entry.is_users


def test_method_takes_the_first_speculator_of_that_method(mine: Path) -> None:
    _, pairing = paired(target="mine-bf16", method="dflash")
    assert (pairing.speculator, pairing.num_speculative_tokens) == ("blocks", 7)
    assert pairing.decisions[1] == Decision("method", "dflash", "blocks of 8", "typed")


@pytest.mark.parametrize("name", ["other", "me/other"])
def test_speculator_by_name_or_repository_brings_its_method(name: str, mine: Path) -> None:
    _, pairing = paired(target="mine", speculator=name)
    assert (pairing.method, pairing.speculator, pairing.num_speculative_tokens) == ("eagle3", "other", 5)


def test_a_listed_speculator_may_have_a_revision(mine: Path) -> None:
    _, pairing = paired(target="mine", speculator="me/other@abc")
    assert (pairing.speculator, pairing.speculator_source) == ("other", HubSource("me/other", "abc"))


def test_a_speculator_listed_by_anothers_name_is_found_by_that_name(mine: Path) -> None:
    _, pairing = paired(target="mine", speculator="smollm2-135m")
    assert (pairing.speculator, pairing.num_speculative_tokens) == ("draft", 2)


def test_an_unlisted_target_speculates_by_look_up() -> None:
    _, pairing = paired(target="org/name")
    assert (pairing.target_source, pairing.method, pairing.num_speculative_tokens) == (
        HubSource("org/name"),
        "ngram",
        4,
    )
    assert pairing.reason == "no pairing lists org/name with ngram: n-gram look-up needs no checkpoint"
    assert (pairing.listed, pairing.target_facts) == (None, {})


def test_a_known_target_as_speculator_is_a_draft_model() -> None:
    _, pairing = paired(target="org/name", speculator="qwen3-0.6b")
    assert (pairing.method, pairing.speculator_source) == ("draft_model", HubSource("Qwen/Qwen3-0.6B"))


def test_a_folder_as_target_and_speculator(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "draft").mkdir()
    _, pairing = paired(target=str(tmp_path / "target"), speculator=str(tmp_path / "draft"), method="eagle")
    assert pairing.target_source == FolderSource(str(tmp_path / "target"))
    assert (pairing.method, pairing.speculator_source) == ("eagle", FolderSource(str(tmp_path / "draft")))


def test_k_is_overridden_alone(mine: Path) -> None:
    _, pairing = paired(target="mine", num_speculative_tokens=9)
    assert pairing.decisions[-1] == Decision("num_speculative_tokens", "9", "asked for", "typed")
    assert pairing.speculator == "head"


def test_plain_decoding(mine: Path) -> None:
    _, pairing = paired(target="mine", method="none")
    assert (pairing.method, pairing.num_speculative_tokens, pairing.reason) == ("none", 0, "plain decoding (typed)")
    assert not pairing.is_speculative
    assert pairing.target == "mine-fp8"


def test_a_typed_method_beats_a_speculator_from_the_users_file(mine: Path) -> None:
    (paths.config_dir() / "config.yaml").write_text("speculator: head\n")
    assert paired(target="mine")[1].speculator == "head"
    assert paired(target="mine", method="ngram")[1].method == "ngram"
    assert paired(target="mine-bf16", method="dflash")[1].speculator == "blocks"


def test_a_typed_speculator_beats_a_method_from_the_users_file(mine: Path) -> None:
    (paths.config_dir() / "config.yaml").write_text("method: ngram\n")
    assert paired(target="mine", speculator="other")[1].method == "eagle3"


def test_a_typed_speculator_beats_plain_decoding_from_the_users_file(mine: Path) -> None:
    (paths.config_dir() / "config.yaml").write_text("method: none\n")
    assert paired(target="mine")[1].method == "none"
    assert paired(target="mine", speculator="other")[1].method == "eagle3"
    assert paired(target="mine", speculator="other", method="none")[1].method == "none"


# --- What cannot be meant

NAMES = "eagle3, draft_model, ngram"
ANY_TARGET = "name one that `speccli profiles list` shows, a folder, or ORG/NAME on the hub"


@pytest.mark.parametrize(
    ("typed", "message", "hint"),
    [
        ({"target": "mein"}, "no checkpoint is called 'mein'", "did you mean `mine`?"),
        ({"target": "m" * 300}, f"no checkpoint is called '{'m' * 300}'", ANY_TARGET),
        (
            {"target": "a/b c"},
            "no checkpoint is called 'a/b c'",
            ANY_TARGET,
        ),
        (
            {"num_speculative_tokens": 0},
            "num_speculative_tokens is 0",
            "choose 1 to 64, or --no-spec for plain decoding",
        ),
        (
            {"num_speculative_tokens": 65},
            "num_speculative_tokens is 65",
            "choose 1 to 64, or --no-spec for plain decoding",
        ),
        (
            {"target": "mine-bf16", "method": "dflash", "num_speculative_tokens": 8},
            "num_speculative_tokens is 8, and blocks proposes at most 7",
            "choose 1 to 7",
        ),
        ({"speculator": "hed"}, "no speculator is called 'hed'", "did you mean `head`?"),
        (
            {"speculator": "xyzzy"},
            "no speculator is called 'xyzzy'",
            "mine-fp8 has head, other, draft, look-up",
        ),
        (
            {"speculator": "a/b"},
            "no pairing lists a/b for mine-fp8, so its method is not known",
            "say which with --method: dflash, draft_model, dspark, eagle, eagle3, medusa, mtp",
        ),
        (
            {"speculator": "a/b", "method": "ngram"},
            "method ngram takes no speculator, but 'a/b' is named",
            "leave out the speculator, or choose the method that it is for",
        ),
        (
            {"speculator": "head", "method": "dflash"},
            "head is for method eagle3, and the method asked for is dflash",
            "leave out one of them, or say --method eagle3",
        ),
        (
            {"method": "medusa"},
            "method medusa needs a speculator, and no pairing has one for mine-fp8",
            f"name one with --speculator: a folder, or ORG/NAME on the hub; mine-fp8 has {NAMES}",
        ),
        (
            {"speculator": "./models/x"},
            "no pairing lists ./models/x for mine-fp8, so its method is not known",
            "say which with --method: dflash, draft_model, dspark, eagle, eagle3, medusa, mtp",
        ),
        ({"method": "mtp"}, "mine-fp8 has no MTP layers", f"choose another method: {NAMES}"),
    ],
)
def test_one_message_and_what_to_type(typed: dict[str, object], message: str, hint: str, mine: Path) -> None:
    assert refused("l4", **{"target": "mine", **typed}) == (message, hint)


def test_a_speculator_from_a_file_is_refused_with_that_file(mine: Path) -> None:
    users = paths.config_dir() / "config.yaml"
    users.write_text("speculator: hed\n")
    assert refused(target="mine")[0] == f"no speculator is called 'hed' ({users})"


@pytest.mark.parametrize("method", ["ngram_gpu", "dspark"])
def test_what_runs_on_a_gpu_only_is_refused_on_a_processor(method: str) -> None:
    message, hint = refused("cpu", target="qwen3-4b", method=method)
    assert message == f"method {method} runs on a GPU only"
    assert hint == "choose another method: dflash, eagle3, draft_model, ngram, suffix"


# --- Pairing files


def changed(old: str, new: str) -> tuple[str, str]:
    assert old in MINE
    with pytest.raises(UsageError) as caught:
        checked(document.parse(MINE.replace(old, new, 1).encode(), "mine.yaml"))
    return caught.value.message, caught.value.hint


def test_the_file_of_these_tests_is_right() -> None:
    assert checked(document.parse(MINE.encode(), "mine.yaml")).target("mine-fp8").precision == "fp8"


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("about: For the tests\n", "", "mine.yaml: the key `about` is missing", "add `about:`"),
        (
            "    reason: measured with 3\n",
            "",
            "mine.yaml, line 13: the key `reason` is missing",
            "add `reason:`",
        ),
        ("    reason: measured", "    raeson: measured", "mine.yaml, line 17: unknown key `raeson`", "did you mean `reason`?"),
        ("kind: hub, repo: me/head", "kind: hubb, repo: me/head", "mine.yaml, line 15: `kind` cannot be 'hubb'", "did you mean `hub`?"),
        ("method: dflash", "method: eagle2", "mine.yaml, line 23: no method is called 'eagle2'", "did you mean `eagle` or `eagle3`?"),
        ("hardware: [l4]", "hardware: []", "mine.yaml, line 36: this choice is for no hardware", "name a machine: `speccli profiles list` has them"),
        ("hardware: [l4]", "hardware: [h1000]", "mine.yaml, line 36: no hardware is called 'h1000'", "did you mean h100? `speccli profiles list` shows the names"),
        ("target: mine-fp8", "target: mine-fp9", "mine.yaml, line 37: this file has no target 'mine-fp9'", "it has mine-bf16, mine-fp8"),
        ("    speculator: head", "    speculator: haed", "mine.yaml, line 39: this file has no speculator 'haed'", "it has head, other, blocks, draft, look-up"),
        ("    speculator: head", "    speculator: blocks", "mine.yaml, line 39: blocks does not go with mine-fp8", "choose another"),
        ("name: other", "name: head", "mine.yaml, line 21: 'head' stands twice in `speculators`", "give each its own name"),
        ("method: ngram", "method: eagle", "mine.yaml, line 31: look-up: method eagle needs a checkpoint", "add `source:`"),
        ("method: draft_model", "method: suffix", "mine.yaml, line 29: draft: method suffix takes no checkpoint", "leave `source` out"),
        ("num_speculative_tokens: 7", "num_speculative_tokens: 8", "mine.yaml, line 25: blocks: 8 tokens are not within 1 and 7", "correct the value"),
        ("{prompt_lookup_max: 4}", "{model: x}", "mine.yaml, line 34: look-up: `model` is not for `config`", "it has a key of its own here"),
        ("{temperature: 0.5", "{method: ngram", "mine.yaml, line 3: `method` is not a setting of a pairing", "say it in `choices`"),
        ("[facts.hidden_size]", "[facts.hidden]", "mine.yaml, line 20: `unverified` names 'facts.hidden', which is not set here", "correct the name"),
        ("max_num_seqs: 2", "engine: {block_sise: 1}", "mine.yaml, line 41: vLLM has no engine argument `block_sise`", "did you mean `block_size`?"),
    ],
)  # fmt: skip
def test_a_wrong_pairing_file_is_refused_with_the_line(old: str, new: str, message: str, hint: str) -> None:
    assert changed(old, new) == (message, hint)


@pytest.mark.parametrize("key", ["targets", "speculators", "choices"])
def test_a_pairing_without_a_part_is_refused(key: str) -> None:
    before, _, after = MINE.partition(f"{key}:\n")
    rest = "".join(line for line in after.splitlines(keepends=True) if not line.startswith((" ", "-")))
    following = after[after.index(rest.splitlines()[0]) :] if rest else ""
    with pytest.raises(UsageError) as caught:
        checked(document.parse(f"{before}{key}: []\n{following}".encode(), "mine.yaml"))
    assert f"`{key}` is empty" in caught.value.message


def test_a_users_file_replaces_the_shipped_one_of_the_same_name(mine: Path) -> None:
    mine.with_name("qwen3-8b.yaml").write_text(MINE.replace("mine", "theirs"))
    assert paired(target="qwen3-8b")[1].target == "theirs-fp8"
    assert source_of("Qwen/Qwen3-8B") == HubSource("Qwen/Qwen3-8B")


def test_a_broken_file_of_the_users_is_named(mine: Path) -> None:
    mine.write_text("about: [\n")
    assert refused(target="mine")[0].startswith(f"{mine}, line 2 is not YAML")


def test_a_changed_file_is_read_again(mine: Path) -> None:
    assert paired(target="mine")[1].num_speculative_tokens == 3
    mine.write_text(MINE.replace("num_speculative_tokens: 3", "num_speculative_tokens: 6"))
    assert paired(target="mine")[1].num_speculative_tokens == 6


def test_every_entry_has_a_name_and_tells_whose_it_is(mine: Path) -> None:
    entries = {entry.name: entry.is_users for entry in catalogue.entries()}
    assert entries["mine"] is True
    assert entries["smollm2-135m"] is False


# --- The user's folder


def test_what_an_editor_leaves_in_the_folder_is_no_pairing() -> None:
    folder = paths.config_dir() / "pairings"
    folder.mkdir(parents=True)
    (folder / ".#mine.yaml").symlink_to("me@host.1")
    (folder / "x.yaml").mkdir()
    (folder / "mine.yaml").write_text(MINE)
    assert [one.name for one in catalogue.entries() if one.is_users] == ["mine"]


def test_a_pairing_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = paths.config_dir() / "pairings"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(MINE)
    monkeypatch.setattr(document, "listed", lambda one: [folder / "gone.yaml"])
    with pytest.raises(UsageError, match=f"cannot read {folder / 'gone.yaml'}: No such file"):
        list(catalogue.entries())


def test_a_name_that_is_not_in_utf_8_is_looked_for_and_not_found() -> None:
    assert catalogue.find("./\udcff") is None


def test_a_folder_below_one_that_is_not_in_utf_8_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / os.fsdecode(b"\xff") / "model"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder.parent)
    with pytest.raises(UsageError, match=r"the path of \./model is not in UTF-8"):
        source_of("./model")


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ("{max_position_embeddings: abc}", "`max_position_embeddings` must be a whole number >= 0"),
        ("{max_position_embeddings: [1]}", "`max_position_embeddings` must be a whole number >= 0"),
        ("{text_config: 5}", "`text_config` must be a mapping"),
        ("{text_config: {num_hidden_layers: true}}", "`num_hidden_layers` must be a whole number >= 0"),
        ("{hidden_size: -1}", "`hidden_size` must be a whole number >= 0"),
    ],
)
def test_facts_of_another_kind_are_refused(facts: str, said: str) -> None:
    for kept in ("facts: {hidden_size: 64, max_position_embeddings: 2048}", "facts: {hidden_size: 64}"):
        text = MINE.replace(kept, f"facts: {facts}").replace("    unverified: [facts.hidden_size]\n", "")
        with pytest.raises(UsageError, match=said):
            checked(document.parse(text.encode(), "mine.yaml"))


def test_facts_of_a_vision_tower_and_of_layers_are_left_alone() -> None:
    facts = "{vision_config: {image_size: {height: 3}}, intermediate_size: [1, 2], sliding_window: null}"
    text = MINE.replace("facts: {hidden_size: 64, max_position_embeddings: 2048}", f"facts: {facts}")
    assert checked(document.parse(text.encode(), "mine.yaml")).facts["intermediate_size"] == [1, 2]
