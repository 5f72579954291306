"""A page for every stable id of a finding: `speccli doctor explain ID`."""

from speccli.diagnose.failures import UNKNOWN
from speccli.diagnose.failures.kind import Kind
from speccli.diagnose.failures.kinds import KINDS
from speccli.diagnose.pages import environment, heads, pair, plan, run
from speccli.diagnose.pages.page import Page

__all__ = ["PAGES", "Page"]


def _of_kind(kind: Kind) -> Page:
    """What a log is explained with is the page, too."""
    return Page(kind.id, kind.title, _sentence(kind.cause), _sentence(kind.fix))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


FAILURES = (
    *(_of_kind(kind) for kind in KINDS),
    Page(
        UNKNOWN,
        "unknown fault",
        "The log holds an error that speccli does not know. It shows the likeliest line: the first exception of the process "
        "that died first, without what other processes say about it afterwards.",
        "Search vLLM's issues for that line; run speccli doctor; try --no-spec to see whether speculation is the cause.",
    ),
)

PAGES: dict[str, Page] = {
    page.id: page for page in (*environment.PAGES, *pair.PAGES, *heads.PAGES, *plan.PAGES, *run.PAGES, *FAILURES)
}
"""By id, in the order of doctor's report."""
