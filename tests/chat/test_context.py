"""Does a message fit, and what must go where it does not."""

import pytest

from speccli.chat.context import Fit, fit, room_for_answer
from speccli.chat.conversation import Conversation
from tests.chat.examples import SEA, turn


def of(num_turns: int) -> Conversation:
    return Conversation(turns=(turn(*SEA),) * num_turns)


def count(conversation: Conversation) -> int:
    """A message of 20 tokens, and 100 a turn."""
    return 20 + 100 * conversation.num_sent


@pytest.mark.parametrize(
    ("num_turns", "limit", "expected"),
    [
        (3, 370, Fit(320, 370, 0)),
        (3, 369, Fit(320, 369, 1)),
        (3, 200, Fit(320, 200, 2)),
        (3, 169, Fit(320, 169, 3)),
        (3, 30, Fit(320, 30, 3)),
        (3, 20, Fit(20, 20, None)),
        (0, 21, Fit(20, 21, 0)),
        (0, 10, Fit(20, 10, None)),
    ],
)
def test_the_fewest_oldest_turns_go(num_turns: int, limit: int, expected: Fit) -> None:
    assert fit(of(num_turns), count, limit, room=50) == expected


def test_a_message_too_long_alone_is_counted_once() -> None:
    counted = []

    def counting(conversation: Conversation) -> int:
        counted.append(conversation.num_sent)
        return count(conversation)

    assert fit(of(500), counting, 20, 50) == Fit(20, 20, None)
    assert counted == [0]
    assert fit(of(500), counting, 20_175, 50) == Fit(50_020, 20_175, 299)
    assert len(counted) < 13


def test_what_is_left_for_an_answer() -> None:
    assert Fit(1854, 2048, 1).num_left == 194


def test_a_message_too_long_says_by_how_much() -> None:
    assert fit(of(0), count, 10, 50).num_too_many == 11


def test_turns_that_are_forgotten_already_are_not_counted_again() -> None:
    assert fit(of(3).forgetting(2), count, 100, 50) == Fit(120, 100, 1)


@pytest.mark.parametrize(
    ("limit", "max_tokens", "room"), [(8192, 512, 256), (8192, 16, 16), (512, 512, 128), (8192, None, 256), (2, 9, 1)]
)
def test_the_room_for_an_answer(limit: int, max_tokens: int | None, room: int) -> None:
    assert room_for_answer(limit, max_tokens) == room
