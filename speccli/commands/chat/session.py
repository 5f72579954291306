"""Session: a conversation on a terminal. It reads, asks, shows; what the commands do stands in actions.py."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from speccli import paths
from speccli.chat import files
from speccli.chat.commands import Said, parse
from speccli.chat.conversation import Conversation
from speccli.chat.settings import ChatSettings
from speccli.chat.turn import Run, Turn
from speccli.chat.words import counted
from speccli.commands.chat import Options, Replan, accepted, too_long
from speccli.commands.chat.asking import Asked, Question, ask, run_of
from speccli.engine import Engine
from speccli.engine.starting import PATIENCE_S, Starting
from speccli.errors import EngineFailed, ExitCode, SpeccliError, UsageError
from speccli.plan import Plan
from speccli.profile import Method
from speccli.view import View, one_line

if TYPE_CHECKING:
    from speccli.commands import OpenEngine
    from speccli.view.prompt import Prompt


class Leave(Exception):
    """The user wants to go."""


class Unanswered(msgspec.Struct, frozen=True):
    """A question that got no answer."""

    text: str
    in_place: bool
    """Whether its answer takes the place of the last turn, as /retry and /edit have it."""


class Session:
    """One conversation, and the engine that answers it."""

    def __init__(
        self,
        plan: Plan,
        conversation: Conversation,
        settings: ChatSettings,
        options: Options,
        view: View,
        open_engine: OpenEngine,
        replan: Replan | None,
    ) -> None:
        self.plan = plan
        self.conversation = conversation
        self.settings = settings
        self.view = view
        self.unanswered: Unanswered | None = None
        """/retry asks it again, /undo drops it."""
        self.measured: list[Turn] = []
        """Every answer, those of comparisons and those taken back, too."""
        self.file: Path | None = options.save or options.load
        self._options = options
        self._open_engine = open_engine
        self._replan = replan
        self._first = plan.pairing
        self._before: Plan | None = None
        """What to go back to, while another engine starts."""
        self._starting: Starting | None = None
        self._is_announced = False
        self._was_interrupted = False
        self._prompt: Prompt | None = None

    @property
    def run_now(self) -> Run:
        return run_of(self.plan)

    def with_method(self, method: Method, num_speculative_tokens: int | None) -> dict[str, Any]:
        """Settings for another method with this target. A speculator that was typed stays with what it was typed for."""
        target, first = self.plan.pairing.target, self._first
        settings = {
            "target": self.plan.profile.settings.target or target,  # the machine's default may depend on the method
            "method": method,
            "num_speculative_tokens": num_speculative_tokens,
        }
        return settings if (target, method) == (first.target, first.method) else {**settings, "speculator": None}

    def run(self) -> ExitCode:
        """Until the user leaves."""
        with self.view.held():
            self.start_engine()
            self.view.narrate("/help lists the commands. Ctrl-C stops an answer, Ctrl-D leaves.")
            if self.conversation.turns:
                self.view.narrate(f"the conversation so far: {counted(len(self.conversation.turns), 'turn')}")
            try:
                if self.view.verbose:
                    self.engine()  # its log would be written over the prompt
                for line in self._lines():
                    self.take(line)
            except Leave:
                return ExitCode.DONE
            except BaseException:
                self._rescue()
                raise
            finally:
                self._stop_engine()
        return ExitCode.DONE

    def take(self, line: str) -> None:
        """One line that was typed."""
        from speccli.commands.chat.actions import ACTIONS

        try:
            said = parse(line)
            if isinstance(said, Said):
                self.say(said.text)
            else:
                ACTIONS[said.name](self, said.argument)
        except SpeccliError as error:
            if self._starting is not None and error is self._starting.error:  # there is no engine to go on with
                raise
            self.view.error(error.message, error.hint)
        except KeyboardInterrupt:
            self._was_interrupted = True
            self.view.narrate("interrupted; Ctrl-C once more leaves")

    def say(self, text: str, in_place: bool = False) -> None:
        """Ask the model, show the answer, and keep both; `in_place` of the last turn, which stays where nothing is answered."""
        if not text.strip():
            return
        self.unanswered = Unanswered(text, in_place)
        try:
            engine = self.engine()
        except KeyboardInterrupt:
            self.view.narrate("the message waits: /retry sends it. The engine goes on starting.")
            self._was_interrupted = True
            return
        question = self._fitted(engine, self.question(text, in_place))
        try:
            asked = ask(engine, question, self.view, self.settings.display)
        except EngineFailed as failure:
            self._died(failure)
            return
        self._told(question, asked)

    def question(self, text: str, in_place: bool = False) -> Question:
        conversation = self.conversation.without_last() if in_place else self.conversation
        return Question(text, conversation, self.settings.sampling.over(self.plan.profile.sampling), self.plan)

    def engine(self) -> Engine:
        """The engine, once it is there. Where a new one does not start, the one before is started again."""
        starting = self._starting
        if starting is None:
            raise RuntimeError("no engine was started")
        try:
            with self.view.waiting(partial(_progress, starting)) if not starting.is_over else contextlib.nullcontext():
                engine = starting.engine()
        except SpeccliError as error:
            self._go_back(error)
            return self.engine()
        if not self._is_announced:
            self._is_announced = True
            stages = f" ({' · '.join(starting.took)})" if starting.took else ""
            self.view.narrate(f"engine ready after {starting.seconds:.1f} s{stages}")
            self.settings = accepted(self.settings, self.plan, self.view)
        self._before = None
        return engine

    def start_engine(self, plan: Plan | None = None) -> Starting:
        """The conversation's, or another one, as soon as the one before has ended. The user can type meanwhile."""
        self._is_announced = False
        self._starting = Starting(partial(self._open_engine, plan or self.plan), self._starting)
        return self._starting

    def restart(self, plan: Plan) -> None:
        """Go on with another plan; where its engine does not start, with the last one that did."""
        self._go_on_with(plan, self._last_good())

    def replan(self, changes: dict[str, Any]) -> Plan:
        if self._replan is None:
            raise UsageError("this chat cannot start another engine", "leave, and start it with other options")
        return self._replan(changes)

    def save(self) -> None:
        """Write the conversation, where that was asked for."""
        if self._options.save:
            files.save(self._options.save, self.conversation, self.settings.sampling)

    def confirm(self, question: str) -> bool:
        return self._input().confirm(question)

    def _go_on_with(self, plan: Plan, before: Plan | None) -> None:
        self._before, self.plan = before, plan
        self.start_engine()

    def _go_back(self, error: BaseException) -> None:
        """To what ran before the engine that did not start. Raises its error where nothing did."""
        before = self._before
        if before is None or not isinstance(error, SpeccliError):
            raise error
        self.view.error(error.message, error.hint)
        self.view.narrate(f"going back to {run_of(before)}")
        self._go_on_with(before, None)

    def _last_good(self) -> Plan | None:
        """The plan whose engine started last; until one did, what was tried first and may still start."""
        starting = self._starting
        if starting is None or starting.error is not None:
            return self._before
        return self.plan if starting.is_over else self._before or self.plan

    def _stop_engine(self) -> None:
        starting = self._starting
        if starting is None:
            return
        with contextlib.nullcontext() if starting.is_over else self.view.waiting(lambda: "ending the start …"):
            starting.close(PATIENCE_S)

    def _told(self, question: Question, asked: Asked) -> None:
        if asked.error is not None:
            self.view.error(asked.error, "the message was not kept; change it, or a setting, and try again")
            return
        if self.settings.display.stats:
            self.view.narrate(one_line(asked.answer))
        if asked.turn.num_tokens >= self.plan.max_model_len:
            self.view.narrate("the answer ends here because the context is full")
        if asked.turn.timing.num_tokens:
            self.measured.append(asked.turn)
        if asked.turn.answer or not asked.num_interrupts:
            self.conversation = question.conversation.and_turn(asked.turn)
            self.unanswered = None
            self.save()
        if asked.num_interrupts > 1:
            raise Leave
        if asked.num_interrupts:
            self.view.narrate("interrupted; Ctrl-C once more leaves")
            self._was_interrupted = True

    def _fitted(self, engine: Engine, question: Question) -> Question:
        """The question, after the oldest turns are forgotten where they must be. Raises `UsageError` where nothing helps."""
        fit = question.fit(engine)
        if fit.num_to_forget == 0:
            return question
        message, hint = too_long(self.plan, fit, question.conversation)
        choice = self.settings.display.when_full
        if fit.num_to_forget is None:
            raise UsageError(message, hint)
        if choice == "stop":
            raise UsageError(message, "/clear begins anew; /set when_full drop forgets the oldest turns")
        oldest = "the oldest turn" if fit.num_to_forget == 1 else f"the {fit.num_to_forget} oldest turns"
        if choice == "ask":
            self.view.say(message)
            if not self.confirm(f"forget {oldest} and go on? [Y/n] "):
                raise UsageError("the message was not sent", "/clear begins anew; /set when_full drop always goes on")
        self.view.narrate(f"{oldest} of the conversation can no longer be seen by the model; /save still writes all")
        return msgspec.structs.replace(question, conversation=question.conversation.forgetting(fit.num_to_forget))

    def _died(self, failure: EngineFailed) -> None:
        from speccli.diagnose.failures.failed import explained  # all the rules: only where something broke

        told = explained(failure)
        self.view.error(told.message, told.hint)
        self.view.narrate("the conversation is kept; the engine starts again, and /retry asks once more")
        self.start_engine()

    def _lines(self) -> Iterator[str]:
        """What the user types, until Ctrl-D or the second Ctrl-C in a row."""
        while True:
            try:
                self._check_start()
                text = self._input().read(self.settings.display.vi)
            except EOFError:
                return
            except KeyboardInterrupt:
                if self._was_interrupted:
                    return
                self._was_interrupted = True
                self.view.narrate("Ctrl-C once more, or Ctrl-D, leaves.")
                continue
            self._was_interrupted = False
            if text.strip():
                yield text
                self.view.gap()

    def _check_start(self) -> None:
        """Tell of a start that failed while nobody waited for it."""
        if self._starting is not None and self._starting.error is not None:
            self._go_back(self._starting.error)

    def _input(self) -> Prompt:
        if self._prompt is None:
            from speccli.pairing.catalogue import names  # reading the catalogue takes a while
            from speccli.view.prompt import Prompt, real_terminal

            history = paths.state_dir() / "chat-history" if self._options.keeps_history else None
            terminal = None if self.view.terminal is None else real_terminal(self.view.terminal)
            self._prompt = Prompt(history, names, self._below, self._has_news, self.view.edited, terminal)
        return self._prompt

    def _below(self) -> str:
        """The line under the prompt."""
        if self._starting is not None and not self._starting.is_over:
            return f"{_progress(self._starting)} · you can type"
        used = self.conversation.last.num_tokens if self.conversation.last else 0
        return f"{self.run_now} · context {used:,} of {self.plan.max_model_len:,}"

    def _has_news(self) -> bool:
        """Whether the prompt must end, because the engine could not be started."""
        return self._starting is not None and self._starting.error is not None

    def _rescue(self) -> None:
        """What was said is not lost with a crash."""
        if self.conversation.turns:
            file = paths.state_dir() / "chats" / f"rescued-{time.strftime('%Y%m%d-%H%M%S')}.json"
            files.save(file, self.conversation, self.settings.sampling)
            self.view.say(f"the conversation was saved: speccli chat --load {file}")


def _progress(starting: Starting) -> str:
    return f"starting the engine: {starting.now()}"
