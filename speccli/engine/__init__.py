"""The seam: what every engine takes (`Request`) and gives (`Step`), and how one is opened.

Nothing here imports vLLM. An engine is `vllm` (in process) or `scripted` (replays written steps).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, Self

import msgspec

from speccli.profile import Sampling

if TYPE_CHECKING:
    from speccli.plan import Plan

FinishReason = Literal["stop", "length", "abort", "error"]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn of a conversation."""

    role: str
    content: str


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One text to generate: from `messages` through the chat template, or from a bare `prompt`."""

    id: str
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    sampling: Sampling = Sampling()


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What one request gained from one engine step. Plain decoding is a step with nothing drafted.

    `num_accepted_tokens` counts as vLLM does: before a stop or `max_tokens` cuts the step short, so that `token_ids`
    may hold fewer than `num_accepted_tokens + 1`. Of `token_ids`, the first `num_accepted_tokens` came from the
    speculator, the rest from the target.
    """

    request_id: str
    text: str = ""
    token_ids: tuple[int, ...] = ()
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_prompt_tokens: int = 0
    at_s: float = 0.0
    """`time.monotonic()` when the step came off the engine."""
    finish_reason: FinishReason | None = None
    error: str | None = None

    @property
    def is_last(self) -> bool:
        return self.finish_reason is not None


class Engine(Protocol):
    """Generates for a stream of requests, several at a time. Closing the iterator aborts what is in flight."""

    @property
    def max_in_flight(self) -> int:
        """How many requests are pulled from the iterable before the first of them has finished."""
        ...

    def generate(self, requests: Iterable[Request]) -> Iterator[Step]: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_engine(plan: Plan, follow_log: bool = False) -> Engine:
    """Start the engine that `plan` describes. Raises `MachineError` without vLLM, `EngineFailed` if it does not start."""
    from speccli.engine.vllm import VllmEngine  # importing vLLM takes seconds

    return VllmEngine(plan, follow_log)
