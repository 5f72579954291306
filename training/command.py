"""What the two trainers' command lines have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import torch

from training import export
from training.conversation import ANSWER, USER
from training.target import Target, default_folder, load
from training.trainer import Loss, Recipe, Trainer, run

Begin = Callable[[Target, Recipe], Trainer]
LossFor = Callable[[Target, torch.Tensor, tuple[int, ...], int], Loss]
"""Of the target, the draft vocabulary, whose tokens to learn from, and how many words a batch looks at."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="the folder of shards")
    parser.add_argument("--checkpoint", type=Path, required=True, help="begun if it is not there")
    parser.add_argument("--head", type=Path, help="begin with this head, in the layout that vLLM loads, not anew")
    parser.add_argument("--to", type=Path, help="where to save, if not there: a cool-down leaves the long run as it is")
    parser.add_argument("--updates", type=int, default=10_000, help="how many in all, with those of earlier runs")
    parser.add_argument("--cooldown", type=int, default=0, help="updates at the end with a falling learning rate")
    parser.add_argument("--vocab-size", type=int, default=8192, help="of a new head")
    parser.add_argument("--words", type=int, default=Recipe.words, help="of the vocabulary in each batch; 0 for all")
    parser.add_argument("--answers-only", action="store_true", help="leave out what the model wrote as the user")
    parser.add_argument("--learning-rate", type=float, default=Recipe.learning_rate)
    parser.add_argument("--batch-tokens", type=int, default=Recipe.batch_tokens)
    parser.add_argument("--bfloat16", action="store_true", help="multiply in it: faster where the processor has it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--target", type=Path, help="a folder; the embedded default if not given")


def train(options: argparse.Namespace, begin: Begin, loss_for: LossFor) -> None:
    """Begin, or go on, until as many updates are done as were asked for."""
    torch.set_num_threads(options.threads)
    target = load(options.target or default_folder())
    trainer = _trainer(options, target, begin)
    recipe = trainer.recipe
    roles = (ANSWER,) if recipe.answers_only else (USER, ANSWER)
    loss = loss_for(target, trainer.constants["vocabulary"], roles, recipe.words)
    run(trainer, loss, options.data, options.to or options.checkpoint, options.updates)


def _trainer(options: argparse.Namespace, target: Target, begin: Begin) -> Trainer:
    recipe = Recipe(
        learning_rate=options.learning_rate,
        batch_tokens=options.batch_tokens,
        seed=options.seed,
        cooldown_updates=options.cooldown,
        words=options.words,
        answers_only=options.answers_only,
        bfloat16=options.bfloat16,
    )
    for file in (options.to, options.checkpoint):
        if file and file.exists():
            return Trainer.resumed(file, recipe)
    if options.head:
        weights, vocabulary = export.read(options.head)
        return Trainer(weights, {"vocabulary": vocabulary}, recipe)
    return begin(target, recipe)
