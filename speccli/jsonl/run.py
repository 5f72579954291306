"""What an output remembers of its run, in a file beside it, so that resuming with other settings can be refused."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from speccli import __version__, whole
from speccli.errors import MachineError, UsageError
from speccli.jsonl.inputs import Input
from speccli.plan import Plan
from speccli.profile import Sampling
from speccli.source import described

SCHEMA_VERSION = 1

SECRET = "hf_token"
"""An argument of vLLM's that is nobody's business, and no answer's."""


class InputFile(msgspec.Struct, frozen=True):
    """What a file held. None for a stream: that cannot be known before it is read."""

    name: str
    num_bytes: int | None
    sha256: str | None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All that the records of an output depend on."""

    schema_version: int = SCHEMA_VERSION
    speccli_version: str = __version__
    inputs: tuple[InputFile, ...]
    target: str
    target_source: str
    target_checkpoint: str
    """Its last folder: for the hub that is the revision."""
    method: str
    num_speculative_tokens: int
    speculator: str | None
    dtype: str
    max_model_len: int
    sampling: Sampling
    system: str | None
    reasoning_parser: str | None = None
    kv_cache_dtype: str | None | UnsetType = UNSET
    engine: dict[str, Any] | UnsetType = UNSET
    """vLLM's arguments that speccli does not name. Unset in a file that does not tell."""
    format: str
    truncate: bool
    ordered: bool
    errors: str | None


def run_of(plan: Plan, inputs: Sequence[Input], format: str, truncate: bool, ordered: bool, errors: Path | None) -> Run:  # noqa: A002
    pairing = plan.pairing
    return Run(
        inputs=tuple(_input_file(one) for one in inputs),
        target=pairing.target,
        target_source=described(pairing.target_source),
        target_checkpoint=Path(plan.target.path).name,
        method=pairing.method,
        num_speculative_tokens=pairing.num_speculative_tokens,
        speculator=described(pairing.speculator_source) if pairing.speculator_source else None,
        dtype=str(plan.engine_arguments["dtype"]),
        max_model_len=plan.max_model_len,
        sampling=plan.profile.sampling,
        system=plan.profile.settings.system,
        reasoning_parser=plan.profile.settings.reasoning_parser,
        kv_cache_dtype=plan.profile.settings.kv_cache_dtype,
        engine=_of_answers(plan.profile.settings.engine or {}),
        format=format,
        truncate=truncate,
        ordered=ordered,
        errors=None if errors is None else str(errors),
    )


def _of_answers(engine: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in engine.items() if key != SECRET}


def run_path(output: Path) -> Path:
    return output.with_name(output.name + ".run.json")


def remembered(output: Path) -> Run | None:
    """The run that wrote this output, if its file is there. Raises `UsageError` where that is no such file."""
    path = run_path(output)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"{path} does not tell of a run of speccli batch: {error}",
            "name another file with -o; or go on with the records that are there (--force), or begin anew (--overwrite)",
        ) from error


def known_run(output: Path) -> Run | None:
    """The same; None, too, where what lies beside the output tells of no run."""
    try:
        return remembered(output)
    except UsageError:
        return None


def require_own(output: Path) -> None:
    """Refuse to write over somebody else's file beside the output."""
    try:
        remembered(output)
    except UsageError as error:
        raise UsageError(error.message, "name another output with -o, or replace it with --overwrite") from error


def remember(run: Run, output: Path) -> None:
    """Write it beside the output, whole or not at all."""
    path = run_path(output)
    content = msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n"
    try:
        whole.write(path, content, 0o644)
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror}", "make room, or name another folder") from error


def differences(then: Run, now: Run) -> list[str]:
    """What is not as it was, a line each. Another version of speccli is no reason to begin anew."""
    if then.engine is UNSET:
        now = msgspec.structs.replace(now, engine=UNSET, kv_cache_dtype=UNSET)
    before, after = dict(_flat(then)), dict(_flat(now))
    keys = [*before, *(key for key in after if key not in before)]
    return [
        *_changed_inputs(then.inputs, now.inputs),
        *(
            f"{key}: {_shown(before.get(key))} then, {_shown(after.get(key))} now"
            for key in keys
            if before.get(key) != after.get(key)
        ),
    ]


def _changed_inputs(then: Sequence[InputFile], now: Sequence[InputFile]) -> list[str]:
    before, after = [one.name for one in then], [one.name for one in now]
    if before != after:
        return [f"inputs: {', '.join(before)} then, {', '.join(after)} now"]
    return [
        f"content of {old.name}: {old.num_bytes} bytes then, {new.num_bytes if new.num_bytes != old.num_bytes else 'as many others'} now"
        for old, new in zip(then, now, strict=True)
        if old != new
    ]


def _flat(run: Run) -> Iterator[tuple[str, Any]]:
    as_written: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(run))
    for key, value in as_written.items():
        if key == "sampling":
            yield from value.items()
        elif key == "engine":
            yield from ((f"engine.{name}", one) for name, one in value.items())
        elif key not in ("inputs", "speccli_version"):
            yield key, value


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _input_file(one: Input) -> InputFile:
    if one.path is None or one.is_stream:
        return InputFile(one.name, None, None)
    with one.path.open("rb") as file:
        return InputFile(one.name, os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())
