"""python -m training.export: a trained head in the layout that vLLM loads, float16, with a model card."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from training import medusa_model, trainer
from training.evaluate import method_of
from training.target import Target, default_folder, load

Weights = dict[str, torch.Tensor]


def written(folder: Path, target: Target, content: dict[str, Any]) -> None:
    """The averaged weights of a trainer's checkpoint, and their config."""
    from safetensors.torch import save_file

    weights = {name: tensor.to(torch.float16).contiguous() for name, tensor in content["average"].items()}
    vocabulary = content["constants"]["vocabulary"]
    make = _eagle3 if method_of(weights) == "eagle3" else _medusa
    config, tensors = make(target, weights, vocabulary)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _eagle3(target: Target, weights: Weights, vocabulary: torch.Tensor) -> tuple[dict[str, Any], Weights]:
    copied = (
        "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
        "max_position_embeddings", "rms_norm_eps", "rope_theta", "hidden_act", "bos_token_id", "eos_token_id",
    )  # fmt: skip
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        **{name: target.config[name] for name in copied},
        "intermediate_size": len(weights["midlayer.mlp.gate_proj.weight"]),
        "num_hidden_layers": 1,
        "draft_vocab_size": len(vocabulary),
        "eagle_aux_hidden_state_layer_ids": list(target.aux_layers),
        "fc_norm": True,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
    }
    is_held = torch.zeros(target.config["vocab_size"], dtype=torch.bool)
    is_held[vocabulary] = True
    return config, {**weights, "d2t": vocabulary - torch.arange(len(vocabulary)), "t2d": is_held}


def _medusa(target: Target, weights: Weights, vocabulary: torch.Tensor) -> tuple[dict[str, Any], Weights]:
    heads, layers = medusa_model.counts(weights)
    config = {
        "model_type": "medusa",
        "architectures": ["MedusaModel"],
        "hidden_size": target.hidden_size,
        "vocab_size": target.config["vocab_size"],
        "truncated_vocab_size": len(vocabulary),
        "original_lm_head": True,
        "num_heads": heads,
        "num_hidden_layers": layers,
        "medusa_fc_bias": True,
        "torch_dtype": "float16",
    }
    return config, {**weights, "token_map": vocabulary}


def read(folder: Path) -> tuple[Weights, torch.Tensor]:
    """What `written` wrote: the weights, float32, and the draft vocabulary."""
    from safetensors.torch import load_file

    tensors = load_file(folder / "model.safetensors")
    if "token_map" in tensors:
        vocabulary = tensors.pop("token_map")
    else:
        vocabulary = tensors.pop("t2d").nonzero().squeeze(-1)
        del tensors["d2t"]
    return {name: tensor.float() for name, tensor in tensors.items()}, vocabulary


def card(content: dict[str, Any], method: str, curve: list[dict[str, Any]], began: str = "") -> str:
    """What a stranger wants to know of the head. `began` tells what it had learned before, if it did not begin anew."""
    progress, recipe, vocab_size = content["progress"], content["recipe"], len(content["constants"]["vocabulary"])
    flags = [f"--{name.replace('_', '-')}" for name in ("answers_only", "bfloat16") if recipe[name]]
    command = " ".join(
        (
            f"python -m training.{method} --updates {progress['updates']} --cooldown {recipe['cooldown_updates']}",
            f"--learning-rate {recipe['learning_rate']:g} --batch-tokens {recipe['batch_tokens']} --words {recipe['words']}",
            f"--seed {recipe['seed']}",
            "--head HEAD" if began else f"--vocab-size {vocab_size} {_shape(content['average'])}",
            *flags,
        )
    )
    figures = _figures(content, method, curve)
    count = sum(tensor.numel() for tensor in content["average"].values())
    rows = [_figure(line) for line in {line["split"]: line for line in figures}.values()]
    return CARD.format(
        title={"eagle3": "EAGLE-3", "medusa": "Medusa"}[method],
        parameters=f"{count / 1e6:.1f}",
        vocabulary=f"{vocab_size:,}",
        tokens=f"{max((line['tokens_of_data'] for line in figures), default=0):,}",
        updates=f"{progress['updates']:,}",
        rows=f"{progress['rows']:,}",
        began=f"- **Before:** {began}\n" if began else "",
        minutes=f"{progress['seconds'] / 60:.0f}",
        command=command,
        figures="\n".join(rows),
    )


def _shape(weights: Weights) -> str:
    """The options that make a new head of that shape."""
    if method_of(weights) == "eagle3":
        return f"--intermediate {len(weights['midlayer.mlp.gate_proj.weight'])}"
    return "--heads {} --layers {}".format(*medusa_model.counts(weights))


def _figures(content: dict[str, Any], method: str, curve: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was measured of this very head."""
    return [line for line in curve if (line["method"], line["updates"]) == (method, content["progress"]["updates"])]


def _figure(line: dict[str, Any]) -> str:
    name = {"heldout": "held out, of the kind it was trained on", "sample": "`profiles/prompts/sample.jsonl`"}
    agreement = " / ".join(f"{share:.2f}" for share in line["by_position"])
    return f"| {name.get(line['split'], line['split'])} | {agreement} | {line['mean_acceptance_length']:.2f} |"


CARD = """# {title} for SmolLM2-135M-Instruct

A speculator for speccli's embedded default, `smollm2-135m`. {parameters} M parameters, float16, a draft vocabulary of
{vocabulary} words. It was trained by `training/` in this project, on two CPU cores.

- **Data:** {tokens} tokens that SmolLM2-135M-Instruct wrote itself: the questions (sampled from the bare user header, and
  from the first words in `training/beginnings.json`) and the answers (three in five greedily, the others at temperature 0.7
  and 1). No text of anybody else, and no prompt of `profiles/prompts/`.
{began}- **Training:** {updates} updates over {rows} drafts, {minutes} minutes of computing. The weights are the moving
  average over the last updates.
- **Command:** `{command}`, with the folder of data and the checkpoint (see `training/README.md`).
- **Licence:** Apache-2.0, as the target's.

Measured in training, greedily, k = 3: agreement by position is the share of places where the draft is what the target says
next, among those where all positions before agreed.

| questions | agreement by position | mean acceptance length |
|---|---|---|
{figures}
"""


def _curve(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="what the trainer saved")
    parser.add_argument("--to", type=Path, required=True, help="the folder to write")
    parser.add_argument("--curve", type=Path, required=True, help="what evaluate has measured, for the model card")
    parser.add_argument("--began", default="", help="what a head taken up with --head had learned, for the model card")
    parser.add_argument("--target", type=Path, help="a folder; the embedded default if not given")
    options = parser.parse_args()
    content = trainer.saved(options.checkpoint)
    method, curve = method_of(content["average"]), _curve(options.curve)
    if not _figures(content, method, curve):
        raise SystemExit(f"{options.curve} has no figures of this head: `python -m training.evaluate` measures them")
    text = card(content, method, curve, options.began)
    written(options.to, load(options.target or default_folder()), content)
    (options.to / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
