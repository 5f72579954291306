"""What is written: one record a line, in speccli's own form or as OpenAI's Batch API writes it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from speccli.answer import Answer, Timings, Usage
from speccli.engine import FinishReason, TokenLogprob
from speccli.jsonl.openai import COMPLETIONS_URL
from speccli.jsonl.requests import Entry, Form, Problem
from speccli.stats import Speculation, Timing, total

SCHEMA_VERSION: Literal[1] = 1


class Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the `n` answers to a line."""

    index: int
    text: str
    finish_reason: FinishReason | None
    logprobs: tuple[TokenLogprob, ...] | None = None
    reasoning: str | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one line."""

    schema_version: Literal[1]
    id: str | int
    """The line's own, else FILE:LINE."""
    file: str
    line: int
    text: str
    reasoning: str | None = None
    """What the model thought before it answered, where a reasoning parser tells that apart; `text` is the answer then."""
    finish_reason: FinishReason | None
    usage: Usage
    timings: Timings
    speculation: Speculation
    logprobs: tuple[TokenLogprob, ...] | None = None
    choices: tuple[Choice, ...] | None = None
    """All answers where `n` is above 1. `text` is that of the first."""
    truncated: bool = False
    """Whether the prompt was cut to fit the context."""
    metadata: Any = None


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a line has no answer."""

    schema_version: Literal[1]
    id: str | int
    file: str
    line: int
    error: Problem
    metadata: Any = None


class OpenAIUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class OpenAIBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A chat completion or a completion, with speccli's `timings` and `speculation` beside what OpenAI has."""

    id: str
    object: Literal["chat.completion", "text_completion"]
    created: int
    model: str
    choices: tuple[dict[str, Any], ...]
    usage: OpenAIUsage
    timings: Timings
    speculation: Speculation
    truncated: bool = False
    metadata: Any = None


class OpenAIResponse(msgspec.Struct, frozen=True):
    status_code: int
    request_id: str
    body: OpenAIBody


class OpenAIError(msgspec.Struct, frozen=True):
    code: str
    message: str


class OpenAIRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A line of an OpenAI Batch output: a response, or an error where there is none."""

    id: str
    custom_id: str
    response: OpenAIResponse | None
    error: OpenAIError | None


_encoder = msgspec.json.Encoder()


def record(entry: Entry, answers: Sequence[Answer], form: Form, model: str) -> bytes:
    """The output line of a line that was answered `n` times."""
    made = _openai_record(entry, answers, model) if form == "openai" else _record(entry, answers)
    return _encoder.encode(made) + b"\n"


def failure(entry: Entry, problem: Problem, form: Form) -> bytes:
    """The output line of a line that has no answer."""
    source = entry.source
    if form == "openai":
        error = OpenAIError(problem.kind, problem.message)
        return _encoder.encode(_openai(str(source.id), None, error)) + b"\n"
    made = Failure(
        schema_version=SCHEMA_VERSION,
        id=source.id,
        file=source.file,
        line=source.line,
        error=problem,
        metadata=entry.metadata,
    )
    return _encoder.encode(made) + b"\n"


def json_schema() -> bytes:
    """The JSON Schema of one output line."""
    kinds, definitions = msgspec.json.schema_components([Record, Failure, OpenAIRecord], ref_template="#/$defs/{name}")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"One line of speccli batch's output, version {SCHEMA_VERSION}",
        "anyOf": list(kinds),
        "$defs": definitions,
    }
    return msgspec.json.format(_encoder.encode(schema), indent=2)


def _record(entry: Entry, answers: Sequence[Answer]) -> Record:
    source, first = entry.source, answers[0]
    is_one = len(answers) == 1
    choices = None if is_one else tuple(_choice(index, answer) for index, answer in enumerate(answers))
    return Record(
        schema_version=SCHEMA_VERSION,
        id=source.id,
        file=source.file,
        line=source.line,
        text=first.text,
        reasoning=first.reasoning or None,
        finish_reason=first.finish_reason,
        usage=_usage(answers),
        timings=first.timings if is_one else _timings(answers),
        speculation=_speculation(answers),
        logprobs=tuple(first.logprobs) or None if is_one else None,
        choices=choices,
        truncated=first.is_truncated,
        metadata=entry.metadata,
    )


def _choice(index: int, answer: Answer) -> Choice:
    return Choice(index, answer.text, answer.finish_reason, tuple(answer.logprobs) or None, answer.reasoning or None)


def _usage(answers: Sequence[Answer]) -> Usage:
    return Usage(answers[0].num_prompt_tokens, sum(answer.timing.num_tokens for answer in answers))


def _speculation(answers: Sequence[Answer]) -> Speculation:
    return total(answer.acceptance for answer in answers).report()


def _timings(answers: Sequence[Answer]) -> Timings:
    """From the start of the first to the end of the last."""
    all_of_them = [answer.timing for answer in answers]
    firsts = [timing.first_s for timing in all_of_them if timing.first_s is not None]
    lasts = [timing.last_s for timing in all_of_them if timing.last_s is not None]
    joined = Answer(min(timing.started_s for timing in all_of_them))
    joined.timing = Timing(
        started_s=joined.timing.started_s,
        first_s=min(firsts, default=None),
        last_s=max(lasts, default=None),
        num_tokens=sum(timing.num_tokens for timing in all_of_them),
        num_first_tokens=sum(timing.num_first_tokens for timing in all_of_them),
    )
    return joined.timings


def _openai_record(entry: Entry, answers: Sequence[Answer], model: str) -> OpenAIRecord:
    custom_id = str(entry.source.id)
    is_chat = entry.url != COMPLETIONS_URL
    usage = _usage(answers)
    body = OpenAIBody(
        id=f"{'chatcmpl' if is_chat else 'cmpl'}-{_digest(custom_id)}",
        object="chat.completion" if is_chat else "text_completion",
        created=int(time.time()),
        model=model,
        choices=tuple((_chat_choice if is_chat else _text_choice)(index, one) for index, one in enumerate(answers)),
        usage=OpenAIUsage(usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens + usage.completion_tokens),
        timings=answers[0].timings if len(answers) == 1 else _timings(answers),
        speculation=_speculation(answers),
        truncated=answers[0].is_truncated,
        metadata=entry.metadata,
    )
    return _openai(custom_id, OpenAIResponse(200, _digest(custom_id), body), None)


def _openai(custom_id: str, response: OpenAIResponse | None, error: OpenAIError | None) -> OpenAIRecord:
    return OpenAIRecord(id=f"batch_req_{_digest(custom_id)}", custom_id=custom_id, response=response, error=error)


def _digest(custom_id: str) -> str:
    """The same at each run, so that a record written again is the same record."""
    return hashlib.blake2b(custom_id.encode(errors="replace"), digest_size=12).hexdigest()


def _chat_choice(index: int, answer: Answer) -> dict[str, Any]:
    tokens = [_openai_token(one) for one in answer.logprobs]
    reasoning = {"reasoning": answer.reasoning} if answer.reasoning else {}  # where vLLM's server has it
    return {
        "index": index,
        "message": {"role": "assistant", "content": answer.text, **reasoning},
        "logprobs": {"content": tokens} if tokens else None,
        "finish_reason": answer.finish_reason,
    }


def _openai_token(one: TokenLogprob) -> dict[str, Any]:
    top = [{"token": top.token, "logprob": top.logprob, "bytes": _bytes(top.token)} for top in one.top_logprobs]
    return {"token": one.token, "logprob": one.logprob, "bytes": _bytes(one.token), "top_logprobs": top}


def _bytes(token: str) -> list[int]:
    return list(token.encode(errors="replace"))


def _text_choice(index: int, answer: Answer) -> dict[str, Any]:
    logprobs = None
    if answer.logprobs:
        logprobs = {
            "tokens": [one.token for one in answer.logprobs],
            "token_logprobs": [one.logprob for one in answer.logprobs],
            "top_logprobs": [{top.token: top.logprob for top in one.top_logprobs} for one in answer.logprobs],
        }
    return {"index": index, "text": answer.text, "logprobs": logprobs, "finish_reason": answer.finish_reason}
