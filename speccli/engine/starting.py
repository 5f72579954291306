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
    """Runs `open_engine` once, after the engine `before` has ended. `engine` waits for it, and raises what it raised."""

    def __init__(self, open_engine: Callable[[], Engine], before: Starting | None = None) -> None:
        self._older_processes: frozenset[int | None] = children.running() if before is None else before._older_processes
        self._stages: Stages | None = None
        self._engine: Engine | None = None
        self._error: BaseException | None = None
        self._took: list[str] = []
        self._seconds: float | None = None
        self._is_given_up = False
        self._over = threading.Event()  # a thread whose `join` is interrupted counts as ended, and goes on
        threading.Thread(target=self._run, args=(open_engine, before), name="start-engine", daemon=True).start()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    @property
    def error(self) -> BaseException | None:
        """Why there is no engine, once that is known."""
        return self._error if self.is_over else None

    @property
    def seconds(self) -> float:
        """How long the start took, or has taken so far."""
        if self._seconds is not None:
            return self._seconds
        return 0.0 if self._stages is None else self._stages.elapsed_s

    @property
    def took(self) -> list[str]:
        """The stages and their seconds, once the engine is there; what took no time is left out."""
        return self._took

    def now(self) -> str:
        """What is being done, for a line that is redrawn."""
        if self._stages is None:
            return "first the one before ends"
        return f"{self._stages.now()} · {self.seconds:.0f} s in all"

    def engine(self) -> Engine:
        """The engine, once it is there. A KeyboardInterrupt meanwhile leaves the start running."""
        while not self._over.wait(0.05):
            pass
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

    def _run(self, open_engine: Callable[[], Engine], before: Starting | None) -> None:
        try:
            if before is not None:
                before.close()
            if not self._is_given_up:
                self._stages = Stages()
                self._engine = open_engine()
                self._took = [f"{one.name} {one.seconds:.0f} s" for one in self._stages.passed() if one.seconds >= 1]
        except BaseException as error:  # handed to the one who waits
            self._error = error
        finally:
            self._seconds = self.seconds
            self._over.set()

    def _abandon(self, patience_s: float) -> None:
        """What is started meanwhile is ended, too, until the start gives up."""
        self._is_given_up = True
        deadline_s = time.monotonic() + patience_s
        while not self.is_over and time.monotonic() < deadline_s:
            children.kill_since(self._older_processes)
            self._over.wait(0.1)
