"""`speccli batch` as its user sees it, on the scripted engine."""

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from speccli.commands.batch import batch
from speccli.engine import Request
from speccli.engine.scripted import Answer, Dies, Refused, ScriptedEngine, Wrote
from speccli.errors import EngineFailed, ExitCode, UsageError
from speccli.plan import Plan
from speccli.view import View


def write(folder: Path, *lines: str) -> str:
    file = folder / "in.jsonl"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def run(plan: Plan, source: str, output: Path | None, engine: ScriptedEngine, overwrite: bool = False) -> ExitCode:
    return batch(plan, source, output, overwrite, View(), lambda _: engine)


def records(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def echo(request: Request) -> Answer:
    return [Wrote("said: ", tokens=2), Wrote(request.messages[-1].content, tokens=3, drafted=3, accepted=2)]


def test_each_line_gets_one_record(plan: Plan, tmp_path: Path) -> None:
    source = write(tmp_path, '{"id": "a", "prompt": "one"}', '{"prompt": "two"}')
    code = run(plan, source, tmp_path / "out.jsonl", ScriptedEngine(echo, max_in_flight=2))
    assert code == ExitCode.DONE
    first, second = records(tmp_path / "out.jsonl")
    assert (first["id"], first["line"], first["text"], first["finish_reason"]) == ("a", 1, "said: one", "stop")
    assert (second["id"], second["line"], second["text"]) == (None, 2, "said: two")
    assert first["usage"] == {"prompt_tokens": 1, "completion_tokens": 5}
    assert first["speculation"] == {
        "num_drafts": 1, "num_draft_tokens": 3, "num_accepted_tokens": 2, "num_accepted_tokens_per_pos": [1, 1, 0],
        "mean_acceptance_length": 3.0, "draft_acceptance_rate": 0.6667,
    }  # fmt: skip


def test_a_bad_line_and_a_refused_request_become_error_records_and_exit_1(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(request: Request) -> Answer:
        return Refused("too long") if "long" in request.messages[-1].content else echo(request)

    source = write(tmp_path, "nonsense", '{"id": "x", "prompt": "long"}', '{"id": "y", "prompt": "short"}')
    code = run(plan, source, tmp_path / "out.jsonl", ScriptedEngine(answer, max_in_flight=2))
    assert code == ExitCode.FINDINGS
    by_line = {record["line"]: record for record in records(tmp_path / "out.jsonl")}
    assert str(by_line[1]["error"]).startswith("line 1: ")
    assert by_line[2] == {"id": "x", "line": 2, "error": "line 2: too long"}
    assert by_line[3]["text"] == "said: short"
    assert "1 done · 2 failed" in capsys.readouterr().err


def test_the_same_id_twice_is_answered_twice(plan: Plan, tmp_path: Path) -> None:
    source = write(tmp_path, '{"id": "a", "prompt": "one"}', '{"id": "a", "prompt": "two"}')
    run(plan, source, tmp_path / "out.jsonl", ScriptedEngine(echo, max_in_flight=2))
    assert sorted(str(record["text"]) for record in records(tmp_path / "out.jsonl")) == ["said: one", "said: two"]


def test_what_was_written_before_the_engine_died_is_whole(plan: Plan, tmp_path: Path) -> None:
    answers: Sequence[Answer] = [[Wrote("one")], [Wrote("tw"), Dies("out of memory")]]
    source = write(tmp_path, '{"prompt": "a"}', '{"prompt": "b"}')
    with pytest.raises(EngineFailed, match="out of memory"):
        run(plan, source, tmp_path / "out.jsonl", ScriptedEngine(answers))
    assert [record["text"] for record in records(tmp_path / "out.jsonl")] == ["one"]


def test_ctrl_c_keeps_what_was_written_and_exits_130(plan: Plan, tmp_path: Path) -> None:
    def answer(request: Request) -> Answer:
        if request.id == "2":
            raise KeyboardInterrupt
        return [Wrote("one")]

    engine = ScriptedEngine(answer)
    source = write(tmp_path, '{"prompt": "a"}', '{"prompt": "b"}')
    assert run(plan, source, tmp_path / "out.jsonl", engine) == ExitCode.INTERRUPTED
    assert [record["text"] for record in records(tmp_path / "out.jsonl")] == ["one"]
    assert engine.closed


def test_an_existing_file_is_kept_unless_overwriting_is_asked_for(plan: Plan, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    output.write_text("precious\n")
    source = write(tmp_path, '{"prompt": "a"}')
    with pytest.raises(UsageError, match="exists already"):
        run(plan, source, output, ScriptedEngine(echo))
    assert output.read_text() == "precious\n"
    run(plan, source, output, ScriptedEngine(echo), overwrite=True)
    assert records(output)[0]["text"] == "said: a"


def test_the_input_is_never_overwritten(plan: Plan, tmp_path: Path) -> None:
    source = write(tmp_path, '{"prompt": "a"}')
    with pytest.raises(UsageError, match="is the input itself"):
        run(plan, source, Path(source), ScriptedEngine(echo), overwrite=True)


def test_an_empty_input_is_an_empty_output(plan: Plan, tmp_path: Path) -> None:
    assert run(plan, write(tmp_path, ""), tmp_path / "out.jsonl", ScriptedEngine(echo)) == ExitCode.DONE
    assert records(tmp_path / "out.jsonl") == []


def test_nothing_starts_when_the_output_cannot_be_written(plan: Plan, tmp_path: Path) -> None:
    def no_engine(_: Plan) -> ScriptedEngine:
        raise AssertionError("the engine was started")

    with pytest.raises(UsageError, match="cannot write"):
        batch(plan, write(tmp_path, '{"prompt": "a"}'), tmp_path / "no" / "out.jsonl", False, View(), no_engine)


def test_stdin_to_stdout(
    plan: Plan, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id": 1, "prompt": "a"}\n')))
    assert run(plan, "-", None, ScriptedEngine(echo)) == ExitCode.DONE
    captured = capfdbinary.readouterr()
    assert [json.loads(line)["text"] for line in captured.out.splitlines()] == ["said: a"]
    assert b"1 done" in captured.err
