"""Where the settings of a run come from, and which of them do nothing."""

from __future__ import annotations

from speccli.diagnose.settings import settings
from tests.plan.example import cpu, planned


def test_each_setting_is_told_with_its_source_and_defaults_are_not() -> None:
    plan = planned("l4", target="llama-3.1-8b", method="eagle3", max_num_seqs=8, engine={"block_size": 32})
    (found,) = settings(plan).findings
    assert (found.id, found.severity) == ("profile.settings", "ok")
    assert found.evidence == (
        "max_model_len 16384 (pairing llama-3.1-8b for l4), max_num_seqs 8 (typed), engine.block_size 32 (typed)"
    )


def test_a_setting_for_another_kind_of_machine_is_idle() -> None:
    told = settings(planned("l4", target="qwen3-0.6b", method="ngram", threads_bind="0-3")).findings[-1]
    assert (told.id, told.evidence) == ("profile.idle", "threads_bind (typed)")
    assert told.cause == "it is for the processor, and this run is on a GPU"
    told = settings(planned(cpu(16), target="qwen3-0.6b", method="ngram", gpu_memory_utilization=0.5)).findings[-1]
    assert told.cause == "it is for a GPU, and this run is on the processor"


def test_without_settings_there_is_nothing_to_tell() -> None:
    assert settings(planned("h100", target="llama-3-8b", method="ngram")).findings == ()
