"""Features that clash with speculation, and requests that cannot be answered."""

from __future__ import annotations

from speccli.diagnose.failures.context import Context
from speccli.diagnose.failures.figures import whole
from speccli.diagnose.failures.kind import GENERAL, Advice, Figures, Kind


def too_long(figures: Figures, _context: Context) -> Advice:
    limit, asked = whole(figures, "limit_tokens"), whole(figures, "asked_tokens")
    if not limit:
        return Advice()
    cause = f"the context is {limit} tokens"
    return Advice(
        cause=f"{cause}, and a request came to {asked}" if asked else cause,
        fix=f"shorter prompts or a smaller max_tokens; or --max-model-len {asked or 'N'}, where checkpoint and memory allow it",
    )


KINDS = (
    Kind(
        id="crash.sampling",
        title="sampling that speculation does not allow",
        says=(
            ("not yet supported with speculative decoding",),
            ("sampling parameters", "not", "speculative decoding"),
            ("min_p", "not supported", "speculative"),
            ("logit_bias", "not supported", "speculative"),
            ("speculative decoding", "does not yet support"),
            ("speculative decoding", "does not support per-request"),
            ("logprobs", "not supported", "speculative"),
            ("guided decoding", "not", "speculative"),
            ("structured output", "not supported", "speculative"),
        ),
        cause="rejection sampling applies neither min_p nor logit_bias; a model's generation_config.json may bring min_p along",
        fix="min_p 0 and no logit_bias (top_p and top_k do); or those requests with --no-spec",
        severity="warning",
        in_warnings=True,
    ),
    Kind(
        id="crash.logits-processors",
        title="logits processors",
        says=(
            ("logits processor", "speculative"),
            ("logits_processors", "speculative"),
            ("logits processors", "not supported", "spec"),
        ),
        cause="custom logits processors do not work with speculation",
        fix="leave them out, or --no-spec",
    ),
    Kind(
        id="crash.preemption",
        title="requests that had to give up their KV cache",
        says=(("preempted", "not enough kv cache"), ("is preempted by", "mode")),
        figures=(
            r"total_num_cumulative_preemption=(?P<preemptions>\d+)",
            r"total_cumulative_preemption_cnt=(?P<preemptions>\d+)",
        ),
        cause="the KV cache is too small for so many requests at once: some are put back and computed again",
        fix="a smaller --max-num-seqs, a shorter --max-model-len, or a higher --gpu-memory-utilization",
        severity="info",
        in_warnings=True,
    ),
    Kind(
        id="crash.grammar",
        title="drafts outside the grammar",
        says=(
            "failed to advance fsm",
            "grammar rejected tokens",
            ("grammar", "rejected", "draft"),
            ("xgrammar", "failed to accept token"),
        ),
        figures=(r"for tokens (?P<tokens_text>[\d, \[\]]{1,80})",),
        cause="structured output: the speculator proposed tokens that the grammar does not allow (an end of thinking, a code fence)",
        fix="a smaller -k, the reasoning parser of the model, a newer vLLM; strict requests with --no-spec",
        severity="warning",
        in_warnings=True,
    ),
    Kind(
        id="crash.request-too-long",
        title="requests longer than the context",
        says=(
            ("maximum context length is",),
            ("longer than the maximum model length",),
            ("prompt", "exceeds", "max_model_len"),
            ("prompt", "too long"),
            ("is longer than", "max_model_len"),
            ("input prompt", "too long"),
        ),
        figures=(
            r"maximum context length is (?P<limit_tokens>\d+)",
            r"you requested (?P<asked_tokens>\d+) tokens",
            r"contains (?:at least )?(?P<asked_tokens>\d+) input tokens",
            r"contains (?P<asked_characters>\d+) characters",
            r"maximum model length of (?P<limit_tokens>\d+)",
            r"prompt \((?:total length |length )?(?P<asked_tokens>\d+)",
        ),
        cause="prompt and max_tokens together are above the context",
        fix="shorter prompts, a smaller max_tokens, or a larger --max-model-len",
        advise=too_long,
        severity="warning",
        in_warnings=True,
    ),
    Kind(
        id="crash.chat-template",
        title="no chat template",
        says=(
            "default chat template is no longer allowed",
            ("chat_template is not set",),
            ("does not have a chat template",),
            "chattemplateresolutionerror",
            ("no chat template",),
            ("must provide a chat template",),
        ),
        cause="the tokenizer's files hold no template, as with base models",
        fix='a chat template of the right family (vllm serve: --chat-template FILE), or the instruction-tuned model; base models complete: `batch` with "prompt"',
    ),
    Kind(
        id="crash.chat-roles",
        title="a conversation that the template refuses",
        says=(("conversation roles must alternate",), ("system role not supported",), ("templateerror",)),
        cause="the model's chat template takes only certain orders of roles",
        fix="alternate user and assistant; put the system prompt into the first user message",
        severity="warning",
    ),
    Kind(
        id="crash.lora",
        title="LoRA",
        says=(("lora", "not supported"), ("lora rank", "greater than"), ("max_lora_rank",)),
        cause="the adapter, or its rank, does not go with this model or this method",
        fix="a max_lora_rank that covers the adapter's; the draft does not know the adapter, so acceptance falls: --no-spec to compare",
        rank=GENERAL,
    ),
    Kind(
        id="crash.pipeline",
        title="pipeline parallelism",
        says=(
            "pipeline parallelism is not supported",
            ("does not support", "with pipeline parallelism"),
            ("supportspp",),
            ("pipeline parallel", "speculative", "not"),
        ),
        cause="speculation over several pipeline stages works for few pairings only",
        fix="pipeline_parallel_size 1 and a larger tensor_parallel_size; or --method eagle3, or --no-spec",
    ),
    Kind(
        id="crash.suffix-package",
        title="suffix decoding needs a package",
        says=("arctic inference is required", "no module named 'arctic_inference'", ("arctic", "inference", "install")),
        cause="suffix decoding is done by the package arctic-inference, which is not installed",
        fix="pip install arctic-inference==0.1.1, into the environment of vLLM; meanwhile --method ngram",
    ),
    Kind(
        id="crash.statistics-off",
        title="statistics are switched off",
        says=("stat logging disabled",),
        cause="vLLM's offline class counts nothing unless told to",
        fix="disable_log_stats=False; speccli counts by itself",
    ),
    Kind(
        id="crash.batch-line",
        title="a line of the batch file is no JSON",
        says=(
            ("invalid json", "at line"),
            ("invalid json", "column"),
            "jsondecodeerror",
            ("validation error for batchrequestinput",),
            ("json", "expecting property name enclosed in double quotes"),
        ),
        unless=("speculative", "config.json"),
        figures=(r"line (?P<line_in_text>\d+) column (?P<column>\d+)",),
        cause="vLLM's run-batch reads every line before it starts, stops at the first bad one, and does not say which; a run that was cut off leaves half a line at the end",
        fix="speccli batch names each bad line with its number, answers the others and goes on",
    ),
    Kind(
        id="crash.encoding",
        title="a file that is no UTF-8",
        says=(
            ("codec can't decode byte",),
            ("unexpected utf-8 bom",),
            ("invalid utf-8",),
            ("invalid unicode code point",),
        ),
        figures=(r"position (?P<position>\d+)",),
        cause="the input, or a template, is in another encoding, or begins with a byte order mark",
        fix="iconv -f LATIN1 -t UTF-8 FILE, or save it as UTF-8 without BOM",
    ),
    Kind(
        id="crash.kv-transfer",
        title="transfer of the KV cache",
        says=(("kv transfer", "fail"), ("nixl", "error"), ("kv_connector", "not supported")),
        cause="the connector that moves the KV cache between engines failed",
        fix="without it first; then the connector's own log",
        rank=GENERAL,
    ),
)
