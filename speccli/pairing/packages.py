"""What a way to speculate needs in this environment, and vLLM does not bring along."""

from __future__ import annotations

import importlib.metadata
import re

from speccli.errors import MachineError
from speccli.pairing.file import Speculator
from speccli.profile import Method

NEEDS: dict[Method, tuple[str, ...]] = {"suffix": ("arctic-inference==0.1.1",)}
"""Whether a pairing file says so or not. vLLM names the same version (`config/speculative.py`)."""


def missing(method: Method, listed: Speculator | None) -> list[str]:
    """As requirements; another version than the one named counts as there, as it does for vLLM."""
    needs = dict.fromkeys((*NEEDS.get(method, ()), *(listed.needs if listed else ())))
    return [requirement for requirement in needs if not _is_installed(requirement)]


def require(method: Method, listed: Speculator | None) -> None:
    """Raise `MachineError` with the command that installs what is missing."""
    packages = missing(method, listed)
    if packages:
        raise MachineError(
            f"{method} needs {' and '.join(packages)}, not installed here",
            f"`{install(packages)}`, or choose another --method",
        )


def install(packages: list[str]) -> str:
    return f"python -m pip install {' '.join(packages)}"


def _is_installed(requirement: str) -> bool:
    name = re.match(r"[\w.-]*", requirement)
    try:
        return bool(name and importlib.metadata.version(name[0]))
    except importlib.metadata.PackageNotFoundError:
        return False
