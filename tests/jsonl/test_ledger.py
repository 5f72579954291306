"""Which lines have their record, and what is settled before the first is written."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from speccli import jsonl
from speccli.errors import UsageError
from speccli.jsonl import Defaults, Policy, RawLine
from speccli.jsonl.run import Run, remember, run_path
from tests.commands.example import example_plan

ANSWER = b'{"schema_version":1,"id":"a","text":"x"}\n'
FAILURE = b'{"schema_version":1,"id":"b","error":{"kind":"refused","message":"no"}}\n'


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def now(tmp_path: Path) -> Run:
    return jsonl.run_of(example_plan(tmp_path), (), "auto", False, False, None)


def settle(out: Path, run: Run, policy: Policy, errors: Path | None = None) -> list[str]:
    """Open and close a ledger; what was said."""
    said: list[str] = []
    with jsonl.open_ledger(out, errors, lambda: 1, lambda: run, policy, said.append):
        return said


def ids_of(*lines: str) -> list[str | int]:
    raw = [RawLine("q", number, line.encode()) for number, line in enumerate(lines, 1)]
    with closing(jsonl.Ids()) as ids:
        return [entry.source.id for entry in jsonl.missing(jsonl.read(raw, Defaults()), ids)]


@pytest.mark.parametrize(
    ("lines", "ids"),
    [
        (['{"id": "q:2", "prompt": "one"}', '{"prompt": "two"}'], ["q:2", "q:2+"]),
        (['{"id": "x", "prompt": "1"}', '{"id": "x", "prompt": "2"}', '{"id": "q:2", "prompt": "3"}'], ["x", "q:2", "q:3"]),
        (['{"id": "q:3", "prompt": "1"}', '{"id": "q:3+", "prompt": "2"}', "bad"], ["q:3", "q:3+", "q:3++"]),
        (['{"prompt": "1"}', '{"id": "q:1", "prompt": "2"}'], ["q:1", "q:2"]),
    ],
)  # fmt: skip
def test_no_two_records_have_one_id_whatever_the_lines_call_themselves(lines: list[str], ids: list[str]) -> None:
    assert ids_of(*lines) == ids


def test_an_id_in_a_message_moves_no_cursor() -> None:
    raw = [RawLine("q", number, b'{"id": "\\u001b[2J", "prompt": "a"}') for number in (1, 2)]
    with closing(jsonl.Ids()) as ids:
        _, again = jsonl.missing(jsonl.read(raw, Defaults()), ids)
    assert again.problem is not None
    assert again.problem.message == r'q:2: the id "\x1b[2J" is that of q:1 already'


@pytest.mark.parametrize("beside", [None, b"{}", b"broken"])
def test_an_output_whose_run_is_not_remembered_is_gone_on_with_where_that_is_forced(
    out: Path, now: Run, beside: bytes | None
) -> None:
    out.write_bytes(ANSWER)
    if beside is not None:
        run_path(out).write_bytes(beside)
    for policy in (Policy(), Policy(resume=True)):
        with pytest.raises(UsageError) as caught:
            settle(out, now, policy)
        assert "--force" in caught.value.hint
    said = settle(out, now, Policy(force=True))
    assert out.read_bytes() == ANSWER
    assert said[-1] == "resuming: 1 lines have their record"
    assert "a line without an id is known by its file and number" in said[0]
    settle(out, now, Policy())


@pytest.mark.parametrize(
    "content", [b"precious\n", b'{"a": "file in one line"}', b'{"custom_id": "c", "url": "/", "body": {}}\n']
)
@pytest.mark.parametrize("policy", [Policy(force=True), Policy(force=True, retry_failed=True)])
def test_a_run_that_is_refused_changes_nothing(out: Path, now: Run, content: bytes, policy: Policy) -> None:
    errors = out.with_name("errors")
    before = {out: ANSWER + FAILURE + ANSWER[:9], errors: content}
    for path, there in before.items():
        path.write_bytes(there)
    other = msgspec.structs.replace(now, max_model_len=5)
    remember(other, out)
    before[run_path(out)] = run_path(out).read_bytes()
    with pytest.raises(UsageError, match="errors:1 is no record of speccli batch"):
        settle(out, now, policy, errors)
    assert {path: path.read_bytes() for path in before} == before


def test_what_is_forced_is_said(out: Path, now: Run) -> None:
    out.write_bytes(ANSWER)
    remember(msgspec.structs.replace(now, max_model_len=5), out)
    said = settle(out, now, Policy(force=True))
    assert said == ["going on all the same: max_model_len: 5 then, 1024 now", "resuming: 1 lines have their record"]


def test_somebody_elses_file_beside_a_new_output_is_kept(out: Path, now: Run) -> None:
    run_path(out).write_text("{}")
    for policy in (Policy(), Policy(force=True)):
        with pytest.raises(UsageError, match=r"out\.run\.json does not tell of a run") as caught:
            settle(out, now, policy)
        assert "--overwrite" in caught.value.hint
    assert run_path(out).read_text() == "{}"
    settle(out, now, Policy(overwrite=True))
    assert json.loads(run_path(out).read_bytes())["target"] == "tiny"


def test_the_file_that_was_torn_is_named(out: Path, now: Run) -> None:
    errors = out.with_name("errors")
    out.write_bytes(ANSWER)
    errors.write_bytes(FAILURE + FAILURE[:9])
    remember(now, out)
    assert settle(out, now, Policy(), errors)[0] == f"{errors} ended in a torn line of 9 bytes: cut off"
    assert errors.read_bytes() == FAILURE


def test_an_order_that_cannot_be_kept_is_said(out: Path, now: Run) -> None:
    ordered = msgspec.structs.replace(now, ordered=True)
    for there, is_said in ((FAILURE + ANSWER, True), (ANSWER, False)):
        out.write_bytes(there)
        remember(ordered, out)
        said = settle(out, ordered, Policy(retry_failed=True))
        assert out.read_bytes() == ANSWER
        assert any("not in the order of the input" in line for line in said) is is_said


def test_a_device_that_cannot_be_opened_is_one_message(
    tmp_path: Path, now: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("speccli.jsonl.output.os.open", refuse)
    with pytest.raises(UsageError, match="cannot write /dev/null: Permission denied"):
        settle(Path("/dev/null"), now, Policy())
