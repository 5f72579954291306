"""python -m training.medusa: trains Medusa heads on the shards there are. Goes on from its last checkpoint."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from training import command, eagle3, medusa_model, shards, teacher
from training.batches import Batch
from training.medusa_model import Weights
from training.target import Target
from training.trainer import Loss, Recipe, Trainer

HEAD_WEIGHT = 0.8
"""Each head counts as much less than the one before."""

SHARE = 0.5
"""Of the places, those that a head is trained on in a pass."""


def loss_for(target: Target, vocabulary: torch.Tensor, roles: tuple[int, ...], num_words: int = 0) -> Loss:
    lm_head = target.lm_head[vocabulary].clone()

    def loss(weights: Weights, batch: Batch, generator: torch.Generator) -> tuple[torch.Tensor, dict[str, float]]:
        rows = batch.is_wanted(roles, 1).nonzero(as_tuple=True)
        lesson = teacher.lesson(batch, (rows[0], rows[1]), lm_head, num_words, generator)
        student = weights["lm_head.weight"][lesson.words]
        total, figures = torch.zeros(()), {"rows": 0.0}
        for head in range(medusa_model.counts(weights)[0]):
            is_wanted = batch.is_wanted(roles, head + 1)
            is_wanted &= torch.rand(is_wanted.shape, generator=generator) < SHARE
            at = is_wanted.nonzero(as_tuple=True)
            count = max(len(at[0]), 1)
            state = medusa_model.drafted(weights, head, batch.states[*at, -1])
            backward, value = teacher.loss(state, student, lesson.chances(at[0], at[1] + head + 1))
            total = total + backward * (HEAD_WEIGHT**head / count)
            figures |= {f"loss{head + 1}": value / count, "rows": figures["rows"] + len(at[0])}
        return total, figures

    return loss


def begun(target: Target, data: Path, recipe: Recipe, vocab_size: int, heads: int, layers: int) -> Trainer:
    tokens = eagle3.chosen_tokens(shards.required(data, "train"))
    vocabulary = teacher.vocabulary(tokens, vocab_size, len(target.lm_head))
    return Trainer(medusa_model.initial(target, vocabulary, heads, layers), {"vocabulary": vocabulary}, recipe)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    command.add_options(parser)
    parser.add_argument("--heads", type=int, default=4, help="of a new speculator")
    parser.add_argument("--layers", type=int, default=1, help="of each new head")
    options = parser.parse_args()

    def begin(target: Target, recipe: Recipe) -> Trainer:
        return begun(target, options.data, recipe, options.vocab_size, options.heads, options.layers)

    command.train(options, begin, loss_for)


if __name__ == "__main__":
    main()
