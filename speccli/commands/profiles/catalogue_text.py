"""The list of pairings, for people and for programs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from speccli.hardware import Hardware
from speccli.hardware.shipped import names
from speccli.pairing import catalogue
from speccli.pairing.catalogue import Entry
from speccli.pairing.file import Choice, Speculator, Target

LEGEND = """\
Machines, with a count where there are several devices (h100x2): {machines}.
A figure is the published tokens per step, with what it was measured on: elsewhere, with other k and machines.
After a question mark: what was remembered or taken over by analogy, not read.
`speccli profiles show NAME` explains one.
"""


def as_text(entries: Iterable[Entry], machine: Hardware | None) -> str:
    parts = ["\n".join(_entry(one, machine)) + "\n" for one in entries]
    if not parts:
        return "no pairing has a choice for this machine\n"
    return "\n".join([*parts, LEGEND.format(machines=", ".join(names()))])


def as_builtins(entry: Entry, machine: Hardware | None) -> dict[str, Any]:
    """The whole file, and what would be chosen on the machine."""
    listed = {
        "name": entry.name,
        "path": entry.path,
        "is_users": entry.is_users,
        **msgspec.to_builtins(entry.file),
    }
    if machine is not None:
        found = catalogue.choice_for(entry.file, machine)
        listed["chosen"] = msgspec.to_builtins(found[0]) if found else None
    return listed


def natural(name: str) -> list[tuple[int, float, str]]:
    """Orders qwen3-4b before qwen3-14b."""
    parts = re.findall(r"\d+(?:\.\d+)?|\D+", name)
    return [(0, float(part), "") if part[0].isdigit() else (1, 0.0, part) for part in parts]


def published_in_short(speculator: Speculator) -> str:
    """The first figure: it is the most telling one."""
    if not speculator.published:
        return ""
    first = speculator.published[0]
    data = first.data.partition(",")[0]
    if first.mean_acceptance_length is not None:
        return f"{first.mean_acceptance_length:.2f} on {data}"
    return f"{first.speedup:g} times as fast: {data}"


def size(weight_bytes: int | None) -> str:
    return "size not known" if weight_bytes is None else f"{weight_bytes / 1e9:.1f} GB"


def doubts(unverified: Iterable[str]) -> list[str]:
    """The keys, without the single facts."""
    return list(dict.fromkeys(key.partition(".")[0] for key in unverified))


class _Row(msgspec.Struct, frozen=True):
    name: str
    kind: str
    k: str
    text: str
    doubts: list[str]


def _entry(entry: Entry, machine: Hardware | None) -> list[str]:
    file = entry.file
    whose = "  (yours)" if entry.is_users else ""
    rows = [*(_target(one) for one in file.targets), *(_speculator(one) for one in file.speculators)]
    return [f"{entry.name}  {file.about}{whose}", *_aligned(rows), *_choices(entry, machine)]


def _target(target: Target) -> _Row:
    gated = ", gated" if target.gated else ""
    text = f"{size(target.weight_bytes)}, {target.licence}{gated}"
    return _Row(target.name, target.precision, "", text, doubts(target.unverified))


def _speculator(speculator: Speculator) -> _Row:
    notes = [
        published_in_short(speculator),
        "gated" if speculator.gated else "",
        *map("needs {}".format, speculator.needs),
    ]
    text = ", ".join(note for note in notes if note)
    k = f"k={speculator.num_speculative_tokens}"
    return _Row(f"+ {speculator.name}", speculator.method, k, text, doubts(speculator.unverified))


def _aligned(rows: list[_Row]) -> list[str]:
    name, text = max(24, *(len(row.name) for row in rows)), max(len(row.text) for row in rows)
    lines = []
    for row in rows:
        uncertain = f"? {', '.join(row.doubts)}" if row.doubts else ""
        lines.append(f"  {row.name:<{name}}  {row.kind:<11}  {row.k:<4}  {row.text:<{text}}  {uncertain}".rstrip())
    return lines


def _choices(entry: Entry, machine: Hardware | None) -> list[str]:
    """What is taken where, machines with the same choice on one line."""
    if machine is None:
        named = [(name, choice) for choice in entry.file.choices for name in choice.hardware]
    else:
        found = catalogue.choice_for(entry.file, machine)
        named = [(found[1], found[0])] if found else []
    lines: dict[str, list[str]] = {}
    for name, choice in named:
        lines.setdefault(_choice(choice), []).append(name)
    return [f"  on {', '.join(machines)}: {choice}" for choice, machines in lines.items()]


def _choice(choice: Choice) -> str:
    return f"{choice.target} + {choice.speculator}" + (" (where no target is named)" if choice.is_default else "")
