"""File names as they are typed."""

from pathlib import Path

import pytest

from speccli.chat.names import name_and_text, only_name, place, quoted
from speccli.errors import UsageError


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("notes.txt", ("notes.txt", "")),
        ("notes.txt What's this?", ("notes.txt", "What's this?")),
        ("notes.txt\nWhat?", ("notes.txt", "What?")),
        ('"my notes.txt" What\'s "this"?', ("my notes.txt", 'What\'s "this"?')),
        ("'my \"notes\".txt'", ('my "notes".txt', "")),
        ("it's.txt", ("it's.txt", "")),
    ],
)
def test_the_name_comes_first_and_the_text_may_hold_quotation_marks(argument: str, expected: tuple[str, str]) -> None:
    assert name_and_text(argument) == expected


def test_a_quotation_mark_that_is_not_closed_is_told() -> None:
    with pytest.raises(UsageError, match='a quotation mark is missing: "my notes'):
        name_and_text('"my notes.txt')


@pytest.mark.parametrize(
    ("argument", "name"), [("my chat.json", "my chat.json"), ('"my chat.json"', "my chat.json"), ("", ""), ("a", "a")]
)
def test_a_name_alone_may_hold_blanks(argument: str, name: str) -> None:
    assert only_name(argument) == name


def test_more_than_one_name_is_refused() -> None:
    with pytest.raises(UsageError, match=r"too much behind the file a\.json: b"):
        only_name("'a.json' b")


@pytest.mark.parametrize(
    "name", ["plain.txt", "my notes.txt", "it's.txt", "it's mine.txt", '"odd".txt', '"odd one".txt']
)
def test_what_is_quoted_is_read_back(name: str) -> None:
    assert name_and_text(f"{quoted(name)} text") == (name, "text")
    assert only_name(quoted(name)) == name


def test_a_home_folder_that_is_nobodys_is_told() -> None:
    assert place("~/a") == Path.home() / "a"
    with pytest.raises(UsageError, match="cannot find ~nobody-at-all/a"):
        place("~nobody-at-all/a")
