"""What a published checkpoint needs so that vLLM loads it as its author meant it. Decided from headers alone.

Each module knows one kind of checkpoint and is a function from `Remade` to `Remade`; none of them touches a file.
"""

from __future__ import annotations

from speccli.checkpoint import inspection
from speccli.checkpoint.header import Tensor
from speccli.checkpoint.inspection import Inspection
from speccli.checkpoint.repair import eagle, eagle3, medusa, place, vocabulary
from speccli.checkpoint.repair.remade import Remade, as_it_is


def plan(checkpoint: Inspection, target: Inspection, method: str) -> Remade | None:
    """The speculator as the engine must get it; None where it can have it as it is."""
    if checkpoint.tensors is None:
        return None
    remade = _by_method(as_it_is(checkpoint), checkpoint, target, method)
    remade = place.repaired(remade, checkpoint, method)
    return remade if remade.reasons else None


def _by_method(remade: Remade, checkpoint: Inspection, target: Inspection, method: str) -> Remade:
    match method:
        case "medusa":
            return medusa.repaired(remade, checkpoint, target)
        case "eagle":
            return eagle.repaired(remade, checkpoint)
        case "eagle3":
            return eagle3.repaired(remade, checkpoint, target)
        case "draft_model":
            return vocabulary.repaired(remade, checkpoint, target)
        case _:
            return remade


def plan_target(target: Inspection, method: str, has_speculator: bool) -> Remade | None:
    """The same for a target: a merged Medusa without its heads, and a path that misleads where MTP needs no other."""
    if target.tensors is None:
        return None
    remade = medusa.without_heads(as_it_is(target))
    if method == "mtp" and not has_speculator:
        remade = place.repaired(remade, target, method)
    return remade if remade.reasons else None


def preview(checkpoint: Inspection, remade: Remade | None) -> Inspection:
    """What an inspection of the remade checkpoint will say."""
    if remade is None:
        return checkpoint
    tensors = {name: Tensor(made.dtype, made.shape, made.size_bytes) for name, made in remade.tensors.items()}
    weight_files = {"model.safetensors": sum(tensor.size_bytes for tensor in tensors.values())}
    kept = {name: size for name, size in checkpoint.files.items() if name not in checkpoint.weight_files}
    return inspection.of_parts(
        name=checkpoint.name,
        folder=None,
        config=remade.config,
        files=kept | weight_files,
        weight_files=weight_files,
        tensors=tensors,
        tokenizer=checkpoint.tokenizer,
        has_unread_tokenizer=checkpoint.has_unread_tokenizer,
    )
