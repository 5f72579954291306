"""Whether tokens were drawn from a matrix of transition probabilities: a chi-square test, and samplers to try it on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

ENOUGH = 5.0
"""Expected count of a cell; what is expected less often is taken together."""

IMPOSSIBLE = 1e-12
"""A token of a smaller probability will not be seen."""

Accepts = Callable[[Any, int, Any], bool]
"""Whether a draft token is accepted: from the target's probabilities, its id, and a random generator."""

Corrects = Callable[[Any, int, Any], int]
"""The token in place of a refused one."""

Transitions = Sequence[tuple[int, int]]
"""Pairs of a state and the token that followed it."""


def p_value(transitions: Transitions, probabilities: Any) -> float:
    """How likely counts at least as far off are, if the tokens follow the matrix."""
    counts = np.zeros_like(probabilities)
    np.add.at(counts, tuple(np.array(transitions).T), 1)
    if counts[probabilities < IMPOSSIBLE].any():
        return 0.0
    statistic, freedom = 0.0, 0
    for observed, row in zip(counts, probabilities, strict=True):
        expected = observed.sum() * row
        often = expected >= ENOUGH
        seen, hoped = observed[often], expected[often]
        if expected[~often].sum() >= ENOUGH:
            seen, hoped = np.append(seen, observed[~often].sum()), np.append(hoped, expected[~often].sum())
        statistic += float(((seen - hoped) ** 2 / hoped).sum())
        freedom += max(len(hoped) - 1, 0)
    return chi_square_tail(statistic, freedom)


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Wilson and Hilferty's approximation, which is good from ten degrees of freedom on."""
    if freedom < 10:
        raise ValueError(f"{freedom} degrees of freedom: too few samples to tell anything")
    spread = 2 / (9 * freedom)
    z = ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return math.erfc(z / math.sqrt(2)) / 2


def accepted_as_likely(row: Any, draft: int, random: Any) -> bool:
    """The right rule where the drafter does not sample: as often as the target would have taken the token itself."""
    return bool(random.random() < row[draft])


def corrected_without_the_draft(row: Any, draft: int, random: Any) -> int:
    """The right rule: the target's distribution without the refused token."""
    left = row.copy()
    left[draft] = 0
    return int(random.choice(len(left), p=left / left.sum()))


def speculated(
    probabilities: Any,
    drafts: Sequence[int],
    accepts: Accepts,
    corrects: Corrects,
    count: int,
    k: int = 3,
    seed: int = 0,
) -> Transitions:
    """Transitions as a speculating sampler makes them. `drafts` has the token that is drafted after each state; tokens
    and states have the same numbers.
    """
    random = np.random.default_rng(seed)
    made: list[tuple[int, int]] = []
    state = 0
    while len(made) < count:
        for position in range(k + 1):
            row, draft = probabilities[state], drafts[state]
            is_accepted = position < k and accepts(row, draft, random)
            if is_accepted:
                token = draft
            else:
                token = corrects(row, draft, random) if position < k else int(random.choice(len(row), p=row))
            made.append((state, token))
            state = token
            if not is_accepted:
                break
    return made
