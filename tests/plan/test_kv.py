"""How layers of different kinds share one pool of blocks, as `kv_cache_utils.py` has it."""

from __future__ import annotations

from typing import Any

from speccli.plan import kv, shape
from speccli.plan.draft import Draft
from tests.plan.measurements import GPT_OSS_20B, LLAMA_3_1, QWEN3_6_35B_A3B, dense

NONE = Draft(method="none", num_speculative_tokens=0)


def cache(config: dict[str, Any], draft: Draft = NONE, **more: Any) -> kv.Cache:
    found = shape.of_config(config)
    assert found is not None
    return kv.cache_of(found, draft, dtype_bytes=2, **more)


def head(config: dict[str, Any], method: str = "eagle3", k: int = 3) -> Draft:
    return Draft(method=method, num_speculative_tokens=k, config=config, shape=shape.of_config(config))


def test_an_eagle3_head_is_one_layer_more() -> None:
    one_layer = dense(1, 4096, 14336, 32, 8, 128, 128256, 2048)
    made = cache(LLAMA_3_1, head(one_layer))
    assert made.bytes_per_block == 33 * 16 * 8 * 128 * 2 * 2
    assert len(made.groups) == 1


def test_a_draft_model_of_other_heads_adds_its_own_pages() -> None:
    draft = dense(16, 2048, 8192, 32, 8, 64, 128256, 131072)
    made = cache(LLAMA_3_1, head(draft, "draft_model"))
    assert made.bytes_per_block == 16 * 2 * 2 * (32 * 8 * 128 + 16 * 8 * 64)
    assert made.draft_share == 16 * 64 / (32 * 128 + 16 * 64)


def test_a_head_keeps_nothing_for_medusa_and_ngram() -> None:
    for method in ("medusa", "ngram", "suffix"):
        assert cache(LLAMA_3_1, Draft(method=method, num_speculative_tokens=4)) == cache(LLAMA_3_1)


def test_gpt_oss_with_a_head_has_13_full_and_12_sliding_layers_in_groups_of_13() -> None:
    """`_get_kv_cache_groups_uniform_page_size` tells of this case itself."""
    one_layer = dense(1, 2880, 2880, 64, 8, 64, 201088, 131072)
    made = cache(GPT_OSS_20B, head(one_layer), tokens_in_flight=4096)
    assert [(group.num_layers, group.window) for group in made.groups] == [(13, None), (13, 128)]
    assert round(made.padding_share * 26, 9) == 1
    # 131,072 / 16 blocks of the full layers, (127 + 4,096) / 16 and one more of the sliding ones
    assert made.blocks_of_request(131072) == 8192 + 264 + 1


def test_eight_dflash_layers_beside_ten_full_ones_waste_a_seventh() -> None:
    draft = head(dense(8, 2048, 6144, 32, 4, 128, 248320, 262144), "dflash", 6)
    made = cache(QWEN3_6_35B_A3B, draft)
    assert len(made.groups) == 2 + 4 + 1  # 10 full layers, 30 recurrent ones, 8 of the draft, in eights
    assert made.block_size == 1104
    assert round(made.padding_share, 3) == round(8 / 56, 3)


def test_heads_are_split_over_devices_and_repeated_beyond_their_number() -> None:
    assert cache(LLAMA_3_1, tensor_parallel_size=8).bytes_per_block * 8 == cache(LLAMA_3_1).bytes_per_block
    assert cache(LLAMA_3_1, tensor_parallel_size=16) == cache(LLAMA_3_1, tensor_parallel_size=8)


def test_latent_attention_keeps_one_vector_on_every_device() -> None:
    config = dense(
        61, 7168, 18432, 128, 128, 56, 129280, 163840, model_type="deepseek_v3", kv_lora_rank=512, qk_rope_head_dim=64,
        qk_nope_head_dim=128, v_head_dim=128, q_lora_rank=1536,
    )  # fmt: skip
    assert cache(config).bytes_per_block == 61 * 16 * 576 * 2
    assert cache(config, tensor_parallel_size=8).bytes_per_block == cache(config).bytes_per_block


def test_the_longest_context_leaves_the_null_block_free() -> None:
    made = cache(LLAMA_3_1)
    assert made.longest(100 * made.bytes_per_block, 131072) == 99 * 16
    assert made.longest(100 * made.bytes_per_block, 1000) == 1000
    assert made.longest(made.bytes_per_block, 131072) == 0
    assert made.request_bytes(99 * 16) == 100 * made.bytes_per_block


def test_layers_that_read_what_others_keep_keep_nothing() -> None:
    types = ["sliding_attention"] * 5 + ["full_attention"]
    config = dense(
        12, 64, 128, 2, 1, 32, 320, 4096, layer_types=types * 2, sliding_window=128, num_kv_shared_layers=6
    )  # fmt: skip
    made = cache(config)
    assert sum(group.num_layers for group in made.groups) == 6
