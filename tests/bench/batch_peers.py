"""What `make bench-batch` compares with, in a process of its own: python batch_peers.py NAME ARGUMENTS INPUT RESULT."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any


def llm_chat(arguments: dict[str, Any], source: Path) -> dict[str, Any]:
    from vllm import LLM, SamplingParams

    llm = LLM(**arguments)
    bodies = [json.loads(line)["body"] for line in source.read_text().splitlines()]
    sampling = [
        SamplingParams(temperature=one["temperature"], max_tokens=one["max_tokens"], ignore_eos=one["ignore_eos"]) for one in bodies
    ]  # fmt: skip
    started = time.perf_counter()
    outputs = llm.chat([one["messages"] for one in bodies], sampling, use_tqdm=False)
    took = time.perf_counter() - started
    return {"generating_s": took, "tokens": sum(len(output.outputs[0].token_ids) for output in outputs)}


def run_batch(arguments: dict[str, Any], source: Path) -> dict[str, Any]:
    """`vllm run-batch`, its own code, timed from when the engine is ready."""
    from vllm.entrypoints.launchers import run_batch as launcher
    from vllm.entrypoints.launchers.api_server.entry import build_async_engine_client
    from vllm.usage.usage_lib import UsageContext
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    output = source.with_name("run-batch.jsonl")
    typed = ["-i", str(source), "-o", str(output), *_flags(arguments)]
    args = launcher.make_arg_parser(FlexibleArgumentParser()).parse_args(typed)

    async def timed() -> float:
        launcher.validate_run_batch_args(args)
        async with build_async_engine_client(args, usage_context=UsageContext.OPENAI_BATCH_RUNNER) as client:
            started = time.perf_counter()
            await launcher.run_batch(client, args)
            return time.perf_counter() - started

    took = asyncio.run(timed())
    answers = [json.loads(line)["response"]["body"] for line in output.read_text().splitlines()]
    return {"generating_s": took, "tokens": sum(answer["usage"]["completion_tokens"] for answer in answers)}


def _flags(arguments: dict[str, Any]) -> list[str]:
    typed: list[str] = []
    for key, value in arguments.items():
        flag = "--" + key.replace("_", "-")
        if isinstance(value, bool):
            typed += [flag] if value else []
        else:
            typed += [flag, json.dumps(value) if isinstance(value, dict) else str(value)]
    return typed


def main() -> None:
    name, arguments, source, result = sys.argv[1:]
    peer = {"LLM.chat": llm_chat, "vllm run-batch": run_batch}[name]
    Path(result).write_text(json.dumps(peer(json.loads(Path(arguments).read_bytes()), Path(source))))


if __name__ == "__main__":
    main()
