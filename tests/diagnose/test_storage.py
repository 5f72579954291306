"""What doctor says of caches, hub and variables."""

import msgspec
import pytest

from speccli.diagnose.facts import Folder
from speccli.diagnose.hub import Hub
from speccli.diagnose.storage import hub, hub_cache, kv_space, speccli_cache, token, variables
from tests.diagnose.example_facts import GIB, ON_CPU, changed


def folder(free_gib: float, is_writable: bool = True) -> Folder:
    return Folder(path="/cache", free_bytes=int(free_gib * GIB), is_writable=is_writable)


@pytest.mark.parametrize(("free_gib", "severity"), [(20, "ok"), (19.9, "warning"), (1, "warning"), (0.5, "error")])
def test_room_is_measured_by_the_size_of_a_model(free_gib: float, severity: str) -> None:
    finding = hub_cache(changed(ON_CPU, hub_cache=folder(free_gib)))
    assert (finding.id, finding.severity) == ("env.hub-cache", severity)
    assert finding.evidence == f"/cache, {free_gib:.1f} GiB free"


def test_a_folder_that_cannot_be_written_is_an_error() -> None:
    finding = speccli_cache(changed(ON_CPU, speccli_cache=folder(100, is_writable=False)))
    assert (finding.id, finding.severity) == ("env.speccli-cache", "error")
    assert finding.evidence == "/cache is not writable"
    assert finding.fix == "SPECCLI_CACHE=/a/folder/of/yours"


def test_a_hub_that_answers_is_fine() -> None:
    assert (hub(ON_CPU).severity, hub(ON_CPU).evidence) == ("ok", "https://hub.example answers in 120 ms")


def test_a_hub_that_does_not_answer_leaves_the_cache() -> None:
    finding = hub(changed(ON_CPU, hub=Hub(endpoint="https://hub.example", error="no answer within 2 s")))
    assert (finding.severity, finding.stops_runs) == ("warning", False)
    assert finding.evidence == "https://hub.example: no answer within 2 s"
    assert finding.fix == "HF_HUB_OFFLINE=1 to stay with the cache, HF_ENDPOINT=... for a mirror"


def test_a_hub_that_was_not_asked_is_no_fault() -> None:
    finding = hub(changed(ON_CPU, hub=Hub(endpoint="https://hub.example", offline_because="HF_HUB_OFFLINE")))
    assert (finding.severity, finding.evidence) == ("info", "not asked (HF_HUB_OFFLINE)")


def test_a_token_is_told_by_its_place() -> None:
    assert token(ON_CPU).evidence == "found in HF_TOKEN"
    missing = token(changed(ON_CPU, hub=Hub(endpoint="https://hub.example")))
    assert (missing.severity, missing.fix) == ("info", "hf auth login, or HF_TOKEN=...")


@pytest.mark.parametrize("value", ["0.5", "-1", "", "four"])
def test_vllm_stops_on_a_kv_space_that_is_not_whole(value: str) -> None:
    finding = kv_space(changed(ON_CPU, environ={"VLLM_CPU_KVCACHE_SPACE": value}))
    assert finding is not None
    assert (finding.severity, finding.evidence) == ("error", f"VLLM_CPU_KVCACHE_SPACE={value}")


def test_a_whole_kv_space_is_fine() -> None:
    assert kv_space(changed(ON_CPU, environ={"VLLM_CPU_KVCACHE_SPACE": "4"})) is None
    assert kv_space(ON_CPU) is None


def test_variables_that_matter_are_listed_and_secrets_are_not_shown() -> None:
    environ = {
        "PATH": "/bin",
        "HF_TOKEN": "hf_abc",
        "HF_ENDPOINT": "https://me:pass@mirror.example",
        "VLLM_LOGGING_LEVEL": "DEBUG",
        "VLLM_API_KEY": "sk-1",
        "CUDA_VISIBLE_DEVICES": "0",
        "CUDA_VERSION": "13.0",
    }
    finding = variables(changed(ON_CPU, environ=environ))
    assert finding is not None
    assert finding.severity == "info"
    assert finding.evidence == (
        "CUDA_VISIBLE_DEVICES=0, HF_ENDPOINT=https://...@mirror.example, HF_TOKEN (set), VLLM_API_KEY (set), "
        "VLLM_LOGGING_LEVEL=DEBUG"
    )


def test_where_nothing_is_set_nothing_is_listed() -> None:
    assert variables(changed(ON_CPU, environ={"PATH": "/bin"})) is None


def test_the_password_of_an_endpoint_is_not_shown() -> None:
    endpoint = msgspec.structs.replace(ON_CPU.hub, endpoint="https://me:pass@mirror.example")
    assert hub(changed(ON_CPU, hub=endpoint)).evidence == "https://...@mirror.example answers in 120 ms"
