"""The line from options to a plan, with tiny checkpoints in folders: inspected, checked against each other, converted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from speccli.errors import CheckpointError, MachineError, UsageError
from speccli.pairing import packages
from speccli.plan import Plan
from speccli.prepare import prepare
from speccli.profile import Settings
from tests import tiny

Make = Callable[..., Path]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCLI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Line:
    """Runs the line, and keeps what was narrated."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def plan(
        self, target: Path, method: str, speculator: Path | None = None, k: int | None = None, **more: Any
    ) -> Plan:
        told = {"target": str(target), "method": method, "num_speculative_tokens": k, "hardware": "cpu", **more}
        if speculator is not None:
            told["speculator"] = str(speculator)
        return prepare(Settings(**told), None, self.said.append, {})


@pytest.fixture
def line() -> Line:
    return Line()


def _drafter(plan: Plan) -> str:
    return str(plan.engine_arguments["speculative_config"]["model"])


def _medusa(folder: Path, **changes: Any) -> Path:
    return tiny.medusa(folder, weights="medusa_lm_head.safetensors", **changes)


def _eagle(folder: Path) -> Path:
    return tiny.eagle(folder, weights="model.safetensors")


# --- What does not go together


def test_a_bad_pair_is_refused_and_nothing_is_converted(line: Line, tmp_path: Path, cache: Path) -> None:
    target, draft = tiny.llama(tmp_path / "target"), tiny.draft_model(tmp_path / "draft", vocab_size=200)
    with pytest.raises(UsageError) as caught:
        line.plan(target, "draft_model", draft)
    assert caught.value.message == (
        f"vocab_size is 320 in {target} and 200 in {draft}; 260 tokens are common, 100% of the target's: "
        "they number their tokens differently"
    )
    assert caught.value.hint == "use a speculator of the target's own family, 320 ids wide, or --method ngram"
    assert line.said == []
    assert not cache.exists()


def test_all_errors_are_told_and_the_hint_is_for_the_first(line: Line, tmp_path: Path) -> None:
    target, heads = tiny.llama(tmp_path / "target", vocab_size=352), tiny.vllm_medusa(tmp_path / "heads")
    with pytest.raises(UsageError) as caught:
        line.plan(target, "medusa", heads, k=5)
    first, second = caught.value.message.splitlines()
    assert first.startswith(f"k is 5, and {heads} holds 3 heads: ")
    assert caught.value.hint == "-k 3"
    assert second == (
        f"also: the heads of {heads} have 320 rows, vocab_size of {target} is 352: they were made for another target; "
        f"use heads that were trained for {target}"
    )


def test_the_command_ends_with_2_before_an_engine_starts(tmp_path: Path) -> None:
    target, heads = tiny.llama(tmp_path / "target"), tiny.vllm_medusa(tmp_path / "heads")
    command = [sys.executable, "-m", "speccli", "chat", "Hello", "--hardware", "cpu", "--target", str(target)]
    command += ["--method", "medusa", "--speculator", str(heads), "-k", "4"]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"speccli: error: k is 4, and {heads} holds 3 heads: each head drafts one token; "
        "vLLM notices only while it loads, and names blocks, not heads\nhint: -k 3\n"
    )


def test_what_is_worth_less_than_it_could_be_is_said_in_one_line(line: Line, tmp_path: Path) -> None:
    target, draft = tiny.llama(tmp_path / "target"), tiny.draft_model(tmp_path / "draft", num_hidden_layers=12)
    plan = line.plan(target, "draft_model", draft)
    assert _drafter(plan) == str(draft)
    assert line.said == [
        "warning: 0.1 M parameters draft for 0.2 M, 79%: each draft token then costs so much that even good drafts save "
        "nothing; use a draft 10 to 50 times smaller, or --method ngram"
    ]


def test_a_target_that_drafts_for_itself_is_only_called_large(line: Line, tmp_path: Path) -> None:
    target = tiny.llama(tmp_path / "target")
    plan = line.plan(target, "draft_model", target)
    assert (plan.engine_arguments["model"], _drafter(plan)) == (str(target), str(target))
    assert [said.partition(",")[0] for said in line.said] == ["warning: 0.2 M parameters draft for 0.2 M"]


def test_the_drafts_positions_are_held_against_the_context_of_the_run(line: Line, tmp_path: Path) -> None:
    target = tiny.llama(tmp_path / "target", max_position_embeddings=16384)
    draft = tiny.draft_model(tmp_path / "draft", max_position_embeddings=8192)
    assert line.plan(target, "draft_model", draft).max_model_len == 8192
    assert line.said == []
    line.plan(target, "draft_model", draft, max_model_len=10000)
    (said,) = line.said
    assert said.startswith(f"warning: {draft} has 8,192 positions, the context is 10,000: ")


# --- What this environment lacks


def test_a_package_that_is_missing_is_told_before_any_checkpoint_is_looked_at(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(packages.NEEDS, "suffix", ("no-such-package==1.0",))
    with pytest.raises(MachineError, match=r"suffix needs no-such-package==1\.0"):
        line.plan(tmp_path, "suffix")  # an empty folder


# --- What vLLM would misread


def test_medusa_as_its_authors_publish_it_reaches_the_engine_converted(line: Line, tmp_path: Path, cache: Path) -> None:
    target, heads = tiny.llama(tmp_path / "target"), _medusa(tmp_path / "heads")
    plan = line.plan(target, "medusa", heads, k=3)
    given = Path(_drafter(plan))
    assert given.parent == cache / "converted"
    assert json.loads((given / "config.json").read_bytes())["num_heads"] == 3
    assert plan.engine_arguments["model"] == str(target)
    assert plan.speculator is not None
    assert plan.speculator.kv_elements_per_token == 0
    assert plan.speculator.weight_bytes == 4 * 3 * (64 * 64 + 64 + 320 * 64)
    assert [said.partition(": ")[0] for said in line.said] == [f"converting {heads}"]
    again = Line()
    assert _drafter(again.plan(target, "medusa", heads, k=3)) == str(given)
    assert again.said == []


def test_a_medusa_merged_with_its_base_serves_as_both(line: Line, tmp_path: Path, cache: Path) -> None:
    merged = tiny.merged_medusa(tmp_path / "merged")
    plan = line.plan(merged, "medusa", merged, k=3)
    base, heads = Path(plan.engine_arguments["model"]), Path(_drafter(plan))
    assert base.parent == heads.parent == cache / "converted"
    assert json.loads((base / "config.json").read_bytes())["architectures"] == ["LlamaForCausalLM"]
    assert json.loads((heads / "config.json").read_bytes())["architectures"] == ["MedusaModel"]


@pytest.mark.parametrize(
    ("make", "method", "target", "elements"),
    [
        (_eagle, "eagle", tiny.llama, 2 * 1 * 1 * 32),
        (tiny.eagle3, "eagle3", tiny.llama, 2 * 1 * 1 * 32),
        (tiny.speculators_eagle3, "eagle3", tiny.llama, 2 * 1 * 1 * 32),
        (tiny.dflash, "dflash", tiny.qwen3, 2 * 2 * 1 * 32),
        (tiny.vllm_medusa, "medusa", tiny.llama, 0),
        (tiny.draft_model, "draft_model", tiny.llama, 2 * 1 * 1 * 32),
    ],
)
def test_heads_without_a_whole_models_config_are_planned_for(
    make: Make, method: str, target: Make, elements: int, line: Line, tmp_path: Path
) -> None:
    head = make(tmp_path / "head")
    plan = line.plan(target(tmp_path / "target"), method, head, k=2)
    assert _drafter(plan) == str(head)
    assert plan.speculator is not None
    assert plan.speculator.kv_elements_per_token == elements
    assert plan.target.kv_elements_per_token == 2 * 4 * 1 * 32
    assert line.said == []


# --- What is left unread


@pytest.mark.parametrize("method", ["none", "ngram", "suffix"])
def test_without_a_speculator_no_tokenizer_is_read_and_no_pickle_opened(
    method: str, line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(packages.NEEDS, "suffix", ())
    target = tiny.llama(tmp_path / "target")
    (target / "tokenizer.json").write_text("{")
    (target / "model.safetensors").unlink()
    (target / "pytorch_model.bin").write_bytes(b"no pickle")
    plan = line.plan(target, method)
    assert (plan.target.path, plan.target.weight_bytes) == (str(target), 9)
    assert line.said == []


def test_with_a_speculator_the_tokenizers_are_read(line: Line, tmp_path: Path) -> None:
    target, draft = tiny.llama(tmp_path / "target"), tiny.draft_model(tmp_path / "draft")
    (target / "tokenizer.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be read"):
        line.plan(target, "draft_model", draft)


def test_a_target_whose_config_tells_no_layers_is_refused(line: Line, tmp_path: Path) -> None:
    target = tiny.llama(tmp_path / "target")
    config = json.loads((target / "config.json").read_bytes())
    (target / "config.json").write_text(json.dumps({**config, "num_hidden_layers": "4"}))
    with pytest.raises(CheckpointError) as caught:
        line.plan(target, "none")
    assert caught.value.message == f"{target}: config.json tells no usable num_hidden_layers"
