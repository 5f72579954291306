"""vLLM in process, through its synchronous `LLMEngine`: the only file that imports vLLM, with
scheduler.py and worker.py, which vLLM imports by name.

There one output of kind DELTA is exactly one engine step; the asynchronous path merges deltas and would make live
acceptance a lie. Tried on vLLM 0.32.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing import resource_tracker
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from speccli.engine import Prompt, Request, Step, children
from speccli.engine.flight import Flight
from speccli.engine.log import child_output_to, followed, new_log, own_logging_to
from speccli.engine.reasoning import Parsers, Reading
from speccli.errors import EngineFailed, MachineError
from speccli.plan import Plan

SHUTDOWN_S = 2.0

DEATH_SEEN_S = 0.5
"""How long it may take until an engine that was killed is missed."""

TEMPLATE = {"add_generation_prompt": True, "continue_final_message": False}

PROCESS_ENVIRONMENT = {
    "VLLM_LOGGING_STREAM": "ext://sys.__stderr__",  # file descriptor 2, which leads to the log while the engine starts
    "VLLM_NO_USAGE_STATS": os.environ.get("VLLM_NO_USAGE_STATS", "1"),  # a chat is no deployment to be counted
}


class VllmEngine:
    """One vLLM engine. Raises `MachineError` where vLLM is missing, `EngineFailed` where it does not start or dies."""

    def __init__(self, plan: Plan, follow_log: bool = False) -> None:
        self._log = new_log()
        self._ids = itertools.count()
        self._following = ExitStack()
        if follow_log:
            self._following.enter_context(followed(self._log))
        self._engine, self._parsers = _start(plan, self._log)
        self._gave_up = f"the engine gave this request up; see {self._log}"
        gc.freeze()  # what vLLM and torch made so far stays: the collector need not look at it again and again
        self._defaults: dict[str, Any] = self._engine.model_config.get_diff_sampling_param()

    @property
    def max_in_flight(self) -> int:
        """Twice as many as run at once: where all of them finish at one step, the next ones wait inside, tokenised."""
        return 2 * int(self._engine.vllm_config.scheduler_config.max_num_seqs)

    @property
    def log(self) -> Path:
        return self._log

    def generate(self, requests: Iterable[Request | None], max_in_flight: int | None = None) -> Iterator[Step]:
        waiting = iter(requests)
        most = max_in_flight or self.max_in_flight
        flying: dict[str, Flight] = {}
        try:
            while True:
                while len(flying) < most and (request := next(waiting, None)) is not None:
                    refusal = self._admit(request, flying)
                    if refusal is not None:
                        yield Step(request_id=request.id, at_s=time.monotonic(), finish_reason="error", error=refusal)
                if not flying:
                    return
                yield from self._step(flying)
        finally:
            self._abort(flying)

    def measure(self, request: Request) -> Prompt | None:
        try:
            token_ids = self._unlimited(request)["prompt_token_ids"]
        except _refusals():
            return None
        end = self._engine.renderer.get_tokenizer().decode(token_ids[-8:]).rstrip()
        return Prompt(len(token_ids), end.endswith("<think>"))

    def close(self) -> None:
        self._engine.engine_core.shutdown(timeout=SHUTDOWN_S)
        gc.unfreeze()  # else the libraries complain at exit that their objects were never freed
        self._following.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _admit(self, request: Request, flying: dict[str, Flight]) -> str | None:
        """Hand the request to vLLM; return its reason if it refuses."""
        own_id = str(next(self._ids))
        try:
            prompt, is_truncated = self._render(request)
            reading = self._reading(request)
            internal_id = self._engine.add_request(own_id, prompt, self._sampling(request, reading))
        except _dead() as error:
            raise self._failed() from error
        except _refusals() as error:
            self._engine.abort_request([own_id])  # its front half may know the request already
            return _one_line(error)
        flying[own_id] = flight = Flight(request, internal_id, is_truncated, reading)
        if request.wants_token_texts:
            flight.record_texts(self._engine.output_processor.request_states[internal_id].detokenizer)
        return None

    def _render(self, request: Request) -> tuple[Any, bool]:
        """The prompt as tokens, and whether it had to be cut."""
        if not request.truncate:
            return self._rendered(request), False
        most = self._engine.model_config.max_model_len
        with contextlib.suppress(_too_long()):
            prompt = self._rendered(request)
            if len(prompt["prompt_token_ids"]) < most:
                return prompt, False
        answer = min(request.sampling.max_tokens or 1, most // 2)
        return self._rendered(request, {"truncate_prompt_tokens": most - answer, "truncation_side": "left"}), True

    def _rendered(self, request: Request, cut: dict[str, Any] | None = None) -> Any:
        """Chat template and tokenisation, as vLLM's own `LLM.chat` and `LLM.generate` do them."""
        from vllm.renderers.inputs.preprocess import parse_model_prompt

        renderer = self._engine.renderer
        if request.prompt is not None:
            how = renderer.default_cmpl_tok_params.with_kwargs(**cut) if cut else None
            return renderer.render_cmpl([parse_model_prompt(self._engine.model_config, request.prompt)], how)[0]
        how = renderer.default_chat_tok_params.with_kwargs(**cut) if cut else None
        return self._rendered_chat(request, how)

    def _unlimited(self, request: Request) -> Any:
        """The same for a chat, however long it is."""
        how = replace(self._engine.renderer.default_chat_tok_params, max_total_tokens=None)
        return self._rendered_chat(request, how)

    def _rendered_chat(self, request: Request, how: Any) -> Any:
        from vllm.renderers import ChatParams

        template = {**_template(request), "tokenize": False}
        params = ChatParams(chat_template_kwargs=template)
        return self._engine.renderer.render_chat([conversation(request)], params, how)[1][0]

    def _reading(self, request: Request) -> Reading | None:
        """A bare prompt has no chat template, so nothing says where its reasoning begins."""
        if self._parsers is None or request.prompt is not None:
            return None
        return self._parsers.reading(request, _template(request))

    def _sampling(self, request: Request, reading: Reading | None) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        given = {key: value for key, value in msgspec.structs.asdict(request.sampling).items() if value is not None}
        given = {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}
        if reading is not None:
            given |= reading.sampling
        elif "structured_outputs" in given:
            given["structured_outputs"] = StructuredOutputsParams(**given["structured_outputs"])
        return SamplingParams.from_optional(
            **{**self._defaults, **given},
            output_kind=RequestOutputKind.DELTA,
            stream_interval=request.stream_interval,
            skip_clone=True,  # made for this request alone
        )

    def _step(self, flying: dict[str, Flight]) -> Iterator[Step]:
        try:
            outputs = self._engine.step()
        except _dead() as error:
            raise self._failed() from error
        at_s = time.monotonic()
        for output in outputs:
            flight = flying[output.request_id]
            step = flight.told(output, self._metrics(flight, output), at_s, self._gave_up)
            if step.is_last:
                del flying[output.request_id]
                if not output.finished:
                    self._abort({output.request_id: flight})
            yield step

    def _metrics(self, flight: Flight, output: Any) -> Any:
        state = self._engine.output_processor.request_states.get(flight.internal_id)
        return output.outputs[0].spec_decode_metrics if state is None else state.spec_decode_metrics

    def _abort(self, flying: dict[str, Flight]) -> None:
        if flying:
            self._engine.abort_request([flight.internal_id for flight in flying.values()], internal=True)

    def _failed(self) -> EngineFailed:
        return _failure("the engine died", self._log)


def conversation(request: Request) -> list[dict[str, str]]:
    """Its messages, as a chat template takes them."""
    messages = [msgspec.structs.asdict(message) for message in request.messages]
    return [{key: value for key, value in message.items() if value is not None} for message in messages]


def _template(request: Request) -> dict[str, Any]:
    """What its chat template is told."""
    return {**TEMPLATE, **(request.chat_template_kwargs or {})}


def _start(plan: Plan, log: Path) -> tuple[Any, Parsers | None]:
    """Start vLLM's processes from a thread that blocks SIGINT: they inherit the mask, so Ctrl-C reaches only speccli."""
    started: list[tuple[Any, Parsers | None]] = []
    failed: list[BaseException] = []

    def build() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            started.append(_build(plan, log))
        except BaseException as error:  # handed to the waiting thread below
            failed.append(error)

    with _environment({**PROCESS_ENVIRONMENT, **plan.environment}), child_output_to(log):
        resource_tracker.ensure_running()  # else the first spawn starts it, and unblocks SIGINT on the way
        before = children.running()
        thread = threading.Thread(target=build, name="vllm-start", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.1)
        except BaseException:
            children.kill_since(before)
            raise
    if failed:
        if isinstance(failed[0], MachineError):
            raise failed[0]
        _note(failed[0], log)
        raise _failure("the engine did not start", log) from failed[0]
    threading.Thread(target=_tell_of_death, args=(started[0][0].engine_core,), name="vllm-death", daemon=True).start()
    return started[0]


def _tell_of_death(client: Any) -> None:
    """vLLM's synchronous client waits for ever for an engine that was killed: put the news where it may wait."""
    while not client.resources.engine_dead:
        time.sleep(DEATH_SEEN_S)
    client.outputs_queue.put(_dead()())
    for answer in list(client.utility_results.values()):
        answer.set_exception(_dead()())


def _build(plan: Plan, log: Path) -> tuple[Any, Parsers | None]:
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
    config = _config(arguments)
    parsers = None if plan.profile.settings.reasoning_parser == "none" else parsers_of(config)
    kind = "AsyncScheduler" if config.scheduler_config.async_scheduling else "Scheduler"
    config.scheduler_config.scheduler_cls = f"speccli.engine.scheduler.{kind}"
    if config.device_config.device_type == "cpu" and not config.parallel_config.worker_extension_cls:
        config.parallel_config.worker_extension_cls = "speccli.engine.worker.Mended"
    engine = LLMEngine.from_vllm_config(config, disable_log_stats=arguments.disable_log_stats)
    own_logging_to(log)  # again: vLLM has set up its own logging meanwhile
    return engine, parsers


def parsers_of(config: Any) -> Parsers | None:
    """For the reasoning parser that the configuration names: a profile's, or vLLM's own for gpt-oss."""
    name = config.structured_outputs_config.reasoning_parser
    if not name:
        return None
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser import ParserManager
    from vllm.tokenizers import cached_tokenizer_from_config

    model = config.model_config
    hf_config, tokenizer = model.hf_config, cached_tokenizer_from_config(model)
    parser = ParserManager.get_parser(
        reasoning_parser_name=name,
        model_name=model.model,
        is_harmony=hf_config.model_type == "gpt_oss",
        tokenizer=tokenizer,
    )
    return Parsers(parser, ChatCompletionRequest, tokenizer, model)


def _config(arguments: Any) -> Any:
    """vLLM's CPU backend lets the worker share the engine's process only where that is speccli's too.

    It says that OpenMP could not be set up otherwise; `plan.environment` sets it up before the process starts.
    """
    in_engine = arguments.distributed_executor_backend == "uni"
    with _environment({"VLLM_ENABLE_V1_MULTIPROCESSING": "0"} if in_engine else {}):
        return arguments.create_engine_config()


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


def _note(error: BaseException, log: Path) -> None:
    """Write the front end's own exception to the log, below what the engine's processes wrote."""
    with log.open("a") as file:
        traceback.print_exception(error, file=file)


def _failure(what: str, log: Path) -> EngineFailed:
    return EngineFailed(what, f"the whole log is {log}", log)


def _dead() -> type[Exception]:
    from vllm.v1.engine.exceptions import EngineDeadError

    return EngineDeadError  # type: ignore[no-any-return]


def _refusals() -> tuple[type[Exception], ...]:
    """What vLLM raises where a request, not the engine, is at fault: what its processes tell each other has 64-bit numbers."""
    from jinja2 import TemplateError
    from vllm.exceptions import VLLMClientError

    return (VLLMClientError, TemplateError, ValueError, TypeError, OverflowError, RecursionError)


def _too_long() -> type[Exception]:
    from vllm.exceptions import VLLMValidationError

    return VLLMValidationError  # type: ignore[no-any-return]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
