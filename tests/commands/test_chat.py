"""`speccli chat` as its user sees it, on the scripted engine: whole transcripts."""

import io
import json
import sys
from pathlib import Path

import msgspec
import pytest

from speccli.chat.conversation import Conversation
from speccli.chat.files import save
from speccli.commands.chat import Options, chat
from speccli.engine import Message, Request, Split
from speccli.engine.scripted import Answer, Refused, ScriptedEngine, Wrote
from speccli.errors import ExitCode, SpeccliError, UsageError
from speccli.plan import Plan
from speccli.profile import Sampling
from speccli.view import View

SEA: Answer = [
    Wrote("The sea"),
    Wrote(" is wide", tokens=3, drafted=3, accepted=2),
    Wrote(".", tokens=1, drafted=3, accepted=0),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())


def piped(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))


def run(
    plan: Plan, prompt: str | None, engine: ScriptedEngine, as_json: bool = False, view: View | None = None
) -> ExitCode:
    return chat(plan, prompt, Options(as_json=as_json), view or View(), lambda _: engine)


def test_the_answer_goes_to_stdout_and_the_statistics_to_stderr(
    plan: Plan, terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(plan, "Describe the sea.", ScriptedEngine([SEA])) == ExitCode.DONE
    captured = capsys.readouterr()
    assert captured.out == "The sea is wide.\n"
    assert "5 tokens · " in captured.err
    assert "mean acceptance length 2.00 · acceptance rate 33% (2 of 6 drafted, 2 drafts)" in captured.err
    assert "accepted by position  1: 50%  2: 50%  3: 0%" in captured.err


def test_json_is_one_object(plan: Plan, terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    run(plan, "Describe the sea.", ScriptedEngine([SEA]), as_json=True)
    [line] = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert (told["schema_version"], told["target"], told["method"], told["num_speculative_tokens"]) == (
        1,
        "tiny",
        "ngram",
        3,
    )
    assert (told["text"], told["finish_reason"]) == ("The sea is wide.", "stop")
    assert told["usage"] == {"prompt_tokens": 3, "completion_tokens": 5}
    assert told["speculation"]["num_accepted_tokens_per_pos"] == [1, 1, 0]


@pytest.mark.parametrize(
    ("prompt", "stdin", "asked"),
    [
        (None, b"From a file.\n", "From a file."),
        ("Summarise:", b"A long text.\n", "Summarise:\n\nA long text."),
        ("Just this.", b"", "Just this."),
    ],
)
def test_what_is_piped_in_follows_the_prompt(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, prompt: str | None, stdin: bytes, asked: str
) -> None:
    seen: list[Request] = []
    piped(monkeypatch, stdin)

    def answer(request: Request) -> Answer:
        seen.append(request)
        return SEA

    run(plan, prompt, ScriptedEngine(answer))
    assert seen[0].messages == (Message("user", asked),)


@pytest.mark.parametrize(("prompt", "stdin"), [(None, b""), ("", b"\n"), (None, b"  \n ")])
def test_nothing_to_answer_is_said_before_an_engine_starts(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, prompt: str | None, stdin: bytes
) -> None:
    piped(monkeypatch, stdin)
    with pytest.raises(UsageError, match="nothing to answer"):
        chat(plan, prompt, Options(), View(), lambda _: pytest.fail("the engine was started"))


def test_input_that_is_not_utf8_is_refused(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        run(plan, None, ScriptedEngine([SEA]))


def test_json_without_a_prompt_on_a_terminal_is_refused(plan: Plan, terminal: None) -> None:
    with pytest.raises(UsageError, match="--json needs a prompt"):
        run(plan, None, ScriptedEngine([SEA]), as_json=True)


def test_a_refused_request_is_one_error(plan: Plan, terminal: None) -> None:
    with pytest.raises(SpeccliError, match="refused the request: too long") as caught:
        run(plan, "Hello", ScriptedEngine([Refused("too long")]))
    assert caught.value.exit_code == ExitCode.FINDINGS


def test_quiet_leaves_stderr_empty(plan: Plan, terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    run(plan, "Describe the sea.", ScriptedEngine([SEA]), view=View(quiet=True))
    assert capsys.readouterr() == ("The sea is wide.\n", "")


def test_ctrl_c_keeps_what_came_and_exits_130(plan: Plan, terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    engine = ScriptedEngine([SEA])

    class Interrupting(View):
        def text(self, text: str) -> None:
            super().text(text)
            if "wide" in text:
                raise KeyboardInterrupt

    assert run(plan, "Describe the sea.", engine, view=Interrupting()) == ExitCode.INTERRUPTED
    assert capsys.readouterr().out == "The sea is wide\n"
    assert engine.aborted == ["chat"]


def test_a_prompt_longer_than_the_context_says_by_how_much(plan: Plan, terminal: None) -> None:
    small = msgspec.structs.replace(plan, max_model_len=8)
    with pytest.raises(UsageError, match="the message is 9 tokens long, and the context holds 8: 2 too many") as caught:
        run(small, "one two three four five six seven eight nine", ScriptedEngine([SEA]))
    assert caught.value.hint == "shorten the message, or start with --max-model-len up to 1,024"


def test_a_conversation_that_leaves_little_room_is_gone_on_with(
    plan: Plan, terminal: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, small = tmp_path / "chat.json", msgspec.structs.replace(plan, max_model_len=16)
    chat(small, "one two three four", Options(save=file), View(quiet=True), lambda _: ScriptedEngine([SEA]))
    go_on = Options(load=file)
    chat(small, "one two three four five six", go_on, View(quiet=True), lambda _: ScriptedEngine([SEA]))
    assert capsys.readouterr().out == "The sea is wide.\n" * 2
    message = "the conversation and this message are 16 tokens long, and the context holds 16: 1 too many"
    with pytest.raises(UsageError, match=message):
        chat(small, "one two three four five six seven eight", go_on, View(), lambda _: ScriptedEngine([SEA]))


def test_reasoning_goes_to_stderr_and_the_answer_to_stdout(
    plan: Plan, terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    thinking: Answer = [Wrote("<think>\nHm"), Wrote(".\n</think>\n\nYes.", tokens=4)]
    run(plan, "Is it?", ScriptedEngine([thinking]))
    captured = capsys.readouterr()
    assert captured.out == "Yes.\n"
    assert "Hm." in captured.err
    run(plan, "Is it?", ScriptedEngine([thinking]), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["text"], told["reasoning"]) == ("Yes.", "Hm.")


HARMONY: Answer = [
    Wrote("analysis", tokens=3, split=Split()),
    Wrote("Hm.", tokens=3, drafted=3, accepted=2, split=Split("Hm.")),
    Wrote("assistantfinalYes", tokens=5, drafted=4, accepted=4, split=Split(answer="Yes")),
    Wrote(".", split=Split(answer=".")),
]


def test_what_the_engine_tells_apart_is_shown_apart_and_counted_whole(
    plan: Plan, terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    run(plan, "Is it?", ScriptedEngine([HARMONY]))
    captured = capsys.readouterr()
    assert captured.out == "Yes.\n"
    assert "Hm." in captured.err
    assert "analysis" not in captured.err
    assert "12 tokens · " in captured.err
    assert "(6 of 7 drafted, 2 drafts)" in captured.err
    run(plan, "Is it?", ScriptedEngine([HARMONY]), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["text"], told["reasoning"], told["usage"]["completion_tokens"]) == ("Yes.", "Hm.", 12)
    assert told["speculation"]["num_accepted_tokens"] == 6


def test_an_answer_without_reasoning_has_no_field_for_it(
    plan: Plan, terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    run(plan, "Is it?", ScriptedEngine([[Wrote("Yes.", split=Split(answer="Yes."))]]), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["text"] == "Yes."
    assert "reasoning" not in told


def test_what_speculation_refuses_is_taken_back_from_a_loaded_conversation(
    plan: Plan, terminal: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Request] = []

    def answer(request: Request) -> Answer:
        seen.append(request)
        return SEA

    file = tmp_path / "chat.json"
    save(file, Conversation(), Sampling(min_p=0.1, seed=5))
    chat(plan, "First.", Options(load=file), View(), lambda _: ScriptedEngine(answer))
    assert (seen[0].sampling.min_p, seen[0].sampling.seed) == (None, 5)
    assert "min_p is taken back" in capsys.readouterr().err


def test_a_turn_is_saved_and_gone_on_with(plan: Plan, terminal: None, tmp_path: Path) -> None:
    seen: list[Request] = []

    def answer(request: Request) -> Answer:
        seen.append(request)
        return SEA

    file = tmp_path / "chat.json"
    for prompt, load in (("First.", None), ("Second.", file)):
        chat(plan, prompt, Options(save=file, load=load), View(quiet=True), lambda _: ScriptedEngine(answer))
    assert [message.content for message in seen[-1].messages] == ["First.", "The sea is wide.", "Second."]
    with pytest.raises(UsageError, match=r"chat\.json exists"):
        chat(plan, "Third.", Options(save=file), View(), lambda _: pytest.fail("the engine was started"))
