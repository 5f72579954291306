"""What only the scripted engine does: it writes what it is told to."""

import pytest

from speccli.engine import Message, Prompt, Request
from speccli.engine.scripted import Dies, Refused, ScriptedEngine, Wrote
from speccli.errors import EngineFailed


def test_the_script_is_replayed_with_its_counts_and_times() -> None:
    ticks = iter([1.0, 2.5])
    engine = ScriptedEngine(
        [[Wrote("The sea", tokens=2, drafted=3, accepted=1), Wrote(" is wide.", tokens=3)]], clock=lambda: next(ticks)
    )
    first, last = engine.generate([Request(id="a", prompt="Describe the sea.")])
    assert (first.text, len(first.token_ids), first.num_draft_tokens, first.num_accepted_tokens) == ("The sea", 2, 3, 1)
    assert (first.at_s, last.at_s, last.finish_reason, last.num_prompt_tokens) == (1.0, 2.5, "stop", 3)


def test_requests_in_flight_take_turns() -> None:
    engine = ScriptedEngine([[Wrote("a"), Wrote("b")], [Wrote("c"), Wrote("d")]], max_in_flight=2)
    steps = engine.generate([Request(id="1", prompt="x"), Request(id="2", prompt="y")])
    assert [step.text for step in steps] == ["a", "c", "b", "d"]


def test_it_refuses_and_dies_on_command() -> None:
    engine = ScriptedEngine([Refused("too long"), [Wrote("a"), Dies("out of memory")]])
    steps = engine.generate([Request(id="1", prompt="x"), Request(id="2", prompt="y")])
    assert next(steps).error == "too long"
    assert next(steps).text == "a"
    with pytest.raises(EngineFailed, match="out of memory"):
        next(steps)


def test_a_script_that_is_too_short_says_so() -> None:
    [step] = ScriptedEngine([]).generate([Request(id="1", prompt="x")])
    assert step.error == "the script has no answer for this request"


def test_token_texts_are_told_where_they_are_wanted() -> None:
    script = [[Wrote("abcde", tokens=2), Wrote("☃", tokens=3, texts=("", "", "☃"))]]
    request = Request(id="a", prompt="x", wants_token_texts=True)
    assert [step.token_texts for step in ScriptedEngine(script).generate([request])] == [("ab", "cde"), ("", "", "☃")]
    assert [step.token_texts for step in ScriptedEngine(script).generate([Request(id="a", prompt="x")])] == [(), ()]


def test_a_prompt_is_measured_in_words() -> None:
    prompt = ScriptedEngine([]).measure(Request(id="a", messages=(Message("user", "How wide is the sea?"),)))
    assert prompt == Prompt(5)
