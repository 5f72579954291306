"""`speccli batch` as its user sees it, on the scripted engine."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from speccli import jsonl
from speccli.commands.batch import Options, batch, check
from speccli.engine import Request, Split
from speccli.engine.scripted import Answer, Dies, Refused, ScriptedEngine, Wrote
from speccli.errors import EngineFailed, ExitCode, MachineError, UsageError
from speccli.plan import Plan
from speccli.profile import Profile, Settings
from speccli.view import View

DATA = Path(__file__).parents[1] / "data" / "batch"


def write(folder: Path, *lines: str, name: str = "in.jsonl") -> str:
    file = folder / name
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def run(
    plan: Plan,
    source: str | Sequence[str],
    output: Path | None,
    engine: ScriptedEngine,
    policy: jsonl.Policy = jsonl.Policy(),  # noqa: B008 - frozen
    **options: Any,
) -> ExitCode:
    sources = (source,) if isinstance(source, str) else tuple(source)
    chosen = Options(sources=sources, output=output, policy=policy, **options)
    check(chosen)
    return batch(plan, chosen, View(), lambda _: engine)


def records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def by_id(file: Path) -> dict[str | int, dict[str, Any]]:
    return {record["id"]: record for record in records(file)}


def echo(request: Request) -> Answer:
    text = request.prompt or request.messages[-1].content
    return [Wrote("said: ", tokens=2), Wrote(text, tokens=3, drafted=3, accepted=2)]


def thinking(_: Request) -> Answer:
    return [
        Wrote("<think>Hm.\n", tokens=3, drafted=3, accepted=2, split=Split("Hm.\n")),
        Wrote("</think>\n\nYes.", tokens=3, split=Split(answer="\n\nYes.")),
    ]


def no_engine(_: Plan) -> ScriptedEngine:
    raise AssertionError("the engine was started")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


@pytest.mark.parametrize(("method", "is_said"), [("ngram", True), ("none", False)])
def test_that_nothing_was_drafted_is_said_where_something_should_have_been(
    method: str, is_said: bool, plan: Plan, tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairing = msgspec.structs.replace(plan.pairing, method=method)
    source = write(tmp_path, '{"prompt": "one"}')
    engine = ScriptedEngine(lambda _: [Wrote("said")])
    assert run(msgspec.structs.replace(plan, pairing=pairing), source, out, engine) == ExitCode.DONE
    assert ("nothing was drafted" in capsys.readouterr().err) == is_said


class TestRecords:
    def test_each_line_gets_one_record(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        source = write(tmp_path, '{"id": "a", "prompt": "one", "metadata": {"row": 4}}', '{"prompt": "two"}')
        assert run(plan, source, out, ScriptedEngine(echo, max_in_flight=2)) == ExitCode.DONE
        first, second = records(out)
        assert first.pop("timings").keys() == {"time_to_first_token_s", "total_s", "decode_tokens_per_s"}
        assert first == {
            "schema_version": 1, "id": "a", "file": source, "line": 1, "text": "said: one", "finish_reason": "stop",
            "usage": {"prompt_tokens": 1, "completion_tokens": 5},
            "speculation": {
                "num_drafts": 1, "num_draft_tokens": 3, "num_accepted_tokens": 2, "num_accepted_tokens_per_pos": [1, 1, 0],
                "mean_acceptance_length": 3.0, "draft_acceptance_rate": 0.6667,
            },
            "metadata": {"row": 4},
        }  # fmt: skip
        assert (second["id"], second["line"], second["text"]) == (f"{source}:2", 2, "said: two")

    def test_the_reasoning_that_the_engine_tells_apart_has_a_field_of_its_own(
        self, plan: Plan, tmp_path: Path, out: Path
    ) -> None:
        source = write(
            tmp_path,
            '{"id": "a", "prompt": "one"}',
            '{"id": "b", "prompt": "two", "n": 2}',
            (DATA / "openai.jsonl").read_text(),
        )
        assert run(plan, source, out, ScriptedEngine(thinking, max_in_flight=2)) == ExitCode.DONE
        found = by_id(out)
        assert (found["a"]["text"], found["a"]["reasoning"]) == ("\n\nYes.", "Hm.\n")
        assert found["a"]["usage"] == {"prompt_tokens": 1, "completion_tokens": 6}
        assert found["a"]["speculation"]["num_accepted_tokens"] == 2
        assert [choice["reasoning"] for choice in found["b"]["choices"]] == ["Hm.\n", "Hm.\n"]
        messages = [
            record["response"]["body"]["choices"][0]["message"] for record in records(out) if "custom_id" in record
        ]
        assert messages == [{"role": "assistant", "content": "\n\nYes.", "reasoning": "Hm.\n"}] * 2
        schema = json.loads(jsonl.json_schema())
        jsonschema = pytest.importorskip("jsonschema", reason="comes with vLLM")
        for record in records(out):
            jsonschema.validate(record, schema)
        assert schema["$defs"]["Record"]["properties"]["reasoning"]

    def test_a_bad_line_and_a_refused_request_become_error_records_and_exit_1(
        self, plan: Plan, tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def answer(request: Request) -> Answer:
            return Refused("too long") if "long" in request.messages[-1].content else echo(request)

        source = write(tmp_path, "nonsense", '{"id": "x", "prompt": "long"}', '{"id": "y", "prompt": "short"}')
        assert run(plan, source, out, ScriptedEngine(answer, max_in_flight=2)) == ExitCode.FINDINGS
        by_line = {record["line"]: record for record in records(out)}
        assert by_line[1]["error"]["kind"] == "invalid_line"
        assert by_line[1]["error"]["message"].startswith(f"{source}:1: JSON is malformed")
        assert by_line[2] == {
            "schema_version": 1, "id": "x", "file": source, "line": 2,
            "error": {"kind": "refused", "message": f"{source}:2: too long"},
        }  # fmt: skip
        assert by_line[3]["text"] == "said: short"
        said = capsys.readouterr().err
        assert "1 done · 2 failed" in said
        assert f"2 lines failed, the first: {source}:1: " in said
        assert "--retry-failed" in said

    def test_failures_go_to_a_file_of_their_own_where_asked(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        source = write(tmp_path, "nonsense", '{"id": "y", "prompt": "b"}')
        errors = tmp_path / "errors.jsonl"
        assert run(plan, source, out, ScriptedEngine(echo), errors=errors) == ExitCode.FINDINGS
        assert [record["id"] for record in records(out)] == ["y"]
        assert [record["line"] for record in records(errors)] == [1]
        assert run(plan, source, out, ScriptedEngine(echo), errors=errors) == ExitCode.FINDINGS
        assert len(records(errors)) == 1

    def test_the_odd_lines_each_get_their_record(self, plan: Plan, out: Path) -> None:
        source = str(DATA / "odd.jsonl")
        assert run(plan, source, out, ScriptedEngine(echo, max_in_flight=3)) == ExitCode.FINDINGS
        found = by_id(out)
        assert len(found) == len(records(out)) == 23
        assert found["separators"]["text"] == "said: b\u2028c\u2029d\u0085e"
        assert found["same"]["text"] == "said: first"
        assert found[f"{source}:14"]["error"] == {
            "kind": "duplicate_id", "message": f'{source}:14: the id "same" is that of {source}:13 already',
        }  # fmt: skip
        assert found["extra"]["metadata"] == {"row": 12, "tags": ["x"]}
        assert sum("error" in record for record in found.values()) == 16

    def test_n_answers_are_one_record(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        def answer(request: Request) -> Answer:
            return [Wrote(f"seed {request.sampling.seed}", tokens=2, drafted=2, accepted=1)]

        source = write(tmp_path, '{"id": "a", "prompt": "one", "n": 3, "seed": 5}')
        run(plan, source, out, ScriptedEngine(answer, max_in_flight=2))
        [record] = records(out)
        assert [(one["index"], one["text"]) for one in record["choices"]] == [
            (0, "seed 5"),
            (1, "seed 6"),
            (2, "seed 7"),
        ]
        assert record["text"] == "seed 5"
        assert record["usage"] == {"prompt_tokens": 1, "completion_tokens": 6}
        assert record["speculation"]["num_drafts"] == 3

    def test_one_refusal_among_n_fails_the_line_once(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        def answer(request: Request) -> Answer:
            return Refused("no") if request.id.endswith("#1") else echo(request)

        run(plan, write(tmp_path, '{"id": "a", "prompt": "one", "n": 3}'), out, ScriptedEngine(answer, max_in_flight=2))
        [record] = records(out)
        assert record["error"]["message"].endswith("in.jsonl:1: no")

    def test_what_a_refusal_quotes_moves_no_cursor(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        def answer(_: Request) -> Answer:
            return Refused("no \x1b[2J\nin\tgrammar")

        run(plan, write(tmp_path, '{"id": "a", "prompt": "one"}'), out, ScriptedEngine(answer))
        assert records(out)[0]["error"]["message"].endswith("in.jsonl:1: no \\x1b[2J\nin\\tgrammar")


class TestOpenAIsForm:
    def test_its_example_is_answered_in_its_form(self, plan: Plan, out: Path) -> None:
        run(plan, str(DATA / "openai.jsonl"), out, ScriptedEngine(echo, max_in_flight=2))
        first = records(out)[0]
        body = first["response"].pop("body")
        assert first == {
            "id": "batch_req_" + first["response"]["request_id"], "custom_id": "request-1", "error": None,
            "response": {"status_code": 200, "request_id": first["response"]["request_id"]},
        }  # fmt: skip
        assert body["object"] == "chat.completion"
        assert body["model"] == "tiny"
        assert body["choices"] == [
            {"index": 0, "message": {"role": "assistant", "content": "said: Hello world!"}, "logprobs": None, "finish_reason": "stop"}
        ]  # fmt: skip
        assert body["usage"] == {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
        assert body["speculation"]["num_accepted_tokens"] == 2

    def test_a_completion_and_a_failure(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        line = {"custom_id": "t", "method": "POST", "url": "/v1/completions", "body": {"model": "m", "prompt": "Once"}}
        source = write(tmp_path, json.dumps(line), json.dumps({**line, "custom_id": "bad", "body": {"prompt": 5}}))
        run(plan, source, out, ScriptedEngine(echo, max_in_flight=2))
        found = {record["custom_id"]: record for record in records(out)}
        assert found["t"]["response"]["body"]["choices"][0]["text"] == "said: Once"
        assert found["t"]["response"]["body"]["object"] == "text_completion"
        assert found["bad"]["response"] is None
        assert found["bad"]["error"]["code"] == "invalid_line"

    def test_the_form_can_be_chosen(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        run(plan, write(tmp_path, '{"id": 7, "prompt": "a"}', "x"), out, ScriptedEngine(echo), format="openai")
        assert {record["custom_id"] for record in records(out)} == {"7", f"{tmp_path}/in.jsonl:2"}
        other = tmp_path / "other.jsonl"
        run(plan, str(DATA / "openai.jsonl"), other, ScriptedEngine(echo), format="speccli")
        assert [record["id"] for record in records(other)] == ["request-1", "request-2"]


def test_every_record_is_of_the_schema_that_the_command_shows(plan: Plan, tmp_path: Path, out: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="comes with vLLM")
    source = write(
        tmp_path,
        '{"prompt": "a", "n": 2, "metadata": 5}',
        "bad",
        '{"id": 1, "prompt": "b"}',
        (DATA / "openai.jsonl").read_text(),
    )
    run(plan, source, out, ScriptedEngine(echo, max_in_flight=2))
    schema = json.loads(jsonl.json_schema())
    assert len(records(out)) == 5
    for record in records(out):
        jsonschema.validate(record, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"id": "a"}, schema)


class TestOrder:
    def test_records_come_as_they_finish(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        assert self.order(plan, tmp_path, out, ordered=False) == ["bad", "b", "c", "d", "a"]

    def test_or_in_the_order_of_the_input(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        assert self.order(plan, tmp_path, out, ordered=True) == ["a", "b", "bad", "c", "d"]

    def order(self, plan: Plan, tmp_path: Path, out: Path, ordered: bool) -> list[str]:
        def answer(request: Request) -> Answer:
            return [Wrote("x")] * (9 if request.messages[-1].content == "slow" else 1)

        source = write(
            tmp_path, '{"id": "a", "prompt": "slow"}', '{"id": "b", "prompt": "x"}', '{"id": "bad"}', '{"id": "c", "prompt": "x"}',
            '{"id": "d", "prompt": "x"}',
        )  # fmt: skip
        run(plan, source, out, ScriptedEngine(answer, max_in_flight=3), ordered=ordered)
        return [str(record["id"]) for record in records(out)]

    def test_what_is_held_back_is_bounded(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        unwritten: list[int] = []
        asked = 0

        def answer(request: Request) -> Answer:
            nonlocal asked
            asked += 1
            unwritten.append(asked - len(records(out)))
            return [Wrote("x")] * (500 if request.messages[-1].content == "0" else 1)

        source = write(tmp_path, *(json.dumps({"prompt": str(number)}) for number in range(200)))
        assert run(plan, source, out, ScriptedEngine(answer, max_in_flight=2), ordered=True) == ExitCode.DONE
        assert [record["line"] for record in records(out)] == list(range(1, 201))
        assert max(unwritten) == 8


class TestEndings:
    def test_what_was_written_before_the_engine_died_is_whole(
        self, plan: Plan, tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        answers: Sequence[Answer] = [[Wrote("one")], [Wrote("tw"), Dies("out of memory")]]
        source = write(tmp_path, '{"prompt": "a"}', '{"prompt": "b"}')
        with pytest.raises(EngineFailed, match="out of memory"):
            run(plan, source, out, ScriptedEngine(answers))
        assert [record["text"] for record in records(out)] == ["one"]
        assert "the same command goes on from here" in capsys.readouterr().err
        assert run(plan, source, out, ScriptedEngine(echo)) == ExitCode.DONE
        assert [record["text"] for record in records(out)] == ["one", "said: b"]

    def test_ctrl_c_keeps_what_was_written_and_exits_130(
        self, plan: Plan, tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        engine = ScriptedEngine(interrupted_at("in.jsonl:2"))
        source = write(tmp_path, '{"prompt": "a"}', '{"prompt": "b"}')
        summary = tmp_path / "summary.json"
        assert run(plan, source, out, engine, summary=summary) == ExitCode.INTERRUPTED
        assert [record["text"] for record in records(out)] == ["said: a"]
        assert engine.closed
        assert "the same command goes on from here" in capsys.readouterr().err
        assert json.loads(summary.read_bytes())["is_complete"] is False

    def test_the_summary_counts_what_was_done(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        source = write(tmp_path, *['{"prompt": "one two"}'] * 10, "bad")
        summary = tmp_path / "summary.json"
        run(plan, source, out, ScriptedEngine(echo, max_in_flight=4), summary=summary)
        told = json.loads(summary.read_bytes())
        assert {key: told[key] for key in ("is_complete", "lines_done", "lines_failed", "lines_written_before", "prompt_tokens", "completion_tokens")} == {
            "is_complete": True, "lines_done": 10, "lines_failed": 1, "lines_written_before": 0, "prompt_tokens": 20, "completion_tokens": 50,
        }  # fmt: skip
        assert told["speculation"]["num_accepted_tokens_per_pos"] == [10, 10, 0]
        assert told["total_s"]["p50"] <= told["total_s"]["p99"]

    def test_an_empty_input_is_an_empty_output_and_starts_nothing(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        options = Options(sources=(write(tmp_path, ""),), output=out)
        assert batch(plan, options, View(), no_engine) == ExitCode.DONE
        assert out.read_bytes() == b""

    def test_bad_lines_alone_start_no_engine(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        options = Options(sources=(write(tmp_path, "bad", "worse"),), output=out)
        assert batch(plan, options, View(), no_engine) == ExitCode.FINDINGS
        assert len(records(out)) == 2

    def test_nothing_starts_when_the_output_cannot_be_written(self, plan: Plan, tmp_path: Path) -> None:
        options = Options(sources=(write(tmp_path, '{"prompt": "a"}'),), output=tmp_path / "no" / "out.jsonl")
        with pytest.raises(UsageError, match="cannot write"):
            batch(plan, options, View(), no_engine)

    def test_a_strict_run_refuses_bad_lines_before_anything_starts(self, tmp_path: Path, out: Path) -> None:
        source = write(tmp_path, '{"id": "a", "prompt": "x"}', "bad", '{"id": "a", "prompt": "y"}')
        with pytest.raises(UsageError) as caught:
            check(Options(sources=(source,), output=out, strict=True))
        assert caught.value.message.splitlines()[0] == "2 bad lines, nothing was started:"
        assert f'{source}:3: the id "a" is that of {source}:1 already' in caught.value.message
        assert not out.exists()

    def test_a_strict_run_cannot_read_stdin_twice(self) -> None:
        with pytest.raises(UsageError, match="--strict reads the input twice, which stdin does not allow"):
            check(Options(sources=("-",), strict=True))


class TestAdvice:
    """What a run that ended early, or with failed lines, says about going on."""

    def said(
        self, plan: Plan, source: str, out: Path | None, capsys: pytest.CaptureFixture[str], policy: jsonl.Policy
    ) -> str:
        run(plan, source, out, ScriptedEngine(interrupted_at(":3")), policy)
        return capsys.readouterr().err

    @pytest.mark.parametrize(
        ("policy", "how"),
        [
            (jsonl.Policy(), "the same command"),
            (jsonl.Policy(overwrite=True), "the same command without --overwrite"),
            (jsonl.Policy(resume=False), "the same command without --no-resume"),
            (jsonl.Policy(resume=False, overwrite=True), "the same command without --overwrite and --no-resume"),
        ],
    )
    def test_the_command_that_goes_on_is_named_and_does(
        self, plan: Plan, tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str], policy: jsonl.Policy, how: str
    ) -> None:
        source = write(tmp_path, '{"prompt": "1"}', "bad", '{"prompt": "3"}')
        said = self.said(plan, source, out, capsys, policy)
        assert f"\n{how} goes on from here\n" in said
        assert f"; with --retry-failed {how} answers them again\n" in said
        assert "leave each in its place and add --force: one without an id is known by its number" in said
        changed = msgspec.structs.replace(policy, overwrite=False, resume=None)
        assert run(plan, source, out, ScriptedEngine(echo), changed) == ExitCode.FINDINGS
        assert [record["line"] for record in records(out)] == [1, 2, 3]

    @pytest.mark.parametrize(
        ("policy", "how"),
        [
            (jsonl.Policy(), " with --resume, given the same lines,"),
            (jsonl.Policy(resume=True), ", given the same lines,"),
            (jsonl.Policy(resume=False), " without --no-resume but with --resume, given the same lines,"),
        ],
    )
    def test_stdin_needs_the_users_word_and_its_failed_lines_are_not_promised(
        self, plan: Plan, out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, policy: jsonl.Policy, how: str
    ) -> None:  # fmt: skip
        lines = b'{"prompt": "1"}\nbad\n{"prompt": "3"}\n'
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
        said = self.said(plan, "-", out, capsys, policy)
        assert f"\nthe same command{how} goes on from here\n" in said
        assert f'such lines have an "error" in {out}\n' in said
        assert "--retry-failed" not in said

    def test_a_run_to_stdout_promises_nothing(
        self, plan: Plan, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        said = self.said(plan, write(tmp_path, "bad", "worse", '{"prompt": "3"}'), None, capfd, jsonl.Policy())
        assert "a run goes on only from a file that -o names" in said
        assert "--retry-failed" not in said


class TestSummary:
    def test_one_that_cannot_be_written_is_refused_before_anything_starts(self, tmp_path: Path) -> None:
        source = write(tmp_path, '{"prompt": "a"}')
        with pytest.raises(UsageError, match=r"cannot write .*: its folder does not exist"):
            check(Options(sources=(source,), summary=tmp_path / "no" / "summary.json"))

    def test_a_folder_where_nothing_can_be_put_aside_is_refused_as_well(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = write(tmp_path, '{"prompt": "a"}')
        (tmp_path / "summary.json").touch()
        monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
        with pytest.raises(UsageError, match="may not be written to"):
            check(Options(sources=(source,), summary=tmp_path / "summary.json"))

    def test_somebody_elses_file_is_kept_and_an_own_one_replaced(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        source, summary = write(tmp_path, '{"prompt": "a"}'), tmp_path / "summary.json"
        for foreign in ("precious\n", "{}", "[" * 100_000):
            summary.write_text(foreign)
            with pytest.raises(UsageError, match=r"summary\.json exists already, and is no summary"):
                run(plan, source, out, ScriptedEngine(echo), summary=summary)
            assert summary.read_text() == foreign
        run(plan, source, out, ScriptedEngine(echo), jsonl.Policy(overwrite=True), summary=summary)
        assert json.loads(summary.read_bytes())["lines_done"] == 1
        run(plan, source, out, ScriptedEngine(echo), summary=summary)
        assert json.loads(summary.read_bytes())["lines_written_before"] == 1

    def test_a_device_takes_it(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        source, pipe = write(tmp_path, '{"prompt": "a"}'), tmp_path / "pipe"
        os.mkfifo(pipe)
        for device in (Path("/dev/null"), pipe):
            reader = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
            policy = jsonl.Policy(overwrite=True)
            assert run(plan, source, out, ScriptedEngine(echo), policy, summary=device) == ExitCode.DONE
            told = os.read(reader, 2**16)
            os.close(reader)
        assert json.loads(told)["lines_done"] == 1

    def test_one_that_fails_at_the_end_hides_nothing(
        self, plan: Plan, tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "gone").mkdir()
        summary = tmp_path / "gone" / "summary.json"

        def removing(request: Request) -> Answer:
            if summary.parent.exists():
                summary.parent.rmdir()
            return [Dies("out of memory")] if request.messages[-1].content == "die" else echo(request)

        source = write(tmp_path, '{"prompt": "die"}')
        with pytest.raises(EngineFailed, match="out of memory"):
            run(plan, source, out, ScriptedEngine(removing), summary=summary)
        said = capsys.readouterr().err
        assert f"cannot write {summary}: No such file or directory" in said
        assert "the same command goes on from here" in said
        summary.parent.mkdir()
        source = write(tmp_path, '{"prompt": "a"}')
        with pytest.raises(MachineError, match=r"cannot write .*: No such file or directory"):
            run(plan, source, out, ScriptedEngine(removing), jsonl.Policy(overwrite=True), summary=summary)
        assert len(records(out)) == 1


class TestPatterns:
    def test_the_same_command_goes_on_in_the_folder_that_it_writes_to(
        self, plan: Plan, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        write(tmp_path, '{"prompt": "a"}', "bad")
        named: dict[str, Any] = {"errors": Path("errors.jsonl"), "summary": Path("summary.jsonl")}
        for _ in range(3):
            assert run(plan, "*", Path("out.jsonl"), ScriptedEngine(echo), **named) == ExitCode.FINDINGS
            assert len(records(out)) == len(records(Path("errors.jsonl"))) == 1
        assert run(plan, "*", Path("out.jsonl"), ScriptedEngine(echo), jsonl.Policy(overwrite=True), **named)
        assert len(records(out)) == 1

    def test_an_input_that_was_named_as_output_by_mistake_is_kept(
        self, plan: Plan, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        source = Path(write(tmp_path, '{"prompt": "a"}'))
        other = Path(write(tmp_path, '{"prompt": "b"}', name="other.jsonl"))
        overwrite = jsonl.Policy(overwrite=True)
        with pytest.raises(UsageError, match="is the input itself"):
            run(plan, "*.jsonl", source, ScriptedEngine(echo), overwrite)
        run(plan, "other.jsonl", out, ScriptedEngine(echo))
        for place in ("errors", "summary"):
            with pytest.raises(UsageError, match="is the input itself"):
                run(plan, "*.jsonl", out, ScriptedEngine(echo), overwrite, **{place: other})
        assert other.read_text() == '{"prompt": "b"}\n'


def interrupted_at(ending: str) -> Any:
    def answer(request: Request) -> Answer:
        if request.id.endswith(ending):
            raise KeyboardInterrupt
        return echo(request)

    return answer


class TestResuming:
    def half(self, plan: Plan, tmp_path: Path, out: Path) -> str:
        """Two of three lines answered, the second refused; the third interrupted."""

        def answer(request: Request) -> Answer:
            return Refused("no") if request.id.endswith(":2") else interrupted_at(":3")(request)

        source = write(tmp_path, '{"id": "a", "prompt": "1"}', '{"id": "b", "prompt": "2"}', '{"prompt": "3"}')
        assert run(plan, source, out, ScriptedEngine(answer)) == ExitCode.INTERRUPTED
        return source

    def test_only_what_is_missing_is_done(
        self, plan: Plan, tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = self.half(plan, tmp_path, out)
        before = out.read_bytes()
        out.write_bytes(before + b'{"schema_ver')
        assert run(plan, source, out, ScriptedEngine([[Wrote("three")]])) == ExitCode.FINDINGS
        assert out.read_bytes().startswith(before)
        assert [record.get("text") for record in records(out)] == ["said: 1", None, "three"]
        said = capsys.readouterr().err
        assert "ended in a torn line of 12 bytes: cut off" in said
        assert "resuming: 2 lines have their record, 1 of them failed" in said

    def test_failed_lines_are_done_again_where_asked(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        source = self.half(plan, tmp_path, out)
        assert run(plan, source, out, ScriptedEngine(echo), jsonl.Policy(retry_failed=True)) == ExitCode.DONE
        assert [(record["id"], record["text"]) for record in records(out)] == [
            ("a", "said: 1"), ("b", "said: 2"), (f"{source}:3", "said: 3"),
        ]  # fmt: skip

    def test_a_run_that_is_complete_starts_nothing(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        source = write(tmp_path, '{"prompt": "a"}')
        run(plan, source, out, ScriptedEngine(echo))
        before = out.read_bytes()
        assert batch(plan, Options(sources=(source,), output=out), View(), no_engine) == ExitCode.DONE
        assert out.read_bytes() == before

    def test_other_settings_are_refused_with_the_difference(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        source = self.half(plan, tmp_path, out)
        before = out.read_bytes()
        other = msgspec.structs.replace(
            plan, profile=Profile(Settings(max_tokens=5, temperature=0.5), {}), engine_arguments={"dtype": "bfloat16"}
        )
        with pytest.raises(UsageError) as caught:
            run(other, source, out, ScriptedEngine(echo))
        assert caught.value.message.splitlines()[1:] == [
            "  dtype: float32 then, bfloat16 now", "  max_tokens: 16 then, 5 now", "  temperature: not set then, 0.5 now",
        ]  # fmt: skip
        assert out.read_bytes() == before
        assert run(other, source, out, ScriptedEngine(echo), jsonl.Policy(force=True)) == ExitCode.FINDINGS
        assert len(records(out)) == 3
        assert run(other, source, out, ScriptedEngine([])) == ExitCode.FINDINGS, "what was forced is remembered"

    def test_another_input_is_refused(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        source = self.half(plan, tmp_path, out)
        Path(source).write_text(Path(source).read_text() + '{"prompt": "4"}\n')
        with pytest.raises(UsageError, match=r"content of .*in\.jsonl: 70 bytes then, 86 now"):
            run(plan, source, out, ScriptedEngine(echo))
        other = write(tmp_path, '{"prompt": "x"}', name="other.jsonl")
        with pytest.raises(UsageError, match=r"inputs: .*in\.jsonl then, .*other\.jsonl now"):
            run(plan, other, out, ScriptedEngine(echo))

    def test_resuming_can_be_forbidden(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        source = self.half(plan, tmp_path, out)
        with pytest.raises(UsageError, match="exists already"):
            run(plan, source, out, ScriptedEngine(echo), jsonl.Policy(resume=False))

    def test_stdin_is_resumed_only_on_the_users_word(
        self, plan: Plan, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def piped() -> None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"prompt": "a"}\n{"prompt": "b"}\n')))

        piped()
        assert run(plan, "-", out, ScriptedEngine(interrupted_at(":2"))) == ExitCode.INTERRUPTED
        piped()
        with pytest.raises(UsageError, match="whether stdin is the input of that run cannot be seen"):
            run(plan, "-", out, ScriptedEngine(echo))
        piped()
        assert run(plan, "-", out, ScriptedEngine(echo), jsonl.Policy(resume=True)) == ExitCode.DONE
        assert [record["id"] for record in records(out)] == ["stdin:1", "stdin:2"]

    def test_several_files_are_one_run(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        sources = [write(tmp_path, '{"prompt": "a"}', name=f"{name}.jsonl") for name in "xyz"]
        assert run(plan, sources, out, ScriptedEngine(interrupted_at("y.jsonl:1"))) == ExitCode.INTERRUPTED
        assert run(plan, sources, out, ScriptedEngine(echo)) == ExitCode.DONE
        assert [Path(record["file"]).name for record in records(out)] == ["x.jsonl", "y.jsonl", "z.jsonl"]

    def test_failed_lines_done_again_leave_the_order_and_say_so(
        self, plan: Plan, tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def answer(request: Request) -> Answer:
            return Refused("no") if request.messages[-1].content == "1" else echo(request)

        source = write(tmp_path, '{"prompt": "1"}', '{"prompt": "2"}')
        run(plan, source, out, ScriptedEngine(answer), ordered=True)
        assert run(plan, source, out, ScriptedEngine(echo), jsonl.Policy(retry_failed=True), ordered=True) == 0
        assert [record["line"] for record in records(out)] == [2, 1]
        assert "not in the order of the input" in capsys.readouterr().err


class TestForeignFiles:
    def test_an_existing_file_is_kept_unless_overwriting_is_asked_for(
        self, plan: Plan, tmp_path: Path, out: Path
    ) -> None:
        out.write_text("precious\n")
        source = write(tmp_path, '{"prompt": "a"}')
        for policy in (jsonl.Policy(), jsonl.Policy(force=True), jsonl.Policy(resume=True, retry_failed=True)):
            with pytest.raises(UsageError, match="is no record of speccli batch" if policy.force else "exists already"):
                run(plan, source, out, ScriptedEngine(echo), policy)
        assert out.read_text() == "precious\n"
        run(plan, source, out, ScriptedEngine(echo), jsonl.Policy(overwrite=True))
        assert records(out)[0]["text"] == "said: a"

    def test_a_foreign_file_that_took_the_place_of_an_output_is_kept(
        self, plan: Plan, tmp_path: Path, out: Path
    ) -> None:
        source = write(tmp_path, '{"prompt": "a"}')
        run(plan, source, out, ScriptedEngine(echo))
        out.write_text('{"id": "not ours"}\n')
        with pytest.raises(UsageError, match=r"out\.jsonl:1 is no record of speccli batch"):
            run(plan, source, out, ScriptedEngine(echo))
        assert out.read_text() == '{"id": "not ours"}\n'

    @pytest.mark.parametrize("kind", ["itself", "symbolic link", "hard link"])
    @pytest.mark.parametrize("place", ["output", "errors", "summary"])
    def test_the_input_is_never_written(self, tmp_path: Path, kind: str, place: str) -> None:
        source = Path(write(tmp_path, '{"prompt": "a"}'))
        other = tmp_path / "other"
        if kind == "symbolic link":
            other.symlink_to(source)
        elif kind == "hard link":
            os.link(source, other)
        target = source if kind == "itself" else other
        with pytest.raises(UsageError, match="is the input itself"):
            check(Options(sources=(str(source),), policy=jsonl.Policy(overwrite=True), **{place: target}))  # type: ignore[arg-type]

    def test_the_file_beside_the_output_is_no_input_either(self, tmp_path: Path, out: Path) -> None:
        source = write(tmp_path, '{"prompt": "a"}', name="out.jsonl.run.json")
        with pytest.raises(UsageError, match="is the input itself"):
            check(Options(sources=(source,), output=out))

    def test_one_file_for_two_outputs_is_refused(self, tmp_path: Path, out: Path) -> None:
        source = write(tmp_path, '{"prompt": "a"}')
        with pytest.raises(UsageError, match="is named for two outputs"):
            check(Options(sources=(source,), output=out, summary=tmp_path / "x" / ".." / "out.jsonl"))

    def test_an_output_that_is_a_link_stays_one(self, plan: Plan, tmp_path: Path, out: Path) -> None:
        (tmp_path / "real").mkdir()
        out.symlink_to(tmp_path / "real" / "answers.jsonl")
        source = write(tmp_path, "bad", '{"prompt": "a"}')
        run(plan, source, out, ScriptedEngine(echo))
        run(plan, source, out, ScriptedEngine(echo), jsonl.Policy(retry_failed=True))
        assert out.is_symlink()
        assert len(records(tmp_path / "real" / "answers.jsonl")) == 2


class TestStreams:
    def test_stdin_to_stdout(
        self, plan: Plan, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id": 1, "prompt": "a"}\n')))
        assert run(plan, "-", None, ScriptedEngine(echo)) == ExitCode.DONE
        captured = capfdbinary.readouterr()
        assert [json.loads(line)["text"] for line in captured.out.splitlines()] == ["said: a"]
        assert b"1 done" in captured.err

    def test_a_device_is_an_output_that_remembers_nothing(self, plan: Plan, tmp_path: Path) -> None:
        source = write(tmp_path, '{"prompt": "a"}')
        for _ in range(2):
            assert run(plan, source, Path("/dev/null"), ScriptedEngine(echo)) == ExitCode.DONE

    def test_lines_are_answered_while_more_of_them_come(
        self, plan: Plan, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Slow(io.RawIOBase):
            """Gives the second line only when the first has its record."""

            def __init__(self) -> None:
                self.parts: Iterator[bytes] = self.lines()

            def lines(self) -> Iterator[bytes]:
                yield b'{"prompt": "a"}\n'
                yield b'{"prompt": "b"}\n'

            def readable(self) -> bool:
                return True

            def readinto(self, buffer: Any) -> int:
                part = next(self.parts, b"")
                buffer[: len(part)] = part
                return len(part)

        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Slow())))
        seen: list[int] = []

        def answer(request: Request) -> Answer:
            seen.append(len(records(out)))
            return echo(request)

        assert run(plan, "-", out, ScriptedEngine(answer)) == ExitCode.DONE
        assert seen == [0, 1]


def test_the_number_in_flight_can_be_limited(plan: Plan, tmp_path: Path, out: Path) -> None:
    most = 0
    flying: set[str] = set()

    def answer(request: Request) -> Answer:
        nonlocal most
        done = {f"{record['file']}:{record['line']}" for record in records(out)}
        flying.add(request.id)
        most = max(most, len(flying - done))
        return echo(request)

    source = write(tmp_path, *['{"prompt": "a"}'] * 20)
    run(plan, source, out, ScriptedEngine(answer, max_in_flight=16), max_in_flight=3)
    assert most == 3


def test_a_quiet_run_says_nothing(plan: Plan, tmp_path: Path, out: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = Options(sources=(write(tmp_path, '{"prompt": "a"}', "bad"),), output=out)
    batch(plan, options, View(quiet=True), lambda _: ScriptedEngine(echo))
    assert capfd.readouterr() == ("", "")
