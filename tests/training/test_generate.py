"""Conversations that the target writes itself, and what is captured while it does."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.training.conftest import plan
from training.conversation import ANSWER, FORCED, USER, Conversation, Plan, Turn

Encode = Callable[[str], list[int]]


def test_captured_states_equal_those_of_one_plain_pass(data: Path, target_folder: Path) -> None:
    import torch

    from training import shards
    from training.target import load, whole

    target = load(target_folder)
    for read in shards.read(shards.all_entries(data, "train"), ("tokens", "states")):
        plain = whole(target, read["tokens"][:-1].long())
        torch.testing.assert_close(read["states"][:-1].float(), plain, atol=2e-3, rtol=2e-3)
        assert not read["states"][-1].any()


def test_a_conversation_depends_neither_on_the_rows_nor_on_its_neighbours(target_folder: Path, encode: Encode) -> None:
    from training.generate import generated
    from training.target import load

    target = load(target_folder)
    many = {r.index: r.tokens.tolist() for r in generated(target, encode, [plan(i) for i in range(6)], rows=4)}
    alone = {r.index: r.tokens.tolist() for r in generated(target, encode, [plan(4), plan(1)], rows=1)}
    assert sorted(many) == [0, 1, 2, 3, 4, 5]
    assert alone == {1: many[1], 4: many[4]}


def test_the_plain_pass_is_that_of_transformers_with_vllms_layers(target_folder: Path) -> None:
    import torch
    from transformers import LlamaForCausalLM

    from training.target import load, whole

    model = LlamaForCausalLM.from_pretrained(target_folder, dtype=torch.float32)
    tokens = torch.tensor([258, 72, 105, 259, 10, 66])
    with torch.no_grad():
        states = model(tokens[None], output_hidden_states=True).hidden_states
    expected = torch.stack([states[i][0] for i in (2, 4, 5, -1)], dim=1)
    torch.testing.assert_close(whole(load(target_folder), tokens), expected, atol=1e-5, rtol=1e-4)


def test_shards_hold_every_conversation_once_and_a_second_run_adds_the_missing_ones(
    data: Path, target_folder: Path, encode: Encode, tmp_path: Path
) -> None:
    from training import generate, shards
    from training.target import load

    (tmp_path / shards.found(data, "train")[0].name).write_bytes(shards.found(data, "train")[0].read_bytes())
    done = {entry.index for entry in shards.all_entries(tmp_path, "train")}
    rest = [plan(i) for i in range(12) if i not in done]
    generate.write_shards(generate.generated(load(target_folder), encode, rest, 5), tmp_path, "train", size=4)
    assert len(done) == 4
    assert sorted(entry.index for entry in shards.all_entries(tmp_path, "train")) == list(range(12))


def test_a_conversation_follows_the_chat_template(encode: Encode) -> None:
    turns = (Turn(USER, "What", 2, 1.0), Turn(ANSWER, limit=3), Turn(USER, "So?"), Turn(ANSWER, limit=2))
    conversation = Conversation(Plan(0, 0, "chat", turns, "Hello"), encode)
    chosen = iter(encode("isab<|im_end|>cd"))
    while not conversation.is_finished:
        conversation.advance(None if conversation.temperature is None else next(chosen))
    text = (
        "<|im_start|>system\nHello<|im_end|>\n<|im_start|>user\nWhatis<|im_end|>\n<|im_start|>assistant\nab<|im_end|>"
        "\n<|im_start|>user\nSo?<|im_end|>\n<|im_start|>assistant\ncd"
    )
    assert conversation.tokens == encode(text)
    by_model = [role for role in conversation.roles if role != FORCED]
    assert by_model == [USER, USER, ANSWER, ANSWER, ANSWER, ANSWER, ANSWER]


def test_nothing_may_be_left_unchosen(encode: Encode) -> None:
    conversation = Conversation(Plan(0, 0, "chat", (Turn(ANSWER, limit=1),), ""), encode)
    while conversation.temperature is None:
        conversation.advance(None)
    with pytest.raises(ValueError, match="has to be chosen"):
        conversation.advance(None)


@pytest.mark.parametrize(
    ("temperature", "uniform", "token"), [(0.0, 0.99, 2), (1.0, 0.0, 2), (1.0, 0.8, 0), (1.0, 0.999, 0)]
)
def test_tokens_are_picked_by_likelihood(temperature: float, uniform: float, token: int) -> None:
    """Chances 0.3, 0.04, 0.66: the second falls outside the likeliest 95 %."""
    import torch

    from training.sampling import pick

    logits = torch.tensor([[0.30, 0.04, 0.66]]).log()
    assert pick(logits, torch.tensor([temperature]), torch.tensor([uniform])).tolist() == [token]


def test_training_plans_differ_from_held_out_ones_and_are_repeatable() -> None:
    from training import prompts

    drawn = [prompts.drawn("train", i) for i in range(300)]
    assert drawn == [prompts.drawn("train", i) for i in range(300)]
    assert {each.category for each in drawn} == set(prompts.WEIGHTS)
    assert [prompts.drawn("heldout", i).turns for i in range(300)] != [each.turns for each in drawn]
    assert {turn.temperature for each in drawn for turn in each.turns if turn.role == ANSWER} == {0.0, 0.7, 1.0}


def test_a_conversation_with_a_prompt_that_heads_are_measured_on_is_left_out(tmp_path: Path) -> None:
    import torch

    from training import prompts
    from training.generate import is_allowed
    from training.shards import Record

    file = tmp_path / "bench.jsonl"
    file.write_text('{"id": "a", "prompt": "What is  rain?"}\n', encoding="utf-8")
    record = Record(0, "bare", torch.tensor([1]), torch.tensor([1]), torch.zeros(1), torch.zeros(1))
    same, other = ("<|im_start|>user\n" + text + "<|im_end|>\n" for text in ("what is\nrain?", "What is snow?"))
    assert not is_allowed(record, lambda ids: same, prompts.forbidden([file]))
    assert is_allowed(record, lambda ids: other, prompts.forbidden([file]))
