"""Input files as lines."""

from __future__ import annotations

import gzip
import importlib.util
import io
import os
import socket
import threading
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from speccli import jsonl
from speccli.errors import UsageError
from speccli.jsonl import inputs
from tests.jsonl.example import no_entry


def numbered(*names: Path | str, stdin: bytes = b"") -> list[tuple[str, int, bytes]]:
    found = jsonl.find_inputs([str(name) for name in names])
    return [(Path(line.name).name, line.number, line.text) for line in jsonl.lines(found, io.BytesIO(stdin))]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"prompt": "one"}\n\n{"prompt": "two"}')
    return file


EXPECTED = [("a.jsonl", 1, b'{"prompt": "one"}'), ("a.jsonl", 3, b'{"prompt": "two"}')]


def test_blank_lines_are_passed_over_and_counted(plain: Path) -> None:
    assert numbered(plain) == EXPECTED


def test_stdin_is_called_stdin(plain: Path) -> None:
    assert numbered("-", stdin=plain.read_bytes()) == [("stdin", number, text) for _, number, text in EXPECTED]


def test_a_byte_order_mark_and_carriage_returns_are_taken_off(tmp_path: Path) -> None:
    file = tmp_path / "windows.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\r\n{"prompt": "b"}\r\n')
    assert [text for _, _, text in numbered(file)] == [b'{"prompt": "a"}', b'{"prompt": "b"}']


def test_gzip_is_known_by_its_first_bytes(plain: Path) -> None:
    packed = gzip.compress(plain.read_bytes())
    plain.write_bytes(packed)
    assert numbered(plain) == EXPECTED
    assert numbered("-", stdin=packed) == [("stdin", number, text) for _, number, text in EXPECTED]


def zstd_stored(content: bytes) -> bytes:
    """A Zstandard frame of one raw block, as RFC 8878 has it: magic, header (single segment, 4-byte size), block header, bytes."""
    header = b"\x28\xb5\x2f\xfd" + b"\xa0" + len(content).to_bytes(4, "little")
    return header + ((len(content) << 3) | 1).to_bytes(3, "little") + content


def test_zstandard_is_read_or_said_how_to_unpack(plain: Path) -> None:
    content = plain.read_bytes()
    plain.write_bytes(zstd_stored(content))
    if any(_has(name) for name in inputs.ZSTD_MODULES):
        assert numbered(plain) == EXPECTED
    else:
        with pytest.raises(UsageError, match="packed with Zstandard") as caught:
            numbered(plain)
        assert f"zstd -d {plain}" in caught.value.hint


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def test_a_damaged_packed_file_is_one_fault_and_the_next_file_is_read(tmp_path: Path, plain: Path) -> None:
    damaged = tmp_path / "0.gz"
    damaged.write_bytes(gzip.compress(b'{"prompt": "zero"}\n' * 1000)[:-20])
    found = list(jsonl.lines(jsonl.find_inputs([str(damaged), str(plain)]), io.BytesIO()))
    faults = [line for line in found if line.fault]
    assert [line.name for line in faults] == [str(damaged)]
    assert "cannot be read any further" in (faults[0].fault or "")
    assert [line.text for line in found[-2:]] == [text for _, _, text in EXPECTED]


def test_utf_16_is_named_with_its_cure(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes('{"prompt": "a"}\n'.encode("utf-16"))
    with pytest.raises(UsageError, match="is UTF-16 text") as caught:
        numbered(file)
    assert "iconv -f UTF-16 -t UTF-8" in caught.value.hint


def test_a_huge_line_is_a_fault_that_fills_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_LINE_BYTES", 2**20)
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"x" * 3_000_000 + b'\n{"prompt": "after"}\n' + b"y" * 2**20)
    found = list(jsonl.lines(jsonl.find_inputs([str(file)]), io.BytesIO()))
    assert [(line.number, line.fault) for line in found] == [
        (1, "the line is longer than 1 MiB"), (2, None), (3, "the line is longer than 1 MiB"),
    ]  # fmt: skip
    assert found[1].text == b'{"prompt": "after"}'


def test_a_pattern_is_filled_in_in_order(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "c.txt"):
        (tmp_path / name).write_text('{"prompt": "x"}\n')
    assert [name for name, _, _ in numbered(tmp_path / "*.jsonl")] == ["a.jsonl", "b.jsonl"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "[1].jsonl").write_text('{"prompt": "x"}\n')
    (tmp_path / "1.jsonl").write_text("")
    assert [name for name, _, _ in numbered(tmp_path / "[1].jsonl")] == ["[1].jsonl"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["nowhere.jsonl"], r"cannot read nowhere\.jsonl: No such file"),
        (["nowhere-*.jsonl"], "no file matches nowhere-"),
        (["."], "cannot read .: Is a directory"),
        (["-", "-"], "stdin is named twice"),
    ],
)
def test_what_cannot_be_read_is_named(names: Sequence[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        jsonl.find_inputs(names)


def test_the_same_file_under_two_names_is_refused(tmp_path: Path, plain: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(plain)
    os.link(plain, tmp_path / "hard.jsonl")
    for other in ("link.jsonl", "hard.jsonl"):
        with pytest.raises(UsageError, match=f"{other} is named twice, also as .*a.jsonl"):
            jsonl.find_inputs([str(plain), str(tmp_path / other)])


def test_lines_are_counted_where_they_can_be(tmp_path: Path, plain: Path) -> None:
    assert jsonl.count_lines(jsonl.find_inputs([str(plain)])) == 2
    assert jsonl.count_lines(jsonl.find_inputs([str(plain), "-"])) is None


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_bytes(b'{"prompt": "a"}\n'), daemon=True).start()
    found = jsonl.find_inputs([str(pipe)])
    assert found[0].is_stream
    assert jsonl.count_lines(found) is None
    assert [line.text for line in jsonl.lines(found, io.BytesIO())] == [b'{"prompt": "a"}']


def test_a_name_that_is_no_utf_8_is_told_as_well_as_it_can_be(tmp_path: Path) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))
    file.write_bytes(b'{"prompt": "a"}\n')
    [line] = jsonl.lines(jsonl.find_inputs([str(file)]), io.BytesIO())
    assert line.name == f"{tmp_path}/\ufffd.jsonl"


def test_every_line_may_begin_with_a_byte_order_mark_as_files_put_together_have_it(tmp_path: Path) -> None:
    file = tmp_path / "both.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\n\xef\xbb\xbf{"prompt": "b"}\n\xef\xbb\xbf\n')
    assert [text for _, _, text in numbered(file)] == [b'{"prompt": "a"}', b'{"prompt": "b"}']
    assert jsonl.count_lines(jsonl.find_inputs([str(file)])) == 2


@pytest.mark.parametrize("named", ["the file", "a pattern"])
def test_what_no_line_can_be_read_from_is_refused_when_it_is_named(tmp_path: Path, plain: Path, named: str) -> None:
    file = tmp_path / "b.jsonl"
    file.write_bytes('{"prompt": "a"}\n'.encode("utf-16"))
    with pytest.raises(UsageError, match=r"b\.jsonl is UTF-16 text"):
        jsonl.find_inputs([str(plain), str(file)] if named == "the file" else [str(tmp_path / "*.jsonl")])


def test_a_socket_is_refused_when_it_is_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        with pytest.raises(UsageError, match=r"cannot read .*socket: "):
            jsonl.find_inputs([str(tmp_path / "socket")])


def test_a_huge_line_is_counted_without_being_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_LINE_BYTES", 2**20)
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"x" * 50_000_000 + b'\n\n{"prompt": "after"}\n')
    found = jsonl.find_inputs([str(file)])
    tracemalloc.start()
    assert jsonl.count_lines(found) == 2
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000


def test_two_inputs_whose_names_read_the_same_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stdin").write_text('{"prompt": "a"}\n')
    with pytest.raises(UsageError, match="two inputs are called stdin"):
        jsonl.find_inputs(["-", "stdin"])
    jsonl.find_inputs(["-", "./stdin"])


def test_a_name_that_no_file_can_have_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="File name too long"):
        jsonl.find_inputs(["x" * 300])
    with pytest.raises(UsageError, match="no file matches"):
        jsonl.find_inputs(["x" * 300 + "*"])
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match=r"cannot read .*loop: Too many levels"):
        jsonl.find_inputs([str(tmp_path / "loop")])


def test_a_folder_that_may_not_be_entered_is_one_message(tmp_path: Path, plain: Path) -> None:
    with no_entry(tmp_path), pytest.raises(UsageError, match=r"cannot read .*a\.jsonl: Permission denied"):
        jsonl.find_inputs([str(plain)])


def test_a_stream_that_fails_at_once_is_one_message() -> None:
    class Broken(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, _: object) -> int:
            raise OSError(5, "Input/output error")

    with pytest.raises(UsageError, match="cannot read stdin: Input/output error"):
        list(jsonl.lines(jsonl.find_inputs(["-"]), io.BufferedReader(Broken())))
