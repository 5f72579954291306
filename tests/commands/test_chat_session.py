"""A whole conversation, key by key, on the scripted engine."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from speccli import paths
from speccli.chat.conversation import Conversation
from speccli.chat.files import load, save
from speccli.commands.chat import Options, chat
from speccli.engine import Request, Split, Step
from speccli.engine.scripted import Answer, Dies, Refused, ScriptedEngine, Wrote
from speccli.errors import EngineFailed, ExitCode, UsageError
from speccli.plan import Plan
from speccli.profile import Sampling
from speccli.view import View
from tests.commands.test_chat import Terminal
from tests.view.screen import Screen

NO_OPTIONS = Options()
CTRL_C, CTRL_D, ENTER, ALT_ENTER = "\x03", "\x04", "\r", "\x1b\r"

SEA: Answer = [
    Wrote("The"),
    Wrote(" sea is wide", tokens=3, drafted=3, accepted=2, texts=(" sea", " is", " wide")),
    Wrote(".", drafted=3),
]


class Talk:
    """Types, and keeps what was asked, opened and shown."""

    def __init__(self, plan: Plan, keys: PipeInput, captured: pytest.CaptureFixture[str]) -> None:
        self.plan, self._keys, self._captured = plan, keys, captured
        self.asked: list[Request] = []
        self.opened: list[str] = []
        self.engines: list[ScriptedEngine] = []
        self.answer: Callable[[Request], Answer] = lambda request: SEA
        self.failing: set[str] = set()
        """Methods and targets whose engines do not start."""
        self.held: dict[str, threading.Event] = {}
        """Methods whose engines start only when this is set."""
        self.engine: type[ScriptedEngine] = ScriptedEngine
        self.changes: list[dict[str, Any]] = []
        self.out = self.err = ""

    def press(self, *lines: str, then: str = "") -> None:
        self._keys.send_text("".join(f"{line}{ENTER}" for line in lines) + then)

    def type(
        self,
        *lines: str,
        then: str = CTRL_D,
        options: Options = NO_OPTIONS,
        shown: View | None = None,
        **view: Any,
    ) -> ExitCode:
        self.press(*lines, then=then)
        code = chat(self.plan, None, options, shown or View(**view), self._open, self._replan)
        captured = self._captured.readouterr()
        self.out, self.err = captured.out, captured.err
        return code

    @property
    def messages(self) -> list[str]:
        return [message.content for message in self.asked[-1].messages]

    def _open(self, plan: Plan) -> ScriptedEngine:
        method = plan.pairing.method
        self.opened.append(method)
        if method in self.held:
            assert self.held[method].wait(5)
        if {method, plan.pairing.target} & self.failing:
            raise EngineFailed(f"no engine for {method}", "try another")
        assert all(engine.closed for engine in self.engines), "two engines at once"
        self.engines.append(self.engine(self._answer))
        return self.engines[-1]

    def _answer(self, request: Request) -> Answer:
        self.asked.append(request)
        return self.answer(request)

    def _replan(self, changes: dict[str, Any]) -> Plan:
        self.changes.append(changes)
        if changes.get("target") == "nowhere":
            raise UsageError("no target is called 'nowhere'", "did you mean `tiny`?")
        pairing = msgspec.structs.replace(
            self.plan.pairing,
            method=changes.get("method") or "ngram",
            num_speculative_tokens=changes.get("num_speculative_tokens") or 3,
            target=changes.get("target") or self.plan.pairing.target,
        )
        return msgspec.structs.replace(self.plan, pairing=pairing)


class Telling(View):
    """Does something when a line is shown that begins so."""

    def __init__(self, **tell: Callable[[], object]) -> None:
        super().__init__()
        self._tell = {beginning.replace("_", " "): act for beginning, act in tell.items()}

    def say(self, line: str) -> None:
        super().say(line)
        for beginning, act in self._tell.items():
            if line.startswith(beginning):
                act()

    narrate = say


class Interrupted(Telling):
    """Ctrl-C is pressed once, where something is waited for when it is due."""

    def __init__(self, is_due: Callable[[], bool] = lambda: True, **tell: Callable[[], object]) -> None:
        super().__init__(**tell)
        self.is_due = is_due
        self.waits = threading.Event()

    @contextlib.contextmanager
    def waiting(self, line: Callable[[], str]) -> Iterator[None]:
        if self.is_due() and not self.waits.is_set():
            self.waits.set()
            threading.Timer(0.2, press_ctrl_c).start()
        yield


def press_ctrl_c() -> None:
    """From another thread."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


@pytest.fixture
def talk(plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Talk]:
    monkeypatch.setattr(sys, "stdin", Terminal())
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield Talk(plan, keys, capsys)


def test_a_conversation_carries_its_turns_on_and_a_refused_message_does_not(talk: Talk) -> None:
    def answer(request: Request) -> Answer:
        text = request.messages[-1].content
        return Refused("not this") if text == "Bad." else [Wrote(f"Re: {text}")]

    talk.answer = answer
    assert talk.type("First.", "Bad.", "Second.") == ExitCode.DONE
    assert talk.messages == ["First.", "Re: First.", "Second."]
    assert talk.out == "Re: First.\nRe: Second.\n"
    assert "error: not this" in talk.err
    assert talk.engines[0].closed


def test_the_statistics_of_an_answer_are_one_line(talk: Talk) -> None:
    talk.type("Describe the sea.")
    assert "acceptance length 2.00 · rate 33% (2 of 6 drafted)" in talk.err
    assert "engine ready after" in talk.err


def test_stats_are_the_engines_counts(talk: Talk) -> None:
    talk.type("Describe the sea.", "Again.", "/stats")
    told = [line.split() for line in talk.err.splitlines()]
    assert ["drafted", "tokens", "6", "12"] in told
    assert ["accepted", "tokens", "2", "4"] in told
    assert ["drafts", "2", "4"] in told
    assert ["acceptance", "rate", "33.3%", "33.3%"] in told
    assert ["mean", "acceptance", "length", "2.00", "2.00"] in told
    assert ["1", "50.0%", "50.0%", "█" * 10] in told
    assert ["3", "0.0%", "0.0%"] in told
    assert ["1", "2", "█" * 20] in told
    assert ["3", "1", "█" * 10] in told
    assert "against plain decoding: not measured; /compare measures it" in talk.err


def test_tokens_are_marked_by_origin(talk: Talk) -> None:
    talk.type("Describe the sea.", "/tokens")
    assert "The⟦ sea⟧⟦ is⟧ wide." in talk.err
    assert "⟦accepted draft tokens⟧: 2 · the target's own: 3" in talk.err
    assert "drafts: 2 · drafted tokens: 6, rejected: 4" in talk.err


def test_a_command_before_any_answer_says_so(talk: Talk) -> None:
    talk.type("/stats", "/tokens", "/retry", "/undo", "/copy", "/compare")
    assert talk.err.count("error: nothing was answered yet") == 6


def test_an_unknown_command_names_the_nearest_and_is_not_sent(talk: Talk) -> None:
    talk.type("/stat")
    assert "error: no command is called /stat" in talk.err
    assert "did you mean `/stats`?" in talk.err
    assert talk.asked == []


def test_retry_asks_again_and_undo_takes_back(talk: Talk) -> None:
    talk.type("First.", "Second.", "/retry", "/undo", "Third.")
    assert [request.messages[-1].content for request in talk.asked] == ["First.", "Second.", "Second.", "Third."]
    assert talk.messages == ["First.", "The sea is wide.", "Third."]
    assert "taken back: Second." in talk.err


def test_an_answer_that_is_not_replaced_stays(talk: Talk) -> None:
    answers: Iterator[Answer] = iter([SEA, Refused("not now"), SEA])
    talk.answer = lambda request: next(answers)
    talk.type("First.", "/retry", "Second.")
    assert talk.messages == ["First.", "The sea is wide.", "Second."]


def test_a_retry_that_failed_can_be_tried_again(talk: Talk) -> None:
    answers: Iterator[Answer] = iter([SEA, Refused("not now"), [Wrote("At last.")], SEA])
    talk.answer = lambda request: next(answers)
    talk.type("First.", "/retry", "/retry", "Second.")
    assert talk.messages == ["First.", "At last.", "Second."]


def test_undo_takes_back_a_message_without_an_answer_before_the_last_turn(talk: Talk) -> None:
    talk.answer = lambda request: Refused("not this") if request.messages[-1].content == "Bad." else SEA
    talk.type("First.", "Bad.", "/undo", "/retry", "/undo", "Second.")
    assert [request.messages[-1].content for request in talk.asked] == ["First.", "Bad.", "First.", "Second."]
    assert "taken back, without an answer: Bad." in talk.err
    assert talk.messages == ["Second."]


def test_clear_forgets_and_system_stays(talk: Talk) -> None:
    talk.type("/system Be brief.", "First.", "/clear", "Second.")
    assert talk.messages == ["Be brief.", "Second."]


def test_settings_reach_the_engine(talk: Talk) -> None:
    talk.type("/set temperature 0.5", "/set stop=END", "/set min_p 0.1", "Hi.", "/set temperature default", "Again.")
    assert (talk.asked[0].sampling.temperature, talk.asked[0].sampling.stop) == (0.5, ("END",))
    assert talk.asked[0].sampling.max_tokens == 16
    assert talk.asked[1].sampling.temperature is None
    assert "error: min_p cannot be set: vLLM 0.32 does not support it with speculative decoding" in talk.err


def test_several_lines_in_quotes_and_with_alt_enter(talk: Talk) -> None:
    talk.type('"""one', 'two"""', f"three{ALT_ENTER}four", "\x1b[200~five\nsix\x1b[201~")
    assert [request.messages[-1].content for request in talk.asked] == ["one\ntwo", "three\nfour", "five\nsix"]


def test_ctrl_c_clears_a_line_warns_and_leaves(talk: Talk) -> None:
    assert talk.type(then=f"half a line{CTRL_C}{CTRL_C}{CTRL_C}") == ExitCode.DONE
    assert talk.asked == []
    assert talk.err.count("Ctrl-C once more, or Ctrl-D, leaves.") == 1


def test_ctrl_c_stops_the_answer_and_keeps_what_came(talk: Talk) -> None:
    class Interrupting(View):
        def text(self, text: str) -> None:
            super().text(text)
            if "wide" in text:
                raise KeyboardInterrupt

    talk._keys.send_text(f"Describe the sea.{ENTER}And then?{ENTER}{CTRL_D}")
    chat(talk.plan, None, Options(), Interrupting(), talk._open, talk._replan)
    assert talk.messages == ["Describe the sea.", "The sea is wide", "And then?"]


def test_the_method_is_changed_and_the_conversation_kept(talk: Talk) -> None:
    talk.type("First.", "/method suffix 5", "Second.", "/method")
    assert talk.opened == ["ngram", "suffix"]
    assert talk.messages == ["First.", "The sea is wide.", "Second."]
    assert "tiny · suffix, k=5" in talk.err
    assert talk.changes == [{"target": "tiny", "method": "suffix", "speculator": None, "num_speculative_tokens": 5}]
    assert all(engine.closed for engine in talk.engines)


def test_a_model_that_is_not_there_changes_nothing(talk: Talk) -> None:
    talk.type("/model nowhere", "/method ngrm", "Hi.")
    assert "error: no target is called 'nowhere'" in talk.err
    assert "did you mean `ngram` or" in talk.err or "did you mean `ngram`?" in talk.err
    assert talk.opened == ["ngram"]


def test_where_the_new_engine_does_not_start_the_one_before_is_back(talk: Talk) -> None:
    talk.failing = {"eagle"}
    talk.type("First.", "/method eagle", "Second.")
    assert talk.opened == ["ngram", "eagle", "ngram"]
    assert "error: no engine for eagle" in talk.err
    assert "going back to tiny · ngram, k=3" in talk.err
    assert talk.messages == ["First.", "The sea is wide.", "Second."]


def test_going_back_can_be_typed_over_and_one_ctrl_c_does_not_end_it(talk: Talk) -> None:
    talk.failing, was_typed = {"eagle"}, threading.Event()

    def going_back() -> None:
        talk.held = {"ngram": was_typed}
        talk.press(then=CTRL_C)
        talk.press("/context", then=CTRL_D)

    view = Telling(going_back=going_back, context=was_typed.set)
    assert talk.type("First.", "/method eagle", then="", shown=view) == ExitCode.DONE
    assert talk.opened == ["ngram", "eagle", "ngram"]
    assert talk.err.count("Ctrl-C once more, or Ctrl-D, leaves.") == 1


def test_of_several_engines_that_do_not_start_the_last_that_did_is_back(talk: Talk) -> None:
    talk.failing, talk.held = {"eagle", "medusa"}, {"eagle": threading.Event()}
    threading.Timer(0.3, talk.held["eagle"].set).start()
    talk.type("First.", "/method eagle", "/method medusa", "Second.")
    assert talk.opened == ["ngram", "eagle", "medusa", "ngram"]
    assert talk.messages == ["First.", "The sea is wide.", "Second."]


def test_after_going_back_commands_are_for_the_target_that_is_back(talk: Talk) -> None:
    talk.failing = {"other"}
    talk.type("First.", "/model other", "Second.", "/method suffix 2", "Third.")
    assert talk.changes[-1]["target"] == "tiny"


def test_a_speculator_stays_with_the_method_that_it_was_typed_for(talk: Talk) -> None:
    talk.type("/method ngram 2", "/method suffix", "/method ngram", "/model other", "/method ngram")
    assert [changes.get("speculator", "as typed") for changes in talk.changes] == [
        "as typed",
        None,
        "as typed",
        None,
        None,
    ]


def test_ctrl_c_while_a_message_waits_for_the_engine_and_retry_sends_it(talk: Talk) -> None:
    talk.held = {"ngram": (may_start := threading.Event())}
    view = Interrupted(the_message_waits=threading.Timer(0.3, may_start.set).start)
    talk.type("First.", "/retry", shown=view)
    assert talk.out == "The sea is wide.\n"
    assert talk.opened == ["ngram"]


def test_ctrl_c_while_another_engine_takes_over_from_one_that_starts(talk: Talk) -> None:
    talk.held = {"ngram": threading.Event()}
    view = Interrupted(the_message_waits=talk.held["ngram"].set)
    talk.type("/method suffix", "First.", "/retry", shown=view)
    assert talk.out == "The sea is wide.\n"
    assert talk.opened == ["ngram", "suffix"]


def test_ctrl_c_while_another_engine_takes_over_from_one_that_ends(talk: Talk) -> None:
    talk.held = {"suffix": threading.Event()}
    view = Interrupted(lambda: len(talk.asked) == 1, the_message_waits=talk.held["suffix"].set)

    class Slow(ScriptedEngine):
        def close(self) -> None:
            if not self.closed and not view.waits.wait(1):
                press_ctrl_c()
            super().close()

    talk.engine = Slow
    talk.type("First.", "/method suffix", "Second.", "/retry", shown=view)
    assert talk.messages == ["First.", "The sea is wide.", "Second."]
    assert talk.opened == ["ngram", "suffix"]


def test_what_speculation_refuses_is_taken_back_when_it_begins(talk: Talk) -> None:
    talk.type("/method none", "/set min_p 0.1", "First.", "/method ngram", "Second.")
    assert talk.asked[0].sampling.min_p == 0.1
    assert talk.asked[1].sampling.min_p is None
    assert "min_p is taken back" in talk.err


def test_what_speculation_refuses_stays_where_it_does_not_begin(talk: Talk) -> None:
    talk.failing = {"eagle"}
    talk.type("/method none", "/set min_p 0.1", "First.", "/method eagle", "Second.")
    assert [request.sampling.min_p for request in talk.asked] == [0.1, 0.1]
    assert "min_p is taken back" not in talk.err


def test_an_engine_that_does_not_start_ends_the_chat(talk: Talk) -> None:
    talk.failing = {"ngram"}
    with pytest.raises(EngineFailed, match="no engine for ngram"):
        talk.type("Hi.", then="")


def test_an_engine_that_dies_is_started_again_and_the_question_asked_once_more(talk: Talk) -> None:
    answers: Iterator[Answer] = iter([SEA, [Wrote("Half"), Dies("out of memory")], SEA])
    talk.answer = lambda request: next(answers)
    talk.type("First.", "Second.", "/retry")
    assert talk.opened == ["ngram", "ngram"]
    assert "out of memory" in talk.err
    assert talk.messages == ["First.", "The sea is wide.", "Second."]


def test_compare_asks_the_last_question_without_speculation_and_starts_the_engine_again(talk: Talk) -> None:
    plain: Answer = [Wrote("The"), Wrote(" sea"), Wrote(" is"), Wrote(" wide"), Wrote(".")]
    talk.answer = lambda request: plain if talk.opened[-1] == "none" else SEA
    talk.type("/set temperature 0", "Describe the sea.", "/compare", "Next.", "/stats")
    assert talk.opened == ["ngram", "none", "ngram"]
    assert [request.messages[-1].content for request in talk.asked] == [
        "Describe the sea.",
        "Describe the sea.",
        "Next.",
    ]
    assert talk.messages == ["Describe the sea.", "The sea is wide.", "Next."]
    told = [line.split() for line in talk.err.splitlines()]
    assert ["tokens", "5", "5"] in told
    assert ["engine", "steps", "3", "5"] in told
    assert "against plain decoding: " in talk.err
    assert "times as fast (" in talk.err


def test_compare_given_up_ends_the_other_engine_before_the_one_before_is_back(talk: Talk) -> None:
    talk.held = {"none": (may_end := threading.Event())}
    view = Interrupted(lambda: len(talk.asked) == 1, not_compared=threading.Timer(0.3, may_end.set).start)
    talk.type("First.", "/compare", "Second.", shown=view)
    assert talk.messages == ["First.", "The sea is wide.", "Second."]
    assert [engine.closed for engine in talk.engines] == [True, True, True]


def test_compare_asks_with_the_settings_of_the_answer(talk: Talk) -> None:
    talk.type(
        "/set max_tokens 5",
        "/set temperature 0",
        "Describe the sea.",
        "/set max_tokens 500",
        "/set temperature 2",
        "/compare",
    )
    assert (talk.asked[-1].sampling.max_tokens, talk.asked[-1].sampling.temperature) == (5, 0)
    assert "sampled" not in talk.err


def test_compare_refuses_what_would_not_be_alike(talk: Talk) -> None:
    talk.type("First.", "/model other", "/compare", "/retry", "/system Be brief.", "/compare suffix")
    assert "error: the last answer came from tiny, and the chat goes on with other" in talk.err
    assert "error: the system prompt was changed after the last answer" in talk.err
    assert talk.opened == ["ngram", "ngram"]


def test_compare_refuses_an_answer_that_speculation_could_not_give(talk: Talk) -> None:
    talk.type("/method none", "/set min_p 0.1", "First.", "/set min_p default", "/compare ngram")
    assert (
        "error: the last answer came with min_p, which vLLM 0.32 does not support with speculative decoding" in talk.err
    )
    assert len(talk.asked) == 1


def test_compare_shows_the_first_token_that_differs(talk: Talk) -> None:
    other: Answer = [Wrote("A", texts=("A",)), Wrote(" lake is wide", tokens=3, texts=(" lake", " is", " wide"))]
    talk.answer = lambda request: other if talk.opened[-1] == "suffix" else SEA
    talk.type("/set temperature 0", "Describe the sea.", "/compare suffix 2", "/compare ngram")
    assert "the same 4 tokens and then one of them ends" in talk.err  # the scripted engine's ids are alike
    assert "error: the last answer came from tiny · ngram, k=3 already" in talk.err


def test_a_conversation_is_saved_and_loaded(talk: Talk, tmp_path: Path) -> None:
    talk.type(
        "First.", f"/save {tmp_path}/a.json", f"/save {tmp_path}/a.md", "/clear", f"/load {tmp_path}/a.json", "Second."
    )
    assert talk.messages == ["First.", "The sea is wide.", "Second."]
    assert "## First." in (tmp_path / "a.md").read_text()


def test_what_speculation_refuses_is_taken_back_when_a_conversation_is_loaded(talk: Talk, tmp_path: Path) -> None:
    save(tmp_path / "a.json", Conversation(), Sampling(min_p=0.1, seed=5))
    talk.type("First.", f"/load {tmp_path}/a.json", "Second.", options=Options(load=tmp_path / "a.json"))
    assert [(request.sampling.min_p, request.sampling.seed) for request in talk.asked] == [(None, 5)] * 2
    assert talk.err.count("min_p is taken back") == 2


def test_another_file_is_not_overwritten(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text("mine")
    talk.type("First.", f"/save {tmp_path}/b.json")
    assert (tmp_path / "b.json").read_text() == "mine"
    assert "exists" in talk.err


def test_with_save_each_turn_is_written(talk: Talk, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    talk.type("First.", "Second.", "/undo", options=Options(save=file))
    assert [turn.user for turn in load(file).conversation.turns] == ["First."]


def test_a_file_is_put_into_the_message(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "my notes.txt").write_text("the sea")
    talk.type(f'/file "{tmp_path}/my notes.txt" What is this?', "/file nowhere.txt")
    assert talk.messages == ["What is this?\n\nmy notes.txt:\n```\nthe sea\n```"]
    assert "error: cannot read nowhere.txt" in talk.err


def test_a_file_is_named_with_blanks_where_nothing_follows(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "my notes.txt").write_text("the sea")
    talk.type(f'/file "{tmp_path}/my notes.txt" What\'s this?', f"/save {tmp_path}/my chat.json", "/clear")
    assert talk.messages[0].startswith("What's this?\n\nmy notes.txt:")
    talk.type(f"/load {tmp_path}/my chat.json", "/save 'a' b")
    assert "loaded: 1 turn\n" in talk.err
    assert "error: too much behind the file a: b" in talk.err


def test_the_system_prompt_has_several_lines_or_none(talk: Talk) -> None:
    talk.type('/system """Be brief.', 'Be kind."""', "First.", '/system ""', "Second.")
    assert [message.content for message in talk.asked[0].messages] == ["Be brief.\nBe kind.", "First."]
    assert talk.messages == ["First.", "The sea is wide.", "Second."]


def test_a_word_that_means_to_leave_is_not_sent(talk: Talk) -> None:
    talk.type("exit")
    assert talk.asked == []
    assert "error: `exit` was not sent: /exit or Ctrl-D leaves\n" in talk.err


class TestContext:
    """A window of 40 words, of which 10 must stay for the answer."""

    @pytest.fixture(autouse=True)
    def small(self, talk: Talk) -> None:
        talk.plan = msgspec.structs.replace(talk.plan, max_model_len=40)

    def test_yes_forgets_the_oldest_turn(self, talk: Talk, tmp_path: Path) -> None:
        talk.type("one " * 12, "two " * 16, "y", f"/save {tmp_path}/all.json", "/context")
        assert talk.messages == [("two " * 16).strip()]
        saved: Conversation = load(tmp_path / "all.json").conversation
        assert (len(saved.turns), saved.num_forgotten) == (2, 1)
        assert "1 turn, the oldest, no longer sent" in talk.err

    def test_no_sends_nothing(self, talk: Talk) -> None:
        talk.type("one " * 12, "two " * 16, "n")
        assert len(talk.asked) == 1
        assert "error: the message was not sent" in talk.err

    def test_drop_does_not_ask_and_stop_refuses(self, talk: Talk) -> None:
        talk.type("/set when_full stop", "one " * 12, "two " * 16, "/set when_full drop", "three " * 16)
        assert [request.messages[-1].content.split()[0] for request in talk.asked] == ["one", "three"]
        assert "the conversation and this message are 32 tokens long, and the context holds 40" in talk.err

    def test_a_message_that_leaves_little_room_says_how_much(self, talk: Talk) -> None:
        talk.type("/set when_full stop", "one " * 12, "two " * 19)
        assert (
            "error: the conversation and this message are 35 tokens long, and the context holds 40: only 5" in talk.err
        )
        assert "/set when_full drop forgets the oldest turns" in talk.err

    def test_a_message_too_long_says_by_how_much(self, talk: Talk) -> None:
        talk.type("one", "word " * 50)
        assert len(talk.asked) == 1
        assert "error: the message is 50 tokens long, and the context holds 40: 11 too many" in talk.err


def test_reasoning_is_kept_out_of_the_history_and_shown_when_asked_for(talk: Talk) -> None:
    talk.answer = lambda request: [Wrote("<think>\nHm"), Wrote(".\n</think>\n\nYes.", tokens=4)]
    talk.type("First.", "/think", "Second.")
    assert talk.out == "Yes.\nYes.\n"
    assert talk.messages == ["First.", "Yes.", "Second."]
    assert "Hm." in talk.err


def test_what_the_engine_tells_apart_stays_out_of_the_history_and_tokens_show_all_of_it(talk: Talk) -> None:
    talk.answer = lambda request: [
        Wrote("<|channel>thought\nHm.", tokens=2, drafted=2, accepted=1, split=Split("Hm.")),
        Wrote("<channel|>Yes.", tokens=2, split=Split(answer="Yes.")),
    ]
    talk.type("First.", "/think", "/tokens", "Second.")
    assert talk.out == "Yes.\nYes.\n"
    assert talk.messages == ["First.", "Yes.", "Second."]
    assert talk.err.count("Hm.") == 4  # as it comes, twice; /think; /tokens
    assert "<|channel>" in talk.err


def test_what_is_typed_is_kept_for_its_owner_alone(talk: Talk) -> None:
    talk.type("Secret.", "/help")
    file = paths.state_dir() / "chat-history"
    assert "+Secret." in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_without_history_nothing_is_kept(talk: Talk) -> None:
    talk.type("Secret.", options=Options(keeps_history=False))
    assert not (paths.state_dir() / "chat-history").exists()


def test_the_editor_changes_the_last_question(talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i s/sea/sky/ $1\n")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    answers: Iterator[Answer] = iter([SEA, Refused("not now"), [Wrote("The sky is wide.")], SEA])
    talk.answer = lambda request: next(answers)
    talk.type("Describe the sea.", "/edit", "/retry", "Next.")
    assert [request.messages[-1].content for request in talk.asked][1:3] == ["Describe the sky."] * 2
    assert talk.messages == ["Describe the sky.", "The sky is wide.", "Next."]


def test_typing_while_the_engine_starts_waits_for_it(talk: Talk) -> None:
    may_start = threading.Event()
    opens = talk._open

    def open_later(plan: Plan) -> ScriptedEngine:
        may_start.wait(10)
        return opens(plan)

    talk._open = open_later  # type: ignore[method-assign]
    threading.Timer(0.5, may_start.set).start()
    talk.type("/set temperature 0", "First.")
    assert talk.asked[0].sampling.temperature == 0


def test_quiet_says_nothing_but_answers_and_errors(talk: Talk) -> None:
    talk.type("First.", "/nonsense", quiet=True)
    assert talk.out == "The sea is wide.\n"
    assert talk.err.splitlines()[0] == "error: no command is called /nonsense"


def test_doctor_explains_the_statistics_so_far(talk: Talk) -> None:
    talk.type("First.", "Second.", "/doctor")
    assert "tiny · ngram, k=3 · 2 answers, 10 tokens" in talk.err
    assert "4 of 12 tokens in 4 drafts" in " ".join(talk.err.split())
    assert "fewer than 20 say little about a pairing" in " ".join(talk.err.split())


def test_every_command_has_an_action() -> None:
    from speccli.chat.commands import BY_NAME
    from speccli.commands.chat.actions import ACTIONS

    assert set(ACTIONS) == set(BY_NAME)


def test_a_saved_conversation_is_one_json_object(talk: Talk, tmp_path: Path) -> None:
    talk.type("First.", f"/save {tmp_path}/d.json")
    told = json.loads((tmp_path / "d.json").read_bytes())
    [turn] = told["conversation"]["turns"]
    assert turn["tokens"][1] == [0, " sea", "draft"]


def test_on_a_terminal_answers_are_formatted_and_the_status_is_gone_in_the_end(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(100, 30)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("speccli.view.prompt.real_terminal", lambda file: DummyOutput())
    talk.answer = lambda request: [Wrote("# Ti"), Wrote("tle\n\n- *on"), Wrote("e*\n- `two`", drafted=3, accepted=0)]
    talk.type("Hello.", "/set markdown off", "Hello.")
    assert "Title\n\n • one\n • two\n3 tokens · " in screen.text
    assert "# Title\n\n- *one*\n- `two`\n3 tokens · " in screen.text
    assert "Ctrl-C stops\n" not in screen.text


def test_ctrl_c_twice_in_an_answer_leaves_and_the_second_does_not_disturb_the_tidying_up(talk: Talk) -> None:
    tidied: list[str] = []

    class Interrupting(View):
        def text(self, text: str) -> None:
            super().text(text)
            if "wide" in text:
                signal.raise_signal(signal.SIGINT)

    class Impatient(ScriptedEngine):
        def generate(self, requests: Iterable[Request | None], max_in_flight: int | None = None) -> Iterator[Step]:
            try:
                yield from super().generate(requests, max_in_flight)
            finally:
                signal.raise_signal(signal.SIGINT)
                tidied.append("yes")

    talk._keys.send_text(f"Describe the sea.{ENTER}And then?{ENTER}")
    code = chat(talk.plan, None, Options(), Interrupting(), lambda _: Impatient([SEA, SEA]), talk._replan)
    assert (code, tidied) == (ExitCode.DONE, ["yes"])
