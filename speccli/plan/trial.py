"""Trial: what a change of settings, or of the pairing, would do; the pairing is planned again for it."""

from __future__ import annotations

from typing import Any

import msgspec

from speccli.checkpoint import Checkpoints
from speccli.errors import SpeccliError
from speccli.hardware import Hardware
from speccli.hardware.shipped import named
from speccli.pairing import Pairing, resolve
from speccli.plan import known
from speccli.plan.context import own_context
from speccli.plan.estimate import Estimate, Verdict, of_run
from speccli.plan.sizes import sizes_of
from speccli.profile import PAIRING_KEYS, Profile, Settings

OPTIONS = {
    "target": "--target",
    "method": "--method",
    "speculator": "--speculator",
    "num_speculative_tokens": "-k",
    "hardware": "--hardware",
    "max_model_len": "--max-model-len",
    "max_num_seqs": "--max-num-seqs",
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "tensor_parallel_size": "--tensor-parallel-size",
}


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was planned through."""

    changes: dict[str, Any]
    """By the keys of a profile."""
    options: str
    """To add to the command line; empty where only a profile can say it."""
    lines: str
    """The same for a profile file."""
    verdict: Verdict
    effect: str
    kv_tokens: int
    """At the pessimistic end."""

    @property
    def told(self) -> str:
        return f"{self.options or f'{self.in_one_line} in the profile'}: {self.effect}"

    @property
    def in_one_line(self) -> str:
        """The profile's lines, a table between braces; where nothing is set, what is left out."""
        told = {key: value for key, value in self.changes.items() if value is not None}
        return (
            ", ".join(f"{key}: {_plain(value)}" for key, value in told.items()) or f"no {' and no '.join(self.changes)}"
        )


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What does not fit, and how its checkpoints are known. `asked` is the profile before the pairing completes it."""

    asked: Profile
    hardware: Hardware
    pairing: Pairing
    completed: Profile
    checkpoints: Checkpoints
    estimate: Estimate


def case_of(asked: Profile, completed: Profile, hardware: Hardware, pairing: Pairing, checkpoints: Checkpoints) -> Case:
    return Case(
        asked=asked,
        completed=completed,
        hardware=hardware,
        pairing=pairing,
        checkpoints=checkpoints,
        estimate=_planned(completed, hardware, pairing, checkpoints),
    )


def tried(case: Case, changes: dict[str, Any]) -> Fix | None:
    """The plan with these changes; None where the pairing cannot be had so, or its sizes are not known."""
    try:
        estimate = _again(case, changes)
    except SpeccliError:
        return None
    return None if estimate is None else _fix(case, changes, estimate)


def _again(case: Case, changes: dict[str, Any]) -> Estimate | None:
    """A new pairing where the change is one of the pairing, else the same checkpoints under other settings.

    None too where the new target was not made for so long a context.
    """
    if changes.keys().isdisjoint(PAIRING_KEYS):
        return _planned(changed(case.completed, changes), case.hardware, case.pairing, case.checkpoints)
    hardware = named(changes["hardware"]) if changes.get("hardware") else case.hardware
    completed, pairing = resolve(changed(case.asked, changes), hardware)
    same = (pairing.target_source, pairing.speculator_source) == (
        case.pairing.target_source,
        case.pairing.speculator_source,
    )
    checkpoints = case.checkpoints if same else known.checkpoints(pairing)
    if checkpoints is None:
        return None
    estimate, own = _planned(completed, hardware, pairing, checkpoints), own_context(checkpoints.target)
    return None if own is not None and estimate.max_model_len > own else estimate


def changed(profile: Profile, changes: dict[str, Any]) -> Profile:
    """The profile as if these had been typed; None takes a setting back."""
    source = "fix"
    settings = msgspec.structs.replace(profile.settings, **changes)
    sources = {key: value for key, value in profile.sources.items() if key not in changes}
    sources |= {key: source for key, value in changes.items() if value is not None}
    sources |= {f"engine.{key}": source for key in changes.get("engine") or {}}
    return Profile(settings, sources, (source, *profile.order))


def _planned(completed: Profile, hardware: Hardware, pairing: Pairing, checkpoints: Checkpoints) -> Estimate:
    sizes = sizes_of(completed.settings, hardware, pairing, checkpoints)
    return of_run(completed.settings, hardware, sizes)


def _fix(case: Case, changes: dict[str, Any], estimate: Estimate) -> Fix:
    told = {key: value for key, value in changes.items() if value is not None}
    if "max_model_len" not in told and estimate.max_model_len != case.estimate.max_model_len:
        context = f" in a context of {estimate.max_model_len:,}"
    else:
        context = ""
    return Fix(
        changes=changes,
        options=options_of(told),
        lines=lines_of(told, case.completed.settings),
        verdict=estimate.verdict,
        effect=f"{estimate.verdict.replace('_', ' ')}, {in_short(estimate.kv_tokens.low)} KV tokens{context}",
        kv_tokens=estimate.kv_tokens.low,
    )


def options_of(changes: dict[str, Any]) -> str:
    """As typed; empty where one of them has no option."""
    words = []
    for key, value in changes.items():
        if key == "enforce_eager":
            words.append("--eager" if value else "--compile")
        elif (key, value) == ("method", "none"):
            words.append("--no-spec")
        elif key in OPTIONS:
            words.append(f"{OPTIONS[key]} {value}")
        else:
            return ""
    return " ".join(words)


def lines_of(changes: dict[str, Any], settings: Settings) -> str:
    """As a profile file has them; of `engine` only what is new."""
    old = settings.engine or {}
    lines = []
    for key, value in changes.items():
        if key == "engine":
            new = {name: inner for name, inner in value.items() if old.get(name) != inner}
            lines += ["engine:", *(f"  {name}: {_plain(inner)}" for name, inner in new.items())]
        else:
            lines.append(f"{key}: {_plain(value)}")
    return "\n".join(lines) + "\n"


def in_short(count: int) -> str:
    """26,112 is 26k."""
    if count >= 10_000_000:
        return f"{count / 1e6:.0f}M"
    return f"{count / 1e6:.1f}M" if count >= 1_000_000 else f"{count / 1000:.0f}k" if count >= 1000 else str(count)


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_plain(inner)}' for key, inner in value.items())}}}"
    return str(value).lower() if isinstance(value, bool) else str(value)
