"""GGUF in, a checkpoint folder out: the same numbers, the same tokens."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from speccli.checkpoint import conversion, gguf_to_safetensors
from speccli.checkpoint.gguf_to_safetensors import NotConvertible, checkpoint_name, convert, refuse_the_unknown
from speccli.errors import CheckpointError, MachineError, SpeccliError

TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "Ġ", "1", "2", "Ċ", "ab", "ĊĠ", "Ġa"]
MERGES = ["a b", "Ċ Ġ", "Ġ a"]
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 16
HIDDEN = HEADS * HEAD_DIM
KNOWN = {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm"}


def _random(*shape: int) -> Any:
    import numpy as np

    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _interleaved(rows: Any, heads: int) -> Any:
    """As GGUF files keep the rows of queries and keys."""
    return rows.reshape(heads, 2, HEAD_DIM // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def write_gguf(path: Path) -> None:
    """A model of one query, one key and one norm: enough for each way a tensor is treated."""
    import gguf
    import numpy as np

    file = gguf.GGUFWriter(path, "llama")
    file.add_block_count(1)
    file.add_context_length(128)
    file.add_embedding_length(HIDDEN)
    file.add_feed_forward_length(96)
    file.add_head_count(HEADS)
    file.add_head_count_kv(KV_HEADS)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_freq_base(100000.0)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("smollm")
    file.add_token_list(TOKENS)
    file.add_token_types([3, 3, 3] + [1] * (len(TOKENS) - 3))
    file.add_token_merges(MERGES)
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)
    file.add_pad_token_id(2)
    file.add_unk_token_id(0)
    file.add_chat_template("{{ messages[0]['content'] }}")
    embedding = gguf.quants.quantize(_random(len(TOKENS), HIDDEN), gguf.GGMLQuantizationType.Q8_0)
    file.add_tensor("token_embd.weight", embedding, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    file.add_tensor("blk.0.attn_q.weight", _interleaved(_random(HIDDEN, HIDDEN), HEADS))
    file.add_tensor("blk.0.attn_k.weight", _interleaved(_random(KV_HEADS * HEAD_DIM, HIDDEN), KV_HEADS))
    file.add_tensor("output_norm.weight", np.full(HIDDEN, 1.5, dtype=np.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


@pytest.fixture
def converted(tmp_path: Path) -> Path:
    folder = tmp_path / "converted"
    folder.mkdir()
    write_gguf(tmp_path / "Tiny.Q8_0.gguf")
    convert(tmp_path / "Tiny.Q8_0.gguf", folder)
    return folder


def _tensors(folder: Path) -> dict[str, Any]:
    import torch
    from safetensors.torch import load_file

    loaded: dict[str, Any] = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in loaded.values()} == {torch.bfloat16}
    return loaded


def test_tensors_have_their_checkpoint_names_rows_and_values(converted: Path) -> None:
    import torch

    tensors = _tensors(converted)
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {
        "model.embed_tokens.weight": (len(TOKENS), HIDDEN),
        "model.layers.0.self_attn.q_proj.weight": (HIDDEN, HIDDEN),
        "model.layers.0.self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
        "model.norm.weight": (HIDDEN,),
    }
    queries = torch.from_numpy(_random(HIDDEN, HIDDEN)).bfloat16()
    keys = torch.from_numpy(_random(KV_HEADS * HEAD_DIM, HIDDEN)).bfloat16()
    assert torch.equal(tensors["model.layers.0.self_attn.q_proj.weight"], queries)
    assert torch.equal(tensors["model.layers.0.self_attn.k_proj.weight"], keys)
    assert tensors["model.norm.weight"].tolist() == [1.5] * HIDDEN
    embedding = torch.from_numpy(_random(len(TOKENS), HIDDEN))
    # Q8_0 rounds to 127 steps of the largest number in 32, bfloat16 to 8 bits.
    assert (tensors["model.embed_tokens.weight"].float() - embedding).abs().max() < 0.03


def test_config_says_what_the_file_says_without_its_float_noise(converted: Path) -> None:
    assert json.loads((converted / "config.json").read_text()) == {
        "_name_or_path": "Tiny.Q8_0",
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "dtype": "bfloat16",
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": 96,
        "max_position_embeddings": 128,
        "mlp_bias": False,
        "num_attention_heads": HEADS,
        "num_hidden_layers": 1,
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-05,
        "rope_theta": 100000.0,
        "tie_word_embeddings": True,
        "vocab_size": len(TOKENS),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
    }
    assert json.loads((converted / "generation_config.json").read_text())["eos_token_id"] == 2


def test_digits_stand_alone_and_blanks_before_them_stay_together(converted: Path) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(converted / "tokenizer.json"))
    assert tokenizer.encode("12").tokens == ["1", "2"]
    assert tokenizer.encode("ab\n 1").tokens == ["ab", "ĊĠ", "1"]
    assert tokenizer.encode("<|im_start|>ab a<|im_end|>").ids == [1, 9, 11, 2]
    assert tokenizer.decode([1, 9, 11, 2]) == "ab a"


def test_tokenizer_settings_and_chat_template_come_along(converted: Path) -> None:
    assert json.loads((converted / "tokenizer_config.json").read_text()) == {
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "unk_token": "<|endoftext|>",
        "pad_token": "<|im_end|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 128,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    assert (converted / "chat_template.jinja").read_text() == "{{ messages[0]['content'] }}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("general.architecture", "qwen2"),
        ("llama.rope.scaling.type", "yarn"),
        ("tokenizer.ggml.model", "llama"),
        ("tokenizer.ggml.pre", "llama-bpe"),
        ("tokenizer.ggml.add_bos_token", True),
        ("tokenizer.ggml.add_eos_token", True),
    ],
)
def test_what_would_come_out_wrong_is_refused(key: str, value: object) -> None:
    refuse_the_unknown(KNOWN)
    with pytest.raises(NotConvertible, match=f"{key} is {value!r}, and only"):
        refuse_the_unknown(KNOWN | {key: value})


def test_names_of_tensors_are_translated_or_refused() -> None:
    assert checkpoint_name("blk.12.ffn_down.weight") == "model.layers.12.mlp.down_proj.weight"
    assert checkpoint_name("output.weight") == "lm_head.weight"
    for name in ("rope_freqs.weight", "blk.0.attn_q.bias", "blk.0.attn_q_norm.weight"):
        with pytest.raises(NotConvertible, match=name):
            checkpoint_name(name)


def test_a_failed_conversion_quotes_its_last_line_and_keeps_its_log(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"not a gguf file, but long enough to look for a header in it")
    log = tmp_path / "kept.log"
    with pytest.raises(CheckpointError) as caught:
        conversion.convert(tmp_path / "bad.gguf", tmp_path, log)
    assert caught.value.message == "bad.gguf could not be converted: ValueError: GGUF magic invalid"
    assert caught.value.hint == f"read {log}, or name another checkpoint in the profile"
    assert "Traceback" in log.read_text()


@pytest.mark.parametrize(
    ("program", "kind", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", MachineError, f"killed by signal {signal.SIGKILL.value}"),
        ("raise OSError(28, 'no room')", MachineError, "the disk became full while a.gguf was converted"),
        (
            "raise SystemExit('tokenizer.ggml.pre is odd')",
            CheckpointError,
            "could not be converted: tokenizer.ggml.pre is odd",
        ),
        ("raise SystemExit(3)", CheckpointError, "could not be converted: it said nothing"),
    ],
)
def test_each_end_of_the_converter_has_its_message(
    program: str, kind: type[SpeccliError], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program.py").write_text(program)
    monkeypatch.setattr(gguf_to_safetensors, "__file__", str(tmp_path / "program.py"))
    with pytest.raises(kind) as caught:
        conversion.convert(tmp_path / "a.gguf", tmp_path, tmp_path / "kept.log")
    assert message in caught.value.message


def test_a_success_removes_the_log_of_the_failure_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "program.py").write_text("print('noise')")
    (tmp_path / "kept.log").write_text("the failure before")
    monkeypatch.setattr(gguf_to_safetensors, "__file__", str(tmp_path / "program.py"))
    conversion.convert(tmp_path / "a.gguf", tmp_path, tmp_path / "kept.log")
    assert not (tmp_path / "kept.log").exists()
