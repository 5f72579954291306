"""A program: lets vLLM's own configuration code judge engine arguments. It starts no engine.

    python -m tests.vllm_configs GIVEN TOLD

GIVEN holds a JSON list of keyword arguments of `EngineArgs`; TOLD gets a list of what vLLM makes of each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    given, told = map(Path, sys.argv[1:])
    _inspect_models_here()
    _know_parsers_by_name()
    told.write_text(json.dumps([_judged(arguments) for arguments in json.loads(given.read_text())]))


def _judged(arguments: dict[str, Any]) -> dict[str, Any]:
    """What vLLM will speculate with, or its reason to refuse."""
    from pydantic import ValidationError
    from vllm.engine.arg_utils import EngineArgs

    try:
        # Such a checkpoint is a config.json and nothing else, so it has no tokenizer: see _know_parsers_by_name.
        config = EngineArgs(**arguments, skip_tokenizer_init=True).create_engine_config()
    except ValidationError as error:
        return {"refusal": "; ".join(one["msg"] for one in error.errors())}
    except Exception as error:  # whatever it is, the test compares it with what it expects
        return {"refusal": f"{type(error).__name__}: {error}"}
    return {
        "method": config.speculative_config.method,
        "num_speculative_tokens": config.speculative_config.num_speculative_tokens,
        "tensor_parallel_size": config.parallel_config.tensor_parallel_size,
        "max_model_len": config.model_config.max_model_len,
        "reasoning_parser": config.structured_outputs_config.reasoning_parser,
    }


def _inspect_models_here() -> None:
    """vLLM imports each model class in a process of its own, 10 s each, lest CUDA be set up; here is no CUDA."""
    from vllm.model_executor.models import registry

    registry._LazyRegisteredModel.inspect_model_cls = lambda model: registry._ModelInfo.from_model_cls(
        model.load_model_cls()
    )


def _know_parsers_by_name() -> None:
    """vLLM makes a reasoning parser, which looks for its marks in the tokenizer; here it only has to be one that vLLM has."""
    from vllm.config.reasoning import ReasoningConfig
    from vllm.reasoning import ReasoningParserManager

    def look_up(config: ReasoningConfig, _: object) -> None:
        if config.reasoning_parser:
            ReasoningParserManager.get_reasoning_parser(config.reasoning_parser)

    ReasoningConfig.initialize_token_ids = look_up


if __name__ == "__main__":
    main()
