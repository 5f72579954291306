"""A path that misleads: vLLM overrules the method that it was told by what the path of a speculator holds."""

from __future__ import annotations

from speccli.checkpoint.inspection import Inspection
from speccli.checkpoint.repair.remade import Remade

TRAPS = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
"""In vLLM's order (`config/speculative.py`): the first that the lower-cased path holds names the method."""

OVERRULED = ("draft_model", "medusa", "mtp")
"""The methods that vLLM does not keep when it sees such a path."""


def misread_as(path: str, method: str) -> str | None:
    """The method that vLLM would run instead; None where it keeps the one it was told."""
    if method not in OVERRULED:
        return None
    return next((taken for trap, taken in TRAPS.items() if trap in path.lower()), None)


def repaired(remade: Remade, checkpoint: Inspection, method: str) -> Remade:
    taken = misread_as(checkpoint.folder or "", method)
    if taken is None:
        return remade
    return remade.because(f"vLLM would take {checkpoint.folder} for {taken} by its name; it is linked elsewhere")
