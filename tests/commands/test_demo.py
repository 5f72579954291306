"""`speccli demo`, on the scripted engine."""

import msgspec
import pytest

from speccli.commands.demo import CHAT_TOKENS, MAX_TOKENS, QUESTION, demo
from speccli.engine import Message, Request
from speccli.engine.scripted import Answer, ScriptedEngine, Wrote
from speccli.errors import ExitCode
from speccli.plan import Plan
from speccli.view import View

NUM_PROMPTS = 20


class Opened:
    """What was opened, in order, and what each engine was asked."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.asked: list[list[Request]] = []

    def __call__(self, plan: Plan) -> ScriptedEngine:
        asked: list[Request] = []
        self.plans.append(plan)
        self.asked.append(asked)

        def answer(request: Request) -> Answer:
            asked.append(request)
            if not plan.pairing.is_speculative:
                return [Wrote("Some"), Wrote("\n thing"), Wrote(".")]
            return [Wrote("Some"), Wrote("\n thing.", tokens=2, drafted=4, accepted=1)]

        return ScriptedEngine(answer, max_in_flight=4)


@pytest.fixture
def plain(plan: Plan) -> Plan:
    pairing = msgspec.structs.replace(plan.pairing, method="none", num_speculative_tokens=0)
    return msgspec.structs.replace(plan, pairing=pairing)


def test_a_chat_turn_every_sample_prompt_and_the_turn_again_without_speculation(
    plan: Plan, plain: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = Opened()
    assert demo(plan, plain, View(), opened) == ExitCode.DONE
    assert opened.plans == [plan, plain]
    assert [len(asked) for asked in opened.asked] == [1 + NUM_PROMPTS, 1]
    first, again = opened.asked[0][0], opened.asked[1][0]
    assert first == again
    assert (first.messages, first.sampling.max_tokens) == ((Message("user", QUESTION),), CHAT_TOKENS)
    assert {request.sampling.max_tokens for request in opened.asked[0][1:]} == {MAX_TOKENS}
    captured = capsys.readouterr()
    assert captured.out.splitlines()[:3] == ["Some", " thing.", "   capital  Some thing."]
    assert captured.out.splitlines()[-2:] == ["Some", " thing."]
    assert "20 done · 60 tokens" in captured.err
    assert "mean acceptance length 2.00 · acceptance rate 25% (20 of 80 drafted, 20 drafts)" in captured.err
    assert "tokens/s" in captured.err.split("without speculation")[1]
    assert captured.err.rstrip().endswith("Your turn:  speccli chat    (in this checkout: .venv/bin/speccli chat)")


def test_nothing_is_compared_where_nothing_speculates(plain: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    opened = Opened()
    assert demo(plain, None, View(), opened) == ExitCode.DONE
    assert opened.plans == [plain]
    assert "without speculation" not in capsys.readouterr().err
