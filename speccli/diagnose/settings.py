"""What the settings of a run are, where each comes from, and which of them do nothing on this machine."""

from __future__ import annotations

from collections.abc import Iterator

from speccli.diagnose import Finding, Group
from speccli.plan import Plan
from speccli.profile import KEYS, PAIRING_KEYS, Profile

ONLY_ON = {"threads_bind": "cpu", "preload": "cpu", "gpu_memory_utilization": "cuda"}

KINDS = {"cpu": "the processor", "cuda": "a GPU"}


def settings(plan: Plan) -> Group:
    return Group(title="Profile", findings=tuple(_findings(plan)))


def _findings(plan: Plan) -> Iterator[Finding]:
    told = ", ".join(_told(plan.profile))
    if told:
        yield Finding(id="profile.settings", severity="ok", title="settings", evidence=told)
    idle = [key for key, kind in ONLY_ON.items() if _is_set(plan.profile, key) and kind != plan.hardware.kind]
    for key in idle:
        yield Finding(
            id="profile.idle",
            severity="info",
            title="idle",
            evidence=f"{key} ({plan.profile.sources[key]})",
            cause=f"it is for {KINDS[ONLY_ON[key]]}, and this run is on {KINDS[plan.hardware.kind]}",
            fix=f"leave {key} out",
        )


def _told(profile: Profile) -> Iterator[str]:
    """Without what comes from speccli's own defaults."""
    for key in KEYS:
        if key in PAIRING_KEYS or key == "engine" or not _is_set(profile, key):
            continue
        if profile.sources[key] != "default":
            yield f"{key} {_text(getattr(profile.settings, key))} ({profile.sources[key]})"
    for name, value in (profile.settings.engine or {}).items():
        yield f"engine.{name} {_text(value)} ({profile.sources[f'engine.{name}']})"


def _is_set(profile: Profile, key: str) -> bool:
    return getattr(profile.settings, key) is not None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
