"""Reading a log: prefixes, progress bars, colours, broken bytes, and any size."""

from __future__ import annotations

import time
from collections.abc import Iterator
from io import BytesIO, RawIOBase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speccli.diagnose.failures import explain
from speccli.diagnose.failures.reader import LONGEST_BYTES, Line, parse, read

SAYS = "ValueError: too big"


def lines(data: bytes) -> list[Line]:
    return list(read(BytesIO(data)))


@pytest.mark.parametrize(
    ("prefix", "process", "level"),
    [
        ("", "", ""),
        ("(EngineCore_DP0 pid=123) ", "EngineCore_DP0 pid=123", ""),
        ("(Worker_TP1 pid=7) ERROR 11-29 18:42:06 [core.py:133] ", "Worker_TP1 pid=7", "error"),
        ("(VllmWorker rank=0 pid=63590) ERROR 06-20 12:27:37 [multiproc_executor.py:527] ", "VllmWorker rank=0 pid=63590", "error"),
        ("(RayWorkerWrapper pid=14, ip=192.0.2.60) ERROR 03-27 10:29:01 [worker.py:267] ", "RayWorkerWrapper pid=14, ip=192.0.2.60", "error"),
        ("ERROR 12-20 20:25:46 worker.py:241] ", "", "error"),
        ("CRITICAL 11-29 18:42:06 [launcher.py:1] ", "", "error"),
        ("[rank0]: ", "rank0", ""),
        ("[rank1]:[E614 12:00:00.123456789 ProcessGroupNCCL.cpp:616] ", "rank1", "error"),
        ("[W1129 18:42:06.123 socket.cpp:460] ", "", "warning"),
        ("2026-05-12T08:12:13.123Z ", "", ""),
        ("2026-05-12T08:12:13.123456789Z stderr F (APIServer pid=1) INFO 05-12 08:12:13 [api.py:1] ", "APIServer pid=1", "info"),
        ("[2026-04-16 14:22:53 TP3] ", "", ""),
        ("vllm-1  | ERROR 05-12 08:12:13 [api.py:1] ", "", "error"),
        ("Jun 01 10:00:00 box vllm[77]: ", "", ""),
        ("2026-01-01 10:00:00,123 - vllm.engine - ERROR - ", "", "error"),
        ("ERROR:    ", "", "error"),
        ("WARNING:root:", "", "warning"),
        ("/x/torch/thing.py:138: FutureWarning: ", "", "warning"),
        ("\x1b[1;36m(EngineCore_0 pid=1)\x1b[0;0m \x1b[31mERROR\x1b[0m 11-29 18:42:06 [core.py:1] ", "EngineCore_0 pid=1", "error"),
        ("[1;36m(EngineCore_0 pid=1)[0;0m ", "EngineCore_0 pid=1", ""),
    ],
)  # fmt: skip
def test_known_prefixes_are_taken_off(prefix: str, process: str, level: str) -> None:
    assert parse(3, prefix + SAYS) == Line(3, process, level, SAYS)  # type: ignore[arg-type]


def test_indentation_of_frames_is_kept() -> None:
    assert (
        parse(1, '(Worker pid=3) ERROR 11-29 18:42:09 [a.py:1]   File "x.py", line 5').text == '  File "x.py", line 5'
    )


def test_a_message_in_json_is_taken_out() -> None:
    assert parse(1, '{"log":"ERROR 11-29 18:42:09 [a.py:1] ValueError: too big\\n","stream":"stderr"}').text == SAYS
    assert parse(1, '{"level":"error","message":"ValueError: too big"}') == Line(1, "", "error", SAYS)
    assert parse(1, '{"id": 1, "text": "no message"}').text == '{"id": 1, "text": "no message"}'


def test_what_a_bar_drew_is_taken_off() -> None:
    bar = "Capturing CUDA graph shapes:   0%|      | 0/11 [00:00<?, ?it/s](Worker pid=21) ERROR 04-24 08:27:56 [a.py:1] ValueError: too big"
    assert parse(1, bar) == Line(1, "Worker pid=21", "error", SAYS)


def test_carriage_returns_part_lines_of_one_number() -> None:
    told = [(line.number, line.text) for line in lines(b"one\r\nload 1%\rload 2%\rValueError: too big\nlast\n")]
    assert told == [(1, "one"), (2, "load 1%"), (2, "load 2%"), (2, SAYS), (3, "last")]


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert [line.text for line in lines(b"\xff\xfe\nValueError: \xc3\x28\n")] == ["\ufffd\ufffd", "ValueError: \ufffd("]


def test_a_very_long_line_keeps_its_number() -> None:
    told = lines(b"x" * (3 * LONGEST_BYTES) + b"\nlast\n")
    assert {line.number for line in told[:-1]} == {1}
    assert (told[-1].number, told[-1].text) == (2, "last")


@given(st.binary(max_size=2000))
@settings(max_examples=80, deadline=None)
def test_no_bytes_make_it_raise(data: bytes) -> None:
    explain(BytesIO(data))


PIECES = (
    "Traceback (most recent call last):", '  File "x.py", line 1, in load_model', "", "ValueError: too big", "KeyError: 'd2t'",
    "(Worker_TP1 pid=3) ERROR 11-29 18:42:09 [a.py:1] CUDA out of memory. Tried to allocate 2.00 GiB.", "\x1b[31m", "\r", "[rank0]: ",
    "INFO 11-29 18:42:09 [a.py:1] init engine (profile) took 1 s", "max seq len (9), (1.1 GiB KV cache is needed, which is larger than",
    "The above exception was the direct cause of the following exception:", "Exception ignored in: <x>", "{", '{"log": 3}', "Killed",
    "RuntimeError: Engine core initialization failed.", "non-default args: {}", "num_speculative_tokens", "free memory on device ( / )",
)  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=60)), max_size=60))
@settings(max_examples=80, deadline=None)
def test_no_mixture_of_log_lines_makes_it_raise(pieces: list[str]) -> None:
    log = "\n".join(pieces)
    found = explain(BytesIO(log.encode("utf-8", "surrogatepass")))
    for failure in found.findings:
        assert 1 <= failure.line <= log.count("\n") + 1


class Endless(RawIOBase):
    """A log that is made while it is read, line by line."""

    def __init__(self, count: int) -> None:
        self._lines = self._made(count)

    def _made(self, count: int) -> Iterator[bytes]:
        for number in range(count):
            yield f"(Worker_TP{number % 8} pid={number % 200}) ERROR 11-29 18:42:09 [a.py:{number}] step {number} failed: {number}\n".encode()

    def readline(self, size: int | None = -1, /) -> bytes:
        return next(self._lines, b"")


def _seconds(count: int) -> float:
    started = time.process_time()
    explain(Endless(count))  # type: ignore[arg-type]
    return time.process_time() - started


def test_time_grows_with_the_log_and_no_faster() -> None:
    _seconds(500)
    small, large = min(_seconds(1_000) for _ in range(3)), min(_seconds(8_000) for _ in range(2))
    assert large < 8 * small * 2.5


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        "a" * 60_000,
        "(" + "x" * 60_000,
        "ERROR" + " " * 60_000,
        "/" + "x" * 60_000,
        "\x1b]" * 20_000,
        "Ab." * 20_000,
    ],
)
def test_no_line_takes_long(text: str) -> None:
    started = time.process_time()
    explain(BytesIO(text.encode()))
    assert time.process_time() - started < 1.0
