"""Logs of runs in which nothing went wrong, although some lines look as if."""

from __future__ import annotations

import pytest

from tests.diagnose.failures.logs import crashed, diagnose, ready, started

ALARMING = {
    "a token budget below the usual": "(EngineCore_DP0 pid=123) WARNING 11-29 20:59:33 [vllm.py:2276] max_num_scheduled_tokens is set to 1024 based on the speculative decoding settings. This may lead to suboptimal performance. Consider increasing max_num_batched_tokens to accommodate the additional draft token slots, or decrease num_speculative_tokens or max_num_seqs.",
    "a kernel that falls back": "(Worker pid=3209) WARNING 11-29 18:42:26 [utils.py:597] Failed to create oneDNN linear, fallback to torch linear. Exception: could not create a primitive descriptor for the matmul primitive.",
    "an extension that is not there": "WARNING 11-29 18:42:26 [cuda.py:30] Failed to import from vllm._C: ImportError('libcudart.so.13: cannot open shared object file: No such file or directory')",
    "no Triton": "(EngineCore pid=3197) WARNING 11-29 18:42:32 [cpu.py:224] Triton is not installed. triton-cpu is expected on x86 CPUs.",
    "the older runner": "(EngineCore pid=3197) WARNING 11-29 18:42:31 [vllm.py:725] Model Runner V2 requires Triton; using the V1 model runner instead.",
    "a Python warning": '/x/vllm/triton_utils/dispatcher.py:138: FutureWarning: `torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead\n  if hasattr(value, "__dict__"):',
    "leaked semaphores": "/x/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 1 leaked shared_memory objects to clean up at shutdown\n  warnings.warn('resource_tracker: There appear to be %d '",
    "a process group": "[rank0]:[W1129 18:45:06.123456789 ProcessGroupNCCL.cpp:1479] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources. NCCL error handling may be affected",
    "killed at the end": "(MainProcess pid=3184) WARNING 11-29 18:45:18 [utils.py:653] [shutdown] Process manager: force killing remaining process EngineCore pid 3197",
    "no library preloaded": "(Worker pid=3209) WARNING 11-29 18:42:23 [cpu_worker.py:114] libtcmalloc is not found in LD_PRELOAD. For best performance, please follow the section `set LD_PRELOAD`.",
    "no block for a while": "(EngineCore_DP0 pid=123) INFO 11-29 18:45:18 [shm_broadcast.py:501] No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging or doing some time-consuming work (e.g. compilation).",
    "an exception at the very end": 'Exception ignored in: <function Shm.__del__ at 0x7f>\nTraceback (most recent call last):\n  File "/x/shm.py", line 3, in __del__\n    self.close()\nBufferError: cannot close exported pointers exist',
    "a choice of backend": "(Worker pid=3) INFO 11-29 18:42:26 [selector.py:141] Cannot use FLASH_ATTN backend: head size 96 is not supported. Using another.",
    "hints about memory": "(Worker pid=3) INFO 11-29 18:42:26 [model_runner.py:1442] Capturing cudagraphs for decoding. If out-of-memory error occurs during cudagraph capture, consider decreasing `gpu_memory_utilization` or switching to eager mode.",
    "the context shortened": "(EngineCore_DP0 pid=123) INFO 11-29 18:42:26 [kv_cache_utils.py:2478] Auto-fit max_model_len: reduced from 131072 to 40960 to fit in available KV cache memory (5.00 GiB)",
    "no login": "WARNING 11-29 18:42:26 [hub.py:1] You are sending unauthenticated requests to the hub. Please set a HF_TOKEN to enable higher rate limits and faster downloads.",
    "a prompt that quotes an error": "(APIServer pid=1) INFO 11-29 18:50:26 [logger.py:39] Received request chatcmpl-1: prompt: 'Why does it say torch.OutOfMemoryError: CUDA out of memory? RuntimeError: boom', params: SamplingParams(n=1)",
    "a check that failed": "DEBUG 03-31 16:14:34 [__init__.py:76] Exception happens when checking CUDA platform: NVML Shared Library Not Found",
}


@pytest.mark.parametrize("name", sorted(ALARMING))
def test_lines_that_only_look_alarming_are_no_finding(name: str) -> None:
    for log in (
        started() + ALARMING[name] + "\n" + ready(),
        started() + ready() + ALARMING[name] + "\n",
        ALARMING[name],
    ):
        assert diagnose(log).findings == ()


def test_a_run_that_the_user_ended_is_healthy() -> None:
    log = started() + ready() + (
        "(EngineCore_DP0 pid=123) INFO 11-29 20:59:39 [core.py:1454] [shutdown] EngineCore: trigger received signal=SIGINT\n"
        "(EngineCore_DP0 pid=123) ERROR 11-29 20:59:44 [multiproc_executor.py:315] Worker proc VllmWorker-0 died unexpectedly (exit code: 0), shutting down executor.\n"
        "(EngineCore_DP0 pid=123) ERROR 11-29 20:59:44 [core.py:1512] EngineCore encountered a fatal error.\n"
        "(EngineCore_DP0 pid=123) ERROR 11-29 20:59:44 [core.py:1512] Traceback (most recent call last):\n"
        '(EngineCore_DP0 pid=123) ERROR 11-29 20:59:44 [core.py:1512]     raise RuntimeError("cancelled")\n'
        "(EngineCore_DP0 pid=123) ERROR 11-29 20:59:44 [core.py:1512] RuntimeError: cancelled\n"
    )  # fmt: skip
    assert diagnose(log).findings == ()


def test_an_attempt_that_failed_before_the_engine_was_ready_is_no_finding() -> None:
    attempt = 'Traceback (most recent call last):\n  File "x.py", line 1, in probe\nProbeError: no such device\n'
    assert diagnose(started() + attempt + ready()).findings == ()


def test_an_empty_log_says_nothing() -> None:
    assert diagnose("").findings == ()
    assert diagnose("").number_of_lines == 0


def test_a_run_that_crashed_is_forgotten_once_the_next_one_runs_well_only_if_it_says_so() -> None:
    """A log that several starts wrote to: the last run counts, and where it says nothing the one before."""
    crash = crashed("ValueError: No available memory for the cache blocks. Try increasing it.")
    other = crashed("ValueError: Model architectures ['EagleQwen2ForCausalLM'] are not supported for now.")
    assert diagnose(crash + other).findings[0].id == "crash.architecture"
    assert diagnose(crash + started()).findings[0].id == "crash.no-kv-cache"
