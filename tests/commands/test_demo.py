"""`speccli demo`, on the scripted engine."""

import pytest

from speccli.commands.demo import MAX_TOKENS, demo
from speccli.engine import Request
from speccli.engine.scripted import Answer, ScriptedEngine, Wrote
from speccli.errors import ExitCode
from speccli.plan import Plan
from speccli.view import View


def test_a_chat_turn_and_every_sample_prompt_on_one_engine(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Request] = []
    opened = 0

    def answer(request: Request) -> Answer:
        asked.append(request)
        return [Wrote("Some"), Wrote("\n thing.", tokens=2, drafted=4, accepted=1)]

    def open_engine(_: Plan) -> ScriptedEngine:
        nonlocal opened
        opened += 1
        return ScriptedEngine(answer, max_in_flight=4)

    assert demo(plan, View(), open_engine) == ExitCode.DONE
    captured = capsys.readouterr()
    assert opened == 1
    assert len(asked) == 21
    assert {request.sampling.max_tokens for request in asked[1:]} == {MAX_TOKENS}
    assert captured.out.splitlines()[:3] == ["Some", " thing.", "   capital  Some thing."]
    assert len(captured.out.splitlines()) == 22
    assert "20 done · 60 tokens" in captured.err
    assert "mean acceptance length 2.00 · acceptance rate 25% (20 of 80 drafted, 20 drafts)" in captured.err
    assert captured.err.rstrip().endswith("Your turn:  speccli chat    (in this checkout: .venv/bin/speccli chat)")
