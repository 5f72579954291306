"""Mends vLLM's CPU backend in the worker's process, where vLLM imports this by name as its worker extension.

Sampling with speculation needs each request's temperature, top_k and top_p once for each of its draft tokens. The CPU
version of vLLM 0.32 writes them into a copy that it throws away, and goes on with whatever the memory held
(https://github.com/vllm-project/vllm/issues/55005): tokens that the target would never choose come out.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.sample import rejection_sampler


class Mended:
    """Adds nothing to the worker; to import this module is what mends it."""


def expand_batch_to_tokens(
    values: Any, cu_num_tokens: Any, num_tokens: int, replace_from: int = 0, replace_to: int = 0
) -> Any:
    """Each request's value, as often as it has tokens. `cu_num_tokens` are the running sums of the numbers of tokens."""
    counts = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1)).long()
    kept = values.masked_fill(values == replace_from, replace_to)
    return kept.repeat_interleave(counts, output_size=num_tokens)


rejection_sampler.expand_batch_to_tokens = expand_batch_to_tokens
