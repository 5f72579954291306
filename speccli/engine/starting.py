"""Starting: an engine that starts in a thread, so that somebody can type meanwhile."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from speccli.engine import Engine, children
from speccli.engine.stages import Stages

PATIENCE_S = 2.0
"""How long one who leaves waits for a start that was given up; it ends when its processes do."""


class Starting:
    """Runs `open_engine` once. `engine` waits for it, and raises what it raised."""

    def __init__(self, open_engine: Callable[[], Engine]) -> None:
        self.stages = Stages()
        self._before = children.running()
        self._engine: Engine | None = None
        self._error: BaseException | None = None
        self._took: list[str] = []
        self._seconds: float | None = None
        self._thread = threading.Thread(target=self._run, args=(open_engine,), name="start-engine", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    @property
    def has_failed(self) -> bool:
        return self.is_over and self._error is not None

    @property
    def seconds(self) -> float:
        """How long the start took, or has taken so far."""
        return self.stages.elapsed_s if self._seconds is None else self._seconds

    @property
    def took(self) -> list[str]:
        """The stages and their seconds, once the engine is there; what took no time is left out."""
        return self._took

    def engine(self) -> Engine:
        """The engine, once it is there. A KeyboardInterrupt meanwhile leaves the start running."""
        while self._thread.is_alive():
            self._thread.join(0.05)
        if self._error is not None:
            raise self._error
        if self._engine is None:
            raise RuntimeError("the start ended without an engine")
        return self._engine

    def close(self, patience_s: float = math.inf) -> None:
        """End the engine, or its start: before another one starts, that must be over."""
        if not self.is_over:
            self._abandon(patience_s)
        if self._engine is not None:
            self._engine.close()

    def _run(self, open_engine: Callable[[], Engine]) -> None:
        try:
            self._engine = open_engine()
            self._took = [f"{stage.name} {stage.seconds:.0f} s" for stage in self.stages.passed() if stage.seconds >= 1]
        except BaseException as error:  # handed to the one who waits
            self._error = error
        self._seconds = self.stages.elapsed_s

    def _abandon(self, patience_s: float) -> None:
        """What is started meanwhile is ended, too, until the start gives up."""
        deadline_s = time.monotonic() + patience_s
        while self._thread.is_alive() and time.monotonic() < deadline_s:
            children.kill_since(self._before)
            self._thread.join(0.1)
