"""How far a start is, read from vLLM's own lines."""

from __future__ import annotations

import os
from pathlib import Path

from speccli import paths
from speccli.engine.stages import Stage, Stages

LINES = (
    "(MainProcess pid=1) INFO 11-29 21:00:30 [model.py:733] Resolved architecture: LlamaForCausalLM\n",
    "(EngineCore pid=2) INFO 11-29 21:00:46 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: …\n",
    "(Worker pid=3) INFO 11-29 21:01:02 [cpu_model_runner.py:68] Starting to load model /some/where...\n",
    "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00,  1.55it/s]\r",
    "(Worker pid=3) INFO 11-29 21:01:06 [cpu_model_runner.py:75] Loading drafter model...\n",
    "(EngineCore pid=2) INFO 11-29 21:01:06 [kv_cache_utils.py:2327] CPU KV cache size: 23,296 tokens, …\n",
    "(EngineCore pid=2) INFO 11-29 21:01:07 [core.py:402] init engine (profile, create kv cache, warmup model) took 0.87 s\n",
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def new_log(name: str) -> Path:
    folder = paths.state_dir() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"engine-{name}-{os.getpid()}.log"


def test_the_stages_follow_the_log_while_it_grows() -> None:
    new_log("20260101-000000").write_text(LINES[2])  # an earlier engine's
    clock = Clock()
    stages = Stages(clock)
    assert stages.now() == "importing vLLM 0 s"
    told = []
    with new_log("20260101-000001").open("a") as log:
        for line in LINES:
            clock.now += 2
            log.write(line)
            log.flush()
            told.append(stages.now())
            clock.now += 1
    assert told == [
        "starting the engine's processes 0 s",
        "starting the workers 0 s",
        "loading weights 0 s",
        "loading weights 50% 3 s",
        "loading the speculator 0 s",
        "making the KV cache 0 s",
        "last steps 0 s",
    ]
    assert stages.passed() == [
        Stage("importing vLLM", 2),
        Stage("starting the engine's processes", 3),
        Stage("starting the workers", 3),
        Stage("loading weights", 6),
        Stage("loading the speculator", 3),
        Stage("making the KV cache", 3),
        Stage("last steps", 1),
    ]
    assert stages.elapsed_s == 21


def test_half_a_line_is_waited_for() -> None:
    stages = Stages(Clock())
    with new_log("20260101-000002").open("a") as log:
        log.write(LINES[0][:-20])
        log.flush()
        assert stages.now() == "importing vLLM 0 s"
        log.write(LINES[0][-20:])
        log.flush()
        assert stages.now() == "starting the engine's processes 0 s"
