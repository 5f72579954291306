"""`speccli doctor` after the fact: --log, --last, --stats, --metrics, explain, and the message of an engine that failed."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from speccli import cli
from speccli.commands.explain import after_the_fact, explain_id
from speccli.diagnose.failures.failed import explained
from speccli.engine.log import new_log
from speccli.errors import EngineFailed, ExitCode, SpeccliError, UsageError
from tests.diagnose.failures.logs import crashed, ready, started

TOO_LONG = (
    "ValueError: To serve at least one request with the model's max seq len (262144), (1.93 GiB KV cache is needed, which is larger than the "
    "available KV cache memory (1.88 GiB). Based on the available memory, the estimated maximum model length is 251136."
)
Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "engine.log"
    file.write_text(crashed(TOO_LONG))
    return file


def test_a_log_is_explained_for_people(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert after_the_fact(str(log), False, None, None, False) is ExitCode.FINDINGS
    out = capsys.readouterr().out
    assert "the context does not fit" in out
    assert "why: 1.93 GiB of KV cache for one request, and 1.88 GiB are left" in " ".join(out.split())
    assert "fix: --max-model-len 251136" in out
    assert out.endswith("More about it: speccli doctor explain crash.kv-cache-too-small\n")
    assert "\x1b" not in out


def test_a_log_is_explained_for_programs(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert after_the_fact(str(log), False, None, None, True) is ExitCode.FINDINGS
    report = json.loads(capsys.readouterr().out)
    assert (report["schema_version"], report["exit_code"]) == (1, 1)
    finding = report["findings"][0]
    assert (finding["id"], finding["severity"], finding["group"]) == ("crash.kv-cache-too-small", "error", "Log")
    assert finding["figures"] == {
        "asked_tokens": 262144,
        "needed_gib": 1.93,
        "available_gib": 1.88,
        "limit_tokens": 251136,
    }
    assert finding["settings"] == {"max_model_len": 251136}
    assert finding["text"] in log.read_text().splitlines()[finding["line"] - 1]
    assert finding["cause"]
    assert "251136" in finding["fix"]
    assert report["run"]["model"] == "acme/llama-8b"


def test_a_healthy_log_is_exit_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text(started() + ready())
    assert after_the_fact(str(tmp_path / "log"), False, None, None, False) is ExitCode.DONE
    assert "none found in 6 lines" in capsys.readouterr().out
    assert after_the_fact(str(tmp_path / "log"), False, None, None, True) is ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_a_log_comes_from_stdin_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert after_the_fact("-", False, None, None, True, io.BytesIO(b"Killed\n")) is ExitCode.FINDINGS
    assert json.loads(capsys.readouterr().out)["findings"][0]["id"] == "crash.killed"


def test_a_log_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*: No such file"):
        after_the_fact(str(tmp_path / "no.log"), False, None, None, False)
    with pytest.raises(UsageError, match="Is a directory"):
        after_the_fact(str(tmp_path), False, None, None, False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (bytes(range(256)) * 4, "is no text"),
        ("all is well\n".encode("utf-16-le"), "is no text"),
        (gzip.compress(b"all is well\n" * 50)[:30], "cannot read"),
        (gzip.compress(b""), "is empty"),
        (gzip.compress(bytes(512)), "is no text"),
    ],
)
def test_a_log_that_cannot_be_read_is_not_called_healthy(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(content)
    with pytest.raises(UsageError, match=said):
        after_the_fact(str(tmp_path / "log"), False, None, None, False)


@pytest.mark.parametrize(
    "packed", [gzip.compress(b"Killed\n"), gzip.compress("Killed\n".encode("utf-16")), "Killed\n".encode("utf-16")]
)
def test_a_packed_log_and_one_in_utf_16_are_read(
    packed: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_bytes(packed)
    for name, stdin in ((str(tmp_path / "log"), None), ("-", io.BytesIO(packed))):
        assert after_the_fact(name, False, None, None, True, stdin) is ExitCode.FINDINGS
        assert json.loads(capsys.readouterr().out)["findings"][0]["id"] == "crash.killed"


def test_a_closed_stdin_matters_only_where_it_is_to_be_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert after_the_fact(str(log), False, None, None, True) is ExitCode.FINDINGS
    with pytest.raises(UsageError, match="stdin: it is closed"):
        after_the_fact("-", False, None, None, True)


def test_a_log_may_have_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.log")
    Path(name).write_text("Killed\n")
    for as_json in (True, False):
        assert after_the_fact(name, False, None, None, as_json) is ExitCode.FINDINGS
        assert "\ufffd.log" in capsys.readouterr().out


@pytest.mark.parametrize("option", range(3))
def test_an_empty_name_is_a_usage_error(option: int) -> None:
    log, stats, metrics = ("" if option == one else None for one in range(3))
    with pytest.raises(UsageError, match="is given no name"):
        after_the_fact(log, False, stats, metrics, False)


def test_two_questions_at_once_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--log and --stats"):
        after_the_fact("a", False, "b", None, False)


def test_the_last_log_is_speccli_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="no log of an engine yet"):
        after_the_fact(None, True, None, None, False)
    new_log().write_text(crashed(TOO_LONG))
    assert after_the_fact(None, True, None, None, True) is ExitCode.FINDINGS
    assert json.loads(capsys.readouterr().out)["findings"][0]["id"] == "crash.kv-cache-too-small"


def test_a_log_that_shows_failing_speculation_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "(APIServer pid=1) INFO 11-29 18:50:00 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 1.00, Accepted throughput: 0.00 tokens/s, "
        "Drafted throughput: 5.37 tokens/s, Accepted: 0 tokens, Drafted: 300 tokens, Per-position acceptance rate: 0.000, 0.000, 0.000, Avg Draft acceptance rate: 0.0%\n"
    )
    (tmp_path / "log").write_text(started() + ready() + line)
    assert after_the_fact(str(tmp_path / "log"), False, None, None, True) is ExitCode.FINDINGS
    assert [finding["id"] for finding in json.loads(capsys.readouterr().out)["findings"]] == ["run.nothing-accepted"]


SPECULATION = {
    "num_drafts": 100,
    "num_draft_tokens": 400,
    "num_accepted_tokens": 136,
    "num_accepted_tokens_per_pos": [70, 40, 20, 6],
}


def test_statistics_of_a_chat_are_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "chat.json").write_text(
        json.dumps({"method": "eagle3", "num_speculative_tokens": 4, "speculation": SPECULATION})
    )
    assert after_the_fact(None, False, str(tmp_path / "chat.json"), None, True) is ExitCode.FINDINGS
    report = json.loads(capsys.readouterr().out)
    assert report["acceptance"]["mean_acceptance_length"] == 2.36
    assert report["acceptance_rate_per_pos"] == [0.7, 0.4, 0.2, 0.06]
    assert [(finding["id"], finding["fix"]) for finding in report["findings"]][1] == ("run.k-too-large", "-k 3")


def test_statistics_of_a_batch_are_judged_though_its_last_line_was_cut_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.dumps({"id": 1, "text": "a", "speculation": SPECULATION})
    (tmp_path / "out.jsonl").write_text(f'{whole}\n{whole}\n{{"id": 3, "te')
    after_the_fact(None, False, str(tmp_path / "out.jsonl"), None, False)
    assert "272 of 800 tokens in 200 drafts" in " ".join(capsys.readouterr().out.split())


def test_a_file_without_statistics_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    with pytest.raises(UsageError, match="holds no statistics"):
        after_the_fact(None, False, str(tmp_path / "x"), None, False)
    with pytest.raises(UsageError, match="holds no statistics"):
        after_the_fact(None, False, None, str(tmp_path / "x"), False)


def test_metrics_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "metrics").write_text(
        "vllm:spec_decode_num_drafts_total 352.0\nvllm:spec_decode_num_draft_tokens_total 1056.0\nvllm:spec_decode_num_accepted_tokens_total 680.0\n"
    )
    assert after_the_fact(None, False, None, str(tmp_path / "metrics"), True) is ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["acceptance"]["draft_acceptance_rate"] == 0.6439


class Metrics(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response({"/metrics": 200, "/moved/metrics": 307}.get(self.path, 404))
        self.send_header("Location", "/metrics")
        self.end_headers()
        self.wfile.write(b"vllm:generation_tokens_total 500.0\n")

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
        """Nothing on stderr."""


def test_metrics_come_from_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    with HTTPServer(("127.0.0.1", 0), Metrics) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        codes = [after_the_fact(None, False, None, address + end, True) for end in ("", "/", "/metrics", "/moved")]
        codes.append(after_the_fact(None, False, None, address.replace("http", "HTTP"), True))
        server.shutdown()
        thread.join()
    assert codes == [ExitCode.FINDINGS] * 5
    assert json.loads(capsys.readouterr().out.splitlines()[0])["findings"][0]["id"] == "run.no-drafts"
    with pytest.raises(SpeccliError, match="does not answer"):
        after_the_fact(None, False, None, address, True)


class Trickling(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(100):
                self.wfile.write(b"x")
                time.sleep(0.1)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
        """Nothing on stderr."""


def test_an_answer_that_trickles_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speccli.commands.explain.TIMEOUT_S", 0.5)
    started = time.monotonic()
    with HTTPServer(("127.0.0.1", 0), Trickling) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(SpeccliError, match="does not answer: not whole within"):
            after_the_fact(None, False, None, f"http://127.0.0.1:{server.server_port}", True)
        thread.join()
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "address", ["http://..", "http://.a", f"http://{'a' * 300}", "http://localhost:abc", "http://"]
)
def test_an_address_that_cannot_be_does_not_answer(address: str) -> None:
    with pytest.raises(SpeccliError, match="does not answer"):
        after_the_fact(None, False, None, address, True)


def test_an_address_without_its_scheme_gets_a_hint() -> None:
    with pytest.raises(UsageError, match="no file is called 'localhost:8000'") as caught:
        after_the_fact(None, False, None, "localhost:8000", True)
    assert "begins with http://" in caught.value.hint


def test_a_socks_proxy_that_cannot_be_used_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", "socks5://localhost:1")
    with pytest.raises(UsageError, match="ALL_PROXY names a SOCKS proxy") as caught:
        after_the_fact(None, False, None, "http://metrics.example", True)
    assert "pip install 'httpx[socks]'" in caught.value.hint


def test_a_page_tells_what_a_finding_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain_id("crash.vocabulary", False) is ExitCode.DONE
    out = capsys.readouterr().out
    assert out.startswith("crash.vocabulary: the vocabularies differ\n")
    assert "What to do: " in out
    explain_id("env.shm", True)
    assert json.loads(capsys.readouterr().out)["id"] == "env.shm"


def test_without_an_id_all_pages_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    explain_id(None, False)
    listed = capsys.readouterr().out.splitlines()
    assert any(line.startswith("run.k-too-large ") for line in listed)
    assert len(listed) > 150


def test_a_misspelt_id_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match=r"no finding is called 'crash\.vocabulry'") as caught:
        explain_id("crash.vocabulry", False)
    assert "crash.vocabulary" in caught.value.hint


def test_an_engine_that_failed_is_explained_from_its_log(log: Path) -> None:
    told = explained(EngineFailed("the engine did not start", f"the whole log is {log}", log))
    assert told.message.startswith("the engine did not start: the context does not fit: 1.93 GiB of KV cache")
    assert "max seq len (262144)" in told.message
    assert told.hint.startswith("--max-model-len 251136")
    assert f"the whole log is {log}" in told.hint
    assert "speccli doctor explain crash.kv-cache-too-small" in told.hint
    assert explained(told) is told


def test_an_engine_that_failed_for_an_unknown_reason_shows_the_likeliest_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(crashed("FrobnicationError: no nick"))
    told = explained(EngineFailed("the engine died", "", tmp_path / "log"))
    assert told.message.splitlines()[1].endswith("FrobnicationError: no nick")
    assert str(tmp_path / "log") in told.hint


def test_a_log_that_says_nothing_shows_its_last_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("one\ntwo\n\nthree\nfour\n")
    told = explained(EngineFailed("the engine died", "", tmp_path / "log"))
    assert told.message == "the engine died:\n  two\n  three\n  four"


def test_a_log_that_is_gone_does_not_hide_the_failure(tmp_path: Path) -> None:
    told = explained(EngineFailed("the engine died", "", tmp_path / "gone"))
    assert told.message == "the engine died"
    assert "No such file" in told.hint


def test_the_boundary_explains_what_failed(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise EngineFailed("the engine died", f"the whole log is {log}", log)

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 1
    err = capsys.readouterr().err
    assert err.startswith("speccli: error: the engine died: the context does not fit")
    assert "hint: --max-model-len 251136" in err


def test_the_options_and_the_page_can_be_typed(run_speccli: Run, log: Path) -> None:
    done = run_speccli("doctor", "--log", str(log), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["findings"][0]["id"] == "crash.kv-cache-too-small"
    assert run_speccli("doctor", "explain", "env.device").stdout.startswith(b"env.device: the device\n")
    assert run_speccli("doctor", "--log", "nowhere.log").returncode == 2
    assert b"explain" in run_speccli("doctor", "--help").stdout
