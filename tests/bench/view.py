"""`make bench-view`: what showing an answer costs: tokens/s with the full view on a terminal, against --raw to a file.

One run: one engine, the same question in turn with both, so that only their ratio counts.
"""

from __future__ import annotations

import contextlib
import os
import pty
import statistics
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from speccli.chat.conversation import Conversation
from speccli.chat.settings import Display
from speccli.commands.chat.asking import Question, ask
from speccli.engine import open_engine
from speccli.prepare import prepare
from speccli.profile import Sampling, Settings
from speccli.view import View

REPEATS = 5
TOKENS = 200
QUESTION = "Explain in Markdown, with headings, a list, a table and a Python program, how a bicycle works."


@contextlib.contextmanager
def terminal() -> Iterator[TextIO]:
    """A terminal that somebody reads."""
    reader, writer = pty.openpty()
    threading.Thread(target=_drain, args=(reader,), daemon=True).start()
    with os.fdopen(writer, "w", encoding="utf-8") as file:
        yield file


def _drain(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # the other end is closed
        while os.read(descriptor, 65536):
            pass


@contextlib.contextmanager
def led_to(out: TextIO) -> Iterator[None]:
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        yield


def main() -> None:
    os.environ["TERM"] = "xterm-256color"
    plan = prepare(Settings(target="smollm2-135m", method="ngram", max_num_seqs=1), None, lambda line: None)
    question = Question(QUESTION, Conversation(), Sampling(temperature=0.0, max_tokens=TOKENS, ignore_eos=True), plan)
    rates: dict[str, list[float]] = {"full view": [], "raw": []}
    with (
        TemporaryDirectory() as folder,
        open_engine(plan) as engine,
        terminal() as screen,
        (Path(folder) / "answer.txt").open("w") as file,
    ):
        for number in range(REPEATS + 1):
            for name, out, view in (("full view", screen, View()), ("raw", file, View(raw=True))):
                with led_to(out):
                    asked = ask(engine, question, view, Display())
                rate = asked.turn.timing.decode_tokens_per_s
                if number and rate is not None:  # the first round warms up
                    rates[name].append(rate)
    told = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        say(f"{name:10} {told[name]:6.1f} tokens/s  ({', '.join(f'{value:.1f}' for value in values)})")
    say(f"ratio      {told['full view'] / told['raw']:6.3f}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
