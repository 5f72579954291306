"""What needs torch: .bin and .pt files, read by its weights-only loader in another process, and arithmetic on tensors."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speccli.checkpoint import convert, pickles
from speccli.checkpoint.header import Tensor
from speccli.checkpoint.inspection import inspect_folder
from speccli.errors import CheckpointError
from tests import tiny
from tests.tiny_files import random, write_pickle


def test_a_pickle_tells_names_types_and_shapes_and_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    write_pickle(path, {"a": np.ones((2, 3), np.float32), "b": np.array([True]), "c": np.ones(2, np.float16)})
    expected = {
        "a": Tensor("F32", (2, 3), 24, "pytorch_model.bin"),
        "b": Tensor("BOOL", (1,), 1, "pytorch_model.bin"),
        "c": Tensor("F16", (2,), 4, "pytorch_model.bin"),
    }
    assert pickles.read_files([path], tmp_path / "cache") == expected
    (kept,) = (tmp_path / "cache" / "listings").iterdir()
    kept.write_text(kept.read_text().replace("[2,3]", "[3,2]"))
    assert pickles.read_files([path], tmp_path / "cache")["a"].shape == (3, 2)


class _Trap:
    """Unpickled by anything but a careful loader, it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_pickle_with_code_in_it_is_refused_and_not_run(tmp_path: Path) -> None:
    import torch

    tiny.eagle(tmp_path / "head", weights="model.safetensors")
    (tmp_path / "head" / "model.safetensors").unlink()
    path = tmp_path / "head" / "pytorch_model.bin"
    torch.save({"w": torch.ones(1), "evil": _Trap(tmp_path / "sprung")}, path)
    with pytest.raises(CheckpointError) as caught:
        inspect_folder(tmp_path / "head", "acme/head")
    assert caught.value.message.startswith(
        "pytorch_model.bin cannot be read by torch's weights-only loader: UnpicklingError: Weights only load failed"
    )
    assert not (tmp_path / "sprung").exists()
    torch.load(path, weights_only=False)  # the trap does spring where nobody is careful
    assert (tmp_path / "sprung").exists()


def test_a_pickle_that_is_none_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(pickle.dumps([1, 2])[:-3])
    with pytest.raises(CheckpointError, match="cannot be read by torch's weights-only loader"):
        pickles.read_files([path])


def test_inspecting_and_converting_a_pickle_never_imports_torch_here(tmp_path: Path) -> None:
    target, heads = tiny.llama(tmp_path / "target"), tiny.medusa(tmp_path / "heads")
    program = f"""
import sys
from pathlib import Path
from speccli.checkpoint import convert
from speccli.checkpoint.inspection import inspect_folder
target, heads = inspect_folder(Path({str(target)!r}), "t"), inspect_folder(Path({str(heads)!r}), "h")
plan = convert.plan(heads, target, "medusa")
print(convert.converted(heads, plan, "acme/heads", Path({str(tmp_path / "cache")!r}), lambda line: None, "medusa"))
print([name for name in ("torch", "transformers", "vllm", "safetensors") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    folder, imported = done.stdout.splitlines()
    assert imported == "[]"
    config = json.loads((Path(folder) / "config.json").read_bytes())
    assert (config["num_heads"], config["medusa_fc_bias"], config["hidden_size"]) == (3, True, 64)
    (file,) = Path(folder).glob("*.safetensors")
    from safetensors.numpy import load_file

    after, before = load_file(file), tiny.medusa_tensors(3)
    assert (after["blocks.2.layers.0.bias"] == before["2.0.linear.bias"]).all()
    assert (after["lm_heads.1.weight"] == before["1.1.weight"]).all()


def _attended(tensors: dict[str, Any], states: Any) -> Any:
    """An EAGLE-1 layer's attention and the residual after it: two query heads, one key-value head, no rotation."""

    def linear(name: str, x: Any) -> Any:
        weight, bias = tensors[f"{name}.weight"], tensors.get(f"{name}.bias")
        return x @ weight.T + (0 if bias is None else bias)

    hidden = linear("fc", states)
    queries, keys, values = (linear(f"layers.0.self_attn.{name}_proj", hidden) for name in "qkv")
    mixed = []
    for head in np.split(queries, 2, axis=1):
        scores = head @ keys.T / np.sqrt(32)
        scores = np.where(np.tril(np.ones_like(scores)) == 1, scores, -np.inf)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        mixed.append(shares / shares.sum(axis=1, keepdims=True) @ values)
    return hidden + linear("layers.0.self_attn.o_proj", np.concatenate(mixed, axis=1))


def test_a_folded_bias_computes_what_the_author_meant(tmp_path: Path) -> None:
    """All that follows the attention is without position and without bias, so equal states here are equal drafts."""
    from safetensors.numpy import load_file

    target = inspect_folder(tiny.llama(tmp_path / "target"), "target")
    own = {f"layers.0.self_attn.{name}_proj.bias": random(64 if name == "q" else 32, seed=9) for name in "qkv"}
    folder = tiny.eagle(tmp_path / "head", has_bias=True, weights="model.safetensors", tensors=own, qkv_bias=True)
    head = inspect_folder(folder, "head")
    plan = convert.plan(head, target, "eagle")
    assert plan is not None
    made = convert.converted(head, plan, "acme/head", tmp_path / "cache", lambda line: None, "eagle")
    before, after = load_file(folder / "model.safetensors"), load_file(made / "model.safetensors")
    assert "fc.bias" not in after
    states = np.random.default_rng(3).standard_normal((5, 128)).astype(np.float32)
    dropped = {name: array for name, array in before.items() if name != "fc.bias"}
    assert np.abs(_attended(after, states) - _attended(before, states)).max() < 1e-4
    assert np.abs(_attended(dropped, states) - _attended(before, states)).max() > 0.1
    config = json.loads((made / "config.json").read_bytes())
    assert (config["attention_bias"], config["qkv_bias"]) == (True, True)


def test_a_pickled_head_is_folded_into_safetensors(tmp_path: Path) -> None:
    target = inspect_folder(tiny.llama(tmp_path / "target"), "target")
    head = inspect_folder(tiny.eagle(tmp_path / "head", has_bias=True), "head")
    plan = convert.plan(head, target, "eagle")
    assert plan is not None
    made = convert.converted(head, plan, "acme/head", tmp_path / "cache", lambda line: None, "eagle")
    assert sorted(path.name for path in made.iterdir()) == ["config.json", "pytorch_model.safetensors", "speccli.json"]
    got = inspect_folder(made, "head")
    assert got.shape("layers.0.self_attn.o_proj.bias") == (64,)
    assert got.shape("layers.0.self_attn.k_proj.bias") == (32,)
