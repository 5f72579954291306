"""What a terminal would obey is shown to people instead."""

import pytest

from speccli.view.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain 漢字 👍🏽", "plain 漢字 👍🏽"),
        ("two\n\tlines", "two\n\tlines"),
        ("\x1b[2J", "␛[2J"),
        ("\x1b]0;title", "␛]0;title"),
        ("a\x07b\x08c\x0cd\x7f", "a␇b␈c␌d␡"),
        ("\x9b2J and \x85", "\ufffd2J and \ufffd"),
        ("one\r\ntwo\r", "one\ntwo"),
        ("50%\r60%", "50%␍60%"),
        ("line\u2028separator", "line\u2028separator"),
    ],
)
def test_control_characters_are_pictures(text: str, shown: str) -> None:
    assert visible(text) == shown
