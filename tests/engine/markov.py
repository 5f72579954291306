"""A tiny target that forgets all but its last token and knows twelve letters: its exact distribution is one small matrix.

What follows a letter is the same wherever it stands, so every token of every answer is a sample of one row of the matrix,
which a few lines of numpy tell from the weights. The speculators of counting.py draft the letter that is likeliest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests import tiny
from tests.engine import counting
from tests.tiny_files import random

LETTERS = "bdfhjlnprtvx"
"""Their ids, which are their bytes, count by twos. After x, the letter drafted is none of them, and is always refused."""

IDS = np.array([ord(letter) for letter in LETTERS])

SHARP = 0.09
"""Of the head: gives the next letter a probability of one half or so, so that drafts are accepted as often as refused."""

UNEVEN = 0.1
"""Of the noise that makes the other letters unlike each other."""

NEVER = -30.0
"""What every other token's logit loses, and more."""

EMBEDDING = counting.EMBEDDING.copy()
EMBEDDING[:, 0] = 1.0
"""The first element is the same for all tokens, so that the head can give a bias."""


def llama(folder: Path) -> Path:
    silent = {
        f"model.layers.{i}.{name}.weight": np.zeros(shape, dtype=np.float32)
        for i in range(tiny.LAYERS)
        for name, shape in (
            ("self_attn.o_proj", (tiny.HIDDEN, tiny.HEADS * tiny.HEAD_DIM)),
            ("mlp.down_proj", (tiny.HIDDEN, tiny.INTERMEDIATE)),
        )
    }
    own = {"model.embed_tokens.weight": EMBEDDING, "lm_head.weight": head()}
    return tiny.language_model(folder, tiny.model_config(), {**silent, **own})


def head() -> Any:
    rows = SHARP * counting.ahead(EMBEDDING, 1) + random(tiny.VOCAB, tiny.HIDDEN, seed=77, scale=UNEVEN)
    rows[:, 0] = np.where(np.isin(np.arange(tiny.VOCAB), IDS), 0.0, NEVER)
    return rows.astype(np.float32)


def matrix() -> Any:
    """Row by row, the probabilities of the token that follows each letter, at temperature 1."""
    hidden = EMBEDDING[IDS].astype(np.float64)
    hidden /= np.sqrt((hidden**2).mean(axis=1, keepdims=True) + 1e-5)
    logits = hidden @ head().astype(np.float64).T
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)
