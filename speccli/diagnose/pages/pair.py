"""Pages of the pair check: whether target and speculator go together."""

from speccli.diagnose.pages.page import Page

_OTHER = "A speculator that was made for exactly this target."
_AGAIN = "Fetch the checkpoint again, or take another one."
_CONVERTED = "Nothing: speccli gives the engine a converted copy."

PAGES = (
    Page(
        "pair.choice",
        "what was chosen",
        "The target, the method and the speculator that a run would take, and why: speccli profiles show.",
    ),
    Page(
        "pair.not-fetched",
        "not fetched yet",
        "The checkpoints are not on this machine, so what their files say is not known.",
        "speccli pull",
    ),
    Page(
        "pair.packages",
        "a package for the pairing",
        "The method or the checkpoint needs a package that is not installed.",
        "Install the package that the finding names.",
    ),
    Page(
        "pair.checkpoint",
        "a checkpoint that cannot be read",
        "Its folder, its config or its tensors' headers could not be read.",
        _AGAIN,
    ),
    Page(
        "pair.conversion",
        "a converted copy",
        "The files are laid out in a way that vLLM does not read right. The copy is kept in speccli's cache.",
        _CONVERTED,
    ),
    Page("pair.check", "the pair", "Every rule of the check was passed."),
    Page(
        "pair.speculator-missing",
        "no speculator",
        "The method drafts with weights of its own, and none were named.",
        "--speculator NAME, or --method ngram",
    ),
    Page(
        "pair.method-mismatch",
        "another method's file",
        "The tensors show that the file was made for another method. vLLM does not look: it stops while it loads them, or runs them as what they are not.",
        "The --method that the finding names.",
    ),
    Page(
        "pair.architecture",
        "an architecture without a class",
        "vLLM makes the name of the speculator's class from its architecture, and has only some of them.",
        "An EAGLE-3 head, or --method draft_model or ngram.",
    ),
    Page(
        "pair.path",
        "a misleading path",
        "vLLM overrules the method where the path holds words such as eagle3 or dflash.",
        "Rename the folder; speccli links it elsewhere by itself.",
    ),
    Page(
        "pair.mlp-speculator",
        "an MLP speculator",
        "vLLM 0.32 has switched that class off.",
        "Another method for this target: eagle3, draft_model or ngram.",
    ),
    Page(
        "pair.speculators-type",
        "a speculators file of an unknown type",
        "The format holds several types, of which vLLM 0.32 takes some.",
        "A speculator of one of those types.",
    ),
    Page(
        "pair.vocab-size",
        "the vocabularies differ",
        "Target and speculator number their tokens differently: token 17 of the one is not token 17 of the other.",
        "A speculator of the target's own family, or --method ngram.",
    ),
    Page(
        "pair.vocab-padding",
        "the same vocabulary, padded differently",
        "The tokenizers are the same, but the embedding matrices were padded to different sizes, which vLLM refuses.",
        "Nothing: speccli converts it; or use_heterogeneous_vocab: true.",
    ),
    Page(
        "pair.vocab-content",
        "the tokenizers differ",
        "The sizes are the same and the tokens are not. vLLM compares sizes only, so the run starts and accepts almost nothing.",
        "A speculator of the target's own family.",
    ),
    Page(
        "pair.tokenizer-unread",
        "a tokenizer that was not found",
        "Whether equal ids mean equal tokens could not be seen.",
        "Put the tokenizer's files beside the weights.",
    ),
    Page(
        "pair.heterogeneous-method",
        "use_heterogeneous_vocab",
        "vLLM maps vocabularies for draft models only.",
        "Leave use_heterogeneous_vocab out.",
    ),
    Page(
        "pair.heterogeneous-sampling",
        "use_heterogeneous_vocab",
        "vLLM maps vocabularies for greedy drafts only.",
        "Leave draft_sample_method out.",
    ),
    Page(
        "pair.heterogeneous-overlap",
        "too few common tokens",
        "Between two vocabularies only common tokens may be proposed.",
        "A draft of a nearer family, or --method ngram.",
    ),
    Page(
        "pair.heterogeneous-needless",
        "use_heterogeneous_vocab",
        "Both vocabularies are the same. The setting keeps vLLM on its older model runner.",
        "Leave use_heterogeneous_vocab out.",
    ),
    Page(
        "pair.hidden-size",
        "the hidden sizes differ",
        "The head reads hidden states of another width than the target has: it was trained for another target. vLLM dies at the first request.",
        _OTHER,
    ),
    Page(
        "pair.verifier",
        "made for another target",
        "The speculator's own config names the target that it was trained for, and it is another one.",
        _OTHER,
    ),
    Page(
        "pair.verifier-name",
        "made for a target of another name",
        "The speculator names its target in other words. A quantised copy of the same model is fine.",
    ),
    Page(
        "pair.target-hidden-states",
        "the target gives no hidden states",
        "EAGLE-3, DFlash and DSpark read hidden states of the target's layers, and vLLM's class of this target does not hand them out. "
        "vLLM says so only after it has loaded the weights.",
        "--method draft_model or ngram",
    ),
    Page(
        "pair.target-unknown",
        "a target without a class of its own",
        "Whether it hands out hidden states shows when it is loaded.",
        "Should it fail: --method draft_model or ngram.",
    ),
    Page(
        "pair.draft-tp",
        "the draft's tensor parallelism",
        "It may be 1 or the target's, and is the target's in the end.",
        "Leave draft_tensor_parallel_size out.",
    ),
    Page(
        "pair.draft-heads",
        "attention heads and devices",
        "vLLM splits a speculator like its target, and its heads do not go into the number of devices.",
        "Fewer devices, or another speculator.",
    ),
    Page(
        "pair.draft-context",
        "the speculator's positions",
        "The speculator has fewer positions than the context. Depending on the model runner it drafts nothing beyond them, drafts badly, or reads beyond its table.",
        "--max-model-len as long as the speculator's positions, or a speculator with more.",
    ),
    Page(
        "pair.draft-layer-types",
        "kinds of attention in a draft",
        "A draft with sliding windows or state layers beside full attention does not work.",
        "A draft with full attention only, or --method ngram.",
    ),
    Page(
        "pair.draft-mrope",
        "three-axis positions",
        "A draft model for vision is not supported by the older model runner.",
        "An EAGLE-3 head for this target, or a draft for text.",
    ),
    Page(
        "pair.draft-quantization",
        "the draft's quantisation",
        "A quantisation that reads weights from disk was set for a speculator that is not quantised.",
        "Leave `quantization` out of the speculator's settings.",
    ),
    Page(
        "pair.draft-quantized",
        "a quantised speculator",
        "A speculator has its own quantisation, whatever the target's, and the device needs a kernel for it.",
    ),
    Page(
        "pair.draft-unquantized",
        "a speculator in full size",
        "The target is quantised and the speculator is not: count its full size.",
    ),
    Page(
        "pair.draft-size",
        "a large draft",
        "A draft model runs once for each drafted token. Beyond a tenth of the target it costs more than most acceptance pays.",
        "A draft 10 to 50 times smaller than the target, a head, or --method ngram.",
    ),
    Page(
        "pair.parallel-drafting",
        "parallel drafting",
        "The checkpoint and the setting parallel_drafting do not agree.",
        "parallel_drafting: true for PARD and P-EAGLE, and nowhere else.",
    ),
)
