"""The command in a process of its own, on a scripted engine: python -m tests.commands.scripted_batch SECONDS ARGUMENTS...

Each step of the engine takes so many seconds. A prompt "refuse" is refused, and "die" kills the engine.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from speccli import cli
from speccli.engine import Engine, Request
from speccli.engine.scripted import Answer, Dies, Refused, ScriptedEngine, Wrote
from speccli.plan import Plan
from tests.commands.example import example_plan


def answer(request: Request, step_s: float) -> Answer:
    text = request.prompt or request.messages[-1].content
    if text == "refuse":
        return Refused("refused, as the prompt asks")
    if text == "die":
        return [Dies("as the prompt asks")]
    if step_s:
        time.sleep(step_s)
    return [Wrote("said: ", tokens=2), Wrote(text, tokens=3, drafted=3, accepted=2)]


def main() -> None:
    step_s = float(sys.argv.pop(1))
    cli._plan = lambda *_, **__: example_plan(Path("/nowhere"))

    def open_engine(_: Plan) -> Engine:
        return ScriptedEngine(lambda request: answer(request, step_s), max_in_flight=4)

    cli._open_engine = lambda view: open_engine
    cli.main()


if __name__ == "__main__":
    main()
