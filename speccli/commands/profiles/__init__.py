"""`speccli profiles`: which pairings there are, what one of them means on a machine, and whether a file is right."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from speccli import hardware as machines
from speccli import paths
from speccli.commands.profiles import catalogue_text
from speccli.errors import ExitCode, UsageError
from speccli.pairing import catalogue, resolve
from speccli.pairing.file import MAX_SPECULATIVE_TOKENS, PairingFile, checked, machine_named
from speccli.profile import Settings, check_engine, document, load
from speccli.profile.document import Document, shown
from speccli.profile.engine_arguments import installed_names

SCHEMA_VERSION = 1

PAIRING_KEYS = {"about", "facts", "targets", "speculators", "choices"}
"""A file that holds one of these is meant as a pairing, not as settings."""


def list_pairings(hardware: str | None, as_json: bool) -> ExitCode:
    """Prints every pairing, or those that have a choice for the named machine."""
    machine = None if hardware is None else machines.resolve(hardware)
    entries = sorted(catalogue.entries(), key=lambda one: catalogue_text.natural(one.name))
    if machine is not None:
        entries = [one for one in entries if catalogue.choice_for(one.file, machine)]
    if as_json:
        listed = [catalogue_text.as_builtins(one, machine) for one in entries]
        _write(_json({"schema_version": SCHEMA_VERSION, "pairings": listed}))
    else:
        _write(catalogue_text.as_text(entries, machine))
    return ExitCode.DONE


def show(typed: Settings, profile: Path | None, as_json: bool, environ: Mapping[str, str] = os.environ) -> ExitCode:
    """Prints what these settings resolve to on their machine, and why. Nothing is fetched."""
    from speccli.commands.profiles import explanation  # brings the plan along, which the list has no use for

    asked = load(typed, profile, environ)
    machine = machines.resolve(asked.settings.hardware, environ)
    completed, pairing = resolve(asked, machine)
    explained = explanation.explain(completed, pairing, machine)
    if as_json:
        _write(_json({"schema_version": SCHEMA_VERSION, **explanation.as_builtins(explained)}))
    else:
        _write(explanation.as_text(explained))
    return ExitCode.DONE


def check(file: Path) -> ExitCode:
    """Prints what kind of file it is, if it is right. Raises `UsageError` with the line if it is not."""
    content = document.read(file)
    if isinstance(content.plain, dict) and PAIRING_KEYS & content.plain.keys():
        _write(_pairing_line(file, checked(content)))
    else:
        _write(_settings_line(file, content))
    if installed_names() is None:
        sys.stderr.write("no vLLM is installed: the keys under `engine` were not compared with its arguments\n")
    return ExitCode.DONE


def path() -> ExitCode:
    """Prints where files are looked for, the strongest first."""
    config, shipped = paths.config_dir(), paths.profiles_dir()
    places = [
        ("settings", config / "config.yaml"),
        ("named by --profile", config / "profiles"),
        ("own pairings", config / "pairings"),
        ("shipped pairings", shipped / "pairings"),
        ("shipped hardware", shipped / "hardware"),
    ]
    _write("".join(f"{title:<20}{shown(place)}{_state(place)}\n" for title, place in places))
    return ExitCode.DONE


def _state(place: Path) -> str:
    """What is there, in place of a file or of a folder of them."""
    try:
        is_folder = stat.S_ISDIR(place.stat().st_mode)
        if place.suffix:
            return "  (a folder, not a file)" if is_folder else ""
        return f"  ({len(document.listed(place))} files)" if is_folder else "  (not a folder)"
    except FileNotFoundError:
        return "  (a link to nothing)" if place.is_symlink() else "  (not there)"
    except OSError as error:
        return f"  ({error.strerror})"
    except UsageError as error:
        return f"  ({error.message})"


def _pairing_line(file: Path, pairing: PairingFile) -> str:
    machines_named = ", ".join(dict.fromkeys(name for choice in pairing.choices for name in choice.hardware))
    return (
        f"{shown(file)}: a pairing, {len(pairing.targets)} targets and {len(pairing.speculators)} speculators, "
        f"with choices for {machines_named}\n"
    )


def _settings_line(file: Path, content: Document) -> str:
    settings = content.convert(Settings)
    check_engine(content, settings)
    _check_choices(content, settings)
    keys = ", ".join(msgspec.to_builtins(settings)) or "nothing"
    return f"{shown(file)}: a profile, which sets {keys}\n"


def _check_choices(content: Document, settings: Settings) -> None:
    """What a run would refuse, whatever its target is."""
    k = settings.num_speculative_tokens
    if k is not None and not 1 <= k <= MAX_SPECULATIVE_TOKENS:
        hint = f"choose 1 to {MAX_SPECULATIVE_TOKENS}, or write `method: none` for plain decoding"
        raise content.refuse(("num_speculative_tokens",), f"num_speculative_tokens is {k}", hint)
    if settings.hardware is not None:
        try:
            machine_named(settings.hardware)
        except UsageError as error:
            raise content.refuse(("hardware",), error.message, error.hint) from error


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def _write(text: str) -> None:
    sys.stdout.write(text)
