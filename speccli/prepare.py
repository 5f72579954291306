"""From options to a plan: the line of decisions, in order, without a branch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from speccli import checkpoint, hardware, paircheck, pairing, plan, profile


def prepare(
    typed: profile.Settings,
    file: Path | None,
    narrate: checkpoint.Narrate,
    environ: Mapping[str, str] = os.environ,
    command: profile.Settings = profile.Settings(),  # noqa: B008 - frozen
) -> plan.Plan:
    """Decide everything that a run needs, fetching and converting checkpoints where that is needed."""
    asked = profile.load(typed, file, environ, command)
    machine = hardware.resolve(asked.settings.hardware, environ)
    completed, pair = pairing.resolve(asked, machine)
    fetched = checkpoint.fetch(pair, narrate)
    paircheck.require(paircheck.pair_of(completed, machine, pair, fetched), narrate)
    return plan.fit(completed, machine, pair, checkpoint.for_engine(fetched, narrate))
