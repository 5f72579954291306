"""Weights of a language model on one device, as `Model loading took ...` reports them."""

from __future__ import annotations

from speccli.plan.interval import Interval, about
from speccli.plan.quantization import Format
from speccli.plan.shape import Shape

MXFP4_HIDDEN, MXFP4_INTERMEDIATE = 256, 128
"""What Marlin's and TensorRT-LLM's kernels round up to (`fused_moe/oracle/mxfp4.py`)."""


def formula_bytes(shape: Shape, form: Format, dtype_bytes: int, tensor_parallel_size: int = 1) -> int:
    """`model_executor/layers/linear.py` and `vocab_parallel_embedding.py`: matrices split over the devices, norms on each.

    Embedding and lm_head stay in the run's dtype in quantised checkpoints too; one copy serves both where they are tied.
    """
    size = tensor_parallel_size
    norms = (2 * shape.num_layers + 1) * shape.hidden_size
    linear = (shape.decoder_parameters(size) - 2 * shape.num_layers * shape.hidden_size) * form.linear
    experts = shape.expert_parameters(size) * form.experts
    vocabulary = (1 if shape.is_tied else 2) * shape.vocabulary_elements // size * dtype_bytes
    return int(linear + experts + vocabulary + norms * dtype_bytes + shape.rotary_bytes)


def on_device(
    shape: Shape, form: Format, dtype_bytes: int, tensor_parallel_size: int, known_bytes: int = 0, margin: float = 0.0
) -> Interval:
    """`known_bytes` are those of the whole checkpoint, where files or a pairing file tell; the formula then says how they split.

    `margin` is the share by which the known figure may be wrong.
    """
    size = tensor_parallel_size
    value = formula_bytes(shape, form, dtype_bytes, size)
    if known_bytes:
        whole = formula_bytes(shape, form, dtype_bytes) - shape.rotary_bytes
        value = int(known_bytes * (value - shape.rotary_bytes) / whole) + shape.rotary_bytes
    less, more = _margins(form, size, is_known=bool(known_bytes))
    bounds = about(value, less + margin, more + margin)
    return Interval(bounds.low, bounds.high + padding_bytes(shape, form, size))


def padding_bytes(shape: Shape, form: Format, tensor_parallel_size: int = 1) -> int:
    """What kernels for 4-bit experts add to matrices whose sizes are no multiple of theirs: gpt-oss's 2880 becomes 3072 by 2944."""
    group = shape.experts
    if group is None or not form.pads_experts:
        return 0
    inner = group.intermediate_size // tensor_parallel_size
    padded = _up(shape.hidden_size, MXFP4_HIDDEN) * _up(inner, MXFP4_INTERMEDIATE)
    added = padded - shape.hidden_size * inner
    return int(group.num_layers * group.num_experts * 3 * added * form.experts)


def _margins(form: Format, size: int, *, is_known: bool) -> tuple[float, float]:
    """Seen in public logs: up to 0.4 % on one device, 1.2 % on several (each tensor rounded up to 2 MiB), 2 % with 4 bits."""
    more = 0.005 if size == 1 else 0.013
    if not form.is_quantized:
        return 0.001, more
    return (0.002, more + 0.002) if is_known else (0.01, 0.02)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def largest_matrix_bytes(shape: Shape) -> int:
    """In 16 bits: what a format that unpacks one matrix at a time needs beside the weights. Gate and up are one matrix."""
    return 2 * 2 * shape.hidden_size * shape.intermediate_size
