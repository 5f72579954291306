"""Conversation: the system prompt and the turns so far. Each change makes a new one."""

from __future__ import annotations

import msgspec

from speccli.chat.turn import Turn
from speccli.engine import Message


class Conversation(msgspec.Struct, frozen=True):
    """What has been said. Reasoning is never sent again: templates forbid it, or take it out themselves."""

    system: str | None = None
    turns: tuple[Turn, ...] = ()
    num_forgotten: int = 0
    """The oldest turns that are no longer sent, because the context was full."""
    num_before_system: int = 0
    """The oldest turns that were answered under another system prompt."""

    @property
    def last(self) -> Turn | None:
        return self.turns[-1] if self.turns else None

    @property
    def system_is_new(self) -> bool:
        """Whether the last turn was answered under another system prompt."""
        return 0 < len(self.turns) == self.num_before_system

    @property
    def num_sent(self) -> int:
        """Turns that are sent with the next question."""
        return len(self.turns) - self.num_forgotten

    def messages(self, asked: str) -> tuple[Message, ...]:
        """What the engine gets for the next question."""
        system = (Message("system", self.system),) if self.system else ()
        said = (
            message
            for turn in self.turns[self.num_forgotten :]
            for message in (Message("user", turn.user), Message("assistant", turn.answer))
        )
        return (*system, *said, Message("user", asked))

    def and_turn(self, turn: Turn) -> Conversation:
        return msgspec.structs.replace(self, turns=(*self.turns, turn))

    def without_last(self) -> Conversation:
        turns = self.turns[:-1]
        return msgspec.structs.replace(
            self,
            turns=turns,
            num_forgotten=min(self.num_forgotten, len(turns)),
            num_before_system=min(self.num_before_system, len(turns)),
        )

    def forgetting(self, count: int) -> Conversation:
        """So many more of the oldest turns are not sent."""
        return msgspec.structs.replace(self, num_forgotten=self.num_forgotten + count)

    def with_system(self, system: str | None) -> Conversation:
        if (system or None) == self.system:
            return self
        return msgspec.structs.replace(self, system=system or None, num_before_system=len(self.turns))
