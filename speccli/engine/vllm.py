"""vLLM in process, through its synchronous `LLMEngine`: the only file, with scheduler.py, that imports vLLM.

There one output of kind DELTA is exactly one engine step; the asynchronous path merges deltas and would make live
acceptance a lie. Tried on vLLM 0.32.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from multiprocessing import resource_tracker
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from speccli.engine import Request, Step
from speccli.engine.log import child_output_to, followed, new_log, own_logging_to, telling_lines
from speccli.errors import EngineFailed, MachineError
from speccli.plan import Plan

SHUTDOWN_S = 2.0

PROCESS_ENVIRONMENT = {
    "VLLM_LOGGING_STREAM": "ext://sys.__stderr__",  # file descriptor 2, which leads to the log while the engine starts
    "VLLM_NO_USAGE_STATS": os.environ.get("VLLM_NO_USAGE_STATS", "1"),  # a chat is no deployment to be counted
}


class _Flight:
    """One request in the engine, and how much of its speculation has been told already."""

    def __init__(self, request_id: str, internal_id: str) -> None:
        self.request_id = request_id
        self.internal_id = internal_id
        self.num_draft_tokens = 0
        self.num_accepted_tokens = 0


class VllmEngine:
    """One vLLM engine. Raises `MachineError` where vLLM is missing, `EngineFailed` where it does not start or dies."""

    def __init__(self, plan: Plan, follow_log: bool = False) -> None:
        self._log = new_log()
        self._ids = itertools.count()
        self._following = ExitStack()
        if follow_log:
            self._following.enter_context(followed(self._log))
        self._engine = _start(plan, self._log)
        self._defaults: dict[str, Any] = self._engine.model_config.get_diff_sampling_param()

    @property
    def max_in_flight(self) -> int:
        """A quarter more than run at once: the engine, a step ahead of us, must find the next one waiting."""
        running = int(self._engine.vllm_config.scheduler_config.max_num_seqs)
        return running + max(1, running // 4)

    @property
    def log(self) -> Path:
        return self._log

    def generate(self, requests: Iterable[Request]) -> Iterator[Step]:
        waiting = iter(requests)
        flying: dict[str, _Flight] = {}
        try:
            while True:
                while len(flying) < self.max_in_flight and (request := next(waiting, None)) is not None:
                    refusal = self._admit(request, flying)
                    if refusal is not None:
                        yield Step(request_id=request.id, at_s=time.monotonic(), finish_reason="error", error=refusal)
                if not flying:
                    return
                yield from self._step(flying)
        finally:
            self._abort(flying)

    def close(self) -> None:
        self._engine.engine_core.shutdown(timeout=SHUTDOWN_S)
        self._following.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _admit(self, request: Request, flying: dict[str, _Flight]) -> str | None:
        """Hand the request to vLLM; return its reason if it refuses."""
        own_id = str(next(self._ids))
        try:
            internal_id = self._engine.add_request(own_id, self._render(request), self._sampling(request))
        except _dead() as error:
            raise self._failed() from error
        except _refusals() as error:
            return _one_line(error)
        flying[own_id] = _Flight(request.id, internal_id)
        return None

    def _render(self, request: Request) -> Any:
        """Chat template and tokenisation, as vLLM's own `LLM.chat` and `LLM.generate` do them."""
        from vllm.renderers import ChatParams
        from vllm.renderers.inputs.preprocess import parse_model_prompt

        renderer = self._engine.renderer
        if request.prompt is not None:
            return renderer.render_cmpl([parse_model_prompt(self._engine.model_config, request.prompt)])[0]
        params = ChatParams(
            chat_template_kwargs={"add_generation_prompt": True, "continue_final_message": False, "tokenize": False}
        )
        return renderer.render_chat([[msgspec.to_builtins(message) for message in request.messages]], params)[1][0]

    def _sampling(self, request: Request) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        given = {key: value for key, value in msgspec.structs.asdict(request.sampling).items() if value is not None}
        if "stop" in given:
            given["stop"] = list(given["stop"])
        return SamplingParams.from_optional(**{**self._defaults, **given}, output_kind=RequestOutputKind.DELTA)

    def _step(self, flying: dict[str, _Flight]) -> Iterator[Step]:
        try:
            outputs = self._engine.step()
        except _dead() as error:
            raise self._failed() from error
        at_s = time.monotonic()
        for output in outputs:
            flight = flying[output.request_id]
            if output.finished:
                del flying[output.request_id]
            yield self._told(flight, output, at_s)

    def _told(self, flight: _Flight, output: Any, at_s: float) -> Step:
        [completion] = output.outputs
        drafted, accepted = self._counts(flight, completion)
        step = Step(
            request_id=flight.request_id,
            text=completion.text,
            token_ids=tuple(completion.token_ids),
            num_draft_tokens=drafted - flight.num_draft_tokens,
            num_accepted_tokens=accepted - flight.num_accepted_tokens,
            num_prompt_tokens=len(output.prompt_token_ids or ()),
            at_s=at_s,
            finish_reason=completion.finish_reason,
            error=f"the engine gave this request up; see {self._log}" if completion.finish_reason == "error" else None,
        )
        flight.num_draft_tokens, flight.num_accepted_tokens = drafted, accepted
        return step

    def _counts(self, flight: _Flight, completion: Any) -> tuple[int, int]:
        """Draft tokens proposed and accepted for this request so far (see scheduler.py)."""
        state = self._engine.output_processor.request_states.get(flight.internal_id)
        metrics = completion.spec_decode_metrics if state is None else state.spec_decode_metrics
        if metrics is None:
            return 0, 0
        return metrics.num_draft_tokens, sum(count * times for count, times in enumerate(metrics.histogram))

    def _abort(self, flying: dict[str, _Flight]) -> None:
        if flying:
            self._engine.abort_request([flight.internal_id for flight in flying.values()], internal=True)

    def _failed(self) -> EngineFailed:
        return _failure("the engine died", self._log)


def _start(plan: Plan, log: Path) -> Any:
    """Start vLLM's processes from a thread that blocks SIGINT: they inherit the mask, so Ctrl-C reaches only speccli."""
    started: list[Any] = []
    failed: list[BaseException] = []

    def build() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            started.append(_build(plan, log))
        except BaseException as error:  # handed to the waiting thread below
            failed.append(error)

    with _environment({**PROCESS_ENVIRONMENT, **plan.environment}), child_output_to(log):
        resource_tracker.ensure_running()  # else the first spawn starts it, and unblocks SIGINT on the way
        thread = threading.Thread(target=build, name="vllm-start", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.1)
        except BaseException:
            _kill_children()
            raise
    if failed:
        if isinstance(failed[0], MachineError):
            raise failed[0]
        _note(failed[0], log)
        raise _failure("the engine did not start", log) from failed[0]
    return started[0]


def _build(plan: Plan, log: Path) -> Any:
    own_logging_to(log)
    try:
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine
    except ImportError as error:
        raise MachineError(
            f"vLLM cannot be imported: {error}",
            "install it with `pip install 'speccli[cpu]'` or `'speccli[cuda]'`; see `speccli doctor`",
        ) from error
    arguments = EngineArgs(**plan.engine_arguments)
    config = arguments.create_engine_config()
    kind = "AsyncScheduler" if config.scheduler_config.async_scheduling else "Scheduler"
    config.scheduler_config.scheduler_cls = f"speccli.engine.scheduler.{kind}"
    engine = LLMEngine.from_vllm_config(config, disable_log_stats=arguments.disable_log_stats)
    own_logging_to(log)  # again: vLLM has set up its own logging meanwhile
    return engine


@contextlib.contextmanager
def _environment(given: dict[str, str]) -> Iterator[None]:
    """Set environment variables for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _kill_children() -> None:
    for child in multiprocessing.active_children():
        child.kill()


def _note(error: BaseException, log: Path) -> None:
    """Write the front end's own exception to the log, below what the engine's processes wrote."""
    with log.open("a") as file:
        traceback.print_exception(error, file=file)


def _failure(what: str, log: Path) -> EngineFailed:
    lines = telling_lines(log.read_text(errors="replace"))
    return EngineFailed("\n  ".join([f"{what}:", *lines]), f"the whole log is {log}")


def _dead() -> type[Exception]:
    from vllm.v1.engine.exceptions import EngineDeadError

    return EngineDeadError  # type: ignore[no-any-return]


def _refusals() -> tuple[type[Exception], ...]:
    """What vLLM raises where a request, not the engine, is at fault."""
    from jinja2 import TemplateError
    from vllm.exceptions import VLLMClientError

    return (VLLMClientError, TemplateError, ValueError, TypeError)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
