"""Pairing: which target, which way to speculate, which speculator, how many tokens, and why."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import msgspec

from speccli import paths
from speccli.errors import UsageError
from speccli.hardware import Hardware
from speccli.profile import DEFAULTS, Layer, Method, Profile, Settings, read
from speccli.source import FolderSource, HubSource, Source

NEEDS_SPECULATOR: frozenset[Method] = frozenset({"draft_model"})

DEFAULT_TARGET = "smollm2-135m"

MAX_SPECULATIVE_TOKENS = 128
"""vLLM's rejection sampler takes no more in one step (`vllm/v1/sample/rejection_sampler.py`)."""


class Speculator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to speculate for a target, as a shipped profile offers it."""

    method: Method
    num_speculative_tokens: int
    reason: str
    checkpoint: str | None = None
    """A shipped target's name, a hub repository or a folder; None where the method needs no checkpoint."""
    config: dict[str, Any] = {}
    """Further keys of vLLM's speculative_config."""


class PairingFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of profiles/pairings: a target, and its speculators, the preferred one first."""

    about: str
    target: Source
    licence: str
    speculators: list[Speculator]
    settings: Settings = Settings()


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

    @property
    def is_speculative(self) -> bool:
        return self.method != "none"


def shipped_names() -> list[str]:
    return sorted(file.stem for file in (paths.profiles_dir() / "pairings").glob("*.yaml"))


def shipped(name: str) -> PairingFile | None:
    """The shipped pairing of that name, if there is one."""
    return read(paths.profiles_dir() / "pairings" / f"{name}.yaml", PairingFile) if name in shipped_names() else None


def resolve(profile: Profile, hardware: Hardware) -> tuple[Profile, Pairing]:
    """Choose, and complete the profile with what the shipped pairing and hardware profiles say."""
    name = profile.settings.target or DEFAULT_TARGET
    file = shipped(name)
    layers = [
        Layer(msgspec.convert(hardware.settings, Settings), f"hardware {hardware.name}"),
        Layer(DEFAULTS, "default"),
    ]
    if file is not None:
        layers.insert(0, Layer(file.settings, f"pairing {name}"))
    profile = profile.over(*layers)
    source = file.target if file is not None else source_of(name)
    offered = file.speculators if file is not None else []
    return profile, _choose(profile, name, source, offered)


def source_of(reference: str) -> Source:
    """Where a target or speculator that was named lies: a shipped target, a folder, or a hub repository."""
    file = shipped(reference)
    if file is not None:
        return file.target
    folder = Path(reference).expanduser()
    if folder.exists():
        return FolderSource(str(folder.resolve()))
    parts = reference.split("/")
    if len(parts) == 2 and all(parts) and parts[0] not in (".", "..", "~"):
        repo, _, revision = reference.partition("@")
        return HubSource(repo, revision or None)
    nearest = difflib.get_close_matches(reference, shipped_names(), 1)
    hint = (
        f"did you mean `{nearest[0]}`?"
        if nearest
        else f"shipped: {', '.join(shipped_names())}; or a folder, or ORG/NAME on the hub"
    )
    raise UsageError(f"no checkpoint is called {reference!r}", hint)


def _choose(profile: Profile, target: str, source: Source, offered: list[Speculator]) -> Pairing:
    settings = profile.settings
    method = settings.method
    if method == "none":
        return Pairing(target, source, "none", 0, f"plain decoding ({profile.sources['method']})")
    chosen = next((one for one in offered if method in (None, one.method)), None)
    if chosen is None:
        chosen = _unlisted(method or "ngram", target)
    speculator = settings.speculator or chosen.checkpoint
    if chosen.method in NEEDS_SPECULATOR and speculator is None:
        raise UsageError(
            f"method {chosen.method} needs a speculator",
            "name one with --speculator: a shipped target, a folder, or ORG/NAME on the hub",
        )
    if chosen.method not in NEEDS_SPECULATOR and settings.speculator is not None:
        raise UsageError(
            f"method {chosen.method} takes no speculator, but {settings.speculator!r} is named",
            "leave out --speculator, or choose --method draft_model",
        )
    k = (
        settings.num_speculative_tokens
        if settings.num_speculative_tokens is not None
        else chosen.num_speculative_tokens
    )
    if not 1 <= k <= MAX_SPECULATIVE_TOKENS:
        raise UsageError(
            f"num_speculative_tokens is {k}", f"choose 1 to {MAX_SPECULATIVE_TOKENS}, or --no-spec for plain decoding"
        )
    return Pairing(
        target=target,
        target_source=source,
        method=chosen.method,
        num_speculative_tokens=k,
        reason=chosen.reason,
        speculator=speculator if chosen.method in NEEDS_SPECULATOR else None,
        speculator_source=source_of(speculator) if speculator and chosen.method in NEEDS_SPECULATOR else None,
        config=chosen.config,
    )


def _unlisted(method: Method, target: str) -> Speculator:
    """For a target that no shipped profile pairs with this method."""
    reasons = {
        "ngram": f"no profile pairs {target}: n-gram look-up needs no checkpoint",
        "draft_model": f"no profile pairs {target} with a draft model: 3 tokens are a cautious start",
    }
    return Speculator(method, {"ngram": 4, "draft_model": 3}[method], reasons[method])
