"""A conversation in a process of its own, on a scripted engine: python -m tests.commands.scripted_chat START_S STEP_S

The engine takes START_S to start, while descriptors 1 and 2 lead to its log, and STEP_S for each step of an answer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from speccli.commands.chat import Options, chat
from speccli.engine import Request, Step
from speccli.engine.log import child_output_to, new_log
from speccli.engine.scripted import ScriptedEngine, Wrote
from speccli.plan import Plan
from speccli.view import View
from tests.commands.example import example_plan


class Slow(ScriptedEngine):
    """Echoes the last message, in three steps."""

    def __init__(self, step_s: float) -> None:
        super().__init__(lambda request: [Wrote("You said "), Wrote(repr(request.messages[-1].content)), Wrote(".")])
        self._step_s = step_s

    def generate(self, requests: Iterable[Request | None], max_in_flight: int | None = None) -> Iterator[Step]:
        for step in super().generate(requests, max_in_flight):
            time.sleep(self._step_s)
            yield step


def main() -> None:
    start_s, step_s = map(float, sys.argv[1:])

    def open_engine(_: Plan) -> Slow:
        with child_output_to(new_log()):
            time.sleep(start_s)
        return Slow(step_s)

    sys.exit(chat(example_plan(Path("/nowhere")), None, Options(), View(), open_engine))


if __name__ == "__main__":
    main()
