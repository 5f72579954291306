"""What is mended in vLLM's CPU backend, and that it still needs it."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.engine


@pytest.fixture
def sums() -> Any:
    """Of two requests, the first with three draft tokens, the second with one, and a third without any."""
    import torch

    return torch.tensor([3, 4, 4], dtype=torch.int32)


def test_each_request_gives_its_value_to_each_of_its_tokens(sums: Any) -> None:
    import torch

    from speccli.engine.worker import expand_batch_to_tokens

    temperature = torch.tensor([0.7, 0.0, 1.5])
    expanded = expand_batch_to_tokens(temperature, sums, 4, replace_from=0, replace_to=1)
    assert expanded.dtype == torch.float32
    assert expanded.tolist() == pytest.approx([0.7, 0.7, 0.7, 1.0])
    top_k = torch.tensor([5, 8, 3], dtype=torch.int32)
    expanded = expand_batch_to_tokens(top_k, sums, 4)
    assert (expanded.dtype, expanded.tolist()) == (torch.int32, [5, 5, 5, 8])


def test_vllm_takes_the_mended_function() -> None:
    from vllm.v1.sample import rejection_sampler

    from speccli.engine import worker

    assert rejection_sampler.expand_batch_to_tokens is worker.expand_batch_to_tokens


def test_vllms_own_still_writes_nothing(sums: Any) -> None:
    """When this fails, vLLM is mended, and engine/worker.py can go."""
    import torch
    import vllm._custom_ops  # noqa: F401 - loads the kernels
    from vllm.utils import cpu_triton_utils

    expanded = torch.full((4,), 7.5)
    cpu_triton_utils._expand_kernel_impl(expanded, torch.tensor([0.7, 0.0, 1.5]), sums, 0, 1)
    assert expanded.tolist() == [7.5, 7.5, 7.5, 7.5]
