"""The picture of a memory plan: one bar, letters without colour, and what makes it fit."""

from __future__ import annotations

import re

import msgspec

from speccli.commands.plan_text import bar, plan_lines
from speccli.plan.interval import GIB
from tests.plan.example import cpu, estimated, suggested

FITS = {"target": "llama-3.1-8b-fp8", "method": "eagle3", "max_model_len": 8192}
MEDUSA = {"target": "llama-3.1-8b-bf16", "method": "medusa", "num_speculative_tokens": 5}


def test_each_part_is_as_long_as_its_share_of_the_memory() -> None:
    made = estimated("l4", **FITS)
    drawn = bar(made, 44, colour=False)
    assert len(drawn) == 44
    assert re.fullmatch(r"W+S+A+GK+\?+\.+", drawn)
    # 8.5 of 22 GiB
    assert drawn.count("W") == 17
    assert drawn.count("K") > 15


def test_colour_draws_blocks_and_no_letters() -> None:
    drawn = bar(estimated("l4", **FITS), 44, colour=True)
    assert re.sub(r"\x1b\[[\d;]*m", "", drawn).strip("█▒·") == ""
    assert "\x1b[34m█" in drawn


def test_what_does_not_fit_fills_the_bar_and_no_more() -> None:
    drawn = bar(estimated("l4", **MEDUSA), 40, colour=False)
    assert len(drawn) == 40
    assert "K" not in drawn


def test_the_text_tells_the_verdict_the_parts_and_the_fixes() -> None:
    made = estimated("l4", **MEDUSA)
    fixes = suggested("l4", **MEDUSA)
    lines = plan_lines("llama on l4", made, fixes, width=80, colour=False)
    assert lines[0] == "Memory  llama on l4: does not fit"
    assert lines[1] == "  NVIDIA L4"
    assert re.fullmatch(r"  \[[WSAGK?.]+\] 22\.0 GiB", lines[2])
    assert "  W weights      14.97 - 15.06 GiB" in "\n".join(lines)
    assert f"    {fixes[0].told}" in lines
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in "".join(lines)


def test_no_line_is_wider_than_the_terminal() -> None:
    asked = {"target": "llama-3.1-8b-bf16", "method": "medusa", "num_speculative_tokens": 5, "max_num_seqs": 256}
    lines = plan_lines("llama on l4", estimated("l4", **asked), suggested("l4", **asked), width=60, colour=False)
    assert max(map(len, lines)) <= 60
    text = " ".join(" ".join(lines).split())
    assert "while serving, beyond vLLM's budget: medusa logits 0.31 GiB, rejection logits 0.00 - 0.73 GiB" in text


def test_a_plan_that_fits_lists_no_fixes() -> None:
    lines = plan_lines("llama on l4", estimated("l4", **FITS), [], width=80, colour=True)
    assert lines[0].endswith("\x1b[1;32mfits\x1b[0m")
    assert not any("cheapest" in line for line in lines)


def test_on_the_processor_the_rest_is_free_or_in_use() -> None:
    made = estimated(cpu(16), target="smollm2-135m", method="none")
    held = msgspec.structs.replace(made, total_bytes=32 * GIB)
    assert re.fullmatch(r"WA+K+\.+x+", bar(held, 40, colour=False))
    text = "\n".join(plan_lines("smollm2 on cpu", held, [], width=80, colour=False))
    assert "  x in use               16.00 GiB" in text
    assert "uncertain" not in text
