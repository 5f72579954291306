"""Every case of the collection of bug reports is recognised in a log, told after a run, or seen before it."""

from __future__ import annotations

import pytest

from speccli.diagnose.failures import UNKNOWN
from speccli.diagnose.pages import PAGES
from tests.diagnose.failures.cases import CASES, SILENT, Case
from tests.diagnose.failures.logs import crashed, diagnose, ready, started

COLLECTED = {
    *(f"S{number:02}" for number in (
        1, 2, 3, 4, 6, 8, 10, 11, 12, 14, 15, 17, 18, 19, 21, 22, 23, 24, 25, 26, 29, 30, 32, 33, 35, 36, 38, 39, 40, 41, 42, 45,
        46, 47, 49, 50, 52, 53, 55, 56, 58, 59, 60, 61, 62, 64, 65, 66, 67, 68, 69, 70, 71, 73, 74, 76, 78, 80, 82, 83,
    )),
    *(f"X{number}" for number in range(1, 11)),
}  # fmt: skip


def named(case: Case) -> str:
    return f"{case.id}-{case.found.removeprefix('crash.')}"


EACH = pytest.mark.parametrize("case", CASES, ids=named)


def test_no_case_is_left_out() -> None:
    assert {case.id for case in CASES} | set(SILENT) == COLLECTED


@EACH
def test_the_telling_line_alone_is_enough(case: Case) -> None:
    traced = "\n".join(["Traceback (most recent call last):", *(f"  {frame}" for frame in case.frames), case.says])
    found = diagnose(traced if case.frames else case.says).findings[0]
    assert found.id == case.found
    assert found.text in " ".join(case.says.split())
    assert case.fix in found.fix
    assert {name: found.figures.get(name) for name in case.figures} == case.figures


@EACH
def test_the_cause_is_found_far_above_the_last_traceback(case: Case) -> None:
    if " INFO " in case.says or " ERROR " in case.says or " WARNING " in case.says:
        log = started() + ready() + case.says + "\n"
    elif case.frames:
        log = crashed(case.says, case.frames)
    else:
        log = crashed(case.says)
    found = diagnose(log)
    by_severity = [one for one in found.findings if one.id == case.found]
    assert by_severity, [one.id for one in found.findings]
    lines = log.splitlines()
    told = by_severity[0]
    assert told.text.split()[-1] in lines[told.line - 1]
    assert case.fix in told.fix or "0.95" in told.fix or told.settings


@EACH
def test_every_kind_that_is_found_has_a_page(case: Case) -> None:
    page = PAGES[case.found]
    assert page.meaning
    assert page.fix


@pytest.mark.parametrize("identity", sorted(SILENT))
def test_a_case_that_no_log_tells_of_is_not_made_up(identity: str) -> None:
    """A run that only was slow, or accepted nothing, left a healthy log."""
    assert SILENT[identity]
    assert diagnose(started() + ready()).findings == ()


def test_an_unknown_fault_is_said_to_be_unknown() -> None:
    found = diagnose(crashed("FrobnicationError: the frob is not nicated"))
    assert [failure.id for failure in found.findings] == [UNKNOWN]
    assert found.findings[0].text == "FrobnicationError: the frob is not nicated"
    assert found.findings[0].severity == "error"
    assert found.findings[0].process == "Worker_TP0 pid=130"
