"""Checkpoints that are not on this machine, as a pairing file describes them: enough for their sizes, not for a run."""

from __future__ import annotations

from speccli import checkpoint
from speccli.checkpoint import Checkpoint, Checkpoints, Inspected
from speccli.checkpoint.inspection import architecture, language_model
from speccli.errors import CheckpointError
from speccli.pairing import Facts, Pairing
from speccli.source import described

UNVERIFIED_MARGIN = 0.03
"""Of weights whose bytes a pairing file gives without a source."""


def checkpoints(pairing: Pairing) -> Checkpoints | None:
    """Those on this machine, else those that the pairing file describes; None where neither tells."""
    seen = _found(pairing)
    return checkpoint.as_seen(seen) if seen is not None else of_catalogue(pairing)


def of_catalogue(pairing: Pairing) -> Checkpoints | None:
    variant, facts = pairing.variant, pairing.target_facts
    if variant is None or not facts or variant.weight_bytes is None:
        return None
    mtp = (pairing.speculator_weight_bytes or 0) if pairing.speculator_source is None else 0
    margin = UNVERIFIED_MARGIN if "weight_bytes" in variant.unverified else 0.0
    target = _checkpoint(variant.name, described(variant.source), facts, variant.weight_bytes + mtp, mtp, margin)
    if pairing.speculator_source is None:
        return Checkpoints(target)
    known = pairing.speculator_weight_bytes
    if known is None:
        return None
    doubtful = pairing.listed is not None and "weight_bytes" in pairing.listed.unverified
    name = pairing.speculator or described(pairing.speculator_source)
    return Checkpoints(
        target,
        _checkpoint(
            name,
            described(pairing.speculator_source),
            pairing.speculator_facts,
            known,
            margin=UNVERIFIED_MARGIN if doubtful else 0.0,
        ),
    )


def _found(pairing: Pairing) -> Inspected | None:
    """None also for a damaged checkpoint: the pair check tells of it, and the catalogue may still know the sizes."""
    try:
        return checkpoint.find(pairing)
    except CheckpointError:
        return None


def _checkpoint(
    name: str, path: str, facts: Facts, weight_bytes: int, mtp_bytes: int = 0, margin: float = 0.0
) -> Checkpoint:
    told = architecture(facts, language_model(facts))
    return Checkpoint(
        name=name,
        path=path,
        dtype=told.dtype or "bfloat16",
        weight_bytes=weight_bytes,
        kv_elements_per_token=0,
        max_position_embeddings=told.max_position_embeddings,
        config=facts,
        mtp_bytes=mtp_bytes,
        weight_margin=margin,
    )
