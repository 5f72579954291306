"""The longest context that a model was made for, and nothing beyond it is planned or told."""

from __future__ import annotations

from typing import Any

import pytest

from speccli.checkpoint import Checkpoint
from speccli.plan.context import own_context
from tests.plan.example import cpu, estimated


def of(**config: Any) -> int | None:
    checkpoint = Checkpoint("b", "a/b", "bfloat16", 1, 1, max_position_embeddings=4096, config=config)
    return own_context(checkpoint)


@pytest.mark.parametrize(
    ("config", "own"),
    [
        ({}, 4096),
        ({"rope_scaling": None}, 4096),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 4096),
        ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, None),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 4.0}}, None),
    ],
)
def test_scaled_positions_go_beyond_what_the_config_says(config: dict[str, Any], own: int | None) -> None:
    assert of(**config) == own


def test_no_longer_context_fits_than_the_models_own() -> None:
    asked = {"target": "vicuna-7b", "method": "none", "max_model_len": 1_000_000}
    assert estimated("l4", **asked).max_model_len_that_fits == 2048
    assert estimated(cpu(32), **{**asked, "target": "smollm2-135m"}).max_model_len_that_fits == 8192
