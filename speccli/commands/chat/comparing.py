"""/compare: the last question once more, with another method, on an engine of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from speccli.chat.comparison import Comparison
from speccli.chat.settings import ChatSettings
from speccli.chat.turn import Turn
from speccli.commands.chat.asking import Question, ask, run_of
from speccli.errors import SpeccliError, UsageError

if TYPE_CHECKING:
    from speccli.commands.chat.session import Session
    from speccli.plan import Plan


def compare_with(session: Session, last: Turn, changes: dict[str, Any]) -> None:
    """Answer the last question with another method; then the engine of the conversation starts again, in the background."""
    _check_alike(session, last)
    plan = session.replan(changes)
    if run_of(plan) == last.run:
        raise UsageError(f"the last answer came from {last.run} already", "name another method: /compare none")
    sampling = last.sampling or session.settings.sampling.over(plan.profile.sampling)
    refused = ChatSettings(sampling).without_refused()[1] if plan.pairing.is_speculative else []
    if refused:
        raise UsageError(
            f"the last answer came with {refused[0]}, which vLLM 0.32 does not support with speculative decoding",
            f"/set {refused[0]} default, then /retry, and compare that answer",
        )
    session.engine()
    try:
        other = _answer(session, plan, Question(last.user, session.conversation.without_last(), sampling, plan))
    finally:
        session.start_engine()
    if other is None:
        return
    session.measured.append(other)
    from speccli.view import tables

    compared = Comparison(last, other, is_sampled=sampling.temperature != 0)
    session.view.show(tables.comparison(compared, session.view.console.width))


def _check_alike(session: Session, last: Turn) -> None:
    """Only the method may differ."""
    target = session.plan.pairing.target
    if last.run.target != target:
        raise UsageError(
            f"the last answer came from {last.run.target}, and the chat goes on with {target}",
            f"/retry asks {target}, and /compare then compares its answer; or go back: /model {last.run.target}",
        )
    if session.conversation.system_is_new:
        raise UsageError(
            "the system prompt was changed after the last answer", "/retry asks under the new one; then compare"
        )


def _answer(session: Session, plan: Plan, question: Question) -> Turn | None:
    view = session.view
    try:
        starting = session.start_engine(plan)
        with view.waiting(lambda: f"{question.run}: {starting.now()}"):
            engine = starting.engine()
        view.narrate(f"{question.run}:")
        asked = ask(engine, question, view, session.settings.display)
    except KeyboardInterrupt:
        view.narrate("not compared")
        return None
    except SpeccliError as error:
        view.error(error.message, error.hint)
        return None
    if asked.error is not None:
        view.error(asked.error, "change a setting, and try again")
        return None
    return None if asked.num_interrupts and not asked.turn.tokens else asked.turn
