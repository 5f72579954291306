"""python -m training.evaluate: how often a head's drafts are what the target says, on held-out greedy answers.

It drafts k tokens from every place, then walks through each answer as the engine does, from one verified token to the
next, which gives the mean acceptance length that the engine is to show. Each figure is added to the curve file.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from training import batches, eagle3_model, medusa_model, shards, trainer
from training.batches import Batch
from training.conversation import ANSWER
from training.eagle3_model import Rows, Shape
from training.shards import Entry
from training.target import Target, default_folder, load

Weights = dict[str, torch.Tensor]
States = Callable[[Batch, Rows], list[torch.Tensor]]


@dataclass(frozen=True, slots=True)
class Agreement:
    """By position; each is a share of the places where all positions before agreed."""

    by_position: list[float]
    mean_acceptance_length: float
    accepted_by_position: list[float]
    """Unconditional, as the engine counts it."""
    places: int


def method_of(weights: Weights) -> str:
    return "eagle3" if "fc.weight" in weights else "medusa"


def drafts(target: Target, weights: Weights, k: int) -> States:
    """What gives the states for each position: all rows, then the deeper rows for every further position."""
    shape = Shape.of(target)

    def eagle3(batch: Batch, rows: Rows) -> list[torch.Tensor]:
        return list(eagle3_model.drafted(weights, shape, target.embedding, batch, rows, k))

    def medusa(batch: Batch, rows: Rows) -> list[torch.Tensor]:
        final = batch.states[*rows.first, -1]
        inputs = [final, *[final[rows.deeper]] * (k - 1)]
        return [medusa_model.drafted(weights, head, x) for head, x in enumerate(inputs)]

    return eagle3 if method_of(weights) == "eagle3" else medusa


def evaluated(
    states: States, lm_head: torch.Tensor, vocabulary: torch.Tensor, entries: list[Entry], k: int
) -> Agreement:
    hits, accepted, places = torch.zeros(k + 1), torch.zeros(k + 1), 0
    for group in batches.order(entries, 0, 8192):
        batch = batches.load(group)
        rows = _rows(batch, k)
        right = _right(batch, rows, states(batch, rows), lm_head, vocabulary)
        in_row = right.cumprod(0)
        hits += torch.cat([torch.tensor([float(len(rows.first[0]))]), in_row.sum(1).float()])
        accepted += _walked(rows, in_row.sum(0), k)
        places += len(rows.first[0])
    conditional = (hits[1:] / hits[:-1].clamp(min=1)).tolist()
    unconditional = (accepted[1:] / accepted[0]).tolist()
    return Agreement(conditional, 1 + sum(unconditional), unconditional, places)


def _rows(batch: Batch, k: int) -> Rows:
    first = batch.is_wanted((ANSWER,), 1).nonzero(as_tuple=True)
    return Rows(first, batch.is_wanted((ANSWER,), k)[first].nonzero().squeeze(-1))


def _right(
    batch: Batch, rows: Rows, states: list[torch.Tensor], lm_head: torch.Tensor, vocabulary: torch.Tensor
) -> torch.Tensor:
    """[positions, rows]: whether the draft is what stands there. Where too little is left, it counts as wrong."""
    conversations, places = rows.first
    right = torch.zeros(len(states), len(places), dtype=torch.long)
    for i, state in enumerate(states):
        drafted = vocabulary[(state @ lm_head.T).argmax(-1)]
        chosen = slice(None) if i == 0 else rows.deeper
        right[i, chosen] = (drafted == batch.tokens[conversations[chosen], places[chosen] + 2 + i]).long()
    return right


def _walked(rows: Rows, accepted: torch.Tensor, k: int) -> torch.Tensor:
    """Drafts, then how many had at least one token accepted, two ...: each draft starts after what the last one gave."""
    places = zip(*(index.tolist() for index in rows.first), strict=True)
    lengths = dict(zip(places, accepted.tolist(), strict=True))
    counts = torch.zeros(k + 1)
    for conversation, place in lengths:
        if (conversation, place - 1) in lengths:
            continue
        at = place + 1  # the first draft knows the answer's first token
        while (length := lengths.get((conversation, at))) is not None:
            counts[: length + 1] += 1
            at += length + 1
    return counts


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    target, content = load(options.target or default_folder()), trainer.saved(options.checkpoint)
    weights, vocabulary = content["average"], content["constants"]["vocabulary"]
    states = drafts(target, weights, options.k)
    for split in options.splits:
        entries = shards.required(options.data, split)
        with torch.inference_mode():
            found = evaluated(states, weights["lm_head.weight"], vocabulary, entries, options.k)
        line = _described(method_of(weights), split, content["progress"], options, found)
        print(json.dumps(line), flush=True)  # noqa: T201
        if options.curve:
            with options.curve.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def _described(
    method: str, split: str, progress: dict[str, Any], options: argparse.Namespace, found: Agreement
) -> dict[str, Any]:
    figures = {
        name: [round(x, 4) for x in value] if isinstance(value, list) else round(value, 4)
        for name, value in asdict(found).items()
    }
    train = sum(entry.length for entry in shards.all_entries(options.data, "train"))
    return {
        "method": method, "split": split, "updates": progress["updates"], "passes": progress["pass_number"],
        "minutes": round(progress["seconds"] / 60, 1), "rows": progress["rows"], "tokens_of_data": train,
        "k": options.k, **figures, "at": time.strftime("%Y-%m-%dT%H:%M:%S"), "checkpoint": options.checkpoint.name,
    }  # fmt: skip


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of shards")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--splits", nargs="+", default=["heldout", "sample"])
    parser.add_argument("--curve", type=Path, help="the file that figures are added to, a JSON object a line")
    parser.add_argument("-k", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--target", type=Path, help="a folder; the embedded default if not given")
    return parser.parse_args()


if __name__ == "__main__":
    main()
