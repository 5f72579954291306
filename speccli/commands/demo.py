"""`speccli demo`: the main job at a glance: a chat turn, a batch of sample prompts, and the turn again without speculation."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from speccli import jsonl, paths
from speccli.chat.comparison import Comparison
from speccli.chat.conversation import Conversation
from speccli.chat.settings import Display
from speccli.chat.turn import Turn
from speccli.commands.batch_job import Job
from speccli.commands.chat.asking import Question, ask
from speccli.errors import ExitCode, SpeccliError
from speccli.profile import Sampling
from speccli.progress import Progress, Tally

if TYPE_CHECKING:
    from speccli.commands import OpenEngine
    from speccli.engine import Engine
    from speccli.plan import Plan
    from speccli.view import View

QUESTION = "Write a Python function that returns the largest number of a list."
CHAT_TOKENS = 96
"""Enough for a rate to be one."""
MAX_TOKENS = 40
"""For each answer of the batch: enough to see it, and over soon."""


def demo(plan: Plan, plain: Plan | None, view: View, open_engine: OpenEngine) -> ExitCode:
    """Chat once, answer the sample prompts, chat as `plain` says, and tell how to go on."""
    with view.starting():
        engine = open_engine(plan)
    with engine as running:
        view.heading(f"One turn of a chat: {QUESTION}")
        first = _turn(running, plan, view)
        _sample_batch(running, plan.profile.sampling, view)
    if plain is not None:
        _without_speculation(first, plain, view, open_engine)
    view.heading("Your turn:  speccli chat    (in this checkout: .venv/bin/speccli chat)")
    return ExitCode.DONE


def _turn(engine: Engine, plan: Plan, view: View) -> Turn:
    sampling = Sampling(max_tokens=CHAT_TOKENS).over(plan.profile.sampling)
    asked = ask(engine, Question(QUESTION, Conversation(), sampling, plan), view, Display())
    if asked.error is not None:
        raise SpeccliError(f"the engine refused the request: {asked.error}", "see `speccli doctor`")
    if asked.num_interrupts:
        raise KeyboardInterrupt
    view.statistics(asked.answer)
    return asked.turn


def _without_speculation(first: Turn, plain: Plan, view: View, open_engine: OpenEngine) -> None:
    from speccli.view import tables

    view.heading("The same question without speculation, on an engine of its own")
    with view.starting():
        engine = open_engine(plain)
    with engine as running:
        second = _turn(running, plain, view)
    view.gap()
    is_sampled = plain.profile.sampling.temperature != 0
    view.show(tables.comparison(Comparison(first, second, is_sampled=is_sampled), view.console.width))


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
