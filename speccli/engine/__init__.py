"""The seam: what every engine takes (`Request`) and gives (`Step`), and how one is opened.

Nothing here imports vLLM. An engine is `vllm` (in process) or `scripted` (replays written steps).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import msgspec

from speccli.profile import Sampling

if TYPE_CHECKING:
    from speccli.plan import Plan

FinishReason = Literal["stop", "length", "abort", "error"]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn of a conversation."""

    role: str
    content: str
    name: str | None = None
    """Who speaks, for chat templates that tell several users apart."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One text to generate: from `messages` through the chat template, or from a bare `prompt`."""

    id: str
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    sampling: Sampling = Sampling()
    chat_template_kwargs: dict[str, Any] | None = None
    truncate: bool = False
    """Cut a prompt that is longer than the context from the left, instead of refusing it."""
    stream_interval: int = 1
    """How many tokens a step may gather before it is told. 1: each engine step as it comes; more saves work in a batch."""
    wants_token_texts: bool = False
    """Whether each step tells the text of each of its tokens."""


class TopLogprob(msgspec.Struct, frozen=True):
    """A token that could have been chosen."""

    token: str
    logprob: float


class TokenLogprob(msgspec.Struct, frozen=True):
    """A token that was chosen, and the likeliest at its place."""

    token: str
    logprob: float
    top_logprobs: tuple[TopLogprob, ...] = ()


class Merged(msgspec.Struct, frozen=True):
    """The drafts of several engine steps, told at once."""

    num_drafts: int
    num_accepted_tokens_per_pos: tuple[int, ...]


class Split(msgspec.Struct, frozen=True, gc=False):
    """What a step says, by vLLM's reasoning parser, without the marks between the two.

    A parser holds back what it is not sure of: it comes with a later step, and all of it with the last one.
    """

    reasoning: str = ""
    answer: str = ""


class Step(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one request gained from one engine step. Plain decoding is a step with nothing drafted.

    With a `stream_interval` above 1 a step may tell of several engine steps: then `merged` counts their drafts.

    `num_accepted_tokens` counts as vLLM does: before a stop or `max_tokens` cuts the step short, so that `token_ids`
    may hold fewer than `num_accepted_tokens + 1`. Of `token_ids`, the first `num_accepted_tokens` came from the
    speculator, the rest from the target.
    """

    request_id: str
    text: str = ""
    """All that was generated, reasoning and marks too."""
    split: Split | None = None
    """The same, told apart. None: nothing does that for this request."""
    token_ids: tuple[int, ...] = ()
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_prompt_tokens: int = 0
    at_s: float = 0.0
    """`time.monotonic()` when the step came off the engine."""
    finish_reason: FinishReason | None = None
    error: str | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    """One for each of `token_ids`, where the sampling asks for them."""
    token_texts: tuple[str, ...] = ()
    """What each of `token_ids` added to the text, before a stop string cut it; empty for a part of a character."""
    merged: Merged | None = None
    is_truncated: bool = False
    """Whether the prompt was cut to fit the context."""

    @property
    def is_last(self) -> bool:
        return self.finish_reason is not None


class Prompt(msgspec.Struct, frozen=True):
    """A request's prompt, as the engine would run it."""

    num_tokens: int
    opens_reasoning: bool = False
    """Whether the template itself writes the mark that begins the reasoning."""


class Engine(Protocol):
    """Generates for a stream of requests, several at a time. Closing the iterator aborts what is in flight.

    `None` among the requests means "none right now": the engine asks again after its next step.
    """

    @property
    def max_in_flight(self) -> int:
        """How many requests are pulled from the iterable before the first of them has finished."""
        ...

    def generate(self, requests: Iterable[Request | None], max_in_flight: int | None = None) -> Iterator[Step]:
        """`max_in_flight` goes over the engine's own number."""
        ...

    def measure(self, request: Request) -> Prompt | None:
        """How long the prompt is, whatever the context holds. None: it is refused, and `generate` says why."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_engine(plan: Plan, follow_log: bool = False) -> Engine:
    """Start the engine that `plan` describes. Raises `MachineError` without vLLM, `EngineFailed` if it does not start."""
    from speccli.engine.vllm import VllmEngine  # importing vLLM takes seconds

    return VllmEngine(plan, follow_log)
