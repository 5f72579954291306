"""From options to a plan: the line of decisions, in order, without a branch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from speccli import checkpoint, hardware, paircheck, pairing, plan, profile
from speccli.pairing import packages

Chosen = tuple[profile.Profile, hardware.Hardware, pairing.Pairing]
"""The settings, completed; the machine; what is to run on it."""


def prepare(
    typed: profile.Settings,
    file: Path | None,
    narrate: checkpoint.Narrate,
    environ: Mapping[str, str] = os.environ,
    command: profile.Settings = profile.Settings(),  # noqa: B008 - frozen
    in_flight: int = 1,
) -> plan.Plan:
    """Decide everything that a run needs; only then are weights downloaded, and converted where that is needed."""
    completed, machine, pair = choose(typed, file, environ, command, in_flight)
    packages.require(pair.method, pair.listed)
    places = checkpoint.look(pair, narrate)
    inspected = checkpoint.inspect(pair, places, narrate)
    paircheck.require(paircheck.pair_of(completed, machine, pair, inspected), narrate)
    planned = plan.fit(completed, machine, pair, checkpoint.as_seen(inspected))
    checkpoint.fetch(places, inspected, narrate)
    return planned


def choose(
    typed: profile.Settings,
    file: Path | None,
    environ: Mapping[str, str] = os.environ,
    command: profile.Settings = profile.Settings(),  # noqa: B008 - frozen
    in_flight: int = 1,
) -> Chosen:
    """What these settings mean on this machine, or on the one that they name. Nobody is asked for it."""
    asked = profile.load(typed, file, environ, command)
    machine = hardware.resolve(asked.settings.hardware, environ)
    completed, pair = pairing.resolve(asked, machine, in_flight)
    return completed, machine, pair
