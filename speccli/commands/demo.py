"""`speccli demo`: the main job at a glance, on one engine: a chat turn, then a batch of sample prompts."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from speccli import jsonl, paths
from speccli.commands.batch_job import Job
from speccli.commands.chat import one_turn
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
        one_turn(running, QUESTION, plan, view)
        _sample_batch(running, plan.profile.sampling, view)
    view.heading("Your turn:  speccli chat    (in this checkout: .venv/bin/speccli chat)")
    return ExitCode.DONE


def _sample_batch(engine: Engine, sampling: Sampling, view: View) -> None:
    inputs = jsonl.find_inputs([str(paths.profiles_dir() / "prompts" / "sample.jsonl")])
    defaults = jsonl.Defaults(Sampling(max_tokens=MAX_TOKENS).over(sampling))
    entries = list(jsonl.read(jsonl.lines(inputs, io.BytesIO()), defaults))
    view.heading(f"A batch: {len(entries)} sample prompts, up to {MAX_TOKENS} tokens each")
    records: list[dict[str, Any]] = []
    tally = Tally()
    job = Job(lambda record, _: records.append(json.loads(record)), tally, "speccli", "")
    with Progress(view, lambda: len(entries), tally) as progress:
        job.answer(engine, entries, progress)
        for record in sorted(records, key=lambda record: int(record["line"])):
            text = " ".join((record.get("text") or f"error: {record['error']['message']}").split())
            view.text(f"{record['id']:>10}  {text}\n")
        progress.summary()
