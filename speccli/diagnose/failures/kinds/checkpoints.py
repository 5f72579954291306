"""Checkpoints: files that are missing or broken, architectures and quantisations that vLLM does not take."""

from __future__ import annotations

from speccli.diagnose.failures.context import Context
from speccli.diagnose.failures.figures import whole
from speccli.diagnose.failures.kind import GENERAL, Advice, Figures, Kind

EAGLE_FAMILIES = "Llama, Llama 4, MiniCPM, Cohere, Mistral and DeepSeek MTP"


def architecture(figures: Figures, _context: Context) -> Advice:
    name = str(figures.get("architecture_name", ""))
    if not name.lower().startswith("eagle"):
        return Advice()
    return Advice(
        cause=f"vLLM has no EAGLE class {name}; there are those of {EAGLE_FAMILIES}",
        fix="an EAGLE-3 head of this target (most are shaped like Llama's) with --method eagle3, or --method draft_model or ngram",
    )


def too_few_heads(figures: Figures, _context: Context) -> Advice:
    heads, size = whole(figures, "heads"), whole(figures, "parallel")
    if not heads or not size:
        return Advice()
    good = max(count for count in range(1, min(size, heads) + 1) if heads % count == 0)
    return Advice(
        cause=f"{heads} attention heads cannot be shared out evenly to {size} GPUs",
        fix=f"--tensor-parallel-size {good}",
        settings={"tensor_parallel_size": good},
    )


KINDS = (
    Kind(
        id="crash.no-model-type",
        title="a config that names no model",
        says=(
            ("should have a", "model_type", "key"),
            "unrecognized model in",
            ("could not detect config format",),
        ),
        figures=(r"[Uu]nrecognized model in (?P<model_name>\S{1,200}?)[.,]?\s",),
        cause="the config.json has no model_type, as published Medusa heads have none, and no method was named",
        fix="--method medusa for Medusa heads (vLLM fills the rest in); for others, the checkpoint's own config.json",
    ),
    Kind(
        id="crash.architecture",
        title="an architecture that vLLM does not have",
        says=(
            ("model architectures", "are not supported for now"),
            ("model architecture", "is not supported"),
            "no model architectures are specified",
            ("does not recognize this architecture",),
            ("transformers does not recognize",),
            ("has model type", "does not recognize"),
            ("has no vllm implementation",),
        ),
        unless=("failed to be inspected",),
        figures=(
            r"[Mm]odel architectures? \[?'?(?P<architecture_name>\w{1,100})",
            r"model type `(?P<architecture_name>[\w.-]{1,100})`",
        ),
        cause="this vLLM, or this transformers, has no class for the model",
        fix="another speculator or --method ngram where the speculator is meant; a newer vLLM where the target is",
        advise=architecture,
    ),
    Kind(
        id="crash.quantization",
        title="a quantisation that does not work here",
        says=(
            "marlin does not support",
            ("quantization", "not supported for the current gpu"),
            ("is not supported for quantization method",),
            "unknown quantization method",
            "invalid quantization method",
            ("quantization method", "does not match"),
            ("does not support weight_bits",),
            ("minimum capability", "current capability"),
            ("weight input_size_per_partition", "not divisible"),
            ("quantiz", "requires", "capability"),
        ),
        figures=(
            r"weight_bits ?= ?(?P<bits_name>\w{1,20})",
            r"[Mm]inimum capability: (?P<capability_needed>\d+)",
            r"[Cc]urrent capability: \(?(?P<capability>\d+)",
            r"quantization method:? '?(?P<quantization_name>[\w-]{1,60})",
        ),
        cause="the GPU has no kernel for this quantisation, or the setting does not match the files; a draft has its own, apart from the target's",
        fix="a checkpoint quantised for this GPU (awq, gptq from 7.5; fp8 from 8.9), or one that is not; `quantization` of the draft only where it was quantised on disk",
    ),
    Kind(
        id="crash.heads-divide",
        title="attention heads and GPUs",
        says=(
            ("attention heads", "must be divisible by"),
            ("heads", "divisible", "tensor", "parallel"),
            ("is not divisible by", "tp_size"),
        ),
        figures=(
            r"heads \((?P<heads>\d+)\)",
            r"parallel size \((?P<parallel>\d+)\)",
        ),
        cause="each GPU takes the same number of attention heads",
        fix="a tensor_parallel_size that divides the number of attention heads",
        advise=too_few_heads,
    ),
    Kind(
        id="crash.broken-weights",
        title="a weight file is broken",
        says=(
            "headertoolarge",
            "headertoosmall",
            "metadataincompletebuffer",
            "invalidheaderdeserialization",
            "error while deserializing header",
            ("pytorchstreamreader", "failed"),
            "unpicklingerror",
            "failed finding central directory",
            "invalid load key",
            ("safetensors", "incomplete"),
            "not enough data in the file",
            ("consistency check failed", "size"),
        ),
        figures=(r"(?P<file_name>[\w./-]+\.(?:safetensors|bin|pt))",),
        cause="a file was downloaded in part, or is the pointer of git-lfs instead of the file",
        fix="delete that file (or the repository in the hub's cache) and fetch it again: speccli pull",
    ),
    Kind(
        id="crash.no-weights",
        title="a file of the checkpoint is missing",
        says=(
            "cannot find any model weights",
            "cannot find any safetensors model weights",
            ("does not appear to have a file named",),
            ("no such file or directory", ".safetensors"),
            ("no such file or directory", "config.json"),
            ("no such file or directory", "model.safetensors.index"),
            ("no such file or directory", ".bin"),
            "no file named model.safetensors",
            "no .safetensors",
        ),
        figures=(r"weights with `(?P<model_name>[^`]{1,300})`", r"directory: '?(?P<file_name>[^'\s]{1,300})"),
        cause="the folder, or what is cached of the repository, is not whole",
        fix="fetch it again: speccli pull; or name the folder that holds config.json and the weights",
    ),
    Kind(
        id="crash.remote-code",
        title="the checkpoint brings code of its own",
        says=("trust_remote_code=true", "requires you to execute the", "`trust_remote_code`", "--trust-remote-code"),
        cause="the model is defined by Python files in its repository, and running them has to be allowed",
        fix="read those files, then engine: {trust_remote_code: true} in a profile (vllm serve: --trust-remote-code)",
    ),
    Kind(
        id="crash.tokenizer",
        title="the tokenizer cannot be loaded",
        says=(
            "couldn't instantiate the backend tokenizer",
            "can't load tokenizer for",
            ("tokenizer class", "does not exist"),
            ("tokenizer class", "not currently imported"),
            "failed to load the tokenizer",
            ("tokenizer.json", "expected"),
            ("untagged enum modelwrapper",),
            ("cached_get_tokenizer", "error"),
        ),
        cause="the tokenizer's files are missing, or newer than the installed transformers and tokenizers",
        fix="fetch the checkpoint again (speccli pull); for a new model, a newer transformers",
    ),
    Kind(
        id="crash.types-differ",
        title="data types that differ",
        says=(
            ("expected scalar type", "but found"),
            ("must have the same dtype",),
            ("expected m1 and m2 to have the same dtype",),
            ("to have the same dtype, but got",),
        ),
        cause="target and speculator, or weights and activations, meet in different data types",
        fix="one --dtype for both; a speculator that is stored in the target's type, and no quantization of its own",
    ),
    Kind(
        id="crash.rope",
        title="the position settings in a config",
        says=(
            ("rope_scaling", "must"),
            ("rope_parameters", "must"),
            ("rope_scaling", "keyerror"),
            ("unknown rope scaling",),
        ),
        cause="the config's rope settings are not understood by this transformers or this vLLM",
        fix="the versions that the checkpoint's page asks for",
    ),
    Kind(
        id="crash.unknown-weight",
        title="a tensor that the model does not have",
        says=("no module or parameter named", ("keyerror", ".weight'"), ("unexpected key", "state_dict")),
        figures=(r"parameter named '(?P<tensor_name>[^']{1,120})'", r"KeyError: '(?P<tensor_name>[^']{1,120})'"),
        cause="the file was made for another class of model, or another version of vLLM",
        fix="where the file is a speculator: name its --method, and compare with `speccli doctor`; otherwise fetch the checkpoint again",
        rank=GENERAL,
    ),
    Kind(
        id="crash.weights-missing",
        title="weights that no file holds",
        says=("weights were not initialized from checkpoint", ("missing key", "state_dict")),
        cause="the config describes more than the files hold: k above the heads, a layer left out by a quantiser, a file missing",
        fix="compare config.json with the files: speccli doctor does; then -k, or the checkpoint again",
        rank=GENERAL,
    ),
    Kind(
        id="crash.inspection",
        title="the model's class could not be inspected",
        says=("failed to be inspected", "error in inspecting model architecture"),
        cause="vLLM looks at the class in a child process, and that one failed: the true error stands above, often of CUDA_VISIBLE_DEVICES or of an import",
        fix="read the error above that line; `speccli doctor` checks devices and packages",
        rank=GENERAL,
    ),
)
