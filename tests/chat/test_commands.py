'''What is typed is a message or a command; """ holds several lines.'''

import pytest

from speccli.chat.commands import ALSO_CALLED, BY_NAME, COMMANDS, Said, Typed, is_open, parse
from speccli.errors import UsageError


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Hello", Said("Hello")),
        ("  Hello  ", Said("Hello")),
        ("/help", Typed("help")),
        ("/HELP", Typed("help")),
        ("/?", Typed("help")),
        ("/bye", Typed("exit")),
        ("/set temperature 0.5", Typed("set", "temperature 0.5")),
        ("/system Be brief.\nAnd kind.", Typed("system", "Be brief.\nAnd kind.")),
        ("/file\nnotes.txt", Typed("file", "notes.txt")),
        ("//etc/passwd is a file", Said("/etc/passwd is a file")),
        ('"""\none\n\ntwo\n"""', Said("one\n\ntwo")),
        ('"""/help"""', Said("/help")),
        ('"""', Said('"""')),
        ('""', Said('""')),
        ('"""exit"""', Said("exit")),
        ("exit now", Said("exit now")),
    ],
)
def test_a_line_is_read(line: str, expected: Said | Typed) -> None:
    assert parse(line) == expected


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("/hepl", "no command is called /hepl", "did you mean `/help`?"),
        ("/regenrate", "no command is called /regenrate", "did you mean `/retry`?"),
        ("/xyzzy", "no command is called /xyzzy", "/help shows them all."),
        ("exit", "`exit` was not sent: /exit or Ctrl-D leaves", ""),
        (" Quit ", "`Quit` was not sent: /exit or Ctrl-D leaves", ""),
        ("/stats now", "/stats takes nothing behind it", "type /stats alone"),
    ],
)
def test_a_command_that_cannot_be_meant_names_the_nearest(line: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line)
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"""', True),
        ('"""one', True),
        ('"""one\n', True),
        ('"""one"""', False),
        ("one", False),
        ('say """ twice', False),
        ('/system """Be', True),
        ('/system """Be\nbrief."""', False),
    ],
)
def test_three_quotes_stay_open_until_three_more(text: str, expected: bool) -> None:
    assert is_open(text) is expected


def test_every_name_is_said_once_and_every_alias_leads_to_a_command() -> None:
    assert len(BY_NAME) == len(COMMANDS)
    assert set(ALSO_CALLED.values()) <= set(BY_NAME)
    assert not set(ALSO_CALLED) & set(BY_NAME)
