"""The user's profile is changed key by key, whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from speccli.errors import UsageError
from speccli.profile.users import edited, write

MINE = """\
# What I like
temperature: 0.7   # not too dull
max_model_len: 32768
engine:
  # of vLLM
  block_size: 32
stop_at: here
"""


def test_a_key_is_replaced_in_its_place_and_everything_else_stays() -> None:
    assert edited(MINE, {"max_model_len": 8192}, "mine") == MINE.replace("32768", "8192")


def test_a_new_key_goes_to_the_end() -> None:
    assert edited(MINE, {"method": "eagle3"}, "mine") == MINE + "method: eagle3\n"
    assert edited("", {"method": "eagle3"}, "mine") == "method: eagle3\n"


def test_a_key_of_a_table_is_set_inside_it() -> None:
    assert edited(MINE, {"engine": {"max_num_batched_tokens": 512}}, "mine") == MINE.replace(
        "  block_size: 32\n", "  block_size: 32\n  max_num_batched_tokens: 512\n"
    )
    assert edited("a: 1\n", {"engine": {"block_size": 16}}, "mine") == "a: 1\nengine:\n  block_size: 16\n"


def test_none_takes_a_key_out() -> None:
    assert edited(MINE, {"temperature": None, "absent": None}, "mine") == MINE.replace(
        "temperature: 0.7   # not too dull\n", ""
    )


def test_text_that_looks_like_something_else_is_quoted() -> None:
    assert edited("", {"speculator": "123", "target": "yes"}, "mine") == "speculator: '123'\ntarget: 'yes'\n"


@pytest.mark.parametrize("text", ["engine: {block_size: 32}\n", "{temperature: 0.7}\n"])
def test_what_cannot_be_changed_safely_is_refused_with_what_to_write(text: str) -> None:
    changes: dict[str, Any] = {"engine": {"enable_lora": False}} if text.startswith("engine") else {"seed": 1}
    with pytest.raises(UsageError) as caught:
        edited(text, changes, "mine.yaml")
    assert caught.value.message.startswith("mine.yaml ")


def test_the_file_is_written_and_the_difference_returned(tmp_path: Path) -> None:
    file = tmp_path / "speccli" / "config.yaml"
    assert write(file, {"max_model_len": 4096}) == f"--- {file}\n+++ {file}\n@@ -0,0 +1 @@\n+max_model_len: 4096\n"
    assert write(file, {"max_model_len": 2048}) == (
        f"--- {file}\n+++ {file}\n@@ -1 +1 @@\n-max_model_len: 4096\n+max_model_len: 2048\n"
    )
    assert file.read_text() == "max_model_len: 2048\n"
    assert write(file, {"max_model_len": 2048}) == ""
    assert [one.name for one in file.parent.iterdir()] == ["config.yaml"]


def test_rights_and_links_of_the_file_stay(tmp_path: Path) -> None:
    kept, link = tmp_path / "kept.yaml", tmp_path / "config.yaml"
    kept.write_text("seed: 1\n")
    kept.chmod(0o600)
    link.symlink_to(kept)
    write(link, {"seed": 2})
    assert link.is_symlink()
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("seed: 2\n", 0o600)


def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    folder, text = tmp_path / "folder.yaml", tmp_path / "text.yaml"
    folder.mkdir()
    text.write_bytes("seed: 1\n".encode("utf-16"))
    for file, said in ((folder, "cannot read .*: Is a directory"), (text, "is not in UTF-8")):
        with pytest.raises(UsageError, match=said):
            write(file, {"seed": 2})


def test_a_file_that_cannot_be_written_is_a_usage_error_with_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("speccli.whole.write", refuse)
    with pytest.raises(UsageError, match=r"cannot write .*: Permission denied") as caught:
        write(tmp_path / "mine.yaml", {"seed": 2})
    assert "`seed: 2`" in caught.value.hint


def test_a_folder_that_is_a_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "speccli").touch()
    with pytest.raises(UsageError, match="Not a directory"):
        write(tmp_path / "speccli" / "config.yaml", {"seed": 2})
