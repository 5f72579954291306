"""Pairing: target and speculator do not go together."""

from __future__ import annotations

from speccli.diagnose.failures.advice import pairing
from speccli.diagnose.failures.kind import GENERAL, Kind

KINDS = (
    Kind(
        id="crash.vocabulary",
        title="the vocabularies differ",
        says=(
            "should have the same vocabulary size",
            ("draft model vocab", "must match target"),
            ("draft", "vocab_size", "must be the same"),
            ("vocab", "does not match", "draft"),
            ("draft vocab", "target vocab", "mismatch"),
            ("different vocab", "draft"),
        ),
        figures=(
            r"[Tt]arget model vocab_size=(?P<target_vocabulary>\d+)",
            r"[Dd]raft model vocab_size=(?P<draft_vocabulary>\d+)",
            r"token (?P<first_different_token>\d+) content differs",
        ),
        cause="target and draft number their tokens differently",
        fix="a draft of the target's own family, an EAGLE-3 head of this target, or --method ngram",
        advise=pairing.vocabularies,
    ),
    Kind(
        id="crash.draft-vocabulary",
        title="the head's reduced vocabulary",
        says=(("size mismatch for", "lm_head"), ("size mismatch", "d2t"), ("draft_vocab_size", "mismatch")),
        figures=(r"torch\.Size\(\[(?P<file_rows>\d+), \d+\]\).{1,200}torch\.Size\(\[(?P<model_rows>\d+), \d+\]\)",),
        cause="an EAGLE-3 head with a reduced vocabulary needs draft_vocab_size in its config and the map d2t in its file",
        fix="the head in whole, from where it was published",
        advise=pairing.draft_map,
    ),
    Kind(
        id="crash.head-as-model",
        title="a head was loaded by another method",
        says=tuple(
            ("no module or parameter named", f"'{name}{end}")
            for name in (
                "d2t",
                "t2d",
                "midlayer",
                "embed_tokens",
                "hidden_norm",
                "fc",
                "layers",
                "medusa_heads",
                "mask_embedding",
                "0",
            )
            for end in ("'", ".")
        )
        + tuple(
            ("keyerror", f"'{prefix}{name}")
            for name in ("d2t", "t2d", "midlayer", "embed_tokens.weight", "hidden_norm", "fc.weight", "layers.0.")
            for prefix in ("", "model.")
        )
        + (("keyerror", "midlayer"),),
        unless=("expert", "size mismatch"),
        figures=(
            r"parameter named '(?P<tensor_name>[^']{1,120})'",
            r"KeyError: '(?:model\.)?(?P<tensor_name>[^']{1,120})'",
            r"' in (?P<class_name>\w{1,80})",
        ),
        cause="the method does not fit the file: vLLM guesses it from the folder's name where it is left out",
        fix="name the method: --method eagle, eagle3 or medusa",
        advise=pairing.head_as_model,
    ),
    Kind(
        id="crash.medusa-weights-track",
        title="vLLM misses the token_map that it has read",
        says=(("weights were not initialized from checkpoint", "token_map"),),
        cause="vLLM takes token_map out of the file of Medusa heads, and then misses it among the weights that were loaded",
        fix="--model-loader-extra-config '{\"enable_weights_track\": false}', which speccli gives vLLM by itself unless `engine` in a profile says otherwise",
    ),
    Kind(
        id="crash.medusa-heads",
        title="k is above the number of Medusa heads",
        says=(
            ("weights were not initialized from checkpoint", "blocks."),
            ("weights were not initialized from checkpoint", "lm_heads."),
            ("weights were not initialized from checkpoint", "medusa"),
        ),
        unless=("'token_map'",),
        figures=(r"blocks\.(?P<first_missing_head>\d+)",),
        cause="each token of a draft needs a head of its own, and the file has fewer heads than k",
        fix="-k: as many as the file has heads, or fewer",
    ),
    Kind(
        id="crash.medusa-token-map",
        title="Medusa's reduced vocabulary",
        says=("assertionerror", "token_map"),
        near=("token_map",),
        cause="the heads' config says truncated_vocab_size, and their file has no tensor token_map; vLLM's message is empty",
        fix="heads with a token_map, or truncated_vocab_size out of the heads' config.json",
    ),
    Kind(
        id="crash.aux-layers",
        title="EAGLE-3's layers of the target",
        says=(("shape '[-1,", "is invalid for input of size"), ("aux_hidden_state", "expected", "got")),
        near=("eagle", "combine_hidden_states", "fc(", "speculat", "shape '[-1,"),
        figures=(r"shape '\[-1, (?P<width>\d+)\]'",),
        cause="the head takes hidden states of three layers, and the target has too few for three different ones",
        fix='"eagle_aux_hidden_state_layer_ids": [1, 2, 3] (layers that the target has) in the head\'s config.json, or a larger target',
    ),
    Kind(
        id="crash.widths",
        title="the hidden sizes differ",
        says=(
            "mat1 and mat2 shapes cannot be multiplied",
            "hidden_states.shape[-1] == input_embeds.shape[-1]",
            ("assertionerror", "hidden_size"),
            ("hidden size", "mismatch"),
            ("sizes of tensors must match", "dimension"),
        ),
        figures=(r"\((?P<left_text>\d+x\d+) and (?P<right_text>\d+x\d+)\)",),
        cause="the speculator was made for a target of another hidden size; vLLM does not compare them, and dies at the first request",
        fix="a speculator made for exactly this target (speccli doctor compares the sizes beforehand)",
        advise=pairing.widths,
    ),
    Kind(
        id="crash.no-hidden-states",
        title="the target gives no hidden states",
        says=(
            "does not support eagle3 interface",
            "eagle3 is only supported for",
            "eagle3 is not supported",
            ("aux_hidden_state_outputs", "requested"),
            ("does not support", "supportseagle"),
            ("only supported for", "models", "eagle"),
        ),
        figures=(r"Got \S*?model_type='?(?P<model_type_name>[\w.-]+)", r"[Gg]ot .{0,80}'(?P<model_type_name>[\w.-]+)'"),
        cause="EAGLE-3, DFlash and DSpark read hidden states of the target, and vLLM's class of this target does not hand them out",
        fix="--method draft_model with a small model of the family, or --method ngram; a newer vLLM may know the target",
    ),
    Kind(
        id="crash.draft-layers",
        title="the draft mixes kinds of attention",
        says=(
            "drafting layers should belong to the same kv cache group",
            ("draft", "same kv cache group"),
            ("unsupported attention metadata type for speculative",),
        ),
        cause="a draft with sliding windows or state layers beside full attention does not work",
        fix="a draft of the family with full attention only, an EAGLE-3 head, or --method ngram",
    ),
    Kind(
        id="crash.mrope",
        title="a draft model with three-axis positions",
        says=(
            "does not support m-rope",
            ("m-rope", "not support"),
            ("mrope", "not support"),
            ("multimodal", "speculat", "not supported"),
        ),
        cause="separate draft models for vision are not supported by this runner",
        fix="an EAGLE-3 head made for this target, or a draft for text only, or --method ngram",
    ),
    Kind(
        id="crash.mask-token",
        title="the drafter names no mask token",
        says=(("mask_token_id", "must"), ("for parallel drafting", "config"), ("mask_token_id", "specif")),
        cause="a parallel drafter (DFlash, DSpark, PARD) fills the places to draft with a token that its config has to name",
        fix="the drafter's whole folder, with mask_token_id or dflash_config in its config.json; for a head of another kind, its own --method",
    ),
    Kind(
        id="crash.position-table",
        title="an index outside a table",
        says=(
            ("index out of bounds", "assert"),
            ("device-side assert",),
            ("index out of bounds: 0 <=",),
            "srcindex < srcselectdimsize",
            ("vectorized_gather_kernel", "assertion"),
        ),
        figures=(r"0 <= \w+ < (?P<table_size>\d+)",),
        cause="a token or a position lies outside a table: a head with 2048 positions and a longer prompt, or token numbers above the embedding",
        fix="vLLM 0.32 enlarges the head's table by itself; before that --max-model-len as in the head's max_position_embeddings. Compare the vocabularies too: speccli doctor does",
    ),
    Kind(
        id="crash.illegal-access",
        title="illegal memory access on the GPU",
        says=("illegal memory access", "cuda_error_illegal_address", ("misaligned address", "cuda")),
        cause="a kernel read or wrote where it must not: a draft's position table that is too short, or a fault of vLLM's with MTP and prefix caching",
        fix="compare the draft's max_position_embeddings with --max-model-len; then try a newer vLLM, enable_prefix_caching false, --eager; --no-spec tells whether speculation is the cause",
    ),
    Kind(
        id="crash.mtp-weights",
        title="the checkpoint has no MTP weights",
        says=(
            ("mtp", "weights missing from checkpoint"),
            "quantized without including the mtp",
            ("mtp", "not found in checkpoint"),
            ("nextn", "missing"),
        ),
        figures=(r"layer (?P<layer>\d+) weights missing",),
        cause="whoever quantised the checkpoint left the MTP layer out",
        fix="a checkpoint that has it, or the original one as --speculator, or another method",
    ),
    Kind(
        id="crash.shapes",
        title="weights of another shape",
        says=(
            "attempted to load weight",
            "size mismatch for",
            ("tensor a", "must match the size of tensor b"),
            ("shape mismatch", "weight"),
            ("loaded_weight", "shape"),
        ),
        figures=(
            r"load weight \(torch\.Size\(\[(?P<file_shape_text>[\d, ]{1,60})\]\)\)",
            r"into (?:parameter )?\(?torch\.Size\(\[(?P<model_shape_text>[\d, ]{1,60})\]\)",
            r"param with shape torch\.Size\(\[(?P<file_shape_text>[\d, ]{1,60})\]\)",
            r"current model is torch\.Size\(\[(?P<model_shape_text>[\d, ]{1,60})\]\)",
            r"size mismatch for (?P<tensor_name>[\w.]{1,120})",
        ),
        cause="the weights do not fit the model that the config describes",
        fix="a speculator made for exactly this target (speccli doctor compares the sizes beforehand)",
        advise=pairing.shapes,
        rank=GENERAL,
    ),
)
