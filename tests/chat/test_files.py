"""Conversations on disk."""

import json
from pathlib import Path

import pytest

from speccli.chat.conversation import Conversation
from speccli.chat.files import load, read_text, save, with_file
from speccli.errors import UsageError
from speccli.profile import Sampling
from tests.chat.examples import SEA, turn

TALK = Conversation(
    "Be brief.", (turn(*SEA, sampling=Sampling(seed=5)), turn(*SEA, user="And the sky?\nIn one word.")), num_forgotten=1
)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    save(tmp_path / "chat.json", TALK, Sampling(temperature=0.5, stop=("END",)))
    saved = load(tmp_path / "chat.json")
    assert (saved.conversation, saved.sampling) == (TALK, Sampling(temperature=0.5, stop=("END",)))
    assert json.loads((tmp_path / "chat.json").read_text())["schema_version"] == 1
    assert [file.name for file in tmp_path.iterdir()] == ["chat.json"]


def test_what_was_saved_without_the_sampling_of_each_answer_is_loaded(tmp_path: Path) -> None:
    save(tmp_path / "chat.json", TALK, Sampling())
    told = json.loads((tmp_path / "chat.json").read_text())
    del told["conversation"]["num_before_system"]
    for one in told["conversation"]["turns"]:
        del one["sampling"]
    (tmp_path / "chat.json").write_text(json.dumps(told))
    conversation = load(tmp_path / "chat.json").conversation
    assert [one.sampling for one in conversation.turns] == [None, None]
    assert (conversation.turns[1], conversation.num_before_system) == (TALK.turns[1], 0)


def test_markdown_is_for_reading(tmp_path: Path) -> None:
    save(tmp_path / "chat.md", TALK, Sampling())
    assert (tmp_path / "chat.md").read_text() == (
        "> Be brief.\n\n"
        "## Describe the sea.\n\nThe sea is wide.\n\n"
        "*tiny · ngram, k=3 · 5 tokens · 4.0 tokens/s · mean acceptance length 2.00*\n\n"
        "## And the sky?\n\nIn one word.\n\nThe sea is wide.\n\n"
        "*tiny · ngram, k=3 · 5 tokens · 4.0 tokens/s · mean acceptance length 2.00*\n"
    )


def test_a_system_prompt_is_quoted_line_by_line(tmp_path: Path) -> None:
    save(tmp_path / "chat.md", Conversation("One\u2028line.\n\nAnother."), Sampling())
    assert (tmp_path / "chat.md").read_text() == "> One\u2028line.\n>\n> Another.\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "is no saved conversation"),
        ("{", "is no saved conversation"),
        ('{"schema_version": 99}', "has schema_version 99; this speccli reads 1"),
        ('{"schema_version": 1, "conversation": {"turns": [{}]}}', "is no saved conversation"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "chat.json").write_text(content)
    with pytest.raises(UsageError, match=message):
        load(tmp_path / "chat.json")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*nowhere\.json: No such file or directory"):
        load(tmp_path / "nowhere.json")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write"):
        save(tmp_path / "file" / "chat.json", TALK, Sampling())


def test_a_file_goes_into_the_message_fenced_and_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    assert with_file(tmp_path / "notes.txt", "What is this?", 100) == "What is this?\n\nnotes.txt:\n```\none\ntwo\n```"


def test_a_fence_is_longer_than_those_inside(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("```python\n1\n```")
    assert with_file(tmp_path / "notes.md", "", 100).startswith("notes.md:\n````\n```python")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_text(tmp_path / "photo", 100)


def test_a_file_that_fits_no_context_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(
        UsageError, match=r"huge\.txt is too large: 1,099,511,627,776 bytes, and the context holds 2,048"
    ):
        read_text(tmp_path / "huge.txt", 2048)


def test_what_is_no_regular_file_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot read /dev/zero: it is no regular file"):
        read_text(Path("/dev/zero"), 2048)
