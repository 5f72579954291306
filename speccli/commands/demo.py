"""`speccli demo`: the main job at a glance, on one engine: a chat turn, then a batch of sample prompts."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from speccli import jsonl, paths
from speccli.commands.batch import answer_lines
from speccli.commands.chat import Turns, one_turn
from speccli.errors import ExitCode
from speccli.profile import Sampling
from speccli.progress import Progress, Tally

if TYPE_CHECKING:
    from speccli.commands import OpenEngine
    from speccli.engine import Engine
    from speccli.plan import Plan
    from speccli.view import View

QUESTION = "What is the capital of France?"
MAX_TOKENS = 40
"""For each answer of the batch: enough to see it, and over soon."""


def demo(plan: Plan, view: View, open_engine: OpenEngine) -> ExitCode:
    """Chat once, answer the sample prompts, and say how to go on."""
    with view.starting():
        engine = open_engine(plan)
    with engine as running:
        view.heading(f"One turn of a chat: {QUESTION}")
        one_turn(running, Turns().and_user(QUESTION), plan, False, view)
        _sample_batch(running, plan.profile.sampling, view)
    view.heading("Your turn:  speccli chat    (in this checkout: .venv/bin/speccli chat)")
    return ExitCode.DONE


def _sample_batch(engine: Engine, sampling: Sampling, view: View) -> None:
    lines = (paths.profiles_dir() / "prompts" / "sample.jsonl").read_bytes().splitlines()
    view.heading(f"A batch: {len(lines)} sample prompts, up to {MAX_TOKENS} tokens each")
    out, tally = io.BytesIO(), Tally()
    entries = jsonl.read(lines, Sampling(max_tokens=MAX_TOKENS).over(sampling), None)
    with Progress(view, len(lines), tally) as progress:
        answer_lines(engine, entries, out, tally, progress)
        for line in sorted(out.getvalue().splitlines(), key=lambda line: int(json.loads(line)["line"])):
            record = json.loads(line)
            text = " ".join(str(record.get("text") or f"error: {record.get('error')}").split())
            view.text(f"{record['id']:>10}  {text}\n")
        progress.summary()
