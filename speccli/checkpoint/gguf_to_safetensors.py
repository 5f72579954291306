"""Turns a GGUF file of the Llama family into a checkpoint folder as vLLM and transformers load it, in bfloat16.

A program of its own (GGUF file, folder): its memory goes back when it ends, and running out of memory ends it alone.
It writes tokenizer and config itself, because transformers' own GGUF reader ignores `tokenizer.ggml.pre`, so that
numbers and the blanks before them fall into other tokens than the model was trained on, and loads torch to do so.
"""

import json
import re
import struct
import sys
from pathlib import Path
from typing import Any

CONVERTER_VERSION = 1
"""Raise it when the output changes: folders made by another version are then made again."""

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}

PRE_TOKENIZERS: dict[str, dict[str, Any]] = {
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]},
}

TENSOR_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class NotConvertible(Exception):
    """The file holds something that would come out wrong."""


def convert(gguf: Path, folder: Path) -> None:
    from gguf import GGUFReader

    reader = GGUFReader(gguf)
    meta = {name: field.contents() for name, field in reader.fields.items()}
    refuse_the_unknown(meta)
    is_tied = all(tensor.name != "output.weight" for tensor in reader.tensors)
    _write_json(folder / "config.json", {"_name_or_path": gguf.stem, **model_config(meta, is_tied)})
    _write_json(folder / "generation_config.json", token_ids(meta))
    _write_json(folder / "tokenizer.json", tokenizer(meta))
    _write_json(folder / "tokenizer_config.json", tokenizer_config(meta))
    if template := meta.get("tokenizer.chat_template"):
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    write_tensors(reader.tensors, meta, folder / "model.safetensors")


def refuse_the_unknown(meta: dict[str, Any]) -> None:
    known: dict[str, tuple[Any, ...]] = {
        "general.architecture": ("llama",),
        "llama.rope.scaling.type": (None, "none"),
        "tokenizer.ggml.model": ("gpt2",),
        "tokenizer.ggml.pre": tuple(PRE_TOKENIZERS),
        "tokenizer.ggml.add_bos_token": (None, False),
        "tokenizer.ggml.add_eos_token": (None, False),
    }
    for key, values in known.items():
        if meta.get(key) not in values:
            raise NotConvertible(
                f"{key} is {meta.get(key)!r}, and only {' or '.join(map(repr, values))} can be converted"
            )


def model_config(meta: dict[str, Any], is_tied: bool) -> dict[str, Any]:
    heads = meta["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "dtype": "bfloat16",
        "head_dim": meta.get("llama.attention.key_length", meta["llama.embedding_length"] // heads),
        "hidden_act": "silu",
        "hidden_size": meta["llama.embedding_length"],
        "intermediate_size": meta["llama.feed_forward_length"],
        "max_position_embeddings": meta["llama.context_length"],
        "mlp_bias": False,
        "num_attention_heads": heads,
        "num_hidden_layers": meta["llama.block_count"],
        "num_key_value_heads": meta.get("llama.attention.head_count_kv", heads),
        # GGUF keeps it as a 32-bit float, whose neighbour 9.999999747378752e-06 stands for 1e-05.
        "rms_norm_eps": float(f"{meta['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_theta": meta.get("llama.rope.freq_base", 10000.0),
        "tie_word_embeddings": is_tied,
        "vocab_size": len(meta["tokenizer.ggml.tokens"]),
        **token_ids(meta),
    }


def token_ids(meta: dict[str, Any]) -> dict[str, int]:
    return {
        f"{name}_token_id": meta[f"tokenizer.ggml.{key}_token_id"]
        for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))
        if f"tokenizer.ggml.{key}_token_id" in meta
    }


def tokenizer(meta: dict[str, Any]) -> dict[str, Any]:
    tokens = meta["tokenizer.ggml.tokens"]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(tokens, meta["tokenizer.ggml.token_type"]),
        "normalizer": None,
        "pre_tokenizer": PRE_TOKENIZERS[meta["tokenizer.ggml.pre"]],
        "post_processor": None,
        "decoder": BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in meta["tokenizer.ggml.merges"]],
        },
    }


def _added_tokens(tokens: list[str], kinds: list[int]) -> list[dict[str, Any]]:
    from gguf import TokenType

    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [
        {"id": number, "content": token, **plain, "special": kind == TokenType.CONTROL}
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind != TokenType.NORMAL
    ]


def tokenizer_config(meta: dict[str, Any]) -> dict[str, Any]:
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    tokens = meta["tokenizer.ggml.tokens"]
    named = {
        f"{name}_token": tokens[meta[f"tokenizer.ggml.{key}_token_id"]]
        for name, key in names.items()
        if f"tokenizer.ggml.{key}_token_id" in meta
    }
    return {
        **named,
        "clean_up_tokenization_spaces": False,
        "model_max_length": meta["llama.context_length"],
        # The class that takes tokenizer.json as it is; GPT2Tokenizer would put its own pre-tokenizer in place.
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def write_tensors(tensors: Any, meta: dict[str, Any], path: Path) -> None:
    """Writes one tensor after the other, so that memory holds one at a time."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end_bytes = 0
    for tensor in tensors:
        start_bytes, end_bytes = end_bytes, end_bytes + 2 * int(tensor.n_elements)
        header[checkpoint_name(tensor.name)] = {
            "dtype": "BF16",
            "shape": [int(size) for size in reversed(tensor.shape)],
            "data_offsets": [start_bytes, end_bytes],
        }
    packed = json.dumps(header, separators=(",", ":")).encode()
    packed += b" " * (-len(packed) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(packed)) + packed)
        for tensor in tensors:
            file.write(_bfloat16(tensor, meta))


def checkpoint_name(gguf_name: str) -> str:
    parts = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.weight", gguf_name)
    if parts is None or parts[2] not in TENSOR_NAMES:
        raise NotConvertible(f"the tensor {gguf_name!r} has no place in a Llama checkpoint")
    layer = f"model.layers.{parts[1]}." if parts[1] else ""
    return f"{layer}{TENSOR_NAMES[parts[2]]}.weight"


def _bfloat16(tensor: Any, meta: dict[str, Any]) -> bytes:
    from gguf import GGMLQuantizationType, quants

    rows = quants.dequantize(tensor.data, tensor.tensor_type)
    if ".attn_q." in tensor.name:
        rows = _halves(rows, meta["llama.attention.head_count"])
    if ".attn_k." in tensor.name:
        rows = _halves(rows, meta.get("llama.attention.head_count_kv", meta["llama.attention.head_count"]))
    return bytes(quants.quantize(rows, GGMLQuantizationType.BF16).tobytes())


def _halves(rows: Any, heads: int) -> Any:
    """GGUF interleaves the two halves that rotary embedding turns against each other; a checkpoint keeps them apart."""
    return rows.reshape(heads, -1, 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    gguf, folder = map(Path, sys.argv[1:])
    try:
        convert(gguf, folder)
    except NotConvertible as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
