"""An engine that does not start, and one that dies: one `EngineFailed` each, with the cause and the log's place."""

from __future__ import annotations

import multiprocessing
import os
import signal

import psutil
import pytest

from speccli.diagnose.failures.failed import explained
from speccli.engine import Message, Request
from speccli.engine.vllm import VllmEngine
from speccli.errors import EngineFailed
from speccli.profile import Sampling
from tests.conftest import PlanFor

pytestmark = pytest.mark.engine


def test_an_engine_that_cannot_start_names_the_cause_and_the_log(plan_for: PlanFor) -> None:
    before = set(multiprocessing.active_children())
    plan = plan_for(method="none", max_model_len=1024, engine={"block_size": 7})
    with pytest.raises(EngineFailed, match="the engine did not start") as caught:
        VllmEngine(plan)
    log = caught.value.log
    assert log is not None
    assert caught.value.hint == f"the whole log is {log}"
    assert "block" in explained(caught.value).message
    assert set(multiprocessing.active_children()) <= before


REQUEST = Request(
    id="a", messages=(Message("user", "Count to a hundred."),), sampling=Sampling(temperature=0.0, max_tokens=400)
)


@pytest.mark.parametrize("moment", ["answering", "idle"])
def test_a_killed_engine_is_one_error_with_its_log_and_leaves_no_process(moment: str, plan_for: PlanFor) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    engine = VllmEngine(plan_for(method="ngram"))
    started = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    [core] = [child for child in started if "EngineCore" in " ".join(child.cmdline())]
    steps = engine.generate([REQUEST])
    if moment == "answering":
        next(steps)
    os.kill(core.pid, signal.SIGKILL)
    with pytest.raises(EngineFailed, match="the engine died") as caught:
        list(steps)
    assert str(engine.log) in caught.value.hint
    engine.close()
    _, alive = psutil.wait_procs(started, timeout=15)
    assert [process for process in alive if "resource_tracker" not in " ".join(process.cmdline())] == []
