"""vLLM's own reasoning parsers, through the reading that a request gets, on streams cut in awkward ways."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from speccli.diagnose.failures.failed import explained
from speccli.engine import Message, Request, Split, Step
from speccli.engine.reasoning import Parsers, Reading
from speccli.engine.vllm import TEMPLATE, VllmEngine, parsers_of
from speccli.errors import EngineFailed
from speccli.profile import Sampling
from tests.conftest import PlanFor

pytestmark = pytest.mark.engine

MARKS = ("<think>", "</think>", "<|im_start|>", "<|im_end|>", "<|channel>", "<channel|>", "<|turn>", "<turn|>")
WORDS = ("Hm", ".", "\n", "thought", " so", "Yes", " it", " is", " <", "user", "assistant", "thi", "nk>")
TOKENS = (*MARKS, *WORDS)

REQUEST = Request(id="a", messages=(Message("user", "Is it?"),))

SIZES = [pytest.param(size, id=f"{size}-a-step") for size in (1, 2, 3, 16)]
HELD = [pytest.param(held, id=f"{held}-held-back") for held in (0, 3, 12)]
"""Characters that vLLM's detokenizer holds back, because they may begin a stop string."""

HARMONY = "<|channel|>analysis<|message|>Hm. So it is.<|end|><|start|>assistant<|channel|>final<|message|>Yes, it is.<|return|>"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """Each of the tokens is a word, by its place."""
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({token: place for place, token in enumerate(TOKENS)}, unk_token="."))
    made.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=made)
    fast.add_tokens([AddedToken(mark, special=True) for mark in MARKS])
    return fast


@pytest.fixture
def parsers(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The parsers of that name, as an engine gets them for its configuration."""
    importlib.import_module("vllm.v1.engine.llm_engine")  # else its modules would find the one below, and keep it
    monkeypatch.setattr("vllm.tokenizers.cached_tokenizer_from_config", lambda model: tokenizer)

    def named(name: str, model_type: str = "tiny") -> Parsers | None:
        model = SimpleNamespace(model="tiny", hf_config=SimpleNamespace(model_type=model_type))
        wanted = SimpleNamespace(reasoning_parser=name)
        return parsers_of(SimpleNamespace(structured_outputs_config=wanted, model_config=model))

    return named


def ids(*tokens: str) -> list[int]:
    return [TOKENS.index(token) for token in tokens]


def reading(parsers: Parsers | None, request: Request = REQUEST, **template: Any) -> Reading:
    assert parsers is not None
    return parsers.reading(request, {**TEMPLATE, **template})


def told(
    reading: Reading, texts: list[str], token_ids: list[int], prompt: list[int], size: int = 1, held: int = 0
) -> Split:
    """What comes of a stream of so many tokens a step, put together."""
    parts: list[Split] = []
    shown = 0
    for end in range(size, len(texts) + size, size):
        is_last = end >= len(texts)
        whole = "".join(texts[:end])
        until = max(shown, len(whole) - (0 if is_last else held))
        completion = SimpleNamespace(
            text=whole[shown:until], token_ids=token_ids[end - size : end], finish_reason="stop" if is_last else None
        )
        parts.append(reading.split(completion, prompt))
        shown = until
    return Split("".join(part.reasoning for part in parts), "".join(part.answer for part in parts))


def stream(reading: Reading, *tokens: str, prompt: tuple[str, ...] = (), size: int = 1, held: int = 0) -> Split:
    return told(reading, list(tokens), ids(*tokens), ids(*prompt), size, held)


# --- <think>

THINKS = ("Hm", ".", " <", "\n", "</think>", "\n", "\n", "Yes", " it", " is", " <", "thi", "nk>", ".")
OPENED = ("<|im_start|>", "assistant", "\n", "<think>", "\n")
EXPECTED = Split("Hm. <\n", "\n\nYes it is <think>.")


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["qwen3", "deepseek_r1"])
def test_what_stands_before_the_end_mark_is_reasoning(parsers: Any, name: str, size: int, held: int) -> None:
    assert stream(reading(parsers(name)), *THINKS, prompt=OPENED, size=size, held=held) == EXPECTED
    own_mark = stream(reading(parsers(name)), "<think>", *THINKS, prompt=OPENED[:3], size=size, held=held)
    assert own_mark == EXPECTED


def test_a_template_that_closes_the_reasoning_leaves_an_answer(parsers: Any) -> None:
    closed = (*OPENED, "\n", "</think>", "\n", "\n")
    asked = reading(parsers("qwen3"), enable_thinking=False)
    assert stream(asked, "Yes", " it", " is", prompt=closed) == Split("", "Yes it is")


@pytest.mark.parametrize("name", ["qwen3", "deepseek_r1"])
def test_an_answer_that_ends_too_early_is_reasoning_only(parsers: Any, name: str) -> None:
    assert stream(reading(parsers(name)), "Hm", " so", " <", prompt=OPENED, held=4) == Split("Hm so <", "")


# --- Gemma's channels


@pytest.mark.parametrize("size", SIZES)
def test_gemmas_channel_is_reasoning_without_its_name(parsers: Any, size: int) -> None:
    thinks = ("<|channel>", "thought", "\n", "Hm", ".", "<channel|>", "Yes", " it", " is")
    asked = reading(parsers("gemma4"), enable_thinking=True)
    assert stream(asked, *thinks, prompt=("<|turn>", "user"), size=size) == Split("Hm.", "Yes it is")
    assert stream(reading(parsers("gemma4")), "Yes", " it", prompt=("<|turn>", "user"), size=size) == Split(
        "", "Yes it"
    )


# --- Harmony


def harmony(reading: Reading, text: str, size: int) -> Split:
    from vllm.entrypoints.openai.parser.harmony_utils import get_encoding

    encoding = get_encoding()
    token_ids = encoding.encode(text, allowed_special="all")
    prompt = encoding.encode("<|start|>assistant", allowed_special="all")
    plain = ["" if encoding.is_special_token(one) else encoding.decode([one]) for one in token_ids]
    return told(reading, plain, token_ids, prompt, size)


@pytest.mark.parametrize("size", SIZES)
def test_harmonys_channels_are_reasoning_and_answer(parsers: Any, size: int) -> None:
    asked = reading(parsers("openai_gptoss", "gpt_oss"))
    assert harmony(asked, HARMONY, size) == Split("Hm. So it is.", "Yes, it is.")


def test_harmonys_answer_that_ends_too_early_is_reasoning_only(parsers: Any) -> None:
    asked = reading(parsers("openai_gptoss", "gpt_oss"))
    assert harmony(asked, HARMONY.partition(" it is")[0], 3) == Split("Hm. So", "")


# --- What a parser needs of the sampling


def test_parsers_that_read_special_tokens_get_them(parsers: Any) -> None:
    assert reading(parsers("qwen3")).sampling == {"skip_special_tokens": False}
    assert reading(parsers("gemma4")).sampling == {"skip_special_tokens": False}
    assert reading(parsers("openai_gptoss", "gpt_oss")).sampling == {"skip_special_tokens": True}
    plain = Request(id="a", messages=REQUEST.messages, sampling=Sampling(skip_special_tokens=False))
    assert reading(parsers("deepseek_r1"), plain).sampling == {"skip_special_tokens": False}


def test_harmony_puts_the_structure_that_is_asked_for_into_its_final_channel(parsers: Any) -> None:
    structured = Sampling(structured_outputs={"choice": ["yes", "no"]})
    request = Request(id="a", messages=REQUEST.messages, sampling=structured)
    wanted = reading(parsers("openai_gptoss", "gpt_oss"), request).sampling["structured_outputs"]
    assert wanted.choice is None
    assert "<|channel|>final<|message|>" in wanted.structural_tag
    assert reading(parsers("qwen3"), request).sampling["structured_outputs"].choice == ["yes", "no"]


def test_without_a_name_there_are_no_parsers(parsers: Any) -> None:
    assert parsers("") is None


def test_a_parser_that_does_not_go_with_the_target_is_refused(parsers: Any) -> None:
    with pytest.raises(TypeError, match="cannot be used with the tokenizer of 'tiny'"):
        parsers("qwen3", "gpt_oss")


# --- A whole engine


@pytest.fixture(scope="module")
def thinking_engine(plan_for: PlanFor) -> Iterator[VllmEngine]:
    """The embedded default never thinks; with this parser all that has no end mark is reasoning."""
    with VllmEngine(plan_for(method="none", reasoning_parser="qwen3")) as engine:
        yield engine


@pytest.mark.parametrize("stream_interval", [1, 16])
def test_an_engine_with_a_parser_tells_the_same_text_and_its_parts(
    thinking_engine: VllmEngine, plain_engine: VllmEngine, stream_interval: int
) -> None:
    asked = Request(
        id="a",
        messages=(Message("user", "Count from one to five."),),
        sampling=Sampling(temperature=0.0, max_tokens=24),
        stream_interval=stream_interval,
    )
    plain, steps = list(plain_engine.generate([asked])), list(thinking_engine.generate([asked]))
    assert [(step.text, step.token_ids) for step in steps] == [(step.text, step.token_ids) for step in plain]
    assert {step.split for step in plain} == {None}
    text = "".join(step.text for step in plain)
    assert text
    assert _joined(steps) == Split(text, "")
    answering = structs.replace(asked, chat_template_kwargs={"enable_thinking": False})
    assert _joined(list(thinking_engine.generate([answering]))) == Split("", text)
    [*_, last] = thinking_engine.generate([Request(id="b", prompt="One, two,", sampling=asked.sampling)])
    assert last.split is None


def _joined(steps: list[Step]) -> Split:
    parts = [step.split for step in steps if step.split is not None]
    assert len(parts) == len(steps)
    return Split("".join(part.reasoning for part in parts), "".join(part.answer for part in parts))


def test_an_engine_whose_tokenizer_lacks_the_marks_does_not_start_and_says_what_to_do(plan_for: PlanFor) -> None:
    with pytest.raises(EngineFailed) as caught:
        VllmEngine(plan_for(method="none", reasoning_parser="deepseek_r1"))
    assert "`reasoning_parser: none`" in str(explained(caught.value).hint)
