"""Processes: how they are started, how they meet, how they end."""

from __future__ import annotations

from speccli.diagnose.failures.kind import AFTERMATH, GENERAL, Kind

KINDS = (
    Kind(
        id="crash.fork",
        title="CUDA in a forked process",
        says=("cannot re-initialize cuda in forked subprocess",),
        cause="the parent had used CUDA before it forked the engine",
        fix="VLLM_WORKER_MULTIPROC_METHOD=spawn, and no use of torch.cuda before the engine starts",
    ),
    Kind(
        id="crash.main-guard",
        title="a script without its main guard",
        says=(
            ("before the current process has finished its bootstrapping phase",),
            ("attempt has been made to start a new process before",),
        ),
        cause="the engine starts processes that import the script again",
        fix="put what starts the engine under if __name__ == '__main__':",
    ),
    Kind(
        id="crash.port",
        title="the port is in use",
        says=("address already in use", "errno 98", ("port", "already in use"), "eaddrinuse"),
        figures=(r"\('[\w.:]*', (?P<port>\d+)\)", r"port:? (?P<port>\d+)"),
        cause="another process, perhaps an engine left over, listens there",
        fix="end it (`ss -ltnp` lists who listens), or take another --port",
    ),
    Kind(
        id="crash.open-files",
        title="too many open files",
        says=("too many open files", "errno 24"),
        cause="the limit on open files of this shell is low",
        fix="ulimit -n 65536, then start again",
    ),
    Kind(
        id="crash.threads-limit",
        title="no more threads",
        says=(
            "can't start new thread",
            ("pthread_create failed", "resource temporarily unavailable"),
            "fork: retry: resource temporarily unavailable",
        ),
        cause="the limit on processes and threads of this user or container is reached",
        fix="ulimit -u, or the container's pids limit; OMP_NUM_THREADS smaller",
    ),
    Kind(
        id="crash.permission",
        title="a file or folder that may not be used",
        says=("permission denied", "errno 13", ("read-only file system",), "errno 30"),
        figures=(r"(?:denied|system): '(?P<file_name>[^']{1,300})'",),
        cause="the user of this process may not read or write there, as in a container with another user",
        fix="HF_HOME, VLLM_CACHE_ROOT or SPECCLI_CACHE in a folder of yours, or the rights of that one",
    ),
    Kind(
        id="crash.segfault",
        title="a crash below Python",
        says=(
            "segmentation fault",
            "sigsegv",
            "exit code -11",
            "exit code: -11",
            "exitcode: -11",
            "exited with code 139",
            "fatal python error",
        ),
        is_all=("aborted", "aborted (core dumped)"),
        cause="native code crashed: two OpenMP or CUDA libraries in one process, a broken install, or a fault of a kernel",
        fix="speccli doctor checks the packages; --eager, and --no-spec tells whether speculation is the cause",
        rank=GENERAL,
    ),
    Kind(
        id="crash.assertion",
        title="an assertion without words",
        says=(),
        is_all=("assertionerror", "assertionerror:"),
        cause="vLLM checked something and says nothing about it; the frames above that line name what",
        fix="read the last `assert` above that line; where a speculator is loaded, `speccli doctor` compares its config with its files",
        rank=GENERAL,
    ),
    Kind(
        id="crash.ray",
        title="Ray has no room",
        says=(
            ("no available node types can fulfill",),
            ("placement group", "cannot be"),
            ("placement group", "resource"),
            ("current node has no gpu available",),
            ("ray", "does not have enough gpus"),
        ),
        cause="the engine was to run over Ray, and its cluster has not as many free GPUs as were asked for",
        fix="ray status shows what is free; a smaller --tensor-parallel-size, or --distributed-executor-backend mp on one machine",
    ),
    Kind(
        id="crash.timeout",
        title="a process did not answer in time",
        says=(
            ("rpc call to", "timed out"),
            ("timed out waiting for", "engine"),
            ("did not respond", "engine"),
            ("timed out waiting for", "client"),
            ("did not receive response from front-end",),
            ("engine", "failed to start in time"),
            ("timeout", "broadcast"),
        ),
        cause="a worker hangs or is very slow (compilation, a slow disk, a dead GPU), or has died: then its own lines tell why",
        fix="look for the first error of a worker above that line; VLLM_ENGINE_READY_TIMEOUT_S and VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS make vLLM wait longer",
        rank=AFTERMATH,
    ),
)
