"""The pairings that are known: those that speccli ships, and the user's own, which come first."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import msgspec

from speccli import paths
from speccli.errors import UsageError
from speccli.hardware import Hardware
from speccli.pairing.file import Choice, Facts, PairingFile, Speculator, Target, checked, machine_named
from speccli.profile import document
from speccli.source import HubSource

AMPERE = (8, 0)

TOLERANCE = 1.02
"""Cards that are sold as the same size differ by this much in memory."""


class Entry(msgspec.Struct, frozen=True):
    """A pairing file under its name."""

    name: str
    path: str
    is_users: bool
    file: PairingFile


class Found(msgspec.Struct, frozen=True):
    """What a name led to: an entry, and one of its variants where the name was that of a variant."""

    entry: Entry
    target: Target | None = None
    revision: str | None = None

    @property
    def full_variant(self) -> Target:
        """The variant that was named, or the first one, which is the one in full precision."""
        return self.target or self.entry.file.targets[0]


def files() -> dict[str, Path]:
    """Every pairing file by its name, the user's own before the shipped ones that they replace."""
    shipped = {file.stem: file for file in document.listed(paths.profiles_dir() / "pairings")}
    users = {document.shown(file.stem): file for file in document.listed(paths.config_dir() / "pairings")}
    return {**users, **{name: file for name, file in shipped.items() if name not in users}}


def entries(mentioning: str = "") -> Iterator[Entry]:
    """Every pairing file, or those whose text holds these words: to decode all of them takes a fifth of a second."""
    for name, file in files().items():
        if mentioning.encode(errors="surrogateescape") in _text(file):
            yield entry(name, file)


def _text(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read {document.shown(file)}: {error.strerror}", "let it be read, or take it out of the folder"
        ) from error


def entry(name: str, file: Path) -> Entry:
    is_users = file.parent == paths.config_dir() / "pairings"
    return Entry(name, document.shown(file), is_users, _decoded(file, is_users, file.stat().st_mtime_ns))


@functools.cache
def _decoded(file: Path, is_users: bool, modified_ns: int) -> PairingFile:  # noqa: ARG001 - a changed file is read again
    if is_users:
        return checked(document.read(file))
    # The tests check what is shipped; leaving that out here halves the time.
    return msgspec.yaml.decode(file.read_bytes(), type=PairingFile)


def find(reference: str) -> Found | None:
    """By the name of a file, then of a variant, then by the hub repository of a variant."""
    known = files()
    if reference in known:
        return Found(entry(reference, known[reference]))
    repo, _, revision = reference.partition("@")
    for one in entries(mentioning=repo):
        for target in one.file.targets:
            if target.name == reference:
                return Found(one, target)
            if isinstance(target.source, HubSource) and target.source.repo == repo:
                return Found(one, target, revision or None)
    return None


def facts_of(speculator: Speculator) -> Facts:
    """Of the speculator's config.json, also where it is a target of its own."""
    found = find(speculator.source) if isinstance(speculator.source, str) else None
    return found.entry.file.facts_of(found.full_variant) if found else speculator.facts


def weight_bytes_of(speculator: Speculator) -> int | None:
    found = find(speculator.source) if isinstance(speculator.source, str) else None
    return found.full_variant.weight_bytes if found else speculator.weight_bytes


def names() -> list[str]:
    """What can be typed as a target."""
    variants = [target.name for one in entries() for target in one.file.targets]
    return sorted({*files(), *variants})


def choice_for(file: PairingFile, hardware: Hardware) -> tuple[Choice, str] | None:
    """The choice for that machine, and the name it is listed under: its own, or the largest that it can stand in for."""
    ranked = [
        (rank, choice, machine)
        for choice in file.choices
        for machine in choice.hardware
        if (rank := _rank(machine, hardware)) is not None
    ]
    if not ranked:
        return None
    _, choice, machine = max(ranked, key=lambda one: one[0])
    return choice, machine


def default_for(hardware: Hardware) -> tuple[Entry, Choice, str] | None:
    """The pairing for that machine where no target is named."""
    ranked = [
        (rank, one, choice, machine)
        for one in entries(mentioning="default")
        for choice in one.file.choices
        if choice.is_default
        for machine in choice.hardware
        if (rank := _rank(machine, hardware)) is not None
    ]
    if not ranked:
        return None
    # The first of equals: a user's default comes before a shipped one.
    _, found, choice, machine = max(ranked, key=lambda one: one[0])
    return found, choice, machine


def _rank(machine: str, hardware: Hardware) -> float | None:
    """How well a machine's choice suits this hardware; None where it does not. Its own choice beats all others."""
    listed = machine_named(machine)
    if listed.kind != hardware.kind:
        return None
    if listed.name == hardware.name and len(listed.devices) == len(hardware.devices):
        return float("inf")
    return float(listed.total_bytes) if _can_stand_in(hardware, listed) else None


def _can_stand_in(hardware: Hardware, listed: Hardware) -> bool:
    """As many devices, each with as much memory, and as able.

    From Ampere on, vLLM runs every precision of a newer GPU, where it must with weights unpacked on the fly.
    """
    if not listed.devices or len(listed.devices) > len(hardware.devices):
        return False
    wanted, given = listed.devices[0], hardware.devices[0]
    able = wanted.compute_capability, given.compute_capability
    if able[0] is not None and able[1] is not None and able[1] < min(able[0], AMPERE):
        return False
    return wanted.total_bytes <= given.total_bytes * TOLERANCE
