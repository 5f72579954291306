"""The command line's contract: stdout, stderr, exit codes, one message and one hint."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from speccli import __version__, cli
from speccli.engine import Engine
from speccli.engine.scripted import ScriptedEngine, Wrote
from speccli.errors import MEANINGS, ExitCode, SpeccliError
from speccli.plan import Plan

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def test_version(run_speccli: Run) -> None:
    done = run_speccli("--version")
    assert (done.returncode, done.stdout) == (0, f"speccli {__version__}\n".encode())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chat", "Hello", "--method", "ngrm"], "no method is called 'ngrm'"),
        (["chat", "Hello", "--temperature", "hot"], "Invalid value for '--temperature'"),
        (["chat", "Hello", "--nonsense"], "No such option: --nonsense"),
        (["chat", "Hello", "--no-spec", "--method", "ngram"], "--no-spec and --method ngram contradict each other"),
        (["doctor", "--no-spec", "-k", "3"], "--no-spec and -k contradict each other"),
        (["pull", "--no-spec", "--speculator", "ngram"], "--no-spec and --speculator contradict each other"),
        (["doctor", "--method", "none", "-k", "3"], "--method none and -k contradict each other"),
        (["doctor", "--log", "x", "explain", "env.python"], "--log cannot be given with doctor explain"),
        (["doctor", "--log", "x", "--fix", "--target", "y"], "--fix and --target cannot be given with --log"),
        (["doctor", "--log", ""], "--log is given no name"),
        (["doctor", "--stats", ""], "--stats is given no name"),
        (["doctor", "--metrics", ""], "--metrics is given no name"),
        (["chat", "Hello", "--target", ""], "`target` must be text that is not empty"),
        (["chat", "Hello", "-k", "0"], "num_speculative_tokens is 0"),
        (["chat", "Hello", "-k", "99"], "num_speculative_tokens is 99"),
        (["chat", "Hello", "--target", "smolm2-135m"], "did you mean `smollm2-135m`?"),
        (["chat", "Hello", "--profile", "nowhere.yaml"], "cannot read nowhere.yaml"),
        (["chat", "Hello", "--hardware", "h1000"], "did you mean"),
        (["batch"], "Missing argument 'INPUT'"),
        (["frobnicate"], "No such command 'frobnicate'"),
    ],
)
def test_a_wrong_command_line_exits_2_with_one_message_on_stderr(
    run_speccli: Run, arguments: list[str], said: str
) -> None:
    done = run_speccli(*arguments)
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == b""
    assert said in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_an_input_that_does_not_exist_is_named_before_anything_starts(run_speccli: Run, embedded_default: Path) -> None:
    done = run_speccli("batch", "nowhere.jsonl")
    assert done.returncode == ExitCode.USAGE
    assert "speccli: error: cannot read nowhere.jsonl: No such file or directory\nhint: " in done.stderr.decode()


def test_an_error_that_quotes_what_was_typed_does_not_command_the_terminal(run_speccli: Run) -> None:
    done = run_speccli("chat", "Hello", "--target", "\x1b[2Jx")
    assert done.stderr.startswith(b"speccli: error: no checkpoint is called '")
    assert b"\x1b" not in done.stderr


def test_debug_brings_the_traceback(run_speccli: Run) -> None:
    done = run_speccli("chat", "Hello", "-k", "0", SPECCLI_DEBUG="1")
    assert "Traceback" in done.stderr.decode()
    assert done.returncode == ExitCode.USAGE


@pytest.mark.parametrize("value", ["0", "false", "No", ""])
def test_debug_can_be_off(value: str, run_speccli: Run) -> None:
    assert b"Traceback" not in run_speccli("doctor", "-k", "0", SPECCLI_DEBUG=value).stderr


def test_json_before_a_subcommand_of_doctor_counts(run_speccli: Run) -> None:
    assert run_speccli("doctor", "--json", "explain", "env.python").stdout.startswith(b'{"id":"env.python",')


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)


def test_every_error_has_an_exit_code_of_its_own_kind() -> None:
    codes = {kind.__name__: kind.exit_code for kind in SpeccliError.__subclasses__()}
    assert codes == {"UsageError": 2, "MachineError": 3, "CheckpointError": 4, "EngineFailed": 1}


def test_a_reader_that_leaves_early_gets_no_traceback(tmp_path: Path) -> None:
    import sys

    done = subprocess.run(
        f"{sys.executable} -m speccli doctor --offline | head -c 1",
        shell=True,
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.stderr == b""


class TestPrecedence:
    """Typed over environment over --profile over the user's file, as the run itself tells."""

    def run(self, run_speccli: Run, *arguments: str, **environment: str) -> str:
        done = run_speccli("chat", "Hello", *arguments, **environment)
        assert done.returncode == ExitCode.USAGE
        return done.stderr.decode()

    @pytest.fixture(autouse=True)
    def files(self, tmp_path: Path) -> None:
        (tmp_path / "config" / "speccli").mkdir(parents=True)
        (tmp_path / "config" / "speccli" / "config.yaml").write_text("num_speculative_tokens: -1\n")
        (tmp_path / "run.yaml").write_text("num_speculative_tokens: -2\n")

    def test_the_users_file(self, run_speccli: Run) -> None:
        assert "num_speculative_tokens is -1" in self.run(run_speccli)

    def test_the_named_profile_goes_over_it(self, run_speccli: Run) -> None:
        assert "num_speculative_tokens is -2" in self.run(run_speccli, "--profile", "run.yaml")

    def test_the_environment_goes_over_both(self, run_speccli: Run) -> None:
        said = self.run(run_speccli, "--profile", "run.yaml", SPECCLI_NUM_SPECULATIVE_TOKENS="-3")
        assert "num_speculative_tokens is -3" in said

    def test_what_is_typed_goes_over_all(self, run_speccli: Run) -> None:
        said = self.run(run_speccli, "--profile", "run.yaml", "-k", "-4", SPECCLI_NUM_SPECULATIVE_TOKENS="-3")
        assert "num_speculative_tokens is -4" in said

    def test_an_unknown_variable_is_refused_with_the_nearest_spelling(self, run_speccli: Run) -> None:
        said = self.run(run_speccli, SPECCLI_TARGT="x")
        assert "did you mean" in said
        assert "target" in said


@pytest.mark.parametrize(
    ("options", "method"), [((), "none"), (("--max-in-flight", "4"), "eagle3"), (("--method", "ngram"), "ngram")]
)
def test_a_batch_on_a_processor_speculates_where_that_is_faster(
    options: tuple[str, ...], method: str, embedded_default: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Plan] = []

    def open_engine(plan: Plan) -> Engine:
        plans.append(plan)
        return ScriptedEngine(lambda request: [Wrote("Paris")])

    monkeypatch.setattr(cli, "_open_engine", lambda view: open_engine)
    (tmp_path / "in.jsonl").write_text('{"prompt": "Which city is the capital of France?"}\n')
    arguments = [str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "out.jsonl"), "--hardware", "cpu", *options]
    cli.app(["batch", *arguments], standalone_mode=False)
    assert [plan.pairing.method for plan in plans] == [method]
