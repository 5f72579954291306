"""Words that follow a number."""

from speccli.chat.words import counted


def test_one_is_not_several() -> None:
    assert [counted(count, "turn") for count in (0, 1, 2, 1500)] == ["0 turns", "1 turn", "2 turns", "1,500 turns"]
    assert counted(2, "reply", "replies") == "2 replies"
