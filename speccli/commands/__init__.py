"""One file, one function of the command's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from speccli.engine import Engine
    from speccli.plan import Plan

    OpenEngine = Callable[[Plan], Engine]
