"""A plan to run the scripted engine under."""

from pathlib import Path

import pytest

from speccli.plan import Plan
from tests.commands.example import example_plan


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return example_plan(tmp_path)
