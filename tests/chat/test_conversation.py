"""Turns come, go and are forgotten; the engine gets what is left."""

from speccli.chat.conversation import Conversation
from speccli.engine import Message
from tests.chat.examples import SEA, turn


def said(conversation: Conversation) -> list[str]:
    return [f"{message.role}: {message.content}" for message in conversation.messages("Now?")]


def three() -> Conversation:
    conversation = Conversation("Be brief.")
    for name in ("One", "Two", "Three"):
        conversation = conversation.and_turn(turn(*SEA, user=f"{name}?"))
    return conversation


def test_the_engine_gets_system_prompt_turns_and_question() -> None:
    assert Conversation().messages("Hi") == (Message("user", "Hi"),)
    assert said(three().without_last()) == [
        "system: Be brief.",
        "user: One?",
        "assistant: The sea is wide.",
        "user: Two?",
        "assistant: The sea is wide.",
        "user: Now?",
    ]


def test_forgotten_turns_are_kept_but_not_sent() -> None:
    shorter = three().forgetting(2)
    assert (len(shorter.turns), shorter.num_sent) == (3, 1)
    assert said(shorter)[1] == "user: Three?"


def test_taking_back_more_than_is_sent_forgets_no_turn_that_is_not_there() -> None:
    taken_back = three().forgetting(3).without_last()
    assert (len(taken_back.turns), taken_back.num_forgotten) == (2, 2)


def test_the_last_turn_knows_whether_the_system_prompt_is_still_its_own() -> None:
    changed = three().with_system("Be long.")
    assert (three().system_is_new, changed.system_is_new, three().with_system("Be brief.").system_is_new) == (
        False,
        True,
        False,
    )
    assert not changed.and_turn(turn(*SEA)).system_is_new
    assert changed.without_last().system_is_new
    assert not changed.without_last().and_turn(turn(*SEA)).system_is_new
    assert not Conversation().with_system("Be brief.").system_is_new


def test_an_empty_system_prompt_is_none() -> None:
    assert said(three().with_system(""))[0] == "user: One?"
