"""Converted copies: what `repair` decides, written once into the cache, found there again, and given to the engine.

cache/converted/<name>/   config.json as repaired, weights rewritten or linked, all else linked, and speccli.json last
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec

from speccli.checkpoint import rewrite, workplace
from speccli.checkpoint.inspection import Inspection
from speccli.checkpoint.repair import plan, plan_target, preview
from speccli.checkpoint.repair.place import TRAPS, misread_as
from speccli.checkpoint.repair.remade import Remade
from speccli.checkpoint.workplace import Narrate
from speccli.errors import MachineError

__all__ = ["converted", "folder_of", "needed", "plan", "plan_target", "preview"]

CONVERTER_VERSION = 1
"""Raise it when the output changes: copies made by another version are then made again."""

MANIFEST = "speccli.json"

SPARE_BYTES = 50_000_000

WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".safetensors.index.json", ".bin.index.json")

BESIDE = ("mask_embedding.pt",)
"""Weights that vLLM reads in addition (`models/qwen3_dflash.py`)."""

Seen = dict[str, tuple[int, int]]
"""Size and modification time of files."""


class _Manifest(msgspec.Struct, frozen=True):
    digest: str
    reasons: tuple[str, ...]
    sources: Seen
    files: Seen


def needed(checkpoint: Inspection, target: Inspection, method: str) -> str | None:
    """Why vLLM must not get the speculator as it is; None where it may."""
    remade = plan(checkpoint, target, method)
    return "; ".join(remade.reasons) if remade else None


def folder_of(remade: Remade, key: str, cache: Path, method: str) -> Path:
    """Where the remade checkpoint lies once it is made: a path that leaves the method alone.

    `key` names the source and its revision.
    """
    folder = cache / "converted" / _folder_name(key, _digest(remade, key), method)
    _require_plain_path(folder, method)
    return folder


def converted(checkpoint: Inspection, remade: Remade, key: str, cache: Path, narrate: Narrate, method: str) -> Path:
    """The folder with the remade checkpoint; it is made if missing, stale or damaged."""
    folder, digest, source = folder_of(remade, key, cache, method), _digest(remade, key), Path(str(checkpoint.folder))
    if not _is_whole(folder, digest, source):
        workplace.make(
            folder,
            lambda made: _write(checkpoint, remade, digest, made, narrate),
            is_whole=lambda: _is_whole(folder, digest, source),
            needed_bytes=SPARE_BYTES + rewrite.written_bytes(checkpoint, remade),
            narrate=narrate,
        )
    return folder


def _write(checkpoint: Inspection, remade: Remade, digest: str, made: Path, narrate: Narrate) -> None:
    for reason in remade.reasons:
        narrate(f"converting {checkpoint.name}: {reason}")
    source = Path(str(checkpoint.folder)).resolve()
    rewrite.write_weights(checkpoint, remade, made)
    for name in checkpoint.files:
        is_weight = name.endswith(WEIGHT_SUFFIXES) and name not in BESIDE
        if name not in ("config.json", MANIFEST) and not is_weight:
            (made / name).symlink_to((source / name).resolve())
    (made / "config.json").write_bytes(msgspec.json.format(msgspec.json.encode(remade.config), indent=2) + b"\n")
    manifest = _Manifest(digest, remade.reasons, _seen(source, list(checkpoint.files)), _seen(made))
    (made / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def _is_whole(folder: Path, digest: str, source: Path) -> bool:
    """By sizes and times alone: contents would take too long for each start."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=_Manifest)
        return (
            manifest.digest == digest
            and _seen(source.resolve(), list(manifest.sources)) == manifest.sources
            and _seen(folder, list(manifest.files)) == manifest.files
        )
    except (OSError, msgspec.DecodeError):
        return False


def _seen(folder: Path, names: list[str] | None = None) -> Seen:
    paths = [folder / name for name in names] if names is not None else sorted(folder.iterdir())
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


def _digest(remade: Remade, key: str) -> str:
    what: list[Any] = [CONVERTER_VERSION, key, remade]
    return hashlib.sha256(msgspec.json.encode(what, order="sorted")).hexdigest()


def _folder_name(key: str, digest: str, method: str) -> str:
    """For people to recognise, where that does not mislead vLLM."""
    stem = re.sub(r"[^\w.-]+", "-", key.rstrip("/").rpartition("/")[2])[:40].strip("-.")
    name = f"{stem}-{digest[:12]}"
    return digest[:12] if misread_as(name, method) or not stem else name


def _require_plain_path(folder: Path, method: str) -> None:
    taken = misread_as(str(folder), method)
    if taken is not None:
        raise MachineError(
            f"the cache's path {folder.parent} holds a word from which vLLM concludes that the method is {taken}",
            f"set SPECCLI_CACHE to a folder whose path holds none of {', '.join(TRAPS)}",
        )
