"""Updates weights batch by batch, keeps their moving average, and survives being killed at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from training import batches, shards
from training.batches import Batch

Weights = dict[str, torch.Tensor]
Loss = Callable[[Weights, Batch, torch.Generator], tuple[torch.Tensor, dict[str, float]]]
"""What to go backward from, and figures to print."""

SAVE_S = 120.0


@dataclass(frozen=True)
class Recipe:
    learning_rate: float = 1e-3
    warmup_updates: int = 50
    batch_tokens: int = 1024
    average_decay: float = 0.995
    seed: int = 0
    cooldown_updates: int = 0
    """Over these last updates the learning rate falls to zero; 0 keeps it."""
    words: int = 2560
    """Of the draft vocabulary, those that a batch looks at; 0 for all."""
    answers_only: bool = False
    """Leave out what the model wrote as the user."""
    bfloat16: bool = False
    """Multiply in bfloat16; the weights and what the target says stay in float32."""


@dataclass(slots=True)
class Progress:
    updates: int = 0
    seconds: float = 0.0
    rows: int = 0
    """Drafts learned from, each pass counted anew."""
    pass_number: int = 0
    batch: int = 0
    """Of the pass, the next one."""
    files: list[str] = field(default_factory=list)
    """The shards of the pass, which does not change while new ones are made."""


class Trainer:
    def __init__(self, weights: Weights, constants: Weights, recipe: Recipe) -> None:
        self.weights = {name: tensor.clone().requires_grad_() for name, tensor in weights.items()}
        self.average = {name: tensor.clone() for name, tensor in weights.items()}
        self.constants, self.recipe, self.progress = constants, recipe, Progress()
        self._optimizer = torch.optim.AdamW(
            list(self.weights.values()), lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=0.01, fused=True
        )

    def update(self, batch: Batch, loss: Loss, last: int) -> dict[str, float]:
        generator = torch.Generator().manual_seed(self.recipe.seed * 1_000_003 + self.progress.updates)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.recipe.bfloat16):
            backward, figures = loss(self.weights, batch, generator)
        backward.backward()
        torch.nn.utils.clip_grad_norm_(list(self.weights.values()), 1.0)
        self._optimizer.param_groups[0]["lr"] = self._learning_rate(last)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self._follow()
        self.progress.updates += 1
        self.progress.rows += int(figures["rows"])
        return figures

    def _learning_rate(self, last: int) -> float:
        recipe, done = self.recipe, self.progress.updates
        rising = min(1.0, (done + 1) / recipe.warmup_updates)
        falling = min(1.0, (last - done) / recipe.cooldown_updates) if recipe.cooldown_updates else 1.0
        return recipe.learning_rate * min(rising, falling)

    def _follow(self) -> None:
        decay = min(self.recipe.average_decay, (1 + self.progress.updates) / (10 + self.progress.updates))
        with torch.no_grad():
            for name, tensor in self.weights.items():
                self.average[name].lerp_(tensor, 1 - decay)

    def save(self, path: Path) -> None:
        content = {
            "weights": {name: tensor.detach() for name, tensor in self.weights.items()},
            "average": self.average,
            "constants": self.constants,
            "optimizer": self._optimizer.state_dict(),
            "progress": asdict(self.progress),
            "recipe": asdict(self.recipe),
        }
        partial = path.with_name(f".{path.name}.partial")
        torch.save(content, partial)
        partial.replace(path)

    @staticmethod
    def resumed(path: Path, recipe: Recipe) -> Trainer:
        content = saved(path)
        trainer = Trainer(content["weights"], content["constants"], recipe)
        trainer.average = content["average"]
        trainer._optimizer.load_state_dict(content["optimizer"])
        trainer.progress = Progress(**content["progress"])
        return trainer


def saved(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(path, weights_only=True)
    return content


def run(trainer: Trainer, loss: Loss, data: Path, path: Path, last: int) -> None:
    """Train until `last` updates are done, over the shards there are, pass after pass."""
    saved_s = time.monotonic()
    while trainer.progress.updates < last:
        for entries in _rest_of_pass(trainer, data):
            start_s = time.monotonic()
            figures = trainer.update(batches.load(entries), loss, last)
            trainer.progress.batch += 1
            trainer.progress.seconds += time.monotonic() - start_s
            _print(trainer, figures)
            if time.monotonic() - saved_s > SAVE_S:
                trainer.save(path)
                saved_s = time.monotonic()
            if trainer.progress.updates >= last:
                break
        else:
            trainer.progress.pass_number += 1
            trainer.progress.batch, trainer.progress.files = 0, []
    trainer.save(path)


def _rest_of_pass(trainer: Trainer, data: Path) -> list[list[shards.Entry]]:
    progress = trainer.progress
    if progress.files:
        entries = [entry for name in progress.files for entry in shards.entries(data / name)]
    else:
        entries = shards.required(data, "train")
        progress.files = list(dict.fromkeys(entry.file.name for entry in entries))
    seed = trainer.recipe.seed * 1000 + progress.pass_number
    return batches.order(entries, seed, trainer.recipe.batch_tokens)[progress.batch :]


def _print(trainer: Trainer, figures: dict[str, float]) -> None:
    progress = trainer.progress
    if progress.updates % 20 and progress.updates > 5:
        return
    told = "  ".join(f"{name} {value:.3f}" for name, value in figures.items() if name != "rows")
    rate = progress.rows / max(progress.seconds, 1e-9)
    print(f"{progress.updates:6} pass {progress.pass_number}  {told}  {rate:.0f} rows/s", flush=True)  # noqa: T201
