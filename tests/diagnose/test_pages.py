"""Every finding has a page: the ids are looked for in the sources, so that a new one cannot be forgotten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import speccli
from speccli.diagnose.pages import PAGES

SOURCES = Path(speccli.__file__).parent
NAMES = re.compile(r"\"((?:env|pair|plan|speculation|run|crash)\.[a-z0-9-]+)\"")
FAULTS = re.compile(r"\b(?:error|warning|info|make|_rows)\(\s*(f?)\"([a-z0-9-]+)\"")


def ids() -> set[str]:
    found: set[str] = set()
    for file in (SOURCES / "diagnose").rglob("*.py"):
        if "pages" not in file.parts:
            found.update(NAMES.findall(file.read_text()))
    for file in (SOURCES / "paircheck").rglob("*.py"):
        for formatted, rule in FAULTS.findall(file.read_text()):
            if not formatted:
                found.add(f"pair.{rule}")
    return found


@pytest.mark.parametrize("identity", sorted(ids()))
def test_every_id_has_a_page(identity: str) -> None:
    known = identity in PAGES or f"pair.eagle3-{identity.removeprefix('pair.')}" in PAGES
    assert known or identity == "crash.none"


def test_every_page_says_something_of_its_own() -> None:
    for name, page in PAGES.items():
        assert page.id == name
        assert len(page.meaning) > 20
        assert page.title
