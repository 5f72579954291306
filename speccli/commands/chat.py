"""`speccli chat`: one turn, or a conversation, with the acceptance statistics of each answer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec

from speccli.answer import Answer
from speccli.engine import Engine, Message, Request
from speccli.errors import ExitCode, SpeccliError, UsageError
from speccli.plan import Plan
from speccli.profile import Sampling
from speccli.view import View

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from speccli.commands import OpenEngine


class Turns(msgspec.Struct, frozen=True):
    """A conversation so far."""

    messages: tuple[Message, ...] = ()

    def and_user(self, text: str) -> Turns:
        return Turns((*self.messages, Message("user", text)))

    def and_assistant(self, text: str) -> Turns:
        return Turns((*self.messages, Message("assistant", text)))


def chat(plan: Plan, prompt: str | None, as_json: bool, view: View, open_engine: OpenEngine) -> ExitCode:
    """Answer `prompt` and what is piped in; without either, hold a conversation."""
    settings = plan.profile.settings
    turns = Turns((Message("system", settings.system),) if settings.system else ())
    message = _message(prompt)
    if message is None and as_json:
        raise UsageError("--json needs a prompt", 'type it: speccli chat --json "…"')
    with view.starting():
        engine = open_engine(plan)
    with engine as running:
        if message is None:
            return _converse(running, turns, plan.profile.sampling, view)
        return one_turn(running, turns.and_user(message), plan, as_json, view)


def _message(prompt: str | None) -> str | None:
    """The prompt, followed by what is piped in. None: a conversation on a terminal."""
    if sys.stdin is None or sys.stdin.isatty():
        if prompt is not None and not prompt.strip():
            raise UsageError("the prompt is empty", 'type one: speccli chat "Why is the sky blue?"')
        return prompt
    try:
        piped = sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"what is piped in is not UTF-8 text: {error}", "convert it first, for example with iconv"
        ) from error
    message = "\n\n".join(part for part in (prompt, piped.strip()) if part)
    if not message.strip():
        raise UsageError(
            "nothing to answer: no prompt, and nothing was piped in", 'type one: speccli chat "Why is the sky blue?"'
        )
    return message


def one_turn(engine: Engine, turns: Turns, plan: Plan, as_json: bool, view: View) -> ExitCode:
    """Answer the last message, on stdout, with its statistics on stderr."""
    answer = _answer(engine, turns, plan.profile.sampling, view, shows=not as_json)
    if as_json:
        pairing = plan.pairing
        about = {
            "schema_version": 1,
            "target": pairing.target,
            "method": pairing.method,
            "num_speculative_tokens": pairing.num_speculative_tokens,
        }
        view.text(msgspec.json.encode({**about, **answer.to_dict()}).decode() + "\n")
    if answer.error is not None:
        raise SpeccliError(f"the engine refused the request: {answer.error}", "change the request or its settings")
    if not as_json:
        view.statistics(answer)
    return ExitCode.INTERRUPTED if answer.finish_reason is None else ExitCode.DONE


def _converse(engine: Engine, turns: Turns, sampling: Sampling, view: View) -> ExitCode:
    view.narrate("Ctrl-C stops an answer, Ctrl-D leaves.")
    for text in _typed(view):
        asked = turns.and_user(text)
        answer = _answer(engine, asked, sampling, view, shows=True)
        if answer.error is not None:
            view.error(answer.error, "the message was not kept; try another")
            continue
        view.statistics(answer)
        turns = asked.and_assistant(answer.text)
    return ExitCode.DONE


def _answer(engine: Engine, turns: Turns, sampling: Sampling, view: View, shows: bool) -> Answer:
    """Generate one answer. Ctrl-C ends it and keeps what came: its finish_reason stays None."""
    answer = Answer()
    request = Request(id="chat", messages=turns.messages, sampling=sampling)
    with closing(engine.generate([request])) as steps:  # type: ignore[type-var]
        try:
            for step in steps:
                answer.add(step)
                if shows:
                    view.text(step.text)
        except KeyboardInterrupt:
            answer.finish_reason = None
            view.end_of_answer()
            view.narrate("interrupted")
    if shows:
        view.end_of_answer()
    return answer


def _typed(view: View) -> Iterator[str]:
    """The user's lines, until Ctrl-D or the second Ctrl-C in a row."""
    from prompt_toolkit import PromptSession  # 150 ms, only for a conversation

    session: PromptSession[str] = PromptSession()
    warned = False
    while True:
        try:
            text = session.prompt("> ").strip()
        except EOFError:
            return
        except KeyboardInterrupt:
            if warned:
                return
            warned = True
            view.narrate("Ctrl-C once more, or Ctrl-D, leaves.")
            continue
        warned = False
        if text:
            yield text
