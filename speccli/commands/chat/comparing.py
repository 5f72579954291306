"""/compare: the last question once more, with another method, on an engine of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from speccli.chat.comparison import Comparison
from speccli.chat.turn import Turn
from speccli.commands.chat.asking import Question, ask, run_of
from speccli.engine.starting import Starting
from speccli.errors import SpeccliError, UsageError

if TYPE_CHECKING:
    from speccli.commands.chat.session import Session
    from speccli.plan import Plan


def compare_with(session: Session, last: Turn, changes: dict[str, Any]) -> None:
    """Answer the last question with another method; then the engine of the conversation starts again, in the background."""
    plan = session.replan({**session.same_target, **changes})
    if run_of(plan) == last.run:
        raise UsageError(f"the last answer came from {last.run} already", "name another method: /compare none")
    before = session.conversation.without_last()
    sampling = session.settings.without_refused()[0].sampling.over(plan.profile.sampling)
    session.engine()
    session.stop_engine()
    try:
        other = _answer(session, plan, Question(last.user, before, sampling, plan))
    finally:
        session.start_engine()
    if other is None:
        return
    session.measured.append(other)
    from speccli.view import tables

    compared = Comparison(last, other, is_sampled=sampling.temperature != 0)
    session.view.show(tables.comparison(compared, session.view.console.width))


def _answer(session: Session, plan: Plan, question: Question) -> Turn | None:
    view = session.view
    starting = Starting(partial(session.open_engine, plan))
    try:
        with view.waiting(lambda: f"{question.run}: {starting.stages.now()} · {starting.seconds:.0f} s in all"):
            engine = starting.engine()
        view.narrate(f"{question.run}:")
        asked = ask(engine, question, view, session.settings.display)
    except KeyboardInterrupt:
        view.narrate("not compared")
        return None
    except SpeccliError as error:
        view.error(error.message, error.hint)
        return None
    finally:
        with view.waiting(lambda: f"ending {question.run} …"):
            starting.close()
    if asked.error is not None:
        view.error(asked.error, "change a setting, and try again")
        return None
    return None if asked.num_interrupts and not asked.turn.tokens else asked.turn
