"""What a pairing means on a machine: each choice with its reason and source, and what else there is."""

from __future__ import annotations

import shutil
import textwrap
from typing import Any

import msgspec

from speccli.commands.profiles.catalogue_text import doubts, published_in_short, size
from speccli.commands.profiles.serve import place_of, serve_command
from speccli.hardware import Hardware
from speccli.pairing import Decision, Pairing, catalogue
from speccli.pairing.file import Published, Speculator, Target
from speccli.profile import KEYS, PAIRING_KEYS, Profile

WIDEST = 100

GATED = "gated: accept the licence on the repository's page, then `hf auth login`"


class Setting(msgspec.Struct, frozen=True):
    key: str
    value: Any
    source: str


class Alternative(msgspec.Struct, frozen=True):
    """What the pairing file has besides, and what to type for it."""

    option: str
    what: str


class Explanation(msgspec.Struct, frozen=True):
    """All that is said of a pairing on a machine."""

    about: str
    machine: str
    pairing: Pairing
    settings: tuple[Setting, ...]
    alternatives: tuple[Alternative, ...]
    command: str

    @property
    def unverified(self) -> dict[str, tuple[str, ...]]:
        """Keys of the pairing file, by the part that they belong to."""
        parts = {
            "the target's facts": self.pairing.entry.file if self.pairing.entry else None,
            self.pairing.target: self.pairing.variant,
            self.pairing.speculator or "speculator": self.pairing.listed,
        }
        return {name: part.unverified for name, part in parts.items() if part is not None and part.unverified}


def explain(profile: Profile, pairing: Pairing, machine: Hardware) -> Explanation:
    count = len(machine.devices)
    name = f"{machine.name}x{count}" if count > 1 else machine.name
    return Explanation(
        about=pairing.entry.file.about if pairing.entry else "no pairing file describes this target",
        machine=name,
        pairing=pairing,
        settings=tuple(_settings(profile)),
        alternatives=tuple(_alternatives(pairing, name)),
        command=serve_command(pairing, profile.settings, machine),
    )


def as_builtins(explained: Explanation) -> dict[str, Any]:
    pairing = explained.pairing
    return {
        "about": explained.about,
        "hardware": explained.machine,
        "target": pairing.target,
        "method": pairing.method,
        "num_speculative_tokens": pairing.num_speculative_tokens,
        "speculator": pairing.speculator,
        "decisions": msgspec.to_builtins(pairing.decisions),
        "target_details": msgspec.to_builtins(pairing.variant),
        "speculator_details": msgspec.to_builtins(pairing.listed),
        "target_facts": pairing.target_facts,
        "speculator_facts": pairing.speculator_facts,
        "settings": msgspec.to_builtins(explained.settings),
        "alternatives": msgspec.to_builtins(explained.alternatives),
        "unverified": explained.unverified,
        "command": explained.command,
    }


def as_text(explained: Explanation) -> str:
    pairing = explained.pairing
    lines = [f"{pairing.target} on {explained.machine}", *_wrapped(explained.about, 0), ""]
    reason = ""
    for decision in pairing.decisions:
        lines += _decision(decision, pairing, is_told=decision.reason == reason)
        reason = decision.reason
    if pairing.listed is not None and pairing.speculator_source is None:
        lines += [*_of_speculator(pairing.listed), ""]
    lines += ["Settings", *(_row(one.key, _short(one.value), one.source) for one in explained.settings), ""]
    if explained.alternatives:
        lines += ["Instead", *(f"  {one.option:<34}{one.what}" for one in explained.alternatives), ""]
    if explained.unverified:
        lines += ["Unverified: remembered or taken over by analogy, not read"]
        lines += [f"  {part}: {', '.join(doubts(keys))}" for part, keys in explained.unverified.items()] + [""]
    return (
        "\n".join([*lines, "As a server of vLLM's own", *(f"  {line}" for line in explained.command.split("\n"))])
        + "\n"
    )


def _decision(decision: Decision, pairing: Pairing, is_told: bool) -> list[str]:
    """Without the reason where it has just been told."""
    title = "k" if decision.what == "num_speculative_tokens" else decision.what
    lines = [f"{title:<12}{decision.value}"]
    lines += [] if is_told else _wrapped(f"{decision.reason}  [{decision.source}]", 12)
    if decision.what == "target" and pairing.variant is not None:
        lines += _of_target(pairing.variant)
    if decision.what == "speculator" and pairing.listed is not None:
        lines += _of_speculator(pairing.listed)
    return [*lines, ""]


def _of_target(target: Target) -> list[str]:
    facts = [place_of(target.source), target.precision, size(target.weight_bytes), f"licence {target.licence}"]
    lines = _wrapped(", ".join(facts if target.gated else [*facts, "not gated"]), 12)
    lines += _wrapped(GATED, 12) if target.gated else []
    return [*lines, *(_wrapped(f"note: {target.note}", 12) if target.note else [])]


def _of_speculator(speculator: Speculator) -> list[str]:
    weights = catalogue.weight_bytes_of(speculator)
    facts = [f"adds {size(weights)}"] if weights else []
    facts += [f"licence {speculator.licence}"] if speculator.licence else []
    facts += [f"needs `pip install {package}`" for package in speculator.needs]
    lines = _wrapped(", ".join(facts), 12) if facts else []
    lines += _wrapped(GATED, 12) if speculator.gated else []
    lines += [line for one in speculator.published for line in _wrapped(f"published: {_published(one)}", 12)]
    lines += _wrapped(f"note: {speculator.note}", 12) if speculator.note else []
    return lines


def _published(one: Published) -> str:
    figures = []
    if one.mean_acceptance_length is not None:
        figures.append(f"{one.mean_acceptance_length:.2f} tokens a step")
    if one.speedup is not None:
        figures.append(f"{one.speedup:g} times as fast")
    k = "" if one.num_speculative_tokens is None else f" at k={one.num_speculative_tokens}"
    return f"{', '.join(figures)}{k}, {one.data} ({one.source})"


def _settings(profile: Profile) -> list[Setting]:
    found = []
    for key in KEYS:
        value = getattr(profile.settings, key)
        if key == "engine":
            found += [Setting(f"engine.{k}", v, profile.sources[f"engine.{k}"]) for k, v in (value or {}).items()]
        elif value is not None and key not in PAIRING_KEYS:
            found.append(Setting(key, value, profile.sources[key]))
    return found


def _alternatives(pairing: Pairing, machine: str) -> list[Alternative]:
    if pairing.entry is None or pairing.variant is None:
        return []
    file = pairing.entry.file
    listed = pairing.listed.name if pairing.listed else None
    found = [
        Alternative(f"--target {one.name}", _variant(one)) for one in file.targets if one.name != pairing.variant.name
    ]
    for one in file.speculators:
        if one.goes_with(pairing.variant.name) and one.name != listed:
            found.append(Alternative(f"--speculator {one.name}", _way(one)))
    others = [name for choice in file.choices for name in choice.hardware if name != machine]
    if others:
        found.append(Alternative("--hardware NAME", f"has a choice for {', '.join(dict.fromkeys(others))} too"))
    return [*found, Alternative("--no-spec", "plain decoding")]


def _variant(target: Target) -> str:
    return f"{target.precision}, {size(target.weight_bytes)}{', gated' if target.gated else ''}"


def _way(speculator: Speculator) -> str:
    published = published_in_short(speculator)
    return f"{speculator.method}, k={speculator.num_speculative_tokens}" + (f", {published}" if published else "")


def _row(key: str, value: str, source: str) -> str:
    return f"  {key:<28}{value:<20}  [{source}]"


def _short(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _wrapped(text: str, indent: int) -> list[str]:
    """Paths and options stay whole, so that they can be copied."""
    width = max(40, min(WIDEST, shutil.get_terminal_size().columns) - indent)
    wrapped = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return [" " * indent + line for line in wrapped]
