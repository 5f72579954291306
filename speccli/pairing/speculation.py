"""The other half of a pairing: the method, the speculator and the number of tokens."""

from __future__ import annotations

import difflib
from typing import Any

import msgspec

from speccli import paths
from speccli.errors import UsageError
from speccli.hardware import Hardware
from speccli.pairing import catalogue
from speccli.pairing.decision import Decision
from speccli.pairing.file import (
    MAX_SPECULATIVE_TOKENS,
    NEEDS_SPECULATOR,
    TAKES_SPECULATOR,
    Facts,
    Speculator,
)
from speccli.pairing.target import ChosenTarget, source_of
from speccli.profile import Method, Profile
from speccli.source import HubSource, Source, described

GPU_ONLY: frozenset[Method] = frozenset({"ngram_gpu", "dspark"})

MTP_KEYS = ("mtp_num_hidden_layers", "num_nextn_predict_layers")
"""Of a config.json: how many MTP layers the checkpoint carries."""

UNLISTED: dict[Method, tuple[int, str, dict[str, Any]]] = {
    "ngram": (4, "n-gram look-up needs no checkpoint", {"prompt_lookup_min": 2, "prompt_lookup_max": 5}),
    "ngram_gpu": (2, "as vLLM's own tests have it", {"prompt_lookup_min": 2, "prompt_lookup_max": 3}),
    "suffix": (24, "the depth of vLLM's suffix tree", {}),
    "draft_model": (3, "3 tokens are a cautious start", {}),
    "eagle": (2, "as vLLM's documentation has it", {}),
    "eagle3": (3, "what most published heads are measured with", {}),
    "medusa": (3, "every published checkpoint has as many heads", {}),
    "mtp": (1, "most targets carry one such layer", {}),
    "dflash": (15, "one less than the usual block of 16", {}),
    "dspark": (7, "the block of the published checkpoints", {}),
}
"""Tokens, the reason for them and further keys, where no pairing file lists the speculator."""


class Speculation(msgspec.Struct, frozen=True):
    """How to speculate, or method "none"."""

    method: Method
    num_speculative_tokens: int
    reason: str
    decisions: tuple[Decision, ...]
    speculator: str | None = None
    source: Source | None = None
    config: dict[str, Any] = {}
    listed: Speculator | None = None


class _Way(msgspec.Struct, frozen=True):
    """A speculator, listed or made up for what was asked, why it was taken, and who said so."""

    speculator: Speculator
    is_listed: bool
    reason: str
    source: str


class _Many(msgspec.Struct, frozen=True):
    """Up to how many requests at once the machine's choice pays, and what is done with more."""

    max_batch_size: int
    decision: Decision


def choose(profile: Profile, target: ChosenTarget, hardware: Hardware, batch_size: int) -> Speculation:
    settings = profile.settings
    if settings.method == "none" and (settings.speculator is None or not profile.is_stronger("speculator", "method")):
        asked_by = profile.sources["method"]
        decision = Decision("method", "none", "plain decoding was asked for", asked_by)
        return Speculation("none", 0, f"plain decoding ({asked_by})", (decision,))
    way = _way(profile, target)
    many = _for_many(profile, target, way.speculator)
    if many is not None and batch_size > many.max_batch_size:
        reason = f"{many.decision.reason}; --method {way.speculator.method} speculates all the same"
        return Speculation("none", 0, reason, (Decision("method", "none", reason, target.origin),))
    method = way.speculator.method
    if method in GPU_ONLY and hardware.kind == "cpu":
        others = ", ".join(one for one in _methods(target).split(", ") if one not in GPU_ONLY)
        raise UsageError(f"method {method} runs on a GPU only", f"choose another method: {others}")
    source = _checkpoint(way.speculator)
    k = _num_tokens(profile, way, target)
    return Speculation(
        method=method,
        num_speculative_tokens=int(k.value),
        reason=way.reason,
        decisions=(*_decisions(way, source), k, *([many.decision] if many else [])),
        speculator=way.speculator.name if source is not None else None,
        source=source,
        config=way.speculator.config,
        listed=way.speculator if way.is_listed else None,
    )


def _for_many(profile: Profile, target: ChosenTarget, speculator: Speculator) -> _Many | None:
    """Where nobody asked for a way to speculate, and the machine's choice is the slower way for many requests."""
    settings, choice = profile.settings, target.choice
    asked = settings.method or settings.speculator or settings.num_speculative_tokens
    if asked or choice is None or choice.max_batch_size is None or choice.speculator != speculator.name:
        return None
    most = choice.max_batch_size
    reason = f"with more than {most} in flight it is faster here than {speculator.method}"
    return _Many(most, Decision("batch", "plain decoding", reason, target.origin))


def _way(profile: Profile, target: ChosenTarget) -> _Way:
    """What was asked for by speculator, else by method, else what suits the machine best."""
    name, method = profile.settings.speculator, profile.settings.method
    if name is not None:
        way = _by_speculator(profile, target, name)
        if method is None or way.speculator.method == method or profile.is_stronger("speculator", "method"):
            return way
        if not profile.is_stronger("method", "speculator"):
            raise _contradiction(method, name, way)
    if method is not None:
        return _by_method(method, profile.sources["method"], target)
    return _by_machine(target)


def _by_speculator(profile: Profile, target: ChosenTarget, name: str) -> _Way:
    source, method = profile.sources["speculator"], profile.settings.method
    repo, _, revision = name.partition("@")
    for one in target.offered:
        if name in (one.name, one.source):
            return _Way(one, True, one.reason, source)
        if isinstance(one.source, HubSource) and one.source.repo == repo:
            revised = HubSource(repo, revision or one.source.revision)
            return _Way(msgspec.structs.replace(one, source=revised), True, one.reason, source)
    if method is None or method not in TAKES_SPECULATOR:
        if catalogue.find(name) is None:
            raise _unknown_speculator(name, source, method, target)
        method = "draft_model"
    return _Way(_made_up(method, name), False, f"no pairing lists {name} for {target.name}", source)


def _unknown_speculator(name: str, source: str, method: Method | None, target: ChosenTarget) -> UsageError:
    where = "" if source == "typed" else f" ({source})"
    names = [one.name for one in target.offered]
    nearest = difflib.get_close_matches(name, names, n=1)
    if nearest or not ("/" in name or paths.is_there(name)):
        hint = f"did you mean `{nearest[0]}`?" if nearest else f"{target.name} has {', '.join(names) or 'none listed'}"
        return UsageError(f"no speculator is called {name!r}{where}", hint)
    if method is None:
        hint = f"say which with --method: {', '.join(sorted(TAKES_SPECULATOR))}"
        return UsageError(f"no pairing lists {name}{where} for {target.name}, so its method is not known", hint)
    return UsageError(
        f"method {method} takes no speculator, but {name!r} is named{where}",
        "leave out the speculator, or choose the method that it is for",
    )


def _contradiction(method: Method, name: str, way: _Way) -> UsageError:
    return UsageError(
        f"{name} is for method {way.speculator.method}, and the method asked for is {method}",
        f"leave out one of them, or say --method {way.speculator.method}",
    )


def _by_method(method: Method, source: str, target: ChosenTarget) -> _Way:
    for one in target.offered:
        if one.method == method:
            return _Way(one, True, one.reason, source)
    if method in NEEDS_SPECULATOR:
        raise UsageError(
            f"method {method} needs a speculator, and no pairing has one for {target.name}",
            f"name one with --speculator: a folder, or ORG/NAME on the hub; {target.name} has {_methods(target)}",
        )
    if method == "mtp" and target.entry is not None and not _has_mtp(target.entry.file.facts):
        raise UsageError(f"{target.name} has no MTP layers", f"choose another method: {_methods(target)}")
    made_up = _made_up(method, None)
    return _Way(made_up, False, f"no pairing lists {target.name} with {method}: {made_up.reason}", source)


def _by_machine(target: ChosenTarget) -> _Way:
    if not target.offered:
        return _by_method("ngram", "default", target)
    first = target.offered[0]
    if target.choice is not None and target.choice.speculator == first.name:
        return _Way(first, True, target.choice.reason, target.origin)
    return _Way(first, True, f"the first that {target.origin} lists for {target.name}", target.origin)


def _made_up(method: Method, name: str | None) -> Speculator:
    k, reason, config = UNLISTED[method]
    return Speculator(
        name=name or method, method=method, source=name, num_speculative_tokens=k, reason=reason, config=config
    )


def _checkpoint(speculator: Speculator) -> Source | None:
    return source_of(speculator.source) if isinstance(speculator.source, str) else speculator.source


def _num_tokens(profile: Profile, way: _Way, target: ChosenTarget) -> Decision:
    key, listed = "num_speculative_tokens", way.speculator
    asked = profile.settings.num_speculative_tokens
    if asked is None:
        origin = target.origin if way.is_listed else "default"
        return Decision(key, str(listed.num_speculative_tokens), listed.reason, origin)
    if not 1 <= asked <= MAX_SPECULATIVE_TOKENS:
        raise UsageError(f"{key} is {asked}", f"choose 1 to {MAX_SPECULATIVE_TOKENS}, or --no-spec for plain decoding")
    limit = listed.max_num_speculative_tokens
    if limit is not None and asked > limit:
        raise UsageError(f"{key} is {asked}, and {listed.name} proposes at most {limit}", f"choose 1 to {limit}")
    return Decision(key, str(asked), "asked for", profile.sources[key])


def _decisions(way: _Way, source: Source | None) -> tuple[Decision, ...]:
    method = Decision("method", way.speculator.method, way.reason, way.source)
    if source is None:
        return (method,)
    return (method, Decision("speculator", described(source), way.reason, way.source))


def _methods(target: ChosenTarget) -> str:
    return ", ".join(dict.fromkeys(one.method for one in target.offered)) or "ngram or suffix"


def _has_mtp(facts: Facts) -> bool:
    text = facts.get("text_config", facts)
    return not facts or any(text.get(key) for key in MTP_KEYS)
