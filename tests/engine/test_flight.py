"""What one output of vLLM says, as a step, where a reasoning parser tells its parts apart; on made-up outputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from speccli.engine import Request, Split
from speccli.engine.flight import Flight
from speccli.engine.vllm import VllmEngine

REQUEST = Request(id="mine", prompt="x")


def output(text: str, *token_ids: int, finish_reason: str | None = None) -> Any:
    completion = SimpleNamespace(text=text, token_ids=list(token_ids), finish_reason=finish_reason)
    return SimpleNamespace(
        request_id="0", outputs=[completion], prompt_token_ids=[1, 2], finished=finish_reason is not None
    )


class Echo:
    """Takes all of it for reasoning, and stumbles on "bad"."""

    def split(self, completion: Any, prompt_token_ids: Any) -> Split:
        if completion.text == "bad":
            raise IndexError("list index out of range")
        return Split(reasoning=completion.text)


def flight(reading: Any) -> Flight:
    return Flight(REQUEST, "0-inner", False, reading)


def test_the_text_stays_whole_beside_its_parts() -> None:
    step = flight(Echo()).told(output("Hm", 7, 8), None, 1.0, "")
    assert (step.text, step.token_ids, step.split) == ("Hm", (7, 8), Split(reasoning="Hm"))
    assert flight(None).told(output("Hm", 7, 8), None, 1.0, "").split is None


def test_a_parser_that_fails_is_the_answers_own_error() -> None:
    step = flight(Echo()).told(output("bad", 7), None, 1.0, "")
    assert (step.finish_reason, step.split, step.token_ids) == ("error", None, (7,))
    assert step.error == (
        "vLLM's reasoning parser failed (IndexError: list index out of range); `reasoning_parser: none` does without it"
    )


def test_the_engine_is_told_to_end_that_request_and_goes_on_with_the_others() -> None:
    aborted: list[str] = []
    engine = VllmEngine.__new__(VllmEngine)
    engine._gave_up = ""
    other = output("fine", 9)
    other.request_id = "1"
    engine._engine = SimpleNamespace(
        step=lambda: [output("bad", 7), other],
        output_processor=SimpleNamespace(request_states={}),
        abort_request=lambda ids, internal: aborted.extend(ids),
    )
    for one in engine._engine.step():
        one.outputs[0].spec_decode_metrics = None
    flying = {"0": flight(Echo()), "1": Flight(REQUEST, "1-inner", False)}
    engine._metrics = lambda flight, output: None  # type: ignore[method-assign]
    assert [step.error is None for step in engine._step(flying)] == [False, True]
    assert aborted == ["0-inner"]
    assert list(flying) == ["1"]
