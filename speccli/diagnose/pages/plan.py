"""Pages of the memory plan and of what speculation is expected to do."""

from speccli.diagnose.pages.page import Page

PAGES = (
    Page(
        "profile.settings",
        "settings of the run",
        "Each setting with the place that it comes from: typed, the environment, a file of yours, the pairing or the hardware profile. "
        "A stronger place wins; speccli profiles show lists them all.",
    ),
    Page(
        "profile.idle",
        "settings that do nothing",
        "The setting is for another kind of machine, so vLLM does not get it here, or does not use it.",
        "Leave it out.",
    ),
    Page(
        "plan.memory",
        "does it fit",
        "vLLM takes a share of each GPU's memory. Weights of target and speculator, buffers, the peak of activations and CUDA graphs come off first; "
        "the rest is KV cache, which has to hold one request of the whole context. The plan computes each part as an interval: it fits if the worst case does, "
        "and is tight if only the best case does.",
        "The finding lists the changes that help, the cheapest first, each computed anew; --fix writes the first one to your settings.",
    ),
    Page(
        "plan.context",
        "the context's length",
        "The context that is asked for is longer than the model's own. vLLM refuses that at the start, whatever the memory.",
        "--max-model-len at the model's own length, or less",
    ),
    Page(
        "plan.utilization",
        "the share of the GPU",
        "The CUDA context takes memory before vLLM looks how much is free, so a share near 1 is refused at the start.",
        "--gpu-memory-utilization as the finding says.",
    ),
    Page(
        "plan.outside-budget",
        "memory that vLLM does not plan for",
        "Medusa's logits and those of rejection sampling are not seen by vLLM's profile run. They come out of what is left of the GPU, while requests run.",
        "A smaller --max-num-seqs, or a lower --gpu-memory-utilization.",
    ),
    Page(
        "plan.kv-padding",
        "padding in the KV cache",
        "Layers of different kinds share one pool of blocks, in groups of equal size, and groups that come out short are padded.",
    ),
    Page(
        "plan.confidence",
        "how sure the estimate is",
        "Some things are not modelled well (mixtures of experts, vision towers, some CUDA graphs): the interval is wider for them.",
    ),
    Page(
        "plan.unknown",
        "sizes that are not known",
        "No pairing file describes this target with this speculator, and they are not on this machine.",
        "speccli pull",
    ),
    Page(
        "plan.devices",
        "devices that cannot share the target",
        "The target is to be split over more devices than there are (on the processor: more NUMA nodes), or over a number that does not divide its attention heads.",
        "A smaller --tensor-parallel-size.",
    ),
    Page("plan.dtype", "the data type", "The GPU lacks the type that the checkpoint is stored in.", "--dtype float16"),
    Page(
        "plan.quantization",
        "the quantisation",
        "The GPU's compute capability decides which formats have kernels, and which save time as well as memory.",
        "Another variant of the target: speccli profiles show.",
    ),
    Page(
        "plan.kv-cache-dtype",
        "the KV cache's type",
        "An fp8 cache needs an attention backend that has it; before capability 8.9 not every one does.",
        "Leave kv_cache_dtype out.",
    ),
    Page(
        "speculation.gain",
        "the expected gain",
        "An estimate: how long a pass takes by bandwidth and arithmetic of the device, and how many tokens it yields at the acceptance that is assumed. Measure it: speccli bench.",
        "--no-spec, or a smaller speculator, where it does not pay.",
    ),
    Page(
        "speculation.k",
        "k",
        "A late token is accepted only if all before it are, and costs as much as the first.",
        "The k that the finding names; speccli doctor --stats judges by a real run.",
    ),
    Page(
        "speculation.batch",
        "the batch",
        "A pass verifies some tokens as quickly as one. With many requests it is bound by arithmetic, and every drafted token costs.",
        "A smaller --max-num-seqs or -k, or --no-spec for large batches.",
    ),
    Page(
        "speculation.draft-size",
        "the draft's size",
        "The speculator runs once for each drafted token and reads its weights each time.",
        "A head (eagle3, mtp), or a draft 10 to 50 times smaller than the target.",
    ),
    Page(
        "speculation.runner",
        "the model runner",
        "vLLM has two. Methods that the newer one does not know run on the older one, by themselves.",
    ),
    Page(
        "speculation.scheduling",
        "asynchronous scheduling",
        "Drafts that are made on the processor, between two steps, switch it off.",
    ),
    Page(
        "speculation.sampling",
        "sampling that is refused",
        "vLLM refuses requests with min_p or logit_bias under speculation.",
        "--no-spec for such requests.",
    ),
    Page(
        "speculation.logits-processors",
        "logits processors",
        "vLLM does not start with custom logits processors and speculation.",
        "Leave them out, or --no-spec.",
    ),
)
