"""`speccli chat`: one turn, or a conversation, with the acceptance statistics of each answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from speccli.chat import files
from speccli.chat.context import Fit
from speccli.chat.conversation import Conversation
from speccli.chat.settings import UNSUPPORTED, ChatSettings, Display
from speccli.commands.chat.asking import Asked, Question, ask
from speccli.engine import Engine
from speccli.errors import ExitCode, SpeccliError, UsageError
from speccli.plan import Plan
from speccli.profile import Sampling
from speccli.view import View

if TYPE_CHECKING:
    from speccli.commands import OpenEngine

Replan = Callable[[dict[str, Any]], Plan]
"""The plan with some settings changed, as if they had been typed."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What only a chat can be told."""

    as_json: bool = False
    save: Path | None = None
    load: Path | None = None
    keeps_history: bool = True


def chat(
    plan: Plan, prompt: str | None, options: Options, view: View, open_engine: OpenEngine, replan: Replan | None = None
) -> ExitCode:
    """Answer `prompt` and what is piped in; without either, hold a conversation."""
    message = _message(prompt)
    if message is None and options.as_json:
        raise UsageError("--json needs a prompt", 'type it: speccli chat --json "…"')
    saved = files.load(options.load) if options.load else None
    _check_save(options)
    conversation = saved.conversation if saved else Conversation()
    if plan.profile.settings.system or not saved:
        conversation = conversation.with_system(plan.profile.settings.system)
    settings = accepted(ChatSettings(saved.sampling if saved else Sampling()), plan, view)
    if message is None:
        from speccli.commands.chat.session import Session

        return Session(plan, conversation, settings, options, view, open_engine, replan).run()
    with view.starting():
        engine = open_engine(plan)
    with engine as running:
        return one_turn(running, message, plan, view, options, conversation, settings.sampling)


def one_turn(
    engine: Engine,
    text: str,
    plan: Plan,
    view: View,
    options: Options = Options(),  # noqa: B008 - frozen
    conversation: Conversation = Conversation(),  # noqa: B008 - frozen
    sampling: Sampling = Sampling(),  # noqa: B008 - frozen
) -> ExitCode:
    """Answer one message, on stdout, with its statistics on stderr."""
    question = Question(text, conversation, sampling.over(plan.profile.sampling), plan)
    fit = question.fit(engine)
    if fit.num_too_many > 0:
        raise UsageError(*too_long(plan, fit, conversation))
    asked = ask(engine, question, view, Display(), shows=not options.as_json)
    if options.as_json:
        view.text(msgspec.json.encode(_record(plan, asked)).decode() + "\n")
    if asked.error is not None:
        raise SpeccliError(f"the engine refused the request: {asked.error}", "change the request or its settings")
    if options.save:
        files.save(options.save, conversation.and_turn(asked.turn), sampling)
    if not options.as_json:
        view.statistics(asked.answer)
    if asked.num_interrupts:
        view.narrate("interrupted")
        return ExitCode.INTERRUPTED
    return ExitCode.DONE


def accepted(settings: ChatSettings, plan: Plan, view: View) -> ChatSettings:
    """The settings without what this plan's engine would refuse, which is told."""
    kept, refused = settings.without_refused() if plan.pairing.is_speculative else (settings, [])
    for name in refused:
        view.narrate(f"{name} is taken back: {UNSUPPORTED}")
    return kept


def too_long(plan: Plan, fit: Fit, conversation: Conversation) -> tuple[str, str]:
    """That a prompt does not fit, or leaves little for its answer, and what to do."""
    by = f"{fit.num_too_many:,} too many" if fit.num_too_many > 0 else f"only {fit.num_left:,} left for the answer"
    most = plan.target.max_position_embeddings or 0
    larger = (
        f"start with --max-model-len up to {most:,}"
        if most > plan.max_model_len
        else "choose a target with a longer context"
    )
    return (
        f"{_measured(fit, conversation)} {fit.num_tokens:,} tokens long, and the context holds {plan.max_model_len:,}: {by}",
        f"shorten the message, or {larger}",
    )


def _measured(fit: Fit, conversation: Conversation) -> str:
    if fit.num_to_forget is not None and conversation.num_sent:
        return "the conversation and this message are"
    return "the message with the system prompt is" if conversation.system else "the message is"


def _record(plan: Plan, asked: Asked) -> dict[str, object]:
    pairing = plan.pairing
    record = {
        "schema_version": 1,
        "target": pairing.target,
        "method": pairing.method,
        "num_speculative_tokens": pairing.num_speculative_tokens,
        **asked.answer.to_dict(),
    }
    if asked.turn.reasoning:
        record |= {"text": asked.turn.answer, "reasoning": asked.turn.reasoning}
    return record


def _check_save(options: Options) -> None:
    """Before an engine is started for nothing."""
    file = options.save
    if file is None or (options.load and file.absolute() == options.load.absolute()):
        return
    if file.exists():
        raise UsageError(f"{file} exists", "name another file, or --load it as well to go on with it")


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
