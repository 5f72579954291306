"""The known faults, by subject."""

from speccli.diagnose.failures.kind import Kind
from speccli.diagnose.failures.kinds import (
    arguments,
    attention,
    checkpoints,
    features,
    gpu,
    hub,
    memory,
    pairing,
    processes,
    processor,
    python,
)

KINDS: tuple[Kind, ...] = (
    *memory.KINDS,
    *arguments.KINDS,
    *pairing.KINDS,
    *checkpoints.KINDS,
    *attention.KINDS,
    *features.KINDS,
    *hub.KINDS,
    *gpu.KINDS,
    *processor.KINDS,
    *processes.KINDS,
    *python.KINDS,
)
