"""A plan to run the scripted engine under: nothing is fetched, nothing is loaded."""

from pathlib import Path

from speccli.checkpoint import Checkpoint
from speccli.hardware import Hardware
from speccli.pairing import Pairing
from speccli.plan import Plan
from speccli.profile import Profile, Settings
from speccli.source import FolderSource


def example_plan(folder: Path) -> Plan:
    checkpoint = Checkpoint("tiny", str(folder), "float32", 2**20, 2 * 2 * 64, 1024)
    return Plan(
        profile=Profile(Settings(max_tokens=16), {"max_tokens": "default"}),
        hardware=Hardware(kind="cpu", name="cpu", source="named"),
        pairing=Pairing("tiny", FolderSource(str(folder)), "ngram", 3, "written for a test"),
        target=checkpoint,
        speculator=None,
        max_model_len=1024,
        weight_bytes=2**20,
        kv_cache_bytes=2**30,
        kv_tokens=4096,
        engine_arguments={"dtype": "float32"},
        environment={},
    )
