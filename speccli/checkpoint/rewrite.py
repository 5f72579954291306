"""Writes the weights of a remade checkpoint, file by file: those that nothing touches are linked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from speccli.checkpoint import header, write_tensors
from speccli.checkpoint.inspection import Inspection
from speccli.checkpoint.repair.remade import Copy, Fold, Made, Remade
from speccli.errors import CheckpointError, MachineError

Outputs = dict[str, dict[str, Made]]
"""The tensors of each file, by the file that they come from."""


def written_bytes(checkpoint: Inspection, remade: Remade) -> int:
    rewritten = (made for file, made in _by_file(checkpoint, remade).items() if not _is_kept(checkpoint, file, made))
    return sum(tensor.size_bytes for made in rewritten for tensor in made.values())


def write_weights(checkpoint: Inspection, remade: Remade, folder: Path) -> None:
    """All weight files into `folder`, and an index where there are several."""
    source = Path(str(checkpoint.folder)).resolve()
    outputs = _by_file(checkpoint, remade)
    names = {file: f"{Path(file).stem}.safetensors" for file in outputs}
    for file, tensors in outputs.items():
        output = folder / names[file]
        if _is_kept(checkpoint, file, tensors):
            output.symlink_to((source / file).resolve())
        else:
            _write_file(checkpoint, tensors, output)
    if len(outputs) > 1:
        weight_map = {name: names[file] for file, tensors in outputs.items() for name in tensors}
        index = {"metadata": {}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_bytes(msgspec.json.encode(index))


def _by_file(checkpoint: Inspection, remade: Remade) -> Outputs:
    outputs: Outputs = {}
    for name, made in remade.tensors.items():
        file = (checkpoint.tensors or {})[made.recipe.tensor].file
        outputs.setdefault(file, {})[name] = made
    return outputs


def _is_kept(checkpoint: Inspection, file: str, tensors: dict[str, Made]) -> bool:
    there = {name for name, tensor in (checkpoint.tensors or {}).items() if tensor.file == file}
    copied = {name for name, made in tensors.items() if made.recipe == Copy(name)}
    return file.endswith(".safetensors") and there == copied == tensors.keys()


def _write_file(checkpoint: Inspection, tensors: dict[str, Made], output: Path) -> None:
    output.write_bytes(header.encoded({n: (made.dtype, made.shape, made.size_bytes) for n, made in tensors.items()}))
    recipes = [_job(checkpoint, name, made) for name, made in tensors.items()]
    job = json.dumps({"output": str(output), "recipes": recipes})
    command = [sys.executable, "-P", write_tensors.__file__]
    done = subprocess.run(command, input=job, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _explained(checkpoint.name, done)


def _job(checkpoint: Inspection, name: str, made: Made) -> dict[str, Any]:
    recipe = made.recipe
    job: dict[str, Any] = {"name": name, "kind": recipe.__struct_config__.tag, "size_bytes": made.size_bytes}
    job |= {"dtype": made.dtype, "tensor": _place(checkpoint, recipe.tensor)}
    if isinstance(recipe, Fold):
        job["vector"] = _place(checkpoint, recipe.vector)
        job["plus"] = _place(checkpoint, recipe.plus) if recipe.plus else None
    return job


def _place(checkpoint: Inspection, tensor: str) -> dict[str, Any]:
    found = (checkpoint.tensors or {})[tensor]
    place: dict[str, Any] = {
        "file": str(Path(str(checkpoint.folder)).resolve() / found.file),
        "size": found.size_bytes,
        "dtype": found.dtype,
        "shape": list(found.shape),
    }
    return place | ({"tensor": tensor} if found.start_bytes is None else {"start": found.start_bytes})


def _explained(name: str, done: subprocess.CompletedProcess[str]) -> CheckpointError | MachineError:
    if done.returncode < 0:
        return MachineError(
            f"the conversion of {name} was killed by signal {-done.returncode}",
            "most likely memory ran out: close other programs, then run the same command again",
        )
    said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    if "No space left" in said:
        return MachineError(
            f"the disk became full while {name} was converted",
            "free some space, or set SPECCLI_CACHE to a folder on another disk",
        )
    return CheckpointError(f"{name} could not be converted: {said}", "fetch the checkpoint again, or use another one")
