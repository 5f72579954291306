"""python -m training.eagle3: trains the EAGLE-3 head on the shards there are. Goes on from its last checkpoint."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from training import batches, command, eagle3_model, shards, teacher
from training.batches import Batch
from training.eagle3_model import Rows, Shape, Weights
from training.target import Target
from training.trainer import Loss, Recipe, Trainer

STEP_WEIGHTS = (1.0, 0.8, 0.6)
DEEPER_SHARE = 0.4
"""Of the places, those from which the second and third step are trained: each costs as much as the first."""


def loss_for(target: Target, vocabulary: torch.Tensor, roles: tuple[int, ...], num_words: int = 0) -> Loss:
    shape, lm_head = Shape.of(target), target.lm_head[vocabulary].clone()

    def loss(weights: Weights, batch: Batch, generator: torch.Generator) -> tuple[torch.Tensor, dict[str, float]]:
        rows = chosen_rows(batch, roles, generator)
        lesson = teacher.lesson(batch, rows.first, lm_head, num_words, generator)
        student = weights["lm_head.weight"][lesson.words]
        total, figures = torch.zeros(()), {"rows": float(len(rows.first[0]))}
        states = eagle3_model.drafted(weights, shape, target.embedding, batch, rows, len(STEP_WEIGHTS))
        for step, (state, weight) in enumerate(zip(states, STEP_WEIGHTS, strict=True)):
            conversations, places = rows.first if step == 0 else [index[rows.deeper] for index in rows.first]
            wanted = lesson.chances(conversations, places + step + 1)
            backward, value = teacher.loss(state, student, wanted)
            total = total + backward * (weight / max(len(state), 1))
            figures[f"loss{step + 1}"] = value / max(len(state), 1)
        return total, figures

    return loss


def chosen_rows(batch: Batch, roles: tuple[int, ...], generator: torch.Generator) -> Rows:
    first = batch.is_wanted(roles, 1).nonzero(as_tuple=True)
    is_deep = batch.is_wanted(roles, len(STEP_WEIGHTS))[first]
    is_deep &= torch.rand(len(is_deep), generator=generator) < DEEPER_SHARE
    return Rows(first, is_deep.nonzero().squeeze(-1))


def begun(target: Target, data: Path, recipe: Recipe, vocab_size: int, intermediate: int) -> Trainer:
    entries = shards.required(data, "train")
    vocabulary = teacher.vocabulary(chosen_tokens(entries), vocab_size, len(target.lm_head))
    sample = batches.load(entries[:16])
    rms = sample.states[sample.roles > 0][:, : eagle3_model.NUM_AUX].square().mean((0, 2)).sqrt()
    weights = eagle3_model.initial(target, vocabulary, rms, intermediate)
    return Trainer(weights, {"vocabulary": vocabulary}, recipe)


def chosen_tokens(entries: list[shards.Entry]) -> torch.Tensor:
    """All tokens that the model chose, one after the other."""
    read = shards.read(entries, ("tokens", "roles"))
    return torch.cat([each["tokens"][each["roles"] > 0] for each in read])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    command.add_options(parser)
    parser.add_argument("--intermediate", type=int, default=1536, help="of a new head")
    options = parser.parse_args()

    def begin(target: Target, recipe: Recipe) -> Trainer:
        return begun(target, options.data, recipe, options.vocab_size, options.intermediate)

    command.train(options, begin, loss_for)


if __name__ == "__main__":
    main()
