"""The lines that people read."""

import io
import sys

import pytest
from rich.text import Text

from speccli.answer import Answer
from speccli.chat.reasoning import Part
from speccli.chat.settings import Display
from speccli.engine import Step
from speccli.stats import Acceptance
from speccli.view import View, acceptance_lines, one_line, statistics_lines, status_line


def answered(*steps: Step) -> Answer:
    answer = Answer(started_s=10.0)
    for step in steps:
        answer.add(step)
    return answer


def step(tokens: int, at_s: float, drafted: int = 0, accepted: int = 0, finish_reason: str | None = None) -> Step:
    return Step(
        request_id="a", token_ids=tuple(range(tokens)), at_s=at_s, num_draft_tokens=drafted, num_accepted_tokens=accepted,
        finish_reason=finish_reason,  # type: ignore[arg-type]
    )  # fmt: skip


def test_an_answers_statistics() -> None:
    answer = answered(step(1, 10.5), step(3, 11.0, 3, 2), step(1, 11.5, 3, 0, "stop"))
    assert statistics_lines(answer) == [
        "5 tokens · 4.0 tokens/s · first token 0.50 s",
        "mean acceptance length 2.00 · acceptance rate 33% (2 of 6 drafted, 2 drafts)",
        "accepted by position  1: 50%  2: 50%  3: 0%",
    ]


def test_an_answer_that_was_cut_short_says_by_what() -> None:
    assert statistics_lines(answered(step(1, 10.5), step(1, 11.5, finish_reason="length")))[0].endswith(
        "ended by length"
    )


def test_plain_decoding_says_that_nothing_was_drafted() -> None:
    assert acceptance_lines(Acceptance()) == ["nothing was drafted"]


def test_one_step_has_no_rate() -> None:
    assert statistics_lines(answered(step(1, 10.5, finish_reason="stop"))) == [
        "1 token · first token 0.50 s",
        "nothing was drafted",
    ]


ANSWERED = answered(step(1, 10.5), step(3, 11.0, 3, 2), step(1, 11.5, 3, 0, "stop"))


def test_one_line_says_the_most_of_it() -> None:
    assert one_line(ANSWERED) == (
        "5 tokens · 4.0 tokens/s · first token 0.50 s · acceptance length 2.00 · rate 33% (2 of 6 drafted)"
    )


def test_the_status_line_says_as_much_as_the_terminal_holds() -> None:
    assert status_line(ANSWERED, 1.5, 8192, 100) == (
        "5 tokens · 4.0 tokens/s · acceptance length 2.00 · rate 33% · context 5 of 8,192 · Ctrl-C stops"
    )
    assert status_line(ANSWERED, 1.5, 8192, 40) == "5 tokens · 4.0 tokens/s"
    assert status_line(ANSWERED, 1.5, 8192, 5) == ""


def test_before_the_first_token_the_status_line_tells_how_long_one_waits() -> None:
    assert status_line(answered(), 3.4, 8192, 80) == "waiting for the first token · 3 s · Ctrl-C stops"


def test_the_tokens_per_second_do_not_count_the_wait_for_the_first_token() -> None:
    assert status_line(answered(step(1, 20.0), step(4, 21.0)), 11, 8192, 30) == "5 tokens · 4.0 tokens/s"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("term", "raw", "formats"), [("xterm", False, True), ("xterm", True, False), ("dumb", False, False)]
)
def test_answers_are_formatted_on_a_terminal_that_can(
    monkeypatch: pytest.MonkeyPatch, term: str, raw: bool, formats: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("sys.stdout", Screen())
    assert View(raw=raw).is_formatted is formats


def test_answers_to_a_file_are_not_formatted(capsys: pytest.CaptureFixture[str]) -> None:
    assert not View().is_formatted
    with View().answering(answered(), Display(), 8192) as stream:
        stream.show([Part("answer", "**bold**")])
    assert capsys.readouterr() == ("**bold**\n", "")


def narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """A terminal of 30 columns, for all that is said."""
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    return screen


def test_errors_are_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = narrow_terminal(monkeypatch)
    View().error("no method is called 'dflsh' and none is near", "did you mean `dflash` or another one?")
    assert [line.rstrip() for line in narrow.getvalue().splitlines()] == [
        "error: no method is called",
        "'dflsh' and none is near",
        "hint: did you mean `dflash` or",
        "another one?",
    ]


HOSTILE = "so \x1b[2J and \x1b]0;title"


def test_a_terminal_is_shown_control_characters_and_does_not_obey_them(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = narrow_terminal(monkeypatch)
    view = View()
    view.error(HOSTILE, HOSTILE)
    view.say(HOSTILE)
    view.heading(HOSTILE)
    view.show(Text(HOSTILE))
    for raw in (False, True):
        parts = [Part("reasoning", HOSTILE), Part("answer", HOSTILE)]
        with View(raw=raw).answering(answered(), Display(), 8192) as stream:
            stream.show(parts)
    assert narrow.getvalue().count("so ␛[2J and ␛]0;title") == 9
    assert "\x1b[2J" not in narrow.getvalue()
    assert "\x1b]" not in narrow.getvalue()


def test_a_file_is_given_the_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    view = View()
    view.say(HOSTILE)
    with view.answering(answered(), Display(), 8192) as stream:
        stream.show([Part("answer", HOSTILE)])
    assert capsys.readouterr() == (f"{HOSTILE}\n", f"{HOSTILE}\n")


def test_what_is_said_is_neither_markup_nor_a_name_of_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    View().say("Use :smile: and [bold]x[/bold].")
    View().show("Use :smile: and [bold]x[/bold].")
    assert capsys.readouterr().err == "Use :smile: and [bold]x[/bold].\n" * 2


def test_waiting_leaves_stdout_and_stderr_where_they_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that starts in another thread leads them elsewhere and back meanwhile."""
    out, err = Screen(), Screen()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setenv("TERM", "xterm")
    with View().waiting(lambda: "loading weights 3 s"):
        assert (sys.stdout, sys.stderr) == (out, err)
    assert "loading weights 3 s" in err.getvalue()


def test_where_there_is_no_editor_the_text_stays_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VISUAL", "/nowhere/editor")
    assert View().edited("half a message") == "half a message"
    assert "error: cannot run the editor /nowhere/editor" in capsys.readouterr().err
