"""The target half of a pairing: the one that was asked for, or the one that suits the machine."""

from __future__ import annotations

import difflib
from pathlib import Path

import msgspec

from speccli import paths
from speccli.errors import UsageError
from speccli.hardware import Hardware
from speccli.pairing import catalogue
from speccli.pairing.catalogue import Entry
from speccli.pairing.decision import Decision
from speccli.pairing.file import Choice, Speculator, Target
from speccli.profile import Layer, Profile
from speccli.profile.document import shown
from speccli.source import FolderSource, HubSource, Source

DEFAULT_TARGET = "smollm2-135m"
"""Runs where no pairing is meant for the machine."""

SHARE_FOR_WEIGHTS = 0.8
"""Of the memory; the rest is left to the KV cache and the engine."""


class ChosenTarget(msgspec.Struct, frozen=True):
    """A target, and what its pairing file says for this machine, where it is from one."""

    name: str
    source: Source
    decision: Decision
    entry: Entry | None = None
    variant: Target | None = None
    choice: Choice | None = None
    machine: str = ""
    """The name that the choice is listed under."""

    @property
    def origin(self) -> str:
        """Where its choices are from, in words."""
        return _origin(self.entry, self.machine) if self.entry else ""

    @property
    def offered(self) -> list[Speculator]:
        """The speculators that go with the variant, the machine's own first."""
        if self.entry is None or self.variant is None:
            return []
        preferred = self.choice.speculator if self.choice else None
        mine = [one for one in self.entry.file.speculators if one.goes_with(self.variant.name)]
        return sorted(mine, key=lambda one: one.name != preferred)

    @property
    def layers(self) -> list[Layer]:
        """What the file sets: for this machine, where its own variant was taken, and for every machine."""
        if self.entry is None or self.variant is None:
            return []
        layers = [Layer(self.entry.file.settings, f"pairing {self.entry.name}")]
        if self.choice is not None and self.choice.target == self.variant.name:
            layers.insert(0, Layer(self.choice.settings, self.origin))
        return layers


def choose(profile: Profile, hardware: Hardware) -> ChosenTarget:
    asked = profile.settings.target
    if asked is not None:
        return _asked(asked, profile.sources["target"], hardware)
    default = catalogue.default_for(hardware)
    if default is None:
        return _asked(DEFAULT_TARGET, f"no pairing is meant for {hardware.name}", hardware)
    entry, choice, machine = default
    return _from_file(entry, choice, machine, f"default for {machine}", hardware)


def source_of(reference: str) -> Source:
    """Where a target or speculator that was named lies: a shipped target, a folder, or a hub repository."""
    found = catalogue.find(reference)
    if found is not None:
        return _revised(found.full_variant.source, found.revision)
    folder = Path(reference).expanduser()
    if paths.is_there(str(folder)):
        whole = str(folder.resolve())
        if shown(whole) != whole:
            raise UsageError(f"the path of {reference} is not in UTF-8: {shown(whole)!r}", "rename the folder in UTF-8")
        return FolderSource(whole)
    repo, _, revision = reference.partition("@")
    parts = repo.split("/")
    if len(parts) == 2 and all(parts) and parts[0] not in (".", "..", "~") and len(reference.split()) == 1:
        return HubSource(repo, revision or None)
    nearest = difflib.get_close_matches(reference, catalogue.names(), 1)
    hint = (
        f"did you mean `{nearest[0]}`?"
        if nearest
        else "name one that `speccli profiles list` shows, a folder, or ORG/NAME on the hub"
    )
    raise UsageError(f"no checkpoint is called {reference!r}", hint)


def _asked(asked: str, source: str, hardware: Hardware) -> ChosenTarget:
    found = catalogue.find(asked)
    if found is None:
        return ChosenTarget(asked, source_of(asked), Decision("target", asked, "asked for", source))
    choice, machine = catalogue.choice_for(found.entry.file, hardware) or (None, "")
    if found.target is None:
        if len(found.entry.file.targets) > 1:
            source = f"{source}; {_origin(found.entry, machine)}"
        return _from_file(found.entry, choice, machine, source, hardware)
    return ChosenTarget(
        name=found.target.name,
        source=_revised(found.target.source, found.revision),
        decision=Decision("target", found.target.name, "asked for", source),
        entry=found.entry,
        variant=found.target,
        choice=choice,
        machine=machine,
    )


def _from_file(entry: Entry, choice: Choice | None, machine: str, source: str, hardware: Hardware) -> ChosenTarget:
    """The variant of a file that suits this machine."""
    if choice is None:
        variant = _first_that_fits(entry.file.targets, hardware)
        reason = f"{entry.name} has no choice for {hardware.name}: this is its first variant whose weights fit"
    else:
        variant = entry.file.target(choice.target)
        reason = choice.target_reason + _stand_in(machine, hardware)
    decision = Decision("target", variant.name, reason, source)
    return ChosenTarget(variant.name, variant.source, decision, entry, variant, choice, machine)


def _origin(entry: Entry, machine: str) -> str:
    return f"pairing {entry.name} for {machine}" if machine else f"pairing {entry.name}"


def _stand_in(machine: str, hardware: Hardware) -> str:
    count = len(hardware.devices)
    own = f"{hardware.name}x{count}" if count > 1 else hardware.name
    return "" if machine in (own, f"{own}x1") else f" (listed for {machine}, which {own} can stand in for)"


def _first_that_fits(variants: tuple[Target, ...], hardware: Hardware) -> Target:
    room_bytes = hardware.total_bytes * SHARE_FOR_WEIGHTS
    return next((one for one in variants if (one.weight_bytes or 0) <= room_bytes), variants[-1])


def _revised(source: Source, revision: str | None) -> Source:
    return HubSource(source.repo, revision) if revision and isinstance(source, HubSource) else source
