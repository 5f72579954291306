"""However often a batch is interrupted, and however: what the runs wrote together is what one run writes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from speccli import jsonl
from speccli.commands.batch import Options, batch
from speccli.engine import Request, Step
from speccli.engine.scripted import Answer, Refused, ScriptedEngine, Wrote
from speccli.errors import EngineFailed
from speccli.view import View
from tests.commands.example import example_plan


class Killed(BaseException):
    """Stands for kill -9: what comes after it in the process counts for nothing."""


class Breaking(ScriptedEngine):
    """Breaks after so many steps."""

    def __init__(self, max_in_flight: int, after: int, how: BaseException | None) -> None:
        super().__init__(answer, max_in_flight)
        self._after = after
        self._how = how

    def generate(self, requests: Iterable[Request | None], max_in_flight: int | None = None) -> Iterator[Step]:
        for number, step in enumerate(super().generate(requests, max_in_flight)):
            if number == self._after and self._how is not None:
                raise self._how
            yield step


def answer(request: Request) -> Answer:
    text = request.prompt or request.messages[-1].content
    if text.startswith("refuse"):
        return Refused("no")
    return [
        Wrote(f"{text} {i} {request.sampling.seed}", tokens=i + 1, drafted=3, accepted=i % 4)
        for i in range(1 + len(text) % 4)
    ]


LINES = st.one_of(
    st.builds(lambda text: {"prompt": text}, st.sampled_from(["a", "bb", "ccc", "refuse", "dddd\u2028e"])),
    st.builds(lambda name, text: {"id": name, "prompt": text}, st.integers(0, 5), st.sampled_from(["x", "yy"])),
    st.builds(lambda number, more: {"id": f"FOLDER/in.jsonl:{number}{more}", "prompt": "x"}, st.integers(1, 9), st.sampled_from(["", "+"])),
    st.builds(lambda n: {"prompt": "many", "n": n, "seed": 3, "metadata": {"n": n}}, st.integers(1, 3)),
    st.builds(
        lambda name: {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": "hi"}]}},
        st.sampled_from(["r1", "r2", "r3"]),
    ),
    st.sampled_from(["bad", '{"promt": 1}', '{"id": 3}', ""]),
)  # fmt: skip

BREAKS = st.tuples(
    st.integers(0, 12), st.sampled_from(["kill", "engine", "ctrl-c"]), st.integers(0, 400), st.integers(1, 4), st.booleans()
)  # fmt: skip


def content(lines: list[Any]) -> str:
    return "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)


def told(*files: Path) -> list[dict[str, Any]]:
    """The records without what differs from run to run."""
    found = [json.loads(line) for file in files if file.exists() for line in file.read_bytes().splitlines()]
    for record in found:
        record.pop("timings", None)
        if record.get("response"):
            for key in ("timings", "created"):
                record["response"]["body"].pop(key)
    return found


def name(record: dict[str, Any]) -> str:
    return str(record.get("custom_id", record["id"]))


def run(folder: Path, engine: ScriptedEngine, ordered: bool, split: bool, out: str, retry_failed: bool = False) -> None:
    options = Options(
        sources=(str(folder / "in.jsonl"),), output=folder / out, errors=folder / f"{out}.errors" if split else None, ordered=ordered,
        policy=jsonl.Policy(retry_failed=retry_failed),
    )  # fmt: skip
    try:
        batch(example_plan(folder), options, View(quiet=True), lambda _: engine)
    except (EngineFailed, Killed):
        return


@given(st.lists(LINES, max_size=14), st.lists(BREAKS, min_size=1, max_size=4), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_union_of_interrupted_runs_is_one_uninterrupted_run(
    lines: list[Any], breaks: list[tuple[int, str, int, int, bool]], ordered: bool, split: bool
) -> None:
    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        (folder / "in.jsonl").write_text(content(lines).replace("FOLDER", named))
        run(folder, Breaking(2, 0, None), ordered, split, "whole")
        for after, how, cut, max_in_flight, retry_failed in breaks:
            error = {"kill": Killed(), "engine": EngineFailed("it died"), "ctrl-c": KeyboardInterrupt()}[how]
            before = _size(folder / "out")
            run(folder, Breaking(max_in_flight, after, error), ordered, split, "out", retry_failed and not ordered)
            if how == "kill":
                _tear(folder / "out", before, cut)
        run(folder, Breaking(3, 0, None), ordered, split, "out")
        files = [[folder / out, folder / f"{out}.errors"] for out in ("whole", "out")]
        whole, union = told(*files[0]), told(*files[1])
        assert sorted(map(name, union)) == sorted(set(map(name, union))), "an id is written twice"
        assert {name(record): record for record in union} == {name(record): record for record in whole}
        if ordered:
            assert union == whole


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _tear(file: Path, before: int, cut: int) -> None:
    """A killed run may have written any part of what it meant to write."""
    if file.exists():
        with file.open("rb+") as opened:
            opened.truncate(max(before if before <= _size(file) else 0, _size(file) - cut))
