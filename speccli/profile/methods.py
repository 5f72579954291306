"""The ways to speculate, by vLLM's names."""

from __future__ import annotations

import difflib
from typing import Literal, get_args

from speccli.errors import UsageError

Method = Literal[
    "none", "ngram", "ngram_gpu", "suffix", "draft_model", "eagle", "eagle3", "medusa", "mtp", "dflash", "dspark"
]
"""vLLM's names, and "none" for plain decoding."""

METHODS: tuple[Method, ...] = get_args(Method)

ALSO_CALLED = {
    "pard": "PARD runs as `draft_model` with parallel_drafting",
    "peagle": "P-EAGLE runs as `eagle3` with parallel_drafting",
    "p-eagle": "P-EAGLE runs as `eagle3` with parallel_drafting",
    "eagle1": "write `eagle`",
    "no": "write `none`",
}


def method_named(text: str) -> Method:
    """The method of that name. Raises `UsageError` with the nearest name, or with the reason why vLLM cannot run it."""
    for method in METHODS:
        if text.lower() == method:
            return method
    if text == "mlp_speculator":
        raise UsageError(
            "method mlp_speculator cannot run: vLLM 0.32 lists it, but its models are switched off and no runner takes them",
            "choose another method: `speccli profiles list` shows which a target has",
        )
    raise UsageError(f"no method is called {text!r}", _hint(text))


def _hint(text: str) -> str:
    if text.lower() in ALSO_CALLED:
        return ALSO_CALLED[text.lower()]
    if text.endswith("_mtp"):
        return "write `mtp`: vLLM finds the model's own kind"
    nearest = difflib.get_close_matches(text.lower(), METHODS, n=2, cutoff=0.7)
    if nearest:
        return f"did you mean {' or '.join(f'`{name}`' for name in nearest)}?"
    return f"the methods are {', '.join(METHODS)}"
