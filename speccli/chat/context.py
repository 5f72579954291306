"""The context window: whether a message fits, and how many of the oldest turns must go where it does not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import msgspec

from speccli.chat.conversation import Conversation

ROOM_FOR_ANSWER = 256
"""Tokens that a message should leave for its answer, if the window has them."""


class Fit(msgspec.Struct, frozen=True):
    """How a message meets the window. `num_to_forget` is None where it does not fit even alone: then alone it is counted."""

    num_tokens: int
    limit: int
    num_to_forget: int | None = 0

    @property
    def num_too_many(self) -> int:
        """With one token of the answer."""
        return self.num_tokens + 1 - self.limit

    @property
    def num_left(self) -> int:
        """For the answer."""
        return self.limit - self.num_tokens


def room_for_answer(limit: int, max_tokens: int | None) -> int:
    """What must be free behind the prompt: little in a small window, and never more than an answer may take."""
    return min(max_tokens or ROOM_FOR_ANSWER, ROOM_FOR_ANSWER, max(1, limit // 4))


def fit(conversation: Conversation, count: Callable[[Conversation], int], limit: int, room: int) -> Fit:
    """`count` gives the tokens of the prompt that this conversation and the message make; it is asked seldom."""
    most = conversation.num_sent
    alone = count(conversation.forgetting(most))
    if alone >= limit:
        return Fit(alone, limit, None)
    whole = count(conversation) if most else alone
    if whole + room <= limit:
        return Fit(whole, limit)
    fits = lambda forgotten: count(conversation.forgetting(forgotten)) + room <= limit  # noqa: E731
    # Where none of them gives that room, an answer can begin with less.
    return Fit(whole, limit, min(most, 1 + bisect_left(range(1, most), True, key=fits)))
