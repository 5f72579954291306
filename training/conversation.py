"""A conversation that grows token by token: what its plan forces, what the model chooses."""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import dataclass

FORCED, USER, ANSWER = 0, 1, 2
"""Who wrote a token: the template or a prefix, the model as the user, the model as the assistant."""

DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
"""What the chat template puts first when a conversation brings no system message."""

END = "<|im_end|>"


@dataclass(frozen=True, slots=True)
class Turn:
    role: int
    prefix: str = ""
    """How the turn begins; the model goes on from there."""
    limit: int = 0
    """Tokens that the model may add. With 0 the prefix is the whole turn."""
    temperature: float = 0.0
    """0 takes the likeliest token."""


@dataclass(frozen=True, slots=True)
class Plan:
    index: int
    seed: int
    category: str
    turns: tuple[Turn, ...]
    system: str = DEFAULT_SYSTEM


class Conversation:
    """The last of `tokens` is the one that the model has not seen yet."""

    def __init__(self, plan: Plan, encode: Callable[[str], list[int]]) -> None:
        self.plan = plan
        self.tokens: list[int] = []
        self.roles: list[int] = []
        self.is_finished = False
        self._encode = encode
        (self._end,) = encode(END)
        self._turns = collections.deque(plan.turns)
        self._forced = collections.deque(encode(f"<|im_start|>system\n{plan.system}"))
        self._end_turn()
        self.advance(None)

    @property
    def temperature(self) -> float | None:
        """Of the next token; None where it is forced."""
        return None if self._forced else self._turn.temperature

    def advance(self, chosen: int | None) -> None:
        """Add a token: the next forced one, or `chosen` where nothing is forced."""
        if self._forced:
            self._add(self._forced.popleft(), FORCED)
            return
        if chosen is None:
            raise ValueError("nothing is forced, so a token has to be chosen")
        self._add(chosen, self._turn.role)
        self._left -= 1
        if chosen == self._end:
            self._begin_turn()
        elif not self._left:
            self._cut()

    def _add(self, token: int, role: int) -> None:
        self.tokens.append(token)
        self.roles.append(role)

    def _cut(self) -> None:
        """An answer at its limit ends the conversation where it was the last; else the turn is closed."""
        if self._turns:
            self._end_turn()
        else:
            self.is_finished = True

    def _end_turn(self) -> None:
        self._forced.append(self._end)
        self._begin_turn()

    def _begin_turn(self) -> None:
        if not self._turns:
            self.is_finished = True
            return
        self._turn = self._turns.popleft()
        self._left = self._turn.limit
        name = "assistant" if self._turn.role == ANSWER else "user"
        self._forced.extend(self._encode(f"\n<|im_start|>{name}\n{self._turn.prefix}"))
        if not self._left:
            self._end_turn()
