"""A file is written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from speccli import whole


def test_the_new_content_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"old")
    whole.write(file, b"new", 0o640)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o640)
    assert list(tmp_path.iterdir()) == [file]


def test_what_cannot_be_put_in_place_leaves_nothing_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "a.json"
    folder.mkdir()
    with pytest.raises(OSError, match="directory"):
        whole.write(folder, b"new")
    assert (list(tmp_path.iterdir()), folder.is_dir()) == ([folder], True)


def test_a_link_stays_one_and_a_device_stays_a_device(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    whole.write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is no regular file"):
        whole.write(tmp_path / "pipe", b"new")
    assert (tmp_path / "pipe").is_fifo()
