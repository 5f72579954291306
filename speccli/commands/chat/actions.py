"""What the commands of a conversation do: one function each, under the command's name."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from speccli.chat import files
from speccli.chat.commands import unquoted
from speccli.chat.conversation import Conversation
from speccli.chat.names import name_and_text, only_name, place
from speccli.chat.settings import ChatSettings, name_and_value, named
from speccli.chat.totals import plain_tokens_per_s, total
from speccli.chat.turn import Turn
from speccli.chat.words import counted
from speccli.commands.chat import accepted
from speccli.commands.chat.session import Leave
from speccli.errors import UsageError
from speccli.profile import Method, method_named
from speccli.view import terminal

if TYPE_CHECKING:
    from speccli.commands.chat.session import Session

Action = Callable[["Session", str], None]


def show_help(session: Session, _: str) -> None:
    from speccli.view import tables

    session.view.show(tables.help_table())


def leave(_: Session, __: str) -> None:
    raise Leave


def retry(session: Session, _: str) -> None:
    waiting = session.unanswered
    if waiting is not None:
        session.say(waiting.text, waiting.in_place)
        return
    last = _last(session)
    if session.question(last.user).sampling.temperature == 0:
        session.view.narrate("at temperature 0 the same answer is to be expected")
    session.say(last.user, in_place=True)


def undo(session: Session, _: str) -> None:
    """A message that got no answer is newer than the last turn."""
    if session.unanswered is not None:
        session.view.say(f"taken back, without an answer: {_short(session.unanswered.text)}")
        session.unanswered = None
        return
    last = _last(session)
    session.conversation = session.conversation.without_last()
    session.save()
    session.view.say(f"taken back: {_short(last.user)}")


def edit(session: Session, _: str) -> None:
    """The last question again, changed; without one, a new message."""
    last, waiting = session.conversation.last, session.unanswered
    before = waiting.text if waiting else last.user if last else ""
    text = terminal.edit(before, session.view.terminal)
    if not text or text == before.strip():
        session.view.say("nothing was changed")
        return
    session.view.say(f"> {_short(text)}")
    session.say(text, in_place=waiting.in_place if waiting else last is not None)


def clear(session: Session, _: str) -> None:
    count = len(session.conversation.turns)
    session.conversation = Conversation(session.conversation.system)
    session.unanswered = None
    session.save()
    session.view.say(f"{counted(count, 'turn')} forgotten")


def system(session: Session, argument: str) -> None:
    if not argument:
        session.view.say(session.conversation.system or "there is no system prompt")
        return
    given = "" if argument in ('""', "''") else unquoted(argument)
    wanted = session.plan.profile.settings.system if argument == "default" else given
    session.conversation = session.conversation.with_system(wanted)
    session.view.say(f"system prompt: {wanted}" if wanted else "no system prompt")


def set_value(session: Session, argument: str) -> None:
    from speccli.view import tables

    rows = session.settings.rows(session.plan.profile)
    if not argument:
        session.view.show(tables.settings_table(rows))
        return
    name, value = name_and_value(argument)
    known = named(name)
    if value:
        session.settings = session.settings.with_value(known, value, session.plan.pairing.is_speculative)
        rows = session.settings.rows(session.plan.profile)
    session.view.show(tables.settings_table(row for row in rows if row.name == known))


def stats(session: Session, _: str) -> None:
    from speccli.view import tables

    last = _last(session)
    session.view.show(
        tables.stats(last, total(session.conversation.turns), plain_tokens_per_s(session.measured, last.run))
    )


def tokens(session: Session, _: str) -> None:
    from speccli.view import tables

    console = session.view.console
    is_coloured = console.color_system is not None and not console.no_color
    session.view.show(tables.tokens(_last(session), is_coloured))


def think(session: Session, _: str) -> None:
    reasoning = _last(session).reasoning
    session.view.say(reasoning or "the last answer came without reasoning")


def context(session: Session, _: str) -> None:
    last, limit = session.conversation.last, session.plan.max_model_len
    used = last.num_tokens if last else 0
    session.view.say(
        f"context: {used:,} of {limit:,} tokens ({used / limit:.0%}) · {counted(len(session.conversation.turns), 'turn')}"
    )
    if session.conversation.num_forgotten:
        session.view.say(f"{counted(session.conversation.num_forgotten, 'turn')}, the oldest, no longer sent")


def model(session: Session, argument: str) -> None:
    if not argument:
        session.view.say(str(session.run_now))
        return
    changes = {"target": argument, "method": None, "speculator": None, "num_speculative_tokens": None}
    session.restart(session.replan(changes))


def method(session: Session, argument: str) -> None:
    if not argument:
        session.view.say(str(session.run_now))
        return
    session.restart(session.replan(session.with_method(*_method_and_k(argument))))


def compare(session: Session, argument: str) -> None:
    from speccli.commands.chat.comparing import compare_with

    last = _last(session)
    if not argument and last.run.method == "none":
        raise UsageError("the last answer came without speculation already", "name a method: /compare ngram 4")
    compare_with(session, last, session.with_method(*_method_and_k(argument or "none")))


def doctor(session: Session, _: str) -> None:
    from speccli.diagnose.observed import Observed
    from speccli.diagnose.run import after_run
    from speccli.view import tables

    run = _last(session).run
    turns = [turn for turn in session.conversation.turns if turn.run == run]
    sums = total(turns)
    observed = Observed(
        acceptance=sums.acceptance,
        readings=tuple(turn.acceptance for turn in turns),
        method=run.method,
        num_speculative_tokens=run.num_speculative_tokens or None,
        num_generated_tokens=sums.num_tokens,
        num_answers=len(turns),
    )
    session.view.say(f"{run} · {counted(sums.num_turns, 'answer')}, {counted(sums.num_tokens, 'token')}")
    session.view.show(
        tables.findings((f.severity, f.title, f.evidence, f.cause, f.fix) for f in after_run(observed).findings)
    )
    session.view.say("what is an option here is a command in the chat: /method NAME K, /method none, /set temperature")


def put_file(session: Session, argument: str) -> None:
    if not argument:
        raise UsageError("/file needs the name of a file", "type it: /file notes.txt What is this about?")
    name, text = name_and_text(argument)
    session.say(files.with_file(place(name), text, session.plan.max_model_len))


def save(session: Session, argument: str) -> None:
    name = only_name(argument)
    file = place(name) if name else session.file or Path(f"chat-{time.strftime('%Y%m%d-%H%M%S')}.json")
    if file.exists() and file != session.file:
        raise UsageError(f"{file} exists", "name another file")
    files.save(file, session.conversation, session.settings.sampling)
    session.file = file
    session.view.say(f"saved: {file} · {counted(len(session.conversation.turns), 'turn')}")


def load(session: Session, argument: str) -> None:
    if not argument:
        raise UsageError("/load needs the name of a file", "type it: /load chat.json")
    file = place(only_name(argument))
    saved = files.load(file)
    session.conversation, session.file, session.unanswered = saved.conversation, file, None
    session.settings = accepted(ChatSettings(saved.sampling, session.settings.display), session.plan, session.view)
    session.view.say(f"loaded: {counted(len(saved.conversation.turns), 'turn')}")


def copy(session: Session, _: str) -> None:
    where = terminal.copy(_last(session).answer.strip(), session.view.out)
    session.view.say(f"copied, by {where}")


def _method_and_k(argument: str) -> tuple[Method, int | None]:
    name, *rest = argument.split()
    try:
        count = int(rest[0].removeprefix("k=")) if rest else None
    except ValueError:
        raise UsageError(f"{rest[0]!r} is no number of tokens", "type it: /method ngram 4") from None
    if len(rest) > 1 or (name == "none" and rest):
        raise UsageError(f"too much behind {name!r}", "type a method and a number: /method ngram 4")
    return method_named(name), count


def _last(session: Session) -> Turn:
    last = session.conversation.last
    if last is None:
        raise UsageError("nothing was answered yet", "type a message first")
    return last


def _short(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if line == text.strip() and len(line) <= 60 else f"{line[:60]} …"


ACTIONS: dict[str, Action] = {
    "help": show_help,
    "exit": leave,
    "retry": retry,
    "undo": undo,
    "edit": edit,
    "clear": clear,
    "system": system,
    "set": set_value,
    "stats": stats,
    "tokens": tokens,
    "think": think,
    "compare": compare,
    "model": model,
    "method": method,
    "doctor": doctor,
    "context": context,
    "file": put_file,
    "save": save,
    "load": load,
    "copy": copy,
}
