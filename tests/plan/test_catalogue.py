"""Every shipped target with every speculator on every machine has a plan, and none of them is absurd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from speccli.errors import UsageError
from speccli.hardware.shipped import named, names
from speccli.pairing import catalogue, resolve
from speccli.pairing.file import PairingFile
from speccli.plan import forecast, known
from speccli.plan.estimate import Estimate
from speccli.profile import Settings, load

MACHINES = ("t4", "l4", "l40s", "a100-80", "h100", "h100x2", "b200")


def estimates(file: PairingFile, machine: str) -> Iterator[tuple[str, Estimate]]:
    hardware = named(machine)
    for target in file.targets:
        for speculator in (None, *(one for one in file.speculators if one.goes_with(target.name))):
            settings = Settings(
                target=target.name,
                method=None if speculator else "none",
                speculator=speculator.name if speculator else None,
                tensor_parallel_size=len(hardware.devices),
            )
            completed, pairing = resolve(load(settings, None, {}), hardware)
            checkpoints = known.of_catalogue(pairing)
            name = f"{target.name} with {speculator.name if speculator else 'none'} on {machine}"
            assert checkpoints is not None, name
            if len(hardware.devices) > 1 and "smollm2" in name:
                with pytest.raises(UsageError, match="has 9 attention heads, which it does not divide"):
                    forecast(completed, hardware, pairing, checkpoints)
                continue
            made = forecast(completed, hardware, pairing, checkpoints).estimate
            assert made is not None
            yield name, made


FILES = [entry.file for entry in catalogue.entries() if not entry.is_users]


def test_every_kind_of_machine_is_covered() -> None:
    assert {machine.partition("x")[0] if machine.startswith("h100x") else machine for machine in MACHINES} <= set(
        names()
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_every_pairing_has_a_plan_that_adds_up(machine: str) -> None:
    wrong = []
    for file in FILES:
        for name, made in estimates(file, machine):
            used = [part for purpose, part in made.bytes.items() if purpose != "kv_cache"]
            left = made.budget_bytes - sum(part.low for part in used)
            if any(part.low > part.high or part.low < 0 for part in made.bytes.values()):
                wrong.append(f"{name}: an interval is the wrong way round")
            if made.kv_cache.high != max(0, left):
                wrong.append(f"{name}: the parts do not add up to the budget")
            if made.verdict == "fits" and made.kv_tokens.low < made.max_model_len * 0.9:
                wrong.append(f"{name}: fits, with {made.kv_tokens.low} tokens for {made.max_model_len}")
            if (made.verdict == "fits") != (made.max_model_len_that_fits >= made.max_model_len):
                wrong.append(f"{name}: {made.verdict}, up to {made.max_model_len_that_fits}")
    assert wrong == []


def test_the_formula_and_the_files_agree_on_dense_targets() -> None:
    """The catalogue's bytes are the files'; where the formula is far off, it would split them wrongly over devices."""
    from speccli.plan import quantization, shape, weights

    far = []
    for file in FILES:
        for target in file.targets:
            facts = file.facts_of(target)
            model = shape.of_config(facts)
            assert model is not None, target.name
            if model.doubts or target.weight_bytes is None:
                continue
            formula = weights.formula_bytes(model, quantization.of_config(facts, 2), 2) - model.rotary_bytes
            if abs(formula / target.weight_bytes - 1) > 0.01:
                far.append((target.name, formula / target.weight_bytes))
    assert far == []


def test_what_a_machine_is_given_without_being_asked_fits_it() -> None:
    refused = []
    for machine in (*names(), "h100x2"):
        hardware = named(machine)
        if hardware.kind == "cpu":
            continue
        for entry in catalogue.entries():
            choice = catalogue.choice_for(entry.file, hardware)
            if choice is None:
                continue
            completed, pairing = resolve(load(Settings(target=entry.name), None, {}), hardware)
            checkpoints = known.of_catalogue(pairing)
            assert checkpoints is not None
            made = forecast(completed, hardware, pairing, checkpoints).estimate
            assert made is not None
            if made.verdict == "does_not_fit":
                refused.append(f"{entry.name} on {machine}: {made.problem}")
    assert refused == []
