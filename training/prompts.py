"""How the conversations begin: categories, the first words of user turns, and how long and how freely to answer.

The model writes most of each user turn itself. The words in beginnings.json only see to it that code, lists, passages, edits, sums
and other languages all come up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from training.conversation import ANSWER, DEFAULT_SYSTEM, USER, Plan, Turn

SEEDS = {"train": 1, "heldout": 2}

_WORDS = json.loads(Path(__file__).with_name("beginnings.json").read_text(encoding="utf-8"))

BEGINNINGS: dict[str, list[str]] = _WORDS["beginnings"]
TOPICS: list[str] = _WORDS["topics"]
OPENINGS: list[str] = _WORDS["openings"]
"""First words of passages, which otherwise all start alike."""
SYSTEMS: list[str] = _WORDS["systems"]
SECOND_BEGINNINGS: list[str] = _WORDS["second_beginnings"]

WEIGHTS = {
    "bare": 22, "question": 12, "topic": 8, "code": 12, "list": 10, "story": 8, "passage": 8, "edit": 8, "maths": 5,
    "language": 4, "chat": 3,
}  # fmt: skip

LONG_TURNS = ("passage", "edit", "code")


def drawn(split: str, index: int) -> Plan:
    """The conversation of this number. It depends on nothing else."""
    rng = np.random.default_rng([SEEDS[split], index])
    names = list(WEIGHTS)
    category = names[rng.choice(len(names), p=np.array([WEIGHTS[name] for name in names]) / sum(WEIGHTS.values()))]
    is_long = category in LONG_TURNS
    first = Turn(USER, _beginning(category, rng), 192 if is_long else 96, 1.0)
    turns = [first, _answer(split, rng, 384 if rng.random() < 0.2 else 224)]
    if rng.random() < 0.15:
        second = Turn(USER, SECOND_BEGINNINGS[rng.integers(len(SECOND_BEGINNINGS))], 48, 1.0)
        turns += [second, _answer(split, rng, 160)]
    system = SYSTEMS[rng.integers(len(SYSTEMS))] if rng.random() < 0.1 else DEFAULT_SYSTEM
    return Plan(index, SEEDS[split], category, tuple(turns), system)


def _beginning(category: str, rng: np.random.Generator) -> str:
    if category == "bare":
        return ""
    choices = BEGINNINGS[category]
    beginning = choices[rng.integers(len(choices))]
    topic, number = TOPICS[rng.integers(len(TOPICS))], int(rng.integers(2, 200))
    opening = (
        OPENINGS[rng.integers(len(OPENINGS))] if beginning.endswith("\n\n") and category in ("passage", "edit") else ""
    )
    return beginning.replace("{}", topic).replace("{n}", str(number)).rstrip(" ") + opening


def _answer(split: str, rng: np.random.Generator, limit: int) -> Turn:
    """Held-out answers are the likeliest: agreement is counted against what greedy decoding writes."""
    temperature = (0.0, 0.0, 0.0, 0.7, 1.0)[rng.integers(5)]
    return Turn(ANSWER, limit=limit, temperature=0.0 if split == "heldout" else temperature)


def written(file: Path, limit: int = 256) -> Iterator[Plan]:
    """Questions of another hand, from a file of requests as `speccli batch` takes them."""
    for index, line in enumerate(file.read_text(encoding="utf-8").splitlines()):
        request = json.loads(line)
        messages = request.get("messages") or [{"role": "user", "content": request["prompt"]}]
        system = DEFAULT_SYSTEM
        if messages[0]["role"] == "system":
            system, messages = messages[0]["content"], messages[1:]
        roles = {"user": USER, "assistant": ANSWER}
        turns = [Turn(roles[message["role"]], message["content"]) for message in messages]
        yield Plan(index, 0, request.get("id", ""), (*turns, Turn(ANSWER, limit=limit)), system)


def forbidden(files: list[Path]) -> set[str]:
    """User turns that no training conversation may hold."""
    turns = (turn for file in files for plan in written(file) for turn in plan.turns if turn.role == USER)
    return {normalised(turn.prefix) for turn in turns}


def normalised(text: str) -> str:
    return " ".join(text.lower().split())
