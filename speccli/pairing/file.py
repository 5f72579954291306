"""A pairing file: a target in its variants, the speculators made for it, and which of them suit which machine."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from speccli.errors import UsageError
from speccli.hardware import Hardware
from speccli.hardware.shipped import named
from speccli.pairing.facts import wrong_kinds
from speccli.profile import Method, Settings, check_engine
from speccli.profile.document import Document, Step
from speccli.source import Source

NEEDS_SPECULATOR: frozenset[Method] = frozenset({"draft_model", "eagle", "eagle3", "medusa", "dflash", "dspark"})
TAKES_SPECULATOR: frozenset[Method] = NEEDS_SPECULATOR | {"mtp"}
"""MTP runs on layers of the target itself, or, for Gemma 4, on a checkpoint of its own."""

MAX_SPECULATIVE_TOKENS = 64
"""vLLM's rejection sampler takes 128 in one step (`vllm/v1/sample/rejection_sampler.py`), but every token is verified,
and no published way to speculate proposes more than 32."""

CHOSEN_ELSEWHERE = ("target", "method", "speculator", "num_speculative_tokens", "hardware")
"""Settings that a pairing file says by its other keys."""

Facts = dict[str, Any]
"""Of a checkpoint's config.json, in its own words: what its sizes and vLLM's checks depend on."""


@functools.cache
def machine_named(name: str) -> Hardware:
    """A machine that a choice is for, as its shipped profile describes it."""
    return named(name)


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    unverified: tuple[str, ...] = ()
    """Keys whose values were remembered or taken over by analogy, not read in the checkpoint or in a public source."""


class Target(_Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One variant of the target: a checkpoint in one precision."""

    name: str
    source: Source
    precision: str
    """As people say it: bf16, fp8, int8, int4, mxfp4."""
    licence: str
    gated: bool = False
    """The hub asks for a licence to be accepted, and for a token."""
    weight_bytes: int | None = None
    """As loaded. Worked out from the shapes unless a source gives it."""
    quantization_config: Facts | None = None
    """That of config.json, which joins the file's facts."""
    note: str = ""


class Published(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody measured. Figures of different data, k or engines do not compare."""

    mean_acceptance_length: float | None = None
    """Tokens per step, the bonus token included."""
    speedup: float | None = None
    """Over plain decoding."""
    num_speculative_tokens: int | None = None
    data: str
    source: str


class Speculator(_Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to speculate for the targets of this file."""

    name: str
    method: Method
    source: Source | str | None = None
    """A text names a target of another file, or of this one. None: the method needs no checkpoint of its own."""
    num_speculative_tokens: int
    max_num_speculative_tokens: int | None = None
    """More than this many it was not made for."""
    reason: str
    """For the number of tokens."""
    targets: tuple[str, ...] = ()
    """The variants that it goes with; all of them where none is named."""
    config: dict[str, Any] = {}
    """Further keys of vLLM's speculative_config."""
    needs: tuple[str, ...] = ()
    """Packages that vLLM does not bring along."""
    published: tuple[Published, ...] = ()
    licence: str = ""
    """Empty where there are no weights, or where they are the target's."""
    gated: bool = False
    facts: Facts = {}
    weight_bytes: int | None = None
    """What it adds to the target's weights, without embeddings that vLLM shares with the target."""
    note: str = ""

    def goes_with(self, target: str) -> bool:
        return not self.targets or target in self.targets


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is taken on some machines where nothing else is asked for."""

    hardware: tuple[str, ...]
    """Names of hardware profiles, with a count where there are several devices: l4, h100x2, cpu."""
    target: str
    target_reason: str = "it is the only variant"
    speculator: str
    reason: str
    """For the speculator."""
    max_batch_size: Annotated[int, Meta(ge=1)] | None = None
    """With more requests in flight than this, plain decoding is faster, and `batch` takes it. None: not measured."""
    is_default: bool = msgspec.field(default=False, name="default")
    """This pairing is taken on those machines where no target is named either."""
    settings: Settings = Settings()


class PairingFile(_Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of profiles/pairings, or of the user's folder of pairings."""

    about: str
    facts: Facts = {}
    """Of the target in its own precision; the variants add their quantization_config."""
    targets: tuple[Target, ...]
    speculators: tuple[Speculator, ...]
    choices: tuple[Choice, ...]
    settings: Settings = Settings()

    def target(self, name: str) -> Target:
        return next(one for one in self.targets if one.name == name)

    def speculator(self, name: str) -> Speculator:
        return next(one for one in self.speculators if one.name == name)

    def facts_of(self, target: Target) -> Facts:
        """The config.json of that variant, as far as it is known."""
        quantization = target.quantization_config
        return {**self.facts, "quantization_config": quantization} if quantization and self.facts else self.facts


Problem = tuple[tuple[Step, ...], str, str]
"""Where, what is wrong, what to do."""


def checked(document: Document) -> PairingFile:
    """The document as a pairing file whose parts fit together. Raises `UsageError` with the line."""
    file = document.convert(PairingFile)
    for path, problem, hint in problems(file):
        raise document.refuse(path, problem, hint)
    for path, settings in _settings(file):
        check_engine(document, settings, (*path, "engine"))
    return file


def problems(file: PairingFile) -> Iterator[Problem]:
    """What does not fit together in a file that is well-formed."""
    for key in ("targets", "speculators", "choices"):
        if not getattr(file, key):
            yield (key,), f"`{key}` is empty", "add one"
    yield from _same_names("targets", [one.name for one in file.targets])
    yield from _same_names("speculators", [one.name for one in file.speculators])
    for index, speculator in enumerate(file.speculators):
        yield from _of_speculator(file, speculator, ("speculators", index))
    for index, choice in enumerate(file.choices):
        yield from _of_choice(file, choice, ("choices", index))
    for path, settings in _settings(file):
        for key in CHOSEN_ELSEWHERE:
            if getattr(settings, key) is not None:
                yield (*path, key), f"`{key}` is not a setting of a pairing", "say it in `choices`"
    for path, facts in _facts(file):
        for place, expected in wrong_kinds(facts):
            yield (
                (*path, *place),
                f"`{place[-1]}` must be {expected}",
                "write it as the checkpoint's config.json has it",
            )
    yield from _unverified(file)


def _facts(file: PairingFile) -> Iterator[tuple[tuple[Step, ...], Facts]]:
    yield ("facts",), file.facts
    for index, speculator in enumerate(file.speculators):
        yield ("speculators", index, "facts"), speculator.facts


def _same_names(key: str, names: list[str]) -> Iterator[Problem]:
    for name, count in Counter(names).items():
        if count > 1:
            index = len(names) - 1 - names[::-1].index(name)
            yield (key, index, "name"), f"{name!r} stands twice in `{key}`", "give each its own name"


def _of_speculator(file: PairingFile, speculator: Speculator, path: tuple[Step, ...]) -> Iterator[Problem]:
    name, method, k = speculator.name, speculator.method, speculator.num_speculative_tokens
    if method == "none":
        yield (*path, "method"), "`none` is no speculator", "leave it out: --no-spec decodes plainly"
    if method in NEEDS_SPECULATOR and speculator.source is None:
        yield (*path, "method"), f"{name}: method {method} needs a checkpoint", "add `source:`"
    if method not in TAKES_SPECULATOR and speculator.source is not None:
        yield (*path, "source"), f"{name}: method {method} takes no checkpoint", "leave `source` out"
    if not 1 <= k <= (speculator.max_num_speculative_tokens or MAX_SPECULATIVE_TOKENS):
        limit = speculator.max_num_speculative_tokens or MAX_SPECULATIVE_TOKENS
        yield (*path, "num_speculative_tokens"), f"{name}: {k} tokens are not within 1 and {limit}", "correct the value"
    for key in ("method", "model", "num_speculative_tokens", "revision"):
        if key in speculator.config:
            yield (*path, "config", key), f"{name}: `{key}` is not for `config`", "it has a key of its own here"
    yield from _names(file.targets, speculator.targets, (*path, "targets"), "target")


def _of_choice(file: PairingFile, choice: Choice, path: tuple[Step, ...]) -> Iterator[Problem]:
    if not choice.hardware:
        yield (*path, "hardware"), "this choice is for no hardware", "name a machine: `speccli profiles list` has them"
    for index, machine in enumerate(choice.hardware):
        try:
            machine_named(machine)
        except UsageError as error:
            yield (*path, "hardware", index), error.message, error.hint
    yield from _names(file.targets, [choice.target], (*path, "target"), "target")
    yield from _names(file.speculators, [choice.speculator], (*path, "speculator"), "speculator")
    speculator = next((one for one in file.speculators if one.name == choice.speculator), None)
    if speculator is not None and not speculator.goes_with(choice.target):
        yield (*path, "speculator"), f"{choice.speculator} does not go with {choice.target}", "choose another"


def _names(
    known: Iterable[Target | Speculator], given: Iterable[str], path: tuple[Step, ...], noun: str
) -> Iterator[Problem]:
    names = [one.name for one in known]
    for name in given:
        if name not in names:
            yield path, f"this file has no {noun} {name!r}", f"it has {', '.join(names)}"


def _settings(file: PairingFile) -> Iterator[tuple[tuple[Step, ...], Settings]]:
    yield ("settings",), file.settings
    for index, choice in enumerate(file.choices):
        yield ("choices", index, "settings"), choice.settings


def _unverified(file: PairingFile) -> Iterator[Problem]:
    parts: list[tuple[tuple[Step, ...], _Part]] = [((), file)]
    parts += [(("targets", index), one) for index, one in enumerate(file.targets)]
    parts += [(("speculators", index), one) for index, one in enumerate(file.speculators)]
    for path, part in parts:
        for key in part.unverified:
            if not _is_given(part, key):
                yield (*path, "unverified"), f"`unverified` names {key!r}, which is not set here", "correct the name"


def _is_given(part: _Part, key: str) -> bool:
    """A name in `unverified` is a key, or a key of `facts`, as in `facts.head_dim`."""
    name, _, inner = key.partition(".")
    value = getattr(part, name, None)
    return inner in value if inner and isinstance(value, dict) else value not in (None, "", (), {})
