"""An engine that failed, told with what its log says: for whoever shows the failure."""

from __future__ import annotations

from pathlib import Path

from speccli.diagnose.failures import UNKNOWN, explain
from speccli.errors import EngineFailed

LAST_LINES = 3
TAIL_BYTES = 8192


def explained(failure: EngineFailed) -> EngineFailed:
    """The same failure with its cause and what to do, where the engine left a log that tells."""
    if failure.log is None:
        return failure
    place = f"the whole log is {failure.log}"
    try:
        with failure.log.open("rb") as stream:
            found = next((found for found in explain(stream).findings if found.severity == "error"), None)
        ending = _last_lines(failure.log) if found is None else []
    except OSError as error:
        return EngineFailed(failure.message, f"the log cannot be read: {failure.log}: {error.strerror}")
    if found is None:
        return EngineFailed("\n  ".join([f"{failure.message}:", *ending]), place)
    if found.id == UNKNOWN:
        return EngineFailed(f"{failure.message}:\n  {found.evidence}", f"{found.fix}\n{place}")
    page = f"more: speccli doctor explain {found.id}"
    return EngineFailed(
        f"{failure.message}: {found.title}: {found.cause}\n  {found.evidence}", f"{found.fix}\n{page}; {place}"
    )


def _last_lines(log: Path) -> list[str]:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return [line.strip() for line in lines if line.strip()][-LAST_LINES:]
