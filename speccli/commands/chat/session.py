"""Session: a conversation on a terminal. It reads, asks, shows; what the commands do stands in actions.py."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speccli import paths
from speccli.chat import files
from speccli.chat.commands import Said, parse
from speccli.chat.conversation import Conversation
from speccli.chat.settings import ChatSettings
from speccli.chat.turn import Run, Turn
from speccli.commands.chat import Options, Replan, too_long
from speccli.commands.chat.asking import Asked, Question, ask, run_of
from speccli.engine import Engine
from speccli.engine.starting import PATIENCE_S, Starting
from speccli.errors import EngineFailed, ExitCode, SpeccliError, UsageError
from speccli.plan import Plan
from speccli.view import View, one_line

if TYPE_CHECKING:
    from speccli.commands import OpenEngine
    from speccli.view.prompt import Prompt


class Leave(Exception):
    """The user wants to go."""


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
        self.unanswered: str | None = None
        """A question that got no answer; /retry asks it again."""
        self.measured: list[Turn] = []
        """Every answer, those of comparisons and those taken back, too."""
        self.file: Path | None = options.save or options.load
        self.changes: dict[str, Any] = {}
        """Settings changed by /model and /method."""
        self._options = options
        self.open_engine = open_engine
        self._replan = replan
        self._before: Plan | None = None
        self._starting: Starting | None = None
        self._is_announced = False
        self._was_interrupted = False
        self._prompt: Prompt | None = None

    @property
    def run_now(self) -> Run:
        return run_of(self.plan)

    @property
    def same_target(self) -> dict[str, Any]:
        """Settings for another method: which target is the machine's default may depend on it."""
        return {"target": self.plan.profile.settings.target or self.plan.pairing.target, **self.changes}

    def run(self) -> ExitCode:
        """Until the user leaves."""
        with self.view.held():
            self.start_engine()
            self.view.narrate("/help lists the commands. Ctrl-C stops an answer, Ctrl-D leaves.")
            if self.conversation.turns:
                self.view.narrate(f"the conversation so far: {len(self.conversation.turns)} turns")
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
                self.stop_engine(PATIENCE_S)
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
            if self._has_news() and self._before is None:  # there is no engine to go on with
                raise
            self.view.error(error.message, error.hint)
        except KeyboardInterrupt:
            self._was_interrupted = True
            self.view.narrate("interrupted; Ctrl-C once more leaves")

    def say(self, text: str) -> None:
        """Ask the model, show the answer, and keep both."""
        if not text.strip():
            return
        self.unanswered = text
        try:
            engine = self.engine()
        except KeyboardInterrupt:
            self.view.narrate("the message waits: /retry sends it. The engine goes on starting.")
            self._was_interrupted = True
            return
        question = self._fitted(engine, self.question(text))
        try:
            asked = ask(engine, question, self.view, self.settings.display)
        except EngineFailed as failure:
            self._died(failure)
            return
        self._told(asked)

    def question(self, text: str) -> Question:
        return Question(text, self.conversation, self.settings.sampling.over(self.plan.profile.sampling), self.plan)

    def engine(self) -> Engine:
        """The engine, once it is there. Where a new one does not start, the one before is started again."""
        starting = self._starting
        if starting is None:
            raise RuntimeError("no engine was started")
        try:
            with self.view.waiting(partial(_progress, starting)) if not starting.is_over else contextlib.nullcontext():
                engine = starting.engine()
        except SpeccliError as error:
            if self._before is None:
                raise
            self.view.error(error.message, error.hint)
            self.view.narrate(f"going back to {run_of(self._before)}")
            self.restart(self._before, goes_back=True)
            return self.engine()
        if not self._is_announced:
            self._is_announced = True
            stages = f" ({' · '.join(starting.took)})" if starting.took else ""
            self.view.narrate(f"engine ready after {starting.seconds:.1f} s{stages}")
        self._before = None
        return engine

    def start_engine(self) -> None:
        self._is_announced = False
        self._starting = Starting(partial(self.open_engine, self.plan))

    def stop_engine(self, patience_s: float = math.inf) -> None:
        starting, self._starting = self._starting, None
        if starting is None:
            return
        with contextlib.nullcontext() if starting.is_over else self.view.waiting(lambda: "ending the start …"):
            starting.close(patience_s)

    def restart(self, plan: Plan, goes_back: bool = False) -> None:
        """Go on with another plan. The engine starts while the user types."""
        self.stop_engine()
        self._before, self.plan = None if goes_back else self.plan, plan
        self.settings, refused = self.settings.without_refused() if plan.pairing.is_speculative else (self.settings, [])
        for name in refused:
            self.view.narrate(f"{name} is taken back: vLLM 0.32 does not support it with speculative decoding")
        self.start_engine()

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

    def _told(self, asked: Asked) -> None:
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
            self.conversation = self.conversation.and_turn(asked.turn)
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
        refusal = UsageError(*too_long(self.plan, fit.num_tokens, fit.num_too_many, self.conversation))
        choice = self.settings.display.when_full
        if fit.num_to_forget is None or choice == "stop":
            raise refusal
        oldest = "the oldest turn" if fit.num_to_forget == 1 else f"the {fit.num_to_forget} oldest turns"
        if choice == "ask":
            self.view.say(refusal.message)
            if not self.confirm(f"forget {oldest} and go on? [Y/n] "):
                raise UsageError("the message was not sent", "/clear begins anew; /set when_full drop always goes on")
        self.view.narrate(f"{oldest} of the conversation can no longer be seen by the model; /save still writes all")
        self.conversation = self.conversation.forgetting(fit.num_to_forget)
        return self.question(question.text)

    def _died(self, failure: EngineFailed) -> None:
        from speccli.diagnose.failures.failed import explained  # all the rules: only where something broke

        told = explained(failure)
        self.view.error(told.message, told.hint)
        self.view.narrate("the conversation is kept; the engine starts again, and /retry asks once more")
        self.stop_engine()
        self.start_engine()

    def _lines(self) -> Iterator[str]:
        """What the user types, until Ctrl-D or the second Ctrl-C in a row."""
        while True:
            try:
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
            self._check_start()

    def _check_start(self) -> None:
        """Tell of a start that failed while nobody waited for it."""
        if self._starting is not None and self._starting.has_failed:
            self.engine()

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
        return self._starting is not None and self._starting.has_failed

    def _rescue(self) -> None:
        """What was said is not lost with a crash."""
        if self.conversation.turns:
            file = paths.state_dir() / "chats" / f"rescued-{time.strftime('%Y%m%d-%H%M%S')}.json"
            files.save(file, self.conversation, self.settings.sampling)
            self.view.say(f"the conversation was saved: speccli chat --load {file}")


def _progress(starting: Starting) -> str:
    return f"starting the engine: {starting.stages.now()} · {starting.seconds:.0f} s in all"
