"""`speccli bench` as its user sees it, measured on scripted engines."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from speccli.bench.cells import Cell, Event, Failed, Finished, Job
from speccli.bench.child import perform
from speccli.commands.bench import Asked, bench
from speccli.engine import Request
from speccli.engine.scripted import Answer, Refused, ScriptedEngine, Wrote
from speccli.errors import EngineFailed, ExitCode, UsageError
from speccli.plan import Plan
from speccli.profile import Settings
from speccli.view import View
from tests.bench.example import plan_of, write

TWO = ('{"id": "a", "category": "chat", "prompt": "one"}', '{"id": "b", "category": "code", "prompt": "two"}')


class Machine:
    """Measures in this process. Its clock gives plain decoding a token a second, and speculation two."""

    def __init__(self) -> None:
        self.measured: list[tuple[str, Cell]] = []
        self.now_s = 0.0
        self.interrupt_after: int | None = None
        self.broken: tuple[str, ...] = ()
        self.refusing: tuple[str, ...] = ()
        self.started: list[str] = []

    def __call__(self, job: Job) -> Iterator[Event]:
        method = job.plan.pairing.method
        for event in perform(job, lambda plan: self._engine(plan)):
            if isinstance(event, Finished):
                if len(self.measured) == self.interrupt_after:
                    raise KeyboardInterrupt
                self.measured.append((method, event.result.cell))
            yield event

    def _engine(self, plan: Plan) -> ScriptedEngine:
        method = plan.pairing.method
        self.started.append(method)
        if method in self.broken:
            raise EngineFailed(f"the engine did not start:\n  no package for {method}", "install it")

        def clock() -> float:
            self.now_s += 1.0
            return self.now_s

        def answer(request: Request) -> Answer:
            if method in self.refusing:
                return Refused("it is too long")
            if method == "none":
                return [Wrote("a"), Wrote("b"), Wrote("c")]
            return [Wrote("a"), Wrote("bc", tokens=2, drafted=4, accepted=1)]

        return ScriptedEngine(answer, max_in_flight=99, clock=clock)


Run = Callable[..., ExitCode]


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def run(machine: Machine, tmp_path: Path) -> Run:
    """A bench of two prompts on that machine."""
    prompts = write(tmp_path, *TWO)

    def go(typed: Settings = Settings(), **asked: Any) -> ExitCode:  # noqa: B008 - frozen
        given = {"prompts": prompts, "methods": "ngram", "output": tmp_path / "bench.json", **asked}
        return bench(Asked(**given), typed, plan_of, View(), machine)

    return go


def test_plain_decoding_comes_first_and_each_way_has_all_its_cells(run: Run, machine: Machine) -> None:
    assert run(methods="ngram:2,medusa", batch_sizes="4,1", repeats=2) == ExitCode.DONE
    cells = [Cell(1, 1), Cell(1, 4), Cell(2, 1), Cell(2, 4)]
    assert machine.measured == [(method, cell) for method in ("none", "ngram", "medusa") for cell in cells]


def test_the_table_is_on_stdout_and_the_narration_on_stderr(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == ExitCode.DONE
    captured = capsys.readouterr()
    assert "batch 1: ngram k=4 is fastest, 2.00 times plain decoding" in captured.out
    assert "[1/6] plain: batch 1, repeat 1: 1.0 tokens/s" in captured.err
    assert "[6/6] ngram k=4: batch 1, repeat 3: 2.0 tokens/s" in captured.err
    assert "bench.json" in captured.err
    assert "bench.json" not in captured.out


def test_json_has_every_figure(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run(as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["schema_version"], told["is_complete"], told["failures"]) == (1, True, [])
    assert told["settings"]["engine.enable_prefix_caching"] is False
    found = {(one["way"], one["category"]): one for one in told["results"]}
    assert set(found) == {(way, category) for way in ("plain", "ngram k=4") for category in ("all", "chat", "code")}
    ngram = found["ngram k=4", "chat"]
    assert ngram["decode_tokens_per_s"] == {"median": 2.0, "low": 2.0, "high": 2.0}
    assert ngram["speedup"] == {"median": 2.0, "low": 2.0, "high": 2.0}
    assert ngram["verdict"] == "faster"
    assert ngram["inter_token_latency_s"] == {"p50": 1.0, "p90": 1.0, "p99": 1.0}
    assert ngram["acceptance"]["mean_acceptance_length"] == 2.0
    assert ngram["acceptance"]["acceptance_rate_per_pos"] == [1.0, 0.0, 0.0, 0.0]
    assert found["plain", "chat"]["acceptance"]["num_drafts"] == 0


def test_csv_and_plot_are_written_beside_the_table(run: Run, tmp_path: Path) -> None:
    run(csv=tmp_path / "bench.csv", plot=tmp_path / "bench.svg")
    with (tmp_path / "bench.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 6
    assert lines[1]["way"] == "ngram k=4"
    assert lines[1]["decode_tokens_per_s.median"] == "2.0"
    assert (lines[0]["speedup.median"], lines[1]["speedup.median"]) == ("", "2.0")
    assert "speedup" not in lines[0]
    assert lines[1]["acceptance.acceptance_rate_per_pos"] == "1.0 0.0 0.0 0.0"
    assert (tmp_path / "bench.svg").read_text().startswith("<svg")


def test_an_interrupted_bench_keeps_what_is_finished_and_the_same_command_goes_on(
    run: Run, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.interrupt_after = 4
    assert run() == ExitCode.INTERRUPTED
    captured = capsys.readouterr()
    assert "4 of 6 measurements are done; the same command with --resume goes on" in captured.err
    assert "plain" in captured.out, "the table so far"
    machine.interrupt_after = None
    assert run(resume=True) == ExitCode.DONE
    assert machine.measured == [(way, Cell(repeat, 1)) for way in ("none", "ngram") for repeat in (1, 2, 3)]
    assert "batch 1: ngram k=4 is fastest" in capsys.readouterr().out


def test_a_finished_bench_is_shown_again_without_measuring(
    run: Run, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    first = capsys.readouterr().out
    machine.measured.clear()
    assert run(resume=True) == ExitCode.DONE
    assert machine.measured == []
    assert capsys.readouterr().out == first


def test_another_way_or_repeat_may_join_later(run: Run, machine: Machine) -> None:
    run(repeats=1)
    machine.measured.clear()
    run(resume=True, repeats=2, methods="ngram,ngram:2")
    assert machine.measured == [
        ("none", Cell(2, 1)),
        ("ngram", Cell(2, 1)),
        ("ngram", Cell(1, 1)),
        ("ngram", Cell(2, 1)),
    ]


def test_results_of_other_settings_are_not_mixed(run: Run, machine: Machine) -> None:
    run(repeats=1)
    machine.measured.clear()
    with pytest.raises(UsageError, match=r"dtype was float32 and is bfloat16; engine.dtype was"):
        run(Settings(dtype="bfloat16"), resume=True)
    with pytest.raises(UsageError, match=r"engine\.max_num_seqs \(the largest of --batch-sizes\) was 1 and is 4"):
        run(resume=True, batch_sizes="1,4")
    assert machine.measured == []


def test_other_prompts_are_other_settings(run: Run, tmp_path: Path) -> None:
    run(repeats=1)
    (tmp_path / "prompts.jsonl").write_text(TWO[0])
    with pytest.raises(UsageError, match="num_prompts was 2 and is 1; prompts_sha256 was"):
        run(resume=True)


def test_a_way_that_cannot_be_had_or_does_not_start_is_a_row_and_the_others_go_on(
    run: Run, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.broken = ("suffix",)
    assert run(methods="eagle,suffix,ngram", repeats=1) == ExitCode.FINDINGS
    assert [method for method, _ in machine.measured] == ["none", "ngram"]
    out = capsys.readouterr().out
    assert "eagle: not measured: method eagle needs a speculator" in out
    assert "suffix k=4: not measured: the engine did not start: no package for suffix" in out
    assert "ngram k=4" in out


def test_an_engine_that_does_not_start_is_explained_by_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "engine.log"
    log.write_text("ValueError: Following weights were not initialized from checkpoint: {'token_map'}\n")

    def fails(job: Job) -> Iterator[Event]:
        yield Failed("the engine did not start", log=str(log))

    asked = Asked(prompts=write(tmp_path, *TWO), methods="ngram", repeats=1, output=tmp_path / "bench.json")
    assert bench(asked, Settings(), plan_of, View(), fails) == ExitCode.FINDINGS
    told = capsys.readouterr().err
    assert "the engine did not start: vLLM misses the token_map that it has read" in told
    assert "enable_weights_track" in told
    assert "speccli doctor explain crash.medusa-weights-track" in told


def test_a_plain_run_that_cannot_be_is_the_users_to_mend(tmp_path: Path, machine: Machine) -> None:
    def prepare(settings: Settings) -> Plan:
        raise UsageError("no checkpoint is called 'x'")

    with pytest.raises(UsageError, match="no checkpoint"):
        bench(Asked(prompts=write(tmp_path, *TWO)), Settings(), prepare, View(), machine)


def test_greedy_answers_that_differ_are_told(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """The scripted engine numbers the tokens of each step from 0 on."""
    run(repeats=1)
    assert (
        "batch 1, ngram k=4: 2 of 2 greedy answers are not those of plain decoding; the first is 'a', from token 3 on"
    ) in " ".join(capsys.readouterr().out.split())


def test_a_file_that_cannot_be_written_is_told_before_an_engine_starts(
    run: Run, machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*folder: it is a folder"):
        run(output=tmp_path / "folder", overwrite=True)
    assert machine.measured == []
    assert [file.name for file in tmp_path.glob(".*")] == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"batch_sizes": "1,x"}, "--batch-sizes is '1,x'"),
        ({"batch_sizes": "0"}, "--batch-sizes is '0'"),
        ({"repeats": 0}, "--repeats is 0"),
        ({"limit": 0}, "--limit is 0"),
        ({"csv": Path("/nowhere/at/all.csv")}, "cannot write /nowhere/at/all.csv"),
        ({"output": Path("/nowhere/at/all.json")}, "cannot write /nowhere/at/all.json: its folder does not exist"),
        ({"csv": Path("/")}, "cannot write /: it is a folder"),
        ({"output": Path("x.json"), "csv": Path("./x.json")}, "x.json is named for two outputs"),
        ({"csv": Path("x"), "plot": Path("x")}, "x is named for two outputs"),
        ({"methods": "ngrm"}, "no method and no speculator is called 'ngrm'"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_prepared(
    asked: dict[str, Any], said: str, machine: Machine
) -> None:
    def prepare(settings: Settings) -> Plan:
        raise AssertionError("it was prepared")

    with pytest.raises(UsageError, match=said.replace("'", ".")):
        bench(Asked(**asked), Settings(), prepare, View(), machine)


def test_a_prompt_that_plain_decoding_is_refused_ends_the_bench(run: Run, machine: Machine) -> None:
    machine.refusing = ("none",)
    with pytest.raises(UsageError, match="prompt a was refused: it is too long"):
        run(methods="ngram,medusa")
    assert machine.started == ["none"]


def test_a_prompt_that_one_way_is_refused_ends_that_way(run: Run, machine: Machine) -> None:
    machine.refusing = ("ngram",)
    assert run(methods="ngram,medusa", repeats=1) == ExitCode.FINDINGS
    assert [method for method, _ in machine.measured] == ["none", "medusa"]


def test_interrupted_before_anything_is_measured_it_writes_nothing(
    run: Run, machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.csv").write_text("of another run")
    machine.interrupt_after = 0
    assert run(csv=tmp_path / "old.csv") == ExitCode.INTERRUPTED
    assert (tmp_path / "old.csv").read_text() == "of another run"
    assert capsys.readouterr().out == ""


def test_what_cannot_be_written_in_the_end_does_not_hide_the_table(
    run: Run, machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bench.csv").symlink_to("/dev/full")
    assert run(csv=tmp_path / "bench.csv") == ExitCode.DONE
    captured = capsys.readouterr()
    assert "ngram k=4 is fastest" in captured.out
    assert f"cannot write {tmp_path}/bench.csv: No space left on device" in captured.err
    assert "results are kept in" in captured.err


def test_two_speculators_with_one_name_are_two_ways(
    tmp_path: Path, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepare(settings: Settings) -> Plan:
        plan = plan_of(settings)
        if settings.speculator is None:
            return plan
        arguments = {**plan.engine_arguments}
        arguments["speculative_config"] = {**arguments["speculative_config"], "model": settings.speculator}
        pairing = msgspec.structs.replace(plan.pairing, speculator=settings.speculator)
        return msgspec.structs.replace(plan, pairing=pairing, engine_arguments=arguments)

    asked = Asked(prompts=write(tmp_path, *TWO), methods="eagle3=./one/head:2,eagle3=./two/head:2", repeats=1)
    assert bench(asked, Settings(), prepare, View(), machine) == ExitCode.DONE
    assert [method for method, _ in machine.measured] == ["none", "eagle3", "eagle3"]
    out = capsys.readouterr().out
    assert "eagle3 head k=2 " in out
    assert "eagle3 ./two/head k=2 " in out


def test_a_failure_in_the_middle_keeps_what_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = Machine()

    def measure(job: Job) -> Iterator[Event]:
        events = list(machine(job))
        yield from events[:2] if job.plan.pairing.is_speculative else events
        if job.plan.pairing.is_speculative:
            yield Failed("its process ended with SIGKILL")

    asked = Asked(prompts=write(tmp_path, *TWO), methods="ngram")
    assert bench(asked, Settings(), plan_of, View(), measure) == ExitCode.FINDINGS
    out = capsys.readouterr().out
    assert "ngram k=4: not measured to the end: its process ended with SIGKILL" in out
    assert "? fewer than 3 repeats" in out
