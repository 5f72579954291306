"""Which of several lines is the cause, what it quotes, and what is made of its figures."""

from __future__ import annotations

import pytest

from speccli.diagnose.failures import UNKNOWN
from tests.diagnose.failures.cases import OOM
from tests.diagnose.failures.logs import CONFIG, crashed, diagnose, ready, started

SMALL = OOM.format(asked="20.00 MiB", total="23.64 GiB", free="10.00 MiB")


def test_the_line_is_quoted_with_its_number_and_process() -> None:
    log = crashed("ValueError: No available memory for the cache blocks. Try more.")
    found = diagnose(log).findings[0]
    assert log.splitlines()[found.line - 1].endswith(found.text)
    assert (
        found.evidence
        == f"line {found.line} (Worker_TP0 pid=130): ValueError: No available memory for the cache blocks. Try more."
    )


def test_a_wrapper_is_never_the_cause() -> None:
    found = diagnose(crashed("FrobnicationError: no nick"))
    assert found.findings[0].text == "FrobnicationError: no nick"
    assert not any("See root cause above" in candidate.text for candidate in found.candidates)


def test_a_log_of_wrappers_alone_is_an_unknown_fault() -> None:
    log = "ERROR 11-29 18:42:41 [core.py:1510] EngineCore failed to start.\nRuntimeError: Engine core initialization failed. See root cause above."
    assert [failure.id for failure in diagnose(log).findings] == [UNKNOWN]


def test_what_other_processes_say_afterwards_is_not_the_cause() -> None:
    log = (
        started()
        + "(Worker_TP1 pid=131) ERROR 11-29 18:42:39 [x.py:1] torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited\n"
        + crashed(SMALL, start="")
    )
    found = diagnose(log)
    assert found.findings[0].id == "crash.oom"
    assert diagnose("RuntimeError: NCCL error: unhandled system error").findings[0].id == "crash.nccl"


def test_of_a_chain_of_exceptions_the_first_is_the_cause() -> None:
    chain = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in a\nFrobnicationError: inner\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 1, in b\nRuntimeError: outer\n'
    )
    assert diagnose(chain).findings[0].text == "FrobnicationError: inner"


def test_the_error_of_the_message_is_preferred_to_that_of_the_library() -> None:
    chain = (
        f'Traceback (most recent call last):\n  File "a.py", line 1, in _dummy_sampler_run\n{SMALL}\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 1, in b\n'
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests. Please try lowering `max_num_seqs`.\n"
    )
    found = diagnose(chain)
    assert found.findings[0].id == "crash.oom-sampler"
    assert found.findings[0].settings == {"max_num_seqs": 16}
    assert [candidate.id for candidate in found.candidates] == ["crash.oom"]


@pytest.mark.parametrize(
    ("before", "frames", "identity"),
    [
        ("", ('File "x.py", line 1, in load_model',), "crash.oom-weights"),
        ("", ('File "x.py", line 1, in capture_model',), "crash.oom-graphs"),
        (ready(), ('File "x.py", line 1, in execute_model',), "crash.oom-running"),
        ("INFO 11-29 18:42:09 [a.py:1] Starting to load model acme/llama-8b...\n", (), "crash.oom-weights"),
        ("INFO 11-29 18:42:09 [a.py:1] Capturing CUDA graphs (decode, FULL)\n", (), "crash.oom-graphs"),
    ],
)
def test_what_ran_out_of_memory_is_told_by_the_frames_or_by_how_far_the_start_had_come(
    before: str, frames: tuple[str, ...], identity: str
) -> None:
    log = crashed(SMALL, frames, started() + before) if frames else started() + before + SMALL
    assert diagnose(log).findings[0].id == identity


def test_the_share_is_lowered_from_the_one_that_ran() -> None:
    found = diagnose(crashed(SMALL, ('File "x.py", line 1, in capture_model',))).findings[0]
    assert found.settings == {"gpu_memory_utilization": 0.92}
    assert "--gpu-memory-utilization 0.92" in found.fix


def test_the_speculator_is_named_where_it_takes_part() -> None:
    assert "speculator (draft_model)" in diagnose(started("draft_model") + SMALL).findings[0].cause
    assert "speculator" not in diagnose(started("ngram") + SMALL).findings[0].cause


def test_another_process_on_the_gpu_is_named() -> None:
    line = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 10.00 MiB "
        "is free. Process 4242 has 9.50 GiB memory in use. Including non-PyTorch memory, this process has 14.10 GiB memory in use."
    )
    found = diagnose(line).findings[0]
    assert "another process holds 9.50 GiB" in found.cause
    assert found.figures["others_gib"] == 9.5


def test_old_wordings_of_out_of_memory_give_the_same_figures() -> None:
    line = (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity; 22.50 GiB already "
        "allocated; 10.00 MiB free; 22.60 GiB reserved in total by PyTorch)"
    )
    figures = diagnose(line).findings[0].figures
    assert (figures["asked_gib"], figures["total_gib"], figures["free_gib"]) == (2.0, 23.69, 0.0098)


def test_vllms_hint_is_not_repeated_where_it_does_not_help() -> None:
    high = diagnose(started() + "ValueError: No available memory for the cache blocks.").findings[0]
    assert "is 0.95 already" in high.fix
    assert (
        "--gpu-memory-utilization 0.95 if"
        in diagnose("ValueError: No available memory for the cache blocks.").findings[0].fix
    )


def test_a_fault_that_comes_often_is_told_once_with_its_number() -> None:
    line = "ERROR 11-29 18:50:00 [backend_xgrammar.py:202] Failed to advance FSM for request {} for tokens 248069. Please file an issue.\n"
    found = diagnose(started() + ready() + "".join(line.format(number) for number in range(300)))
    assert [(failure.id, failure.times, failure.severity) for failure in found.findings] == [
        ("crash.grammar", 300, "warning")
    ]


def test_refused_requests_do_not_hide_the_crash() -> None:
    refused = "ERROR 11-29 18:50:00 [serving.py:1] ValueError: The min_p and logit_bias sampling parameters are not yet supported with speculative decoding.\n"
    found = diagnose(started() + ready() + refused + crashed(SMALL, start=""))
    assert [failure.id for failure in found.findings] == ["crash.oom-running", "crash.sampling"]


def test_the_run_is_read_from_the_log() -> None:
    context = diagnose(started("medusa", 4) + ready()).context
    assert (context.version, context.model, context.device) == ("0.32.0", "acme/llama-8b", "cuda")
    assert (context.method, context.speculator, context.num_speculative_tokens) == ("medusa", "acme/draft", 4)
    assert (context.max_model_len, context.gpu_memory_utilization, context.max_num_seqs) == (131072, 0.95, 64)
    assert context.phase == "ready"


def test_the_figures_of_a_fault_are_found_in_the_lines_around_it() -> None:
    prefix = "(APIServer pid=1) ERROR 11-29 18:50:00 [a.py:1] "
    log = "\n".join(
        prefix + line
        for line in (
            "Traceback (most recent call last):",
            '  File "x.py", line 1, in get',
            "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: 1)",
            "",
            "Cannot access gated repo for url https://hub.example/acme/llama-8b/resolve/main/config.json.",
            "Access to model acme/llama-8b is restricted and you are not in the authorized list.",
        )
    )
    found = diagnose(log).findings[0]
    assert (found.id, found.figures) == ("crash.hub-consent", {"repository_name": "acme/llama-8b"})


def test_a_long_run_keeps_only_what_matters() -> None:
    """Many lines of many processes leave the same small answer."""
    noise = "".join(
        f"(Worker_TP{number % 200} pid={number}) ERROR 11-29 18:50:00 [a.py:1] NoiseError: {number}\n"
        for number in range(600)
    )
    found = diagnose(
        started() + ready() + noise + crashed("ValueError: No available memory for the cache blocks.", start="")
    )
    assert found.findings[0].id == "crash.no-kv-cache"
    assert len(found.candidates) <= 6


def test_the_configuration_line_of_any_method_is_read() -> None:
    line = "(EngineCore pid=1) INFO 11-29 18:42:06 [core.py:133] " + CONFIG.format(method="ngram", k=4, device="cpu")
    context = diagnose(line).context
    assert (context.method, context.num_speculative_tokens, context.is_cpu) == ("ngram", 4, True)


def test_the_token_budget_is_worked_out_for_the_run_at_hand() -> None:
    line = "ValueError: VllmConfig does not have enough slots to schedule a token and support the speculative decoding settings."
    found = diagnose(started("dflash", 15) + line).findings[0]
    assert found.settings == {"max_num_batched_tokens": 64 * 16}
    assert "max_num_batched_tokens 1024 or more" in found.fix


def test_a_traceback_whose_head_is_cut_off_still_tells_where() -> None:
    prefix = "(VllmWorker rank=3 pid=1090) ERROR 06-05 06:18:13 [multiproc_executor.py:470] "
    log = "\n".join(
        prefix + line
        for line in (
            '  File "/x/torch/cuda/graphs.py", line 84, in capture_end',
            "    super().capture_end()",
            "RuntimeError: CUDA error: out of memory",
        )
    )
    found = diagnose(log)
    assert (found.findings[0].id, found.candidates) == ("crash.oom-graphs", ())


def test_the_share_is_read_from_older_versions_too() -> None:
    line = "INFO 03-27 10:29:01 [worker.py:267] the current vLLM instance can use total_gpu_memory (44.53GiB) x gpu_memory_utilization (0.98) = 43.64GiB"
    assert diagnose(line).context.gpu_memory_utilization == 0.98
