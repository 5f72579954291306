"""Pairings of the catalogue on named machines, planned."""

from __future__ import annotations

from typing import Any

from speccli.hardware import CpuInfo, Hardware
from speccli.hardware.shipped import named
from speccli.pairing import resolve
from speccli.plan import Plan, fixes, forecast, known, trial
from speccli.plan.estimate import Estimate
from speccli.plan.interval import GIB
from speccli.profile import Profile, Settings, load


def asked(**settings: Any) -> Profile:
    return load(Settings(**settings), None, {})


def planned(machine: str | Hardware, **settings: Any) -> Plan:
    hardware = named(machine) if isinstance(machine, str) else machine
    completed, pairing = resolve(asked(**settings), hardware)
    checkpoints = known.of_catalogue(pairing)
    assert checkpoints is not None
    return forecast(completed, hardware, pairing, checkpoints)


def estimated(machine: str | Hardware, **settings: Any) -> Estimate:
    made = planned(machine, **settings).estimate
    assert made is not None
    return made


def suggested(machine: str | Hardware, **settings: Any) -> list[trial.Fix]:
    hardware = named(machine) if isinstance(machine, str) else machine
    completed, pairing = resolve(asked(**settings), hardware)
    checkpoints = known.of_catalogue(pairing)
    assert checkpoints is not None
    return list(fixes.suggestions(trial.case_of(asked(**settings), completed, hardware, pairing, checkpoints)))


def cpu(memory_gib: float, nodes: int = 1) -> Hardware:
    size = int(memory_gib * GIB)
    info = CpuInfo(
        model="A processor", architecture="x86_64", physical_cores=8, usable_cpus=8, flags=("avx512_bf16",),
        memory_total_bytes=size, memory_available_bytes=size, numa_nodes=nodes,
    )  # fmt: skip
    return Hardware(kind="cpu", name="cpu", source="named", cpu=info)
