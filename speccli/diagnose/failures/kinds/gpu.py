"""GPU, driver, CUDA's libraries and NCCL."""

from __future__ import annotations

from speccli.diagnose.failures.context import Context
from speccli.diagnose.failures.figures import whole
from speccli.diagnose.failures.kind import AFTERMATH, GENERAL, Advice, Figures, Kind


def old_gpu(figures: Figures, _context: Context) -> Advice:
    name, capability = figures.get("gpu_name"), figures.get("capability_name")
    if not capability:
        return Advice(settings={"dtype": "float16"})
    return Advice(
        cause=f"{name or 'this GPU'} has compute capability {str(capability).rstrip('.')}, and bfloat16 came with 8.0",
        settings={"dtype": "float16"},
    )


def too_few_gpus(figures: Figures, _context: Context) -> Advice:
    asked, found = whole(figures, "asked_gpus"), whole(figures, "found_gpus")
    if not asked or found is None:
        return Advice()
    return Advice(
        cause=f"{asked} GPUs asked for, {found} visible",
        fix=f"--tensor-parallel-size {max(found, 1)}; CUDA_VISIBLE_DEVICES may hide some",
        settings={"tensor_parallel_size": max(found, 1)},
    )


KINDS = (
    Kind(
        id="crash.driver-old",
        title="the NVIDIA driver is too old",
        says=(
            ("nvidia driver", "too old"),
            "cuda driver version is insufficient",
            "device kernel image is invalid",
            ("ptx was compiled with an unsupported toolchain",),
            ("the provided ptx", "unsupported"),
            "cuda_error_unsupported_ptx_version",
            "forward compatibility was attempted on non supported",
            ("unsatisfied condition: cuda>=",),
        ),
        figures=(r"found version (?P<driver_cuda_name>\d+)", r"cuda>=(?P<cuda_needed_name>[\d.]+)"),
        cause="torch was built for a newer CUDA than the driver knows",
        fix="update the NVIDIA driver; or install the wheel built for the older CUDA (speccli doctor names both versions)",
        in_warnings=True,
    ),
    Kind(
        id="crash.driver-mismatch",
        title="driver and its library differ",
        says=("driver/library version mismatch",),
        cause="the driver was updated while the old one is still loaded",
        fix="reboot, or unload and load the nvidia modules again",
    ),
    Kind(
        id="crash.bfloat16",
        title="the GPU has no bfloat16",
        says=(
            ("bfloat16", "only supported on gpus"),
            ("bfloat16", "compute capability of at least"),
            ("bfloat16 is not supported",),
        ),
        figures=(
            r"Your (?P<gpu_name>.{1,80}?) GPU has compute capability (?P<capability_name>\d+\.\d+)",
            r"Your (?P<gpu_name>.{1,80}?) GPU",
        ),
        cause="bfloat16 needs compute capability 8.0 or more (T4 and V100 have less)",
        fix="--dtype float16; a head trained in bfloat16 may then overflow: watch the acceptance",
        advise=old_gpu,
    ),
    Kind(
        id="crash.no-kernel",
        title="no kernels for this GPU",
        says=(
            "no kernel image is available",
            ("is not compatible with the current pytorch installation",),
            ("unsupported gpu architecture",),
            ("not defined for option 'gpu-name'",),
            ("cuda capability sm_", "not compatible"),
        ),
        figures=(r"(?P<capability_name>sm_\d+a?)",),
        cause="torch, or vLLM, was built without code for this GPU's compute capability: the GPU is too new for the build, or too old",
        fix="a build that names the capability (`python -c 'import torch; print(torch.cuda.get_arch_list())'`): for new GPUs the wheel of the newest CUDA, for old ones an older vLLM",
        in_warnings=True,
    ),
    Kind(
        id="crash.mig",
        title="a MIG slice",
        says=(
            ("invalid literal for int()", "'mig-"),
            ("invalid literal for int()", "'gpu-"),
            ("mig-", "invalid device"),
            ("mig", "not supported"),
        ),
        figures=(r"base 10: '(?P<device_name>[^']{1,80})'",),
        cause="CUDA_VISIBLE_DEVICES holds the name of a slice or a GPU where this vLLM takes numbers",
        fix="CUDA_VISIBLE_DEVICES=0 (slices count as devices inside their container), or a newer vLLM; with MIG tensor_parallel_size stays 1, and memory is the slice's",
    ),
    Kind(
        id="crash.no-gpu",
        title="no GPU is seen",
        says=(
            "no cuda gpus are available",
            "found no nvidia driver",
            "failed to infer device type",
            "no cuda-capable device is detected",
            "torch not compiled with cuda enabled",
            ("libcuda.so", "cannot open shared object"),
            ("cuda unknown error",),
            ("could not select device driver", "gpu"),
            ("nvml shared library not found",),
            ("nvidia-smi has failed",),
            ("couldn't communicate with the nvidia driver",),
        ),
        cause="no driver, a container without GPUs, an empty CUDA_VISIBLE_DEVICES, or the wrong build of torch",
        fix="nvidia-smi has to list it; docker run --gpus all; speccli doctor says what it sees; without a GPU, pip install 'speccli[cpu]'",
    ),
    Kind(
        id="crash.gpu-count",
        title="more GPUs asked for than there are",
        says=(
            ("world size", "larger than the number of available gpus"),
            ("tensor parallel size", "larger than the number of available gpus"),
            ("tensor_parallel_size", "available gpus"),
            ("invalid device ordinal",),
            ("the number of required gpus exceeds",),
        ),
        figures=(
            r"[Ww]orld size \((?P<asked_gpus>\d+)\)",
            r"parallel size \((?P<asked_gpus>\d+)\)",
            r"available GPUs \((?P<found_gpus>\d+)\)",
        ),
        cause="tensor_parallel_size x pipeline_parallel_size is above the number of visible GPUs",
        fix="a smaller tensor_parallel_size; CUDA_VISIBLE_DEVICES may hide GPUs",
        advise=too_few_gpus,
    ),
    Kind(
        id="crash.gpu-fault",
        title="the GPU itself failed",
        says=(
            ("uncorrectable ecc",),
            ("fallen off the bus",),
            ("nvrm: xid",),
            ("cuda error: unspecified launch failure",),
            ("gpu is lost",),
            ("cuda error: hardware",),
            ("unable to determine the device handle",),
        ),
        figures=(r"Xid \([^)]*\): (?P<xid>\d+)",),
        cause="the hardware, its power or its cooling: the driver gave the GPU up",
        fix="`dmesg | grep -i xid` and nvidia-smi -q; reboot; if it comes again, the card",
    ),
    Kind(
        id="crash.gpu-taken",
        title="the GPU is reserved",
        says=(("cuda-capable device", "busy or unavailable"), ("exclusive", "compute mode")),
        cause="the GPU is in exclusive mode and another process has it, or a slice is gone",
        fix="end the other process (nvidia-smi lists it), or take another GPU with CUDA_VISIBLE_DEVICES",
    ),
    Kind(
        id="crash.nccl",
        title="the GPUs do not reach each other",
        says=(
            "nccl error",
            "ncclsystemerror",
            "ncclunhandledcudaerror",
            "ncclinternalerror",
            "ncclinvalidusage",
            "ncclremoteerror",
            "distbackenderror",
            ("nccl watchdog", "exception"),
            ("collective operation timeout",),
            ("nccl", "timed out"),
            ("custom_all_reduce", "error"),
            ("peer access", "not supported"),
        ),
        figures=(r"NCCL version (?P<nccl_name>[\d.]+)", r"[Ll]ast error:\s*(?P<reason_text>.{1,200})"),
        cause="NCCL, which carries tensors between GPUs, failed; where another process of the run failed first, that one is the cause",
        fix="NCCL_DEBUG=INFO tells more; NCCL_P2P_DISABLE=1 or disable_custom_all_reduce where peer access fails, --ipc=host in a container, NCCL_SOCKET_IFNAME over a network",
        rank=AFTERMATH,
    ),
    Kind(
        id="crash.cuda",
        title="a CUDA error",
        says=(
            "cuda error:",
            "cublas_status_",
            "cudnn_status_",
            "acceleratorerror",
            "cudnn error",
            "cuda kernel errors might be asynchronously",
        ),
        unless=("out of memory",),
        cause="a kernel failed; CUDA reports it late, so the traceback may point elsewhere",
        fix="CUDA_LAUNCH_BLOCKING=1 and --eager once, to see the true place; --no-spec tells whether speculation is the cause",
        rank=GENERAL,
    ),
)
