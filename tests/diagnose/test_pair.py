"""What doctor says of a pairing whose checkpoints are on this machine, or are not yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from speccli.diagnose import Finding
from speccli.diagnose.pair import pair
from speccli.diagnose.sight import look
from speccli.hardware.shipped import named
from speccli.pairing import packages
from speccli.profile import Settings, load
from tests import tiny


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCLI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _found(target: Path | str, method: str, speculator: Path | None = None, k: int | None = None) -> list[Finding]:
    """All but the first, which tells what was looked at."""
    name = None if speculator is None else str(speculator)
    asked = load(
        Settings(target=str(target), method=method, speculator=name, num_speculative_tokens=k),  # type: ignore[arg-type]
        None,
        {},
    )
    group = pair(look(asked, named("cpu")), "speccli pull --target it")
    assert group.title == "Pair"
    assert group.findings[0].id == "pair.choice"
    return list(group.findings[1:])


def _told(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.severity, finding.id) for finding in findings]


def test_a_good_pair_is_said_to_go_together(tmp_path: Path) -> None:
    target, draft = tiny.llama(tmp_path / "target"), tiny.draft_model(tmp_path / "draft")
    assert _told(_found(target, "draft_model", draft)) == [("ok", "pair.check")]


def test_the_choice_names_target_method_and_speculator(tmp_path: Path) -> None:
    target, heads = tiny.llama(tmp_path / "target"), tiny.vllm_medusa(tmp_path / "heads")
    asked = load(Settings(target=str(target), method="medusa", speculator=str(heads)), None, {})
    choice = pair(look(asked, named("cpu")), "speccli pull").findings[0]
    assert (choice.severity, choice.evidence) == ("ok", f"{target}, medusa, k=3, speculator {heads}")


def test_a_fault_keeps_its_id_evidence_cause_and_fix(tmp_path: Path) -> None:
    target, heads = tiny.llama(tmp_path / "target"), tiny.vllm_medusa(tmp_path / "heads")
    assert _found(target, "medusa", heads, k=4) == [
        Finding(
            id="pair.medusa-heads",
            severity="error",
            title="medusa-heads",
            evidence=f"k is 4, and {heads} holds 3 heads",
            cause="each head drafts one token; vLLM notices only while it loads, and names blocks, not heads",
            fix="-k 3",
        )
    ]


def test_what_will_be_converted_is_told_and_not_yet_done(tmp_path: Path, cache: Path) -> None:
    heads = tiny.medusa(tmp_path / "heads", weights="medusa_lm_head.safetensors")
    found = _found(tiny.llama(tmp_path / "target"), "medusa", heads, k=3)
    assert _told(found) == [("info", "pair.conversion"), ("ok", "pair.check")]
    assert found[0].evidence.startswith(f"{heads}: Medusa heads in their authors' layout: 3 heads of width 64")
    assert not cache.exists()


def test_a_pickle_stays_closed(tmp_path: Path) -> None:
    heads = tiny.medusa(tmp_path / "heads", weights="medusa_lm_head.safetensors")
    (heads / "medusa_lm_head.safetensors").rename(heads / "medusa_lm_head.pt")
    assert _told(_found(tiny.llama(tmp_path / "target"), "medusa", heads, k=3)) == [("info", "pair.weights-unread")]


def test_what_is_not_here_is_named_with_the_command_that_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    (absent,) = _found("acme/absent", "draft_model", tiny.draft_model(tmp_path / "draft"))
    assert (absent.severity, absent.id) == ("info", "pair.not-fetched")
    assert (absent.evidence, absent.fix) == ("acme/absent not fetched yet", "speccli pull --target it")


def test_a_damaged_checkpoint_is_an_error(tmp_path: Path) -> None:
    target = tiny.llama(tmp_path / "target")
    (target / "config.json").write_text("{")
    (damaged,) = _found(target, "ngram")
    assert (damaged.severity, damaged.id, damaged.fix) == ("error", "pair.checkpoint", "fetch the checkpoint again")


def test_a_package_that_a_method_needs_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(packages.NEEDS, "suffix", ("no-such-package==1.0",))
    missed, checked = _found(tiny.llama(tmp_path / "target"), "suffix")
    assert (missed.severity, missed.id) == ("error", "pair.packages")
    assert missed.fix == "python -m pip install no-such-package==1.0"
    assert checked.id == "pair.check"
