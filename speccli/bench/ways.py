"""The ways of decoding that a bench compares: plain, and each method, speculator and k that is asked for or offered."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from speccli import paths
from speccli.errors import UsageError
from speccli.pairing import Pairing, catalogue
from speccli.pairing.file import Speculator
from speccli.plan import Plan
from speccli.profile import METHODS, Settings, method_named

PLAIN = "plain"

UNLISTED = "ngram"
"""What is compared where no pairing file lists the target."""


FORGETFUL = {"suffix_decoding_max_cached_requests": 0}
"""For suffix decoding, which else finds its own answer of the repeat before, and drafts all of it."""


class Way(msgspec.Struct, frozen=True):
    """One way as it was asked for. `settings` say how to speculate, and nothing else."""

    text: str
    settings: Settings


PLAINLY = Way(PLAIN, Settings(method="none"))


def asked_ways(text: str) -> tuple[Way, ...]:
    """The ways in a list with commas, each [METHOD=]NAME[:K]. Plain decoding comes always, and need not be named."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError("--methods has an empty part", "write it as --methods ngram,eagle3:3")
    twice = sorted({part for part in parts if parts.count(part) > 1})
    if twice:
        raise UsageError(f"--methods names {', '.join(twice)} twice", "name each once")
    ways = [_way(part) for part in parts]
    return tuple(way for way in ways if way.settings.method != "none")


def offered_ways(plain: Pairing) -> tuple[tuple[Way, ...], tuple[str, ...]]:
    """The ways that the target's pairing file lists, and the names of those left out: the target as its own draft."""
    if plain.entry is None or plain.variant is None:
        return (_way(UNLISTED),), ()
    listed = [one for one in plain.entry.file.speculators if one.goes_with(plain.variant.name)]
    itself = [one.name for one in listed if one.source in (plain.target, plain.entry.name)]
    return tuple(_as_listed(one) for one in listed if one.name not in itself), (*itself,)


def label(pairing: Pairing) -> str:
    """A way's name once it is resolved. It names the speculator where the method alone would not tell which."""
    return _label(pairing, _speculator(pairing))


def full_label(pairing: Pairing) -> str:
    """With all of the speculator's name, which tells apart those that end alike."""
    return _label(pairing, pairing.speculator or "")


def engine_of(way: Way, base: Settings, batch_sizes: Sequence[int]) -> Settings:
    """The settings of that way's engine: the same for all, but for how to speculate.

    The prefix cache is off. With it, a repeat would find its prompts done already, and be no repeat.
    """
    return msgspec.structs.replace(
        base,
        method=way.settings.method,
        speculator=way.settings.speculator,
        num_speculative_tokens=way.settings.num_speculative_tokens,
        max_num_seqs=max(batch_sizes),
        engine={**(base.engine or {}), "enable_prefix_caching": False},
    )


def fair(plan: Plan) -> Plan:
    """The plan, without what a way would remember from one repeat to the next."""
    if plan.pairing.method != "suffix":
        return plan
    arguments = plan.engine_arguments
    speculative = {**arguments["speculative_config"], **FORGETFUL}
    return msgspec.structs.replace(plan, engine_arguments={**arguments, "speculative_config": speculative})


def _as_listed(one: Speculator) -> Way:
    """All of it said, so that no setting of the user's has a say in what is compared."""
    return Way(
        one.name,
        Settings(method=one.method, speculator=one.name, num_speculative_tokens=one.num_speculative_tokens),
    )


def _label(pairing: Pairing, speculator: str) -> str:
    if not pairing.is_speculative:
        return PLAIN
    return " ".join(part for part in (pairing.method, speculator, f"k={pairing.num_speculative_tokens}") if part)


def _way(text: str) -> Way:
    found = re.fullmatch(r"(?:(?P<method>[\w-]+)=)?(?P<name>.+?)(?::(?P<k>-?\d+))?", text)
    assert found is not None, "no part is empty"
    method, name = found["method"], found["name"]
    k = None if found["k"] is None else int(found["k"])
    if "none" in (method, name) or name == PLAIN:
        if text not in (PLAIN, "none"):
            raise UsageError(
                f"--methods: {text!r} is plain decoding, which takes no speculator and no k", "leave it out"
            )
        return Way(text, PLAINLY.settings)
    if method is not None:
        return Way(text, Settings(method=method_named(method), speculator=name, num_speculative_tokens=k))
    if name in METHODS:
        return Way(text, Settings(method=method_named(name), num_speculative_tokens=k))
    if "/" in name or paths.is_there(name) or name in _listed_speculators():
        return Way(text, Settings(speculator=name, num_speculative_tokens=k))
    raise _unknown(name)


def _unknown(name: str) -> UsageError:
    nearest = difflib.get_close_matches(name, [*METHODS, *_listed_speculators()], n=1)
    hint = f"did you mean `{nearest[0]}`?" if nearest else f"the methods are {', '.join(METHODS)}"
    return UsageError(f"--methods: no method and no speculator is called {name!r}", hint)


def _listed_speculators() -> set[str]:
    return {one.name for entry in catalogue.entries() for one in entry.file.speculators}


def _speculator(pairing: Pairing) -> str:
    if pairing.speculator is None:
        return ""
    same = [one for one in pairing.entry.file.speculators if one.method == pairing.method] if pairing.entry else []
    return "" if pairing.listed is not None and len(same) == 1 else Path(pairing.speculator).name
