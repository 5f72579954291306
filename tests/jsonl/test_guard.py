"""What a run must not write to, and which files are its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from speccli import jsonl
from speccli.errors import UsageError
from tests.jsonl.example import no_entry

LINE = '{"prompt": "a"}\n'


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "in.jsonl"
    file.write_text(LINE)
    return file


def check(*outputs: Path | None, inputs: tuple[str, ...] = ()) -> None:
    jsonl.check_outputs(outputs, jsonl.find_inputs(inputs))


def test_one_file_under_two_names_is_refused_as_two_outputs(tmp_path: Path) -> None:
    first, second = tmp_path / "out", tmp_path / "errors"
    first.touch()
    os.link(first, second)
    with pytest.raises(UsageError, match="errors is named for two outputs"):
        check(first, second)
    second.unlink()
    second.symlink_to(tmp_path / "new")
    with pytest.raises(UsageError, match="is named for two outputs"):
        check(tmp_path / "new", second)


def test_the_file_of_the_run_lies_beside_what_a_link_leads_to(tmp_path: Path, source: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real" / "answers")
    foreign = tmp_path / "real" / "answers.run.json"
    foreign.write_text(LINE)
    with pytest.raises(UsageError, match="is the input itself"):
        check(tmp_path / "out", inputs=(str(foreign),))
    check(tmp_path / "out", inputs=(str(source),))


def test_a_device_may_take_several_outputs() -> None:
    check(Path("/dev/null"), Path("/dev/null"))


@pytest.mark.parametrize(
    ("redirect", "sources", "output", "said"),
    [
        ("< in.jsonl", "-", "in.jsonl", "in.jsonl is the input itself"),
        ("< in.jsonl >> in.jsonl", "-", None, "stdout is the input itself"),
        (">> in.jsonl", "in.jsonl", None, "stdout is the input itself"),
        (">> e.jsonl", "in.jsonl", "E", "stdout is named for two outputs"),
        ("< in.jsonl", "-", "other.jsonl", ""),
        ("< in.jsonl > other.jsonl", "-", None, ""),
        ("< /dev/null > /dev/null", "-", None, ""),
        ("<&-", "in.jsonl", "other.jsonl", ""),
    ],
)
def test_stdin_and_stdout_are_known_for_the_files_that_they_are(
    tmp_path: Path, source: Path, redirect: str, sources: str, output: str | None, said: str
) -> None:
    outputs = "(None, Path('e.jsonl'))" if output == "E" else f"({f'Path({output!r})' if output else None},)"
    code = (
        "import sys; from pathlib import Path; from speccli import jsonl; from speccli.errors import UsageError\n"
        f"try: jsonl.check_outputs({outputs}, jsonl.find_inputs([{sources!r}]), to_stdout={output in (None, 'E')})\n"
        "except UsageError as error: sys.stderr.write(error.message)"
    )
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {redirect}', sys.executable, code], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert done.stderr == said
    assert source.read_text() == LINE


def test_a_place_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    for path, said in [
        (tmp_path, "it is a folder"),
        (Path(), "it is a folder"),
        (Path("/"), "it is a folder"),
        (tmp_path / ("x" * 300), "File name too long"),
        (tmp_path / ("x" * 250), r"\.run\.json: File name too long"),
        (tmp_path / "loop", "Too many levels of symbolic links"),
        (tmp_path / "file" / "out", "Not a directory"),
        (tmp_path / "no" / "out", "its folder does not exist"),
    ]:
        with pytest.raises(UsageError, match=f"cannot write .*{said}"):
            check(path)


def test_a_socket_is_no_output(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        with pytest.raises(UsageError, match=r"cannot write .*socket: it is a socket"):
            check(tmp_path / "socket")


@pytest.mark.parametrize("place", range(3))
def test_an_output_in_a_folder_that_may_not_be_entered_is_one_message(tmp_path: Path, place: int) -> None:
    outputs = [None, None, None]
    outputs[place] = tmp_path / "out"  # type: ignore[call-overload]
    with no_entry(tmp_path), pytest.raises(UsageError, match=r"cannot write .*out: Permission denied"):
        check(*outputs)


def test_an_output_in_a_folder_that_may_only_be_read_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(UsageError, match=r"cannot write .*out: you may not"):
        check(tmp_path / "out")


class TestPatterns:
    def matched(self, folder: Path, output: Path, errors: Path | None = None) -> list[str]:
        own = jsonl.written_before(output, errors)
        return [Path(one.name).name for one in jsonl.find_inputs([str(folder / "*")], own)]

    def test_an_output_that_tells_of_no_run_is_matched(self, tmp_path: Path, source: Path) -> None:
        (tmp_path / "out").write_text(LINE)
        (tmp_path / "out.run.json").write_text("{}")
        assert self.matched(tmp_path, tmp_path / "out") == ["in.jsonl", "out", "out.run.json"]

    def test_a_file_that_was_opened_and_not_written_is_not(self, tmp_path: Path, source: Path) -> None:
        (tmp_path / "out").touch()
        (tmp_path / "errors").touch()
        assert self.matched(tmp_path, tmp_path / "out", tmp_path / "errors") == ["in.jsonl"]
