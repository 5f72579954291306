"""One engine configuration in a process of its own: start it, run a workload, print what it took as one JSON line.

python tests/bench/measure.py '{"engine": "speccli", "settings": {"method": "ngram"}, "workload": {"batch": 64}}'
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from speccli import jsonl, paths
from speccli.engine import Request
from speccli.plan import Plan
from speccli.prepare import prepare
from speccli.profile import Sampling, Settings

QUESTIONS = paths.profiles_dir() / "prompts" / "sample.jsonl"


def questions(count: int, **sampling: Any) -> list[Request]:
    """The sample questions, over and over with a number in front so that no prefix is cached."""
    lines = jsonl.lines(jsonl.find_inputs([str(QUESTIONS)]), io.BytesIO())
    entries = list(jsonl.read(lines, jsonl.Defaults(Sampling(temperature=0.0, **sampling))))
    requests = [entries[i % len(entries)].request for i in range(count)]
    return [
        Request(id=str(i), prompt=f"Question {i}.\n{r.messages[-1].content}\nAnswer:", sampling=r.sampling)
        for i, r in enumerate(requests)
        if r is not None
    ]


def through_speccli(plan: Plan) -> Iterator[Callable[[list[Request]], int]]:
    from speccli.answer import Answer
    from speccli.engine.vllm import VllmEngine

    with VllmEngine(plan) as engine:

        def run(requests: list[Request]) -> int:
            answers = {request.id: Answer() for request in requests}
            for step in engine.generate(requests):
                answers[step.request_id].add(step)
            engine._engine.reset_prefix_cache()
            return sum(answer.timing.num_tokens for answer in answers.values())

        yield run


def through_vllm(plan: Plan) -> Iterator[Callable[[list[Request]], int]]:
    import os

    from vllm import LLM, SamplingParams

    os.environ.update(plan.environment)
    known = {k: v for k, v in plan.engine_arguments.items() if k != "per_request_spec_decode_metrics"}
    llm = LLM(**known)

    def run(requests: list[Request]) -> int:
        given = [r.sampling for r in requests]
        params = [
            SamplingParams(temperature=s.temperature, max_tokens=s.max_tokens, ignore_eos=bool(s.ignore_eos))
            for s in given
        ]
        outputs = llm.generate([r.prompt for r in requests], params, use_tqdm=False)
        llm.reset_prefix_cache()
        return sum(len(output.outputs[0].token_ids) for output in outputs)

    yield run


ENGINES = {"speccli": through_speccli, "vllm": through_vllm}


def timed(run: Callable[[list[Request]], int], requests: list[Request]) -> float:
    """Tokens per second of one run."""
    started = time.perf_counter()
    return run(requests) / (time.perf_counter() - started)


def one_by_one(run: Callable[[list[Request]], int], requests: list[Request]) -> float:
    started = time.perf_counter()
    return sum(run([request]) for request in requests) / (time.perf_counter() - started)


def main() -> None:
    asked = json.loads(sys.argv[1])
    work = asked["workload"]
    given = {
        "target": "smollm2-135m",
        "hardware": "cpu",
        "enforce_eager": True,
        "max_model_len": 2048,
        "max_num_seqs": 64,
        **asked["settings"],
    }
    plan = prepare(Settings(**given), None, lambda line: None)
    started = time.perf_counter()
    for run in ENGINES[asked["engine"]](plan):
        told: dict[str, Any] = {"start_s": round(time.perf_counter() - started, 1)}
        run(questions(4, max_tokens=8, ignore_eos=True))  # warm-up
        if work.get("batch"):
            many = questions(work["batch"], max_tokens=work["tokens"], ignore_eos=True)
            told["batch_tokens_per_s"] = [round(timed(run, many), 2) for _ in range(work.get("repeats", 2))]
        if work.get("single"):
            few = questions(work["single"], max_tokens=work["tokens"])
            told["single_tokens_per_s"] = [round(one_by_one(run, few), 2) for _ in range(work.get("repeats", 2))]
        Path(sys.argv[2]).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
