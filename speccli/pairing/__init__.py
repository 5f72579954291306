"""Pairing: which target, which way to speculate, which speculator, how many tokens, and why."""

from __future__ import annotations

from typing import Any

import msgspec

from speccli.hardware import Hardware
from speccli.pairing import catalogue, speculation, target
from speccli.pairing.catalogue import Entry
from speccli.pairing.decision import Decision
from speccli.pairing.file import (
    MAX_SPECULATIVE_TOKENS,
    NEEDS_SPECULATOR,
    TAKES_SPECULATOR,
    Facts,
    Speculator,
    Target,
)
from speccli.pairing.target import DEFAULT_TARGET, source_of
from speccli.profile import DEFAULTS, Layer, Method, Profile, Settings
from speccli.source import Source

__all__ = [
    "DEFAULT_TARGET",
    "MAX_SPECULATIVE_TOKENS",
    "NEEDS_SPECULATOR",
    "TAKES_SPECULATOR",
    "Decision",
    "Facts",
    "Pairing",
    "resolve",
    "source_of",
]


class Pairing(msgspec.Struct, frozen=True):
    """The resolved choice. `method` is always told to vLLM, whose own guess goes by the path's name."""

    target: str
    target_source: Source
    method: Method
    num_speculative_tokens: int
    reason: str
    speculator: str | None = None
    speculator_source: Source | None = None
    config: dict[str, Any] = {}
    """Further keys of vLLM's speculative_config."""
    decisions: tuple[Decision, ...] = ()
    """Each choice with its reason and its source."""
    entry: Entry | None = None
    """The pairing file that the target is from."""
    variant: Target | None = None
    """The target as that file describes it."""
    listed: Speculator | None = None
    """The speculator as that file describes it."""

    @property
    def is_speculative(self) -> bool:
        return self.method != "none"

    @property
    def how(self) -> str:
        """The way to decode, for people."""
        return f"{self.method}, k={self.num_speculative_tokens}" if self.is_speculative else "plain decoding"

    @property
    def target_facts(self) -> Facts:
        """Of the target's config.json; empty where no pairing file tells."""
        return self.entry.file.facts_of(self.variant) if self.entry and self.variant else {}

    @property
    def speculator_facts(self) -> Facts:
        """Of the speculator's config.json; empty where it has none, or no pairing file tells."""
        return catalogue.facts_of(self.listed) if self.listed else {}

    @property
    def speculator_weight_bytes(self) -> int | None:
        """What it adds to the target's weights, where a pairing file tells."""
        return catalogue.weight_bytes_of(self.listed) if self.listed else None


def resolve(profile: Profile, hardware: Hardware, in_flight: int = 1) -> tuple[Profile, Pairing]:
    """Choose, and complete the profile with what the pairing and hardware profiles say.

    `in_flight`: the requests that there are at a time. At most `max_num_seqs` of them share a step.
    """
    chosen = target.choose(profile, hardware)
    profile = profile.over(
        *chosen.layers,
        Layer(msgspec.convert(hardware.settings, Settings), f"hardware {hardware.name}"),
        Layer(DEFAULTS, "default"),
    )
    batch_size = min(in_flight, profile.settings.max_num_seqs or in_flight)
    speculated = speculation.choose(profile, chosen, hardware, batch_size)
    return profile, Pairing(
        target=chosen.name,
        target_source=chosen.source,
        method=speculated.method,
        num_speculative_tokens=speculated.num_speculative_tokens,
        reason=speculated.reason,
        speculator=speculated.speculator,
        speculator_source=speculated.source,
        config=speculated.config,
        decisions=(chosen.decision, *speculated.decisions),
        entry=chosen.entry,
        variant=chosen.variant,
        listed=speculated.listed,
    )
