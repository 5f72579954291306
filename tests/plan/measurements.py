"""Public measurements of vLLM's memory, to hold the plan's arithmetic against: figures from logs that people have posted.

Sizes are in GiB, as the logs have them. What a log does not say is None, or is named in `inferred`. Kinds of engine:
"old" is V0 and the first V1 (a sampler that sorts, graphs beside the budget), "compiled" a V1 before 0.21 (the same,
with compiled layers), "V2" what vLLM 0.32 runs.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Config = dict[str, Any]


def dense(
    layers: int,
    hidden: int,
    inner: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    vocab: int,
    positions: int,
    *,
    tied: bool = False,
    **more: Any,
) -> Config:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "vocab_size": vocab,
        "max_position_embeddings": positions,
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
        **more,
    }


LLAMA_3 = dense(32, 4096, 14336, 32, 8, 128, 128256, 8192)
LLAMA_3_1 = dense(32, 4096, 14336, 32, 8, 128, 128256, 131072)
LLAMA_3_1_70B = dense(80, 8192, 28672, 64, 8, 128, 128256, 131072)
LLAMA_3_2_VISION = dense(40, 4096, 14336, 32, 8, 128, 128256, 131072, vision_config={})
MISTRAL = dense(32, 4096, 14336, 32, 8, 128, 32000, 32768)
LLAVA = dense(32, 4096, 14336, 32, 8, 128, 32064, 32768, vision_config={})
QWEN_1_5B = dense(28, 1536, 8960, 12, 2, 128, 151936, 131072, model_type="qwen2")
QWEN_MATH_1_5B = dense(28, 1536, 8960, 12, 2, 128, 151936, 4096, tied=True, model_type="qwen2")
QWEN_7B = dense(28, 3584, 18944, 28, 4, 128, 152064, 32768, model_type="qwen2")
R1_DISTILL_14B = dense(48, 5120, 13824, 40, 8, 128, 152064, 131072, model_type="qwen2")
QWEN3_0_6B = dense(28, 1024, 3072, 16, 8, 128, 151936, 40960, tied=True, model_type="qwen3")
QWEN3_8B = dense(36, 4096, 12288, 32, 8, 128, 151936, 40960, model_type="qwen3")
PHI_4 = dense(40, 5120, 17920, 40, 10, 128, 100352, 16384)
QWEN3_30B_A3B = dense(
    48, 2048, 6144, 32, 4, 128, 151936, 40960, model_type="qwen3_moe", num_experts=128, num_experts_per_tok=8,
    moe_intermediate_size=768,
)  # fmt: skip
QWEN3_235B_A22B = dense(
    94, 4096, 12288, 64, 4, 128, 151936, 40960, model_type="qwen3_moe", num_experts=128, num_experts_per_tok=8,
    moe_intermediate_size=1536,
)  # fmt: skip
GPT_OSS_20B = dense(
    24, 2880, 2880, 64, 8, 64, 201088, 131072, model_type="gpt_oss", num_local_experts=32, num_experts_per_tok=4,
    sliding_window=128,
    quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
)  # fmt: skip


def hybrid(layers: int, hidden: int, inner: int, kv_heads: int, value_heads: int, **more: Any) -> Config:
    """Qwen3.5 and 3.6: every fourth layer attends, the others are gated delta nets."""
    return dense(
        layers, hidden, inner, 16, kv_heads, 256, 248320, 262144, model_type="qwen3_5_text", full_attention_interval=4,
        linear_num_key_heads=16, linear_num_value_heads=value_heads, linear_key_head_dim=128, linear_value_head_dim=128,
        linear_conv_kernel_dim=4, mtp_num_hidden_layers=1, **more,
    )  # fmt: skip


QWEN3_5_4B = hybrid(32, 2560, 9216, 4, 32)
QWEN3_6_27B = hybrid(64, 5120, 17408, 4, 48)
QWEN3_6_35B_A3B = hybrid(40, 2048, 0, 2, 32, num_experts=256, num_experts_per_tok=8, moe_intermediate_size=512)
DFLASH_35B = dense(8, 2048, 6144, 32, 4, 128, 248320, 262144, model_type="qwen3")

INT8 = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}}}
INT4 = {"quant_method": "awq", "bits": 4, "group_size": 128}
FP8_BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}
NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True}


def quantized(config: Config, how: Config) -> Config:
    return {**config, "quantization_config": how}


class Weights(msgspec.Struct, frozen=True):
    """`Model loading took <reported> GiB`, on one device."""

    id: str
    case: str
    config: Config
    reported: float
    tensor_parallel_size: int = 1
    beside_parameters: int = 0
    """Of a part that the plan does not model: the vision tower of a LLaVA."""


WEIGHTS = (
    Weights("M01", "Meta-Llama-3-8B bf16", LLAMA_3, 14.96),
    Weights("M02", "Meta-Llama-3-8B bf16", LLAMA_3, 7.48, 2),
    Weights("M03", "Llama-3.1-8B bf16", LLAMA_3_1, 14.9888),
    Weights("M05", "Meta-Llama-3-8B bf16", LLAMA_3, 14.9595),
    Weights("M06", "R1-Distill-Qwen-1.5B bf16", QWEN_1_5B, 3.3414),
    Weights("M07", "Llama-3.1-70B w8a8", quantized(LLAMA_3_1_70B, INT8), 67.7229),
    Weights("M08", "R1-Distill-Qwen-14B bf16", R1_DISTILL_14B, 13.9476, 2),
    Weights("M11", "Qwen2.5-7B int4", quantized(QWEN_7B, INT4), 5.2032),
    Weights("M14", "Llama-3.1-8B bf16", LLAMA_3_1, 1.9028, 8),
    Weights("M15", "gpt-oss-20b mxfp4", GPT_OSS_20B, 13.72),
    Weights("M18", "llava-v1.6-mistral-7b fp16", LLAVA, 14.0786, 1, 311_900_000),
    Weights("M19", "Qwen3-8B-FP8", quantized(QWEN3_8B, FP8_BLOCKS), 8.80),
    Weights("M20", "Llama-3.1-8B bf16", LLAMA_3_1, 15.0),
    Weights("M21", "Qwen3-0.6B bf16", QWEN3_0_6B, 0.5670, 2),
    Weights("M22", "Qwen2.5-Math-1.5B bf16", QWEN_MATH_1_5B, 2.8797),
    Weights("M25", "Phi-4 nf4", quantized(PHI_4, NF4), 8.6253),
    Weights("M28", "Qwen2.5-7B fp16", QWEN_7B, 14.25),
    Weights("M29", "Qwen3-8B fp16", QWEN3_8B, 3.85, 4),
    Weights("M30", "Qwen3-30B-A3B fp16", QWEN3_30B_A3B, 14.25, 4),
    Weights("M31", "Qwen3-8B bf16", QWEN3_8B, 15.2683),
    Weights("M32", "Mistral-7B-v0.2 fp16", MISTRAL, 13.4966),
)


class KvTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that the reported memory held. `inferred` was not in the log and is read off another of its lines."""

    id: str
    case: str
    config: Config
    kv_gib: float
    reported: int
    max_model_len: int = 16384
    tensor_parallel_size: int = 1
    kv_cache_dtype: str | None = None
    method: str = "none"
    num_speculative_tokens: int = 0
    draft: Config = {}
    counts_by_group: bool = False
    """The counter before 0.21 or so: blocks divided among the groups."""
    prefix_caching: bool = True
    inferred: str = ""


KV_TOKENS = (
    KvTokens(id="M03", case="Llama-3.1-8B", config=LLAMA_3_1, kv_gib=3.81, reported=31_232),
    KvTokens(id="M04", case="Llama-3.1-8B", config=LLAMA_3_1, kv_gib=2.89, reported=23_648),
    KvTokens(id="M05", case="Meta-Llama-3-8B", config=LLAMA_3, kv_gib=11.12, reported=91_056),
    KvTokens(id="M06", case="R1-Distill-Qwen-1.5B", config=QWEN_1_5B, kv_gib=2.20, reported=82_368),
    KvTokens(id="M08", case="R1-Distill-Qwen-14B, the scarcest of two ranks", config=R1_DISTILL_14B, kv_gib=8.69,
             reported=81_536, tensor_parallel_size=2),
    KvTokens(id="M10", case="Qwen3-235B-A22B, the scarcest of four ranks", config=QWEN3_235B_A22B, kv_gib=8.11,
             reported=178_880, tensor_parallel_size=4),
    KvTokens(id="M13", case="Llama-3.2-11B-Vision", config=LLAMA_3_2_VISION, kv_gib=14.65, reported=96_016),
    KvTokens(id="M17", case="Qwen3.5-4B hybrid", config=QWEN3_5_4B, kv_gib=9.10, reported=267_842, max_model_len=32768),
    KvTokens(id="M18", case="llava-v1.6-mistral-7b", config=LLAVA, kv_gib=55.15, reported=451_744, max_model_len=4096),
    KvTokens(id="M19", case="Qwen3-8B-FP8", config=QWEN3_8B, kv_gib=8.60, reported=62_608, max_model_len=1024),
    KvTokens(id="M20", case="Llama-3.1-8B", config=LLAMA_3_1, kv_gib=56.21, reported=460_496, max_model_len=131072),
    KvTokens(id="M22", case="Qwen2.5-Math-1.5B", config=QWEN_MATH_1_5B, kv_gib=33.37, reported=1_249_840),
    KvTokens(id="M23", case="Qwen2.5-Math-1.5B", config=QWEN_MATH_1_5B, kv_gib=15.52, reported=581_312),
    KvTokens(id="M25", case="Phi-4", config=PHI_4, kv_gib=45.21, reported=237_040),
    KvTokens(id="M29", case="Qwen3-8B", config=QWEN3_8B, kv_gib=14.49, reported=422_051, max_model_len=65536,
             tensor_parallel_size=4),
    KvTokens(id="M30", case="Qwen3-30B-A3B", config=QWEN3_30B_A3B, kv_gib=4.30, reported=187_760,
             max_model_len=32768, tensor_parallel_size=4),
    KvTokens(id="M31", case="Qwen3-8B", config=QWEN3_8B, kv_gib=18.69, reported=136_080),
    KvTokens(id="M34", case="Qwen3.6-27B + MTP k=1", config=QWEN3_6_27B, kv_gib=4.80, reported=36_432,
             kv_cache_dtype="fp8", method="mtp", num_speculative_tokens=1, counts_by_group=True, inferred="k"),
    KvTokens(id="M35", case="Qwen3.6-27B + MTP k=3", config=QWEN3_6_27B, kv_gib=6.56, reported=49_600,
             max_model_len=131072, kv_cache_dtype="fp8", method="mtp", num_speculative_tokens=3, counts_by_group=True,
             inferred="k"),
    KvTokens(id="M36", case="Qwen3.6-35B-A3B + MTP k=2", config=QWEN3_6_35B_A3B, kv_gib=66.37, reported=1_581_104,
             kv_cache_dtype="fp8", method="mtp", num_speculative_tokens=2, counts_by_group=True),
    KvTokens(id="M37", case="Qwen3.6-35B-A3B + MTP k=3", config=QWEN3_6_35B_A3B, kv_gib=64.69, reported=5_463_232,
             max_model_len=262144, kv_cache_dtype="fp8", method="mtp", num_speculative_tokens=3),
    KvTokens(id="M38", case="Qwen3.6-35B-A3B + DFlash k=6", config=QWEN3_6_35B_A3B, kv_gib=71.59, reported=1_470_588,
             max_model_len=200000, method="dflash", num_speculative_tokens=6, draft=DFLASH_35B, inferred="k"),
    KvTokens(id="M39", case="Qwen3.6-27B TP2", config=QWEN3_6_27B, kv_gib=9.84, reported=619_202,
             max_model_len=262144, tensor_parallel_size=2, kv_cache_dtype="fp8", inferred="no draft layer"),
    KvTokens(id="M48", case="27B hybrid", config=QWEN3_6_27B, kv_gib=31.24, reported=314_187, max_model_len=8192,
             inferred="the model"),
    KvTokens(id="M49", case="27B hybrid TP2 + MTP k=2", config=QWEN3_6_27B, kv_gib=12.29, reported=364_688,
             max_model_len=262144, tensor_parallel_size=2, method="mtp", num_speculative_tokens=2, inferred="k"),
)  # fmt: skip


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run: `Available KV cache memory: <reported> GiB`."""

    id: str
    case: str
    config: Config
    engine: Literal["old", "compiled", "V2"]
    total_gib: float
    utilization: float
    max_num_seqs: int = 256
    max_num_batched_tokens: int
    max_model_len: int = 4096
    tensor_parallel_size: int = 1
    beside_parameters: int = 0
    reported: float
    inferred: str = ""


MEMORY = (
    Memory(id="M01", case="Llama-3-8B, H100", config=LLAMA_3, engine="old", total_gib=79.22, utilization=0.9,
           max_num_batched_tokens=8192, reported=53.29),
    Memory(id="M03", case="Llama-3.1-8B, RTX 3090, T=20000", config=LLAMA_3_1, engine="old", total_gib=23.58,
           utilization=0.9, max_num_batched_tokens=20000, reported=3.81),
    Memory(id="M04", case="Llama-3.1-8B, RTX 3090, T=29000", config=LLAMA_3_1, engine="old", total_gib=23.58,
           utilization=0.9, max_num_batched_tokens=29000, reported=2.89),
    Memory(id="M05", case="Llama-3-8B, A100-40", config=LLAMA_3, engine="old", total_gib=39.5, utilization=0.9,
           max_num_seqs=2048, max_num_batched_tokens=8192, reported=11.12, inferred="max_num_seqs"),
    Memory(id="M06", case="R1-Distill-Qwen-1.5B, 8 GB RTX", config=QWEN_1_5B, engine="old", total_gib=7.75,
           utilization=0.9, max_num_batched_tokens=2048, reported=2.20),
    Memory(id="M11", case="Qwen2.5-7B int4, RTX 4060", config=quantized(QWEN_7B, INT4), engine="old", total_gib=8.0,
           utilization=0.7, max_num_batched_tokens=4096, reported=-1.05),
    Memory(id="M18", case="llava-7b, H100, T=16384", config=LLAVA, engine="compiled", total_gib=79.19,
           utilization=0.9, max_num_batched_tokens=16384, beside_parameters=311_900_000, reported=55.15),
    Memory(id="M19", case="Qwen3-8B-FP8, 24 GB", config=quantized(QWEN3_8B, FP8_BLOCKS), engine="compiled",
           total_gib=23.53, utilization=0.8, max_num_batched_tokens=2048, max_model_len=1024, reported=8.60),
    Memory(id="M20", case="Llama-3.1-8B, A100-80, vLLM 0.31", config=LLAMA_3_1, engine="V2", total_gib=79.25,
           utilization=0.92, max_num_batched_tokens=2048, max_model_len=131072, reported=56.21,
           inferred="max_num_batched_tokens"),
    Memory(id="M22", case="Qwen2.5-Math-1.5B, L40S", config=QWEN_MATH_1_5B, engine="old", total_gib=44.39,
           utilization=0.85, max_num_batched_tokens=4096, reported=33.37),
    Memory(id="M23", case="Qwen2.5-Math-1.5B, 22 GiB", config=QWEN_MATH_1_5B, engine="old", total_gib=22.06,
           utilization=0.9, max_num_batched_tokens=4096, reported=15.52),
    Memory(id="M25", case="Phi-4 nf4, H100", config=quantized(PHI_4, NF4), engine="old", total_gib=79.15,
           utilization=0.7, max_num_batched_tokens=2048, reported=45.21),
    Memory(id="M28", case="Qwen2.5-7B fp16, V100-32, T=32768", config=QWEN_7B, engine="old", total_gib=31.74,
           utilization=0.9, max_num_batched_tokens=32768, reported=9.88, inferred="utilization"),
    Memory(id="M29", case="Qwen3-8B, 4 x 2080 Ti", config=QWEN3_8B, engine="old", total_gib=21.48, utilization=0.93,
           max_num_batched_tokens=2048, tensor_parallel_size=4, reported=14.49),
    Memory(id="M30", case="Qwen3-30B-A3B, 4 x 2080 Ti", config=QWEN3_30B_A3B, engine="old", total_gib=21.66,
           utilization=0.93, max_num_batched_tokens=2048, tensor_parallel_size=4, reported=4.30),
)  # fmt: skip
"""M18, M29 and M30 are no dense model on a single GPU: they are shown, and not counted."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Whether vLLM took a context with the memory that it had."""

    id: str
    case: str
    config: Config
    kv_gib: float
    max_model_len: int
    tensor_parallel_size: int = 1
    prefix_caching: bool = True
    accepted: bool
    needed_gib: float | None = None
    """As the refusal says."""


OUTCOMES = (
    Outcome(id="M03", case="Llama-3.1-8B, 20000", config=LLAMA_3_1, kv_gib=3.81, max_model_len=20000, accepted=True),
    Outcome(id="M04", case="Llama-3.1-8B, 29000", config=LLAMA_3_1, kv_gib=2.89, max_model_len=29000, accepted=False),
    Outcome(id="M06", case="R1-Distill-Qwen-1.5B, 2000", config=QWEN_1_5B, kv_gib=2.20, max_model_len=2000,
            accepted=True),
    Outcome(id="M08", case="R1-Distill-Qwen-14B TP2, 131072", config=R1_DISTILL_14B, kv_gib=8.69,
            max_model_len=131072, tensor_parallel_size=2, accepted=False),
    Outcome(id="M11", case="Qwen2.5-7B int4, 4096", config=QWEN_7B, kv_gib=-1.05, max_model_len=4096, accepted=False),
    Outcome(id="M13", case="Llama-3.2-11B-Vision, 65536", config=LLAMA_3_2_VISION, kv_gib=14.65,
            max_model_len=65536, accepted=True),
    Outcome(id="M17", case="Qwen3.5-4B, 32768", config=QWEN3_5_4B, kv_gib=9.10, max_model_len=32768, accepted=True),
    Outcome(id="M18", case="llava-7b, 4096", config=LLAVA, kv_gib=55.15, max_model_len=4096, accepted=True),
    Outcome(id="M19", case="Qwen3-8B-FP8, 1024", config=QWEN3_8B, kv_gib=8.60, max_model_len=1024, accepted=True),
    Outcome(id="M20", case="Llama-3.1-8B, 131072", config=LLAMA_3_1, kv_gib=56.21, max_model_len=131072,
            accepted=True),
    Outcome(id="M22", case="Qwen2.5-Math-1.5B, 4096", config=QWEN_MATH_1_5B, kv_gib=33.37, max_model_len=4096,
            accepted=True),
    Outcome(id="M29", case="Qwen3-8B TP4, 65536", config=QWEN3_8B, kv_gib=14.49, max_model_len=65536,
            tensor_parallel_size=4, accepted=True),
    Outcome(id="M30", case="Qwen3-30B-A3B TP4, 32768", config=QWEN3_30B_A3B, kv_gib=4.30, max_model_len=32768,
            tensor_parallel_size=4, accepted=True),
    Outcome(id="M40", case="27B hybrid without prefix cache, 131072", config=QWEN3_6_27B, kv_gib=7.04,
            max_model_len=131072, prefix_caching=False, accepted=False, needed_gib=8.18),
    Outcome(id="M48", case="27B hybrid, 8192", config=QWEN3_6_27B, kv_gib=31.24, max_model_len=8192, accepted=True),
)  # fmt: skip

MEDUSA_GIB = 4.4062
"""M32: 16 heads (inferred) on Mistral-7B-v0.2, without the target."""
