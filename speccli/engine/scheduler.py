"""vLLM's schedulers, made to report each request's speculation counts at every step.

vLLM sends `RequestSpecDecodeMetrics` only with a request's last output, and never when a stop string ends it (the
front end finds stop strings and aborts the request). With these, the counts travel with each output, so they are exact
at any moment and for any ending. Loaded by name in the engine's own process, which it also ends when speccli is gone:
a front end that was killed must not leave a model in memory.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil
from vllm.v1.core.sched.async_scheduler import AsyncScheduler as VllmAsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

LOOK_EVERY_S = 1.0

Update = Callable[[Any, Any], dict[int, Any]]


def _with_counts(requests: dict[str, Any], update: Update, scheduled: Any, output: Any) -> dict[int, Any]:
    running = dict(requests)  # `update` forgets the requests that it finishes
    outputs = update(scheduled, output)
    for batch in outputs.values():
        for one in batch.outputs:
            one.spec_decode_metrics = running[one.request_id].spec_decode_metrics
    return outputs


def _end_with_parent() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY_S)
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(1)


class _Reporting:
    """What both have beyond vLLM's own."""

    requests: dict[str, Any]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> dict[int, Any]:
        update: Update = super().update_from_output  # type: ignore[misc]
        return _with_counts(self.requests, update, scheduler_output, model_runner_output)


class Scheduler(_Reporting, VllmScheduler):  # type: ignore[misc]
    pass


class AsyncScheduler(_Reporting, VllmAsyncScheduler):  # type: ignore[misc]
    pass
