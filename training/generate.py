"""python -m training.generate: conversations that the target writes itself, with its hidden states, into shards.

Goes on where an earlier run stopped. A conversation depends on its number alone, not on those beside it.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from training import prompts, sampling, shards
from training.cache import Cache
from training.conversation import Conversation, Plan
from training.shards import Record
from training.target import Target, default_folder, hidden_states, load

MAX_LENGTH = 704
"""A conversation that gets there ends there. Few do, and the cache is as large as if all did."""
REORDER_STEPS = 16
SHARD_CONVERSATIONS = 64


class Slot:
    """A row of the batch: a conversation, its random numbers, and what was captured of it."""

    def __init__(self, plan: Plan, encode: Callable[[str], list[int]], hidden_size: int) -> None:
        self.conversation = Conversation(plan, encode)
        self.states = torch.zeros(MAX_LENGTH, 4, hidden_size, dtype=torch.float16)
        self.log_normalisers = torch.zeros(MAX_LENGTH)
        self._rng = np.random.default_rng([plan.seed, plan.index, 1])

    def uniform(self) -> float:
        return float(self._rng.random())

    def record(self) -> Record:
        plan, length = self.conversation.plan, len(self.conversation.tokens)
        return Record(
            index=plan.index,
            category=plan.category or "bare",
            tokens=torch.tensor(self.conversation.tokens, dtype=torch.int32),
            roles=torch.tensor(self.conversation.roles, dtype=torch.uint8),
            states=self.states[:length].clone(),
            log_normalisers=self.log_normalisers[:length].clone(),
        )


def generated(target: Target, encode: Callable[[str], list[int]], plans: Iterable[Plan], rows: int) -> Iterator[Record]:
    """Finished conversations, in the order in which they end."""
    cache, waiting = Cache(target, rows, MAX_LENGTH), iter(plans)
    slots = [Slot(plan, encode, target.hidden_size) for plan in itertools.islice(waiting, rows)]
    for step in itertools.count():
        if not slots:
            return
        if step % REORDER_STEPS == 0:
            slots = _reordered(slots, cache)
        with torch.inference_mode():
            _step(target, cache, slots)
        yield from _refilled(slots, cache, waiting, encode, target.hidden_size)


def _reordered(slots: list[Slot], cache: Cache) -> list[Slot]:
    order = sorted(range(len(slots)), key=lambda i: len(slots[i].conversation.tokens))
    cache.reorder(order)
    return [slots[i] for i in order]


def _step(target: Target, cache: Cache, slots: list[Slot]) -> None:
    tokens = torch.tensor([slot.conversation.tokens[-1] for slot in slots])
    cache.begin_step(len(slots))
    states = hidden_states(target, tokens, cache.lengths[: len(slots)], cache.attend)
    cache.end_step(len(slots))
    choosing = [i for i, slot in enumerate(slots) if slot.conversation.temperature is not None]
    logits = states[choosing, -1] @ target.lm_head.T
    chosen = dict(zip(choosing, _chosen(logits, [slots[i] for i in choosing]), strict=True))
    normalisers = dict(zip(choosing, logits.logsumexp(-1).tolist(), strict=True))
    halved = states.to(torch.float16)
    for i, slot in enumerate(slots):
        place = len(slot.conversation.tokens) - 1
        slot.states[place] = halved[i]
        slot.log_normalisers[place] = normalisers.get(i, 0.0)
        slot.conversation.advance(chosen.get(i))


def _chosen(logits: torch.Tensor, slots: list[Slot]) -> list[int]:
    if not slots:
        return []
    temperatures = torch.tensor([float(slot.conversation.temperature or 0.0) for slot in slots])
    uniforms = torch.tensor([slot.uniform() for slot in slots])
    return [int(token) for token in sampling.pick(logits, temperatures, uniforms)]


def _refilled(
    slots: list[Slot], cache: Cache, waiting: Iterator[Plan], encode: Callable[[str], list[int]], hidden_size: int
) -> Iterator[Record]:
    """Put the next conversation where one has ended; close ranks where none is left."""
    for i in reversed(range(len(slots))):
        conversation = slots[i].conversation
        if not conversation.is_finished and len(conversation.tokens) < MAX_LENGTH:
            continue
        yield slots[i].record()
        if plan := next(waiting, None):
            slots[i] = Slot(plan, encode, hidden_size)
            cache.clear(i)
        else:
            del slots[i]
            cache.reorder([j for j in range(len(slots) + 1) if j != i])


def is_allowed(record: Record, decode: Callable[[list[int]], str], forbidden: set[str]) -> bool:
    """Whether no user turn of it is one that heads are measured on."""
    text = decode(record.tokens.tolist())
    turns = [part.split("<|im_end|>")[0] for part in text.split("<|im_start|>user\n")[1:]]
    return not any(prompts.normalised(turn) in forbidden for turn in turns)


def tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def encoder(folder: Path) -> Callable[[str], list[int]]:
    made = tokenizer(folder)
    return lambda text: list(made.encode(text, add_special_tokens=False).ids)


def write_shards(
    records: Iterable[Record], folder: Path, split: str, size: int = SHARD_CONVERSATIONS, part: int = 0
) -> None:
    """`part` keeps the files of several processes apart."""
    folder.mkdir(parents=True, exist_ok=True)
    number, tokens, start_s = len(shards.found(folder, f"{split}-{part}")), 0, time.monotonic()
    for group in _grouped(records, size):
        shards.write(folder, f"{split}-{part}-{number:05d}", group)
        number, tokens = number + 1, tokens + sum(len(record.tokens) for record in group)
        rate = tokens / (time.monotonic() - start_s)
        print(f"{split}: shard {number}, {tokens:,} tokens in this run, {rate:.0f} tokens/s", flush=True)  # noqa: T201


def _grouped(records: Iterable[Record], size: int) -> Iterator[list[Record]]:
    remaining = iter(records)
    while group := list(itertools.islice(remaining, size)):
        yield group


def plans_of(split: str, wanted: Iterable[int], done: set[int]) -> Iterator[Plan]:
    if split in prompts.SEEDS:
        return (prompts.drawn(split, i) for i in wanted if i not in done)
    return (plan for plan in prompts.written(Path(split)) if plan.index in set(wanted) - done)


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    folder = options.target or default_folder()
    target, name = load(folder), Path(options.split).stem
    done = {entry.index for entry in shards.all_entries(options.data, name)}
    wanted = range(options.first + options.part, options.conversations, options.parts)
    plans = plans_of(options.split, wanted, done)
    records = generated(target, encoder(folder), plans, options.rows)
    if options.split in prompts.SEEDS:
        decode = tokenizer(folder).decode
        forbidden = prompts.forbidden(options.forbidden)
        records = (
            record
            for record in records
            if is_allowed(record, lambda ids: str(decode(ids, skip_special_tokens=False)), forbidden)
        )
    write_shards(records, options.data, name, part=options.part)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True, help="the folder of shards")
    parser.add_argument("--split", default="train", help="train, heldout, or a file of requests (JSONL)")
    parser.add_argument("--conversations", type=int, default=20_000, help="how many in all, with those that are there")
    parser.add_argument("--first", type=int, default=0, help="the number of the first; those before it are left out")
    parser.add_argument("--target", type=Path, help="a folder; the embedded default if not given")
    parser.add_argument("--rows", type=int, default=128, help="conversations at a time")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--part", type=int, default=0, help="which of several processes that share the work")
    parser.add_argument(
        "--parts", type=int, default=1, help="how many these are; on a busy machine one thread each is best"
    )
    parser.add_argument(
        "--forbidden", type=Path, nargs="*", default=sorted(Path("profiles/prompts").glob("*.jsonl")),
        help="files of requests whose user turns are left out of the data",
    )  # fmt: skip
    return parser.parse_args()


if __name__ == "__main__":
    main()
