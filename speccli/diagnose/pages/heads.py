"""Pages of the pair check that are about one kind of head: EAGLE, Medusa, MTP, DFlash, and weights as such."""

from speccli.diagnose.pages.page import Page

_OTHER = "A speculator that was made for exactly this target."
_AGAIN = "Fetch the checkpoint again, or take another one."
_CONVERTED = "Nothing: speccli gives the engine a converted copy."

PAGES = (
    Page("pair.eagle-prefix", "tensors with a prefix", "vLLM puts the prefix `model.` there itself.", _CONVERTED),
    Page(
        "pair.eagle-fc-bias",
        "a bias that vLLM drops",
        "vLLM's class has no place for fc.bias and drops it without a word: fewer drafts are accepted.",
        _CONVERTED,
    ),
    Page(
        "pair.eagle-input-layernorm",
        "a norm that vLLM does not have",
        "The head normalises its input, and vLLM's class for EAGLE-1 has no place for it.",
        "A head in SafeAILab's layout, or --method ngram.",
    ),
    Page(
        "pair.eagle-lm-head",
        "an lm_head of its own",
        "vLLM's class for EAGLE-1 uses the target's and stops at another.",
        _CONVERTED,
    ),
    Page(
        "pair.embedding",
        "no embedding of the right width",
        "The head shares the target's embedding, and that has another width.",
        "A head that brings its embedding.",
    ),
    Page(
        "pair.eagle3-no-d2t",
        "the map of the reduced vocabulary",
        "The head drafts from a reduced vocabulary, and its file has no map d2t back to the target's. vLLM starts without a word and accepts almost nothing.",
        "The file that carries d2t, or another head.",
    ),
    Page(
        "pair.eagle3-d2t",
        "the map of the reduced vocabulary",
        "The map d2t has another length than the config's draft_vocab_size.",
        _AGAIN,
    ),
    Page(
        "pair.eagle3-lm-head-rows",
        "the rows of the head's lm_head",
        "They are not draft_vocab_size: config.json and tensors do not belong together.",
        _AGAIN,
    ),
    Page(
        "pair.eagle3-no-lm-head",
        "a head without lm_head",
        "vLLM uses the target's without a word, which is right only if the head was trained so, and has the target's vocabulary.",
        _AGAIN,
    ),
    Page(
        "pair.eagle3-no-fc",
        "a head without fc",
        "vLLM starts without a word and mixes hidden states by what memory happened to be.",
        _AGAIN,
    ),
    Page(
        "pair.eagle3-fc-width",
        "the width of fc",
        "The head takes another number of hidden states than vLLM counts from its config.",
        _CONVERTED,
    ),
    Page(
        "pair.eagle3-layers",
        "layers whose hidden states are taken",
        "The head reads several layers of the target, and the target has too few, or its config names the same one twice.",
        "eagle_aux_hidden_state_layer_ids in the head's config.json, as it was trained.",
    ),
    Page("pair.medusa-merged", "heads and base in one file", "vLLM reads Medusa heads alone.", _CONVERTED),
    Page(
        "pair.medusa-composite-target",
        "a nested config",
        "vLLM looks for vocab_size on top of the target's config when it aligns Medusa heads.",
        "--method draft_model, eagle3 or ngram",
    ),
    Page(
        "pair.medusa-heads",
        "k and the number of heads",
        "Each head drafts one token, and there are fewer heads than k.",
        "-k: as many as there are heads.",
    ),
    Page(
        "pair.medusa-bias",
        "biases that vLLM drops",
        "The file holds biases and the config does not say medusa_fc_bias: vLLM drops them without a word.",
        _CONVERTED,
    ),
    Page(
        "pair.medusa-bias-missing",
        "biases that are not there",
        "The config says medusa_fc_bias and the file holds none.",
        "Take medusa_fc_bias out of its config.json.",
    ),
    Page(
        "pair.medusa-hidden-size",
        "the heads' hidden size",
        "vLLM takes 4096 where the config does not say another.",
        _CONVERTED,
    ),
    Page(
        "pair.medusa-token-map",
        "a reduced vocabulary",
        "vLLM takes smaller heads only with a token_map and one lm_head for all, and stops without a reason otherwise.",
        "Heads of the target's full vocabulary.",
    ),
    Page("pair.mtp-none", "no MTP layer", "The config names none.", "The original repository, or --method ngram."),
    Page(
        "pair.mtp-unsupported",
        "MTP of another family",
        "vLLM makes no MTP speculator of this family, and then says that the method is unknown.",
        "--method draft_model, eagle3 or ngram",
    ),
    Page(
        "pair.mtp-weights",
        "MTP weights that are missing",
        "Quantised and re-packed copies often leave the MTP layers out.",
        "The original repository, also as --speculator for the MTP layers alone.",
    ),
    Page(
        "pair.mtp-k",
        "k and the MTP layers",
        "vLLM wants a multiple of their number.",
        "-k: a multiple of the number of MTP layers.",
    ),
    Page(
        "pair.mtp-reused",
        "MTP layers that run several times",
        "They were trained for the first token, so later ones are accepted less often.",
    ),
    Page(
        "pair.mask-token",
        "no mask token",
        "A parallel drafter fills the places to draft with a token that its config has to name, and that has to exist.",
        _AGAIN,
    ),
    Page(
        "pair.dflash-block",
        "k beyond the block",
        "The head was trained on blocks of a certain length; what lies beyond is guesswork.",
        "-k: block size - 1.",
    ),
    Page(
        "pair.dspark-block",
        "k beyond the block",
        "The head was trained on blocks of a certain length; what lies beyond is guesswork.",
        "-k: the block's length.",
    ),
    Page(
        "pair.dflash-layers",
        "layers of the target",
        "The layers that the head reads are not named, or not there.",
        _OTHER,
    ),
    Page(
        "pair.dspark-layers",
        "layers of the target",
        "The layers that the head reads are not named, or not there.",
        _OTHER,
    ),
    Page(
        "pair.dflash-no-d2t",
        "the map of the reduced vocabulary",
        "The head drafts from a reduced vocabulary and has no map d2t.",
        "The file that carries d2t, or another head.",
    ),
    Page(
        "pair.needs-v2-runner",
        "a newer model runner is needed",
        "Only the V2 model runner, which needs a GPU, runs it.",
        "A GPU, or --method ngram, eagle3 or draft_model.",
    ),
    Page(
        "pair.weights-unread",
        "pickles that were not opened",
        "The weights are pickles, and what they hold shows only when they are opened. A run opens them in a process of its own.",
    ),
    Page("pair.weights-shape", "tensors of another shape", "Tensors and config.json do not belong together.", _AGAIN),
    Page(
        "pair.weights-missing",
        "tensors that are missing",
        "vLLM starts without a word and leaves them as memory happened to be.",
        _AGAIN,
    ),
    Page(
        "pair.weights-unexpected",
        "tensors that no class has",
        "vLLM stops at tensors that its class does not have.",
        "A checkpoint in its author's layout, or another method.",
    ),
)
