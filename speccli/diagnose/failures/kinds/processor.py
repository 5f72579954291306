"""The CPU backend: instructions, threads, preloaded libraries."""

from __future__ import annotations

from speccli.diagnose.failures.kind import GENERAL, Kind

KINDS = (
    Kind(
        id="crash.instruction",
        title="the processor lacks instructions",
        says=(
            "illegal instruction",
            "sigill",
            "exit code -4",
            "exit code: -4",
            ("avx512", "required"),
            ("avx2", "required"),
            ("cpu backend requires",),
            ("avx", "not supported", "cpu"),
        ),
        unless=("warning",),
        cause="vLLM's CPU build uses AVX2, AVX-512 or AMX, and this processor (or the virtual machine) has it not",
        fix="another machine, or a virtual machine that passes the host's processor through; speccli doctor shows what is there",
    ),
    Kind(
        id="crash.threads",
        title="binding threads to cores",
        says=(
            ("vllm_cpu_omp_threads_bind", "error"),
            ("vllm_cpu_omp_threads_bind", "invalid"),
            ("vllm_cpu_omp_threads_bind", "must"),
            ("cpu ids", "out of range"),
            ("sched_setaffinity", "invalid argument"),
            ("init_cpu_threads_env", "error"),
            ("not enough allowed numa nodes",),
            ("omp_threads_bind", "not"),
            ("numa_migrate_pages failed",),
        ),
        cause="VLLM_CPU_OMP_THREADS_BIND names cores that this process may not use, or as many groups as there are no workers",
        fix="threads_bind: auto in a profile (VLLM_CPU_OMP_THREADS_BIND=auto); one group of cores for each worker, as in 0-15|16-31",
    ),
    Kind(
        id="crash.cpu-unsupported",
        title="not on the CPU",
        says=(
            ("not supported on cpu",),
            ("is not yet supported on cpu",),
            ("cpu backend", "not support"),
            ("could not run", "'cpu' backend"),
            ("not implemented for 'half'",),
        ),
        cause="this feature, or this data type, has no implementation for the processor",
        fix="--dtype bfloat16 or float32, an unquantised target, another method",
    ),
    Kind(
        id="crash.no-openmp",
        title="a library that is not preloaded",
        says=(("without intel openmp in", "ld_preload"), ("speculative decoding on cpu without",)),
        cause="without Intel's OpenMP speculation on the CPU is much slower, says vLLM",
        fix="speccli preloads it by itself where it finds it: pip install intel-openmp==2024.2.1; elsewhere LD_PRELOAD=…/libiomp5.so before Python starts",
        severity="info",
        in_warnings=True,
    ),
    Kind(
        id="crash.preload",
        title="a preloaded library",
        says=(
            ("ld_preload", "cannot be preloaded"),
            ("cannot allocate memory in static tls block",),
            ("omp: error #15",),
        ),
        cause="LD_PRELOAD names a library that cannot be loaded, or two OpenMP libraries meet",
        fix="LD_PRELOAD with one libiomp5.so and one libtcmalloc that exist; preload: false in a profile leaves both out",
        rank=GENERAL,
    ),
)
