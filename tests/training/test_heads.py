"""The heads: their mathematics, that training can be cut off, and that what is exported fits the target."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from speccli import paircheck
from speccli.checkpoint.inspection import inspect_folder
from speccli.paircheck import Pair
from tests.training import programs
from training.conversation import ANSWER, USER

VOCAB = 64


def _trainer(method: str, target_folder: Path, data: Path, *, bfloat16: bool = False) -> tuple[Any, Any]:
    from training import eagle3, medusa
    from training.target import load
    from training.trainer import Recipe

    target, recipe = load(target_folder), Recipe(batch_tokens=256, warmup_updates=2, bfloat16=bfloat16)
    if method == "eagle3":
        trainer = eagle3.begun(target, data, recipe, VOCAB, 160)
        return trainer, eagle3.loss_for(target, trainer.constants["vocabulary"], (USER, ANSWER))
    trainer = medusa.begun(target, data, recipe, VOCAB, 3, 2)
    return trainer, medusa.loss_for(target, trainer.constants["vocabulary"], (USER, ANSWER))


def _exported(method: str, target_folder: Path, data: Path, folder: Path) -> Any:
    """The trainer of a head that was saved and exported to `folder`."""
    from training import export
    from training.target import load
    from training.trainer import saved

    trainer, _ = _trainer(method, target_folder, data)
    checkpoint = folder.with_suffix(".pt")
    trainer.save(checkpoint)
    export.written(folder, load(target_folder), saved(checkpoint))
    return trainer


@pytest.mark.parametrize("method", ["eagle3", "medusa"])
def test_training_that_was_cut_off_ends_where_an_uninterrupted_one_does(
    method: str, target_folder: Path, data: Path, tmp_path: Path
) -> None:
    from training.trainer import Trainer, run

    through, loss = _trainer(method, target_folder, data)
    run(through, loss, data, tmp_path / "through.pt", 9)
    first, _ = _trainer(method, target_folder, data)
    run(first, loss, data, tmp_path / "cut.pt", 4)
    second = Trainer.resumed(tmp_path / "cut.pt", first.recipe)
    run(second, loss, data, tmp_path / "cut.pt", 9)
    assert through.progress.pass_number > 0
    for name, tensor in through.average.items():
        assert second.average[name].equal(tensor), name
        assert second.weights[name].equal(through.weights[name]), name


@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize("method", ["eagle3", "medusa"])
def test_training_learns(method: str, bfloat16: bool, target_folder: Path, data: Path) -> None:
    import torch

    from training import batches, shards

    trainer, loss = _trainer(method, target_folder, data, bfloat16=bfloat16)
    batch = batches.load(shards.all_entries(data, "train"))
    figures = [trainer.update(batch, loss, 60) for _ in range(60)]
    assert figures[-1]["loss1"] < 0.9 * figures[0]["loss1"]
    assert all(torch.isfinite(tensor).all() for tensor in trainer.weights.values())


def test_drafts_of_a_whole_batch_equal_those_of_the_engines_way(target_folder: Path, data: Path) -> None:
    """The engine's way: one place, its keys and values so far, then each step with the head's own state."""
    import torch

    from training import batches, eagle3_model, shards
    from training.eagle3_model import Rows, Shape
    from training.target import load

    target = load(target_folder)
    trainer, _ = _trainer("eagle3", target_folder, data)
    weights, shape = trainer.average, Shape.of(target)
    batch = batches.load(shards.all_entries(data, "train")[:3])
    first = batch.is_wanted((ANSWER,), 3).nonzero(as_tuple=True)
    deeper = torch.arange(0, len(first[0]), 2)
    states = list(eagle3_model.drafted(weights, shape, target.embedding, batch, Rows(first, deeper), 3))
    for row in deeper[:: len(deeper) // 4].tolist():
        conversation, place = int(first[0][row]), int(first[1][row])
        expected = _as_the_engine(weights, target, batch.tokens[conversation], batch.states[conversation], place)
        at = [row, *[int((deeper == row).nonzero())] * 2]
        for have, where, want in zip(states, at, expected, strict=True):
            torch.testing.assert_close(have[where], want, atol=1e-4, rtol=1e-4)


def _as_the_engine(weights: Any, target: Any, tokens: Any, states: Any, place: int) -> list[Any]:
    import torch
    from torch.nn.functional import linear, silu

    def normed(x: Any, name: str) -> Any:
        return x * (x.square().mean(-1, keepdim=True) + target.eps).rsqrt() * weights[name]

    def turned(x: Any, position: int) -> Any:
        inverse = 10000.0 ** (-torch.arange(0, 32, 2) / 32)
        cos, sin = (position * inverse).cos().repeat(2), (position * inverse).sin().repeat(2)
        return x * cos + torch.cat([-x[:, 16:], x[:, :16]], -1) * sin

    def step(token: int, hidden: Any, position: int, keys: list[Any], values: list[Any]) -> Any:
        layer = "midlayer."
        embeds = normed(target.embedding[token], f"{layer}input_layernorm.weight")
        both = torch.cat([embeds, normed(hidden, f"{layer}hidden_norm.weight")])
        q, k, v = (linear(both, weights[f"{layer}self_attn.{n}_proj.weight"]).view(-1, 32) for n in "qkv")
        keys.append(turned(k, position))
        values.append(v)
        heads = []
        for head, query in enumerate(turned(q, position)):
            scores = torch.stack([query @ key[head // 2] for key in keys]) / 32**0.5
            heads.append(sum(s * value[head // 2] for s, value in zip(scores.softmax(0), values, strict=True)))
        x = hidden + linear(torch.cat(heads), weights[f"{layer}self_attn.o_proj.weight"])
        inner = normed(x, f"{layer}post_attention_layernorm.weight")
        gate, up = (linear(inner, weights[f"{layer}mlp.{n}_proj.weight"]) for n in ("gate", "up"))
        return x + linear(silu(gate) * up, weights[f"{layer}mlp.down_proj.weight"])

    keys: list[Any] = []
    values: list[Any] = []
    for p in range(place + 1):
        aux = torch.cat([normed(states[p, i], f"fc_norm.{i}.weight") for i in range(3)])
        state = step(int(tokens[p + 1]), linear(aux, weights["fc.weight"]), p, keys, values)
    drafts = [state]
    for p in (place + 1, place + 2):
        drafts.append(step(int(tokens[p + 1]), drafts[-1], p, keys, values))
    return [normed(draft, "norm.weight") for draft in drafts]


@pytest.mark.parametrize("method", ["eagle3", "medusa"])
def test_what_is_exported_is_recognised_and_fits_the_target(
    method: str, target_folder: Path, data: Path, tmp_path: Path
) -> None:
    _exported(method, target_folder, data, tmp_path / "head")
    head = inspect_folder(tmp_path / "head", "head")
    target = inspect_folder(target_folder, "target")
    pair = Pair(target=target, speculator=head, method=method, num_speculative_tokens=3)
    assert head.kind.method == method
    assert [fault for fault in paircheck.check(pair) if fault.severity != "info"] == []


@pytest.mark.parametrize("method", ["eagle3", "medusa"])
def test_training_can_begin_with_a_head_that_was_exported(
    method: str, target_folder: Path, data: Path, tmp_path: Path
) -> None:
    from training.trainer import saved

    head, checkpoint = tmp_path / "head", tmp_path / "next.pt"
    trainer = _exported(method, target_folder, data, head)
    files = ["--data", data, "--target", target_folder, "--head", head, "--checkpoint", checkpoint]
    programs.run(method, *files, "--updates", 1, "--learning-rate", 0, "--threads", 1)
    content = saved(checkpoint)
    assert content["progress"]["updates"] == 1
    assert content["constants"]["vocabulary"].equal(trainer.constants["vocabulary"])
    for name, tensor in content["weights"].items():
        assert tensor.equal(trainer.weights[name].half().float()), name


@pytest.mark.parametrize(("method", "shape"), [("eagle3", "--intermediate 160"), ("medusa", "--heads 3 --layers 2")])
def test_the_model_card_tells_data_command_and_acceptance(
    method: str, shape: str, target_folder: Path, data: Path
) -> None:
    from training import export

    trainer, _ = _trainer(method, target_folder, data)
    content = {"average": trainer.average, "constants": trainer.constants}
    content |= {"progress": {"updates": 7, "rows": 900, "seconds": 120.0}}
    content["recipe"] = {
        "learning_rate": 0.001,
        "batch_tokens": 512,
        "cooldown_updates": 2,
        "seed": 3,
        "words": 0,
        "answers_only": False,
        "bfloat16": True,
    }
    line = {
        "method": method, "updates": 7, "split": "heldout", "tokens_of_data": 1234, "by_position": [0.5, 0.25, 0.125],
        "mean_acceptance_length": 1.64,
    }  # fmt: skip
    text = export.card(content, method, [line, {**line, "updates": 3}], "1,000 updates elsewhere")
    assert "- **Before:** 1,000 updates elsewhere\n- **Training:** 7 updates" in text
    assert "| held out, of the kind it was trained on | 0.50 / 0.25 / 0.12 | 1.64 |" in text
    assert "1,234 tokens" in text
    size = len(trainer.constants["vocabulary"])
    command = f"python -m training.{method} --updates 7 --cooldown 2 --learning-rate 0.001 --batch-tokens 512 --words 0 --seed 3"
    assert f"`{command} --head HEAD --bfloat16`" in text
    anew = export.card(content, method, [line])
    assert f"`{command} --vocab-size {size} {shape} --bfloat16`" in anew
    assert "**Before:**" not in anew


@pytest.mark.parametrize("program", ["eagle3", "medusa", "evaluate"])
def test_without_data_each_program_says_how_to_make_some(
    program: str, target_folder: Path, data: Path, tmp_path: Path
) -> None:
    checkpoint, empty = tmp_path / "head.pt", tmp_path / "empty"
    _trainer("eagle3", target_folder, data)[0].save(checkpoint)
    if program != "evaluate":
        checkpoint.unlink()
    with pytest.raises(subprocess.CalledProcessError) as caught:
        programs.run(program, "--data", empty, "--target", target_folder, "--checkpoint", checkpoint)
    assert f"{empty} holds no " in caught.value.stderr.decode()
    assert "Traceback" not in caught.value.stderr.decode()


def test_a_head_without_figures_is_not_exported(target_folder: Path, data: Path, tmp_path: Path) -> None:
    trainer, _ = _trainer("eagle3", target_folder, data)
    trainer.save(tmp_path / "head.pt")
    files = ["--checkpoint", tmp_path / "head.pt", "--curve", tmp_path / "curve.jsonl", "--to", tmp_path / "head"]
    with pytest.raises(subprocess.CalledProcessError) as caught:
        programs.run("export", "--target", target_folder, *files)
    assert b"has no figures of this head" in caught.value.stderr
    assert not (tmp_path / "head").exists()


def test_the_draft_vocabulary_is_what_is_commonest() -> None:
    import torch

    from training.teacher import vocabulary

    tokens = torch.tensor([7, 7, 7, 9, 9, 3])
    assert vocabulary(tokens, 2, 12).tolist() == [7, 9]
    assert vocabulary(tokens, 5, 12).tolist() == [0, 1, 3, 7, 9]


def test_the_loss_is_cross_entropy_with_its_gradient() -> None:
    import torch

    from training.teacher import loss

    states, lm_head = torch.randn(5, 8, requires_grad=True), torch.randn(6, 8, requires_grad=True)
    wanted = torch.rand(5, 6) / 6
    plain = -(wanted * (states @ lm_head.T).log_softmax(-1)).sum()
    expected = torch.autograd.grad(plain, [states, lm_head])
    backward, value = loss(states, lm_head, wanted)
    for have, want in zip(torch.autograd.grad(backward, [states, lm_head]), expected, strict=True):
        torch.testing.assert_close(have, want)
    assert value == pytest.approx(plain.item())


def test_acceptance_is_counted_by_walking_from_verified_token_to_verified_token() -> None:
    """Places 4 to 10; the engine first drafts from 5, accepts 2, goes on from 8, accepts none, then from 9, and 10."""
    import torch

    from training.eagle3_model import Rows
    from training.evaluate import _walked

    rows = Rows((torch.zeros(7, dtype=torch.long), torch.arange(4, 11)), torch.arange(7))
    accepted = torch.tensor([3, 2, 3, 3, 0, 0, 1])
    assert _walked(rows, accepted, 3).tolist() == [4.0, 2.0, 1.0, 0.0]
