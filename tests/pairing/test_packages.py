"""Packages that a method needs beside vLLM: known before anything is downloaded."""

from __future__ import annotations

import pytest

from speccli.errors import MachineError
from speccli.pairing import packages
from speccli.pairing.file import Speculator


def _suffix(*needs: str) -> Speculator:
    return Speculator(name="suffix", method="suffix", num_speculative_tokens=24, reason="for the test", needs=needs)


@pytest.fixture(autouse=True)
def nothing_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(packages.NEEDS, "suffix", ())


def test_what_is_missing_is_told_with_the_command_that_installs_it() -> None:
    with pytest.raises(MachineError) as caught:
        packages.require("suffix", _suffix("msgspec==0.0", "no-such-package==1.0"))
    assert caught.value.message == "suffix needs no-such-package==1.0, not installed here"
    assert caught.value.hint == "`python -m pip install no-such-package==1.0`, or choose another --method"


def test_a_method_needs_it_also_where_no_pairing_file_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(packages.NEEDS, "suffix", ("no-such-package==1.0",))
    assert packages.missing("suffix", None) == ["no-such-package==1.0"]
    assert packages.missing("suffix", _suffix("no-such-package==1.0")) == ["no-such-package==1.0"]
    assert packages.missing("ngram", None) == []


def test_what_is_there_is_not_asked_for() -> None:
    packages.require("suffix", _suffix("msgspec>=0.18"))
